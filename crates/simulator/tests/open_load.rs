//! Open systems: requests arrive however many wait.

use mutua_algorithms::Setup;
use mutua_simulator::{Distribution, Load, Network, Plan, Report, Who, Workload, simulate};

const T: u64 = 1_000_000;

fn plan(nodes: u32, load: Load, entries: u64) -> Plan {
    let workload = Workload { load, who: Who::All, hold: Distribution::Constant(T) };
    Plan::new(Setup::new(nodes), Network::new(Distribution::Constant(T)), workload, entries)
}

fn run(name: &str, plan: &Plan) -> Report {
    simulate(name, plan).expect("a registered name").expect("a system that can start")
}

fn poisson(rate: f64) -> Load {
    Load::Poisson { gap: (1e9 / rate).round() as u64 }
}

fn bursts(every: u64) -> Load {
    Load::Bursts { every: Distribution::Constant(every) }
}

#[test]
fn requests_that_find_their_client_busy_are_no_sign_of_a_deadlock() {
    let mut slow = plan(10, poisson(10_000.0), 100);
    slow.network = Network::new(Distribution::Constant(1000 * T));
    let mut long = plan(5, bursts(1000), 10);
    long.network = Network::new(Distribution::Constant(100 * T));
    long.workload.hold = Distribution::Constant(1000 * T);
    for (name, plan) in [
        ("central", plan(10, bursts(1000), 100)),
        ("central", plan(10, poisson(1e7), 100)),
        ("central", slow),
        ("naimi-trehel", long),
    ] {
        let report = run(name, &plan);
        assert_eq!(report.violations, [], "{name}");
        assert!(report.entries > 0 || report.overloaded, "{name}");
    }
}

#[test]
fn a_deadlock_ends_an_open_system_though_requests_go_on_arriving() {
    let mut plan = plan(3, poisson(100.0), 1000);
    plan.network.loss = 0.2;
    let report = run("central", &plan);
    assert!(report.violation_count > 0 && report.entries < 1000, "{}", report.entries);
}

#[test]
fn the_client_delay_is_of_requests_that_find_nothing_before_them() {
    for nodes in [1, 2, 5, 20] {
        for rate in [20.0, 150.0, 300.0] {
            let report = run("central", &plan(nodes, poisson(rate), 3000));
            assert_eq!(report.client_delay, Some(2.0), "{nodes} {rate}");
        }
    }
    // In a burst every request has others beside it, the first one too.
    for name in ["central", "naimi-trehel"] {
        let mut plan = plan(10, bursts(100 * T), 1000);
        plan.network = Network::new(Distribution::Exponential { mean: T });
        assert_eq!(run(name, &plan).client_delay, None, "{name}");
    }
    assert_eq!(run("central", &plan(1, bursts(100 * T), 100)).client_delay, Some(2.0));
}

#[test]
fn the_warm_up_of_an_open_system_grows_with_its_load() {
    let warm_up = |rate| run("central", &plan(20, poisson(rate), 1000)).warm_up;
    assert!(warm_up(30.0) < 200, "{}", warm_up(30.0));
    let busy = warm_up(300.0);
    assert!((1000..2000).contains(&busy), "{busy}");
    let report = run("central", &plan(20, poisson(330.0), 1000));
    assert!(report.warm_up > 90_000 && report.unsettled_before.is_none(), "{}", report.warm_up);
    let mut short = plan(20, poisson(330.0), 1000);
    short.max_events = 100_000;
    assert!(run("central", &short).unsettled_before > Some(90_000));
}

#[test]
fn the_interval_of_a_busy_open_system_covers_its_mean() {
    // M/D/1 with rho = 0.9, and the request and the reply.
    let expected = 2.0 + 0.9 * 3.0 / (2.0 * 0.1);
    let seeds = 200;
    let covers = |seed| {
        let mut plan = plan(20, poisson(300.0), 10_000);
        plan.seed = seed;
        let report = run("central", &plan);
        let mean = report.waiting_time.expect("entries").mean;
        (mean - expected).abs() < report.half_widths["waiting_time"]
    };
    let covered = (1..=seeds).filter(|&seed| covers(seed)).count();
    assert!((185..=198).contains(&covered), "{covered} of {seeds}");
    // Far fewer entries than those over which waits are correlated give none.
    let short = run("central", &plan(20, poisson(330.0), 10_000));
    assert_eq!(short.half_widths.get("waiting_time"), None);
}
