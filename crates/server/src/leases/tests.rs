//! The rules of sessions and leases, on a simulated clock.

mod custody;
mod promises;
mod requests;
mod restored;

use std::{collections::BTreeMap, time::Duration};

use super::{
    Client, Effect, LeaseTable, Mode, Opening, Outcome, RequestId, SessionId, Settings, WaitId,
    WaitLimit,
};
use crate::Moment;

const TTL: Duration = Duration::from_secs(10);

/// A lease table, and a node of one member that grants each free lock.
struct Scene {
    leases: LeaseTable,
    now: Moment,
    fencing_token: u64,
    held: BTreeMap<Vec<u8>, RequestId>,
    pending: Vec<(RequestId, Vec<u8>, bool)>,
    outcomes: BTreeMap<WaitId, Outcome>,
    effects: Vec<Effect>,
    /// Whether the node grants requests.
    granting: bool,
    /// For how long no other member grants what this node holds, whenever it is asked.
    excludes_for: Duration,
    /// What is to be recorded at other members, if they do not answer at once.
    keeping: Option<Vec<(RequestId, SessionId)>>,
}

impl Scene {
    fn new() -> Self {
        Self::after_a_crash(None)
    }

    fn after_a_crash(longest: Option<Duration>) -> Self {
        let now = Moment::from_nanos(1_000_000_000);
        Self {
            leases: LeaseTable::new(now, Settings::default(), longest, 7),
            now,
            fencing_token: 100,
            held: BTreeMap::new(),
            pending: Vec::new(),
            outcomes: BTreeMap::new(),
            effects: Vec::new(),
            granting: true,
            excludes_for: Duration::ZERO,
            keeping: None,
        }
    }

    fn open(&mut self) -> SessionId {
        self.open_with(Opening { ttl: TTL, ..Opening::default() })
    }

    fn open_with(&mut self, opening: Opening) -> SessionId {
        self.leases.open(self.now, opening).expect("it may open").0
    }

    fn acquire(&mut self, session: SessionId, limit: WaitLimit) -> WaitId {
        let wait = self.leases.acquire(self.now, session, b"x", limit);
        self.settle();
        wait
    }

    fn wait(&mut self, session: SessionId) -> WaitId {
        self.acquire(session, WaitLimit::Never)
    }

    fn token_of(&self, wait: WaitId) -> Option<u64> {
        match self.outcomes.get(&wait) {
            Some(Outcome::Granted { fencing_token, .. }) => Some(*fencing_token),
            _ => None,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.pass_millis(seconds * 1000);
    }

    fn pass_millis(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
        self.leases.tick(self.now);
        self.settle();
    }

    /// Performs the effects of the lease table, until there are none.
    fn settle(&mut self) {
        loop {
            let effects = self.leases.take_effects();
            if effects.is_empty() && !(self.granting && self.grant_one()) {
                return;
            }
            for effect in effects {
                self.perform(effect);
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Request { request, name, mode } => {
                self.pending.push((request, name.to_vec(), mode == Mode::Try));
            }
            Effect::Drop { request } => {
                self.held.retain(|_, held| *held != request);
                self.pending.retain(|pending| pending.0 != request);
            }
            Effect::Reply { wait, outcome } => {
                let before = self.outcomes.insert(wait, outcome);
                assert_eq!(before, None, "a request has one outcome");
            }
            Effect::Keep { request, session } => match &mut self.keeping {
                Some(keeping) => keeping.push((request, session)),
                None => self.leases.recorded(self.now, request, session),
            },
            Effect::Prolong { request } => {
                self.leases.prolong(request, self.now.after(self.excludes_for));
            }
            other => self.effects.push(other),
        }
    }

    fn grant_one(&mut self) -> bool {
        let free = |(_, name, only_try): &(RequestId, Vec<u8>, bool)| {
            *only_try || !self.held.contains_key(name)
        };
        let Some(index) = self.pending.iter().position(free) else { return false };
        let (request, name, _) = self.pending.remove(index);
        let holder = *self.held.entry(name).or_insert(request);
        if holder == request {
            self.fencing_token += 1;
            let until = self.now.after(self.excludes_for);
            self.leases.granted_until(self.now, request, self.fencing_token, until);
        } else {
            self.leases.refused(self.now, request, None);
        }
        true
    }

    fn had_effect(&mut self, wanted: impl Fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(wanted)
    }
}

#[test]
fn waiters_are_granted_in_order_of_arrival_with_growing_fencing_tokens() {
    let mut scene = Scene::new();
    let sessions: Vec<_> = (0..4).map(|_| scene.open()).collect();
    let waits: Vec<_> = sessions.iter().map(|&session| scene.wait(session)).collect();
    let mut last = 0;
    for (index, &wait) in waits.iter().enumerate() {
        let fencing_token = scene.token_of(wait).expect("it is its turn");
        assert!(fencing_token > last, "fencing tokens grow");
        let others = waits[index + 1..].iter().map(|other| scene.leases.position(*other));
        assert_eq!(others.collect::<Vec<_>>(), (0..3 - index).map(Some).collect::<Vec<_>>());
        assert!(scene.leases.release(scene.now, b"x", fencing_token));
        scene.settle();
        last = fencing_token;
    }
    assert!(scene.leases.none_held(scene.now));
}

#[test]
fn a_release_with_an_older_fencing_token_releases_nothing() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    let first = scene.wait(one);
    let old = scene.token_of(first).expect("held");
    assert!(scene.leases.release(scene.now, b"x", old));
    let second = scene.wait(two);
    let new = scene.token_of(second).expect("held");
    assert!(!scene.leases.release(scene.now, b"x", old), "a late release names an older grant");
    assert!(scene.leases.verify(scene.now, b"x", new));
    assert!(!scene.leases.verify(scene.now, b"x", old));
}

#[test]
fn closing_a_session_releases_its_locks_at_once() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let next = scene.wait(two);
    assert!(scene.leases.close(scene.now, one));
    scene.settle();
    assert!(scene.token_of(next).is_some());
    assert!(!scene.leases.close(scene.now, one), "a session ends once");
}

