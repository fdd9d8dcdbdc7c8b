//! Elections: messages, turn-around, E1 and E2.

use mutua_algorithms::{Claim, Kind, NodeId, Setup, registry};
use mutua_simulator::{
    Distribution, ElectionPlan, ElectionReport, Network, Outage, elect, election_theory,
};

const T: u64 = 1_000_000;

fn plan(nodes: u32, starters: &[u32]) -> ElectionPlan {
    ElectionPlan {
        setup: Setup::new(nodes),
        network: Network::new(Distribution::Constant(T)),
        starters: starters.iter().copied().map(NodeId).collect(),
        transmission: None,
        handling: None,
        seed: 1,
    }
}

fn run(name: &str, plan: &ElectionPlan) -> ElectionReport {
    elect(name, plan, None).expect("a registered name").expect("it can start")
}

#[test]
fn every_election_agrees_with_any_starters_and_latencies() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        for nodes in [1, 2, 5, 10] {
            let all: Vec<_> = (0..nodes).collect();
            for starters in [&all[..1], &all[nodes as usize / 2..], &all] {
                let mut plan = plan(nodes, starters);
                for seed in 1..=5 {
                    plan.seed = seed;
                    let report = run(about.name, &plan);
                    assert_eq!(report.violations, [], "{} of {nodes}, {starters:?}", about.name);
                    // In the invitation algorithm the first process that invites is elected.
                    let highest = about.order == "the highest id";
                    let right = |elected| elected < nodes && (!highest || elected == nodes - 1);
                    assert!(report.elected.is_some_and(right), "{} of {nodes}", about.name);
                    plan.network = Network::new(Distribution::Uniform { low: T / 2, high: T });
                }
            }
        }
    }
}

#[test]
fn the_bully_needs_n_minus_2_messages_at_best_and_one_more_to_probe_the_crashed_process() {
    let mut plan = plan(10, &[8]);
    plan.setup.crashed = vec![NodeId(9)];
    let report = run("bully", &plan);
    // The second highest probes the crashed process, waits 2T and a handling, and announces itself
    // to eight.
    assert_eq!((report.messages, report.elected), (9, Some(8)));
    assert!((report.turnaround.unwrap() - 3.1).abs() < 0.01, "{:?}", report.turnaround);
}

#[test]
fn the_bully_needs_n_squared_minus_n_minus_1_messages_at_worst() {
    let mut plan = plan(6, &[0]);
    plan.setup.crashed = vec![NodeId(5)];
    let report = run("bully", &plan);
    assert_eq!((report.messages, report.elected), (6 * 6 - 6 - 1, Some(4)));
}

#[test]
fn the_ring_election_costs_what_the_textbook_says() {
    for nodes in [2, 5, 10, 31] {
        // The starter next after the highest: its id travels N-1 steps before it is replaced.
        assert_eq!(run("chang-roberts", &plan(nodes, &[0])).messages, u64::from(3 * nodes - 1));
        assert_eq!(run("chang-roberts", &plan(nodes, &[nodes - 1])).messages, u64::from(2 * nodes));
    }
}

#[test]
fn elections_cost_what_theory_says_with_any_starters() {
    let costs = |name: &str, plan: &ElectionPlan| {
        let (theory, report) = (election_theory(name, plan), run(name, plan));
        let expected = theory.messages.expect("theory knows this");
        let words = format!("{name}, {} by {:?}: {expected:?}", plan.setup.nodes, plan.starters);
        assert_eq!(report.messages as f64, expected.value, "{words}");
        if let Some(expected) = &theory.turnaround {
            assert_eq!(report.turnaround, Some(expected.value), "{words}, {expected:?}");
        }
        assert_eq!(theory.turnaround.is_some(), name == "chang-roberts", "{words}");
    };
    for nodes in [2, 3, 6, 10] {
        let all: Vec<_> = (0..nodes).collect();
        for falls in [false, true] {
            let order = (0..nodes).rev().map(NodeId).collect();
            let mut ring = plan(nodes, &all);
            ring.setup.ring = Some(order).filter(|_| falls);
            // All are up, the highest is down, or another process is.
            for down in [None, Some(nodes - 1), Some(nodes / 2)] {
                // A single process needs no message.
                let down = down.filter(|_| nodes > 2).map(NodeId);
                ring.setup.crashed = down.into_iter().collect();
                let up: Vec<_> = (0..nodes).map(NodeId).filter(|id| Some(*id) != down).collect();
                for &starter in &up {
                    ring.starters = vec![starter];
                    costs("chang-roberts", &ring);
                }
                ring.starters = up;
                costs("chang-roberts", &ring);
            }
        }
        for starter in 0..nodes - 1 {
            let mut bully = plan(nodes, &[starter]);
            bully.setup.crashed = vec![NodeId(nodes - 1)];
            costs("bully", &bully);
            bully.starters = (starter..nodes - 1).map(NodeId).collect();
            costs("bully", &bully);
        }
    }
}

