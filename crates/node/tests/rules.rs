//! The rules of locks and the level of the protocol change by decision, over real sockets.

mod cluster;

use std::{path::Path, time::Duration};

use cluster::{config_in, members};
use mutua_node::{Config, MemberConfig, MembershipError, Node, Rule};

fn config(directory: &Path, members: &[MemberConfig], me: usize, highest_level: u16) -> Config {
    Config { highest_level, ..config_in(directory, members, me, &[]) }
}

async fn start(directory: &Path, members: &[MemberConfig], levels: [u16; 3]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (me, level) in levels.into_iter().enumerate() {
        nodes.push(Node::start(config(directory, members, me, level)).await.expect("a node"));
    }
    for node in &nodes {
        node.ready().await;
    }
    nodes
}

fn algorithm(node: &Node, name: &str) -> Option<&'static str> {
    node.lock_status(name).map(|status| status.algorithm)
}

async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test]
async fn a_change_of_the_rules_is_in_force_at_all_members_and_a_holder_keeps_its_lock() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let nodes = start(directory.path(), &members, [u16::MAX; 3]).await;
    let held = nodes[0].lock("votes/1").acquire().await.expect("a guard");
    drop(nodes[1].lock("other").acquire().await.expect("a guard"));
    assert_eq!(algorithm(&nodes[0], "votes/1"), Some("naimi-trehel"));
    let rules = [Rule::new("votes/*", "maekawa")];
    assert_eq!(nodes[2].handle().change_rules(&rules).await, Ok(1));
    // The member that was asked says so when all have begun the view, or will in a moment.
    wait_until("the rules at the others", || {
        nodes.iter().all(|node| node.handle().rules().is_ok_and(|(number, _)| number == 1))
            && algorithm(&nodes[0], "votes/1") == Some("maekawa")
    })
    .await;
    assert!(held.is_good());
    assert!(nodes[1].lock("votes/1").try_acquire().await.is_err());
    drop(held);
    let next = nodes[1].lock("votes/1").acquire().await.expect("a guard");
    let other = nodes[1].lock("other").acquire().await.expect("a guard");
    assert_eq!(algorithm(&nodes[1], "votes/1"), Some("maekawa"));
    assert_eq!(algorithm(&nodes[1], "other"), Some("naimi-trehel"));
    drop((next, other));
    let text = nodes[0].handle().rules().expect("decided").1;
    assert_eq!(mutua_node::parse_rules(&text, "f").expect("rules"), rules);
    // The configuration has none of it, and says nothing.
    let notes = nodes[0].status().notes;
    assert!(notes.iter().any(|note| note.contains("lock rules")), "{notes:?}");
    for node in nodes {
        node.stop().await;
    }
    let nodes = start(directory.path(), &members, [u16::MAX; 3]).await;
    drop(nodes[2].lock("votes/1").acquire().await.expect("a guard"));
    assert_eq!(algorithm(&nodes[2], "votes/1"), Some("maekawa"));
}

#[tokio::test]
async fn rules_that_cannot_be_followed_are_refused_before_they_are_decided() {
    let directory = tempfile::tempdir().expect("a directory");
    let nodes = start(directory.path(), &members(3), [u16::MAX; 3]).await;
    let wrong = [Rule::new("a", "lamport"), Rule::new("b", "bakery-naive")];
    let refused = nodes[0].handle().change_rules(&wrong).await.expect_err("refused");
    assert!(matches!(refused, MembershipError::InvalidRule { rule: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("negative control"), "{refused}");
    assert_eq!(nodes[1].handle().rules().expect("decided").0, 0);
}

#[tokio::test]
async fn the_level_rises_when_the_last_member_is_upgraded() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut nodes = start(directory.path(), &members, [u16::MAX, u16::MAX, 0]).await;
    assert_eq!(nodes[0].status().level, Some(0));
    let rules = [Rule::new("*", "lamport")];
    let refused = nodes[0].handle().change_rules(&rules).await;
    assert_eq!(refused, Err(MembershipError::OlderMembers));
    nodes.pop().expect("the third").stop().await;
    let upgraded = config(directory.path(), &members, 2, u16::MAX);
    nodes.push(Node::start(upgraded).await.expect("a node"));
    wait_until("the level", || nodes[0].status().level == Some(1)).await;
    assert_eq!(nodes[0].handle().change_rules(&rules).await, Ok(1));
    // From now on a version that does not understand it is refused, and stops by itself.
    nodes.pop().expect("the third").stop().await;
    let older = Node::start(config(directory.path(), &members, 2, 0)).await.expect("a node");
    wait_until("its end", || older.handle().ended().is_some()).await;
    let why = older.handle().ended().expect("it has ended");
    assert!(why.contains("decided level 1"), "{why}");
    drop(nodes[0].lock("x").acquire().await.expect("a guard"));
}

#[tokio::test]
async fn a_member_with_another_view_lease_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut nodes = start(directory.path(), &members, [u16::MAX; 3]).await;
    nodes.pop().expect("the third").stop().await;
    let with = |factor: u32| {
        let config = config(directory.path(), &members, 2, u16::MAX);
        Config { view_lease: config.view_lease * factor, ..config }
    };
    // It would count on its lease while the others go on without it.
    let other = Node::start(with(3)).await.expect("a node");
    let told = || other.status().notes.iter().any(|note| note.contains("view_lease"));
    wait_until("the reason", told).await;
    drop(nodes[0].lock("x").acquire().await.expect("a guard"));
    assert!(other.lock("x").try_acquire().await.is_err());
    other.stop().await;
    let right = Node::start(with(1)).await.expect("a node");
    drop(right.lock("x").acquire().await.expect("a guard"));
}
