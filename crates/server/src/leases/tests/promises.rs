//! Grants with a promise, on a node of a cluster whose view lease the test sets.

use super::*;
use crate::leases::Name;

/// One part in a hundred.
const DRIFT: u32 = 10_000;

/// A node that records holds at other members, and whether these answer.
struct Promising {
    scene: Scene,
    session: SessionId,
    wait: WaitId,
}

/// A client requests the lock while the view lease lasts for so many milliseconds, having waited
/// for so long.
fn granted(lease_ms: u64, waited_ms: u64) -> Promising {
    let mut scene = Scene::new();
    let settings = Settings { recorded: true, drift: DRIFT, ..Settings::default() };
    scene.leases = LeaseTable::new(scene.now, settings, None, 7);
    scene.keeping = Some(Vec::new());
    let session = scene.open();
    scene.granting = false;
    let wait = scene.leases.acquire(scene.now, session, b"x", WaitLimit::Never);
    scene.leases.allow_promise(wait);
    scene.settle();
    scene.pass_millis(waited_ms);
    scene.excludes_for = Duration::from_millis(lease_ms);
    scene.granting = true;
    scene.settle();
    scene.excludes_for = Duration::ZERO;
    Promising { scene, session, wait }
}

impl Promising {
    fn token(&self) -> Option<u64> {
        self.scene.token_of(self.wait)
    }

    /// The promise in milliseconds.
    fn promise(&self) -> Option<u128> {
        let token = self.scene.fencing_token;
        self.scene.leases.promise_of(b"x", token).map(|promise| promise.as_millis())
    }

    fn keeps(&self) -> usize {
        self.scene.keeping.as_ref().map_or(0, Vec::len)
    }

    /// The members have recorded what was sent.
    fn record(&mut self) {
        for (request, session) in std::mem::take(self.scene.keeping.as_mut().expect("set")) {
            self.scene.leases.recorded(self.scene.now, request, session);
        }
        self.scene.settle();
    }

    fn lose(&mut self) {
        let request = self.scene.held[&b"x"[..]];
        self.scene.leases.lost(self.scene.now, request, "cut off".to_owned());
        self.scene.settle();
    }

    fn is_free(&self) -> bool {
        !self.scene.held.contains_key(&b"x"[..])
    }

    fn was_notified(&mut self) -> bool {
        self.scene.had_effect(|effect| matches!(effect, Effect::Lost { .. }))
    }
}

#[test]
fn a_client_is_informed_at_once_and_a_short_hold_is_never_recorded() {
    let mut test = granted(1000, 0);
    let token = test.token().expect("informed");
    // By the client's clock, which may be slower than the node's by twice the drift.
    assert_eq!(test.promise(), Some(980));
    test.scene.pass_millis(4);
    assert!(test.scene.leases.release(test.scene.now, b"x", token));
    test.scene.settle();
    test.scene.pass_millis(1000);
    assert_eq!(test.keeps(), 0);
    assert!(test.is_free());
}

#[test]
fn a_hold_that_lasts_is_recorded_and_then_lasts_as_its_session_does() {
    let mut test = granted(1000, 0);
    test.scene.pass_millis(5);
    assert_eq!(test.keeps(), 1);
    assert!(test.scene.leases.any_promised());
    test.record();
    assert!(!test.scene.leases.any_promised());
    assert_eq!(test.promise(), None);
    let told = |effect: &Effect| matches!(effect, Effect::Promised { .. });
    assert!(test.scene.had_effect(told));
    test.scene.pass_millis(3000);
    assert!(test.scene.leases.verify(test.scene.now, b"x", test.scene.fencing_token));
    assert_eq!(test.keeps(), 0, "once");
}

#[test]
fn a_promise_grows_with_the_view_lease_until_the_hold_is_recorded() {
    let mut test = granted(1000, 0);
    test.scene.excludes_for = Duration::from_secs(1);
    test.scene.pass_millis(200);
    // From the request: 200 ms and another second.
    assert_eq!(test.promise(), Some(1176));
    test.scene.pass_millis(200);
    assert_eq!(test.promise(), Some(1372));
}

#[test]
fn the_whole_time_from_the_request_to_the_end_of_the_lease_shrinks() {
    let test = granted(1000, 3000);
    assert!(test.token().is_some());
    // 4000 * 0.99 / 1.01. Were only the wait shrunk, it would be 3940, which last for 3979 ms on a
    // slow client's clock, and 4000 on a fast node's for 3960.
    assert_eq!(test.promise(), Some(3920));
}

#[test]
fn a_promise_that_would_be_short_is_not_given() {
    // The drift of a long wait leaves nothing of a short lease.
    for (lease, waited) in [(100, 0), (0, 0), (400, 9000)] {
        let mut test = granted(lease, waited);
        assert_eq!(test.token(), None, "lease {lease}");
        assert_eq!(test.keeps(), 1, "it is recorded first");
        test.record();
        assert!(test.token().is_some());
        assert_eq!(test.promise(), None);
    }
}

#[test]
fn a_lost_lock_is_kept_until_its_promise_has_ended() {
    let mut test = granted(1000, 0);
    test.lose();
    assert!(test.was_notified());
    test.scene.pass_millis(1099);
    test.lose();
    assert!(!test.is_free(), "the client may not know, or needs time to stop");
    test.scene.pass_millis(1);
    assert!(test.is_free());
    let lost = |effect: &&Effect| matches!(effect, Effect::Lost { .. });
    assert_eq!(test.scene.effects.iter().filter(lost).count(), 1, "once");
}

#[test]
fn a_lost_lock_is_free_when_its_client_has_released_it() {
    let mut test = granted(1000, 0);
    let token = test.token().expect("held");
    test.lose();
    assert!(!test.scene.leases.release(test.scene.now, b"x", token), "it was lost");
    test.scene.settle();
    assert!(test.is_free());
}

#[test]
fn what_is_promised_is_kept_when_another_member_serves_the_session() {
    let mut test = granted(1000, 0);
    let name = Name::from(&b"y"[..]);
    // A hold of the same session that this node took over, and loses to another member.
    let opening = Opening { id: test.session.0, ttl: TTL, ..Opening::default() };
    let request = test.scene.leases.custody(test.scene.now, opening, &name, 5, test.scene.now);
    test.scene.leases.lost(test.scene.now, request, String::new());
    test.scene.settle();
    assert!(!test.is_free());
    test.scene.pass_millis(1100);
    assert!(test.is_free());
}

#[test]
fn a_request_that_comes_again_counts_from_then() {
    let mut test = granted(1000, 500);
    assert_eq!(test.promise(), Some(1470));
    let again = test.scene.wait(test.session);
    let outcome = &test.scene.outcomes[&again];
    assert!(matches!(outcome, Outcome::Already { .. }), "{outcome:?}");
    assert_eq!(test.promise(), Some(980), "its client may have sent it just now");
}

#[test]
fn a_node_that_stops_records_what_it_has_promised_and_promises_no_more() {
    let mut test = granted(1000, 0);
    test.scene.excludes_for = Duration::from_secs(1);
    test.scene.leases.end_promises();
    test.scene.settle();
    assert_eq!(test.keeps(), 1);
    test.record();
    let token = test.token().expect("held");
    assert!(test.scene.leases.release(test.scene.now, b"x", token));
    let next = test.scene.leases.acquire(test.scene.now, test.session, b"x", WaitLimit::Never);
    test.scene.leases.allow_promise(next);
    test.scene.settle();
    assert_eq!((test.scene.token_of(next), test.keeps()), (None, 1));
}
