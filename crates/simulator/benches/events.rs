//! Events per second, beside what the bare wheel does in the same run; memory per process.
//!
//! `cargo bench -p mutua-simulator` runs it; words after `--` choose lines, such as `raymond
//! 1000000 think`. Timing is printed, not asserted. It is the processor time of this thread, which
//! other load on the machine hardly changes.

use std::{env, fs, hint::black_box};

use mutua_algorithms::{
    Mutex, Setup,
    mutexes::{NaimiTrehel, Raymond},
};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Random, Simulation, Wheel, Who, Workload,
};
use rustix::time::{ClockId, clock_gettime};

const LATENCY: u64 = 1_000_000;

fn main() {
    println!(
        "{:<14} {:>9} {:<10} {:>12} {:>9} {:>12} {:>7} {:>11}",
        "algorithm", "nodes", "load", "events", "M/s", "wheel M/s", "ratio", "bytes/node"
    );
    let words: Vec<_> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for nodes in [1_000, 1_000_000] {
        for load in ["saturated", "think"] {
            measure::<Raymond>(nodes, load, &words);
            measure::<NaimiTrehel>(nodes, load, &words);
        }
    }
}

/// Seconds of the processor that this thread has used.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Saturated: all processes wait, few messages are in transit. Think: every process has a request
/// planned, at a rate of about one per hold time, so the wheel is full.
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

fn measure<M: Mutex>(nodes: u32, load: &str, words: &[String]) {
    let line = [M::ABOUT.name.to_owned(), nodes.to_string(), load.to_owned()];
    if !words.iter().all(|word| line.contains(word)) {
        return;
    }
    let entries = if nodes == 1_000 { 2_000_000 } else { 1_500_000 };
    let before = resident_bytes();
    let network = Network::new(Distribution::Constant(LATENCY));
    let mut plan = Plan::new(Setup::new(nodes), network, workload(load, nodes), entries);
    plan.warm_up = Some(0);
    plan.drain = false;
    let mut simulation = Simulation::<M>::new(plan).expect("a plan that can be");
    let begin = processor_seconds();
    while simulation.run(1 << 20) {}
    let rate = simulation.events() as f64 / (processor_seconds() - begin);
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
    let begin = processor_seconds();
    for _ in 0..count {
        let (time, _, number) = wheel.pop().expect("it stays full");
        wheel.push(time + random.below(2 * LATENCY), black_box(number));
    }
    f64::from(count) / (processor_seconds() - begin)
}

fn resident_bytes() -> f64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok())
    });
    pages.unwrap_or(0.0) * 4096.0
}
