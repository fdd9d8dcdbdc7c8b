//! A loop of grants at one node does not keep other nodes out: their requests are read.

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

/// Without yielding it would go on for ever. With it, some hundred grants suffice; this many leave
/// the kernel time to carry a few bytes over loopback while the machine is loaded.
const ENOUGH: u64 = 100_000;

/// The lock at two nodes; the first one has its token.
async fn lock_at_the_first(nodes: &[Node]) -> [Lock; 2] {
    let locks = [nodes[0].lock("l"), nodes[1].lock("l")];
    // Both have used it, so that both have its process.
    for lock in [&locks[0], &locks[1], &locks[0]] {
        drop(lock.acquire().await.expect("a guard"));
    }
    locks
}

/// Acquires again and again, until the other client was granted the lock or too many grants were
/// made; returns their number.
async fn enter_while_another_waits([ours, theirs]: [Lock; 2]) -> u64 {
    let entries = Arc::new(AtomicU64::new(0));
    let other_has_held = Arc::new(AtomicBool::new(false));
    let (seen, done) = (Arc::clone(&entries), Arc::clone(&other_has_held));
    let mut other = Box::pin(async move {
        let guard = theirs.acquire().await.expect("a guard");
        done.store(true, Ordering::SeqCst);
        drop(guard);
        seen.load(Ordering::SeqCst)
    });
    // It requests now, before the loop begins.
    let polled = poll_fn(|context| Poll::Ready(other.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "its node does not have the token");
    let other = tokio::spawn(other);
    while !other_has_held.load(Ordering::SeqCst) {
        let entered = entries.fetch_add(1, Ordering::SeqCst);
        assert!(entered < ENOUGH, "the other client is never granted the lock");
        drop(ours.acquire().await.expect("a guard"));
    }
    other.await.expect("no panic")
}

#[tokio::test]
async fn a_loop_that_is_the_whole_program_does_not_keep_others_out() {
    let (_directory, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        enter_while_another_waits(locks).await;
    }
}

#[tokio::test]
async fn a_loop_in_a_task_does_not_keep_others_out() {
    let (_directory, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        tokio::spawn(enter_while_another_waits(locks))
            .await
            .expect("the other client is granted the lock");
    }
}

/// One worker runs both the loop and the tasks that read the links.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_loop_on_the_only_worker_does_not_keep_others_out() {
    let (_directory, nodes) = start(2, &[]).await;
    for _ in 0..20 {
        let locks = lock_at_the_first(&nodes).await;
        tokio::spawn(enter_while_another_waits(locks))
            .await
            .expect("the other client is granted the lock");
    }
}

/// No name is acquired twice in a row.
#[tokio::test]
async fn a_loop_over_many_names_does_not_keep_others_out() {
    let (_directory, nodes) = start(2, &[]).await;
    let locks = lock_at_the_first(&nodes).await;
    // This node has their tokens from now on.
    let names: Vec<_> = (0..500).map(|name| nodes[0].lock(format!("n{name}"))).collect();
    for name in &names {
        drop(name.acquire().await.expect("a guard"));
    }
    let theirs = locks[1].clone();
    let other = tokio::spawn(async move { drop(theirs.acquire().await.expect("a guard")) });
    let mut entries = 0;
    for name in names.iter().cycle() {
        if other.is_finished() {
            return;
        }
        entries += 1;
        assert!(entries < ENOUGH, "the other client is never granted the lock");
        drop(name.acquire().await.expect("a guard"));
    }
}

#[tokio::test]
async fn a_lock_whose_token_is_here_is_acquired_within_a_time_of_zero_however_often() {
    let (_directory, nodes) = start(2, &[]).await;
    let [lock, _] = lock_at_the_first(&nodes).await;
    for entry in 0..1000 {
        let guard = lock.acquire_within(Duration::ZERO).await;
        assert!(guard.is_ok(), "entry {entry}: {guard:?}");
    }
}
