//! Serving on a Unix socket and on TCP, until idle or told to stop.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use mutua_node::{Config, DiskError, Node, StartError};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};
use tokio::{
    net::{TcpListener, UnixListener, UnixStream},
    sync::Notify,
    task::JoinSet,
};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{TcpListenerStream, UnixListenerStream},
};
use tonic::transport::{Server, server::Router};

use super::{Core, Fences, Memory, Service, etcd::Etcd, log, own::Own};
use crate::{
    Moment,
    desk::{Desk, Settings},
    place,
    proto::{
        etcdserverpb::lease_server::LeaseServer, v1::locks_server::LocksServer,
        v3lockpb::lock_server::LockServer,
    },
};

/// A waiting call is a stream, and there is no reason to have fewer of them than the memory allows.
const STREAMS: u32 = 1 << 20;

/// So many may connect before they are accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node.
    pub node: Config,
    /// The Unix socket.
    pub socket: PathBuf,
    /// Where to listen for clients too.
    pub tcp: Option<SocketAddr>,
    /// Leave after so long without a session. `None`: never, since this is a configured node, in
    /// whose place no other may be started.
    pub idle: Option<Duration>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The node does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It cannot listen.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// Where.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot remember how long leases are.
    #[error("{place} cannot be used: {source}")]
    Memory {
        /// Which directory.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// It was told to listen for clients where others could reach it.
    #[error("{0} can be reached from other machines; clients are served on loopback only")]
    NotLoopback(SocketAddr),
}

impl ServeError {
    /// Whether another process serves there, or has not ended yet.
    pub fn is_taken(&self) -> bool {
        match self {
            Self::Start(StartError::Disk(DiskError::InUse { .. })) => true,
            Self::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            Self::Start(_) | Self::Memory { .. } | Self::NotLoopback(_) => false,
        }
    }
}

/// Runs a node and serves its clients, until `stop` ends or nobody has needed it for a while.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve(options: Options, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
    if let Some(address) =
        options.tcp.filter(|tcp| !tcp.ip().is_loopback() && !options.node.insecure)
    {
        return Err(ServeError::NotLoopback(address));
    }
    // The node takes the directory's lock: from here on nobody else serves from it.
    let (node, fences) = start(&options).await?;
    let service = service(&options, node, fences)?;
    let answering = Arc::downgrade(&service);
    service.node.answer_calls(move |body| {
        answering.upgrade().map(|service| service.answer_elsewhere(body)).unwrap_or_default()
    });
    // A desk that has nothing to wait for wants the node to join at once.
    service.call(|_, _| ());
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&service).keep_time());
    if options.idle.is_some() {
        let incoming = only_ours(claim(&options.socket).await?);
        tasks.spawn(serve_on(router(&service).serve_with_incoming(incoming)));
    } else {
        place::keep(&options.socket, &options.node.node)
            .map_err(listening(&options.socket.display().to_string()))?;
    }
    let unix = UnixListenerStream::new(bind(&options.socket)?);
    let bound = inode(&options.socket);
    tasks.spawn(serve_on(router(&service).serve_with_incoming(unix)));
    if let Some(address) = options.tcp {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(listening(&address.to_string()))?;
        let tcp = TcpListenerStream::new(listener);
        tasks.spawn(serve_on(router(&service).serve_with_incoming(tcp)));
    }
    tokio::select! {
        () = stop => {}
        () = service.until_idle(&options, bound) => {}
        () = service.node.asked_to_stop() => {}
    }
    // Whoever comes from now on starts the next node; what is inside is claimed there.
    if inode(&options.socket) == bound {
        let _ = fs::remove_file(&options.socket);
    }
    service.call(|core, now| core.desk.forget_leases(now));
    // Before the guards are dropped: the other members must not hear that anybody has left.
    service.node.halt();
    tasks.shutdown().await;
    Ok(())
}

async fn start(options: &Options) -> Result<(Node, Option<Fences>), ServeError> {
    if options.node.members.len() > 1 {
        // It joins the others when the desk knows of nobody who may still be inside.
        return Ok((Node::start_held_back(options.node.clone()).await?, None));
    }
    let node = Node::start(options.node.clone()).await?;
    // It needs nobody else, so it is ready in a moment, and nobody is told to wait for it.
    node.ready().await;
    let data = &options.node.data;
    let (fences, first) = Fences::open(data).map_err(forgetful(data))?;
    node.raise(first);
    Ok((node, Some(fences)))
}

fn forgetful(data: &Path) -> impl FnOnce(io::Error) -> ServeError + use<> {
    let place = data.display().to_string();
    |source| ServeError::Memory { place, source }
}

/// Takes the kernel's name for the place. A node that is just ending may have it for a moment more.
async fn claim(socket: &Path) -> Result<UnixListener, ServeError> {
    let mut patience = 20;
    let listener = loop {
        match place::claim(socket) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && patience > 0 => {
                patience -= 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            claimed => break claimed,
        }
    };
    listener.and_then(UnixListener::from_std).map_err(listening(&format!(
        "the name of {}, which another node of this user may have",
        socket.display()
    )))
}

