//! Partial partitions: the cluster goes on where any majority can talk to one of its own.

use std::time::Duration;

use mutua_consensus::VoterId;
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, settings},
    judge::command,
};

/// A cut between five voters, of whom the first leads.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The leader is cut off from all.
    LeaderAlone,
    /// The leader receives nothing; what it sends arrives.
    LeaderDeaf,
    /// The leader receives everything; nothing that it sends arrives.
    LeaderMute,
    /// The leader and one more are cut off from the other three.
    SmallerPart,
    /// Every voter is connected to two others, in a ring.
    Ring,
    /// The leader is connected to one of three others that are connected to each other; the fifth
    /// is cut off (openraft#2080).
    Bridge,
}

const SHAPES: [Shape; 6] = [
    Shape::LeaderAlone,
    Shape::LeaderDeaf,
    Shape::LeaderMute,
    Shape::SmallerPart,
    Shape::Ring,
    Shape::Bridge,
];

fn cut(cluster: &Cluster, shape: Shape) {
    let leader = cluster.leader().expect("it has decided something");
    let mut order = vec![leader];
    order.extend(cluster.voters.keys().copied().filter(|id| *id != leader));
    let separate = |one: usize, other: usize| cluster.switch.separate(order[one], order[other]);
    match shape {
        Shape::LeaderAlone => (1..5).for_each(|other| separate(0, other)),
        Shape::LeaderDeaf => {
            (1..5).for_each(|other| cluster.switch.cut(order[other], leader));
        }
        Shape::LeaderMute => {
            (1..5).for_each(|other| cluster.switch.cut(leader, order[other]));
        }
        Shape::SmallerPart => {
            for other in 2..5 {
                separate(0, other);
                separate(1, other);
            }
        }
        Shape::Ring => (0..5).for_each(|one| separate(one, (one + 2) % 5)),
        Shape::Bridge => {
            for other in 2..5 {
                separate(0, other);
            }
            (0..4).for_each(|other| separate(4, other));
        }
    }
}

/// Enough for `2 x election_max` until the leader falls silent, its lease, and a few elections.
const BOUND: Duration = Duration::from_secs(8);

/// Cut, decide a while, heal, several times. Returns the longest time without a decision.
async fn survive(shape: Shape, rounds: usize) -> Duration {
    let cluster = Cluster::founded(settings(), 5).await;
    let mut longest = Duration::ZERO;
    for _ in 0..rounds {
        sleep(Duration::from_secs(2)).await;
        cut(&cluster, shape);
        // The first may be decided by what was under way.
        for _ in 0..40 {
            longest = longest.max(cluster.decide(BOUND).await);
            sleep(Duration::from_millis(200)).await;
        }
        cluster.switch.heal();
        cluster.settle().await;
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn six_partitions_do_not_stop_the_decisions() {
    for shape in SHAPES {
        let longest = survive(shape, 5).await;
        println!("{shape:?}: at most {longest:?} without a decision");
    }
}

#[tokio::test(start_paused = true)]
async fn six_partitions_with_loss_and_delay_do_not_stop_the_decisions() {
    for shape in SHAPES {
        let cluster = Cluster::founded(settings(), 5).await;
        cluster.switch.set_loss(20);
        cluster.switch.set_delay(Duration::from_millis(20));
        cut(&cluster, shape);
        for _ in 0..20 {
            cluster.decide(BOUND * 2).await;
        }
        cluster.switch.heal();
        cluster.settle().await;
    }
}

/// Negative control: what the guards are for.
#[tokio::test(start_paused = true)]
async fn without_guards_a_bridge_stops_the_decisions() {
    let mut settings = settings();
    settings.guarded = false;
    let cluster = Cluster::founded(settings, 5).await;
    cut(&cluster, Shape::Bridge);
    // What was under way may still be decided.
    cluster.try_decide(Duration::from_secs(1)).await;
    assert_eq!(cluster.try_decide(Duration::from_secs(60)).await, None);
    cluster.switch.heal();
    cluster.settle().await;
}

/// How much a voter's term grows while it is cut off for half a minute.
async fn terms_of_a_voter_that_is_cut_off(guarded: bool) -> u64 {
    let mut settings = settings();
    settings.guarded = guarded;
    let cluster = Cluster::founded(settings, 5).await;
    cluster.settle().await;
    let leader = cluster.leader().expect("it has decided something");
    let term = cluster.engine(leader).status().term;
    let other = *cluster.voters.keys().find(|id| **id != leader).expect("there are five");
    for id in cluster.voters.keys().filter(|id| **id != other) {
        cluster.switch.separate(other, *id);
    }
    sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.engine(leader).status().term, term, "the others are not disturbed");
    let grown = cluster.engine(other).status().term - term;
    cluster.switch.heal();
    cluster.settle().await;
    grown
}

/// Guard 2. Until the voter has noticed that it sees no majority, it may stand once or twice.
#[tokio::test(start_paused = true)]
async fn a_voter_that_sees_no_majority_does_not_stand_for_election() {
    let guarded = terms_of_a_voter_that_is_cut_off(true).await;
    assert!(guarded <= 2, "{guarded} terms");
    let unguarded = terms_of_a_voter_that_is_cut_off(false).await;
    assert!(unguarded > 20, "negative control: {unguarded} terms");
}

/// Guard 1 must not silence a leader for ever: with the longer log it is the only one that can
/// lead.
#[tokio::test(start_paused = true)]
async fn a_leader_with_the_longer_log_speaks_again() {
    let cluster = Cluster::founded(settings(), 2).await;
    cluster.settle().await;
    let leader = cluster.leader().expect("it has decided something");
    cluster.switch.separate(VoterId(1), VoterId(2));
    assert_eq!(cluster.engine(leader).propose(command(cluster.next_command())), Ok(()));
    sleep(Duration::from_secs(60)).await;
    cluster.switch.heal();
    cluster.decide(BOUND).await;
    cluster.settle().await;
}

/// Guard 3.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_majority_takes_no_proposals() {
    use mutua_consensus::ProposeError;

    let cluster = Cluster::founded(settings(), 3).await;
    let leader = cluster.leader().expect("it has decided something");
    let follower = VoterId(leader.0 % 3 + 1);
    let refused = cluster.engine(follower).propose(vec![0; 8]);
    assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(leader) }));
    for id in cluster.voters.keys().filter(|id| **id != leader) {
        cluster.switch.separate(leader, *id);
    }
    let engine = cluster.engine(leader);
    sleep(Duration::from_millis(900)).await;
    assert!(engine.status().leads);
    assert_eq!(engine.propose(vec![0; 8]), Err(ProposeError::Unconfirmed));
}
