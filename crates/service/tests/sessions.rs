//! A client's session across the death of a node, message by message, over a socket.

use std::{path::Path, thread::JoinHandle, time::Duration};

use mutua_node::Config;
use mutua_service::{
    Options,
    client::connect,
    proto::{
        etcdserverpb::{
            LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
            lease_client::LeaseClient,
        },
        v1::{self, locks_client::LocksClient, reply::Answer, request::Ask},
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
    serve,
};
use tokio::{
    sync::{
        mpsc::{UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::timeout,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming, transport::Channel};

const LIMIT: Duration = Duration::from_secs(60);

/// A node in a directory that outlives it, on a thread of its own.
struct Server {
    endpoint: String,
    /// Dropped, it ends the node.
    lives: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    async fn start(directory: &Path) -> Self {
        let socket = directory.join("s");
        let node = Config::alone(directory.join("data"));
        let endpoint = format!("unix:{}", socket.display());
        let options = Options { node, socket, tcp: None, idle: None };
        let (lives, dead) = oneshot::channel();
        let thread = std::thread::spawn(|| run(options, dead));
        for _ in 0..1000 {
            if connect(&endpoint).await.is_ok() {
                return Self { endpoint, lives, thread };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server does not answer");
    }

    /// Ends it as a signal would that nobody can catch: nothing is tidied up.
    async fn dies(self) {
        drop(self.lives);
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await;
        ended.expect("it ended").expect("no panic");
    }

    async fn session(&self, hello: v1::Hello) -> (Session, v1::Welcome) {
        let channel = self.channel().await;
        let (asks, requests) = unbounded_channel();
        asks.send(v1::Request { ask: Some(Ask::Hello(hello)) }).expect("kept");
        let mut client = LocksClient::new(channel);
        let replies = client.attach(UnboundedReceiverStream::new(requests)).await;
        let mut session = Session { asks, replies: replies.expect("attached").into_inner() };
        let Answer::Welcome(welcome) = session.hears().await else { panic!("not welcome") };
        (session, welcome)
    }

    async fn channel(&self) -> Channel {
        connect(&self.endpoint).await.expect("connected")
    }

    async fn holds(&self, name: &str, fence: u64) -> bool {
        let mut client = LocksClient::new(self.channel().await);
        let request = v1::VerifyRequest { name: name.into(), fence };
        client.verify(request).await.expect("verified").into_inner().current
    }
}

/// Serves until the other end is dropped, and then lets go of everything at once.
fn run(options: Options, dead: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("made").block_on(async {
        tokio::select! {
            served = serve(options, std::future::pending()) => served.expect("it serves"),
            _ = dead => {}
        }
    });
}

struct Session {
    asks: UnboundedSender<v1::Request>,
    replies: Streaming<v1::Reply>,
}

impl Session {
    async fn hears(&mut self) -> Answer {
        let reply = timeout(LIMIT, self.replies.message()).await.expect("it answers");
        reply.expect("it can be read").expect("the stream is open").answer.expect("it says what")
    }

    async fn enters(&mut self, name: &str) -> u64 {
        let acquire = v1::Acquire { id: 1, name: name.into(), wait_ms: None, watch: false };
        self.asks.send(v1::Request { ask: Some(Ask::Acquire(acquire)) }).expect("sent");
        loop {
            if let Answer::Granted(granted) = self.hears().await {
                return granted.fence;
            }
        }
    }
}

fn hello(ttl_ms: u64, claims: &[(&str, u64)]) -> v1::Hello {
    let claim = |&(name, fence): &(&str, u64)| v1::Claim { name: name.into(), fence };
    let claims = claims.iter().map(claim).collect();
    v1::Hello { ttl_ms, guarded: true, claims, ..Default::default() }
}

/// A node that died while somebody was inside `x`, with this fence and a lease of so many
/// milliseconds, and its next life.
async fn after_a_death(directory: &Path, ttl_ms: u64) -> (Server, u64) {
    let server = Server::start(directory).await;
    let (mut session, _) = server.session(hello(ttl_ms, &[])).await;
    let fence = session.enters("x").await;
    server.dies().await;
    (Server::start(directory).await, fence)
}

#[tokio::test]
async fn who_was_inside_claims_it_again_and_others_get_in_later_with_a_greater_fence() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fence) = after_a_death(directory.path(), 5000).await;
    let (mut former, welcome) = server.session(hello(5000, &[("x", fence)])).await;
    assert!(welcome.quarantine_ms > 0 && welcome.refused.is_empty(), "{welcome:?}");
    assert!(server.holds("x", fence).await);
    former.asks.send(v1::Request { ask: Some(Ask::Goodbye(v1::Goodbye {})) }).expect("sent");
    while !matches!(former.hears().await, Answer::Farewell(_)) {}
    let (mut next, _) = server.session(hello(60_000, &[])).await;
    assert!(next.enters("x").await > fence);
}

#[tokio::test]
async fn a_claim_of_what_nobody_can_have_is_refused_and_spoils_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fence) = after_a_death(directory.path(), 1000).await;
    let long = "n".repeat(mutua_node::MAX_NAME + 1);
    let claims = [("a", 0), ("b", u64::MAX), ("c", i64::MAX as u64), (&*long, fence)];
    let (_, welcome) = server.session(hello(60_000, &claims)).await;
    assert_eq!(welcome.refused.len(), claims.len());
    let (mut next, _) = server.session(hello(60_000, &[])).await;
    let later = next.enters("b").await;
    assert!((fence..1 << 62).contains(&later), "{later}");
}

#[tokio::test]
async fn who_did_not_hear_that_its_claim_was_accepted_claims_it_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fence) = after_a_death(directory.path(), 30_000).await;
    let claims = [("x", fence)];
    let (mut one, first) = server.session(hello(30_000, &claims)).await;
    assert_eq!(first.refused, []);
    // It knows nothing of that session, and opens another.
    let (_two, second) = server.session(hello(30_000, &claims)).await;
    assert_eq!(second.refused, []);
    assert!(matches!(one.hears().await, Answer::Lost(lost) if lost.fence == fence));
    // The end of the first session frees nothing.
    one.asks.send(v1::Request { ask: Some(Ask::Goodbye(v1::Goodbye {})) }).expect("sent");
    while !matches!(one.hears().await, Answer::Farewell(_)) {}
    assert!(server.holds("x", fence).await);
    // Who comes back on its own session is still inside.
    let known = v1::Hello { session: second.session, ..hello(30_000, &claims) };
    let (_again, welcome) = server.session(known).await;
    assert_eq!((welcome.session, welcome.refused), (second.session, Vec::new()));
}