/// Connections of this user's processes, and of root's.
fn only_ours(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    let own = rustix::process::geteuid().as_raw();
    UnixListenerStream::new(listener).filter(move |stream| {
        let known = stream.as_ref().map(place::owner);
        // What cannot be accepted is none, and is told by the listener.
        known.map_or(true, |peer| peer.is_ok_and(|peer| peer == own || peer == 0))
    })
}

async fn serve_on(serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    if let Err(error) = serving.await {
        log(format_args!("a listener ended: {error}"));
    }
}

fn service(
    options: &Options,
    node: Node,
    fences: Option<Fences>,
) -> Result<Arc<Service>, ServeError> {
    let members: Vec<_> = options.node.members.iter().map(|one| one.name.clone()).collect();
    let name = options.node.node.clone();
    let member = members.iter().position(|one| *one == name).unwrap_or_default();
    let settings =
        Settings { member: u16::try_from(member).unwrap_or_default(), ..Settings::default() };
    let data = &options.node.data;
    let marked = place::longest_mark(&options.socket);
    let now = crate::now();
    let opened = Memory::open(data, now, options.node.insecure, marked);
    let (memory, unclean) = opened.map_err(forgetful(data))?;
    // The hasher's keys are random in every process.
    let seed = RandomState::new().hash_one(std::process::id());
    let core = Core {
        desk: Desk::new(now, settings, unclean, u32::try_from(seed >> 32).unwrap_or_default()),
        asks: Default::default(),
        waiters: Default::default(),
        clients: Default::default(),
        watched: Default::default(),
        seen: Default::default(),
        memory,
        fences,
        revision: 0,
        streams: 0,
        armed: Moment::NEVER,
        idle_since: Some(now),
    };
    let core = Mutex::new(core);
    Ok(Arc::new(Service { core, node, name, members, timer: Notify::new() }))
}

fn router(service: &Arc<Service>) -> Router {
    Server::builder()
        .tcp_nodelay(true)
        .max_concurrent_streams(STREAMS)
        // A client that is gone without a word is noticed.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .add_service(LocksServer::new(Own(Arc::clone(service))))
        .add_service(LockServer::new(Etcd(Arc::clone(service))))
        .add_service(LeaseServer::new(Etcd(Arc::clone(service))))
}

/// A socket of our own. One that is in its place is left over: the directory's lock is ours. What
/// is no socket is not ours to take away.
fn bind(socket: &Path) -> Result<UnixListener, ServeError> {
    let failed = listening(&socket.display().to_string());
    if fs::symlink_metadata(socket).is_ok_and(|data| !data.file_type().is_socket()) {
        let text = "something is there that is no socket";
        return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, text)));
    }
    let _ = fs::remove_file(socket);
    let bound = || -> io::Result<UnixListener> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name, so that nobody meets it before it is private.
        rustix::fs::fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(socket)?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        UnixListener::from_std(listener.into())
    };
    bound().map_err(failed)
}

fn listening(place: &str) -> impl FnOnce(io::Error) -> ServeError + use<> {
    let place = place.to_owned();
    |source| ServeError::Listen { place, source }
}

impl Service {
    /// Ends when there has been no session for a while, or when the socket has been taken away and
    /// nobody new can come.
    async fn until_idle(self: &Arc<Self>, options: &Options, bound: Option<u64>) {
        let look =
            options.idle.map_or(Duration::from_secs(1), |idle| idle.min(Duration::from_secs(1)));
        loop {
            tokio::time::sleep(look).await;
            if let Some(why) = self.node.ended() {
                // Who is inside claims that at the next one, which finds all that was written.
                self.end_without(&why);
            }
            let idle_since = self.call(|core, now| {
                core.look_at_guards(now);
                core.desk.tick(now);
                core.desk.forget_leases(now);
                let idle = core.idle_since.filter(|_| !core.is_watched());
                idle.map(|since| now.since(since))
            });
            let Some(idle) = options.idle else { continue };
            let gone = inode(&options.socket) != bound;
            if idle_since.is_some_and(|since| since >= idle || gone) {
                return;
            }
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|data| data.ino())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::bind;

    #[tokio::test]
    async fn a_socket_that_is_left_over_makes_room_and_nothing_else_does() {
        let place = tempfile::tempdir().expect("a directory");
        let (socket, beside) = (place.path().join("s.sock"), place.path().join("s.new"));
        fs::write(&beside, "not ours").expect("written");
        let first = bind(&socket).expect("nothing is there");
        let mode = fs::metadata(&socket).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(first);
        bind(&socket).expect("what is there is left over");
        assert_eq!(fs::read(&beside).expect("there"), b"not ours");
        let file = place.path().join("data.txt");
        fs::write(&file, "not ours").expect("written");
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&socket, &link).expect("made");
        for other in [&file, &link, place.path()] {
            let refused = bind(other).expect_err("no socket").to_string();
            assert!(refused.contains("no socket"), "{refused}");
        }
        assert_eq!(fs::read(&file).expect("there"), b"not ours");
    }
}
