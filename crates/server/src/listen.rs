//! Serving on a Unix socket and on TCP, until idle or stopped.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use mutua_host::kernel_name::{self, Listening};
use mutua_node::{Config, DiskError, Node, NodeHandle, StartError};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Notify, watch},
    task::JoinSet,
};
use tonic::{service::Routes, transport::Server};

use super::{
    Core, FenceRecord, LeaseRecord, Service,
    access::Access,
    audit::Audit,
    control::ControlService,
    etcd::Etcd,
    front::Front,
    gateway::Hosts,
    hosting::Endpoints,
    incoming::{Local, Plain, Secure, incoming},
    locks_service::LocksService,
    monitor, reload,
};
use crate::{
    Moment, Scope, endpoint,
    hold_record::Recorded,
    lease_record::{self, Unclean},
    leases::{LeaseTable, Name, SessionId, Settings},
    proto::{
        etcdserverpb::{
            auth_server::AuthServer, cluster_server::ClusterServer, kv_server::KvServer,
            lease_server::LeaseServer, maintenance_server::MaintenanceServer,
            watch_server::WatchServer,
        },
        health::health_server::HealthServer,
        v1::{control_server::ControlServer, locks_server::LocksServer},
        v3electionpb::election_server::ElectionServer,
        v3lockpb::lock_server::LockServer,
    },
};

/// A waiting call is a stream, so only memory should limit their number.
const STREAMS: u32 = 1 << 20;

/// The backlog of connections that are not accepted yet; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// The bits of a member's number in the numbers of its sessions.
const MEMBERS: u16 = (1 << 15) - 1;

/// How long a node that stops waits until the other members go on without it.
const RETIRE: Duration = Duration::from_secs(2);

/// Clocks of nodes and clients gain or lose at most so many millionths.
const DRIFT: u32 = 10_000;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's configuration.
    pub node: Config,
    /// The Unix socket.
    pub socket: PathBuf,
    /// A TCP address to serve clients on too.
    pub tcp: Option<SocketAddr>,
    /// Stop after this long without a session. `None`: never, since this is a configured node, and
    /// no other may be started at its socket.
    pub idle: Option<Duration>,
}

/// Why a server did not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The node cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The path or the TCP address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another process serves the socket.
    #[error(
        "another node{} serves at {socket}; stop it, or name another socket",
        kernel_name::in_words(*process)
    )]
    Taken {
        /// The socket's path.
        socket: String,
        /// The process, if it is known.
        process: Option<u32>,
    },
    /// The records in the data directory cannot be read or written.
    #[error("cannot use the data directory {directory}: {source}")]
    Record {
        /// The data directory.
        directory: String,
        /// The system's error.
        source: io::Error,
    },
    /// The audit log cannot be opened.
    #[error("cannot write the audit log {}: {source}", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A record could not be written, which must be on disk before a grant is announced. No lock is
    /// lost: the holders reclaim theirs at the next node.
    #[error("{why}")]
    Failed {
        /// The cause.
        why: String,
    },
    /// The TCP address for clients is not a loopback address, and there is no TLS.
    #[error(
        "{0} can be reached from other machines: configure [tls] (see `mutua cert`), or serve \
         clients on a loopback address"
    )]
    NotLoopback(SocketAddr),
}

impl ServeError {
    /// Whether another process serves the socket, the port or the data directory.
    pub fn is_taken(&self) -> bool {
        match self {
            Self::Start(
                StartError::Disk(DiskError::InUse { .. }) | StartError::AddressInUse { .. },
            )
            | Self::Taken { .. } => true,
            Self::Listen { source, .. } | Self::Start(StartError::Listen { error: source, .. }) => {
                source.kind() == io::ErrorKind::AddrInUse
            }
            Self::Start(_)
            | Self::Audit { .. }
            | Self::Record { .. }
            | Self::Failed { .. }
            | Self::NotLoopback(_) => false,
        }
    }
}

