//! A crash at every single operation of the disk, and errors at every one.

use std::{collections::BTreeSet, time::Duration};

use mutua_consensus::{Ended, EngineConfig, Origin, VoterId};
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, ids, settings},
    disk::{End, Fault},
    judge::command,
};

const LONE: VoterId = VoterId(1);

/// Few entries to a snapshot, so that every kind of write is met early.
fn small() -> EngineConfig {
    let mut settings = settings();
    settings.snapshot_every = 5;
    settings
}

/// Start a lone voter and let it decide commands until its disk fails. Returns whether it started.
async fn decide_until_the_disk_fails(cluster: &mut Cluster) -> bool {
    if cluster.start(LONE, Origin::Founding).await.is_err() {
        return false;
    }
    let engine = cluster.engine(LONE);
    engine.sees(&BTreeSet::new());
    let _ = engine.initialize(&ids([1])).await;
    for _ in 0..25 {
        let number = cluster.next_command();
        while engine.propose(command(number)).is_err() && !cluster.voters[&LONE].disk.has_failed() {
            sleep(Duration::from_millis(10)).await;
        }
        while !cluster.judge.is_decided(number) && !cluster.voters[&LONE].disk.has_failed() {
            sleep(Duration::from_millis(1)).await;
        }
    }
    true
}

/// Start again from what the crash left, and check that nothing decided is missing, and that it
/// goes on.
async fn recover(cluster: &mut Cluster, end: End, seed: u64) {
    let disk = cluster.voters[&LONE].disk.after(end, seed);
    // Before the identity is there, the voter has never run.
    let existed = disk.contents("identity").is_some();
    let origin = if existed { Origin::Existing } else { Origin::Founding };
    cluster.voters.get_mut(&LONE).expect("the voter").disk = disk;
    cluster.start(LONE, origin).await.unwrap_or_else(|error| panic!("{end:?} {seed}: {error}"));
    assert_eq!(cluster.judge.lost_at_restart(LONE), BTreeSet::new());
    let engine = cluster.engine(LONE);
    engine.sees(&BTreeSet::new());
    // It may have crashed before it was initialized.
    let _ = engine.initialize(&ids([1])).await;
    cluster.settle().await;
    let decided = cluster.judge.decided();
    assert!(decided.is_sorted(), "{decided:?}");
    assert_eq!(*cluster.voters[&LONE].list.0.lock().unwrap(), decided);
    cluster.stop(LONE).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_operation_loses_nothing_that_was_acknowledged() {
    // What a power cut leaves is drawn, so it is tried more than once.
    let ends = [End::Killed, End::PowerCut, End::PowerCut, End::PowerCut, End::PowerCut];
    for (round, end) in ends.into_iter().enumerate() {
        for operation in 0.. {
            let mut cluster = Cluster::new(small(), 1);
            let seed = operation * 5 + round as u64;
            cluster.voters[&LONE].disk.fail_at(operation, Fault::Crash, seed);
            let started = decide_until_the_disk_fails(&mut cluster).await;
            let failed = cluster.voters[&LONE].disk.has_failed();
            if started {
                let ended = cluster.stop(LONE).await;
                assert!(!failed || matches!(ended, Ended::Store(_) | Ended::Stopped), "{ended:?}");
            }
            recover(&mut cluster, end, seed).await;
            if !failed {
                assert!(operation > 100, "only {operation} operations");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_the_store_is_opened_loses_nothing() {
    let mut cluster = Cluster::new(small(), 1);
    assert!(decide_until_the_disk_fails(&mut cluster).await);
    cluster.stop(LONE).await;
    for operation in 0.. {
        let disk = cluster.voters[&LONE].disk.after(End::Killed, 0);
        disk.fail_at(operation, Fault::Crash, operation);
        cluster.voters.get_mut(&LONE).expect("the voter").disk = disk;
        let started = cluster.start(LONE, Origin::Existing).await;
        if started.is_ok() {
            assert!(operation >= 12, "vote, snapshot and log are written again");
            cluster.stop(LONE).await;
            break;
        }
        recover(&mut cluster, End::PowerCut, operation).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_and_a_failed_sync_end_the_engine() {
    for fault in [Fault::Full, Fault::Error] {
        for operation in 0.. {
            let mut cluster = Cluster::new(small(), 1);
            let disk = cluster.voters[&LONE].disk.clone();
            disk.fail_at(operation, fault, operation);
            let started = decide_until_the_disk_fails(&mut cluster).await;
            if !disk.has_failed() {
                break;
            }
            if started {
                let ended = cluster.engine(LONE).ended().await;
                assert!(matches!(&ended, Ended::Store(_)), "{operation}: {ended:?}");
                assert!(ended.is_fatal());
                // Nothing is tried again.
                let operations = disk.operations();
                sleep(Duration::from_secs(10)).await;
                assert_eq!(disk.operations(), operations, "{operation}");
                assert_eq!(operations, disk.failed_at() + 1, "{operation}");
                cluster.stop(LONE).await;
            }
            recover(&mut cluster, End::PowerCut, operation).await;
        }
    }
}

/// The leader of three is cut off with entries of its own, which another leader's replace: every
/// kind of write, truncation included, with a crash at each of this voter's operations.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_operation_of_one_of_three_voters_loses_nothing() {
    let mut truncated = 0;
    for operation in 0.. {
        let mut cluster = Cluster::founded(small(), 3).await;
        let victim = cluster.leader().expect("it has decided something");
        let disk = cluster.voters[&victim].disk.clone();
        disk.fail_at(disk.operations() + operation, Fault::Crash, operation);
        replace_the_leader(&cluster, victim).await;
        truncated += cluster.judge.record(victim).truncated;
        let failed = disk.has_failed();
        if failed {
            let ended = cluster.engine(victim).ended().await;
            assert!(matches!(ended, Ended::Store(_)), "{ended:?}");
        }
        cluster.stop(victim).await;
        let end = if operation % 2 == 0 { End::PowerCut } else { End::Killed };
        cluster.voters.get_mut(&victim).expect("the voter").disk = disk.after(end, operation);
        cluster.start(victim, Origin::Existing).await.expect("it starts again");
        cluster.judge.lost_at_restart(victim);
        cluster.settle().await;
        if !failed {
            break;
        }
    }
    assert!(truncated > 0, "the scenario truncates");
}

async fn replace_the_leader(cluster: &Cluster, victim: VoterId) {
    for id in cluster.voters.keys().filter(|id| **id != victim) {
        cluster.switch.separate(victim, *id);
    }
    // Not decided, and on one disk only.
    for _ in 0..3 {
        let _ = cluster.engine(victim).propose(command(cluster.next_command()));
        sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..4 {
        cluster.decide(Duration::from_secs(10)).await;
    }
    cluster.switch.heal();
    for _ in 0..4 {
        cluster.decide(Duration::from_secs(10)).await;
        sleep(Duration::from_secs(1)).await;
    }
}
