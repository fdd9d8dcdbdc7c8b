//! Several nodes in one process, over real sockets.

use std::{net::SocketAddr, path::Path, time::Duration};

use mutua_node::{Config, Limits, MemberConfig, Node, Rule};
use tempfile::TempDir;

/// Members whose ports were free a moment ago.
pub(crate) fn members(count: usize) -> Vec<MemberConfig> {
    let addresses = mutua_host::free_addresses(count).expect("free ports");
    let member = |(index, address): (usize, SocketAddr)| {
        MemberConfig::new(format!("n{index}"), address.to_string())
    };
    addresses.into_iter().enumerate().map(member).collect()
}

#[allow(dead_code, reason = "one of the tests starts processes instead")]
pub(crate) fn config(
    directory: &TempDir,
    members: &[MemberConfig],
    me: usize,
    rules: &[Rule],
) -> Config {
    config_in(directory.path(), members, me, rules)
}

/// A node with short timeouts.
pub(crate) fn config_in(
    directory: &Path,
    members: &[MemberConfig],
    me: usize,
    rules: &[Rule],
) -> Config {
    Config {
        cluster: "test".to_owned(),
        node: members[me].name.clone(),
        members: members.to_vec(),
        clustered: true,
        data: directory.join(&members[me].name),
        rules: rules.to_vec(),
        limits: Limits { lost_after: Duration::from_millis(500), ..limits() },
        view_lease: mutua_node::VIEW_LEASE,
        longest_lease: mutua_node::LONGEST_LEASE,
        highest_level: u16::MAX,
        tls: None,
        socket: None,
        access: Vec::new(),
        insecure: false,
        listen: None,
        metrics_listen: None,
        metrics_names: false,
        audit: None,
        log_level: mutua_node::LogLevel::Info,
        trace: None,
        file: None,
    }
}

fn limits() -> Limits {
    Limits { heartbeat: Duration::from_millis(100), ..Limits::default() }
}

/// So many nodes in a view.
#[allow(dead_code, reason = "one of the tests starts processes instead")]
pub(crate) async fn start(count: usize, rules: &[Rule]) -> (TempDir, Vec<Node>) {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(count);
    let mut nodes = Vec::new();
    for me in 0..count {
        nodes.push(Node::start(config(&directory, &members, me, rules)).await.expect("a node"));
    }
    for node in &nodes {
        node.ready().await;
    }
    (directory, nodes)
}
