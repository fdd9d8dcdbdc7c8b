//! A client's session across a crash of the node, message by message, over a socket.

use std::{net::SocketAddr, path::Path, thread::JoinHandle, time::Duration};

use mutua_client::{
    connect,
    proto::{
        etcdserverpb::{
            LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
            lease_client::LeaseClient,
        },
        v1::{
            self, control_client::ControlClient, locks_client::LocksClient, session_reply::Reply,
            session_request::Request,
        },
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};
use mutua_node::Config;
use mutua_server::{Options, serve};
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
    /// Ends the node when it is dropped.
    running: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    async fn start(directory: &Path) -> Self {
        Self::start_on(directory, None).await
    }

    async fn start_on(directory: &Path, tcp: Option<SocketAddr>) -> Self {
        let socket = directory.join("s");
        let node = Config::alone(directory.join("data"));
        let endpoint = format!("unix:{}", socket.display());
        let options = Options { node, socket, tcp, idle: None };
        let (running, ended) = oneshot::channel();
        let thread = std::thread::spawn(|| run(options, ended));
        for _ in 0..1000 {
            if connect(&endpoint).await.is_ok() {
                return Self { endpoint, running, thread };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server does not answer");
    }

    /// Ends the node as SIGKILL does: it cleans nothing up.
    async fn crash(self) {
        drop(self.running);
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await;
        ended.expect("it ended").expect("no panic");
    }

    async fn session(&self, open: v1::Open) -> (Session, v1::Opened) {
        let channel = self.channel().await;
        let (sender, requests) = unbounded_channel();
        sender.send(v1::SessionRequest { request: Some(Request::Open(open)) }).expect("kept");
        let mut client = LocksClient::new(channel);
        let replies = client.attach(UnboundedReceiverStream::new(requests)).await;
        let mut session =
            Session { requests: sender, replies: replies.expect("attached").into_inner() };
        let Reply::Opened(opened) = session.receive().await else { panic!("not opened") };
        (session, opened)
    }

    async fn channel(&self) -> Channel {
        connect(&self.endpoint).await.expect("connected")
    }

    async fn holds(&self, name: &str, fencing_token: u64) -> bool {
        let mut client = LocksClient::new(self.channel().await);
        let request = v1::VerifyRequest { name: name.into(), fencing_token };
        client.verify(request).await.expect("verified").into_inner().current
    }
}

/// Serves until the sender is dropped, and then drops everything at once.
fn run(options: Options, ended: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("made").block_on(async {
        tokio::select! {
            served = serve(options, std::future::pending()) => served.expect("it serves"),
            _ = ended => {}
        }
    });
}

struct Session {
    requests: UnboundedSender<v1::SessionRequest>,
    replies: Streaming<v1::SessionReply>,
}

impl Session {
    async fn receive(&mut self) -> Reply {
        let reply = timeout(LIMIT, self.replies.message()).await.expect("it answers");
        reply.expect("it can be read").expect("the stream is open").reply.expect("a reply")
    }

    async fn acquire(&mut self, name: &str) -> u64 {
        let acquire = v1::Acquire { id: 1, name: name.into(), ..Default::default() };
        self.requests
            .send(v1::SessionRequest { request: Some(Request::Acquire(acquire)) })
            .expect("sent");
        loop {
            if let Reply::Granted(granted) = self.receive().await {
                return granted.fencing_token;
            }
        }
    }
}

fn open(ttl_ms: u64, reclaims: &[(&str, u64)]) -> v1::Open {
    let reclaim = |&(name, fencing_token): &(&str, u64)| v1::Reclaim {
        name: name.into(),
        fencing_token,
        promised: false,
    };
    let reclaims = reclaims.iter().map(reclaim).collect();
    v1::Open { ttl_ms, supervised: true, reclaims, ..Default::default() }
}

/// The next incarnation of a node that crashed while a client held `x` with a lease of this many
/// milliseconds, and the fencing token of that client.
async fn after_a_crash(directory: &Path, ttl_ms: u64) -> (Server, u64) {
    let server = Server::start(directory).await;
    let (mut session, _) = server.session(open(ttl_ms, &[])).await;
    let fencing_token = session.acquire("x").await;
    server.crash().await;
    (Server::start(directory).await, fencing_token)
}

#[tokio::test]
async fn a_former_holder_reclaims_its_lock_and_the_next_holder_has_a_greater_fencing_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fencing_token) = after_a_crash(directory.path(), 5000).await;
    let (mut former, opened) = server.session(open(5000, &[("x", fencing_token)])).await;
    assert!(opened.quarantine_ms == 0 && opened.refused.is_empty(), "{opened:?}");
    assert!(server.holds("x", fencing_token).await);
    former
        .requests
        .send(v1::SessionRequest { request: Some(Request::Close(v1::Close {})) })
        .expect("sent");
    while !matches!(former.receive().await, Reply::Closed(_)) {}
    let (mut next, _) = server.session(open(60_000, &[])).await;
    assert!(next.acquire("x").await > fencing_token);
}