#[test]
fn a_lease_expires_unless_it_is_renewed() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let next = scene.wait(two);
    for _ in 0..5 {
        scene.pass(8);
        assert_eq!(scene.leases.renew(scene.now, one), Some(TTL));
        assert_eq!(scene.leases.renew(scene.now, two), Some(TTL));
    }
    scene.pass(9);
    assert_eq!(scene.token_of(next), None);
    assert_eq!(scene.leases.renew(scene.now, two), Some(TTL));
    scene.pass(1);
    assert!(scene.token_of(next).is_some(), "the other lease has expired");
    assert!(scene.had_effect(|effect| *effect == Effect::Ended { session: one }));
    assert_eq!(scene.leases.renew(scene.now, one), None, "a session that has ended is not renewed");
}

#[test]
fn a_lease_that_expired_unnoticed_is_not_renewed() {
    let mut scene = Scene::new();
    let one = scene.open();
    scene.now = scene.now.after(TTL);
    assert_eq!(scene.leases.renew(scene.now, one), None, "before the tick");
    let wait = scene.wait(one);
    assert_eq!(scene.outcomes[&wait], Outcome::NoSession);
}

#[test]
fn a_waiter_whose_session_has_ended_is_never_granted() {
    let mut scene = Scene::new();
    let (one, two, three) = (scene.open(), scene.open(), scene.open());
    let first = scene.wait(one);
    let expired = scene.wait(two);
    scene.now = scene.now.after(TTL - Duration::from_secs(1));
    for session in [one, three] {
        scene.leases.renew(scene.now, session);
    }
    let alive = scene.wait(three);
    // The lease of the second expires, and the first releases the lock before the next tick.
    scene.now = scene.now.after(Duration::from_secs(1));
    let fencing_token = scene.token_of(first).expect("held");
    assert!(scene.leases.release(scene.now, b"x", fencing_token));
    scene.settle();
    assert_eq!(scene.outcomes[&expired], Outcome::NoSession);
    assert!(scene.token_of(alive).is_some());
}

#[test]
fn a_waiter_gets_the_outcome_at_once_when_its_lease_expires() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let waiter = scene.wait(two);
    scene.pass(9);
    scene.leases.renew(scene.now, one);
    scene.pass(1);
    assert_eq!(scene.outcomes[&waiter], Outcome::NoSession, "though the lock is still held");
}

#[test]
fn a_broken_connection_releases_nothing_until_the_client_is_known_to_have_ended() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let next = scene.wait(two);
    scene.leases.detach(scene.now, one);
    scene.settle();
    assert_eq!(scene.token_of(next), None, "its command may still run");
    scene.leases.client_ended(scene.now, one);
    scene.settle();
    assert!(scene.token_of(next).is_some());
}

