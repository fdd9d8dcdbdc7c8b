//! Single situations.

use std::time::Duration;

use mutua_protocol::{
    Answer, Member, Rule, Ticket, usable,
    views::{self, Command, DecidedView, Levels, Role, ViewNumber, ViewSettings},
};

use super::{events::SECOND, wires::LONGEST_DELAY, world::World};

pub(crate) fn world(algorithm: &str, nodes: usize) -> World {
    world_with(algorithm, nodes, &[])
}

/// The same, where some nodes are of a version that can use the lowest level only.
pub(crate) fn world_with(algorithm: &str, nodes: usize, older: &[usize]) -> World {
    let rule = Rule::new("*", algorithm);
    let mut world = World::new(7, rule, ViewSettings::default(), &vec![Role::Voter; nodes]);
    world.clients = 0;
    world.calm_at = 0;
    for &slot in older {
        world.nodes[slot].levels = Levels::HERE.up_to(0);
    }
    world.run(4 * SECOND);
    for node in &world.nodes {
        let protocol = node.layer.as_ref().expect("up");
        assert_eq!(protocol.members().len(), nodes, "{algorithm}: {:?}", protocol.stopped());
    }
    world
}

pub(crate) fn pass(world: &mut World, millis: u64) {
    world.run(world.now + millis * 1_000_000);
    assert_eq!(world.failure, None);
}

