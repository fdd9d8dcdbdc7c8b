//! States per second and bytes per state for Lamport's algorithm with three processes and one entry
//! each, next to Stateright's breadth-first search on the same model.
//!
//! `cargo bench -p mutua-checker`

#![expect(clippy::disallowed_types, reason = "a benchmark needs the machine's clock")]

#[path = "../tests/checker/stateright/peers.rs"]
mod peers;

use std::time::Instant;

use mutua_algorithms::{Claim, Setup, mutexes::Lamport};
use mutua_checker::{Host, Limits, Progress, Reduction, Search, System, Task, check};
use stateright::{Checker, Model};

const ROUNDS: usize = 15;

fn main() {
    let ours = (0..ROUNDS).map(|_| ours(3, 1, 1)).reduce(faster).expect("some rounds");
    let theirs = (0..ROUNDS).map(|_| theirs()).fold(f64::INFINITY, f64::min);
    let rate = rate(&ours);
    let their_rate = ours.states as f64 / theirs;
    println!("lamport, 3 processes, 1 entry each, 1 thread, best of {ROUNDS} rounds:");
    println!(
        "  mutua      {} states, {:.3} s, {:.2} million states/s, {:.0} bytes a state",
        ours.states,
        ours.seconds,
        rate / 1e6,
        ours.bytes as f64 / ours.states as f64
    );
    println!("  stateright {theirs:.3} s, {:.2} million states/s", their_rate / 1e6);
    println!("  ratio      {:.1}", rate / their_rate);
    let bytes = ours.bytes as f64 / ours.states as f64;
    let met = rate >= 1e6 && bytes <= 100.0 && rate >= 4.0 * their_rate;
    println!(
        "  wanted     1 million states/s, 100 bytes a state, 4 times stateright: {}",
        if met { "met" } else { "MISSED" }
    );
    for (nodes, entries) in [(3, 2), (4, 1)] {
        let mut alone = 0.0;
        for threads in [1, 2] {
            let search = ours_limited(nodes, entries, threads);
            println!(
                "lamport, {nodes} processes, {entries} entries each, {threads} threads: {} states \
                 in {:.2} s, {:.2} million states/s, {:.0} bytes a state, {:.2} times one thread",
                search.states,
                search.seconds,
                self::rate(&search) / 1e6,
                search.bytes as f64 / search.states as f64,
                self::rate(&search) / if threads == 1 { self::rate(&search) } else { alone }
            );
            alone = self::rate(&search);
        }
    }
}

fn rate(search: &Search) -> f64 {
    search.states as f64 / search.seconds
}

fn faster(a: Search, b: Search) -> Search {
    if a.seconds <= b.seconds { a } else { b }
}

fn ours(nodes: u32, entries: u32, threads: usize) -> Search {
    run(nodes, entries, Limits { threads, ..Limits::default() })
}

/// Larger systems, cut off: what counts is the rate once the tables have outgrown the caches.
fn ours_limited(nodes: u32, entries: u32, threads: usize) -> Search {
    run(nodes, entries, Limits { threads, states: Some(5_000_000), ..Limits::default() })
}

fn run(nodes: u32, entries: u32, limits: Limits) -> Search {
    let task = Task {
        name: "lamport".to_owned(),
        system: System::new(Setup::new(nodes), entries),
        properties: Some(vec![Claim::MutualExclusion, Claim::DeadlockFree]),
        reduction: Reduction::None,
        limits,
        first: false,
        walks: None,
        invariants: Vec::new(),
    };
    check(&task, &mut Clock(Instant::now())).expect("a plain system").searches.remove(0)
}

/// The machine's clock.
struct Clock(Instant);

impl Host for Clock {
    fn seconds(&mut self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn bytes(&mut self) -> u64 {
        0
    }

    fn progress(&mut self, _now: &Progress) {}
}

fn theirs() -> f64 {
    let began = Instant::now();
    let done = peers::model::<Lamport>(3, 1).checker().threads(1).spawn_bfs().join();
    done.assert_properties();
    began.elapsed().as_secs_f64()
}
