//! Members of a cluster come and go while locks are granted, over real sockets.

mod cluster;

use std::{path::Path, time::Duration};

use cluster::{config_in, members};
use mutua_node::{Config, Join, MemberConfig, MembershipError, Node, PrepareError, Role};
use tempfile::TempDir;

struct Cluster {
    directory: TempDir,
    members: Vec<MemberConfig>,
    nodes: Vec<Option<Node>>,
}

impl Cluster {
    /// So many founders, and addresses for so many in all.
    async fn start(founders: usize, all: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let members = members(all);
        let mut nodes = Vec::new();
        for me in 0..founders {
            let config = config_in(directory.path(), &members[..founders], me, &[]);
            nodes.push(Some(Node::start(config).await.expect("a node")));
        }
        let cluster = Self { directory, members, nodes };
        for me in 0..founders {
            cluster.node(me).ready().await;
        }
        cluster
    }

    fn node(&self, index: usize) -> &Node {
        self.nodes[index].as_ref().expect("it runs")
    }

    /// The configuration of a node that lists itself only.
    fn alone(&self, index: usize) -> Config {
        let mut config = config_in(self.directory.path(), &self.members, index, &[]);
        config.members = vec![self.members[index].clone()];
        config
    }

    async fn join(&mut self, index: usize, role: Option<Role>) -> u64 {
        self.join_at(0, index, role).await
    }

    /// A member joins at this one.
    async fn join_at(&mut self, at: usize, index: usize, role: Option<Role>) -> u64 {
        let token = Some(self.node(at).handle().invite().expect("a token"));
        let config = self.alone(index);
        let join = Join { token, role, ..Join::default() };
        let id = mutua_node::join(&config, join).await.expect("joined");
        let node = Node::start(config).await.expect("a node");
        if index == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[index] = Some(node);
        id
    }