#[tokio::test]
async fn an_invalid_reclaim_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fencing_token) = after_a_crash(directory.path(), 1000).await;
    let long = "n".repeat(mutua_node::MAX_NAME + 1);
    let reclaims = [("a", 0), ("b", u64::MAX), ("c", i64::MAX as u64), (&*long, fencing_token)];
    let (_, opened) = server.session(open(60_000, &reclaims)).await;
    assert_eq!(opened.refused.len(), reclaims.len());
    let (mut next, _) = server.session(open(60_000, &[])).await;
    let later = next.acquire("b").await;
    assert!((fencing_token..1 << 62).contains(&later), "{later}");
}

#[tokio::test]
async fn a_client_that_missed_the_reply_reclaims_its_lock_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fencing_token) = after_a_crash(directory.path(), 30_000).await;
    let reclaims = [("x", fencing_token)];
    let (mut one, first) = server.session(open(30_000, &reclaims)).await;
    assert_eq!(first.refused, []);
    // It does not know that session, and opens another one.
    let (_two, second) = server.session(open(30_000, &reclaims)).await;
    assert_eq!(second.refused, []);
    assert!(
        matches!(one.receive().await, Reply::Lost(lost) if lost.fencing_token == fencing_token)
    );
    // The end of the first session releases nothing.
    one.requests
        .send(v1::SessionRequest { request: Some(Request::Close(v1::Close {})) })
        .expect("sent");
    while !matches!(one.receive().await, Reply::Closed(_)) {}
    assert!(server.holds("x", fencing_token).await);
    // A client that resumes its session still holds the lock.
    let known = v1::Open { session: second.session, ..open(30_000, &reclaims) };
    let (_again, opened) = server.session(known).await;
    assert_eq!((opened.session, opened.refused), (second.session, Vec::new()));
}

#[tokio::test]
async fn calls_for_leases_do_not_release_the_locks_of_a_session() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path()).await;
    let (mut session, opened) = server.session(open(60_000, &[])).await;
    let fencing_token = session.acquire("x").await;
    let id = opened.session;

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
    let request = v1::ReleaseRequest { name: b"x".to_vec(), fencing_token };
    assert!(!own.release(request).await.expect("answered").into_inner().held);
    assert!(server.holds("x", fencing_token).await);
}

#[tokio::test]
async fn a_lease_cannot_be_resumed_as_a_session() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path()).await;
    let mut locks = LockClient::new(server.channel().await);
    let request = LockRequest { name: b"x".to_vec(), lease: 0 };
    let locked = locks.lock(request).await.expect("locked").into_inner();
    let fencing_token = locked.header.expect("a header").revision.cast_unsigned();
    let key = String::from_utf8(locked.key).expect("text");
    let id = i64::from_str_radix(key.strip_prefix("x/").expect("a key"), 16).expect("a lease");
    let (_, opened) = server.session(v1::Open { session: id, ..open(60_000, &[]) }).await;
    assert_ne!(opened.session, id);
    let close = v1::Open { session: id, close_only: true, ..Default::default() };
    let request = tokio_stream::once(v1::SessionRequest { request: Some(Request::Open(close)) });
    let mut own = LocksClient::new(server.channel().await);
    let mut replies = own.attach(request).await.expect("attached").into_inner();
    replies.message().await.expect("a last reply");
    assert!(server.holds("x", fencing_token).await);
}

#[tokio::test]
async fn the_status_and_the_stop_of_a_node_use_the_socket_of_its_clients() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path()).await;
    let (mut session, _) = server.session(open(60_000, &[])).await;
    session.acquire("x").await;
    let mut control = ControlClient::new(server.channel().await);
    let status = control.status(v1::StatusRequest::default()).await.expect("answered").into_inner();
    assert_eq!((status.pid, status.suspended), (std::process::id(), None));
    assert_eq!((status.locks, status.held, status.waiting, status.entries), (1, 1, 0, 1));
    assert_eq!((status.members.len(), &status.members[0].name), (1, &status.node));
    // The connection may end before the response.
    let _ = control.stop(v1::StopRequest {}).await;
    let ended = tokio::task::spawn_blocking(|| server.thread.join()).await;
    ended.expect("it ended").expect("no panic");
}

#[tokio::test]
async fn a_node_is_not_stopped_over_tcp() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = mutua_host::free_addresses(1).expect("a free port")[0];
    let _server = Server::start_on(directory.path(), Some(address)).await;
    // It listens there a moment later than on its socket.
    let connected = timeout(LIMIT, async {
        loop {
            match connect(&address.to_string()).await {
                Ok(channel) => return channel,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let mut control = ControlClient::new(connected.await.expect("in time"));
    let refused = control.stop(v1::StopRequest {}).await.expect_err("not on TCP");
    assert_eq!(refused.code(), Code::PermissionDenied);
    control.status(v1::StatusRequest::default()).await.expect("it still runs");
}
