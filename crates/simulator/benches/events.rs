//! Events per second, beside what the bare wheel does in the same run; memory per process.
//!
//! `cargo bench -p mutua-simulator` runs it. Timing is printed, not asserted.

use std::{fs, hint::black_box, time::Instant};

use mutua_algorithms::{
    Mutex, Setup,
    mutexes::{NaimiTrehel, Raymond},
};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Random, Simulation, Wheel, Who, Workload,
};

const LATENCY: u64 = 1_000_000;

fn main() {
    println!(
        "{:<14} {:>9} {:<10} {:>12} {:>9} {:>12} {:>7} {:>11}",
        "algorithm", "nodes", "load", "events", "M/s", "wheel M/s", "ratio", "bytes/node"
    );
    for nodes in [1_000, 1_000_000] {
        let entries = if nodes == 1_000 { 2_000_000 } else { 1_500_000 };
        for load in ["saturated", "think"] {
            measure::<Raymond>(nodes, load, entries);
            measure::<NaimiTrehel>(nodes, load, entries);
        }
    }
}

/// Saturated: everyone waits, few messages are under way. Think: everyone has a request planned, at
/// a rate of about one per time inside, so the wheel is full.
fn workload(load: &str, nodes: u32) -> Workload {
    let hold = Distribution::Constant(LATENCY);
    match load {
        "saturated" => Workload::saturated(hold),
        _ => {
            let think = Distribution::Exponential { mean: 4 * LATENCY * u64::from(nodes) };
            Workload { load: Load::Think(think), who: Who::All, hold }
        }
    }
}

fn measure<M: Mutex>(nodes: u32, load: &str, entries: u64) {
    let before = resident_bytes();
    let network = Network::new(Distribution::Constant(LATENCY));
    let mut plan = Plan::new(Setup::new(nodes), network, workload(load, nodes), entries);
    plan.warm_up = Some(0);
    plan.drain = false;
    let mut simulation = Simulation::<M>::new(plan).expect("a plan that can be");
    let begin = Instant::now();
    while simulation.run(1 << 20) {}
    let rate = simulation.events() as f64 / begin.elapsed().as_secs_f64();
    let bytes = (resident_bytes() - before) / f64::from(nodes);
    let bare = bare_wheel(nodes as usize);
    println!(
        "{:<14} {nodes:>9} {load:<10} {:>12} {:>9.2} {:>12.2} {:>7.2} {bytes:>11.0}",
        M::ABOUT.name,
        simulation.events(),
        rate / 1e6,
        bare / 1e6,
        rate / bare,
    );
}

/// Pops per second of a wheel in which so many events wait, each put back at a random later time.
fn bare_wheel(pending: usize) -> f64 {
    let mut random = Random::new(1, 0);
    let mut wheel = Wheel::new();
    for number in 0..pending {
        wheel.push(random.below(2 * LATENCY), number);
    }
    let count = 5_000_000;
    let begin = Instant::now();
    for _ in 0..count {
        let (time, _, number) = wheel.pop().expect("it stays full");
        wheel.push(time + random.below(2 * LATENCY), black_box(number));
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

fn resident_bytes() -> f64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok())
    });
    pages.unwrap_or(0.0) * 4096.0
}
