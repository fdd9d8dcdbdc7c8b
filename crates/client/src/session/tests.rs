//! A client whose node is the test: replies in any order, and the client's requests and events.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

use super::{
    super::{Connector, Event, Hold, HoldRequest, Kind, connect, hold},
    Effect, Next, Session,
};
use crate::{
    Moment,
    proto::v1::{self, session_reply::Reply, session_request::Request},
    testing::{Attached, serve},
};

/// Longer than every step takes; a test that waits longer has failed.
const LIMIT: Duration = Duration::from_secs(60);
const FENCING_TOKEN: u64 = 7;

/// A client's stream, seen from the node.
struct Stream(Attached);

impl Stream {
    async fn receive(&mut self) -> Request {
        timeout(LIMIT, self.0.receive()).await.expect("in time").expect("a request")
    }

    /// The number of the next renewal.
    async fn receive_renewal(&mut self) -> u64 {
        loop {
            if let Request::Renew(v1::Renew { number }) = self.receive().await {
                return number;
            }
        }
    }

    fn send(&self, reply: Reply) {
        self.0.send(reply);
    }

    /// Ends the stream, and waits until the client has closed its side.
    async fn end(self) {
        timeout(LIMIT, self.0.end()).await.expect("in time");
    }

    fn open(&self, ttl_ms: u64) {
        self.send(Reply::Opened(v1::Opened { session: 1, ttl_ms, ..Default::default() }));
    }

    fn grant(&self) {
        self.send(granted());
    }

    fn revoke(&self) {
        let reason = "broken".to_owned();
        let lost = v1::Lost { fencing_token: FENCING_TOKEN, reason, ..Default::default() };
        self.send(Reply::Lost(lost));
    }

    fn close(&self) {
        self.send(Reply::Closed(v1::Closed {}));
    }
}

fn granted() -> Reply {
    let fencing_token = FENCING_TOKEN;
    Reply::Granted(v1::Granted { id: 1, fencing_token, ..Default::default() })
}

fn renewed(number: u64, ttl_ms: u64) -> Reply {
    Reply::Renewed(v1::Renewed { number, ttl_ms })
}

fn request(ttl: Duration) -> HoldRequest {
    HoldRequest {
        name: b"x".to_vec(),
        wait: None,
        value: None,
        ttl,
        client: v1::Client::default(),
        supervised: true,
        socket: None,
    }
}

/// A client, and the node that the test plays.
struct Scene {
    hold: Hold,
    streams: mpsc::UnboundedReceiver<Attached>,
    _directory: TempDir,
}

impl Scene {
    /// A client that can connect this many times; later connections stay pending.
    fn new(connections: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("s");
        let streams = serve(&socket, "").expect("bound");
        let endpoint = format!("unix:{}", socket.display());
        let left = AtomicUsize::new(connections);
        let connector: Connector = Box::new(move || {
            let endpoint = endpoint.clone();
            let next = |left: usize| left.checked_sub(1);
            let none = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_err();
            Box::pin(async move {
                if none {
                    std::future::pending::<()>().await;
                }
                connect(&endpoint).await
            })
        });
        let request = request(Duration::from_secs(60));
        Self { hold: hold(connector, Kind::Mutua, request), streams, _directory: directory }
    }

    async fn attached(&mut self) -> Stream {
        Stream(timeout(LIMIT, self.streams.recv()).await.expect("in time").expect("a stream"))
    }

    /// The stream of a client that has opened a session and requested the lock.
    async fn requested(&mut self) -> Stream {
        let mut stream = self.attached().await;
        assert!(matches!(stream.receive().await, Request::Open(_)));
        assert!(matches!(stream.receive().await, Request::Acquire(_)));
        stream
    }

    /// The stream of a client that holds the lock.
    async fn held(&mut self, ttl_ms: u64) -> Stream {
        let stream = self.requested().await;
        stream.open(ttl_ms);
        stream.grant();
        let token = |event: &Event| match event {
            Event::Granted { fencing_token, .. } => *fencing_token == FENCING_TOKEN,
            _ => false,
        };
        self.events_until(token).await;
        stream
    }

    /// The events up to and with this one.
    async fn events_until(&mut self, last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        while !events.last().is_some_and(&last) {
            let event = timeout(LIMIT, self.hold.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("only {events:?}"));
            events.push(event.expect("more"));
        }
        events
    }

    async fn loses(&mut self) {
        let events = self.events_until(|event| matches!(event, Event::Lost(_))).await;
        let granted = events.iter().any(|event| matches!(event, Event::Granted { .. }));
        assert!(!granted, "{events:?}");
    }

    /// Releases. There is no other event, and no other connection.
    async fn releases_without_a_connection(mut self) {
        self.hold.release();
        let events = self.events_until(|event| matches!(event, Event::Released)).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(self.streams.try_recv().is_err(), "it has connected again");
    }
}

