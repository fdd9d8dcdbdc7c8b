//! Snapshots, purged logs, and voters that are far behind.

use std::time::Duration;

use mutua_consensus::Origin;

use crate::cluster::{Cluster, settings};

#[tokio::test(start_paused = true)]
async fn a_voter_that_is_far_behind_installs_the_snapshot() {
    let mut settings = settings();
    settings.snapshot_every = 20;
    let mut cluster = Cluster::founded(settings, 3).await;
    let leader = cluster.leader().expect("it has decided something");
    let late = *cluster.voters.keys().find(|id| **id != leader).expect("there are three");
    cluster.stop(late).await;
    for _ in 0..100 {
        cluster.decide(Duration::from_secs(5)).await;
    }
    let log = cluster.voters[&leader].disk.contents("log").expect("there is a log");
    assert!(log.len() < 60 * 40, "the log is purged: {}", log.len());

    cluster.start(late, Origin::Existing).await.expect("it starts again");
    cluster.settle().await;
    let record = cluster.judge.record(late);
    assert!(record.snapshots_installed > 0);
    assert!(cluster.engine(late).status().snapshot > Some(20));

    // Its own disk has it all now.
    cluster.restart(late).await;
    assert!(cluster.judge.record(late).snapshots_installed > 0);
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_reports_the_snapshot_and_the_log_behind_it() {
    let mut settings = settings();
    settings.snapshot_every = 20;
    let mut cluster = Cluster::founded(settings, 3).await;
    for _ in 0..70 {
        cluster.decide(Duration::from_secs(5)).await;
    }
    cluster.settle().await;
    let ids: Vec<_> = cluster.voters.keys().copied().collect();
    for id in ids {
        cluster.restart(id).await;
        let record = cluster.judge.record(id);
        assert!(!record.snapshot.is_empty(), "the snapshot is reported");
        assert!(!record.log.is_empty(), "and the log behind it");
        assert!(record.log.values().all(|number| !record.snapshot.contains(number)));
        cluster.settle().await;
    }
}
