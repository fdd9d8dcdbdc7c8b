//! Sessions with many locks, event by event.

use std::time::Duration;

use super::{Effect, Name, Next, Settings, State, Wait};
use crate::{
    AcquireError, Moment,
    proto::v1::{self, session_reply::Reply, session_request::Request},
};

const TTL: Duration = Duration::from_secs(9);

/// A session with its clock. The test is its node and its callers.
struct Test {
    state: State,
    now: Moment,
}

/// What a request sends, in short.
fn short(request: Request) -> String {
    let text = |name: Vec<u8>| String::from_utf8(name).expect("text");
    match request {
        Request::Open(open) => {
            let held = open.reclaims.into_iter().map(|one| text(one.name));
            format!("open {} {:?}", open.session, held.collect::<Vec<_>>())
        }
        Request::Acquire(v1::Acquire { id, name, wait_ms, .. }) => {
            format!("acquire {id} {} {wait_ms:?}", text(name))
        }
        Request::Cancel(cancel) => format!("cancel {}", cancel.id),
        Request::Release(v1::Release { name, fencing_token, quiet }) => {
            format!("release {} {fencing_token}{}", text(name), if quiet { "" } else { " reply" })
        }
        Request::Renew(renew) => format!("renew {}", renew.number),
        Request::Close(_) => "close".to_owned(),
        Request::Proclaim(v1::Proclaim { id, name, fencing_token, value }) => {
            format!("proclaim {id} {} {fencing_token} {}", text(name), text(value))
        }
    }
}

impl Test {
    fn new() -> Self {
        let client = v1::Client::default();
        let patience = Duration::from_secs(20);
        let settings = Settings { ttl: TTL, client, patience, cluster: None, promises: true };
        let now = Moment::ZERO.after(Duration::from_secs(100));
        Self { state: State::new(now, settings, Vec::new()), now }
    }

    /// A session that node 7 has opened.
    fn open() -> Self {
        let mut test = Self::new();
        test.attach("open 0 []");
        test
    }

    fn attach(&mut self, expected: &str) {
        self.state.attached(self.now);
        assert_eq!(self.effects().first().map(String::as_str), Some(expected));
        self.reply(Reply::Opened(v1::Opened { session: 7, ttl_ms: 9000, ..Default::default() }));
    }

    fn acquire(&mut self, name: &str, wait: Wait) -> u64 {
        self.state.acquire(self.now, &Name::from(name.as_bytes()), wait, None)
    }

    fn reply(&mut self, reply: Reply) -> Option<Next> {
        self.state.received(self.now, reply)
    }

    fn grant(&mut self, id: u64, name: &str, fencing_token: u64) {
        let name = name.into();
        self.reply(Reply::Granted(v1::Granted { id, name, fencing_token, ..Default::default() }));
    }

    fn hold(&mut self, name: &str, fencing_token: u64) -> u64 {
        let id = self.acquire(name, Wait::Forever);
        self.grant(id, name, fencing_token);
        let last = self.effects().pop();
        assert_eq!(last, Some(format!("{id} granted {fencing_token}")));
        id
    }

    fn release(&mut self, id: u64) {
        self.state.release(self.now, id, false);
    }

    fn sleep(&mut self, time: Duration) -> Option<Next> {
        self.now = self.now.after(time);
        self.state.tick(self.now)
    }

    fn effects(&mut self) -> Vec<String> {
        let show = |effect| match effect {
            Effect::Send(request) => short(request),
            Effect::Granted { id, fencing_token, .. } => format!("{id} granted {fencing_token}"),
            Effect::Prolonged { id, until } => {
                format!("{id} prolonged by {:?}", until.since(self.now))
            }
            Effect::Failed { id, error } => format!("{id} failed: {error}"),
            Effect::Lost { id, why } => format!("{id} lost: {why}"),
            Effect::Released { id, held } => format!("{id} released {held}"),
            Effect::Proclaimed { id, held } => format!("{id} proclaimed {held}"),
        };
        std::mem::take(self.state.effects()).into_iter().map(show).collect()
    }
}

#[test]
fn requests_for_one_name_are_at_the_node_one_after_the_other() {
    let mut test = Test::open();
    let first = test.hold("x", 10);
    let (second, third) = (test.acquire("x", Wait::Forever), test.acquire("x", Wait::Forever));
    let tried = test.acquire("x", Wait::Try);
    let busy = AcquireError::Busy { holder: None };
    assert_eq!(test.effects(), [format!("{tried} failed: {busy}")]);
    test.release(first);
    assert_eq!(test.effects(), ["release x 10".to_owned(), format!("acquire {second} x None")]);
    test.grant(second, "x", 11);
    test.state.abandon(test.now, third);
    test.release(second);
    assert_eq!(test.effects(), [format!("{second} granted 11"), "release x 11".to_owned()]);
}