#[tokio::test]
async fn a_lost_lock_is_not_requested_again_when_the_session_ends() {
    let mut scene = Scene::new(9);
    let stream = scene.held(60_000).await;
    stream.revoke();
    scene.loses().await;
    stream.close();
    stream.end().await;
    scene.releases_without_a_connection().await;
}

#[tokio::test]
async fn a_lost_lock_is_not_requested_again_when_the_connection_breaks() {
    let mut scene = Scene::new(9);
    let stream = scene.held(60_000).await;
    stream.revoke();
    scene.loses().await;
    stream.end().await;
    scene.releases_without_a_connection().await;
}

#[tokio::test]
async fn a_release_after_a_loss_closes_the_session() {
    let mut scene = Scene::new(9);
    let mut stream = scene.held(60_000).await;
    stream.revoke();
    scene.loses().await;
    scene.hold.release();
    while !matches!(stream.receive().await, Request::Close(_)) {}
    stream.close();
    scene.events_until(|event| matches!(event, Event::Released)).await;
}

#[tokio::test]
async fn a_refused_reclaim_is_a_loss_and_extends_no_lease() {
    let mut scene = Scene::new(9);
    scene.held(60_000).await.end().await;
    let mut next = scene.attached().await;
    let Request::Open(open) = next.receive().await else { panic!("the first request opens") };
    let reclaim =
        v1::Reclaim { name: b"x".to_vec(), fencing_token: FENCING_TOKEN, promised: false };
    assert_eq!(open.reclaims, [reclaim]);
    let opened = v1::Opened { session: 2, ttl_ms: 60_000, ..Default::default() };
    next.send(Reply::Opened(v1::Opened { refused: open.reclaims, ..opened }));
    let events = scene.events_until(|event| matches!(event, Event::Lost(_))).await;
    let extended = events.iter().any(|event| matches!(event, Event::ValidUntil(_)));
    assert!(!extended, "{events:?}");
    next.end().await;
    scene.releases_without_a_connection().await;
}

#[tokio::test]
async fn a_lease_expires_while_a_reconnection_is_pending() {
    let mut scene = Scene::new(1);
    scene.held(5_000).await.end().await;
    scene.loses().await;
    scene.releases_without_a_connection().await;
}

#[tokio::test]
async fn a_waiter_requests_the_lock_again_when_the_session_ends() {
    let mut scene = Scene::new(9);
    let stream = scene.requested().await;
    stream.open(60_000);
    stream.close();
    stream.end().await;
    scene.held(60_000).await;
}

#[tokio::test]
async fn a_later_reply_with_a_shorter_lease_counts() {
    let mut scene = Scene::new(9);
    let mut stream = scene.held(6_000).await;
    let number = stream.receive_renewal().await;
    stream.send(renewed(number, 60_000));
    let far = scene.events_until(|event| matches!(event, Event::ValidUntil(_))).await;
    let number = stream.receive_renewal().await;
    stream.send(renewed(number, 20_000));
    let near = scene.events_until(|event| matches!(event, Event::ValidUntil(_))).await;
    let (Some(Event::ValidUntil(far)), Some(Event::ValidUntil(near))) = (far.last(), near.last())
    else {
        panic!("{far:?} {near:?}");
    };
    assert!(near < far, "{near:?} {far:?}");
}

#[tokio::test]
async fn a_late_grant_is_reported_once_its_lease_is_known_to_last() {
    let mut scene = Scene::new(9);
    let mut stream = scene.requested().await;
    stream.open(1_000);
    // Two renewals have no reply yet: more than half of the lease is over.
    stream.receive_renewal().await;
    stream.receive_renewal().await;
    stream.grant();
    let number = stream.receive_renewal().await;
    // The request was sent twice, and the second one ends with this grant.
    let reason = v1::Reason::Busy.into();
    stream.send(Reply::Refused(v1::Refused { id: 1, reason, ..Default::default() }));
    stream.send(renewed(number, 60_000));
    let events = scene.events_until(|event| matches!(event, Event::Granted { .. })).await;
    let refused = events.iter().any(|event| matches!(event, Event::Refused(_)));
    assert!(!refused, "{events:?}");
}

/// A session that holds the lock, and the moment at which its lease expires.
fn held(now: Moment) -> (Session, Moment) {
    let ttl = Duration::from_secs(10);
    let mut session = Session::new(now, request(ttl));
    session.attached(now);
    let opened = v1::Opened { session: 1, ttl_ms: 10_000, ..Default::default() };
    session.received(now, Reply::Opened(opened));
    session.received(now, granted());
    session.take_effects();
    (session, now.after(ttl))
}

