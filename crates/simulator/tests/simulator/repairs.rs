//! Runs with the generic repair: nothing is lost, no process enters twice, and without a crash not
//! one message more is sent.

use mutua_algorithms::{About, Claim, Kind, NodeId, Setup, registry, repairs::ElectionName};
use mutua_simulator::{
    Cause, Change, Detector, Distribution, Network, Outage, Partition, Plan, RepairPlan,
    RepairReport, Violation, Who, Workload, simulate, simulate_repaired,
};

const T: u64 = 1_000_000;

fn usable() -> impl Iterator<Item = &'static About> {
    let mutexes = registry::ALGORITHMS.iter().copied();
    mutexes.filter(|about| about.kind == Kind::Mutex && !about.control)
}

fn plan(nodes: u32, outages: &[(u32, u64, Option<u64>)]) -> Plan {
    let mut network = Network::new(Distribution::Constant(T));
    let outage = |&(node, from, until)| Outage { node: NodeId(node), from, until };
    network.outages = outages.iter().map(outage).collect();
    let workload = Workload::saturated(Distribution::Constant(T));
    Plan::new(Setup::new(nodes), network, workload, 200)
}

fn run(name: &str, plan: Plan, election: ElectionName) -> RepairReport {
    let detector = Detector::Perfect(Distribution::Uniform { low: T, high: 6 * T });
    run_with(name, plan, election, detector)
}

fn run_with(name: &str, plan: Plan, election: ElectionName, detector: Detector) -> RepairReport {
    simulate_plan(name, &repair_plan(plan, election, detector))
}

fn repair_plan(plan: Plan, election: ElectionName, detector: Detector) -> RepairPlan {
    RepairPlan {
        plan,
        election,
        special: false,
        chosen: Vec::new(),
        detector,
        transmission: None,
        handling: None,
        gap_at: None,
    }
}

fn simulate_plan(name: &str, plan: &RepairPlan) -> RepairReport {
    simulate_repaired(name, plan, None).expect("a registered name").expect("it can start")
}

#[test]
fn every_algorithm_loses_no_request_when_a_process_crashes() {
    for about in usable() {
        for &election in ElectionName::ALL {
            for crashed in [0, 2, 4] {
                let report = run(about.name, plan(5, &[(crashed, 30 * T, None)]), election);
                let case = format!("{}, {}, {crashed} crashes", about.name, election.name());
                assert_eq!(report.report.violations, [], "{case}");
                assert_eq!((report.requests_lost, report.double_entries), (0, 0), "{case}");
                assert_eq!(report.repairs.len(), 1, "{case}");
                assert!(report.entries_after > 100, "{case}");
                let repaired = &report.repairs[0];
                assert!(repaired.entered_at.is_some_and(|at| at >= repaired.started_at), "{case}");
                // Each survivor but the leader reports, and gets the view.
                let messages = &report.messages_by_purpose["repair"];
                let others = u64::from(repaired.members) - 1;
                assert!(messages["report"] >= others, "{case}");
                assert_eq!(messages["view"], others, "{case}");
            }
        }
    }
}

#[test]
fn a_process_that_restarts_enters_again() {
    for about in usable() {
        let outages = [(1, 30 * T, Some(90 * T)), (3, 200 * T, None)];
        let report = run(about.name, plan(4, &outages), ElectionName::ChangRoberts);
        assert_eq!(report.report.violations, [], "{}", about.name);
        assert_eq!((report.requests_lost, report.double_entries), (0, 0), "{}", about.name);
        assert!(report.repairs.iter().any(|repaired| repaired.members >= 4), "{}", about.name);
    }
}

#[test]
fn without_a_crash_the_run_is_the_same_as_without_a_repair() {
    for about in usable() {
        let plain = simulate(about.name, &plan(5, &[])).expect("a name").expect("it can start");
        let report = run(about.name, plan(5, &[]), ElectionName::Bully);
        let kinds: Vec<_> = report.messages_by_purpose.keys().copied().collect();
        assert_eq!(kinds, ["algorithm"], "{}", about.name);
        assert_eq!(report.report.trace_hash, plain.trace_hash, "{}", about.name);
        assert_eq!(report.report.messages_per_entry, plain.messages_per_entry, "{}", about.name);
    }
}

