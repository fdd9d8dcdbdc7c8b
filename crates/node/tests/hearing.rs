//! A loop of entries in one node does not keep the others out: their requests are read.

mod cluster;

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use cluster::start;
use mutua_node::{Lock, Node};

/// Without listening it would go on for ever. With it, it is a matter of some hundred entries; this
/// many leave the kernel time to carry a few bytes over loopback while the machine is loaded.
const ENOUGH: u64 = 100_000;

/// The lock as two nodes see it; it is at the first one.
async fn lock_at_the_first(nodes: &[Node]) -> [Lock; 2] {
    let locks = [nodes[0].lock("l"), nodes[1].lock("l")];
    // Both have used it, so that nothing remains to be made.
    for lock in [&locks[0], &locks[1], &locks[0]] {
        drop(lock.acquire().await.expect("inside"));
    }
    locks
}

/// Enters again and again, until somebody else has been in or too many entries were made; how many.
async fn enter_while_another_waits([ours, theirs]: [Lock; 2]) -> u64 {
    let entries = Arc::new(AtomicU64::new(0));
    let other_was_in = Arc::new(AtomicBool::new(false));
    let (seen, done) = (Arc::clone(&entries), Arc::clone(&other_was_in));
    let mut other = Box::pin(async move {
        let guard = theirs.acquire().await.expect("inside");
        done.store(true, Ordering::SeqCst);
        drop(guard);
        seen.load(Ordering::SeqCst)
    });
    // It asks now; what follows is behind it.
    let polled = poll_fn(|context| Poll::Ready(other.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "the lock is not there");
    let other = tokio::spawn(other);
    while !other_was_in.load(Ordering::SeqCst) {
        let entered = entries.fetch_add(1, Ordering::SeqCst);
        assert!(entered < ENOUGH, "the other does not get in");
        drop(ours.acquire().await.expect("inside"));
    }
    other.await.expect("no panic")
}

#[tokio::test]
async fn a_loop_that_is_the_whole_program_lets_others_in() {
    let (_place, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        enter_while_another_waits(locks).await;
    }
}

#[tokio::test]
async fn a_loop_in_a_task_lets_others_in() {
    let (_place, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        tokio::spawn(enter_while_another_waits(locks)).await.expect("the other gets in");
    }
}

/// One worker has both the loop and whoever reads the links.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_loop_on_the_only_worker_lets_others_in() {
    let (_place, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        tokio::spawn(enter_while_another_waits(locks)).await.expect("the other gets in");
    }
}

/// Each name is at home somewhere else, and none is entered twice.
#[tokio::test]
async fn a_loop_over_many_names_lets_others_in() {
    let (_place, nodes) = start(2, &[]).await;
    let locks = lock_at_the_first(&nodes).await;
    // These are here from now on.
    let names: Vec<_> = (0..500).map(|name| nodes[0].lock(format!("n{name}"))).collect();
    for name in &names {
        drop(name.acquire().await.expect("inside"));
    }
    let theirs = locks[1].clone();
    let other = tokio::spawn(async move { drop(theirs.acquire().await.expect("inside")) });
    let mut entries = 0;
    for name in names.iter().cycle() {
        if other.is_finished() {
            return;
        }
        entries += 1;
        assert!(entries < ENOUGH, "the other does not get in");
        drop(name.acquire().await.expect("inside"));
    }
}

#[tokio::test]
async fn a_lock_that_is_here_is_had_within_no_time_however_often() {
    let (_place, nodes) = start(2, &[]).await;
    let [lock, _] = lock_at_the_first(&nodes).await;
    for entry in 0..1000 {
        let guard = lock.acquire_within(Duration::ZERO).await;
        assert!(guard.is_ok(), "entry {entry}: {guard:?}");
    }
}
