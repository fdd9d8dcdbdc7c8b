//! The measures cover the planned entries, under every workload.

use mutua_algorithms::{NodeId, Setup, repairs::ElectionName};
use mutua_simulator::{
    Detector, Distribution, Load, Network, Outage, Plan, RepairPlan, Report, ScriptedRequest, Who,
    Workload, simulate, simulate_repaired, theory,
};

const T: u64 = 1_000_000;
const HOLD: Distribution = Distribution::Constant(T);

fn request(node: u32, at: u64) -> ScriptedRequest {
    ScriptedRequest { at: at * T, node: NodeId(node), hold: None }
}

fn plan(nodes: u32, workload: Workload, entries: u64) -> Plan {
    Plan::new(Setup::new(nodes), Network::new(Distribution::Constant(T)), workload, entries)
}

fn run(name: &str, plan: &Plan) -> Report {
    simulate(name, plan).expect("a registered name").expect("a system that can start")
}

fn scripted(name: &str, hold: Distribution, requests: &[ScriptedRequest]) -> Report {
    let workload = Workload { load: Load::Script(requests.to_vec()), who: Who::All, hold };
    run(name, &plan(5, workload, requests.len() as u64))
}

#[test]
fn the_messages_of_the_last_exit_are_counted_too() {
    // The quorum of process 1 in the grid of five has four members.
    let rows = [("central", 3.0), ("lamport", 12.0), ("ricart-agrawala", 8.0), ("maekawa", 9.0)];
    for (name, messages) in rows {
        let single = scripted(name, HOLD, &[request(1, 1)]);
        assert_eq!(single.messages_per_entry, messages, "{name}");
        let several = scripted(name, HOLD, &[request(1, 1), request(1, 20), request(1, 40)]);
        assert_eq!((several.entries, several.messages_per_entry), (3, messages), "{name}");
    }
    // A token that circulates does not keep the run from ending.
    assert_eq!(scripted("le-lann", HOLD, &[request(1, 1), request(3, 9)]).entries, 2);
}

#[test]
fn a_script_ends_with_its_last_request_however_many_entries_are_wanted() {
    let workload = Workload {
        load: Load::Script(vec![request(1, 1), request(3, 9)]),
        who: Who::All,
        hold: HOLD,
    };
    for (entries, warm_up, measured) in [(1, 0, 1), (2, 0, 2), (50, 0, 2), (50, 1, 1), (5, 50, 0)] {
        let mut plan = plan(5, workload.clone(), entries);
        plan.warm_up = Some(warm_up);
        // A circulating token would go on for ever.
        plan.max_events = 100_000;
        let report = run("le-lann", &plan);
        assert_eq!(report.entries, measured, "{entries} {warm_up}");
        assert!(report.events < 1000, "{}", report.events);
    }
}

#[test]
fn a_request_that_is_put_off_waits_from_its_arrival() {
    let requests = [request(0, 5), request(0, 6), request(0, 7)];
    let report = scripted("central", Distribution::Constant(10 * T), &requests);
    let waiting = report.waiting_time.expect("entries");
    // Entries at 7, 19 and 31: each comes two T after the exit before it.
    assert_eq!((waiting.mean, waiting.max), ((2.0 + 13.0 + 24.0) / 3.0, 24.0));
}

#[test]
fn bursts_that_come_too_fast_pile_up() {
    let every = Distribution::Constant(2 * T);
    let workload = Workload { load: Load::Bursts { every }, who: Who::All, hold: HOLD };
    let waiting = |entries| {
        let mut plan = plan(5, workload.clone(), entries);
        plan.warm_up = Some(0);
        run("central", &plan).waiting_time.expect("entries").mean
    };
    assert!(waiting(1000) > 5.0 * waiting(100), "{} {}", waiting(1000), waiting(100));
}

#[test]
fn waiting_and_response_time_are_of_the_same_entries() {
    let report = run("raymond", &plan(500, Workload::saturated(HOLD), 100));
    let (waiting, response) = (report.waiting_time.unwrap(), report.response_time.unwrap());
    assert!((response.mean - waiting.mean - 1.0).abs() < 1e-9, "{waiting:?} {response:?}");
    assert!(response.max > waiting.max);
}

#[test]
fn a_zipf_law_is_refused_where_all_request_equally_often() {
    for load in [Load::Saturated, Load::Bursts { every: HOLD }] {
        let workload = Workload { load, who: Who::Zipf(1.0), hold: HOLD };
        let refusal = simulate("central", &plan(5, workload, 100)).expect("a registered name");
        assert!(refusal.unwrap_err().to_string().contains("light load, think"));
    }
}

