//! Whole nodes send exactly what the simulator counts for the same algorithm, and nothing for being
//! in a node.

mod network;

use std::{cell::RefCell, rc::Rc, time::Duration};

use mutua_algorithms::{NodeId, Setup};
use mutua_brain::{Answer, Member, Moment, Rule, Ticket, usable};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Recorder, Who, Wish, Workload, simulate_watched,
};
use mutua_trace::{Event, Header, Unit, What};
use network::{Scene, World};

const NODES: usize = 5;

/// Who wants in, one after the other.
const SEQUENCE: [usize; 14] = [3, 3, 0, 4, 1, 0, 0, 2, 4, 3, 1, 1, 2, 0];

/// From one of them to the next, longer than anything takes.
const GAP: u64 = 20_000_000_000;

const MILLISECOND: u64 = 1_000_000;

/// How long a message takes when everybody wants in, and how long one is inside, in microseconds.
/// Always the same: what a node says to another at one time arrives at one time, while simulated
/// messages each have a latency of their own.
const LATENCY: u64 = 1000;
const INSIDE: u64 = 300;

/// Entries when everybody wants in; the first few are not counted.
const ENTRIES: u64 = 3000;
const WARM_UP: u64 = 100;

fn setup(algorithm: &str, home: Member) -> Setup {
    let mut setup = Setup::new(NODES as u32);
    (setup.holder, setup.coordinator) = (NodeId(home.0), NodeId(home.0));
    let about = usable().find(|about| about.name == algorithm).expect("an algorithm");
    if about.options.iter().any(|choice| choice.key == "coordinator") {
        setup.settings.set("coordinator", "member");
    }
    setup
}

/// Everything that happens in a simulation.
fn simulated(algorithm: &str, plan: &Plan) -> Vec<Event> {
    let events = Rc::new(RefCell::new(Vec::new()));
    let recorder = |name: &'static str, start: &mutua_algorithms::Start| {
        let header = Header::new(name, start, Header::default_names(start), Unit::Nanoseconds);
        let events = Rc::clone(&events);
        Recorder::new(header, move |event| events.borrow_mut().push(event))
    };
    let report = simulate_watched(algorithm, plan, Some(&recorder), &mut |_, _| {});
    report.expect("an algorithm").expect("a simulation");
    events.take()
}

/// How many messages an event is, lazy ones left out.
fn messages(event: &Event) -> u64 {
    match &event.what {
        What::Send { lazy: false, .. } => 1,
        What::Multicast { to, .. } => to.len() as u64,
        _ => 0,
    }
}

/// The messages of every entry in the simulator.
fn simulated_one_at_a_time(algorithm: &str, home: Member) -> Vec<u64> {
    // One more, so that everything of the last one that counts has happened.
    let nodes = SEQUENCE.into_iter().chain([0]);
    let wish = |(place, node): (usize, usize)| Wish {
        at: (place as u64 + 1) * GAP,
        node: NodeId::from(node),
        hold: Some(MILLISECOND),
    };
    let mut network = Network::new(Distribution::Constant(MILLISECOND));
    network.pace = 100 * MILLISECOND;
    let load = Load::Script(nodes.enumerate().map(wish).collect());
    let workload = Workload { load, who: Who::All, hold: Distribution::ZERO };
    let mut plan = Plan::new(setup(algorithm, home), network, workload, SEQUENCE.len() as u64 + 1);
    plan.warm_up = Some(0);
    let mut counts = vec![0; SEQUENCE.len() + 2];
    for event in simulated(algorithm, &plan) {
        counts[((event.at / GAP) as usize).min(SEQUENCE.len() + 1)] += messages(&event);
    }
    counts[1..=SEQUENCE.len()].to_vec()
}

/// Messages per entry in the simulator when everybody always wants in.
fn simulated_saturated(algorithm: &str, home: Member) -> f64 {
    let mut network = Network::new(Distribution::Constant(LATENCY * 1000));
    (network.fifo, network.pace) = (true, 0);
    let workload = Workload::saturated(Distribution::Constant(INSIDE * 1000));
    let mut plan = Plan::new(setup(algorithm, home), network, workload, ENTRIES);
    plan.warm_up = Some(WARM_UP);
    plan.drain = false;
    let (mut entries, mut count) = (0, 0);
    for event in simulated(algorithm, &plan) {
        entries += u64::from(matches!(event.what, What::Enter { .. }));
        count += if entries > WARM_UP { messages(&event) } else { 0 };
    }
    count as f64 / (entries - WARM_UP) as f64
}

