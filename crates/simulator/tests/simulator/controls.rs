//! Violations are found where an algorithm's assumptions do not hold, and only there.

use mutua_algorithms::{Claim, Kind, Links, NodeId, Setup, registry};
use mutua_simulator::{
    Distribution, Load, Network, Outage, Partition, Plan, Report, ScriptedRequest, Who, Workload,
    simulate,
};

const T: u64 = 1_000_000;

/// Every client thinks between its requests: enough contention, in ever new orders.
fn contended(setup: Setup, latency: Distribution) -> Plan {
    let think = Distribution::Exponential { mean: 8 * T };
    let workload =
        Workload { load: Load::Think(think), who: Who::All, hold: Distribution::Constant(T / 2) };
    let mut plan = Plan::new(setup, Network::new(latency), workload, 2000);
    plan.warm_up = Some(0);
    plan
}

fn run(name: &str, plan: &Plan) -> Report {
    simulate(name, plan).expect("a registered name").expect("a system that can start")
}

fn is_violated(name: &str, plan: &Plan, claims: &[Claim]) -> bool {
    (1..=10).any(|seed| {
        let report = run(name, &Plan { seed, ..plan.clone() });
        report.violations.iter().any(|violation| claims.contains(&violation.property))
    })
}

const EXPONENTIAL: Distribution = Distribution::Exponential { mean: T };

#[test]
fn no_property_is_violated_on_the_links_that_an_algorithm_needs() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        if about.control {
            continue;
        }
        for nodes in [1, 2, 5, 9] {
            let mut plan = contended(Setup::new(nodes), EXPONENTIAL);
            plan.network.fifo = about.links == Links::Fifo;
            for seed in 1..=3 {
                plan.seed = seed;
                let report = run(about.name, &plan);
                let system = format!("{}, {nodes} processes, seed {seed}", about.name);
                assert_eq!(report.violations, [], "{system}");
                assert_eq!((report.nonsense, report.entries), (0, 2000), "{system}");
            }
        }
    }
}

#[test]
fn lamport_violates_mutual_exclusion_or_deadlocks_on_links_that_reorder() {
    let mut plan = contended(Setup::new(5), EXPONENTIAL);
    plan.network.fifo = false;
    assert!(is_violated("lamport", &plan, &[Claim::MutualExclusion, Claim::DeadlockFree]));
}

#[test]
fn the_bakery_without_choice_violates_mutual_exclusion() {
    let plan = contended(Setup::new(4), EXPONENTIAL);
    assert!(is_violated("bakery-naive", &plan, &[Claim::MutualExclusion]));
}

#[test]
fn ricart_agrawala_with_plain_replies_violates_ordering() {
    // A reply overtakes the request that its sender made before; without the clock on it, the next
    // request of its receiver is stamped too low. It takes a receiver in a hurry and slow messages.
    let latency = Distribution::LogNormal { mean: T, sigma: 2.0 };
    let mut plan = contended(Setup::new(5).with("replies", "plain"), latency);
    plan.workload.load = Load::Think(Distribution::Exponential { mean: T / 10 });
    plan.workload.hold = Distribution::ZERO;
    plan.network.fifo = false;
    assert!(is_violated("ricart-agrawala", &plan, &[Claim::Ordering]));
    plan.setup = Setup::new(5);
    assert!(!is_violated("ricart-agrawala", &plan, &[Claim::Ordering]));
}

#[test]
fn a_dropped_message_stops_all_processes() {
    let mut plan = contended(Setup::new(4), Distribution::Constant(T));
    plan.network.loss = 0.01;
    for name in ["ricart-agrawala", "raymond", "central", "le-lann"] {
        assert!(is_violated(name, &plan, &[Claim::DeadlockFree, Claim::Liveness]), "{name}");
    }
}

