//! Requests that do not wait: two at once, while a token is on its way, with a member out of reach,
//! cancelled at any step. Each one is answered, and no other client holds the lock beside it.

mod network;

use std::time::Duration;

use mutua_protocol::{Answer, Member, Refusal, Rule, Ticket, usable};
use network::{Scene, World};

const NODES: usize = 3;
const LONG: Duration = Duration::from_secs(5);

/// Nodes in a view, one name, and no client that wants it.
fn calm(algorithm: &str, seed: u64) -> World {
    let mut scene = Scene::new(seed, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (1, 0);
    scene.limits.idle_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    world
}

/// A client tries, or waits; an immediate answer is noted like a later one.
fn request(world: &mut World, node: usize, trying: bool) -> Option<Ticket> {
    let (now, lock) = (world.now, world.nodes[node].locks[0]);
    let answer = world.call(node, |protocol| match trying {
        true => protocol.try_acquire(now, lock, None),
        false => protocol.acquire(now, lock, None),
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

fn release(world: &mut World, node: usize, ticket: Ticket) {
    let (now, lock) = (world.now, world.nodes[node].locks[0]);
    assert!(world.call(node, |protocol| protocol.release(now, lock, ticket)));
}

fn cancel(world: &mut World, node: usize, ticket: Ticket) -> bool {
    let (now, lock) = (world.now, world.nodes[node].locks[0]);
    world.call(node, |protocol| protocol.cancel(now, lock, ticket))
}

fn steps(world: &mut World, steps: u64) {
    let end = world.now.after(LONG);
    for _ in 0..steps {
        world.step(end);
    }
}

/// Acquires and releases, after any wait.
fn visit(world: &mut World, node: usize) {
    let ticket = request(world, node, false).expect("it waits");
    world.pass(LONG);
    assert!(world.granted.contains(&(node, ticket)), "node {node} was never granted");
    release(world, node, ticket);
}

/// No client of any node waits or holds.
fn is_clear(world: &World) -> bool {
    world.nodes.iter().all(|slot| {
        let status = slot.protocol.as_ref().expect("up").status(world.now);
        status.waiting == 0 && status.held == 0
    })
}

#[test]
fn of_two_clients_that_try_at_once_one_holds_the_lock_and_the_other_is_refused_as_busy() {
    for about in usable() {
        for between in 0..16 {
            let mut world = calm(about.name, between);
            let seen = format!("{}, {between} steps", about.name);
            request(&mut world, 1, true);
            steps(&mut world, between);
            request(&mut world, 2, true);
            world.pass(LONG);
            assert_eq!(world.granted.len(), 1, "{seen}: {:?}", world.granted);
            assert_eq!(world.refused.len(), 1, "{seen}: {:?}", world.refused);
            assert_eq!(world.refused[0].2, Refusal::Busy, "{seen}");
            let (winner, ticket) = world.granted[0];
            release(&mut world, winner, ticket);
            world.pass(LONG);
            assert!(is_clear(&world), "{seen}");
            for node in [2, 0, 1] {
                visit(&mut world, node);
            }
        }
    }
}

#[test]
fn a_try_gets_a_token_that_is_on_its_way_to_no_waiter_and_none_that_is_on_its_way_to_one() {
    for about in usable() {
        for between in 0..24 {
            let gives_up = between % 2 == 0;
            let mut world = calm(about.name, between);
            let seen = format!("{}, {between} steps", about.name);
            let first = request(&mut world, 0, false).expect("it waits");
            world.pass(LONG);
            let second = request(&mut world, 1, false).expect("it waits");
            world.pass(LONG);
            assert_eq!(world.granted, [(0, first)], "{seen}");
            if gives_up {
                assert!(cancel(&mut world, 1, second));
            }
            release(&mut world, 0, first);
            steps(&mut world, between / 2);
            let third = request(&mut world, 2, true);
            world.pass(LONG);
            let expected = match gives_up {
                // No client holds or waits, wherever the token is.
                true => (2, third.expect("it waits")),
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
fn a_try_that_is_cancelled_at_any_step_leaves_no_state() {
    for about in usable() {
        for between in 0..24 {
            let mut world = calm(about.name, between);
            let ticket = request(&mut world, 1, true).expect("not held");
            steps(&mut world, between);
            assert!(cancel(&mut world, 1, ticket), "{}, {between} steps", about.name);
            world.pass(LONG);
            assert!(is_clear(&world), "{}, {between} steps", about.name);
            let second = request(&mut world, 2, true).expect("not held");
            world.pass(LONG);
            assert!(world.granted.contains(&(2, second)), "{}, {between} steps", about.name);
        }
    }
}

#[test]
fn with_a_member_out_of_reach_a_try_is_granted_or_undecided_and_never_busy() {
    for about in usable() {
        for before in 0..12 {
            let mut world = calm(about.name, before);
            let seen = format!("{}, {before} steps", about.name);
            // The last holder is the member that is cut off, so that the node has to query it.
            visit(&mut world, 2);
            world.pass(LONG);
            (world.granted, world.refused) = (Vec::new(), Vec::new());
            let ticket = request(&mut world, 0, true);
            steps(&mut world, before);
            world.cut_off(2, Duration::from_secs(3));
            world.pass(Duration::from_secs(1));
            // Granted in time, or undecided; never busy.
            for (_, _, why) in &world.refused {
                assert!(is_undecided(why), "{seen}: {why}");
            }
            assert_eq!(world.granted.len() + world.refused.len(), 1, "{seen}");
            // Now the view has ended, or soon will.
            request(&mut world, 1, true);
            let (_, _, why) = world.refused.last().expect("refused at once");
            assert!(is_undecided(why), "{seen}: {why}");
            if let Some(&(node, ticket)) = world.granted.first() {
                release(&mut world, node, ticket);
            }
            world.pass(LONG);
            assert!(is_clear(&world), "{seen}: {ticket:?}");
            let again = request(&mut world, 0, true).expect("all are connected");
            world.pass(LONG);
            assert!(world.granted.contains(&(0, again)), "{seen}");
        }
    }
}

fn is_undecided(why: &Refusal) -> bool {
    matches!(why, Refusal::Unreachable(Member(2)) | Refusal::NoView(_))
}
