//! A leader that crashes is replaced, every time.

use std::time::Duration;

use mutua_consensus::Origin;

use crate::cluster::{Cluster, settings};

#[tokio::test(start_paused = true)]
async fn a_hundred_failovers() {
    let mut cluster = Cluster::founded(settings(), 3).await;
    let mut times = Vec::new();
    for _ in 0..100 {
        let leader = cluster.leader().expect("it has decided something");
        cluster.stop(leader).await;
        times.push(cluster.decide(Duration::from_secs(10)).await);
        cluster.start(leader, Origin::Existing).await.expect("it starts again");
        cluster.settle().await;
    }
    times.sort();
    println!("failover: median {:?}, longest {:?}", times[50], times[99]);
}

#[tokio::test(start_paused = true)]
async fn all_voters_restart_at_once() {
    let mut cluster = Cluster::founded(settings(), 3).await;
    for _ in 0..10 {
        let ids: Vec<_> = cluster.voters.keys().copied().collect();
        for id in &ids {
            cluster.stop(*id).await;
        }
        for id in &ids {
            cluster.start(*id, Origin::Existing).await.expect("it starts again");
            assert!(cluster.judge.lost_at_restart(*id).is_empty());
        }
        cluster.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_voter_decides_at_once() {
    let mut cluster = Cluster::founded(settings(), 1).await;
    let id = *cluster.voters.keys().next().expect("one");
    cluster.restart(id).await;
    let time = cluster.decide(Duration::from_secs(5)).await;
    assert!(time < Duration::from_secs(1), "{time:?}");
    cluster.settle().await;
}