#[test]
fn a_timeout_that_holds_detects_a_crash_by_missing_heartbeats() {
    let plan = plan(5, &[(2, 30 * T, None)]);
    let report =
        run_with("suzuki-kasami", plan, ElectionName::ChangRoberts, Detector::Timeout(10 * T));
    assert_eq!(report.report.violations, []);
    assert_eq!((report.requests_lost, report.double_entries, report.repairs.len()), (0, 0, 1));
    assert!(report.messages_by_purpose["detection"]["heartbeat"] > 0);
}

#[test]
fn a_partition_makes_two_leaders_and_two_processes_enter() {
    let mut plan = plan(5, &[]);
    let group = [NodeId(0), NodeId(1)].into_iter().collect();
    plan.network.partitions.push(Partition { from: 20 * T, until: 300 * T, group });
    let report = run_with("suzuki-kasami", plan, ElectionName::Bully, Detector::Timeout(8 * T));
    assert!(report.double_entries > 0);
    let leaders: std::collections::BTreeSet<_> =
        report.repairs.iter().filter_map(|repaired| repaired.leader).collect();
    assert!(leaders.contains(&1) && leaders.contains(&4), "{leaders:?}");
    // Times are counted from the first suspicion: the election takes some.
    for repaired in &report.repairs {
        let wrong = [Change::Suspicion, Change::Withdrawal];
        assert!(repaired.causes.iter().all(|cause| wrong.contains(&cause.what)), "{repaired:?}");
        assert_eq!(repaired.changed_at, repaired.suspended_at, "{repaired:?}");
        assert!(repaired.started_at > repaired.suspended_at, "{repaired:?}");
    }
}

/// Only one process requests, so that none enters beside it.
#[test]
fn two_tokens_violate_agreement_though_no_two_processes_enter() {
    let mut plan = plan(5, &[]);
    plan.workload.who = Who::One(NodeId(4));
    let group = [NodeId(0), NodeId(1)].into_iter().collect();
    plan.network.partitions.push(Partition { from: 20 * T, until: 300 * T, group });
    let report = run_with("suzuki-kasami", plan, ElectionName::Bully, Detector::Timeout(8 * T));
    assert_eq!(report.double_entries, 0);
    let broken = |violation: &Violation| violation.property == Claim::Agreement;
    let violations = &report.report.violations;
    assert!(violations.iter().any(broken), "{violations:?}");
}

fn special(name: &str, plan: Plan) -> RepairReport {
    let detector = Detector::Perfect(Distribution::Uniform { low: T, high: 6 * T });
    let plan = repair_plan(plan, ElectionName::Bully, detector);
    simulate_plan(name, &RepairPlan { special: true, ..plan })
}

#[test]
fn a_special_repair_loses_no_request_either() {
    for about in usable() {
        for crashed in [0, 2, 4] {
            let report = special(about.name, plan(5, &[(crashed, 30 * T, None)]));
            let case = format!("{}, {crashed} crashes", about.name);
            assert_eq!(report.report.violations, [], "{case}");
            assert_eq!((report.requests_lost, report.double_entries), (0, 0), "{case}");
            assert!(report.entries_after > 100, "{case}");
        }
    }
}

/// The messages of election and repair.
fn cost(report: &RepairReport) -> u64 {
    let purposes = ["election", "repair"].into_iter();
    let kinds = purposes.filter_map(|purpose| report.messages_by_purpose.get(purpose));
    kinds.flat_map(|kinds| kinds.values()).sum()
}

