//! Holds that are taken over from a lost node. Its client may never have been informed of the
//! grant: the node may have lost it while it was being recorded, and others may have been granted
//! the lock since, with higher fencing tokens.

use super::*;
use crate::leases::Name;

/// The client's session at the lost node, and the fencing token of its hold.
const SESSION: SessionId = SessionId(77);
const TOKEN: u64 = 42;

/// A node of a cluster that holds `x` for a client of a lost node.
fn custodian(lease: bool) -> Scene {
    let mut scene = Scene::new();
    let settings = Settings { recorded: true, ..Settings::default() };
    scene.leases = LeaseTable::new(scene.now, settings, None, 7);
    let opening = Opening { id: SESSION.0, ttl: TTL, lease, ..Opening::default() };
    let name = Name::from(&b"x"[..]);
    let request = scene.leases.custody(scene.now, opening, &name, TOKEN, scene.now);
    scene.held.insert(b"x".to_vec(), request);
    scene.settle();
    scene
}

/// The client attaches to its session.
fn attach(scene: &mut Scene) {
    let opening = Opening { ttl: TTL, ..Opening::default() };
    let attached = scene.leases.attach(scene.now, SESSION, opening);
    assert_eq!(attached, Ok((SESSION, TTL)));
}

#[test]
fn a_client_that_does_not_name_the_fencing_token_is_granted_the_lock_anew() {
    let mut scene = custodian(false);
    scene.pass(4);
    attach(&mut scene);
    let tried = scene.acquire(SESSION, WaitLimit::Try);
    assert_eq!(scene.outcomes.get(&tried), Some(&Outcome::Busy));
    let wait = scene.wait(SESSION);
    assert_eq!(scene.outcomes.get(&wait), None, "it waits");
    // Until the client's lease would have expired, had it been informed.
    scene.pass(5);
    assert_eq!(scene.leases.renew(scene.now, SESSION), Some(TTL));
    assert_eq!(scene.outcomes.get(&wait), None);
    assert!(scene.leases.verify(scene.now, b"x", TOKEN));
    scene.pass(1);
    assert!(scene.token_of(wait).is_some_and(|token| token > TOKEN), "{:?}", scene.outcomes);
    assert!(!scene.leases.verify(scene.now, b"x", TOKEN));
    for _ in 0..3 {
        scene.pass(8);
        assert_eq!(scene.leases.renew(scene.now, SESSION), Some(TTL));
    }
    assert!(!scene.leases.none_held(scene.now), "it is the client's");
}

#[test]
fn a_client_that_names_the_fencing_token_keeps_the_lock() {
    let mut scene = custodian(false);
    attach(&mut scene);
    assert!(!scene.leases.reclaim(scene.now, SESSION, b"x", TOKEN - 1), "another grant");
    assert!(scene.leases.reclaim(scene.now, SESSION, b"x", TOKEN));
    for _ in 0..3 {
        scene.pass(8);
        assert_eq!(scene.leases.renew(scene.now, SESSION), Some(TTL));
    }
    assert!(scene.leases.verify(scene.now, b"x", TOKEN));
    let again = scene.wait(SESSION);
    assert_eq!(scene.outcomes[&again], Outcome::Already { fencing_token: TOKEN });
}

#[test]
fn a_late_request_takes_nothing_from_a_client_that_names_the_fencing_token_later() {
    let mut scene = custodian(false);
    // Sent before the lost node informed the client, and read now.
    let late = scene.wait(SESSION);
    assert_eq!(scene.outcomes.get(&late), None);
    assert!(scene.leases.reclaim(scene.now, SESSION, b"x", TOKEN));
    scene.settle();
    assert_eq!(scene.outcomes[&late], Outcome::Already { fencing_token: TOKEN });
    scene.pass(8);
    assert_eq!(scene.leases.renew(scene.now, SESSION), Some(TTL));
    scene.pass(8);
    assert!(scene.leases.verify(scene.now, b"x", TOKEN));
}

#[test]
fn a_lease_keeps_its_lock_and_no_request_with_it_is_granted() {
    let mut scene = custodian(true);
    // Another client of the lease may have been informed, and clients of leases name no tokens.
    let wait = scene.wait(SESSION);
    let outcome = &scene.outcomes[&wait];
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    for _ in 0..3 {
        scene.pass(8);
        assert_eq!(scene.leases.renew(scene.now, SESSION), Some(TTL));
    }
    assert!(scene.leases.verify(scene.now, b"x", TOKEN));
    assert!(scene.leases.release(scene.now, b"x", TOKEN));
    let wait = scene.wait(SESSION);
    assert!(scene.token_of(wait).is_some_and(|token| token > TOKEN), "{:?}", scene.outcomes);
}