/// Runs a node and serves its clients, until `stop` ends, a client stops the node, or it is idle.
///
/// # Errors
///
/// See [`ServeError`].
pub async fn serve(options: Options, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
    if let Some(address) =
        options.tcp.filter(|tcp| !tcp.ip().is_loopback() && !has_remote_clients(&options.node))
    {
        return Err(ServeError::NotLoopback(address));
    }
    // From here on no other process serves this socket.
    let name = own_name(&options.socket).await?;
    // The node locks the data directory: from here on no other process uses it.
    let (node, fence_record) = start(&options).await?;
    let service = service(&options, node, fence_record)?;
    let answering = Arc::downgrade(&service);
    service.handle.answer_calls(move |body| {
        let answering = answering.upgrade();
        async move {
            match answering {
                Some(service) => service.answer_peer(&body).await,
                None => Vec::new(),
            }
        }
    });
    let reports = service.handle.reports();
    // Without a quarantine the first effect is that the node joins.
    service.call(|_, _| ());
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&service).keep_time());
    tasks.spawn(Arc::clone(&service).follow_holds(reports));
    tasks.spawn(Arc::clone(&service).follow_peers());
    reload::follow(&mut tasks, &service, options.node.file.clone());
    serve_local(&mut tasks, &service, name);
    if options.idle.is_none() {
        endpoint::reserve(&options.socket, &options.node.node)
            .map_err(listen_error(&options.socket.display().to_string()))?;
    }
    let unix = bind(&options.socket, service.access.has_other_users())?;
    let bound = inode(&options.socket);
    serve_local(&mut tasks, &service, unix);
    if let Some(address) = options.tcp {
        serve_tcp(&mut tasks, &service, address).await?;
    }
    if let Some(address) = options.node.metrics_listen {
        let listener = monitor::bind(address).await;
        let listener = listener.map_err(listen_error(&address.to_string()))?;
        tasks.spawn(monitor::serve(Arc::clone(&service), listener, options.node.metrics_names));
    }
    tokio::select! {
        () = stop => {}
        () = service.until_idle(&options, bound) => {}
        () = service.stop.notified() => {}
        why = service.failed() => {
            tracing::error!("{why}; the node stops");
            tasks.shutdown().await;
            return Err(ServeError::Failed { why });
        }
    }
    // From now on a client starts the next node, and holders reclaim their locks there.
    if inode(&options.socket) == bound {
        let _ = fs::remove_file(&options.socket);
    }
    hand_over(&service).await;
    tasks.shutdown().await;
    Ok(())
}

/// In a cluster, other members serve this node's clients from now on.
async fn hand_over(service: &Arc<Service>) {
    service.record_promises().await;
    service.handle.retire(RETIRE).await;
    service.call(|core, now| {
        core.leases.tick(now);
        core.leases.shorten_record(now);
    });
    // Before the guards are dropped, so that no release is sent to the other members.
    service.handle.halt();
}

/// Serves clients on a Unix socket.
fn serve_local(tasks: &mut JoinSet<()>, service: &Arc<Service>, listener: UnixListener) {
    let connections = incoming(Local { listener, service: Arc::clone(service) });
    tasks.spawn(serve_on(server().serve_with_incoming(front(service), connections)));
}

/// Serves clients on TCP, with TLS where the node has certificates.
async fn serve_tcp(
    tasks: &mut JoinSet<()>,
    service: &Arc<Service>,
    address: SocketAddr,
) -> Result<(), ServeError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(listen_error(&address.to_string()))?;
    match service.node.identity().map(Arc::clone) {
        None => {
            let plain = incoming(Plain { listener, service: Arc::clone(service) });
            tasks.spawn(serve_on(server().serve_with_incoming(front(service), plain)));
        }
        Some(identity) => {
            let secure = incoming(Secure::new(listener, identity));
            tasks.spawn(serve_on(server().serve_with_incoming(front(service), secure)));
        }
    }
    Ok(())
}

/// Whether clients on other machines may be served.
fn has_remote_clients(config: &Config) -> bool {
    config.insecure || config.tls.is_some()
}

async fn start(options: &Options) -> Result<(Node, Option<FenceRecord>), ServeError> {
    if options.node.is_clustered() {
        // It joins when it is known for how long clients of its last process hold locks.
        return Ok((NodeHandle::start_held_back(options.node.clone()).await?, None));
    }
    let node = Node::start(options.node.clone()).await?;
    // Alone, it is ready in a moment; the first requests then need not wait.
    node.ready().await;
    let data = &options.node.data;
    let (record, first) = FenceRecord::open(data).map_err(record_error(data))?;
    node.handle().raise(first);
    Ok((node, Some(record)))
}

fn audit_error(config: &Config) -> impl FnOnce(io::Error) -> ServeError + use<> {
    let path = config.audit.clone().unwrap_or_default();
    |source| ServeError::Audit { path, source }
}

fn record_error(data: &Path) -> impl FnOnce(io::Error) -> ServeError + use<> {
    let directory = data.display().to_string();
    |source| ServeError::Record { directory, source }
}

/// Takes the kernel's name for the socket. A node that is stopping may have it for a moment more.
async fn own_name(socket: &Path) -> Result<UnixListener, ServeError> {
    let mut attempts = 20;
    let listener = loop {
        match endpoint::own(socket) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {
                attempts -= 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            owned => break owned,
        }
    };
    let path = socket.display().to_string();
    listener.and_then(UnixListener::from_std).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            ServeError::Taken { socket: path, process: endpoint::server(socket) }
        }
        _ => listen_error(&path)(error),
    })
}

