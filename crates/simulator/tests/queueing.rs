//! The simulator beside queueing theory: the central algorithm is an M/D/1 queue.
//!
//! The coordinator serves one request at a time, from its reply to the release: 2 T and the hold
//! time, constant. Requests arrive at random. So the mean wait in its queue is that of Pollaczek
//! and Khinchine, rho S / (2 (1 - rho)); a request and a reply, T each, come on top.

use mutua_algorithms::Setup;
use mutua_simulator::{Distribution, Load, Network, Plan, Report, Who, Workload, simulate};

/// The latency, in nanoseconds.
const T: u64 = 1_000_000;

/// The service time in T, with a hold time of T.
const SERVICE: f64 = 3.0;

/// So many processes that one rarely requests while its last request is served.
const NODES: u32 = 2_000;

fn run(load: f64, entries: u64) -> Report {
    let gap = (SERVICE * T as f64 / load).round() as u64;
    let setup = Setup::new(NODES).with("coordinator", "dedicated");
    let hold = Distribution::Constant(T);
    let workload = Workload { load: Load::Poisson { gap }, who: Who::All, hold };
    let network = Network::new(Distribution::Constant(T));
    let plan = Plan::new(setup, network, workload, entries);
    simulate("central", &plan).expect("a known algorithm").expect("a system that starts")
}

#[test]
fn the_central_algorithm_waits_as_an_m_d_1_queue() {
    for (load, entries) in [(0.3, 200_000), (0.6, 400_000), (0.8, 800_000)] {
        let report = run(load, entries);
        let expected = 2.0 + load * SERVICE / (2.0 * (1.0 - load));
        let found = report.waiting_time.expect("entries").mean;
        let width = report.half_widths["waiting_time"];
        assert!(width < 0.05 * expected, "load {load}: {found} +- {width}");
        assert!(
            (found - expected).abs() < 2.0 * width + 0.002 * expected,
            "load {load}: {found} +- {width}, by theory {expected}"
        );
        let throughput = report.throughput * SERVICE * T as f64 / 1e9;
        assert!((throughput - load).abs() < 0.01 * load, "load {load}: {throughput}");
    }
}

#[test]
fn more_requests_than_can_be_granted_keep_the_coordinator_busy() {
    let report = run(1.5, 20_000);
    let busy = report.throughput * SERVICE * T as f64 / 1e9;
    assert!((busy - 1.0).abs() < 0.001, "{busy}");
    // The wait grows with the run: a request comes every 2 T, one is granted every 3 T.
    assert!(report.waiting_time.expect("entries").max > 5_000.0);
}
