//! Voters come and go, one at a time.

use std::{collections::BTreeSet, time::Duration};

use mutua_consensus::{
    ChangeError, EngineError, InitializeError, Origin, ProposeError, StoreError, VoterChange,
    VoterId,
};
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, Voter, ids, settings},
    disk::SimDisk,
    judge::List,
};

fn add_disk(cluster: &mut Cluster, id: VoterId) {
    cluster.voters.insert(id, Voter { disk: SimDisk::default(), list: List::default() });
}

/// Ask the leader, again and again as a node would.
async fn change(cluster: &Cluster, change: VoterChange) {
    for _ in 0..20 {
        cluster.decide(Duration::from_secs(10)).await;
        let leader = cluster.leader().expect("it has decided something");
        if cluster.engine(leader).change_voters(change).await.is_ok() {
            return;
        }
    }
    panic!("{change:?} is never decided");
}

#[tokio::test(start_paused = true)]
async fn voters_change_one_at_a_time() {
    let mut cluster = Cluster::founded(settings(), 3).await;
    let (old, new) = (VoterId(1), VoterId(4));
    add_disk(&mut cluster, new);
    cluster.start(new, Origin::Joining).await.expect("it starts");
    change(&cluster, VoterChange::Add(new)).await;
    cluster.judge.set_majority(3);
    let leader = cluster.leader().expect("it has decided something");
    let status = cluster.engine(leader).status();
    assert_eq!(status.voters, ids(1..=4));
    assert!(status.learners.is_empty() && !status.changing);
    cluster.settle().await;

    cluster.judge.set_majority(2);
    change(&cluster, VoterChange::Remove(old)).await;
    cluster.stop(old).await;
    cluster.decide(Duration::from_secs(10)).await;
    let leader = cluster.leader().expect("it has decided something");
    assert_eq!(cluster.engine(leader).status().voters, ids(2..=4));
    cluster.settle().await;
    // Asking again is harmless.
    change(&cluster, VoterChange::Remove(old)).await;
    change(&cluster, VoterChange::Add(new)).await;
}

/// The leader crashes at some moment of a change, which may leave it half made.
#[tokio::test(start_paused = true)]
async fn a_change_that_its_leader_left_is_completed_by_asking_again() {
    let mut half_made = 0;
    for moment in 0..24 {
        let mut cluster = Cluster::founded(settings(), 3).await;
        cluster.judge.set_majority(0);
        let (leader, new) = (cluster.leader().expect("it has decided something"), VoterId(4));
        add_disk(&mut cluster, new);
        cluster.start(new, Origin::Joining).await.expect("it starts");
        let engine = cluster.engine(leader);
        let asked = tokio::spawn(async move { engine.change_voters(VoterChange::Add(new)).await });
        sleep(Duration::from_micros(moment * 250)).await;
        half_made += usize::from(cluster.running().iter().any(|it| it.status().changing));
        cluster.stop(leader).await;
        asked.await.expect("no panic").ok();
        change(&cluster, VoterChange::Add(new)).await;
        cluster.start(leader, Origin::Existing).await.expect("it starts again");
        cluster.settle().await;
        for engine in cluster.running() {
            let status = engine.status();
            assert_eq!((status.voters, status.changing), (ids(1..=4), false), "{moment}");
        }
    }
    assert!(half_made > 0, "no moment was in the middle of the change");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_changes_voters_and_only_one_at_a_time() {
    let cluster = Cluster::founded(settings(), 3).await;
    let leader = cluster.leader().expect("it has decided something");
    let follower = VoterId(leader.0 % 3 + 1);
    let absent = VoterId(9);
    let refused = cluster.engine(follower).change_voters(VoterChange::Add(absent)).await;
    let not_leader = ProposeError::NotLeader { leader: Some(leader) };
    assert_eq!(refused, Err(ChangeError::Refused(not_leader)));

    // A voter that never answers is not added, and does not stop the others.
    let engine = cluster.engine(leader);
    let (first, second) = tokio::join!(
        engine.change_voters(VoterChange::Add(absent)),
        engine.change_voters(VoterChange::Remove(follower)),
    );
    assert_eq!(first, Err(ChangeError::Unfinished));
    assert_eq!(second, Err(ChangeError::InProgress));
    assert_eq!(engine.status().voters, ids(1..=3));
    assert_eq!(engine.status().learners, ids([absent.0]));
    assert_eq!(engine.change_voters(VoterChange::Remove(absent)).await, Ok(()));
    assert_eq!(engine.status().learners, ids([]));
    cluster.settle().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_voter_stays() {
    let cluster = Cluster::founded(settings(), 1).await;
    let engine = cluster.engine(VoterId(1));
    let refused = engine.change_voters(VoterChange::Remove(VoterId(1))).await;
    assert_eq!(refused, Err(ChangeError::LastVoter));
    assert_eq!(engine.initialize(&ids([1])).await, Err(InitializeError::Initialized));
}

#[tokio::test(start_paused = true)]
async fn a_wiped_voter_does_not_start_and_comes_back_as_another() {
    let mut cluster = Cluster::founded(settings(), 3).await;
    let (wiped, new) = (VoterId(2), VoterId(7));
    cluster.stop(wiped).await;
    add_disk(&mut cluster, wiped);
    cluster.judge.wipe(wiped);
    let refused = cluster.start(wiped, Origin::Existing).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::Wiped(VoterId(2))))));

    cluster.judge.set_majority(0);
    change(&cluster, VoterChange::Remove(wiped)).await;
    add_disk(&mut cluster, new);
    cluster.start(new, Origin::Joining).await.expect("it starts");
    change(&cluster, VoterChange::Add(new)).await;
    cluster.judge.set_majority(2);
    cluster.settle().await;
}

/// Against the rules, a wiped voter is started as a new one with its old id. It must not count,
/// and must not end the leader, which openraft's leader does by itself.
#[tokio::test(start_paused = true)]
async fn a_wiped_voter_under_its_old_id_does_not_count() {
    let mut cluster = Cluster::founded(settings(), 3).await;
    cluster.settle().await;
    let leader = cluster.leader().expect("it has decided something");
    let (wiped, other) = (VoterId(leader.0 % 3 + 1), VoterId((leader.0 + 1) % 3 + 1));
    cluster.stop(wiped).await;
    add_disk(&mut cluster, wiped);
    cluster.judge.wipe(wiped);
    cluster.start(wiped, Origin::Joining).await.expect("it starts");
    for _ in 0..50 {
        cluster.decide(Duration::from_secs(10)).await;
    }
    assert_eq!(cluster.judge.record(wiped).log.len(), 0);

    // Without the other there is no majority: the wiped one does not vote.
    cluster.stop(leader).await;
    assert_eq!(cluster.try_decide(Duration::from_secs(20)).await, None);
    cluster.stop(other).await;
    cluster.start(leader, Origin::Existing).await.expect("it starts again");
    cluster.start(other, Origin::Existing).await.expect("it starts again");
    cluster.decide(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_voter_must_be_among_the_first_voters() {
    let mut cluster = Cluster::new(settings(), 1);
    cluster.start(VoterId(1), Origin::Founding).await.expect("it starts");
    let engine = cluster.engine(VoterId(1));
    assert_eq!(engine.initialize(&ids([2, 3])).await, Err(InitializeError::NotIncluded));
    assert_eq!(engine.initialize(&BTreeSet::new()).await, Err(InitializeError::NotIncluded));
}