#[test]
fn a_process_whose_request_was_dropped_starves_while_others_enter() {
    // The first request of process 2 is dropped at the partition; the others enter to the end.
    let mut plan = contended(Setup::new(4), Distribution::Constant(T));
    let group = [NodeId(2)].into_iter().collect();
    plan.network.partitions = vec![Partition { from: 0, until: u64::MAX, group }];
    let report = run("central", &plan);
    let found: Vec<_> = report.violations.iter().map(|violation| violation.property).collect();
    assert_eq!(found, [Claim::Liveness], "{:?}", report.violations);
}

#[test]
fn a_crash_of_the_holder_stops_all_processes() {
    let mut plan = contended(Setup::new(4), Distribution::Constant(T));
    plan.workload = Workload::saturated(Distribution::Constant(T));
    plan.network.outages = (0..4)
        .map(|node| Outage { node: NodeId(node), from: 40 * T, until: None })
        .take(2)
        .collect();
    assert!(is_violated("ricart-agrawala", &plan, &[Claim::DeadlockFree]));
    assert!(is_violated("suzuki-kasami", &plan, &[Claim::DeadlockFree]));
}

#[test]
fn a_process_that_restarts_with_the_token_makes_two_tokens() {
    let mut plan = contended(Setup::new(4), Distribution::Constant(T));
    plan.workload = Workload::saturated(Distribution::Constant(T));
    // Process 0 has the token at the start, and again when it is made anew.
    let outage = Outage { node: NodeId(0), from: 9 * T + T / 2, until: Some(10 * T + T / 4) };
    plan.network.outages.push(outage);
    assert!(is_violated("naimi-trehel", &plan, &[Claim::MutualExclusion, Claim::Fencing]));
}

#[test]
fn app_messages_show_that_a_queue_and_a_ring_violate_ordering() {
    let mut plan = contended(Setup::new(5), EXPONENTIAL);
    plan.app_messages = Some(EXPONENTIAL);
    for name in ["central", "le-lann"] {
        let report = run(name, &plan);
        // Ordering is not claimed, so a violation does not count unless the plan judges it.
        assert_eq!(report.violations, [], "{name}");
        assert!(report.overtakings > Some(0) && report.app_messages > 0, "{name}");
        let apart = report.unclaimed.iter().all(|found| found.property == Claim::Ordering);
        assert!(apart && !report.unclaimed.is_empty(), "{name}: {:?}", report.unclaimed);
        let judged = Plan { judged: vec![Claim::Ordering], ..plan.clone() };
        assert!(is_violated(name, &judged, &[Claim::Ordering]), "{name}");
    }
    for name in ["lamport", "ricart-agrawala"] {
        assert_eq!(run(name, &plan).overtakings, Some(0), "{name}");
    }
}

#[test]
fn a_script_ends_although_app_messages_go_on() {
    let mut plan = contended(Setup::new(3), Distribution::Constant(T));
    let request = |node, at| ScriptedRequest { at, node: NodeId(node), hold: None };
    plan.workload.load = Load::Script(vec![request(0, 0), request(1, T)]);
    plan.app_messages = Some(EXPONENTIAL);
    let report = run("lamport", &plan);
    assert_eq!((report.entries, report.violation_count), (2, 0));
    plan.network.loss = 1.0;
    let report = run("lamport", &plan);
    assert_eq!(report.violations[0].property, Claim::DeadlockFree, "{:?}", report.violations);
}

#[test]
fn the_bypass_on_a_tree_is_found_where_it_is_judged() {
    let mut plan = contended(Setup::new(6), EXPONENTIAL);
    plan.workload.load = Load::Think(Distribution::Exponential { mean: 3 * T });
    assert_eq!(run("raymond", &plan).violations, []);
    plan.judged = vec![Claim::BoundedBypass];
    assert!(is_violated("raymond", &plan, &[Claim::BoundedBypass]));
    assert!(!is_violated("suzuki-kasami", &plan, &[Claim::BoundedBypass]));
}