#[test]
fn the_ring_election_costs_2n_minus_1_before_the_announcement_if_all_start_in_rising_order() {
    for nodes in [2, 5, 10, 31] {
        let all: Vec<_> = (0..nodes).collect();
        let report = run("chang-roberts", &plan(nodes, &all));
        let announced = report.messages_by_kind["elected"];
        assert_eq!(report.messages - announced, u64::from(2 * nodes - 1));
    }
}

#[test]
fn a_bound_that_does_not_hold_can_elect_two() {
    let mut plan = plan(6, &[0, 1, 2, 3, 4]);
    plan.network = Network::new(Distribution::Exponential { mean: T });
    plan.transmission = Some(T / 2);
    let violated = (1..=200).any(|seed| {
        let report = run("bully", &ElectionPlan { seed, ..plan.clone() });
        report.violations.iter().any(|violation| violation.property == Claim::Agreement)
    });
    assert!(violated);
}

#[test]
fn a_process_that_restarts_takes_over_if_it_is_the_highest() {
    let mut plan = plan(5, &[0]);
    plan.setup.crashed = vec![NodeId(4)];
    plan.network.outages.push(Outage { node: NodeId(4), from: 0, until: Some(100 * T) });
    assert_eq!(run("bully", &plan).elected, Some(4));
    plan.setup.settings.set("takeover", "no");
    assert_eq!(run("bully", &plan).elected, Some(3));
}

#[test]
fn a_process_that_elects_itself_while_a_higher_one_is_up_is_found_at_once() {
    let mut plan = plan(5, &[0]);
    plan.setup.crashed = vec![NodeId(4)];
    plan.transmission = Some(T / 2);
    let report = run("bully", &plan);
    // In the end all agree; before that, processes whose answers came too late elected themselves.
    assert_eq!(report.elected, Some(3));
    let first = &report.violations[0];
    assert_eq!((first.property, first.node), (Claim::Agreement, 0));
    assert!(first.what.contains("3, which is higher, is up"), "{}", first.what);
    assert!(first.at > 0 && first.at < 3 * T, "{}", first.at);
}

#[test]
fn all_starters_on_a_descending_ring_cost_the_worst_case_and_on_an_ascending_one_the_best() {
    for nodes in [2u32, 5, 10, 31] {
        let all: Vec<_> = (0..nodes).collect();
        let mut plan = plan(nodes, &all);
        let best = run("chang-roberts", &plan).messages_by_kind["election"];
        assert_eq!(best, u64::from(2 * nodes - 1));
        plan.setup.ring = Some((0..nodes).rev().map(NodeId).collect());
        let worst = run("chang-roberts", &plan);
        assert_eq!(worst.messages_by_kind["election"], u64::from(nodes * (nodes + 1) / 2));
        assert_eq!((worst.elected, worst.violations), (Some(nodes - 1), vec![]));
    }
}

#[test]
fn a_crash_after_the_election_does_not_violate_agreement() {
    for name in ["bully", "chang-roberts", "invitation"] {
        let elected = run(name, &plan(5, &[0])).elected.expect("all agree");
        let mut plan = plan(5, &[0]);
        plan.network.outages.push(Outage { node: NodeId(elected), from: 1000 * T, until: None });
        let report = run(name, &plan);
        assert_eq!((report.elected, report.violations), (Some(elected), vec![]), "{name}");
        assert!(report.elected_is_down, "{name}");
    }
}