#[test]
fn a_release_that_may_be_lost_is_sent_again_on_the_next_stream() {
    let mut test = Test::open();
    let (x, y) = (test.hold("x", 10), test.hold("y", 11));
    test.release(x);
    test.sleep(TTL / 3);
    test.release(y);
    assert_eq!(test.effects(), ["release x 10", "renew 1", "release y 11"]);
    test.reply(Reply::Renewed(v1::Renewed { number: 1, ttl_ms: 9000 }));
    assert_eq!(test.state.broken(test.now, "reset"), Next::Reconnect);
    test.state.attached(test.now);
    // The next node must serve the hold of y to release it. x was before the renewal.
    assert_eq!(test.effects(), ["open 7 [\"y\"]", "release y 11"]);
}

#[test]
fn a_grant_that_crosses_its_cancellation_is_released() {
    let mut test = Test::open();
    let id = test.acquire("x", Wait::Forever);
    let next = test.acquire("x", Wait::Forever);
    test.state.abandon(test.now, id);
    assert_eq!(test.effects(), [format!("acquire {id} x None"), format!("cancel {id}")]);
    test.grant(id, "x", 10);
    assert_eq!(test.effects(), ["release x 10".to_owned(), format!("acquire {next} x None")]);
    test.grant(id, "x", 10);
    assert_eq!(test.effects(), [""; 0], "the same grant again");
    test.grant(99, "z", 12);
    assert_eq!(test.effects(), ["release z 12"], "a grant without a caller");
}

#[test]
fn a_request_cancelled_without_a_connection_is_not_left_granted() {
    let mut test = Test::open();
    let id = test.acquire("x", Wait::Forever);
    let kept = test.hold("y", 11);
    test.effects();
    test.state.broken(test.now, "reset");
    test.state.abandon(test.now, id);
    test.state.attached(test.now);
    assert_eq!(test.effects(), ["open 7 [\"y\"]".to_owned(), format!("acquire {id} x Some(0)")]);
    test.grant(id, "x", 10);
    assert_eq!(test.effects(), ["release x 10"]);
    test.release(kept);
}

#[test]
fn a_lease_that_is_not_renewed_is_lost_before_it_expires() {
    let mut test = Test::open();
    let id = test.hold("x", 10);
    assert!(test.state.holds());
    test.sleep(TTL * 9 / 10);
    assert_eq!(test.effects()[0], format!("{id} lost: the lease was not renewed in time"));
    assert!(!test.state.holds());
    // Its guard exists: the caller may still be at work.
    test.reply(Reply::Renewed(v1::Renewed { number: 1, ttl_ms: 9000 }));
    assert_eq!(test.effects(), [""; 0]);
    test.release(id);
    assert_eq!(test.effects(), ["release x 10"]);
}

#[test]
fn held_locks_are_reclaimed_and_a_refused_one_is_lost() {
    let mut test = Test::open();
    let (x, _y) = (test.hold("x", 10), test.hold("y", 11));
    let waits = test.acquire("z", Wait::Forever);
    test.effects();
    assert_eq!(test.state.broken(test.now, "reset"), Next::Reconnect);
    test.now = test.now.after(TTL / 4);
    test.state.attached(test.now);
    let sent = test.effects();
    assert_eq!(sent, ["open 7 [\"x\", \"y\"]".to_owned(), format!("acquire {waits} z None")]);
    let refused = vec![v1::Reclaim { name: b"x".to_vec(), fencing_token: 10, promised: false }];
    let opened = v1::Opened { session: 8, ttl_ms: 9000, refused, ..Default::default() };
    test.reply(Reply::Opened(opened));
    assert_eq!(test.effects(), [format!("{x} lost: {}", super::replies::REFUSED)]);
    assert!(test.state.holds(), "y is held");
}

