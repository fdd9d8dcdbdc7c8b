//! The simulator against queues that do nothing but give out the next event.

use std::{cmp::Reverse, collections::BinaryHeap, hint::black_box, time::Instant};

use mutua_algorithms::{Mutex, Setup, mutexes::NaimiTrehel};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Random, Simulation, Wheel, Who, Workload,
};

use super::Simulated;
use crate::statistics::median;

const LATENCY: u64 = 1_000_000;

/// Pops of a bare queue that are timed.
const POPS: u32 = 2_000_000;

pub(super) fn measure(quick: bool, rounds: usize) -> Vec<Simulated> {
    let mut all = Vec::new();
    for nodes in [1_000, 1_000_000] {
        for load in ["saturated", "think"] {
            let entries = if quick { 300_000 } else { 1_000_000 };
            let runs: Vec<_> =
                (0..rounds).map(|_| one::<NaimiTrehel>(nodes, load, entries)).collect();
            let middle = |of: fn(&(f64, f64, f64)) -> f64| {
                median(runs.iter().map(of).collect()).unwrap_or_default()
            };
            all.push(Simulated {
                algorithm: NaimiTrehel::ABOUT.name.to_owned(),
                nodes,
                load: load.to_owned(),
                events_per_s: middle(|run| run.0),
                wheel_per_s: middle(|run| run.1),
                heap_per_s: middle(|run| run.2),
            });
        }
    }
    all
}

fn one<M: Mutex>(nodes: u32, load: &str, entries: u64) -> (f64, f64, f64) {
    (simulation::<M>(nodes, load, entries), wheel(nodes), heap(nodes))
}

/// Saturated: everyone waits, few messages are under way. Think: everyone has a request planned, so
/// that the queue is full.
fn simulation<M: Mutex>(nodes: u32, load: &str, entries: u64) -> f64 {
    let hold = Distribution::Constant(LATENCY);
    let workload = if load == "saturated" {
        Workload::saturated(hold)
    } else {
        let think = Distribution::Exponential { mean: 4 * LATENCY * u64::from(nodes) };
        Workload { load: Load::Think(think), who: Who::All, hold }
    };
    let network = Network::new(Distribution::Constant(LATENCY));
    let mut plan = Plan::new(Setup::new(nodes), network, workload, entries);
    plan.warm_up = Some(0);
    plan.drain = false;
    let mut simulation = Simulation::<M>::new(plan).expect("a plan that can be");
    let begun = Instant::now();
    while simulation.run(1 << 20) {}
    simulation.events() as f64 / begun.elapsed().as_secs_f64()
}

/// Our own queue: so many events wait, each is put back at a random later time.
fn wheel(pending: u32) -> f64 {
    let mut random = Random::new(1, 0);
    let mut wheel = Wheel::new();
    for number in 0..pending {
        wheel.push(random.below(2 * LATENCY), number);
    }
    let begun = Instant::now();
    for _ in 0..POPS {
        let (time, _, number) = wheel.pop().expect("it stays full");
        wheel.push(time + random.below(2 * LATENCY), black_box(number));
    }
    f64::from(POPS) / begun.elapsed().as_secs_f64()
}

/// The standard library's heap, the queue of most simulators.
fn heap(pending: u32) -> f64 {
    let mut random = Random::new(1, 0);
    let mut heap: BinaryHeap<_> = (0..pending)
        .map(|number| Reverse((random.below(2 * LATENCY), u64::from(number), number)))
        .collect();
    let begun = Instant::now();
    for count in 0..POPS {
        let Reverse((time, _, number)) = heap.pop().expect("it stays full");
        // The second number keeps events of the same time in the order of their making.
        let order = u64::from(pending) + u64::from(count);
        heap.push(Reverse((time + random.below(2 * LATENCY), order, black_box(number))));
    }
    f64::from(POPS) / begun.elapsed().as_secs_f64()
}