pub(crate) fn acquire(world: &mut World, slot: usize) -> Ticket {
    let lock = world.nodes[slot].locks[0];
    match world.call(slot, |protocol, now| protocol.acquire(now, lock, None)) {
        Some(Answer::Granted { ticket, .. }) => {
            world.granted.push((slot, ticket));
            ticket
        }
        Some(Answer::Waiting { ticket }) => ticket,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn release(world: &mut World, slot: usize, ticket: Ticket) -> bool {
    let lock = world.nodes[slot].locks[0];
    world.call(slot, |protocol, now| protocol.release(now, lock, ticket)).expect("up")
}

fn stopped(world: &World, slot: usize) -> Option<String> {
    world.nodes[slot].layer.as_ref().expect("up").stopped()
}

#[test]
fn waiters_keep_their_order_when_the_holders_node_crashes() {
    for about in usable() {
        // Sizes without the algorithm's structure fall back.
        let mut world = world(about.name, 4);
        let held = acquire(&mut world, 3);
        pass(&mut world, 4000);
        assert_eq!(world.granted, [(3, held)], "{}", about.name);
        let order = [2, 0, 1];
        let waiting: Vec<_> = order
            .iter()
            .map(|&slot| {
                let ticket = acquire(&mut world, slot);
                // Less than the time between the reports of two members.
                pass(&mut world, 100);
                (slot, ticket)
            })
            .collect();
        world.kill(3);
        world.granted.clear();
        pass(&mut world, 6000);
        // The longest waiter is granted first, by every algorithm.
        assert_eq!(world.granted, waiting[..1], "{}", about.name);
        for _ in 1..3 {
            let &(slot, ticket) = world.granted.last().expect("a holder");
            assert!(release(&mut world, slot, ticket), "{}", about.name);
            pass(&mut world, 4000);
        }
        let mut all = world.granted.clone();
        if ["lamport", "ricart-agrawala"].contains(&about.name) {
            assert_eq!(all, waiting, "{}: requests keep their order", about.name);
        }
        all.sort_unstable();
        assert_eq!(
            all,
            {
                let mut all = waiting.clone();
                all.sort_unstable();
                all
            },
            "{}",
            about.name
        );
    }
}

/// A guard of a node that stops in order is lost when a view without the node is decided. The
/// others wait until it is dropped, and not until its lease has ended.
#[test]
fn the_others_go_on_when_a_node_that_stops_has_released_its_last_guard() {
    let mut world = world("naimi-trehel", 3);
    let held = acquire(&mut world, 2);
    pass(&mut world, 4000);
    assert_eq!(world.granted, [(2, held)]);
    world.call(2, |protocol, now| protocol.retire(now));
    let is_in_view =
        |world: &World| !world.nodes[2].layer.as_ref().expect("up").members().is_empty();
    for _ in 0..1000 {
        if !is_in_view(&world) {
            break;
        }
        pass(&mut world, 1);
    }
    assert!(!is_in_view(&world), "no view is decided without it");
    pass(&mut world, 100);
    assert!(stopped(&world, 0).is_some(), "the guard may still be in use");
    assert!(release(&mut world, 2, held));
    // A third of a view lease.
    pass(&mut world, 500);
    assert_eq!(stopped(&world, 0), None);
    assert_eq!(stopped(&world, 1), None);
}

/// Acquires a lock for a client outside the process; returns when it was granted.
fn acquire_outside(world: &mut World, slot: usize) -> (Ticket, u64) {
    let ticket = acquire(world, slot);
    while !world.granted.contains(&(slot, ticket)) {
        pass(world, 1);
    }
    let (granted, lock) = (world.now, world.nodes[slot].locks[0]);
    let (session, ttl) = (1 + slot as u64, Duration::from_secs(10));
    let client = views::Client { session, ttl, value: Vec::new() };
    let recording = world.call(slot, |protocol, now| protocol.record(now, lock, ticket, client));
    assert_eq!(recording, Some(true), "it holds the lock");
    (ticket, granted)
}

/// What a client outside the process costs: one round trip to the keepers behind the grant.
#[test]
fn a_hold_of_a_client_outside_is_recorded_after_one_round_trip() {
    for about in usable() {
        let mut world = world(about.name, 5);
        // A TTL that is longer than all before it is decided first.
        let (ticket, _) = acquire_outside(&mut world, 0);
        pass(&mut world, 4000);
        assert_eq!(world.recorded.len(), 1, "{}", about.name);
        assert!(release(&mut world, 0, ticket));
        for slot in 0..5 {
            let (ticket, granted) = acquire_outside(&mut world, slot);
            pass(&mut world, 100);
            let &(recorded, of) = world.recorded.last().expect("recorded");
            assert_eq!(of, ticket, "{}", about.name);
            assert!(recorded > granted, "{}: other members are asked", about.name);
            let most = granted + 2 * LONGEST_DELAY + 1000;
            assert!(recorded <= most, "{}: {recorded} is after {most}", about.name);
            assert!(release(&mut world, slot, ticket));
        }
    }
}

#[test]
fn a_majority_goes_on_while_a_minority_is_cut_off_and_grants_nothing() {
    for about in usable() {
        let mut world = world(about.name, 5);
        let held = acquire(&mut world, 0);
        pass(&mut world, 4000);
        assert_eq!(world.granted, [(0, held)], "{}", about.name);
        let cuts: Vec<_> = [0, 1]
            .into_iter()
            .flat_map(|one| (2..5).flat_map(move |other| [(one, other), (other, one)]))
            .collect();
        let waiting = [1, 4, 3].map(|slot| acquire(&mut world, slot));
        world.granted.clear();
        world.cut(&cuts);
        pass(&mut world, 6000);
        assert_eq!(world.granted, [(4, waiting[1])], "{}", about.name);
        assert!(stopped(&world, 0).is_some() && stopped(&world, 1).is_some());
        assert_eq!(stopped(&world, 4), None);
        assert!(!release(&mut world, 0, held), "{}: its hold has ended by itself", about.name);
        assert!(release(&mut world, 4, waiting[1]));
        pass(&mut world, 4000);
        assert_eq!(world.granted.last(), Some(&(3, waiting[2])), "{}", about.name);
        // The minority is back, and its waiter is served.
        world.heal(&cuts);
        pass(&mut world, 20_000);
        assert!(release(&mut world, 3, waiting[2]), "{}: not disturbed", about.name);
        pass(&mut world, 8000);
        assert_eq!(world.granted.last(), Some(&(1, waiting[0])), "{}", about.name);
    }
}

#[test]
fn a_holder_in_a_surviving_node_is_not_disturbed() {
    // The member with the highest id crashes, and the one with the lowest.
    for (about, crashed) in usable().flat_map(|about| [(about, 0), (about, 3)]) {
        let mut world = world(about.name, 4);
        let held = acquire(&mut world, 1);
        pass(&mut world, 4000);
        assert_eq!(world.granted, [(1, held)], "{}", about.name);
        let next = acquire(&mut world, 2);
        world.kill(crashed);
        pass(&mut world, 5000);
        assert_eq!(world.granted.len(), 1, "{}", about.name);
        assert_eq!(world.counts.lost, 0, "{}", about.name);
        let members = world.nodes[1].layer.as_ref().expect("up").members().to_vec();
        let rest: Vec<_> = (0..4).filter(|&slot| slot != crashed as u32).map(Member).collect();
        assert_eq!(members, rest, "{}", about.name);
        assert!(release(&mut world, 1, held), "{}", about.name);
        pass(&mut world, 4000);
        assert_eq!(world.granted.last(), Some(&(2, next)), "{}", about.name);
    }
}

#[test]
fn a_lapsed_lease_that_returns_in_the_same_view_lets_waiters_in() {
    for about in usable() {
        let mut world = world(about.name, 3);
        let view = world.nodes[1].layer.as_ref().expect("up").epoch();
        // Longer than the lease, and shorter than the silence after which a member is removed.
        world.pause(1, Duration::from_millis(1450));
        pass(&mut world, 100);
        let ticket = acquire(&mut world, 1);
        pass(&mut world, 4000);
        let protocol = world.nodes[1].layer.as_ref().expect("up");
        assert_eq!(protocol.epoch(), view, "{}: the view goes on", about.name);
        assert_eq!(world.granted, [(1, ticket)], "{}", about.name);
    }
}

#[test]
fn messages_that_wait_for_an_excluded_member_are_dropped() {
    let mut world = world("ricart-agrawala", 3);
    let cuts = [(0, 1), (1, 0), (0, 2), (2, 0)];
    world.cut(&cuts);
    world.break_wires(|ends| ends.contains(&0));
    pass(&mut world, 100);
    // Requests that node 0 does not receive.
    for name in 0..2000 {
        world.call(1, |protocol, now| {
            let lock = protocol.open(format!("name {name}").as_bytes()).expect("short");
            protocol.acquire(now, lock, None)
        });
    }
    let backlog = |world: &World| {
        let status = world.nodes[1].layer.as_ref().expect("up").status(world.local(1));
        status.links[0].backlog
    };
    pass(&mut world, 100);
    assert!(backlog(&world) >= 2000, "{}", backlog(&world));
    pass(&mut world, 5000);
    assert_eq!(backlog(&world), 0, "the view without node 0 has begun");
    world.heal(&cuts);
    pass(&mut world, 15_000);
    assert_eq!(world.nodes[0].layer.as_ref().expect("up").members().len(), 3);
    assert_eq!(world.nodes[0].incarnation, 1);
    let ticket = acquire(&mut world, 0);
    pass(&mut world, 1000);
    assert!(world.granted.contains(&(0, ticket)));
}

#[test]
fn a_node_that_knows_of_later_epochs_silences_nobody() {
    let mut world = world("lamport", 3);
    world.kill(2);
    world.nodes[2].disk = 5000;
    let now = world.now;
    world.at(now, super::world::Event::Start { slot: 2 });
    pass(&mut world, 10_000);
    for slot in 0..3 {
        let protocol = world.nodes[slot].layer.as_ref().expect("up");
        assert!(protocol.epoch() > Some(5000), "{:?}", protocol.stopped());
        let ticket = acquire(&mut world, slot);
        pass(&mut world, 1000);
        assert!(release(&mut world, slot, ticket));
    }
    assert_eq!(world.granted.len(), 3);
}

#[test]
fn a_view_without_a_node_that_never_begins_takes_nothing_from_its_clients() {
    for about in usable() {
        let mut world = world(about.name, 3);
        let (lock, ticket) = (world.nodes[1].locks[0], acquire(&mut world, 1));
        pass(&mut world, 4000);
        let value = 0_u64.to_le_bytes().to_vec();
        let client = views::Client { session: 7, ttl: Duration::from_secs(60), value };
        let recorded = world.call(1, |protocol, now| protocol.record(now, lock, ticket, client));
        assert_eq!(recorded, Some(true), "{}", about.name);
        pass(&mut world, 4000);
        // A view without the node is decided, and another with it at once: the first never begins.
        let last = world.engine.state.last().expect("a view").clone();
        let gone = world.nodes[1].id;
        let mut without = DecidedView { number: ViewNumber(last.number.0 + 1), ..last.clone() };
        without.members.retain(|one| one.member != gone);
        without.keepers.retain(|one| one.member != gone);
        world.on_commit(Command::View(without));
        world.on_commit(Command::View(DecidedView {
            number: ViewNumber(last.number.0 + 2),
            ..last
        }));
        pass(&mut world, 8000);
        let protocol = world.nodes[1].layer.as_ref().expect("up");
        assert_eq!(protocol.members().len(), 3, "{}: {:?}", about.name, protocol.stopped());
        assert!(protocol.holds(lock, ticket).is_some(), "{}: the hold is lost", about.name);
        let next = acquire(&mut world, 2);
        pass(&mut world, 4000);
        assert!(!world.granted.contains(&(2, next)), "{}", about.name);
        assert!(release(&mut world, 1, ticket), "{}", about.name);
        pass(&mut world, 4000);
        assert!(world.granted.contains(&(2, next)), "{}", about.name);
    }
}
