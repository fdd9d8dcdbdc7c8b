//! Views of every size, and names that are removed while a member is excluded.

use mutua_algorithms::About;
use mutua_protocol::{
    Answer, Rule, Ticket, usable,
    views::{Role, ViewSettings},
};

use super::{
    cases::{acquire, pass, release},
    world::{Event, World},
};

/// The first members only vote, so that all others may be lost but one.
const WITNESSES: usize = 3;
const MEMBERS: usize = 4;

fn check_members(world: &World, slots: &[usize], algorithm: &str) {
    for &slot in slots {
        let protocol = world.nodes[slot].layer.as_ref().expect("up");
        let members: Vec<_> = protocol.members().iter().map(|member| member.index()).collect();
        let last = &world.notes[world.notes.len().saturating_sub(40)..];
        let why = protocol.stopped();
        assert_eq!(members, slots, "{algorithm}: {why:?}\n{}", last.join("\n"));
    }
}

/// All of them request the lock, and are granted it one after the other.
fn everybody_enters(world: &mut World, slots: &[usize], algorithm: &str) {
    world.granted.clear();
    for &slot in slots {
        acquire(world, slot);
    }
    for granted in 1..=slots.len() {
        pass(world, 3000);
        assert_eq!(world.granted.len(), granted, "{algorithm}: {slots:?}");
        let &(slot, ticket) = world.granted.last().expect("just seen");
        assert!(release(world, slot, ticket), "{algorithm}: {slots:?}");
    }
}

#[test]
fn trap_1_every_algorithm_runs_in_views_of_every_size() {
    for about in usable() {
        let roles = [[Role::Witness; WITNESSES].as_slice(), &[Role::Follower; MEMBERS]].concat();
        let rule = Rule::new("*", about.name);
        let mut world = World::new(7, rule, ViewSettings::default(), &roles);
        world.clients = 0;
        world.calm_at = 0;
        world.verbose = true;
        pass(&mut world, 5000);
        let all: Vec<_> = (WITNESSES..WITNESSES + MEMBERS).collect();
        everybody_enters(&mut world, &all, about.name);
        // Losses, then joins; the lock starts anew with each view.
        for size in (1..MEMBERS).rev() {
            world.kill(all[size]);
            pass(&mut world, 5000);
            check_members(&world, &all[..size], about.name);
            everybody_enters(&mut world, &all[..size], about.name);
        }
        for size in 2..=MEMBERS {
            let (now, slot) = (world.now, all[size - 1]);
            world.at(now, Event::Start { slot });
            pass(&mut world, 12_000);
            check_members(&world, &all[..size], about.name);
            everybody_enters(&mut world, &all[..size], about.name);
        }
    }
}

fn enter_and_exit(world: &mut World, slot: usize, name: &str) {
    let acquired = world.call(slot, |protocol, now| {
        let lock = protocol.open(name.as_bytes()).expect("short");
        (lock, protocol.acquire(now, lock, None))
    });
    let (lock, answer) = acquired.expect("up");
    let ticket: Ticket = match answer {
        Answer::Granted { ticket, .. } => ticket,
        Answer::Waiting { ticket } => {
            let mut left = 100;
            while !world.granted.contains(&(slot, ticket)) && left > 0 {
                pass(world, 20);
                left -= 1;
            }
            assert!(world.granted.contains(&(slot, ticket)), "{name} at {slot}");
            ticket
        }
        Answer::Refused(why) => panic!("{name} at {slot}: {why}"),
    };
    let released = world.call(slot, |protocol, now| protocol.release(now, lock, ticket));
    assert_eq!(released, Some(true), "{name} at {slot}");
    world.call(slot, |protocol, _| protocol.close(lock));
}

#[test]
fn trap_15_names_are_removed_while_a_member_is_excluded_and_used_meanwhile() {
    const NAMES: usize = 40;
    // A token that never rests keeps its name until the view ends.
    let rests = |about: &&About| !["le-lann", "dijkstra"].contains(&about.name);
    for about in usable().filter(rests) {
        let mut world = super::cases::world(about.name, 3);
        world.kill(0);
        pass(&mut world, 5000);
        for name in 0..NAMES {
            enter_and_exit(&mut world, 1, &format!("name {name}"));
        }
        let locks = |world: &World, slot: usize| {
            world.nodes[slot].layer.as_ref().expect("up").status(world.local(slot)).locks
        };
        // One after the other is used again while they become unused and are removed.
        for name in 0..NAMES {
            pass(&mut world, 60);
            enter_and_exit(&mut world, 2, &format!("name {name}"));
        }
        pass(&mut world, 30_000);
        for slot in [1, 2] {
            assert!(locks(&world, slot) < NAMES / 2, "{}: {}", about.name, locks(&world, slot));
        }
    }
}
