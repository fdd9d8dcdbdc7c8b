//! Acquiring where the token is, against an uncontended mutex of tokio's.

use std::{hint::black_box, net::SocketAddr, time::Instant};

use mutua_node::{Config, MemberConfig, Node};
use tokio::runtime::Builder;

const ROUNDS: u32 = 300_000;

pub(crate) fn measure() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("a directory");
        let nodes = cluster(directory.path(), 3).await;
        let lock = nodes[0].lock("here");
        drop(lock.acquire().await.expect("a guard"));
        let before = nodes[0].status().messages;
        let mutex = tokio::sync::Mutex::new(0_u64);
        // The best of several alternate rounds: other load disturbs both.
        let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
        for _ in 0..7 {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                *mutex.lock().await += 1;
            }
            theirs = theirs.min(nanos(start));
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let guard = lock.acquire().await.expect("a guard");
                black_box(guard.fencing_token());
            }
            ours = ours.min(nanos(start));
        }
        black_box(mutex);
        let sent = nodes[0].status().messages - before;
        println!(
            "re-entry: {ours:.0} ns, tokio's mutex {theirs:.0} ns, ratio {:.1} (at most 5); \
             {sent} messages sent",
            ours / theirs
        );
    });
}

fn nanos(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

/// Nodes in this process, in a view.
pub(crate) async fn cluster(directory: &std::path::Path, count: usize) -> Vec<Node> {
    let members = members(count);
    let mut nodes = Vec::new();
    for me in 0..count {
        nodes.push(Node::start(config(directory, &members, me)).await.expect("a node"));
    }
    for node in &nodes {
        node.ready().await;
    }
    nodes
}

pub(crate) fn members(count: usize) -> Vec<MemberConfig> {
    let addresses = mutua_host::free_addresses(count).expect("free ports");
    let member = |(index, address): (usize, SocketAddr)| {
        MemberConfig::new(format!("n{index}"), address.to_string())
    };
    addresses.into_iter().enumerate().map(member).collect()
}

pub(crate) fn config(directory: &std::path::Path, members: &[MemberConfig], me: usize) -> Config {
    Config {
        cluster: "bench".to_owned(),
        node: members[me].name.clone(),
        members: members.to_vec(),
        data: directory.join(&members[me].name),
        ..Config::alone(directory)
    }
}
