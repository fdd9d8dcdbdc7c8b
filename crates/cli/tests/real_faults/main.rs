//! Real nodes on hosts of their own, clients that lock through them, and faults: processes are
//! killed and stopped, links are cut, delayed and lossy, disks are full, clocks differ. At no time
//! two clients hold one lock, and fencing tokens grow; when the faults are over, every host
//! acquires the lock again.
//!
//! `MUTUA_FAULTS=200 MUTUA_SEED=7 cargo test -p mutua --test real_faults` runs more faults, or
//! others; `MUTUA_ALGORITHM` chooses one. `cargo xtask campaign --real` runs many slices and keeps
//! their counts.

mod cluster;
mod faults;
mod history;
mod library;
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

/// Waits until every host from this one on has acquired the lock once more.
fn everybody_enters(cluster: &Cluster, history: &History, first: usize, after: &str) {
    let hosts = cluster.hosts();
    let begun = Instant::now();
    let before = history.entries_by_host(hosts);
    let is_missing = |(now, before): (&usize, &usize)| now == before;
    loop {
        let now = history.entries_by_host(hosts);
        if !now.iter().zip(&before).skip(first).any(is_missing) {
            return;
        }
        let waited = begun.elapsed();
        assert!(
            waited < RECOVERY,
            "{after}: entries by host {before:?}, {now:?} {waited:?} later\n{}",
            cluster.logs()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn campaign(algorithm: &str, hosts: usize) {
    campaign_of(algorithm, algorithm, hosts, Workers::start);
}

fn campaign_of(
    name: &str,
    algorithm: &str,
    hosts: usize,
    start: fn(&Cluster, &History) -> Workers,
) {
    if env::var("MUTUA_ALGORITHM").is_ok_and(|wanted| wanted != algorithm) {
        return;
    }
    let (seed, faults) = (number("MUTUA_SEED", 1), number("MUTUA_FAULTS", FAULTS));
    let mut kinds = BTreeMap::<_, u64>::new();
    let mut cluster = Cluster::start(algorithm, hosts, seed);
    let history = History::new();
    let workers = start(&cluster, &history);
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
        println!("{name} fault {number} of {faults}: {fault:?}, {entries} entries meanwhile");
        history.check(&fault);
    }
    cluster.repair();
    everybody_enters(&cluster, &history, 0, &format!("seed {seed}"));
    workers.stop();
    history.check(&"the end");
    let (entries, time) = (history.entries(), begun.elapsed());
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!(
        "{name} seeds {seed}..{} faults {faults} violations 0 grants {entries} seconds {}; {}",
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

#[test]
fn clients_of_the_library_survive_faults_on_real_hosts() {
    campaign_of("library", "naimi-trehel", 3, Workers::start_library);
}

/// All are killed at once, as by a power cut, and one never comes back.
#[test]
fn trap_21_two_of_three_go_on_after_all_were_killed() {
    let mut cluster = Cluster::start("naimi-trehel", 3, 1);
    let history = History::new();
    let workers = Workers::start(&cluster, &history);
    everybody_enters(&cluster, &history, 0, "the start");
    (0..3).for_each(|host| cluster.kill(host));
    history.check(&"the power cut");
    (1..3).for_each(|host| cluster.start_node(host));
    everybody_enters(&cluster, &history, 1, "the power cut");
    workers.stop();
    history.check(&"the end");
}

/// Each node is stopped in order and started again while clients of all three hold and wait: no
/// command fails, and none ends early.
#[test]
fn trap_22_a_rolling_restart_fails_no_command() {
    let mut cluster = Cluster::start("naimi-trehel", 3, 1);
    let history = History::new();
    let workers = Workers::start(&cluster, &history);
    for host in 0..3 {
        everybody_enters(&cluster, &history, 0, "the last restart");
        cluster.stop_in_order(host);
        history.check(&format!("the stop of m{host}"));
        cluster.start_node(host);
        let begun = Instant::now();
        while !cluster.grants(host) {
            assert!(begun.elapsed() < RECOVERY, "m{host} does not grant\n{}", cluster.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    everybody_enters(&cluster, &history, 0, "the last restart");
    assert_eq!(workers.stop(), [], "{}", cluster.logs());
    history.check(&"the end");
}

/// A client reaches no member but the one on its own host. Another one serves it after a crash of
/// that node, and the client goes on through its own node when that is back.
#[test]
fn a_client_goes_on_through_its_own_node_when_that_returns() {
    let mut cluster = Cluster::start("naimi-trehel", 3, 1);
    let done = cluster.host(0).directory().join("done");
    let job = "until [ -e done ]; do sleep 0.1; done";
    let lock = ["lock", "--config", "mutua.toml", "--ttl", "20s", "x", "--", "sh", "-c", job];
    let mut client = cluster.command(0, &lock).spawn().expect("a client");
    let await_custody = |cluster: &Cluster, wanted: bool| {
        let begun = Instant::now();
        while cluster.custody_of_x(1) != Some(wanted) {
            assert!(begun.elapsed() < RECOVERY, "custody is not {wanted}\n{}", cluster.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    await_custody(&cluster, false);
    cluster.kill(0);
    await_custody(&cluster, true);
    cluster.start_node(0);
    await_custody(&cluster, false);
    std::fs::write(done, "").expect("written");
    let status = client.wait().expect("ended");
    assert!(status.success(), "{status}\n{}", cluster.logs());
    // Released, and not held until the lease expires.
    let again = ["lock", "--config", "mutua.toml", "-w", "5", "x", "--", "true"];
    assert!(cluster.command(2, &again).status().expect("runs").success(), "{}", cluster.logs());
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
