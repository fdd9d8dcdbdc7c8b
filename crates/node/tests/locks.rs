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
use mutua_node::{AcquireError, Config, MAX_NAME, Node, Rule, StartError, usable};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deposits_of_all_nodes_add_up_with_every_algorithm() {
    for about in usable() {
        let (_directory, nodes) = start(3, &[Rule::new("*", about.name)]).await;
        let account = Arc::new(AtomicU64::new(0));
        let last_fence = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for node in &nodes {
            for _ in 0..2 {
                let (lock, account) = (node.lock("account"), Arc::clone(&account));
                let last_fence = Arc::clone(&last_fence);
                tasks.spawn(async move {
                    for _ in 0..5 {
                        let guard = lock.acquire().await.expect("a guard");
                        let fence = guard.fencing_token().number();
                        assert!(last_fence.swap(fence, Ordering::SeqCst) < fence);
                        // Read, let others run, write: an update is lost if another client holds
                        // the lock too.
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
async fn ten_thousand_waiters_are_served_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(Config::alone(directory.path())).await.expect("a node");
    let lock = node.lock("queue");
    let first = lock.acquire().await.expect("a guard");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..10_000 {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        tasks.spawn(async move {
            let guard = lock.acquire().await.expect("a guard");
            order.lock().expect("no panic").push((number, guard.fencing_token()));
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
async fn a_waiter_that_gives_up_leaves_the_queue_and_the_next_one_is_granted() {
    let (_directory, nodes) = start(2, &[]).await;
    let locks: Vec<_> = nodes.iter().map(|node| node.lock("l")).collect();
    let guard = locks[0].acquire().await.expect("a guard");
    let soon = Duration::from_millis(30);
    assert_eq!(locks[1].acquire_within(soon).await.err(), Some(AcquireError::TimedOut));
    assert_eq!(locks[0].acquire_within(soon).await.err(), Some(AcquireError::TimedOut));
    assert_eq!(nodes[0].status().waiting + nodes[1].status().waiting, 0);
    drop(guard);
    // The request of node 1 cannot be taken back; its grant is passed on.
    for lock in [&locks[0], &locks[1], &locks[0]] {
        drop(lock.acquire().await.expect("a guard"));
    }
}

#[tokio::test]
async fn a_try_is_refused_as_busy_and_otherwise_for_an_unreachable_member() {
    let (_directory, mut nodes) = start(3, &[]).await;
    let locks: Vec<_> = nodes.iter().map(|node| node.lock("l")).collect();
    let guard = locks[0].acquire().await.expect("a guard");
    for lock in &locks {
        assert_eq!(lock.try_acquire().await.err(), Some(AcquireError::Busy));
    }
    drop(guard);
    for lock in &locks {
        drop(lock.try_acquire().await.expect("not held"));
    }
    let guard = locks[2].acquire().await.expect("a guard");
    nodes.remove(1).stop().await;
    while nodes[0].status().members[1].up {
        tokio::task::yield_now().await;
    }
    let refused = locks[0].try_acquire().await.err();
    let unreachable = matches!(&refused, Some(AcquireError::Unreachable(name)) if name == "n1");
    assert!(unreachable || matches!(refused, Some(AcquireError::NoView(_))), "{refused:?}");
    assert!(guard.is_good(), "a holder keeps its lock");
}

/// The leader is the last to be spared: it alone knows that the view without it is decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_retires_stays_until_the_others_grant_without_it() {
    let (_directory, nodes) = start(3, &[]).await;
    let leader = loop {
        if let Some(leader) = nodes[0].status().leader {
            break leader;
        }
        tokio::task::yield_now().await;
    };
    let is_leader = |node: &&Node| node.status().node == leader;
    let leader = nodes.iter().find(is_leader).expect("a member");
    leader.handle().retire(Duration::from_secs(60)).await;
    for other in nodes.iter().filter(|node| !is_leader(node)) {
        let status = other.status();
        assert_eq!(status.suspended, None, "{status:?}");
        let members = status.members.iter().filter(|one| one.in_view).map(|one| &one.name);
        assert!(!members.clone().any(|name| *name == leader.status().node), "{status:?}");
        assert_eq!(members.count(), 2, "{status:?}");
    }
}

#[tokio::test]
async fn a_restarted_member_rejoins_and_fencing_tokens_grow() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut nodes = Vec::new();
    for me in 0..3 {
        nodes.push(Node::start(config(&directory, &members, me, &[])).await.expect("a node"));
    }
    let lock = nodes[0].lock("l");
    let held = nodes[0].lock("held").acquire().await.expect("a guard");
    let before = lock.acquire().await.expect("a guard").fencing_token();
    // The locks of a node that stops are lost.
    let lost = nodes[2].lock("other").acquire().await.expect("a guard");
    nodes.remove(2).stop().await;
    lost.lost().await;
    assert!(!lost.is_good());
    drop(lost);
    nodes.push(Node::start(config(&directory, &members, 2, &[])).await.expect("a node"));
    let after = nodes[2].lock("l").acquire().await.expect("a guard").fencing_token();
    assert!(after > before && after.0.epoch() > before.0.epoch(), "{after} after {before}");
    assert!(held.is_good());
    let wait = Duration::from_millis(50);
    assert!(nodes[1].lock("held").acquire_within(wait).await.is_err());
    assert!(held.release());
    drop(nodes[1].lock("held").acquire().await.expect("a guard"));
}

#[tokio::test]
async fn any_bytes_are_a_name_and_names_do_not_touch_each_other() {
    let (_directory, nodes) = start(2, &[]).await;
    let mut long = vec![b'x'; MAX_NAME];
    let mut names = vec![vec![], vec![0], vec![0, 0xff], b"a".to_vec(), b"a/b".to_vec()];
    names.push(b"A".to_vec());
    names.push(long.clone());
    long[MAX_NAME - 1] = 0x80;
    names.push(long);
    let mut guards = Vec::new();
    for name in &names {
        guards.push(nodes[0].lock(name).acquire().await.expect("a guard"));
        assert_eq!(guards.last().expect("just now").name(), name);
    }
    for name in &names {
        assert_eq!(nodes[1].lock(name).try_acquire().await.err(), Some(AcquireError::Busy));
    }
    // Each is released by itself.
    while let Some(guard) = guards.pop() {
        let name = guard.name().to_owned();
        drop(guard);
        drop(nodes[1].lock(&name).acquire().await.expect("a guard"));
        for guard in &guards {
            let busy = nodes[1].lock(guard.name()).try_acquire().await.err();
            assert_eq!(busy, Some(AcquireError::Busy));
        }
    }
}

#[tokio::test]
#[should_panic(expected = "a name has at most 4096 bytes, this one 4097")]
async fn a_name_that_is_too_long_panics() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(Config::alone(directory.path())).await.expect("a node");
    node.lock(vec![0; MAX_NAME + 1]);
}

#[tokio::test]
async fn a_try_that_is_dropped_leaves_no_state() {
    let (_directory, nodes) = start(3, &[]).await;
    for polls in 0..40 {
        for node in &nodes {
            let lock = node.lock("l");
            let mut trying = Box::pin(lock.try_acquire());
            for _ in 0..polls {
                tokio::select! {
                    biased;
                    guard = &mut trying => {
                        drop(guard.expect("no other client wants it"));
                        break;
                    }
                    () = tokio::task::yield_now() => {}
                }
            }
        }
        let waiting: usize = nodes.iter().map(|node| node.status().waiting).sum();
        assert_eq!(waiting, 0);
        for node in &nodes {
            drop(node.lock("l").acquire().await.expect("a guard"));
        }
    }
}

#[tokio::test]
async fn a_guard_is_lost_when_its_node_stops_and_not_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let mut nodes = Vec::new();
    for me in 0..3 {
        nodes.push(Node::start(config(&directory, &members, me, &[])).await.expect("a node"));
    }
    let guard = Arc::new(nodes[0].lock("held").acquire().await.expect("a guard"));
    let watched = Arc::clone(&guard);
    let watch = tokio::spawn(async move { watched.lost().await });
    // Views end and begin, as a member stops and restarts.
    for _ in 0..2 {
        nodes.pop().expect("three").stop().await;
        let is_apart = |node: &Node| node.status().epoch.is_none();
        while !is_apart(&nodes[0]) || !is_apart(&nodes[1]) {
            tokio::task::yield_now().await;
        }
        assert!(guard.is_good() && !watch.is_finished());
        nodes.push(Node::start(config(&directory, &members, 2, &[])).await.expect("a node"));
        drop(nodes[2].lock("other").acquire().await.expect("a guard"));
        assert_eq!(nodes[2].lock("held").try_acquire().await.err(), Some(AcquireError::Busy));
        assert!(guard.is_good() && !watch.is_finished());
    }
    nodes.remove(0).stop().await;
    watch.await.expect("it ends");
    assert!(!guard.is_good());
    assert!(!Arc::into_inner(guard).expect("the only one").release());
}

#[tokio::test]
async fn a_node_whose_epoch_cannot_be_written_any_more_stops_and_grants_nothing_in_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(2);
    let one = Node::start(config(&directory, &members, 0, &[])).await.expect("a node");
    let other = Node::start(config(&directory, &members, 1, &[])).await.expect("a node");
    let guard = one.lock("held").acquire().await.expect("a guard");
    let epoch = guard.fencing_token().0.epoch();
    // Without its directory nothing can be written, whichever user runs this. A file may come while
    // it is being removed.
    let data = directory.path().join(&members[0].name);
    while data.exists() {
        let _ = std::fs::remove_dir_all(&data);
    }
    other.stop().await;
    let other = Node::start(config(&directory, &members, 1, &[])).await.expect("a node");
    // The next view needs a new epoch on both disks.
    guard.lost().await;
    let why = one.lock("l").acquire().await.err();
    let stopped =
        matches!(&why, Some(AcquireError::Stopped(why)) if why.contains("cannot be written"));
    assert!(stopped, "{why:?}");
    assert!(one.status().suspended.is_some_and(|why| why.contains("cannot be written")));
    assert_eq!(one.lock_status("l").map(|lock| lock.counts.entries), None);
    assert_eq!(one.status().grants, 1, "the one that was granted before");
    // The other node grants nothing alone.
    let soon = Duration::from_millis(50);
    let refused = other.lock("held").acquire_within(soon).await.err();
    assert_eq!(refused, Some(AcquireError::TimedOut));
    assert!(epoch > 0 && other.status().grants == 0);
}

#[tokio::test]
async fn the_others_go_on_when_a_member_is_lost_and_it_rejoins() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let start = |me| Node::start(config(&directory, &members, me, &[]));
    let mut nodes = Vec::new();
    for me in 0..3 {
        nodes.push(start(me).await.expect("a node"));
    }
    let held = nodes[0].lock("held").acquire().await.expect("a guard");
    let lost = nodes[2].lock("lost").acquire().await.expect("a guard");
    let first = lost.fencing_token();
    nodes.pop().expect("three").stop().await;
    assert!(!lost.is_good());
    // What the lost member held is free, and what another one holds is not disturbed.
    let next = nodes[1].lock("lost").acquire().await.expect("a guard");
    assert!(next.fencing_token() > first);
    assert!(held.is_good());
    assert_eq!(nodes[1].lock("held").try_acquire().await.err(), Some(AcquireError::Busy));
    nodes.push(start(2).await.expect("a node"));
    nodes[2].ready().await;
    assert_eq!(nodes[2].lock("lost").try_acquire().await.err(), Some(AcquireError::Busy));
    drop(next);
    drop(nodes[2].lock("lost").acquire().await.expect("a guard"));
    assert!(held.is_good());
}

#[tokio::test]
async fn a_member_without_a_majority_loses_its_guards_and_grants_nothing() {
    let (_directory, mut nodes) = start(3, &[]).await;
    let guard = nodes[0].lock("held").acquire().await.expect("a guard");
    nodes.pop().expect("three").stop().await;
    nodes.pop().expect("two").stop().await;
    guard.lost().await;
    assert!(!guard.is_good());
    let refused = nodes[0].lock("other").acquire_within(Duration::from_millis(50)).await.err();
    assert_eq!(refused, Some(AcquireError::TimedOut));
    assert!(nodes[0].status().suspended.is_some());
}

#[tokio::test]
async fn a_data_directory_of_another_member_is_refused_and_another_list_changes_nothing() {
    let (directory, nodes) = start(2, &[]).await;
    for node in nodes {
        node.stop().await;
    }
    let mut other = config(&directory, &members(2), 1, &[]);
    other.data = directory.path().join("n0");
    let refused = Node::start(other).await.err();
    let text = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("is that of member n0"), "{text}");
    let node = Node::start(config(&directory, &members(3), 0, &[])).await.expect("a node");
    while node.status().notes.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let notes = node.status().notes.join("\n");
    assert!(notes.contains("the members are") && notes.contains("changes nothing"), "{notes}");
    assert!(notes.contains("dial the decided address"), "{notes}");
}

#[tokio::test]
async fn a_member_whose_directory_is_lost_stays_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(3);
    let start = |me| Node::start(config(&directory, &members, me, &[]));
    let mut nodes = Vec::new();
    for me in 0..3 {
        nodes.push(start(me).await.expect("a node"));
        tokio::task::yield_now().await;
    }
    nodes[2].ready().await;
    nodes.pop().expect("three").stop().await;
    std::fs::remove_dir_all(directory.path().join("n2")).expect("removed");
    let wiped = start(2).await.expect("a node");
    while !wiped.status().suspended.is_some_and(|why| why.contains("is empty")) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(nodes[0].lock("l").acquire().await.expect("a guard"));
    assert_eq!(wiped.status().epoch, None);
}

#[tokio::test]
async fn a_node_that_other_machines_can_reach_is_refused_unless_insecure_is_set() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut members = members(2);
    members[0].address = "0.0.0.0:0".to_owned();
    let mut config = config(&directory, &members, 0, &[]);
    let refused = Node::start(config.clone()).await.err();
    assert!(matches!(refused, Some(StartError::NotLoopback { .. })), "{refused:?}");
    config.insecure = true;
    Node::start(config).await.expect("a node");
}

#[tokio::test]
async fn the_rules_of_the_first_member_are_decided_for_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let members = members(2);
    let one = Node::start(config(&directory, &members, 0, &[])).await.expect("a node");
    let rules = [Rule::new("*", "maekawa")];
    let other = Node::start(config(&directory, &members, 1, &rules)).await.expect("a node");
    one.ready().await;
    other.ready().await;
    let guard = other.lock("l").acquire().await.expect("a guard");
    let status = other.lock_status("l").expect("in use");
    assert_eq!(status.algorithm, mutua_node::DEFAULT_ALGORITHM);
    drop(guard);
    assert_eq!(one.status().notes, Vec::<String>::new());
    let notes = other.status().notes;
    assert!(notes.iter().any(|note| note.contains("lock rules of this node")), "{notes:?}");
}

#[tokio::test]
async fn the_status_of_a_lock_shows_how_its_holder_and_its_waiters_describe_themselves() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = Node::start(Config::alone(directory.path())).await.expect("a node");
    let lock = node.lock("l");
    let guard = lock.owned_by("ann").acquire().await.expect("a guard");
    let mut waiting = Box::pin(async { lock.owned_by("bob").acquire().await });
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("the lock is held"),
        () = tokio::task::yield_now() => {}
    }
    let status = node.lock_status("l").expect("in use");
    let holder = status.holder.expect("held");
    assert_eq!(holder.owner.as_deref(), Some("ann"));
    assert_eq!(holder.fence, guard.fencing_token().number());
    let owners: Vec<_> = status.waiting.iter().map(|waiter| waiter.owner.as_deref()).collect();
    assert_eq!(owners, [Some("bob")]);
}
