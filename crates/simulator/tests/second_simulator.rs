//! A second simulator, deliberately simple, that shares no code with ours: Maekawa's and Naimi and
//! Trehel's algorithms written once more from the papers, clients by Zipf's law, a heap of events.
//! Both simulators must agree on messages per entry and on the mean wait.

#[path = "second_simulator/simple.rs"]
mod simple;

use mutua_algorithms::Setup;
use mutua_simulator::{Distribution, Load, Network, Plan, Report, Who, Workload, simulate};
use simple::{Algorithm, Maekawa, NaimiTrehel, second};

/// Our simulator in the same situation.
fn ours(name: &str, nodes: u32, think: f64, entries: u64) -> Report {
    const T: u64 = 1_000_000;
    let think = Distribution::Exponential { mean: (think * T as f64) as u64 };
    let hold = Distribution::Constant(T);
    let workload = Workload { load: Load::Think(think), who: Who::Zipf(1.0), hold };
    let network = Network::new(Distribution::Constant(T));
    let plan = Plan::new(Setup::new(nodes), network, workload, entries);
    simulate(name, &plan).expect("a known algorithm").expect("a system that starts")
}

fn agree(name: &str, (messages, wait): (f64, f64), report: &Report) {
    let found = report.waiting_time.expect("entries").mean;
    for (what, ours, second) in
        [("messages", report.messages_per_entry, messages), ("wait", found, wait)]
    {
        assert!((ours / second - 1.0).abs() < 0.02, "{name}, {what}: {ours}, second {second}");
    }
}

#[test]
fn naimi_trehel_by_zipf_agrees_with_the_second_simulator() {
    for think in [10.0, 60.0] {
        let node =
            |me: usize| NaimiTrehel { last: (me > 0).then_some(0), next: None, requesting: false };
        let nodes = (0..20).map(|me| Box::new(node(me)) as Box<dyn Algorithm>).collect();
        let report = ours("naimi-trehel", 20, think, 100_000);
        agree("naimi-trehel", second(nodes, think, 100_000), &report);
    }
}

#[test]
fn maekawa_by_zipf_agrees_with_the_second_simulator() {
    for think in [10.0, 60.0] {
        // Row and column of a square of 3 x 3.
        let meets = |me: usize, other: usize| other / 3 == me / 3 || other % 3 == me % 3;
        let quorum = |me: usize| (0..9).filter(|&other| meets(me, other)).collect();
        let node = |me| {
            let mut node = Maekawa::default();
            node.quorum = quorum(me);
            node
        };
        let nodes = (0..9).map(|me| Box::new(node(me)) as Box<dyn Algorithm>).collect();
        let report = ours("maekawa", 9, think, 100_000);
        agree("maekawa", second(nodes, think, 100_000), &report);
    }
}

#[test]
fn the_second_simulator_stays_simple() {
    assert!(include_str!("second_simulator/simple.rs").lines().count() <= 200);
}