#[tokio::test]
async fn what_a_client_of_ours_is_inside_of_nobody_frees_by_calls_for_leases() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path()).await;
    let (mut session, welcome) = server.session(hello(60_000, &[])).await;
    let fence = session.enters("x").await;
    let id = welcome.session;

    let mut leases = LeaseClient::new(server.channel().await);
    let listed = leases.lease_leases(LeaseLeasesRequest {}).await.expect("listed").into_inner();
    assert_eq!(listed.leases, []);
    let request = LeaseTimeToLiveRequest { id, keys: true };
    let left = leases.lease_time_to_live(request).await.expect("answered").into_inner();
    assert_eq!((left.ttl, left.keys.len()), (-1, 0));
    let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
    let mut kept = leases.lease_keep_alive(requests).await.expect("answered").into_inner();
    assert_eq!(kept.message().await.expect("answered").expect("one").ttl, 0);
    let revoked = leases.lease_revoke(LeaseRevokeRequest { id }).await.expect_err("not a lease");
    assert_eq!(revoked.code(), Code::NotFound);

    let mut locks = LockClient::new(server.channel().await);
    let key = format!("x/{id:x}").into_bytes();
    locks.unlock(UnlockRequest { key }).await.expect("as etcd answers for what is not held");
    let request = LockRequest { name: b"y".to_vec(), lease: id };
    assert_eq!(locks.lock(request).await.expect_err("not a lease").code(), Code::NotFound);

    let mut own = LocksClient::new(server.channel().await);
    let request = v1::ReleaseRequest { name: b"x".to_vec(), fence };
    assert!(!own.release(request).await.expect("answered").into_inner().held);
    assert!(server.holds("x", fence).await);
}

#[tokio::test]
async fn a_lease_is_no_session_that_a_client_comes_back_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path()).await;
    let mut locks = LockClient::new(server.channel().await);
    let request = LockRequest { name: b"x".to_vec(), lease: 0 };
    let locked = locks.lock(request).await.expect("locked").into_inner();
    let fence = locked.header.expect("a header").revision.cast_unsigned();
    let key = String::from_utf8(locked.key).expect("text");
    let id = i64::from_str_radix(key.strip_prefix("x/").expect("a key"), 16).expect("a lease");
    let (_, welcome) = server.session(v1::Hello { session: id, ..hello(60_000, &[]) }).await;
    assert_ne!(welcome.session, id);
    let goodbye = v1::Hello { session: id, only_goodbye: true, ..Default::default() };
    let request = tokio_stream::once(v1::Request { ask: Some(Ask::Hello(goodbye)) });
    let mut own = LocksClient::new(server.channel().await);
    let mut replies = own.attach(request).await.expect("attached").into_inner();
    replies.message().await.expect("a last word");
    assert!(server.holds("x", fence).await);
}
