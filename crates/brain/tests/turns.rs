//! Turns between nodes: however many want in at one node, who has asked at another gets in.

mod network;

use std::time::Duration;

use mutua_brain::{Answer, LockId, Rule, Ticket, usable};
use network::{Scene, World};

const NODES: usize = 3;

/// How many of one node may go in one after the other.
const RUN: u32 = 5;

fn calm(algorithm: &str) -> (World, Vec<LockId>) {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients, scene.limits.run) = (1, 0, RUN);
    scene.limits.forget_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    let locks = (0..NODES).map(|node| world.places[node].locks[0]).collect();
    (world, locks)
}

fn acquire(world: &mut World, node: usize, lock: LockId) -> Ticket {
    let now = world.now;
    match world.call(node, |brain| brain.acquire(now, lock, None)) {
        Answer::Granted { ticket, .. } => {
            world.granted.push((node, ticket));
            ticket
        }
        Answer::Waiting { ticket } => ticket,
        Answer::Refused(why) => panic!("{why}"),
    }
}

/// Whoever is inside leaves; which node it was of.
fn leave(world: &mut World, locks: &[LockId]) -> Option<usize> {
    let (node, ticket) = world.granted.pop()?;
    let now = world.now;
    assert!(world.call(node, |brain| brain.release(now, locks[node], ticket)));
    Some(node)
}

#[test]
fn who_waits_at_another_node_gets_in_before_a_run_is_over() {
    for about in usable() {
        let (mut world, locks) = calm(about.name);
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        assert_eq!(world.granted.len(), 1, "{}", about.name);
        for _ in 0..10 * RUN {
            acquire(&mut world, 0, locks[0]);
        }
        // The first one is still inside, and its run has begun.
        acquire(&mut world, 1, locks[1]);
        world.pass(Duration::from_secs(5));
        let mut run = 0;
        while leave(&mut world, &locks) == Some(0) {
            run += 1;
            world.pass(Duration::from_secs(5));
        }
        assert_eq!(run, RUN, "{}", about.name);
        // Everybody else follows, in runs.
        let mut rest = 0;
        world.pass(Duration::from_secs(20));
        while leave(&mut world, &locks).is_some() {
            rest += 1;
            world.pass(Duration::from_secs(20));
        }
        assert_eq!(rest, 1 + 10 * RUN - RUN, "{}", about.name);
    }
}

#[test]
fn who_leaves_does_not_enter_again_before_a_request_that_has_arrived() {
    for about in usable() {
        let (mut world, locks) = calm(about.name);
        // It has been in and out before, where the lock is now.
        for _ in 0..3 {
            acquire(&mut world, 0, locks[0]);
            world.pass(Duration::from_secs(20));
            assert_eq!(leave(&mut world, &locks), Some(0), "{}", about.name);
        }
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        acquire(&mut world, 1, locks[1]);
        world.pass(Duration::from_secs(5));
        assert_eq!(leave(&mut world, &locks), Some(0), "{}", about.name);
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        assert_eq!(leave(&mut world, &locks), Some(1), "{}", about.name);
        world.pass(Duration::from_secs(20));
        assert_eq!(leave(&mut world, &locks), Some(0), "{}", about.name);
    }
}