/// Nodes that have met, and the home of the one name.
fn home(algorithm: &str) -> (World, Member) {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (1, 0);
    scene.limits.forget_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    let brain = world.places[0].brain.as_ref().expect("up");
    let lock = brain.lock_status(world.now, &World::name(0)).expect("open");
    (world, lock.home.expect("a home"))
}

/// The messages of every entry on whole nodes, counted by the nodes.
fn whole(algorithm: &str) -> (Vec<u64>, Member) {
    let (mut world, home) = home(algorithm);
    let mut counts = Vec::new();
    for node in SEQUENCE {
        let before = total(&world);
        let (now, lock) = (world.now, world.places[node].locks[0]);
        let ticket = match world.call(node, |brain| brain.acquire(now, lock, None)) {
            Answer::Granted { ticket, .. } => ticket,
            Answer::Waiting { ticket } => {
                world.pass(Duration::from_secs(20));
                assert_eq!(world.granted.pop(), Some((node, ticket)), "{algorithm}");
                ticket
            }
            Answer::Refused(why) => panic!("{algorithm}: {why}"),
        };
        let now = world.now;
        assert!(world.call(node, |brain| brain.release(now, lock, ticket)));
        world.pass(Duration::from_secs(5));
        counts.push(total(&world) - before);
    }
    (counts, home)
}

/// Messages per entry on whole nodes when everybody always wants in.
fn whole_saturated(algorithm: &str) -> f64 {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients, scene.latency) = (1, 0, Some((LATENCY, LATENCY + 1)));
    // How often somebody looks again is a matter of pace; here none, on both sides.
    scene.limits.pace_wanted = Duration::ZERO;
    scene.limits.forget_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    // Who leaves when.
    let mut leaving: Vec<(Moment, usize, Ticket)> = Vec::new();
    for node in 0..NODES {
        ask(&mut world, node);
    }
    let (mut entries, mut before) = (0, 0);
    while entries < WARM_UP + ENTRIES {
        for (node, ticket) in std::mem::take(&mut world.granted) {
            entries += 1;
            leaving.push((world.now.after(Duration::from_micros(INSIDE)), node, ticket));
        }
        if before == 0 && entries >= WARM_UP {
            before = total(&world);
        }
        let next = leaving.iter().map(|one| one.0).min();
        if world.step(next.unwrap_or(Moment::NEVER)) {
            continue;
        }
        let (at, node, ticket) = leaving.pop().expect("somebody inside, or something happens");
        world.now = at;
        let lock = world.places[node].locks[0];
        assert!(world.call(node, |brain| brain.release(at, lock, ticket)));
        ask(&mut world, node);
    }
    (total(&world) - before) as f64 / ENTRIES as f64
}

fn ask(world: &mut World, node: usize) {
    let (now, lock) = (world.now, world.places[node].locks[0]);
    match world.call(node, |brain| brain.acquire(now, lock, None)) {
        Answer::Granted { ticket, .. } => world.granted.push((node, ticket)),
        Answer::Waiting { .. } => {}
        Answer::Refused(why) => panic!("{why}"),
    }
}

/// All messages of all nodes so far.
fn total(world: &World) -> u64 {
    let brains = world.places.iter().map(|place| place.brain.as_ref().expect("up"));
    brains.map(|brain| brain.status(world.now).counts.messages).sum()
}

#[test]
fn entries_one_at_a_time_cost_exactly_what_the_simulator_counts() {
    for about in usable() {
        let (whole, home) = whole(about.name);
        assert_eq!(whole, simulated_one_at_a_time(about.name, home), "{}", about.name);
        println!("{:<24} {whole:?}", about.name);
    }
}

#[test]
fn when_everybody_wants_in_it_costs_what_the_simulator_counts_within_5_percent() {
    for about in usable() {
        let (_, home) = home(about.name);
        let (whole, simulated) =
            (whole_saturated(about.name), simulated_saturated(about.name, home));
        let off = 100.0 * (whole / simulated - 1.0);
        println!("{:<24} {whole:>8.3} simulated {simulated:>8.3} {off:>+6.2} %", about.name);
        assert!(off.abs() <= 5.0 || (whole == 0.0 && simulated == 0.0), "{}", about.name);
    }
}
