//! Trying: two at once, while a token is on its way, with a member out of reach, given up at any
//! step. Whoever tries gets an answer, and nobody is inside beside it.

mod network;

use std::time::Duration;

use mutua_brain::{Answer, Member, Refusal, Rule, Ticket, usable};
use network::{Scene, World};

const NODES: usize = 3;
const LONG: Duration = Duration::from_secs(5);

/// Nodes that have met, one name, and nobody who wants it.
fn calm(algorithm: &str, seed: u64) -> World {
    let mut scene = Scene::new(seed, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (1, 0);
    scene.limits.forget_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    world
}

/// Somebody tries, or waits; where it is answered at once, the answer is noted like a later one.
fn ask(world: &mut World, node: usize, trying: bool) -> Option<Ticket> {
    let (now, lock) = (world.now, world.places[node].locks[0]);
    let answer = world.call(node, |brain| match trying {
        true => brain.try_acquire(now, lock, None),
        false => brain.acquire(now, lock, None),
    });
    match answer {
        Answer::Granted { ticket, .. } => {
            world.granted.push((node, ticket));
            Some(ticket)
        }
        Answer::Waiting { ticket } => Some(ticket),
        Answer::Refused(why) => {
            world.refused.push((node, Ticket(0), why));
            None
        }
    }
}

fn leave(world: &mut World, node: usize, ticket: Ticket) {
    let (now, lock) = (world.now, world.places[node].locks[0]);
    assert!(world.call(node, |brain| brain.release(now, lock, ticket)));
}

fn cancel(world: &mut World, node: usize, ticket: Ticket) -> bool {
    let (now, lock) = (world.now, world.places[node].locks[0]);
    world.call(node, |brain| brain.cancel(now, lock, ticket))
}

fn steps(world: &mut World, steps: u64) {
    let end = world.now.after(LONG);
    for _ in 0..steps {
        world.step(end);
    }
}

/// In and out again, after any wait.
fn visit(world: &mut World, node: usize) {
    let ticket = ask(world, node, false).expect("it waits");
    world.pass(LONG);
    assert!(world.granted.contains(&(node, ticket)), "node {node} never got in");
    leave(world, node, ticket);
}

/// Nobody of any node waits or is inside.
fn is_clear(world: &World) -> bool {
    world.places.iter().all(|place| {
        let status = place.brain.as_ref().expect("up").status(world.now);
        status.waiting == 0 && status.inside == 0
    })
}

#[test]
fn of_two_who_try_at_once_one_gets_in_and_the_other_hears_that_it_is_busy() {
    for about in usable() {
        for between in 0..16 {
            let mut world = calm(about.name, between);
            let seen = format!("{}, {between} steps", about.name);
            ask(&mut world, 1, true);
            steps(&mut world, between);
            ask(&mut world, 2, true);
            world.pass(LONG);
            assert_eq!(world.granted.len(), 1, "{seen}: {:?}", world.granted);
            assert_eq!(world.refused.len(), 1, "{seen}: {:?}", world.refused);
            assert_eq!(world.refused[0].2, Refusal::Busy, "{seen}");
            let (winner, ticket) = world.granted[0];
            leave(&mut world, winner, ticket);
            world.pass(LONG);
            assert!(is_clear(&world), "{seen}");
            for node in [2, 0, 1] {
                visit(&mut world, node);
            }
        }
    }
}

#[test]
fn a_try_meets_a_token_on_its_way_to_nobody_and_takes_it_and_one_to_somebody_and_does_not() {
    for about in usable() {
        for between in 0..24 {
            let gives_up = between % 2 == 0;
            let mut world = calm(about.name, between);
            let seen = format!("{}, {between} steps", about.name);
            let first = ask(&mut world, 0, false).expect("it waits");
            world.pass(LONG);
            let second = ask(&mut world, 1, false).expect("it waits");
            world.pass(LONG);
            assert_eq!(world.granted, [(0, first)], "{seen}");
            if gives_up {
                assert!(cancel(&mut world, 1, second));
            }
            leave(&mut world, 0, first);
            steps(&mut world, between / 2);
            let third = ask(&mut world, 2, true);
            world.pass(LONG);
            let expected = match gives_up {
                // Nobody is inside and nobody waits, wherever the token is.
                true => (2, third.expect("it is told to wait")),
                false => (1, second),
            };
            assert_eq!(world.granted, [(0, first), expected], "{seen}");
            let refused: Vec<_> = world.refused.iter().map(|one| &one.2).collect();
            let busy = [&Refusal::Busy];
            assert_eq!(refused, if gives_up { &busy[..0] } else { &busy[..] }, "{seen}");
        }
    }
}

#[test]
fn who_gives_up_a_try_at_any_step_leaves_nothing_behind() {
    for about in usable() {
        for between in 0..24 {
            let mut world = calm(about.name, between);
            let ticket = ask(&mut world, 1, true).expect("nobody is inside");
            steps(&mut world, between);
            assert!(cancel(&mut world, 1, ticket), "{}, {between} steps", about.name);
            world.pass(LONG);
            assert!(is_clear(&world), "{}, {between} steps", about.name);
            let inside = ask(&mut world, 2, true).expect("nobody is inside");
            world.pass(LONG);
            assert!(world.granted.contains(&(2, inside)), "{}, {between} steps", about.name);
        }
    }
}

#[test]
fn with_a_member_out_of_reach_a_try_is_no_answer_about_the_lock() {
    for about in usable() {
        for before in 0..12 {
            let mut world = calm(about.name, before);
            let seen = format!("{}, {before} steps", about.name);
            // So that it has to ask: the others are inside and out again, last the one that goes.
            visit(&mut world, 2);
            world.pass(LONG);
            (world.granted, world.refused) = (Vec::new(), Vec::new());
            let ticket = ask(&mut world, 0, true);
            steps(&mut world, before);
            world.cut_off(2, Duration::from_secs(3));
            world.pass(Duration::from_secs(1));
            // In time, or told that it cannot be known; never that it is busy.
            for (_, _, why) in &world.refused {
                assert!(is_no_answer(why), "{seen}: {why}");
            }
            assert_eq!(world.granted.len() + world.refused.len(), 1, "{seen}");
            // Now the view has ended, or soon will.
            ask(&mut world, 1, true);
            let (_, _, why) = world.refused.last().expect("refused at once");
            assert!(is_no_answer(why), "{seen}: {why}");
            if let Some(&(node, ticket)) = world.granted.first() {
                leave(&mut world, node, ticket);
            }
            world.pass(LONG);
            assert!(is_clear(&world), "{seen}: {ticket:?}");
            let again = ask(&mut world, 0, true).expect("all are back");
            world.pass(LONG);
            assert!(world.granted.contains(&(0, again)), "{seen}");
        }
    }
}

fn is_no_answer(why: &Refusal) -> bool {
    matches!(why, Refusal::Unreachable(Member(2)) | Refusal::NoView(_))
}