#[test]
fn a_large_tree_settles_before_it_is_measured() {
    let plan = plan(10_000, Workload::light(10_000, T as f64, HOLD), 10_000);
    let report = run("naimi-trehel", &plan);
    let expected = theory("naimi-trehel", &plan.setup, mutua_simulator::TheoryLoad::Light);
    let deviation = expected.messages.expect("a formula").deviation(report.messages_per_entry);
    assert!(deviation.abs() < 0.02, "{deviation}");
    assert_eq!((report.warm_up, report.unsettled_before), (100_000, None));
}

#[test]
fn a_warm_up_that_was_cut_short_is_reported() {
    let mut plan = plan(100, Workload::light(100, T as f64, HOLD), 100);
    plan.max_events = 3000;
    let report = run("naimi-trehel", &plan);
    assert_eq!(report.unsettled_before, Some(1000));
    assert!(report.warm_up < 1000 && report.entries > 0, "{}", report.warm_up);
}

#[test]
fn bursts_are_measured_whole() {
    let every = Distribution::Constant(10_000 * T);
    let workload = Workload { load: Load::Bursts { every }, who: Who::All, hold: HOLD };
    for (name, nodes, messages) in [("ricart-agrawala", 30, 58.0), ("central", 7, 3.0)] {
        let report = run(name, &plan(nodes, workload.clone(), 1000));
        assert_eq!(report.messages_per_entry, messages, "{name}");
        // The run ends with the burst in which the last wanted entry is.
        assert_eq!(report.entries, 1000u64.next_multiple_of(nodes.into()), "{name}");
        assert_eq!(report.warm_up % u64::from(nodes), 0, "{name}");
        let per_second = 1e9 / every.mean() * f64::from(nodes);
        assert!((report.throughput / per_second - 1.0).abs() < 1e-9, "{}", report.throughput);
        assert_eq!(report.half_widths["messages_per_entry"], 0.0, "{name}");
    }
}

#[test]
fn the_light_load_of_very_many_processes_fits_the_virtual_clock() {
    for nodes in [10, 500_000, 1_000_000, 100_000_000u32] {
        let Load::Light { gap } = Workload::light(nodes, T as f64, HOLD).load else { panic!() };
        let entries = 11.0 * f64::from(nodes);
        assert!(entries * (gap.mean() + HOLD.mean()) < 2f64.powi(63), "{nodes}: {gap:?}");
        assert!(gap.mean() > T as f64, "{nodes}: {gap:?}");
    }
    // Where ten rounds of all processes fit, they are the gap.
    let Load::Light { gap } = Workload::light(200_000, T as f64, HOLD).load else { panic!() };
    assert_eq!(gap.mean(), 10.0 * 200_000.0 * T as f64);
}

#[test]
fn a_run_longer_than_the_virtual_clock_is_refused_with_the_reason() {
    let gap = Distribution::Exponential { mean: 1 << 60 };
    let workload = Workload { load: Load::Light { gap }, who: Who::All, hold: HOLD };
    let refusal = |plan: &Plan| {
        simulate("central", plan).expect("a registered name").unwrap_err().to_string()
    };
    let long = plan(3, workload, 1000);
    assert!(refusal(&long).contains("years of virtual time"), "{}", refusal(&long));
    // A bound on the events may end the run in time, so it is tried.
    let bounded = Plan { max_events: 1_000_000, ..long };
    assert!(refusal(&bounded).contains("the virtual clock ended"), "{}", refusal(&bounded));
    let never = Load::Script(vec![ScriptedRequest { at: u64::MAX, node: NodeId(0), hold: None }]);
    let never = plan(3, Workload { load: never, who: Who::All, hold: HOLD }, 1);
    assert!(refusal(&never).contains("invalid duration"), "{}", refusal(&never));
}

#[test]
fn at_light_load_and_open_load_others_request_instead_of_a_crashed_process() {
    let open = Load::Poisson { gap: 200 * T };
    let loads =
        [Workload::light(5, T as f64, HOLD), Workload { load: open, who: Who::All, hold: HOLD }];
    for workload in loads {
        let mut plan = plan(5, workload.clone(), 100);
        plan.network.outages = vec![Outage { node: NodeId(2), from: 500 * T, until: None }];
        let repaired = RepairPlan {
            plan,
            election: ElectionName::Bully,
            special: true,
            chosen: Vec::new(),
            detector: Detector::Perfect(Distribution::Constant(T)),
            transmission: None,
            handling: None,
            gap_at: None,
        };
        for name in ["maekawa", "naimi-trehel"] {
            let report = simulate_repaired(name, &repaired, None).expect("registered");
            let report = report.expect("it can start");
            assert_eq!(report.report.entries, 100, "{name} {:?}", workload.load);
            assert_eq!(report.report.violations, [], "{name} {:?}", workload.load);
        }
    }
    // Without a repair: the coordinator does not miss an idle client.
    let mut plan = plan(5, Workload::light(5, T as f64, HOLD), 100);
    plan.network.outages = vec![Outage { node: NodeId(2), from: 20 * T, until: None }];
    assert_eq!(run("central", &plan).entries, 100);
}