    /// Waits until a node shows a member in this role, connected.
    async fn wait_for(&self, at: usize, name: &str, role: &str) {
        let votes = role != "follower";
        loop {
            let status = self.node(at).status();
            let found = status.members.iter().find(|member| member.name == name);
            if found.is_some_and(|member| {
                member.role == role
                    && member.becomes.is_none()
                    && member.votes == votes
                    && member.in_view == (role != "witness")
                    && member.up
            }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a node is in a view of these members.
    async fn wait_for_view(&self, at: usize, names: &[&str]) {
        loop {
            let status = self.node(at).status();
            let in_view = status.members.iter().filter(|member| member.in_view);
            if in_view.map(|member| member.name.as_str()).eq(names.iter().copied()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a node knows these members, all in its view.
    async fn wait_for_members(&self, at: usize, names: &[&str]) {
        loop {
            let status = self.node(at).status();
            let here: Vec<_> = status
                .members
                .iter()
                .filter(|member| member.in_view)
                .map(|member| member.name.as_str())
                .collect();
            if here == names && status.members.len() == names.len() && status.suspended.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn acquire(node: &Node, name: &str) {
    drop(node.lock(name).acquire().await.expect("a guard"));
}

#[tokio::test]
async fn a_member_joins_and_votes_and_another_leaves_while_a_lock_is_held() {
    let mut cluster = Cluster::start(3, 4).await;
    let held = cluster.node(0).lock("held").acquire().await.expect("a guard");
    cluster.join(3, None).await;
    cluster.wait_for(0, "n3", "voter").await;
    acquire(cluster.node(3), "x").await;
    cluster.node(1).handle().remove_member("n2").await.expect("decided");
    cluster.wait_for_members(3, &["n0", "n1", "n3"]).await;
    while !cluster.node(2).handle().has_left() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(held.is_good());
    let left = cluster.nodes[2].take().expect("it ran");
    left.stop().await;
    let config = config_in(cluster.directory.path(), &cluster.members[..3], 2, &[]);
    let again = Node::start(config).await.expect_err("it has left").to_string();
    assert!(again.contains("has left the cluster"), "{again}");
    // Three voters are left, of which one may be lost.
    cluster.nodes[1].take().expect("it runs").stop().await;
    acquire(cluster.node(3), "x").await;
    assert!(cluster.node(3).lock("held").try_acquire().await.is_err());
    drop(held);
    acquire(cluster.node(3), "held").await;
}

#[tokio::test]
async fn a_wiped_member_is_replaced_by_a_new_one_of_its_name() {
    let mut cluster = Cluster::start(3, 3).await;
    let status = cluster.node(0).status();
    let old = status.members[2].id;
    cluster.nodes[2].take().expect("it runs").stop().await;
    let config = config_in(cluster.directory.path(), &cluster.members, 2, &[]);
    std::fs::remove_dir_all(&config.data).expect("removed");
    let token = Some(cluster.node(1).handle().invite().expect("a token"));
    let taken = Join { token: token.clone(), ..Join::default() };
    let taken = mutua_node::join(&config, taken).await.expect_err("the name is taken");
    assert!(matches!(taken, PrepareError::Refused { .. }), "{taken}");
    let join = Join { token, replaces: true, ..Join::default() };
    let new = mutua_node::join(&config, join).await.expect("replaced");
    assert_ne!(new, old);
    cluster.nodes[2] = Some(Node::start(config).await.expect("a node"));
    cluster.wait_for(0, "n2", "voter").await;
    acquire(cluster.node(2), "x").await;
    cluster.nodes[1].take().expect("it runs").stop().await;
    acquire(cluster.node(2), "x").await;
}

#[tokio::test]
async fn a_follower_becomes_a_witness_and_a_follower_again() {
    let mut cluster = Cluster::start(2, 3).await;
    cluster.join(2, Some(Role::Follower)).await;
    cluster.wait_for(0, "n2", "follower").await;
    acquire(cluster.node(2), "x").await;
    let handle = cluster.node(1).handle();
    handle.set_role("n2", Role::Witness).await.expect("decided");
    cluster.wait_for(0, "n2", "witness").await;
    handle.set_role("n2", Role::Follower).await.expect("decided");
    cluster.wait_for(0, "n2", "follower").await;
    acquire(cluster.node(2), "x").await;
    let last = handle.set_role("n2", Role::Follower).await;
    assert!(matches!(last, Err(MembershipError::SameRole { .. })), "{last:?}");
}

#[tokio::test]
async fn a_follower_that_was_a_witness_becomes_a_voter_and_another_voter_is_lost() {
    let mut cluster = Cluster::start(2, 3).await;
    cluster.join(2, Some(Role::Follower)).await;
    let handle = cluster.node(1).handle();
    for (role, name) in
        [(Role::Witness, "witness"), (Role::Follower, "follower"), (Role::Voter, "voter")]
    {
        handle.set_role("n2", role).await.expect("decided");
        cluster.wait_for(0, "n2", name).await;
    }
    acquire(cluster.node(2), "x").await;
    cluster.nodes[1].take().expect("it runs").stop().await;
    acquire(cluster.node(2), "x").await;
    acquire(cluster.node(0), "x").await;
}

/// The other voter has to agree that the first votes no longer, and so has the first.
#[tokio::test]
async fn of_two_voters_one_becomes_a_follower_and_the_other_goes_on_alone() {
    let mut cluster = Cluster::start(2, 2).await;
    for changed in [1, 0] {
        let (name, other) = (["n0", "n1"][changed], ["n0", "n1"][1 - changed]);
        let handle = cluster.node(1 - changed).handle();
        handle.set_role(name, Role::Follower).await.expect("decided");
        cluster.wait_for(1 - changed, name, "follower").await;
        acquire(cluster.node(changed), "x").await;
        let last = handle.remove_member(other).await;
        assert!(matches!(last, Err(MembershipError::Impossible(_))), "{last:?}");
        if changed == 1 {
            handle.set_role(name, Role::Voter).await.expect("decided");
            cluster.wait_for(1 - changed, name, "voter").await;
        }
    }
    cluster.nodes[0].take().expect("it runs").stop().await;
    acquire(cluster.node(1), "x").await;
}

#[tokio::test]
async fn a_voter_that_the_others_need_is_not_removed() {
    let mut cluster = Cluster::start(3, 3).await;
    cluster.nodes[2].take().expect("it runs").stop().await;
    for index in [0, 1] {
        cluster.wait_for_view(index, &["n0", "n1"]).await;
    }
    let handle = cluster.node(0).handle();
    for refused in [
        handle.remove_member("n1").await,
        handle.set_role("n1", Role::Follower).await,
        cluster.node(1).handle().remove_member("n1").await,
    ] {
        let expected = MembershipError::TooFewLeft { name: "n1".to_owned(), left: 2, seen: 1 };
        assert_eq!(refused, Err(expected));
    }
    handle.remove_member("n2").await.expect("decided");
    cluster.wait_for_members(1, &["n0", "n1"]).await;
    acquire(cluster.node(1), "x").await;
}

#[tokio::test]
async fn a_member_that_runs_is_not_replaced() {
    let cluster = Cluster::start(3, 3).await;
    let token = Some(cluster.node(0).handle().invite().expect("a token"));
    let mut config = config_in(cluster.directory.path(), &cluster.members, 2, &[]);
    config.data = cluster.directory.path().join("another");
    let join = Join { token, replaces: true, ..Join::default() };
    let refused = mutua_node::join(&config, join).await.expect_err("it runs").to_string();
    assert!(refused.contains("runs and is connected"), "{refused}");
    cluster.wait_for(0, "n2", "voter").await;
}

#[tokio::test]
async fn a_new_member_that_was_never_started_holds_up_no_other() {
    let mut cluster = Cluster::start(3, 6).await;
    for index in [3, 4] {
        let token = Some(cluster.node(0).handle().invite().expect("a token"));
        let join = Join { token, ..Join::default() };
        mutua_node::join(&cluster.alone(index), join).await.expect("joined");
    }
    // Whichever comes first in the order of ids is not waited for.
    for index in [4, 3] {
        let node = Node::start(cluster.alone(index)).await.expect("a node");
        cluster.nodes.push(Some(node));
        cluster.wait_for(0, &format!("n{index}"), "voter").await;
    }
    let token = Some(cluster.node(0).handle().invite().expect("a token"));
    let join = Join { token, role: Some(Role::Voter), ..Join::default() };
    let full = mutua_node::join(&cluster.alone(5), join).await.expect_err("five vote").to_string();
    assert!(full.contains("5 members vote already"), "{full}");
}

#[tokio::test]
async fn a_member_that_lists_only_itself_never_runs_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(1);
    let cluster = Cluster { directory, members, nodes: Vec::new() };
    let mut config = cluster.alone(0);
    let node = Node::start(config.clone()).await.expect("a node");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let why = node.status().suspended.expect("it waits");
    assert!(why.contains("mutua cluster join"), "{why}");
    assert!(node.lock("x").try_acquire().await.is_err());
    node.stop().await;
    config.clustered = false;
    let refused = mutua_node::init(&config, None).expect_err("not a cluster");
    assert!(matches!(refused, PrepareError::NotClustered), "{refused}");
}

#[tokio::test]
async fn of_two_voters_the_first_leaves_and_a_third_joins_the_other() {
    of_two_voters_leaves(0).await;
}

#[tokio::test]
async fn of_two_voters_the_second_leaves_and_a_third_joins_the_other() {
    of_two_voters_leaves(1).await;
}

async fn of_two_voters_leaves(leaves: usize) {
    let mut cluster = Cluster::start(2, 3).await;
    let (stays, names) = (1 - leaves, ["n0", "n1"]);
    cluster.node(stays).handle().remove_member(names[leaves]).await.expect("decided");
    cluster.wait_for_members(stays, &[names[stays]]).await;
    while !cluster.node(leaves).handle().has_left() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.nodes[leaves].take().expect("it ran").stop().await;
    acquire(cluster.node(stays), "x").await;
    cluster.join_at(stays, 2, None).await;
    cluster.wait_for(stays, "n2", "voter").await;
    acquire(cluster.node(2), "x").await;
    acquire(cluster.node(stays), "x").await;
}

#[tokio::test]
async fn a_cluster_of_one_grows_and_all_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut cluster = Cluster { directory, members, nodes: Vec::new() };
    let above = 5 << 60;
    mutua_node::init(&cluster.alone(0), Some(above)).expect("founded");
    let node = Node::start(cluster.alone(0)).await.expect("a node");
    node.ready().await;
    let first = node.lock("x").acquire().await.expect("a guard").fencing_token().number();
    assert!(first > above, "{first} is above {above}");
    cluster.nodes.push(Some(node));
    cluster.join(1, None).await;
    cluster.join(2, None).await;
    cluster.wait_for(0, "n1", "voter").await;
    cluster.wait_for(0, "n2", "voter").await;
    for node in &mut cluster.nodes {
        node.take().expect("it runs").stop().await;
    }
    for index in 0..3 {
        let config = cluster.alone(index);
        cluster.nodes[index] = Some(Node::start(config).await.expect("a node"));
    }
    cluster.wait_for_members(2, &["n0", "n1", "n2"]).await;
    let last = cluster.node(1).lock("x").acquire().await.expect("a guard").fencing_token();
    assert!(last.number() > first);
}

#[tokio::test]
async fn the_rest_of_a_lost_majority_goes_on_far_above_after_a_wait() {
    let mut cluster = Cluster::start(3, 3).await;
    let guard = cluster.node(0).lock("x").acquire().await.expect("a guard");
    let before = guard.fencing_token().number();
    drop(guard);
    for node in &mut cluster.nodes {
        node.take().expect("it runs").stop().await;
    }
    let config = |index| config_in(cluster.directory.path(), &cluster.members, index, &[]);
    mutua_node::recover(&config(0), Duration::from_millis(500)).expect("recovered");
    let node = Node::start(config(0)).await.expect("a node");
    let why = node.status().suspended.expect("it waits");
    assert!(!why.is_empty());
    node.ready().await;
    let after = node.lock("x").acquire().await.expect("a guard").fencing_token().number();
    assert!(after >> 40 >= (before >> 40) + 1000, "{before} and {after}");
    // The others are of the former cluster.
    let lost = [
        Node::start(config(1)).await.expect("a node"),
        Node::start(config(2)).await.expect("a node"),
    ];
    acquire(&node, "x").await;
    assert_eq!(node.status().members.len(), 1);
    assert!(lost.iter().all(|lost| !lost.status().members[0].up));
    assert!(keeps_the_former_log(&config(0).data));
}

/// Whether the log of the lost cluster was put aside.
fn keeps_the_former_log(data: &Path) -> bool {
    std::fs::read_dir(data)
        .expect("read")
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("consensus.lost."))
}
