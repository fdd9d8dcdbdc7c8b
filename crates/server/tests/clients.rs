//! Mutua's own client at a node, in frames and by gRPC: both are the same session.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use mutua_client::{
    AcquireError, Client, connect,
    frames::{Decoder, Frames, Socket},
    proto::v1::{self, locks_client::LocksClient, session_reply::Reply, session_request::Request},
};
use mutua_node::Config;
use mutua_server::{Options, serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    sync::oneshot,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(60);

/// A node on a thread of its own, in a directory that outlives it.
struct Server {
    socket: PathBuf,
    running: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    async fn start(directory: &Path, tcp: Option<SocketAddr>) -> Self {
        let socket = directory.join("s");
        let node = Config::alone(directory.join("data"));
        let options = Options { node, socket: socket.clone(), tcp, idle: None };
        let (running, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("made").block_on(async {
                tokio::select! {
                    served = serve(options, std::future::pending()) => served.expect("it serves"),
                    _ = ended => {}
                }
            });
        });
        let server = Self { socket, running, thread };
        // TCP is served last.
        let last = tcp.map_or_else(|| server.endpoint(), |tcp| tcp.to_string());
        for _ in 0..1000 {
            if connect(&last).await.is_ok() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server does not answer");
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Ends the node as SIGKILL does: it cleans nothing up.
    async fn crash(self) {
        drop(self.running);
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await;
        ended.expect("it ended").expect("no panic");
    }

    async fn frames(&self) -> (Frames, Decoder, v1::AboutResponse) {
        let stream = UnixStream::connect(&self.socket).await.expect("connected");
        let frames = Frames::begin(Socket::Unix(stream)).await.expect("begun");
        let mut decoder = Decoder::default();
        let about = receive(&frames, &mut decoder).await;
        (frames, decoder, about)
    }
}

async fn receive<M: prost::Message + Default>(frames: &Frames, decoder: &mut Decoder) -> M {
    let message = timeout(LIMIT, frames.receive(decoder)).await.expect("it answers");
    message.expect("it can be read").expect("the stream is open")
}

fn request(request: Request) -> v1::SessionRequest {
    v1::SessionRequest { request: Some(request) }
}

#[tokio::test]
async fn a_client_in_frames_and_one_by_grpc_exclude_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path(), None).await;
    let client = Client::connect(server.endpoint()).await.expect("connected");
    let guard = client.lock("x").acquire().await.expect("acquired");
    let (frames, mut decoder, about) = server.frames().await;
    assert!(!about.version.is_empty() && !about.node.is_empty());
    frames.send(&request(Request::Open(v1::Open { ttl_ms: 5000, ..Default::default() })));
    let acquire =
        v1::Acquire { id: 3, name: b"x".to_vec(), wait_ms: Some(0), ..Default::default() };
    frames.send(&request(Request::Acquire(acquire.clone())));
    let opened: v1::SessionReply = receive(&frames, &mut decoder).await;
    assert!(matches!(opened.reply, Some(Reply::Opened(_))), "{opened:?}");
    let refused: v1::SessionReply = receive(&frames, &mut decoder).await;
    assert!(matches!(refused.reply, Some(Reply::Refused(_))), "{refused:?}");
    // The same through gRPC.
    let mut grpc = LocksClient::new(connect(&server.endpoint()).await.expect("connected"));
    let verify = v1::VerifyRequest { name: b"x".to_vec(), fencing_token: guard.fencing_token() };
    assert!(grpc.verify(verify).await.expect("verified").into_inner().current);
    let token = guard.fencing_token();
    guard.release().await.expect("it was held");
    frames.send(&request(Request::Acquire(v1::Acquire { id: 4, ..acquire })));
    let granted: v1::SessionReply = receive(&frames, &mut decoder).await;
    match granted.reply {
        Some(Reply::Granted(granted)) => assert!(granted.fencing_token > token),
        other => panic!("{other:?}"),
    }
    let busy = client.lock("x").try_acquire().await;
    assert!(matches!(busy, Err(AcquireError::Busy { .. })), "{busy:?}");
    // The end of the session is the last reply, and then the connection ends.
    frames.send(&request(Request::Close(v1::Close {})));
    let closed: v1::SessionReply = receive(&frames, &mut decoder).await;
    assert!(matches!(closed.reply, Some(Reply::Closed(_))), "{closed:?}");
    let end = frames.receive::<v1::SessionReply>(&mut decoder).await.expect("ended");
    assert_eq!(end, None);
    client.lock("x").acquire().await.expect("free again").release().await.expect("held");
}