async fn serve_on(serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    if let Err(error) = serving.await {
        tracing::error!("a listener ended: {error}");
    }
}

fn service(
    options: &Options,
    node: Node,
    fence_record: Option<FenceRecord>,
) -> Result<Arc<Service>, ServeError> {
    let name = options.node.node.clone();
    let replicated = node.handle().is_replicated();
    let settings = Settings {
        member: u16::try_from(node.handle().number()).unwrap_or_default() & MEMBERS,
        recorded: replicated,
        drift: if replicated { DRIFT } else { 0 },
        longest: options.node.longest_lease,
        ..Settings::default()
    };
    let data = &options.node.data;
    let own = rustix::process::geteuid().as_raw();
    let access = Access::new(options.node.access.clone(), own);
    // No mark counts for longer than a lease can be, also before the bound was last lowered.
    let bound = options.node.longest_lease.max(mutua_node::LONGEST_LEASE);
    let now = crate::now();
    let opening = lease_record::Opening {
        directory: data,
        now,
        remote: has_remote_clients(&options.node),
        with_holds: !replicated,
        bound,
    };
    let marked = |is_recorded: &dyn Fn(i64) -> bool| {
        let may_use = |user| access.lets_in(user);
        let marked = endpoint::longest_mark(&options.socket, may_use, is_recorded);
        marked.map(|marked| marked.min(bound))
    };
    let opened = LeaseRecord::open(&opening, marked);
    let (lease_record, Unclean { any: mut unclean, holds }) = opened.map_err(record_error(data))?;
    if replicated {
        node.handle().set_leases_left(unclean.unwrap_or_default());
        // Other members have records of what is held. If this one has lost its directory, they have
        // lost theirs too, or it is not let in again.
        unclean = unclean.filter(|_| node.handle().is_new());
    }
    // The hasher's keys are random in every process.
    let seed = RandomState::new().hash_one(std::process::id());
    let seed = u32::try_from(seed >> 32).unwrap_or_default();
    let leases = LeaseTable::new(now, settings, unclean, seed);
    let audit = Audit::open(options.node.audit.as_deref()).map_err(audit_error(&options.node))?;
    let mut core = new_core(now, leases, (lease_record, fence_record), audit);
    core.restore(now, holds);
    let core = Mutex::new(core);
    let (handle, failure) = (node.handle(), watch::Sender::new(None));
    let (scope, timer, stop) = (scope(options), Notify::new(), Notify::new());
    let endpoints = Endpoints::of(options);
    Ok(Arc::new(Service {
        core,
        node,
        handle,
        name,
        scope,
        access,
        users: Default::default(),
        hosts: Hosts::of(&options.node),
        endpoints,
        floor: AtomicU64::default(),
        timer,
        stop,
        failure,
    }))
}

impl Core {
    /// Goes on with what clients of the node's last process held.
    fn restore(&mut self, now: Moment, holds: Vec<Recorded>) {
        for (hold, key) in holds {
            let (name, token) = (Name::clone(&hold.name), hold.fencing_token);
            let (lease, left) = (SessionId(hold.opening.id), hold.left(now));
            let shown = name.escape_ascii();
            let owner = hold.opening.client.owner.clone();
            tracing::info!(
                "lock {shown} was held by {owner} when the node crashed: it is kept for its client \
                 for {:.1} s",
                left.as_secs_f64()
            );
            self.revision = self.revision.max(token);
            self.leases.restore(now, &name, hold.held(now), left);
            if let Some(key) = key {
                self.recipes.restore(key, &name, lease, token);
            }
        }
    }
}

/// The state of a server without clients.
fn new_core(
    now: Moment,
    leases: LeaseTable,
    (lease_record, fence_record): (LeaseRecord, Option<FenceRecord>),
    audit: Audit,
) -> Core {
    Core {
        leases,
        requests: Default::default(),
        holds: Default::default(),
        keeping: Default::default(),
        changing: Default::default(),
        endpoints: Default::default(),
        waiters: Default::default(),
        recipes: Default::default(),
        probes: Default::default(),
        clients: Default::default(),
        watched: Default::default(),
        peers: Default::default(),
        relays: Default::default(),
        lease_record,
        fence_record,
        revision: 0,
        metrics: Default::default(),
        audit,
        streams: 0,
        armed: Moment::NEVER,
        idle_since: Some(now),
    }
}

