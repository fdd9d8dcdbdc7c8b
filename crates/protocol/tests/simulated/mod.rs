//! The simulator's counts, for tests that count the same on nodes.

use std::{cell::RefCell, rc::Rc};

use mutua_algorithms::{NodeId, Setup};
use mutua_protocol::usable;
use mutua_simulator::{
    Distribution, Load, Network, Plan, Recorder, ScriptedRequest, Who, Workload, simulate_watched,
};
use mutua_trace::{Event, Header, Unit, What};

pub(crate) const NODES: usize = 5;

/// The nodes that enter, one after the other.
pub(crate) const SEQUENCE: [usize; 14] = [3, 3, 0, 4, 1, 0, 0, 2, 4, 3, 1, 1, 2, 0];

/// The pause between two of them, longer than anything takes.
const GAP: u64 = 20_000_000_000;

const MILLISECOND: u64 = 1_000_000;

/// Entries under saturation; the first few are not counted.
pub(crate) const ENTRIES: u64 = 3000;
pub(crate) const WARM_UP: u64 = 100;

/// The parameters of a count under saturation, all in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regime {
    /// The least and the most latency of a message.
    pub(crate) latency: (u64, u64),
    /// The hold time.
    pub(crate) hold: u64,
    /// The pause before a lazy message: a polling process sends at this pace, and the answers
    /// count.
    pub(crate) pace: u64,
    /// The pause between the first requests of two nodes. The order of entries, which the cost of
    /// some trees depends on, is then fixed.
    pub(crate) apart: u64,
}

fn setup(algorithm: &str, home: u32) -> Setup {
    let mut setup = Setup::new(NODES as u32);
    (setup.holder, setup.coordinator) = (NodeId(home), NodeId(home));
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

/// The messages of every entry of [`SEQUENCE`].
pub(crate) fn one_at_a_time(algorithm: &str, home: u32) -> Vec<u64> {
    // One more, so that everything of the last one that counts has happened.
    let nodes = SEQUENCE.into_iter().chain([0]);
    let request = |(index, node): (usize, usize)| ScriptedRequest {
        at: (index as u64 + 1) * GAP,
        node: NodeId::from(node),
        hold: Some(MILLISECOND),
    };
    let mut network = Network::new(Distribution::Constant(MILLISECOND));
    network.pace = 100 * MILLISECOND;
    let load = Load::Script(nodes.enumerate().map(request).collect());
    let workload = Workload { load, who: Who::All, hold: Distribution::ZERO };
    let mut plan = Plan::new(setup(algorithm, home), network, workload, SEQUENCE.len() as u64 + 1);
    plan.warm_up = Some(0);
    let mut counts = vec![0; SEQUENCE.len() + 2];
    for event in simulated(algorithm, &plan) {
        counts[((event.at / GAP) as usize).min(SEQUENCE.len() + 1)] += messages(&event);
    }
    counts[1..=SEQUENCE.len()].to_vec()
}

/// Messages per entry when every node always wants to enter.
pub(crate) fn saturated(algorithm: &str, home: u32, regime: Regime) -> f64 {
    let (low, high) = (regime.latency.0 * 1000, regime.latency.1 * 1000);
    let mut network = Network::new(Distribution::Uniform { low, high });
    (network.fifo, network.pace) = (true, regime.pace * 1000);
    // Every node has as many requests as there are entries in all.
    let request = |node: usize| ScriptedRequest {
        at: node as u64 * regime.apart * 1000,
        node: NodeId::from(node),
        hold: None,
    };
    let requests = (0..NODES).flat_map(|node| (0..WARM_UP + ENTRIES).map(move |_| request(node)));
    let hold = Distribution::Constant(regime.hold * 1000);
    let workload = Workload { load: Load::Script(requests.collect()), who: Who::All, hold };
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

/// Prints and asserts by how many per cent a count on nodes is off; at most 5.
pub(crate) fn compare(algorithm: &str, nodes: f64, simulated: f64) {
    let off = 100.0 * (nodes / simulated - 1.0);
    println!("{algorithm:<24} {nodes:>8.3} simulated {simulated:>8.3} {off:>+6.2} %");
    assert!(off.abs() <= 5.0, "{algorithm}: {nodes:.3}, and {simulated:.3} in the simulator");
}
