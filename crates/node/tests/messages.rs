//! Five nodes over real sockets send the messages that the simulator counts: exactly for entries
//! one at a time, and within 5 % under saturation. The nodes count them.

mod cluster;
#[path = "../../protocol/tests/simulated/mod.rs"]
mod simulated;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mutua_node::{Config, Limits, Lock, LockStatus, Node, Rule, usable};
use simulated::{NODES, Regime, SEQUENCE};
use tempfile::TempDir;
use tokio::{
    sync::watch::{Receiver, channel},
    task::JoinSet,
};

/// Hold times that are long against the latency of a message, so that all other nodes wait
/// meanwhile, whenever their messages came. A polling process sends a few times per hold, at a pace
/// that is long against the resolution of a real timer, which the latencies include.
const REGIME: Regime = Regime { latency: (50, 1500), hold: 100_000, pace: 40_000, apart: 10_000 };

/// Entries into each lock, whole rounds of all nodes, and those that are not counted.
const ENTRIES: u64 = 30;
const WARM_UP: u64 = 5;

/// Five nodes with a lock for every algorithm, under the algorithm's name. They acknowledge
/// quickly, and no link is taken for lost, however busy the machine is.
async fn start() -> (TempDir, Vec<Node>) {
    let rules: Vec<_> = usable().map(|about| Rule::new(about.name, about.name)).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let members = cluster::members(NODES);
    let mut nodes = Vec::new();
    for me in 0..NODES {
        let limits = Limits {
            heartbeat: Duration::from_millis(5),
            lost_after: Duration::from_secs(100),
            idle_after: Duration::from_secs(10_000),
            pace_wanted: Duration::from_micros(REGIME.pace),
            ..Limits::default()
        };
        let config = Config { limits, ..cluster::config(&directory, &members, me, &rules) };
        nodes.push(Node::start(config).await.expect("a node"));
    }
    for node in &nodes {
        node.ready().await;
    }
    (directory, nodes)
}

/// All messages of all nodes about this lock so far.
fn total(nodes: &[Node], name: &str) -> u64 {
    let count = |node: &Node| node.lock_status(name).map_or(0, |lock| lock.counts.messages);
    nodes.iter().map(count).sum()
}

fn home(nodes: &[Node], name: &str) -> u32 {
    let _open = nodes[0].lock(name);
    let lock = nodes[0].lock_status(name).expect("open");
    lock.home.expect("a home").0
}

/// Waits until no message about this lock is under way: every message was acknowledged, thus
/// handled, after the last one of this lock was counted.
async fn rest(nodes: &[Node], name: &str) {
    let mut count = total(nodes, name);
    let mut unacknowledged: Vec<_> =
        (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))).collect();
    let all = unacknowledged.clone();
    while !unacknowledged.is_empty() {
        tokio::task::yield_now().await;
        unacknowledged.retain(|&(from, to)| nodes[from].status().members[to].backlog > 0);
        let now = total(nodes, name);
        if now != count {
            (count, unacknowledged) = (now, all.clone());
        }
    }
}

#[tokio::test]
async fn entries_one_at_a_time_cost_exactly_what_the_simulator_counts() {
    let (_directory, nodes) = start().await;
    for about in usable() {
        let name = about.name;
        let mut counts = Vec::new();
        for node in SEQUENCE {
            let before = total(&nodes, name);
            let guard = nodes[node].lock(name).acquire().await.expect("a guard");
            rest(&nodes, name).await;
            drop(guard);
            rest(&nodes, name).await;
            counts.push(total(&nodes, name) - before);
        }
        println!("{name:<24} {counts:?}");
        assert_eq!(counts, simulated::one_at_a_time(name, home(&nodes, name)), "{name}");
    }
}

/// The counts of one lock.
#[derive(Debug, Default)]
struct Tally {
    entries: AtomicU64,
    /// Messages after the warm-up, and when enough have entered.
    messages: [AtomicU64; 2],
}

/// A client acquires again and again, at once after its release. The first one holds the lock until
/// all wait.
async fn acquire_repeatedly(
    lock: Lock,
    nodes: Arc<Vec<Node>>,
    tally: Arc<Tally>,
    mut gate: Receiver<bool>,
) {
    let name = str::from_utf8(lock.name()).expect("an algorithm's name").to_owned();
    while tally.entries.load(Ordering::SeqCst) < WARM_UP + ENTRIES {
        let guard = lock.acquire().await.expect("a guard");
        gate.wait_for(|&open| open).await.expect("a gate");
        tokio::time::sleep(Duration::from_micros(REGIME.hold)).await;
        let entries = tally.entries.fetch_add(1, Ordering::SeqCst) + 1;
        // Counted from the end of a hold to the end of a hold, when all messages of it are sent.
        if let Some(index) = [WARM_UP, WARM_UP + ENTRIES].iter().position(|&end| end == entries) {
            tally.messages[index].store(total(&nodes, &name), Ordering::SeqCst);
        }
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_saturation_entries_cost_what_the_simulator_counts_within_5_percent() {
    let (_directory, nodes) = start().await;
    let nodes = Arc::new(nodes);
    let tallies: Vec<_> = usable().map(|about| (about.name, Arc::new(Tally::default()))).collect();
    let (gate, open) = channel(false);
    let mut tasks = JoinSet::new();
    for node in nodes.iter() {
        for (name, tally) in &tallies {
            let (nodes, tally) = (Arc::clone(&nodes), Arc::clone(tally));
            tasks.spawn(acquire_repeatedly(node.lock(name), nodes, tally, open.clone()));
        }
        // In the order of the list everywhere.
        for (name, _) in &tallies {
            while !is_wanted(node, name) {
                tokio::task::yield_now().await;
            }
            rest(&nodes, name).await;
        }
    }
    gate.send(true).expect("clients");
    while let Some(result) = tasks.join_next().await {
        result.expect("no client fails");
    }
    for (name, tally) in tallies {
        let [before, after] = tally.messages.each_ref().map(|count| count.load(Ordering::SeqCst));
        let counted = (after - before) as f64 / ENTRIES as f64;
        let expected = simulated::saturated(name, home(&nodes, name), REGIME);
        simulated::compare(name, counted, expected);
    }
}

/// Whether a client of this node waits or holds.
fn is_wanted(node: &Node, name: &str) -> bool {
    let wanted = |lock: LockStatus| lock.holder.is_some() || !lock.waiting.is_empty();
    node.lock_status(name).is_some_and(wanted)
}
