//! Whole nodes send exactly the messages that the simulator counts for the same algorithm, and no
//! further ones for locks.

mod network;
mod simulated;

use std::time::Duration;

use mutua_protocol::{Answer, Member, Moment, Rule, Ticket, usable};
use network::{Scene, World};
use simulated::{ENTRIES, NODES, Regime, SEQUENCE, WARM_UP};

/// Nodes in a view, and the home of the one name.
fn home(algorithm: &str) -> (World, Member) {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (1, 0);
    scene.limits.idle_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    let protocol = world.nodes[0].protocol.as_ref().expect("up");
    let lock = protocol.lock_status(world.now, &World::name(0)).expect("open");
    (world, lock.home.expect("a home"))
}

/// The messages of every entry on whole nodes, counted by the nodes.
fn whole(algorithm: &str) -> (Vec<u64>, Member) {
    let (mut world, home) = home(algorithm);
    let mut counts = Vec::new();
    for node in SEQUENCE {
        let before = total(&world);
        let (now, lock) = (world.now, world.nodes[node].locks[0]);
        let ticket = match world.call(node, |protocol| protocol.acquire(now, lock, None)) {
            Answer::Granted { ticket, .. } => ticket,
            Answer::Waiting { ticket } => {
                world.pass(Duration::from_secs(20));
                assert_eq!(world.granted.pop(), Some((node, ticket)), "{algorithm}");
                ticket
            }
            Answer::Refused(why) => panic!("{algorithm}: {why}"),
        };
        let now = world.now;
        assert!(world.call(node, |protocol| protocol.release(now, lock, ticket)));
        world.pass(Duration::from_secs(5));
        counts.push(total(&world) - before);
    }
    (counts, home)
}

/// Messages per entry on whole nodes when every node always wants to enter.
fn whole_saturated(algorithm: &str, regime: Regime) -> f64 {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    let (least, most) = regime.latency;
    (scene.names, scene.clients, scene.latency) = (1, 0, Some((least, most + 1)));
    scene.messages_apart = true;
    scene.limits.pace_wanted = Duration::from_micros(regime.pace);
    scene.limits.idle_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    // The holders, and when they release.
    let mut releasing: Vec<(Moment, usize, Ticket)> = Vec::new();
    for node in 0..NODES {
        request(&mut world, node);
    }
    let (mut entries, mut before) = (0, 0);
    while entries < WARM_UP + ENTRIES {
        for (node, ticket) in std::mem::take(&mut world.granted) {
            entries += 1;
            releasing.push((world.now.after(Duration::from_micros(regime.hold)), node, ticket));
        }
        if before == 0 && entries >= WARM_UP {
            before = total(&world);
        }
        let next = releasing.iter().map(|one| one.0).min();
        if world.step(next.unwrap_or(Moment::NEVER)) {
            continue;
        }
        let (at, node, ticket) = releasing.pop().expect("a holder, or an event");
        world.now = at;
        let lock = world.nodes[node].locks[0];
        assert!(world.call(node, |protocol| protocol.release(at, lock, ticket)));
        request(&mut world, node);
    }
    (total(&world) - before) as f64 / ENTRIES as f64
}

fn request(world: &mut World, node: usize) {
    let (now, lock) = (world.now, world.nodes[node].locks[0]);
    match world.call(node, |protocol| protocol.acquire(now, lock, None)) {
        Answer::Granted { ticket, .. } => world.granted.push((node, ticket)),
        Answer::Waiting { .. } => {}
        Answer::Refused(why) => panic!("{why}"),
    }
}

/// All messages of all nodes so far.
fn total(world: &World) -> u64 {
    let protocols = world.nodes.iter().map(|slot| slot.protocol.as_ref().expect("up"));
    protocols.map(|protocol| protocol.status(world.now).counts.messages).sum()
}

#[test]
fn entries_one_at_a_time_cost_exactly_what_the_simulator_counts() {
    for about in usable() {
        let (whole, home) = whole(about.name);
        assert_eq!(whole, simulated::one_at_a_time(about.name, home.0), "{}", about.name);
        println!("{:<24} {whole:?}", about.name);
    }
}

/// Latencies and hold times of all kinds: one constant latency, without pacing; any latencies,
/// longer than a hold, with the node's pace; and holds that are longer than a message takes, as
/// between real machines.
#[test]
fn under_saturation_entries_cost_what_the_simulator_counts_within_5_percent() {
    for regime in [
        Regime { latency: (1000, 1000), hold: 300, pace: 0, apart: 0 },
        Regime { latency: (500, 1500), hold: 300, pace: 1000, apart: 0 },
        Regime { latency: (50, 150), hold: 4000, pace: 1000, apart: 0 },
    ] {
        println!("{regime:?}");
        for about in usable() {
            let (_, home) = home(about.name);
            let whole = whole_saturated(about.name, regime);
            let expected = simulated::saturated(about.name, home.0, regime);
            simulated::compare(about.name, whole, expected);
        }
    }
}