#[test]
fn waiters_give_up_when_no_node_can_be_reached_for_long() {
    let mut test = Test::open();
    let first = test.acquire("x", Wait::Forever);
    let second = test.acquire("x", Wait::Forever);
    test.effects();
    assert_eq!(test.state.broken(test.now, "reset"), Next::Reconnect);
    test.now = test.now.after(Duration::from_secs(19));
    assert_eq!(test.state.broken(test.now, "refused"), Next::Reconnect);
    assert_eq!(test.effects(), [""; 0]);
    test.now = test.now.after(Duration::from_secs(1));
    assert_eq!(test.state.broken(test.now, "refused"), Next::Reconnect);
    let why = "failed: no node can be reached: refused";
    assert_eq!(test.effects(), [format!("{second} {why}"), format!("{first} {why}")]);
}

#[test]
fn a_wait_ends_at_its_limit_whether_the_node_replies_or_not() {
    let mut test = Test::open();
    let limit = Wait::For(Duration::from_secs(1));
    let (held, waits) = (test.hold("x", 10), test.acquire("x", limit));
    let sent = test.acquire("y", limit);
    assert_eq!(test.effects(), [format!("acquire {sent} y Some(1000)")]);
    test.sleep(Duration::from_secs(1));
    let late = AcquireError::TimedOut { holder: None };
    assert_eq!(test.effects(), [format!("{waits} failed: {late}")]);
    test.sleep(Duration::from_millis(250));
    assert_eq!(test.effects(), [format!("{sent} failed: {late}"), format!("cancel {sent}")]);
    test.release(held);
}

#[test]
fn a_grant_is_reported_only_with_a_lease_that_lasts() {
    let mut test = Test::open();
    let id = test.acquire("x", Wait::Forever);
    test.effects();
    // The client was stopped, and reads the grant late.
    test.now = test.now.after(TTL * 3 / 4);
    test.grant(id, "x", 10);
    assert_eq!(test.effects(), ["renew 1"]);
    test.reply(Reply::Renewed(v1::Renewed { number: 1, ttl_ms: 9000 }));
    assert_eq!(test.effects(), [format!("{id} granted 10")]);
}

#[test]
fn a_confirmed_release_reports_whether_the_lock_was_held() {
    let mut test = Test::open();
    let id = test.hold("x", 10);
    test.state.release(test.now, id, true);
    assert_eq!(test.effects(), ["release x 10 reply"]);
    let name = b"x".to_vec();
    test.reply(Reply::Released(v1::Released { name, fencing_token: 10, held: true }));
    assert_eq!(test.effects(), [format!("{id} released true")]);
    assert!(!test.state.is_busy());
}

/// A leader of `x` with fencing token 10.
fn leader(test: &mut Test) -> u64 {
    let value = Some(b"a".to_vec());
    let id = test.state.acquire(test.now, &Name::from(&b"x"[..]), Wait::Forever, value);
    test.grant(id, "x", 10);
    test.effects();
    id
}

#[test]
fn a_proclamation_is_sent_until_a_node_confirms_it() {
    let mut test = Test::open();
    let id = leader(&mut test);
    let (first, second) =
        (test.state.proclaim(id, b"b".to_vec()), test.state.proclaim(id, b"c".to_vec()));
    let sent = [format!("proclaim {first} x 10 b"), format!("proclaim {second} x 10 c")];
    assert_eq!(test.effects(), sent);
    // The node is lost with both.
    test.state.broken(test.now, "reset");
    test.state.attached(test.now);
    let again = ["open 7 [\"x\"]".to_owned(), format!("proclaim {second} x 10 c")];
    assert_eq!(test.effects(), again);
    test.reply(Reply::Proclaimed(v1::Proclaimed { id: second, held: true }));
    let done = [format!("{first} proclaimed true"), format!("{second} proclaimed true")];
    assert_eq!(test.effects(), done);
    // The value goes to every later node, which need not reply.
    test.state.broken(test.now, "reset");
    test.state.attached(test.now);
    assert_eq!(test.effects(), ["open 7 [\"x\"]", "proclaim 0 x 10 c"]);
}

#[test]
fn a_proclamation_fails_with_its_leadership() {
    let mut test = Test::open();
    let id = leader(&mut test);
    let first = test.state.proclaim(id, b"b".to_vec());
    test.effects();
    let reason = "broken".to_owned();
    test.reply(Reply::Lost(v1::Lost { name: b"x".to_vec(), fencing_token: 10, reason }));
    let lost = [format!("{id} lost: broken"), format!("{first} proclaimed false")];
    assert_eq!(test.effects(), lost);
    let second = test.state.proclaim(id, b"c".to_vec());
    assert_eq!(test.effects(), [format!("{second} proclaimed false")]);
}

mod promises;
