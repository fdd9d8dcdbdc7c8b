//! Several critical sections at once: messages of one never touch another.

use mutua_algorithms::{About, Claim, Kind, Setup, registry};
use mutua_simulator::{Distribution, Network, Plan, Report, Sections, Workload, simulate};

const T: u64 = 1_000_000;

fn plan(nodes: u32, sections: u32, workload: Workload) -> Plan {
    let network = Network::new(Distribution::Constant(T));
    let mut plan = Plan::new(Setup::new(nodes), network, workload, 2_000);
    plan.sections = Sections { count: sections, exponent: 0.0 };
    plan
}

fn saturated(nodes: u32, sections: u32) -> Plan {
    plan(nodes, sections, Workload::saturated(Distribution::Constant(T)))
}

fn light(nodes: u32, sections: u32) -> Plan {
    let hold = Distribution::Constant(T);
    plan(nodes, sections, Workload::light(nodes, T as f64, hold))
}

fn run(name: &str, plan: &Plan) -> Report {
    simulate(name, plan).expect("a registered name").expect("it can start")
}

fn usable() -> impl Iterator<Item = &'static About> {
    let mutexes = registry::ALGORITHMS.iter().copied();
    mutexes.filter(|about| about.kind == Kind::Mutex && !about.control)
}

#[test]
fn every_algorithm_keeps_its_properties_in_every_section() {
    for about in usable() {
        for latency in [Distribution::Constant(T), Distribution::Exponential { mean: T }] {
            let mut plan = saturated(5, 3);
            plan.network = Network::new(latency);
            let report = run(about.name, &plan);
            assert_eq!(report.violations, [], "{}", about.name);
            assert_eq!(report.nonsense, 0, "{}", about.name);
            assert_eq!(report.sections.len(), 3, "{}", about.name);
            assert_eq!(report.sections.iter().sum::<u64>(), report.entries, "{}", about.name);
            assert!(report.sections.iter().all(|&entries| entries > 400), "{}", about.name);
        }
    }
}

/// At light load an entry costs what it costs with one section, since no message of another section
/// counts.
#[test]
fn an_entry_costs_as_much_as_with_one_section() {
    for name in ["central", "lamport", "ricart-agrawala", "maekawa", "bakery"] {
        let one = run(name, &light(9, 1));
        let several = run(name, &light(9, 4));
        assert!(one.sections.is_empty());
        let per_entry = [one.messages_per_entry, several.messages_per_entry];
        assert!((per_entry[0] - per_entry[1]).abs() < 0.05, "{name}: {per_entry:?}");
    }
}

#[test]
fn processes_are_in_different_sections_at_once_and_a_section_is_rarely_contended() {
    let hold = Distribution::Constant(10 * T);
    let one = run("ricart-agrawala", &plan(8, 1, Workload::saturated(hold)));
    let several = run("ricart-agrawala", &plan(8, 8, Workload::saturated(hold)));
    assert!(one.utilisation <= 1.0, "{}", one.utilisation);
    assert!(several.utilisation > 3.0, "{}", several.utilisation);
    assert!(several.throughput > 3.0 * one.throughput);
    let mean = |report: &Report| report.waiting_time.expect("entries").mean;
    assert!(mean(&several) < mean(&one) / 3.0, "{} {}", mean(&several), mean(&one));
}

#[test]
fn sections_are_drawn_by_their_ranks() {
    let mut plan = light(5, 4);
    plan.entries = 20_000;
    plan.sections.exponent = 1.0;
    let report = run("central", &plan);
    for (entries, share) in report.sections.iter().zip([0.48, 0.24, 0.16, 0.12]) {
        let found = *entries as f64 / report.entries as f64;
        assert!((found - share).abs() < 0.02, "{:?}", report.sections);
    }
}

#[test]
fn a_violation_within_a_section_is_found_and_named() {
    let mut plan = saturated(3, 2);
    plan.network.fifo = false;
    plan.entries = 20_000;
    let report = run("bakery-naive", &plan);
    let violation = report.violations.iter().find(|one| one.property == Claim::MutualExclusion);
    let violation = violation.expect("two are in the same section at some time");
    assert!(violation.what.contains(", section "), "{}", violation.what);
    assert!(violation.node < 3);
}

#[test]
fn a_crash_is_one_of_the_process_in_all_sections() {
    use mutua_algorithms::NodeId;
    use mutua_simulator::Outage;
    let mut plan = saturated(4, 2);
    let outage = Outage { node: NodeId(1), from: 50 * T, until: None };
    plan.network.outages.push(outage);
    let report = run("ricart-agrawala", &plan);
    // No process gets a reply of the crashed one, in either section.
    let violation = report.violations.first().expect("all wait for ever");
    assert!(matches!(violation.property, Claim::DeadlockFree | Claim::Liveness));
    assert!(report.entries < 200, "{}", report.entries);
}

#[test]
fn what_sections_do_not_have_is_refused() {
    let refused = |plan: &Plan| {
        let report = simulate("central", plan).expect("a registered name");
        report.expect_err("it cannot start").to_string()
    };
    assert!(refused(&saturated(3, 0)).contains("at least 1"));
    assert!(refused(&saturated(30_000, 30_000)).contains("instances"));
    let mut plan = saturated(3, 2);
    plan.sections.exponent = -1.0;
    assert!(refused(&plan).contains("Zipf exponent"));
    let mut plan = saturated(3, 2);
    plan.app_messages = Some(Distribution::Constant(T));
    assert!(refused(&plan).contains("application"));
}
