//! Real nodes on hosts of their own, clients that lock through them, and faults: processes are
//! killed and stopped, links are cut, delayed and lossy. At no time two clients hold one lock, and
//! fencing tokens grow; when the faults are over, every host acquires the lock again.
//!
//! `MUTUA_FAULTS=200 MUTUA_SEED=7 cargo test -p mutua --test real_faults` runs more faults, or
//! others; `MUTUA_ALGORITHM` chooses one. `cargo xtask campaign --real` runs many slices and keeps
//! their counts.

mod cluster;
mod faults;
mod history;
mod workers;

use std::{
    collections::BTreeMap,
    env,
    time::{Duration, Instant},
};

use cluster::Cluster;
use history::History;
use mutua_algorithms::split_mix;
use workers::Workers;

/// Faults of one campaign, unless `MUTUA_FAULTS` says otherwise.
const FAULTS: u64 = 6;

/// How long every host may take to acquire the lock after the faults. A node that was killed while
/// a client held a lock waits for the lease of that client.
const RECOVERY: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => default,
    }
}

fn campaign(algorithm: &str, hosts: usize) {
    if env::var("MUTUA_ALGORITHM").is_ok_and(|wanted| wanted != algorithm) {
        return;
    }
    let (seed, faults) = (number("MUTUA_SEED", 1), number("MUTUA_FAULTS", FAULTS));
    let mut kinds = BTreeMap::<_, u64>::new();
    let mut cluster = Cluster::start(algorithm, hosts, seed);
    let history = History::new();
    let workers = Workers::start(&cluster, &history);
    // Other faults for every algorithm, the same for the same seed.
    let mut state =
        algorithm.bytes().fold(seed, |state, byte| split_mix::mix(state ^ u64::from(byte)));
    let begun = Instant::now();
    for number in 1..=faults {
        let fault = faults::draw(&mut state, hosts);
        let before = history.entries();
        faults::cause(&fault, &mut cluster, (&workers, &history), &mut state);
        *kinds.entry(fault.kind()).or_default() += 1;
        let entries = history.entries() - before;
        println!("{algorithm} fault {number} of {faults}: {fault:?}, {entries} entries meanwhile");
        history.check(&fault);
    }
    cluster.repair();
    let waiting = Instant::now();
    let before = history.entries_by_host(hosts);
    while history.entries_by_host(hosts).iter().zip(&before).any(|(now, before)| now == before) {
        let now = history.entries_by_host(hosts);
        let waited = waiting.elapsed();
        assert!(
            waited < RECOVERY,
            "seed {seed}: entries by host {before:?}, {now:?} {waited:?} after the last fault\n{}",
            cluster.logs()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    workers.stop();
    history.check(&"the end");
    let (entries, time) = (history.entries(), begun.elapsed());
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!(
        "{algorithm} seeds {seed}..{} faults {faults} violations 0 grants {entries} seconds {}; {}",
        seed + 1,
        time.as_secs(),
        kinds.join(", ")
    );
}

#[test]
fn the_default_algorithm_survives_faults_on_real_hosts() {
    campaign("naimi-trehel", 3);
}

#[test]
fn a_token_algorithm_survives_faults_on_real_hosts() {
    campaign("suzuki-kasami", 3);
}

#[test]
fn a_permission_algorithm_survives_faults_on_real_hosts() {
    campaign("ricart-agrawala", 3);
}

#[test]
fn a_quorum_algorithm_survives_faults_on_real_hosts() {
    campaign("maekawa", 3);
}

/// Without the lock the same jobs overlap: the history finds it.
#[test]
fn jobs_without_the_lock_are_found() {
    let cluster = Cluster::start("naimi-trehel", 2, 1);
    let history = History::new();
    let workers = Workers::start_without_lock(&cluster, &history);
    for _ in 0..400 {
        if history.violation().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    workers.stop();
    let violation = history.violation().expect("two jobs at the same time");
    assert!(violation.contains("two holders"), "{violation}");
}