#[test]
fn the_crash_of_a_process_that_others_can_take_out_costs_no_message() {
    for name in ["lamport", "ricart-agrawala", "carvalho-roucairol", "bakery", "central"] {
        let report = special(name, plan(5, &[(2, 30 * T, None)]));
        assert_eq!(cost(&report), 0, "{name}");
        assert_eq!(report.repairs.len(), 1, "{name}");
        assert_eq!((report.repairs[0].how, report.repairs[0].without), ("special", Some(2)));
    }
}

#[test]
fn a_ring_closes_with_one_message() {
    for name in ["le-lann", "dijkstra"] {
        let report = special(name, plan(9, &[(2, 30 * T, None)]));
        assert_eq!(cost(&report), 1, "{name}");
    }
}

#[test]
fn a_missing_acknowledgement_shows_a_gap_before_the_detector_does() {
    let plan = plan(5, &[(2, 30 * T, None)]);
    let detector = Detector::Perfect(Distribution::Constant(10_000 * T));
    let plan = repair_plan(plan, ElectionName::Bully, detector);
    let report = simulate_plan("le-lann", &RepairPlan { special: true, ..plan });
    assert_eq!(report.report.violations, []);
    assert!(report.repairs[0].suspended_at < 100 * T, "{:?}", report.repairs[0]);
    assert!(report.messages_by_purpose["detection"]["ack"] > 100);
}

/// Each of the K-1 others that request of the lost voter sends its claim to the process that takes
/// over, but that process itself if it is one of them.
#[test]
fn a_lost_voter_is_taken_over_with_a_claim_of_each_that_requests_of_it() {
    for nodes in [25, 100] {
        let side = f64::from(nodes).sqrt() as u64;
        let plan = plan(nodes, &[(7, 60 * T, None)]);
        let report = special("maekawa", plan);
        assert_eq!(report.report.violations, []);
        // A grid's quorum has 2n-1 members, and 8 is in the row of 7.
        assert_eq!(report.messages_by_purpose["repair"]["claim"], 2 * side - 3, "{nodes}");
        assert_eq!(cost(&report), 2 * side - 3, "{nodes}");
        assert_eq!(report.repairs[0].leader, Some(8));
    }
}

#[test]
fn a_crash_hits_the_process_with_the_part() {
    use mutua_simulator::{ChosenCrash, Victim};
    let cases = [
        ("central", Victim::Coordinator),
        ("suzuki-kasami", Victim::Holder),
        ("naimi-trehel", Victim::Token),
        ("maekawa", Victim::QuorumMember),
    ];
    for (name, victim) in cases {
        for special in [false, true] {
            let chosen = vec![ChosenCrash { victim, from: 30 * T, until: None }];
            let detector = Detector::Perfect(Distribution::Constant(2 * T));
            let plan = repair_plan(plan(5, &[]), ElectionName::Bully, detector);
            let report = simulate_plan(name, &RepairPlan { special, chosen, ..plan });
            let case = format!("{name}, {victim}, special {special}");
            assert_eq!(report.report.violations, [], "{case}");
            assert_eq!((report.requests_lost, report.repairs.len()), (0, 1), "{case}");
            assert!(report.entries_before > 0 && report.entries_after > 100, "{case}");
        }
    }
}

#[test]
fn a_part_that_the_algorithm_does_not_have_is_refused() {
    use mutua_simulator::{ChosenCrash, Victim};
    let chosen = vec![ChosenCrash { victim: Victim::Token, from: T, until: None }];
    let detector = Detector::Perfect(Distribution::Constant(T));
    let plan = repair_plan(plan(3, &[]), ElectionName::Bully, detector);
    let error = simulate_repaired("lamport", &RepairPlan { chosen, ..plan }, None)
        .expect("a registered name")
        .expect_err("it has no token");
    assert!(error.to_string().contains("lamport has no token"), "{error}");
}

fn crash(of: u32, at: u64) -> Cause {
    Cause { at, what: Change::Crash, of }
}