#[test]
fn the_end_of_a_supervised_client_releases_nothing_before_its_supervisor_closes_the_session() {
    let mut scene = Scene::new();
    let one = scene.open_with(Opening { ttl: TTL, supervised: true, ..Opening::default() });
    let two = scene.open();
    scene.wait(one);
    let next = scene.wait(two);
    scene.leases.detach(scene.now, one);
    scene.leases.client_ended(scene.now, one);
    scene.settle();
    assert_eq!(scene.token_of(next), None, "its command may outlive it");
    scene.leases.close(scene.now, one);
    scene.settle();
    assert!(scene.token_of(next).is_some());
}

#[test]
fn a_broken_connection_ends_its_waits_and_an_idle_session() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    let first = scene.wait(one);
    let waiter = scene.wait(two);
    scene.leases.detach(scene.now, two);
    scene.settle();
    assert_eq!(scene.outcomes[&waiter], Outcome::Cancelled);
    assert_eq!(scene.leases.sessions(), 1);
    let fencing_token = scene.token_of(first).expect("held");
    scene.leases.release(scene.now, b"x", fencing_token);
    scene.settle();
    assert!(scene.held.is_empty(), "nothing is held for a client that has ended");
}

#[test]
fn a_try_is_busy_when_the_lock_is_held_and_leaves_no_state() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    let tried = scene.acquire(one, WaitLimit::Try);
    let fencing_token = scene.token_of(tried).expect("it was free");
    let busy = scene.acquire(two, WaitLimit::Try);
    assert_eq!(scene.outcomes[&busy], Outcome::Busy);
    scene.leases.release(scene.now, b"x", fencing_token);
    scene.settle();
    assert!(scene.held.is_empty());
    // A client of another node may hold it too.
    scene.held.insert(b"x".to_vec(), RequestId(0));
    let busy = scene.acquire(two, WaitLimit::Try);
    assert_eq!(scene.outcomes[&busy], Outcome::Busy);
    assert!(scene.leases.list(scene.now, b"").is_empty());
}

#[test]
fn a_wait_with_a_limit_ends_and_leaves_the_queue() {
    let mut scene = Scene::new();
    let (one, two, three) = (scene.open(), scene.open(), scene.open());
    let first = scene.wait(one);
    let bounded = scene.acquire(two, WaitLimit::Until(scene.now.after(Duration::from_secs(2))));
    let last = scene.wait(three);
    scene.pass(2);
    assert_eq!(scene.outcomes[&bounded], Outcome::TimedOut);
    assert_eq!(scene.leases.position(last), Some(0));
    let fencing_token = scene.token_of(first).expect("held");
    scene.leases.release(scene.now, b"x", fencing_token);
    scene.settle();
    assert!(scene.token_of(last).is_some());
}

#[test]
fn a_grant_after_the_cancellation_is_returned() {
    let mut scene = Scene::new();
    scene.granting = false;
    let one = scene.open();
    let wait = scene.wait(one);
    let (request, ..) = scene.pending[0].clone();
    scene.leases.cancel(scene.now, wait);
    // The grant and the cancellation cross.
    scene.leases.granted(scene.now, request, 500);
    scene.settle();
    assert_eq!(scene.outcomes[&wait], Outcome::Cancelled);
    assert!(scene.pending.is_empty(), "the request was dropped");
    assert!(scene.leases.none_held(scene.now));
}

#[test]
fn two_requests_of_one_session_are_one_hold() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    let first = scene.wait(one);
    let fencing_token = scene.token_of(first).expect("held");
    let again = scene.wait(one);
    assert_eq!(scene.outcomes[&again], Outcome::Already { fencing_token });
    let (third, fourth) = (scene.wait(two), scene.wait(two));
    scene.leases.release(scene.now, b"x", fencing_token);
    scene.settle();
    let fencing_token = scene.token_of(third).expect("held");
    assert_eq!(scene.outcomes[&fourth], Outcome::Already { fencing_token });
}

#[test]
fn a_broken_lock_is_granted_when_its_holder_has_released_it() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    let first = scene.wait(one);
    let next = scene.wait(two);
    let fencing_token = scene.token_of(first).expect("held");
    scene.pass(4);
    let rest = scene.leases.break_grant(scene.now, b"x", None, "stuck".to_owned());
    assert_eq!(rest, Some(Duration::from_secs(6)));
    scene.settle();
    assert!(scene.had_effect(|effect| is_loss_of(effect, one, fencing_token)));
    assert!(!scene.leases.verify(scene.now, b"x", fencing_token));
    assert_eq!(scene.token_of(next), None);
    assert!(!scene.leases.release(scene.now, b"x", fencing_token), "it was no longer held");
    scene.settle();
    assert!(scene.token_of(next).expect("its turn") > fencing_token);
}

