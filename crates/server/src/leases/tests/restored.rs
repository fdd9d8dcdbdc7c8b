//! Holds of before a crash of a single node, as its next process goes on with them.

use super::*;
use crate::leases::{Held, Name};

/// The client's session in the last process, and the fencing token of its hold.
const SESSION: SessionId = SessionId(77);
const TOKEN: u64 = 42;
/// How long the client may hold the lock yet.
const LEFT: u64 = 4;

fn of(user: &str) -> Opening {
    let client = Client { identity: format!("user:{user}"), ..Client::default() };
    Opening { ttl: TTL, client, ..Opening::default() }
}

fn restored(broken: bool) -> Scene {
    let mut scene = Scene::new();
    let opening = Opening { id: SESSION.0, ..of("ann") };
    let (since, until) = (scene.now, Moment::NEVER);
    let held = Held { fencing_token: TOKEN, opening, since, until, broken };
    let left = Duration::from_secs(LEFT);
    scene.leases.restore(scene.now, &Name::from(&b"x"[..]), held, left);
    scene.settle();
    scene
}

/// The end of the hold as it was last recorded.
fn recorded_end(scene: &Scene) -> Option<Moment> {
    let hold = scene.effects.iter().rev().find_map(|effect| match effect {
        Effect::RecordHold { hold, .. } => Some(hold.as_ref()),
        _ => None,
    });
    hold.expect("a record").map(|held| held.until)
}

#[test]
fn its_name_is_waited_for_until_the_lease_has_expired_and_no_other() {
    let mut scene = restored(false);
    let other = scene.open();
    let wait = scene.wait(other);
    let free = scene.leases.acquire(scene.now, other, b"z", WaitLimit::Try);
    scene.settle();
    assert!(scene.token_of(free).is_some(), "another name is granted at once");
    scene.pass(LEFT - 1);
    assert_eq!(scene.token_of(wait), None);
    scene.pass(1);
    assert!(scene.token_of(wait).is_some());
}

#[test]
fn it_is_recorded_with_its_end_until_its_client_renews_it() {
    let mut scene = restored(false);
    assert_eq!(recorded_end(&scene), Some(scene.now.after(Duration::from_secs(LEFT))));
    scene.effects.clear();
    let attached = scene.leases.attach(scene.now, SESSION, Opening::default());
    assert_eq!(attached, Ok((SESSION, TTL)));
    scene.settle();
    assert_eq!(recorded_end(&scene), Some(Moment::NEVER));
    assert!(scene.had_effect(|effect| *effect == Effect::Record { longest: TTL }));
    assert!(scene.leases.reclaim(scene.now, SESSION, b"x", TOKEN));
    scene.pass(LEFT + 1);
    assert!(scene.leases.verify(scene.now, b"x", TOKEN), "the client has named it");
}

#[test]
fn its_client_takes_it_up_in_another_session_and_nobody_else_does() {
    let mut scene = restored(false);
    let (eve, one) = (scene.open_with(of("eve")), scene.open_with(of("ann")));
    assert!(!scene.leases.reclaim(scene.now, eve, b"x", TOKEN), "another user");
    assert!(!scene.leases.reclaim(scene.now, one, b"x", TOKEN - 1), "another grant");
    assert!(!scene.leases.reclaim(scene.now, one, b"y", TOKEN), "it was not held");
    assert!(scene.leases.reclaim(scene.now, one, b"x", TOKEN));
    scene.settle();
    assert_eq!(recorded_end(&scene), Some(Moment::NEVER));
    // The session of the last process has nothing any more.
    scene.leases.close(scene.now, SESSION);
    scene.settle();
    assert!(scene.leases.verify(scene.now, b"x", TOKEN));
    assert!(scene.leases.release(scene.now, b"x", TOKEN));
    scene.settle();
    assert_eq!(recorded_end(&scene), None);
}

#[test]
fn a_broken_one_stays_broken_and_ends_in_time() {
    let mut scene = restored(true);
    let attached = scene.leases.attach(scene.now, SESSION, Opening::default());
    assert!(attached.is_ok());
    assert!(!scene.leases.reclaim(scene.now, SESSION, b"x", TOKEN));
    let other = scene.open();
    let wait = scene.wait(other);
    scene.pass(LEFT);
    assert!(scene.token_of(wait).is_some_and(|token| token > TOKEN), "{:?}", scene.outcomes);
}