#[test]
fn a_repair_names_every_crash_that_it_follows_and_counts_from_the_first() {
    // The second crash comes before the first one is repaired, the third one afterwards.
    let outages = [(1, 30 * T, None), (3, 32 * T, None), (5, 90 * T, None)];
    let detector = Detector::Perfect(Distribution::Constant(5 * T));
    let report = run_with("suzuki-kasami", plan(7, &outages), ElectionName::Bully, detector);
    assert_eq!((report.crashes, report.requests_lost), (3, 0));
    let [both, third] = report.repairs.as_slice() else { panic!("{:?}", report.repairs) };
    assert_eq!(both.causes, [crash(1, 30 * T), crash(3, 32 * T)]);
    assert_eq!((both.changed_at, both.suspended_at), (30 * T, 35 * T));
    assert_eq!((third.causes.as_slice(), third.changed_at), (&[crash(5, 90 * T)][..], 90 * T));
    for repaired in [both, third] {
        assert!(repaired.entered_at.is_some_and(|at| at >= repaired.started_at), "{repaired:?}");
    }
}

#[test]
fn special_repairs_of_two_crashes_are_two_and_each_has_its_first_entry() {
    let outages = [(1, 30 * T, None), (3, 31 * T, None)];
    let report = special("ricart-agrawala", plan(7, &outages));
    let causes: Vec<_> = report.repairs.iter().map(|repaired| &repaired.causes[..]).collect();
    assert_eq!(report.repairs.len(), 2, "{:?}", report.repairs);
    assert!(causes.contains(&&[crash(1, 30 * T)][..]), "{causes:?}");
    assert!(causes.contains(&&[crash(3, 31 * T)][..]), "{causes:?}");
    assert!(report.repairs.iter().all(|repaired| repaired.entered_at.is_some()));
}

#[test]
fn a_process_that_crashes_again_is_repaired_again() {
    let outages = [(2, 30 * T, Some(90 * T)), (2, 150 * T, None)];
    let detector = Detector::Perfect(Distribution::Constant(5 * T));
    let plan = repair_plan(plan(5, &outages), ElectionName::ChangRoberts, detector);
    let report = simulate_plan("lamport", &RepairPlan { special: true, ..plan });
    let causes: Vec<_> = report.repairs.iter().flat_map(|repaired| &repaired.causes).collect();
    let restart = Cause { at: 90 * T, what: Change::Restart, of: 2 };
    assert_eq!(causes, [&crash(2, 30 * T), &restart, &crash(2, 150 * T)]);
}

#[test]
fn a_timeout_that_is_too_short_is_named_a_suspicion_and_a_crash_a_crash() {
    let mut plan = plan(4, &[(3, 200 * T, None)]);
    // Now and then a message takes longer than the timeout.
    let latency = Distribution::Exponential { mean: T };
    plan.network.latency = mutua_simulator::Latency::Everywhere(latency);
    let report = run_with("suzuki-kasami", plan, ElectionName::Bully, Detector::Timeout(6 * T));
    let causes: Vec<_> = report.repairs.iter().flat_map(|repaired| &repaired.causes).collect();
    assert!(causes.iter().any(|cause| cause.what == Change::Suspicion), "{causes:?}");
    let crashes: Vec<_> = causes.iter().filter(|cause| cause.what == Change::Crash).collect();
    assert!(crashes.iter().all(|cause| (cause.of, cause.at) == (3, 200 * T)), "{crashes:?}");
    assert!(!crashes.is_empty(), "{causes:?}");
    let before = causes.iter().filter(|cause| cause.at < 200 * T);
    assert!(before.clone().count() > 0 && before.clone().all(|it| it.what != Change::Crash));
}

#[test]
fn an_algorithm_without_a_special_repair_is_repaired_as_with_the_generic_one() {
    let report = special("suzuki-kasami", plan(5, &[(2, 30 * T, None)]));
    assert_eq!((report.repair, report.repairs[0].how), ("generic", "view"));
    assert_eq!(special("lamport", plan(5, &[(2, 30 * T, None)])).repair, "special");
}
