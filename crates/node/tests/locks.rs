//! Locks between nodes over real sockets.

mod cluster;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster::{config, members, start};
use mutua_node::{AcquireError, Config, Node, Rule, StartError, usable};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deposits_of_all_nodes_add_up_with_every_algorithm() {
    for about in usable() {
        let (_place, nodes) = start(3, &[Rule::new("*", about.name)]).await;
        let account = Arc::new(AtomicU64::new(0));
        let last_fence = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for node in &nodes {
            for _ in 0..2 {
                let (lock, account) = (node.lock("account"), Arc::clone(&account));
                let last_fence = Arc::clone(&last_fence);
                tasks.spawn(async move {
                    for _ in 0..5 {
                        let guard = lock.acquire().await.expect("inside");
                        let fence = guard.fence().number();
                        assert!(last_fence.swap(fence, Ordering::SeqCst) < fence);
                        // Read, let others run, write: lost if anybody else is inside.
                        let balance = account.load(Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        account.store(balance + 1, Ordering::SeqCst);
                    }
                });
            }
        }
        while let Some(result) = tasks.join_next().await {
            result.expect("no task fails");
        }
        assert_eq!(account.load(Ordering::SeqCst), 30, "{}", about.name);
    }
}

#[tokio::test]
async fn ten_thousand_waiters_are_served_in_order_and_nothing_is_lost() {
    let place = tempfile::tempdir().expect("a directory");
    let node = Node::start(Config::alone(place.path())).await.expect("a node");
    let lock = node.lock("queue");
    let first = lock.acquire().await.expect("inside");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..10_000 {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        tasks.spawn(async move {
            let guard = lock.acquire().await.expect("inside");
            order.lock().expect("no panic").push((number, guard.fence()));
        });
        // On one thread: it runs until it waits.
        tokio::task::yield_now().await;
    }
    assert_eq!(node.status().waiting, 10_000);
    drop(first);
    while tasks.join_next().await.is_some() {}
    let order = order.lock().expect("no panic");
    assert!(order.iter().map(|one| one.0).eq(0..10_000));
    assert!(order.is_sorted_by(|one, other| one.1 < other.1));
}

#[tokio::test]
async fn who_gives_up_leaves_the_queue_and_the_next_one_gets_in() {
    let (_place, nodes) = start(2, &[]).await;
    let locks: Vec<_> = nodes.iter().map(|node| node.lock("l")).collect();
    let guard = locks[0].acquire().await.expect("inside");
    let soon = Duration::from_millis(30);
    assert_eq!(locks[1].acquire_within(soon).await.err(), Some(AcquireError::TimedOut));
    assert_eq!(locks[0].acquire_within(soon).await.err(), Some(AcquireError::TimedOut));
    assert_eq!(nodes[0].status().waiting + nodes[1].status().waiting, 0);
    drop(guard);
    // The request of node 1 cannot be taken back; what it is granted is passed on.
    for lock in [&locks[0], &locks[1], &locks[0]] {
        drop(lock.acquire().await.expect("inside"));
    }
}

#[tokio::test]
async fn trying_says_busy_and_an_unreachable_member_is_another_thing() {
    let (_place, mut nodes) = start(3, &[]).await;
    let locks: Vec<_> = nodes.iter().map(|node| node.lock("l")).collect();
    let guard = locks[0].acquire().await.expect("inside");
    for lock in &locks {
        assert_eq!(lock.try_acquire().await.err(), Some(AcquireError::Busy));
    }
    drop(guard);
    for lock in &locks {
        drop(lock.try_acquire().await.expect("nobody is inside"));
    }
    let guard = locks[2].acquire().await.expect("inside");
    nodes.remove(1).stop().await;
    while nodes[0].status().members[1].up {
        tokio::task::yield_now().await;
    }
    let refused = locks[0].try_acquire().await.err();
    let unreachable = matches!(&refused, Some(AcquireError::Unreachable(name)) if name == "n1");
    assert!(unreachable || matches!(refused, Some(AcquireError::NoView(_))), "{refused:?}");
    assert!(guard.is_good(), "who is inside stays inside");
}

#[tokio::test]
async fn a_restarted_member_is_taken_in_again_and_fences_grow() {
    let place = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut nodes = Vec::new();
    for me in 0..3 {
        nodes.push(Node::start(config(&place, &members, me, &[])).await.expect("a node"));
    }
    let lock = nodes[0].lock("l");
    let held = nodes[0].lock("held").acquire().await.expect("inside");
    let before = lock.acquire().await.expect("inside").fence();
    // Whatever was granted by the node that goes is lost with it.
    let lost = nodes[2].lock("other").acquire().await.expect("inside");
    nodes.remove(2).stop().await;
    lost.lost().await;
    assert!(!lost.is_good());
    drop(lost);
    nodes.push(Node::start(config(&place, &members, 2, &[])).await.expect("a node"));
    let after = nodes[2].lock("l").acquire().await.expect("inside").fence();
    assert!(after > before && after.0.epoch() > before.0.epoch(), "{after} after {before}");
    assert!(held.is_good());
    let wait = Duration::from_millis(50);
    assert!(nodes[1].lock("held").acquire_within(wait).await.is_err());
    assert!(held.release());
    drop(nodes[1].lock("held").acquire().await.expect("inside"));
}

#[tokio::test]
async fn any_bytes_are_a_name_and_names_do_not_touch_each_other() {
    let (_place, nodes) = start(2, &[]).await;
    let names: [&[u8]; 4] = [b"", b"\x00\xff", b"a", b"a/b"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(nodes[0].lock(name).acquire().await.expect("inside"));
    }
    for name in names {
        assert_eq!(nodes[1].lock(name).try_acquire().await.err(), Some(AcquireError::Busy));
    }
}

#[tokio::test]
async fn a_node_that_others_could_reach_is_refused_unless_it_is_meant() {
    let place = tempfile::tempdir().expect("a directory");
    let mut members = members(2);
    members[0].address = "0.0.0.0:0".to_owned();
    let mut config = config(&place, &members, 0, &[]);
    let refused = Node::start(config.clone()).await.err();
    assert!(matches!(refused, Some(StartError::NotLoopback { .. })), "{refused:?}");
    config.insecure = true;
    Node::start(config).await.expect("a node");
}

#[tokio::test]
async fn members_with_other_rules_do_not_speak() {
    let place = tempfile::tempdir().expect("a directory");
    let members = members(2);
    let one = Node::start(config(&place, &members, 0, &[])).await.expect("a node");
    let rules = [Rule::new("*", "maekawa")];
    let other = Node::start(config(&place, &members, 1, &rules)).await.expect("a node");
    let wait = Duration::from_millis(200);
    assert!(tokio::time::timeout(wait, one.ready()).await.is_err());
    assert!(!other.status().members[0].up);
}
