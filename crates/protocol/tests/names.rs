//! Names and their waiters: cancelled at every step, cleaned up at all members or none, refused
//! when a link is full.

mod network;

use std::time::Duration;

use mutua_protocol::{Answer, Limits, LockId, Refusal, Rule, Ticket, usable};
use network::{Scene, World};

const NODES: usize = 3;

/// Nodes in a view, with no client that wants a lock.
fn calm(algorithm: &str, seed: u64, names: usize, limits: impl FnOnce(&mut Limits)) -> World {
    let mut scene = Scene::new(seed, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (names, 0);
    limits(&mut scene.limits);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    world
}

fn acquire(world: &mut World, node: usize, lock: LockId) -> Answer {
    let now = world.now;
    let answer = world.call(node, |protocol| protocol.acquire(now, lock, None));
    if let Answer::Granted { ticket, .. } = answer {
        world.granted.push((node, ticket));
    }
    answer
}

fn ticket(answer: &Answer) -> Ticket {
    match *answer {
        Answer::Granted { ticket, .. } | Answer::Waiting { ticket } => ticket,
        Answer::Refused(ref why) => panic!("{why}"),
    }
}

/// Waits until this ticket holds the lock.
fn await_grant(world: &mut World, node: usize, wanted: Ticket) {
    for _ in 0..2000 {
        if world.granted.contains(&(node, wanted)) {
            return;
        }
        world.pass(Duration::from_millis(10));
    }
    panic!("{wanted:?} of node {node} was never granted");
}

fn release(world: &mut World, node: usize, lock: LockId, ticket: Ticket) {
    let now = world.now;
    assert!(world.call(node, |protocol| protocol.release(now, lock, ticket)));
}

/// Acquires and releases; returns the fencing token.
fn visit(world: &mut World, node: usize, lock: LockId) -> u64 {
    let answer = acquire(world, node, lock);
    let ticket = ticket(&answer);
    await_grant(world, node, ticket);
    let protocol = world.nodes[node].protocol.as_ref().expect("up");
    let fence = protocol.holds(lock, ticket).expect("held").number();
    release(world, node, lock, ticket);
    fence
}

#[test]
fn a_waiter_that_cancels_at_any_step_holds_up_no_other() {
    for about in usable() {
        for steps in 0..24 {
            let mut world = calm(about.name, steps, 1, |_| ());
            let locks: Vec<_> = (0..NODES).map(|node| world.nodes[node].locks[0]).collect();
            let holder = ticket(&acquire(&mut world, 0, locks[0]));
            await_grant(&mut world, 0, holder);
            let one = ticket(&acquire(&mut world, 1, locks[1]));
            let end = world.now.after(Duration::from_secs(1));
            for _ in 0..steps {
                world.step(end);
            }
            // Half of the time it is granted while it cancels.
            if steps % 2 == 0 {
                release(&mut world, 0, locks[0], holder);
                for _ in 0..steps {
                    world.step(end);
                }
            }
            let now = world.now;
            assert!(world.call(1, |protocol| protocol.cancel(now, locks[1], one)));
            assert!(!world.call(1, |protocol| protocol.cancel(now, locks[1], one)));
            if steps % 2 == 1 {
                release(&mut world, 0, locks[0], holder);
            }
            for node in [2, 1, 0, 1] {
                visit(&mut world, node, locks[node]);
            }
        }
    }
}

#[test]
fn unused_names_are_cleaned_up_by_all_and_their_fencing_tokens_go_on_growing() {
    for about in usable() {
        let mut world = calm(about.name, 5, 4, |_| ());
        let locks: Vec<_> = (0..NODES).map(|node| world.nodes[node].locks.clone()).collect();
        let mut last = [0; 4];
        for round in 0..3 {
            for name in 0..4 {
                for node in [round, (name + round) % NODES, 2] {
                    let fence = visit(&mut world, node, locks[node][name]);
                    assert!(fence > last[name], "{}: {fence} after {}", about.name, last[name]);
                    last[name] = fence;
                }
            }
            world.pass(Duration::from_secs(8));
            // A token that never rests is never back at its start.
            if ["le-lann", "dijkstra"].contains(&about.name) {
                continue;
            }
            for node in 0..NODES {
                let protocol = world.nodes[node].protocol.as_ref().expect("up");
                for name in 0..4 {
                    let lock = protocol.lock_status(world.now, &World::name(name)).expect("open");
                    assert!(lock.variables.is_empty(), "{} at {node}: {lock:?}", about.name);
                }
            }
        }
    }
}

#[test]
fn a_request_at_any_step_of_idle_cleanup_finds_exactly_one_token() {
    for about in usable() {
        // How often the request came before the name was cleaned up everywhere, and after.
        let mut seen = [0; 2];
        for trial in 0..80 {
            let (steps, round) = (trial / 4 * 2, trial % 4);
            let mut world = calm(about.name, trial, 1, |_| ());
            let locks: Vec<_> = (0..NODES).map(|node| world.nodes[node].locks[0]).collect();
            let mut last = 0;
            for node in [0, 1, 2] {
                last = visit(&mut world, node, locks[node]).max(last);
            }
            // Just before the home looks, for the first time or again: a token that rests elsewhere
            // is brought home first.
            world.pass(Duration::from_millis(390 + 200 * round));
            let end = world.now.after(Duration::from_secs(5));
            for _ in 0..steps {
                world.step(end);
            }
            let cleaned_up = (0..NODES).all(|node| is_cleaned_up(&world, node));
            seen[usize::from(cleaned_up)] += 1;
            let (one, other) = (steps as usize % NODES, (steps as usize + 1) % NODES);
            let first = ticket(&acquire(&mut world, one, locks[one]));
            let second = ticket(&acquire(&mut world, other, locks[other]));
            world.pass(Duration::from_secs(10));
            let fence_of = |world: &World, node: usize, ticket| {
                let protocol = world.nodes[node].protocol.as_ref().expect("up");
                protocol.holds(locks[node], ticket).map(|fence| fence.number())
            };
            let fences = [fence_of(&world, one, first), fence_of(&world, other, second)];
            assert_eq!(fences.iter().flatten().count(), 1, "{}, {steps} steps", about.name);
            for (node, ticket) in [(one, first), (other, second), (one, first)] {
                if let Some(fence) = fence_of(&world, node, ticket) {
                    assert!(fence > last, "{}, {steps} steps: {fence} after {last}", about.name);
                    last = fence;
                    release(&mut world, node, locks[node], ticket);
                    world.pass(Duration::from_secs(10));
                }
            }
            assert_eq!(world.granted.len(), 5, "both were granted: {}, {steps} steps", about.name);
        }
        println!("{:<24} requested before and after its cleanup: {seen:?}", about.name);
        if !["le-lann", "dijkstra"].contains(&about.name) {
            assert!(seen.iter().all(|&times| times > 0), "{}: {seen:?}", about.name);
        }
    }
}

#[test]
fn an_unused_ring_costs_next_to_nothing_and_is_fast_again_when_a_client_wants_it() {
    for algorithm in ["le-lann", "dijkstra"] {
        let mut world = calm(algorithm, 1, 1, |_| ());
        let locks: Vec<_> = (0..NODES).map(|node| world.nodes[node].locks[0]).collect();
        for (node, &lock) in locks.iter().enumerate() {
            visit(&mut world, node, lock);
        }
        // It slows down for a while.
        world.pass(Duration::from_secs(10));
        let counts = |world: &World| {
            let protocols = world.nodes.iter().map(|slot| slot.protocol.as_ref().expect("up"));
            let counts = protocols.map(|protocol| protocol.status(world.now).counts);
            counts.fold((0, 0), |sum, one| (sum.0 + one.messages, sum.1 + one.lazy))
        };
        let before = counts(&world);
        world.pass(Duration::from_secs(60));
        let after = counts(&world);
        // One message every 200 ms, and none that is not lazy.
        let lazy = after.1 - before.1;
        assert!((250..=300).contains(&lazy), "{algorithm}: {lazy} in a minute");
        assert_eq!(after.0, before.0, "{algorithm}");
        // A client that wants it does not wait at that pace.
        for node in [1, 2, 0] {
            let wanted = ticket(&acquire(&mut world, node, locks[node]));
            let requested = world.now;
            while !world.granted.contains(&(node, wanted)) {
                assert!(world.step(requested.after(Duration::from_millis(150))), "{algorithm}");
            }
            release(&mut world, node, locks[node], wanted);
            world.pass(Duration::from_secs(10));
        }
    }
}

#[test]
fn a_name_that_is_held_or_stuck_holds_up_no_other() {
    for about in usable() {
        let mut world = calm(about.name, 3, 8, |_| ());
        let locks: Vec<_> = (0..NODES).map(|node| world.nodes[node].locks.clone()).collect();
        let holder = ticket(&acquire(&mut world, 0, locks[0][0]));
        await_grant(&mut world, 0, holder);
        for (node, locks) in locks.iter().enumerate() {
            for _ in 0..50 {
                let answer = acquire(&mut world, node, locks[0]);
                assert!(matches!(answer, Answer::Waiting { .. }), "{answer:?}");
            }
        }
        for (node, locks) in locks.iter().enumerate().chain(locks.iter().enumerate()) {
            for &lock in &locks[1..] {
                visit(&mut world, node, lock);
            }
        }
        let protocol = world.nodes[1].protocol.as_ref().expect("up");
        assert_eq!(protocol.status(world.now).waiting, 50, "{}", about.name);
        assert!(world.nodes[0].protocol.as_ref().expect("up").holds(locks[0][0], holder).is_some());
    }
}

fn is_cleaned_up(world: &World, node: usize) -> bool {
    let protocol = world.nodes[node].protocol.as_ref().expect("up");
    protocol.lock_status(world.now, &World::name(0)).is_none_or(|lock| lock.variables.is_empty())
}

#[test]
fn a_full_link_refuses_new_requests_and_loses_nothing_that_was_accepted() {
    let far = Duration::from_secs(3600);
    let mut world = calm("ricart-agrawala", 1, 40, |limits| {
        limits.backlog = 10;
        limits.lost_after = far;
        limits.heartbeat = far / 2;
        limits.idle_after = far;
    });
    let locks = world.nodes[0].locks.clone();
    world.cut_off(0, Duration::from_secs(2));
    let answers: Vec<_> = locks.iter().map(|&lock| acquire(&mut world, 0, lock)).collect();
    let refused = |answer: &&Answer| matches!(answer, Answer::Refused(Refusal::LinkFull(_)));
    // One message of the view's may still wait to be acknowledged.
    let accepted = answers.len() - answers.iter().filter(refused).count();
    assert!((9..=10).contains(&accepted), "{accepted}");
    for answer in answers.iter().filter(|answer| !refused(answer)) {
        await_grant(&mut world, 0, ticket(answer));
    }
    // With the link free again, there is room again.
    visit(&mut world, 0, locks[39]);
}
