//! What is measured is what was asked for, whatever the clients do.

use mutua_algorithms::{NodeId, Setup};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Report, Who, Wish, Workload, simulate, theory,
};

const T: u64 = 1_000_000;
const HOLD: Distribution = Distribution::Constant(T);

fn wish(node: u32, at: u64) -> Wish {
    Wish { at: at * T, node: NodeId(node), hold: None }
}

fn plan(nodes: u32, workload: Workload, entries: u64) -> Plan {
    Plan::new(Setup::new(nodes), Network::new(Distribution::Constant(T)), workload, entries)
}

fn run(name: &str, plan: &Plan) -> Report {
    simulate(name, plan).expect("a registered name").expect("a system that can start")
}

fn written(name: &str, hold: Distribution, wishes: &[Wish]) -> Report {
    let workload = Workload { load: Load::Script(wishes.to_vec()), who: Who::All, hold };
    run(name, &plan(5, workload, wishes.len() as u64))
}

#[test]
fn the_messages_of_the_last_exit_are_counted_too() {
    // The quorum of process 1 in the grid of five has four members.
    let rows = [("central", 3.0), ("lamport", 12.0), ("ricart-agrawala", 8.0), ("maekawa", 9.0)];
    for (name, messages) in rows {
        let single = written(name, HOLD, &[wish(1, 1)]);
        assert_eq!(single.messages_per_entry, messages, "{name}");
        let several = written(name, HOLD, &[wish(1, 1), wish(1, 20), wish(1, 40)]);
        assert_eq!((several.entries, several.messages_per_entry), (3, messages), "{name}");
    }
    // A token that goes round does not keep the run from ending.
    assert_eq!(written("le-lann", HOLD, &[wish(1, 1), wish(3, 9)]).entries, 2);
}

#[test]
fn a_script_ends_with_its_last_request_however_many_entries_are_wanted() {
    let workload =
        Workload { load: Load::Script(vec![wish(1, 1), wish(3, 9)]), who: Who::All, hold: HOLD };
    for (entries, warm_up, measured) in [(1, 0, 1), (2, 0, 2), (50, 0, 2), (50, 1, 1), (5, 50, 0)] {
        let mut plan = plan(5, workload.clone(), entries);
        plan.warm_up = Some(warm_up);
        // A token that goes round would go on for ever.
        plan.max_events = 100_000;
        let report = run("le-lann", &plan);
        assert_eq!(report.entries, measured, "{entries} {warm_up}");
        assert!(report.events < 1000, "{}", report.events);
    }
}

#[test]
fn a_request_that_must_be_put_off_waits_from_when_it_came() {
    let wishes = [wish(0, 5), wish(0, 6), wish(0, 7)];
    let report = written("central", Distribution::Constant(10 * T), &wishes);
    let waiting = report.waiting_time.expect("entries");
    // In at 7, 19 and 31: each is let in two T after the one before has left.
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
fn waiting_and_response_speak_of_the_same_entries() {
    let report = run("raymond", &plan(500, Workload::saturated(HOLD), 100));
    let (waiting, response) = (report.waiting_time.unwrap(), report.response_time.unwrap());
    assert!((response.mean - waiting.mean - 1.0).abs() < 1e-9, "{waiting:?} {response:?}");
    assert!(response.max > waiting.max);
}

#[test]
fn a_zipf_law_is_refused_where_all_ask_alike() {
    for load in [Load::Saturated, Load::Bursts { every: HOLD }] {
        let workload = Workload { load, who: Who::Zipf(1.0), hold: HOLD };
        let refusal = simulate("central", &plan(5, workload, 100)).expect("a registered name");
        assert!(refusal.unwrap_err().to_string().contains("light load or think"));
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
fn a_warm_up_that_was_cut_short_is_told() {
    let mut plan = plan(100, Workload::light(100, T as f64, HOLD), 100);
    plan.max_events = 3000;
    let report = run("naimi-trehel", &plan);
    assert_eq!(report.unsettled_before, Some(1000));
    assert!(report.warm_up < 1000 && report.entries > 0, "{}", report.warm_up);
}
