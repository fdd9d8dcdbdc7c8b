//! A client whose node is the test: what it is told, in whichever order, and what it says and does.

use std::{pin::Pin, time::Duration};

use tempfile::TempDir;
use tokio::{net::UnixListener, sync::mpsc, time::timeout};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{UnboundedReceiverStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use super::{
    super::{Connector, Event, Hold, Kind, Wish, connect, hold},
    Effect, Next, Session,
};
use crate::{
    Moment,
    proto::v1::{
        self,
        locks_server::{Locks, LocksServer},
        reply::Answer,
        request::Ask,
    },
};

/// Long enough for whatever must happen; a test that waits longer has failed.
const LIMIT: Duration = Duration::from_secs(60);
const FENCE: u64 = 7;

type Replies = mpsc::UnboundedSender<Result<v1::Reply, Status>>;

/// A stream that a client has opened, seen from the node.
struct Attached {
    asks: Streaming<v1::Request>,
    replies: Replies,
}

impl Attached {
    async fn hears(&mut self) -> Ask {
        let ask = timeout(LIMIT, self.asks.next()).await.expect("it asks");
        ask.expect("the stream is open").expect("it can be read").ask.expect("it says what")
    }

    /// The renewal that comes next.
    async fn hears_renewal(&mut self) -> u64 {
        loop {
            if let Ask::Renew(v1::Renew { number }) = self.hears().await {
                return number;
            }
        }
    }

    fn says(&self, answer: Answer) {
        self.replies.send(Ok(v1::Reply { answer: Some(answer) })).expect("it listens");
    }

    /// The stream is over; waits until the client has let go of it.
    async fn ends(self) {
        let Self { mut asks, replies } = self;
        drop(replies);
        while let Some(Ok(_)) = timeout(LIMIT, asks.next()).await.expect("it lets go") {}
    }

    fn welcomes(&self, good_for_ms: u64) {
        let welcome = v1::Welcome { session: 1, good_for_ms, ..Default::default() };
        self.says(Answer::Welcome(welcome));
    }

    fn grants(&self) {
        self.says(Answer::Granted(v1::Granted { id: 1, fence: FENCE, ..Default::default() }));
    }

    fn takes_away(&self) {
        let lost = v1::Lost { fence: FENCE, reason: "broken".to_owned(), ..Default::default() };
        self.says(Answer::Lost(lost));
    }
}

/// A node that does nothing by itself.
struct Puppet {
    attached: mpsc::UnboundedSender<Attached>,
}

#[tonic::async_trait]
impl Locks for Puppet {
    type AttachStream = UnboundedReceiverStream<Result<v1::Reply, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::Request>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (replies, stream) = mpsc::unbounded_channel();
        let _ = self.attached.send(Attached { asks: request.into_inner(), replies });
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }

    async fn acquire(
        &self,
        _: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    async fn release(
        &self,
        _: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    async fn verify(
        &self,
        _: Request<v1::VerifyRequest>,
    ) -> Result<Response<v1::VerifyResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    async fn list(
        &self,
        _: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn watch(
        &self,
        _: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    async fn r#break(
        &self,
        _: Request<v1::BreakRequest>,
    ) -> Result<Response<v1::BreakResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }

    async fn about(
        &self,
        _: Request<v1::AboutRequest>,
    ) -> Result<Response<v1::AboutResponse>, Status> {
        Err(Status::unimplemented("a puppet"))
    }
}

/// A client and the node that the test plays.
struct Stage {
    hold: Hold,
    streams: mpsc::UnboundedReceiver<Attached>,
    _place: TempDir,
}

impl Stage {
    /// A client that can connect so many times; after that nothing answers.
    fn new(connections: usize) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("s");
        let (attached, streams) = mpsc::unbounded_channel();
        let incoming = UnixListenerStream::new(UnixListener::bind(&socket).expect("bound"));
        let puppet = LocksServer::new(Puppet { attached });
        tokio::spawn(Server::builder().add_service(puppet).serve_with_incoming(incoming));
        let endpoint = format!("unix:{}", socket.display());
        let left = std::sync::atomic::AtomicUsize::new(connections);
        let connector: Connector = Box::new(move || {
            use std::sync::atomic::Ordering::Relaxed;
            let endpoint = endpoint.clone();
            let dead = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
            Box::pin(async move {
                if dead {
                    std::future::pending::<()>().await;
                }
                connect(&endpoint).await.map_err(|error| error.to_string())
            })
        });
        let wish = Wish {
            name: b"x".to_vec(),
            wait: None,
            ttl: Duration::from_secs(60),
            client: v1::Client::default(),
            guarded: true,
            place: None,
        };
        Self { hold: hold(connector, Kind::Mutua, wish), streams, _place: place }
    }

    /// The stream of a client that comes, says hello and asks to be let in.
    async fn asked(&mut self) -> Attached {
        let mut stream = self.attached().await;
        assert!(matches!(stream.hears().await, Ask::Hello(_)));
        assert!(matches!(stream.hears().await, Ask::Acquire(_)));
        stream
    }

    async fn attached(&mut self) -> Attached {
        timeout(LIMIT, self.streams.recv()).await.expect("it comes").expect("it is there")
    }

    /// The stream of a client that is inside.
    async fn inside(&mut self, good_for_ms: u64) -> Attached {
        let stream = self.asked().await;
        stream.welcomes(good_for_ms);
        stream.grants();
        self.learns(|event| matches!(event, Event::Granted { fence: FENCE, .. })).await;
        stream
    }

    /// What the user learns, until this.
    async fn learns(&mut self, last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        while !events.last().is_some_and(&last) {
            let event = timeout(LIMIT, self.hold.events.recv()).await;
            let told: Vec<_> = events.iter().collect();
            events.push(event.unwrap_or_else(|_| panic!("only {told:?}")).expect("more"));
        }
        events
    }

    async fn loses(&mut self) {
        let events = self.learns(|event| matches!(event, Event::Lost(_))).await;
        let good = events.iter().any(|event| matches!(event, Event::Granted { .. }));
        assert!(!good, "{events:?}");
    }

    /// Leaves. Nothing else may be said, and nobody asked anything.
    async fn leaves_without_a_word(mut self) {
        self.hold.leave();
        let events = self.learns(|event| matches!(event, Event::Left)).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(self.streams.try_recv().is_err(), "it has come again");
    }
}

#[tokio::test]
async fn who_has_lost_a_lock_does_not_stand_in_line_again_when_the_session_ends() {
    let mut stage = Stage::new(9);
    let stream = stage.inside(60_000).await;
    stream.takes_away();
    stage.loses().await;
    stream.says(Answer::Farewell(v1::Farewell {}));
    stream.ends().await;
    stage.leaves_without_a_word().await;
}

#[tokio::test]
async fn who_has_lost_a_lock_does_not_stand_in_line_again_when_the_connection_breaks() {
    let mut stage = Stage::new(9);
    let stream = stage.inside(60_000).await;
    stream.takes_away();
    stage.loses().await;
    stream.ends().await;
    stage.leaves_without_a_word().await;
}

#[tokio::test]
async fn who_has_lost_a_lock_and_leaves_says_goodbye() {
    let mut stage = Stage::new(9);
    let mut stream = stage.inside(60_000).await;
    stream.takes_away();
    stage.loses().await;
    stage.hold.leave();
    while !matches!(stream.hears().await, Ask::Goodbye(_)) {}
    stream.says(Answer::Farewell(v1::Farewell {}));
    stage.learns(|event| matches!(event, Event::Left)).await;
}

#[tokio::test]
async fn a_claim_that_is_not_accepted_is_a_loss_and_the_lock_no_longer_good() {
    let mut stage = Stage::new(9);
    stage.inside(60_000).await.ends().await;
    let mut next = stage.attached().await;
    let Ask::Hello(hello) = next.hears().await else { panic!("a hello comes first") };
    assert_eq!(hello.claims, [v1::Claim { name: b"x".to_vec(), fence: FENCE }]);
    let refused = v1::Welcome { session: 2, good_for_ms: 60_000, ..Default::default() };
    next.says(Answer::Welcome(v1::Welcome { refused: hello.claims, ..refused }));
    let events = stage.learns(|event| matches!(event, Event::Lost(_))).await;
    let good = events.iter().any(|event| matches!(event, Event::GoodUntil(_)));
    assert!(!good, "{events:?}");
    next.ends().await;
    stage.leaves_without_a_word().await;
}

#[tokio::test]
async fn a_lease_runs_out_though_connecting_again_takes_for_ever() {
    let mut stage = Stage::new(1);
    stage.inside(5_000).await.ends().await;
    stage.loses().await;
    stage.leaves_without_a_word().await;
}

#[tokio::test]
async fn who_only_waited_stands_in_line_again_when_the_session_ends() {
    let mut stage = Stage::new(9);
    let stream = stage.asked().await;
    stream.welcomes(60_000);
    stream.says(Answer::Farewell(v1::Farewell {}));
    stream.ends().await;
    stage.inside(60_000).await;
}

#[tokio::test]
async fn the_sooner_of_two_deadlines_is_obeyed_if_it_was_said_later() {
    let mut stage = Stage::new(9);
    let mut stream = stage.inside(6_000).await;
    let number = stream.hears_renewal().await;
    stream.says(Answer::Renewed(v1::Renewed { number, good_for_ms: 60_000 }));
    let far = stage.learns(|event| matches!(event, Event::GoodUntil(_))).await;
    let number = stream.hears_renewal().await;
    stream.says(Answer::Renewed(v1::Renewed { number, good_for_ms: 20_000 }));
    let near = stage.learns(|event| matches!(event, Event::GoodUntil(_))).await;
    let (Some(Event::GoodUntil(far)), Some(Event::GoodUntil(near))) = (far.last(), near.last())
    else {
        panic!("{far:?} {near:?}");
    };
    assert!(near < far, "{near:?} {far:?}");
}

#[tokio::test]
async fn a_grant_that_came_late_is_told_when_the_lease_is_known_to_be_good() {
    let mut stage = Stage::new(9);
    let mut stream = stage.asked().await;
    stream.welcomes(1_000);
    // Two renewals have been sent and not answered: more than half of the lease is over.
    stream.hears_renewal().await;
    stream.hears_renewal().await;
    stream.grants();
    let number = stream.hears_renewal().await;
    // It asked twice, and the other wait is over with this grant.
    let reason = v1::Reason::Busy.into();
    stream.says(Answer::Refused(v1::Refused { id: 1, reason, ..Default::default() }));
    stream.says(Answer::Renewed(v1::Renewed { number, good_for_ms: 60_000 }));
    let events = stage.learns(|event| matches!(event, Event::Granted { .. })).await;
    let refused = events.iter().any(|event| matches!(event, Event::Refused(_)));
    assert!(!refused, "{events:?}");
}

/// A session that is inside until `good_until`, and what it has said so far is done.
fn inside(now: Moment) -> (Session, Moment) {
    let wish = Wish {
        name: b"x".to_vec(),
        wait: None,
        ttl: Duration::from_secs(10),
        client: v1::Client::default(),
        guarded: true,
        place: None,
    };
    let mut session = Session::new(now, wish);
    session.attached(now);
    let welcome = v1::Welcome { session: 1, good_for_ms: 10_000, ..Default::default() };
    session.heard(now, Answer::Welcome(welcome));
    let granted = v1::Granted { id: 1, fence: FENCE, ..Default::default() };
    session.heard(now, Answer::Granted(granted));
    session.take_effects();
    (session, now.after(Duration::from_secs(10)))
}

fn tells(session: &mut Session) -> Vec<Event> {
    let told = |effect| if let Effect::Tell(event) = effect { Some(event) } else { None };
    session.take_effects().into_iter().filter_map(told).collect()
}

#[test]
fn no_answer_makes_a_lease_good_again_that_has_run_out() {
    let (mut session, good_until) = inside(Moment::from_nanos(1));
    // It was asked for in time, and is read too late.
    session.tick(good_until.before(Duration::from_secs(1)));
    session.take_effects();
    session.heard(good_until, Answer::Renewed(v1::Renewed { number: 1, good_for_ms: 10_000 }));
    let told = tells(&mut session);
    assert!(matches!(told[..], [Event::Lost(_)]), "{told:?}");
}

#[test]
fn a_grant_that_comes_twice_is_none_to_who_has_lost_it() {
    let (mut session, good_until) = inside(Moment::from_nanos(1));
    let lost = v1::Lost { fence: FENCE, ..Default::default() };
    let before = good_until.before(Duration::from_secs(9));
    session.heard(before, Answer::Lost(lost));
    session.take_effects();
    let granted = v1::Granted { id: 1, fence: FENCE, ..Default::default() };
    session.heard(before, Answer::Granted(granted));
    session.heard(before, Answer::Renewed(v1::Renewed { number: 1, good_for_ms: 10_000 }));
    let told = tells(&mut session);
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_lease_that_has_run_out_is_not_claimed() {
    let (mut session, good_until) = inside(Moment::from_nanos(1));
    let before = good_until.before(Duration::from_secs(1));
    assert_eq!(session.broken(before, "it broke".to_owned()), Next::Again);
    assert_eq!(session.attached(good_until), Some(Next::WaitToLeave));
    let told = tells(&mut session);
    assert!(matches!(told[..], [Event::Lost(_)]), "{told:?}");
}