#[tokio::test]
async fn tasks_of_one_client_take_turns_and_a_dropped_future_leaves_the_queue() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path(), None).await;
    let client = Client::connect(server.endpoint()).await.expect("connected");
    let held = Arc::new(AtomicBool::new(false));
    let work = |client: Client| {
        let held = Arc::clone(&held);
        tokio::spawn(async move {
            for _ in 0..50 {
                let guard = client.lock("x").acquire().await.expect("acquired");
                assert!(!held.swap(true, Ordering::SeqCst), "held twice");
                tokio::task::yield_now().await;
                held.store(false, Ordering::SeqCst);
                drop(guard);
            }
        })
    };
    let other = Client::connect(server.endpoint()).await.expect("connected");
    let tasks = [work(client.clone()), work(client.clone()), work(other)];
    for task in tasks {
        timeout(LIMIT, task).await.expect("in time").expect("no panic");
    }
    let guard = client.lock("x").acquire().await.expect("acquired");
    let lock = client.lock("x");
    timeout(Duration::from_millis(20), lock.acquire()).await.expect_err("it waits");
    drop(guard);
    drop(timeout(LIMIT, lock.acquire()).await.expect("in time").expect("acquired"));
}

#[tokio::test]
async fn a_guard_is_reclaimed_when_its_node_restarts_and_lost_when_it_does_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path(), None).await;
    let options = mutua_client::Options::new([server.endpoint()]);
    let client = options.lease(Duration::from_secs(4)).connect().await.expect("connected");
    let guard = client.lock("x").acquire().await.expect("acquired");
    server.crash().await;
    let server = Server::start(directory.path(), None).await;
    // Granted when the leases of before the crash have expired, and x is reclaimed by then.
    let other = timeout(LIMIT, client.lock("y").acquire()).await.expect("in time");
    assert!(guard.is_good());
    let released = timeout(LIMIT, guard.release()).await.expect("in time");
    released.expect("it was held throughout");
    let guard = client.lock("x").acquire().await.expect("acquired");
    drop(other);
    server.crash().await;
    let lost = timeout(LIMIT, guard.lost()).await.expect("in time");
    assert!(!guard.is_good() && lost.reason().contains("lease"), "{lost}");
}

#[tokio::test]
async fn strange_first_bytes_end_their_connection_and_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let port = mutua_host::free_addresses(1).expect("a free port")[0];
    let server = Server::start(directory.path(), Some(port)).await;
    for bytes in [
        &b"\xb5"[..],
        b"\xb5mutua",
        b"\xb5mutua\x09\x09",
        b"\xb5strange",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xb5mutua\x01\x01\xff\xff\xff\xff",
        b"\xb5mutua\x01\x01\x04\0\0\0\xff\xff\xff\xff",
        b"\xb5mutua\x01\x01\0\0\0\0",
    ] {
        let mut stream = TcpStream::connect(port).await.expect("connected");
        stream.write_all(bytes).await.expect("written");
        stream.shutdown().await.expect("half closed");
        let mut reply = Vec::new();
        // A reset is an end too.
        let read = timeout(LIMIT, stream.read_to_end(&mut reply)).await.expect("it ends");
        drop(read);
        if bytes.starts_with(b"\xb5mutua\x09") {
            assert_eq!(reply, b"\xb5mutua\0\x01", "the versions that the node knows");
        }
    }
    // TCP and the socket still serve.
    for endpoint in [port.to_string(), server.endpoint()] {
        let client = Client::connect(endpoint).await.expect("connected");
        client.lock("x").acquire().await.expect("acquired").release().await.expect("held");
    }
}
