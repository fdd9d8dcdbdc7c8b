//! Fairness between nodes: however many clients of one node wait, a client that waits at another
//! one gets the lock after a bounded number of them.

mod network;

use std::time::Duration;

use mutua_protocol::{Answer, LockId, Rule, Ticket, usable};
use network::{Scene, World};

const NODES: usize = 3;

/// The number of clients of one node that get the lock one after the other.
const RUN: u32 = 5;

fn calm(algorithm: &str) -> (World, Vec<LockId>) {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients, scene.limits.run) = (1, 0, RUN);
    scene.limits.idle_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    let locks = (0..NODES).map(|node| world.nodes[node].locks[0]).collect();
    (world, locks)
}

fn acquire(world: &mut World, node: usize, lock: LockId) -> Ticket {
    let now = world.now;
    match world.call(node, |protocol| protocol.acquire(now, lock, None)) {
        Answer::Granted { ticket, .. } => {
            world.granted.push((node, ticket));
            ticket
        }
        Answer::Waiting { ticket } => ticket,
        Answer::Refused(why) => panic!("{why}"),
    }
}

/// The holder releases; returns its node.
fn release(world: &mut World, locks: &[LockId]) -> Option<usize> {
    let (node, ticket) = world.granted.pop()?;
    let now = world.now;
    assert!(world.call(node, |protocol| protocol.release(now, locks[node], ticket)));
    Some(node)
}

#[test]
fn a_waiter_at_another_node_gets_the_lock_when_a_run_is_over() {
    for about in usable() {
        let (mut world, locks) = calm(about.name);
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        assert_eq!(world.granted.len(), 1, "{}", about.name);
        for _ in 0..10 * RUN {
            acquire(&mut world, 0, locks[0]);
        }
        // The first client still holds the lock, and its run has begun.
        acquire(&mut world, 1, locks[1]);
        world.pass(Duration::from_secs(5));
        let mut run = 0;
        while release(&mut world, &locks) == Some(0) {
            run += 1;
            world.pass(Duration::from_secs(5));
        }
        assert_eq!(run, RUN, "{}", about.name);
        // All others follow, in runs.
        let mut rest = 0;
        world.pass(Duration::from_secs(20));
        while release(&mut world, &locks).is_some() {
            rest += 1;
            world.pass(Duration::from_secs(20));
        }
        assert_eq!(rest, 1 + 10 * RUN - RUN, "{}", about.name);
    }
}

#[test]
fn a_client_that_released_does_not_get_the_lock_again_before_a_request_that_has_arrived() {
    for about in usable() {
        let (mut world, locks) = calm(about.name);
        // Its node held the lock before, and has it now.
        for _ in 0..3 {
            acquire(&mut world, 0, locks[0]);
            world.pass(Duration::from_secs(20));
            assert_eq!(release(&mut world, &locks), Some(0), "{}", about.name);
        }
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        acquire(&mut world, 1, locks[1]);
        world.pass(Duration::from_secs(5));
        assert_eq!(release(&mut world, &locks), Some(0), "{}", about.name);
        acquire(&mut world, 0, locks[0]);
        world.pass(Duration::from_secs(20));
        assert_eq!(release(&mut world, &locks), Some(1), "{}", about.name);
        world.pass(Duration::from_secs(20));
        assert_eq!(release(&mut world, &locks), Some(0), "{}", about.name);
    }
}