/// A node that stops when idle was started for one user; every other one is configured.
fn scope(options: &Options) -> Scope {
    match options.idle {
        Some(_) => Scope::Local,
        None if options.node.is_clustered() => Scope::Cluster(options.node.cluster.clone()),
        None => Scope::Node(options.node.cluster.clone()),
    }
}

fn server() -> Server {
    Server::builder()
        // For the JSON gateway.
        .accept_http1(true)
        .max_concurrent_streams(STREAMS)
        // A connection whose client does not close it is noticed.
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
}

/// All services, behind their checks.
fn front(service: &Arc<Service>) -> Front {
    let etcd = Etcd(Arc::clone(service));
    let routes = Routes::new(LocksServer::new(LocksService(Arc::clone(service))))
        .add_service(ControlServer::new(ControlService(Arc::clone(service))))
        .add_service(LockServer::new(etcd.clone()))
        .add_service(LeaseServer::new(etcd.clone()))
        .add_service(KvServer::new(etcd.clone()))
        .add_service(WatchServer::new(etcd.clone()))
        .add_service(ElectionServer::new(etcd.clone()))
        .add_service(MaintenanceServer::new(etcd.clone()))
        .add_service(ClusterServer::new(etcd.clone()))
        .add_service(AuthServer::new(etcd.clone()))
        .add_service(HealthServer::new(etcd));
    Front::new(Arc::clone(service), routes)
}

/// Binds a socket. An old one at its path is removed if no process listens on it. A file that is
/// not a socket is left alone.
fn bind(socket: &Path, has_other_users: bool) -> Result<UnixListener, ServeError> {
    let failed = listen_error(&socket.display().to_string());
    if fs::symlink_metadata(socket).is_ok_and(|data| !data.file_type().is_socket()) {
        let text = "the file there is not a socket";
        return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, text)));
    }
    if let Listening::Process(process) = kernel_name::listening_at(socket) {
        return Err(ServeError::Taken { socket: socket.display().to_string(), process });
    }
    let _ = fs::remove_file(socket);
    let bound = || -> io::Result<UnixListener> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before it has a name, so that it is private from the beginning.
        rustix::fs::fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(socket)?)?;
        if has_other_users {
            // The rules are checked at each call.
            fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
        }
        rustix::net::listen(&listener, BACKLOG)?;
        UnixListener::from_std(listener.into())
    };
    bound().map_err(failed)
}

fn listen_error(address: &str) -> impl FnOnce(io::Error) -> ServeError + use<> {
    let address = address.to_owned();
    |source| ServeError::Listen { address, source }
}

impl Service {
    /// Returns when there has been no session for a while, or when the socket was removed, so that
    /// no client can connect.
    async fn until_idle(self: &Arc<Self>, options: &Options, bound: Option<u64>) {
        let interval =
            options.idle.map_or(Duration::from_secs(1), |idle| idle.min(Duration::from_secs(1)));
        loop {
            tokio::time::sleep(interval).await;
            if self.handle.has_left() {
                tracing::info!("this member has left the cluster; the node stops");
                return;
            }
            if let Some(why) = self.handle.ended() {
                // Holders reclaim their locks at the next node, which reads the records.
                self.fail(why);
                return std::future::pending().await;
            }
            let idle_since = self.call(|core, now| {
                if !self.handle.is_replicated() {
                    core.check_guards(now);
                }
                core.leases.tick(now);
                core.leases.shorten_record(now);
                let idle = core.idle_since.filter(|_| !core.is_watched());
                idle.map(|since| now.since(since))
            });
            let Some(idle) = options.idle else { continue };
            let removed = inode(&options.socket) != bound;
            if idle_since.is_some_and(|since| since >= idle || removed) {
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
    async fn an_old_socket_is_replaced_and_nothing_else_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let (socket, beside) = (directory.path().join("s.sock"), directory.path().join("s.new"));
        fs::write(&beside, "not ours").expect("written");
        let first = bind(&socket, false).expect("nothing at the path");
        let mode = fs::metadata(&socket).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = bind(&socket, false).expect_err("a process listens there").to_string();
        assert!(taken.contains(&format!("process {}", std::process::id())), "{taken}");
        drop(first);
        bind(&socket, true).expect("the old socket is replaced");
        let mode = fs::metadata(&socket).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "for other users too");
        assert_eq!(fs::read(&beside).expect("there"), b"not ours");
        let file = directory.path().join("data.txt");
        fs::write(&file, "not ours").expect("written");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&socket, &link).expect("made");
        for other in [&file, &link, directory.path()] {
            let refused = bind(other, false).expect_err("not a socket").to_string();
            assert!(refused.contains("not a socket"), "{refused}");
        }
        assert_eq!(fs::read(&file).expect("there"), b"not ours");
    }
}