fn events(session: &mut Session) -> Vec<Event> {
    let event = |effect| if let Effect::Report(event) = effect { Some(event) } else { None };
    session.take_effects().into_iter().filter_map(event).collect()
}

#[test]
fn no_reply_makes_an_expired_lease_valid_again() {
    let (mut session, valid_until) = held(Moment::from_nanos(1));
    // The renewal is sent in time, and its reply arrives too late.
    session.tick(valid_until.before(Duration::from_secs(1)));
    session.take_effects();
    session.received(valid_until, renewed(1, 10_000));
    let events = events(&mut session);
    assert!(matches!(events[..], [Event::Lost(_)]), "{events:?}");
}

#[test]
fn a_duplicate_of_a_lost_grant_is_ignored() {
    let (mut session, valid_until) = held(Moment::from_nanos(1));
    let lost = v1::Lost { fencing_token: FENCING_TOKEN, ..Default::default() };
    let before = valid_until.before(Duration::from_secs(9));
    session.received(before, Reply::Lost(lost));
    session.take_effects();
    session.received(before, granted());
    session.received(before, renewed(1, 10_000));
    let events = events(&mut session);
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn an_expired_lease_is_not_reclaimed() {
    let (mut session, valid_until) = held(Moment::from_nanos(1));
    let before = valid_until.before(Duration::from_secs(1));
    assert_eq!(session.broken(before, "closed".to_owned()), Next::Reconnect);
    assert_eq!(session.attached(valid_until), Some(Next::WaitForRelease));
    let events = events(&mut session);
    assert!(matches!(events[..], [Event::Lost(_)]), "{events:?}");
}

#[test]
fn a_release_without_a_reply_is_sent_to_the_next_node() {
    let (mut session, valid_until) = held(Moment::from_nanos(1));
    let at = valid_until.before(Duration::from_secs(5));
    assert_eq!(session.release(at), None);
    assert_eq!(session.broken(at, "reset".to_owned()), Next::Reconnect);
    session.take_effects();
    assert_eq!(session.attached(at), None);
    let sent: Vec<_> = session.take_effects().into_iter().collect();
    let [Effect::Send(Request::Open(open)), Effect::Send(Request::Close(_))] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(open.reclaims.len(), 1, "the next node serves the hold, and releases it");
    session.received(at, Reply::Closed(v1::Closed {}));
    assert!(matches!(events(&mut session)[..], [Event::Released]));
}

#[test]
fn a_release_that_no_node_confirms_ends_with_the_lease_and_is_not_reported_as_done() {
    let (mut session, valid_until) = held(Moment::from_nanos(1));
    let at = valid_until.before(Duration::from_secs(1));
    session.release(at);
    assert_eq!(session.broken(at, "reset".to_owned()), Next::Reconnect);
    assert_eq!(session.wake_at(), valid_until);
    assert_eq!(session.tick(valid_until), Some(Next::Done));
    assert!(matches!(events(&mut session)[..], [Event::Unreachable(_)]));
}

/// A waiter whose node answers for so long that it cannot serve the session; the events.
fn unserved(wait: Option<Duration>, seconds: u64) -> (Next, Vec<Event>) {
    let mut now = Moment::from_nanos(1);
    let ttl = Duration::from_secs(10);
    let mut session = Session::new(now, HoldRequest { wait, ..request(ttl) });
    session.attached(now);
    let opened = v1::Opened { session: 1, ttl_ms: 10_000, ..Default::default() };
    session.received(now, Reply::Opened(opened));
    session.take_effects();
    let failed = || v1::Failed { code: 14, text: "cut off".to_owned() };
    let mut next = session.received(now, Reply::Failed(failed())).expect("the stream ends");
    for _ in 0..seconds {
        now = now.after(Duration::from_secs(1));
        if next == Next::Reconnect {
            session.attached(now);
            next = session.received(now, Reply::Failed(failed())).expect("the stream ends");
        }
    }
    (next, events(&mut session))
}

#[test]
fn a_waiter_goes_on_while_a_member_answers_and_notes_why_it_waits() {
    let (next, events) = unserved(None, 60);
    assert_eq!(next, Next::Reconnect);
    assert!(matches!(&events[..], [Event::Note(why)] if why.contains("cut off")), "{events:?}");
}

#[test]
fn a_waiter_that_no_member_serves_waits_no_longer_than_it_may() {
    let (next, events) = unserved(Some(Duration::from_secs(5)), 5);
    assert_eq!(next, Next::Done);
    let last = events.last();
    assert!(matches!(last, Some(Event::Unreachable(why)) if why == "cut off"), "{events:?}");
    assert_eq!(unserved(Some(Duration::from_secs(5)), 4).0, Next::Reconnect);
}