#[test]
fn a_broken_lock_is_granted_when_the_lease_would_have_expired_even_if_it_is_renewed() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let next = scene.wait(two);
    scene.leases.break_grant(scene.now, b"x", None, "stuck".to_owned());
    scene.pass(9);
    scene.leases.renew(scene.now, one);
    scene.leases.renew(scene.now, two);
    assert_eq!(scene.token_of(next), None);
    let again = scene.leases.break_grant(scene.now, b"x", None, "still stuck".to_owned());
    assert_eq!(again, Some(Duration::from_secs(1)), "it is broken already");
    scene.pass(1);
    assert!(scene.token_of(next).is_some());
    assert_eq!(scene.leases.break_grant(scene.now, b"y", None, String::new()), None);
}

#[test]
fn after_a_crash_no_lock_is_granted_before_the_longest_lease_has_expired() {
    let mut scene = Scene::after_a_crash(Some(TTL));
    let one = scene.open_with(Opening { ttl: TTL * 3, ..Opening::default() });
    let wait = scene.wait(one);
    let tried = scene.acquire(one, WaitLimit::Try);
    assert_eq!(scene.outcomes[&tried], Outcome::Busy);
    scene.pass(9);
    assert_eq!(scene.token_of(wait), None);
    scene.pass(1);
    assert!(scene.token_of(wait).is_some());
}

#[test]
fn after_a_crash_former_holders_reclaim_their_locks_and_keep_them() {
    let mut scene = Scene::after_a_crash(Some(TTL));
    let (one, two) = (scene.open(), scene.open());
    assert!(scene.leases.reclaim(scene.now, one, b"x", 42));
    assert!(!scene.leases.reclaim(scene.now, two, b"x", 41), "it held the lock earlier");
    scene.settle();
    assert!(scene.leases.verify(scene.now, b"x", 42), "it keeps its fencing token");
    let next = scene.wait(two);
    for _ in 0..3 {
        scene.pass(8);
        scene.leases.renew(scene.now, one);
        scene.leases.renew(scene.now, two);
    }
    assert_eq!(scene.token_of(next), None, "the quarantine is over, and the lock is held");
    assert!(!scene.leases.reclaim(scene.now, two, b"y", 44), "the quarantine is over");
    assert!(scene.leases.release(scene.now, b"x", 42));
    scene.settle();
    assert!(scene.token_of(next).expect("its turn") > 42);
}

fn is_loss_of(effect: &Effect, holder: SessionId, token: u64) -> bool {
    match effect {
        Effect::Lost { session, fencing_token, .. } => {
            (*session, *fencing_token) == (holder, token)
        }
        _ => false,
    }
}

#[test]
fn of_two_reclaims_the_later_grant_holds_and_the_other_client_is_notified() {
    let mut scene = Scene::after_a_crash(Some(TTL));
    let (one, two) = (scene.open(), scene.open());
    // Its lease may have expired while the reclaim was under way.
    assert!(scene.leases.reclaim(scene.now, one, b"x", 42));
    scene.settle();
    assert!(scene.leases.reclaim(scene.now, two, b"x", 43));
    scene.settle();
    assert!(!scene.leases.verify(scene.now, b"x", 42));
    assert!(scene.leases.verify(scene.now, b"x", 43));
    assert!(scene.had_effect(|effect| is_loss_of(effect, one, 42)));
    assert!(!scene.leases.reclaim(scene.now, one, b"x", 42));
    scene.leases.close(scene.now, one);
    scene.settle();
    assert!(
        scene.leases.verify(scene.now, b"x", 43),
        "the end of the other session releases nothing"
    );
}

#[test]
fn a_refused_reclaim_is_lost_with_its_own_fencing_token() {
    let mut scene = Scene::after_a_crash(Some(TTL));
    let (one, two) = (scene.open(), scene.open());
    scene.wait(two);
    assert!(scene.leases.reclaim(scene.now, one, b"x", 50));
    assert!(scene.leases.release(scene.now, b"x", 50));
    scene.settle();
    scene.granting = false;
    assert!(scene.leases.reclaim(scene.now, one, b"x", 42));
    scene.settle();
    let request = scene.pending.pop().expect("the node is pending").0;
    scene.leases.refused(scene.now, request, None);
    scene.settle();
    assert!(
        scene.had_effect(|effect| is_loss_of(effect, one, 42)),
        "the fencing token names the lost grant"
    );
    assert!(!scene.leases.verify(scene.now, b"x", 42));
}

#[test]
fn the_node_joins_only_when_no_lock_can_be_reclaimed_any_more() {
    let mut scene = Scene::new();
    scene.settle();
    assert!(scene.had_effect(|effect| *effect == Effect::Join), "it stopped cleanly");
    let mut scene = Scene::after_a_crash(Some(TTL));
    let one = scene.open();
    scene.leases.reclaim(scene.now, one, b"x", 42);
    scene.pass(9);
    assert!(!scene.had_effect(|effect| *effect == Effect::Join));
    scene.pass(1);
    assert!(scene.had_effect(|effect| *effect == Effect::Join));
}

#[test]
fn the_record_shrinks_when_the_longest_lease_is_released() {
    let mut scene = Scene::new();
    let (one, two) =
        (scene.open(), scene.open_with(Opening { ttl: TTL * 60, ..Opening::default() }));
    scene.wait(one);
    let long = scene.leases.acquire(scene.now, two, b"y", WaitLimit::Never);
    scene.settle();
    let fencing_token = scene.token_of(long).expect("held");
    scene.leases.shorten_record(scene.now);
    scene.settle();
    let recorded = |scene: &mut Scene| {
        let effects = scene.effects.iter().rev().find_map(|effect| match effect {
            Effect::Record { longest } => Some(*longest),
            _ => None,
        });
        effects.expect("recorded")
    };
    assert_eq!(recorded(&mut scene), TTL * 60);
    assert!(scene.leases.release(scene.now, b"y", fencing_token));
    scene.leases.shorten_record(scene.now);
    scene.settle();
    assert_eq!(recorded(&mut scene), TTL);
}

#[test]
fn the_longest_lease_is_recorded_before_the_grant_is_sent() {
    let mut scene = Scene::new();
    let one = scene.open();
    scene.leases.acquire(scene.now, one, b"x", WaitLimit::Never);
    let pending =
        |effect| if let Effect::Request { request, .. } = effect { Some(request) } else { None };
    let request =
        scene.leases.take_effects().into_iter().find_map(pending).expect("the node is pending");
    scene.leases.granted(scene.now, request, 1);
    let effects = scene.leases.take_effects();
    let index = |wanted: fn(&Effect) -> bool| effects.iter().position(wanted);
    let recorded = index(|effect| *effect == Effect::Record { longest: TTL });
    let granted = index(|effect| matches!(effect, Effect::Reply { .. }));
    assert!(recorded.expect("recorded") < granted.expect("sent"));
    scene.leases.shorten_record(scene.now);
    assert!(scene.leases.take_effects().is_empty(), "the lock is held");
    scene.leases.release(scene.now, b"x", 1);
    scene.leases.shorten_record(scene.now);
    let shortened = Effect::Record { longest: Duration::ZERO };
    assert!(scene.leases.take_effects().contains(&shortened));
}

#[test]
fn a_refusal_of_the_node_goes_to_all_waiters() {
    let mut scene = Scene::new();
    scene.granting = false;
    let (one, two) = (scene.open(), scene.open());
    let (first, second) = (scene.wait(one), scene.wait(two));
    let (request, ..) = scene.pending[0].clone();
    scene.leases.refused(scene.now, request, Some("member 2 is not connected".to_owned()));
    scene.settle();
    let outcome = Outcome::Unavailable("member 2 is not connected".to_owned());
    assert_eq!(scene.outcomes[&first], outcome);
    assert_eq!(scene.outcomes[&second], outcome);
}

#[test]
fn a_loss_at_the_node_is_reported_and_the_next_waiter_is_granted() {
    let mut scene = Scene::new();
    let (one, two) = (scene.open(), scene.open());
    scene.wait(one);
    let next = scene.wait(two);
    let request = scene.held[b"x".as_slice()];
    scene.leases.lost(scene.now, request, "the view ended".to_owned());
    scene.settle();
    assert!(
        scene
            .had_effect(|effect| matches!(effect, Effect::Lost { session, .. } if *session == one))
    );
    assert!(scene.token_of(next).is_some());
}

#[test]
fn sessions_have_the_requested_number_or_one_with_the_member_index() {
    let settings = Settings { member: 5, ..Settings::default() };
    let mut leases = LeaseTable::new(Moment::ZERO, settings, None, u32::MAX);
    let opening = Opening { id: -7, ttl: TTL, ..Opening::default() };
    assert_eq!(leases.open(Moment::ZERO, opening.clone()).map(|open| open.0), Ok(SessionId(-7)));
    assert_eq!(leases.open(Moment::ZERO, opening), Err(super::OpenError::Exists));
    let fresh = leases.open(Moment::ZERO, Opening::default()).expect("it may open").0;
    assert!(fresh.0 > 0);
    assert_eq!(fresh.member(), 5);
}
