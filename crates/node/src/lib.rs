//! A distributed lock to embed: of all processes that run a node of a cluster, one at a time holds
//! it.
//!
//! ```
//! use mutua_node::{Config, Node};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let directory = tempfile::tempdir()?;
//! # runtime.block_on(async {
//! // One node alone, with its directory; `Config::read("mutua.toml")` for several.
//! let node = Node::start(Config::alone(directory.path())).await?;
//! let lock = node.lock("accounts/1");
//! let guard = lock.acquire().await?;
//! println!("held, with fencing token {}", guard.fencing_token());
//! drop(guard);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Each node is a member of a cluster. Locks are granted while a majority of the members that vote
//! reach each other; see `mutua-protocol` for views. A guard carries a *fencing token*: a number
//! greater than that of every earlier guard of the same name, whichever nodes restarted in between.
//! The guarded resource should refuse a write with a lower one than it has seen.
//!
//! A client whose node has the token acquires the lock by a direct call under one mutex, without a
//! task switch. So that a loop of that does not keep other members out, it lets the runtime read
//! the links now and then; see [`Limits::at_once`].
//!
//! Tokio drives sockets, timers and waiting; all decisions are made in `mutua-protocol`. Embedders
//! use [`Node`], [`Lock`] and [`Guard`]; what only a server around a node needs is in
//! [`NodeHandle`].

mod certificates;
mod clock;
mod config;
mod consensus;
mod control;
mod disk;
mod driver;
mod error;
mod handle;
mod identity;
mod lock;
mod network;
mod offline;
mod refusal_log;
mod status;
mod strangers;
mod timer;
mod trace;
mod transport;
mod writer;
mod yielding;

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    os::unix::net::UnixListener,
    sync::Arc,
    time::Duration,
};

use mutua_host::kernel_name;
use mutua_protocol::{Member, Protocol, ProtocolConfig, ViewSource};
use tokio::task::JoinSet;

use consensus::Consensus;
use disk::Disk;
use driver::Driver;
use identity::{ClusterIdentity, IdentityFile};
use transport::{Acceptor, Transport};

pub use clock::fence_of;
pub use config::{
    AccessRule, Action, CONFIG_KEYS, ClientPattern, Config, ConfigError, ConfigKey, ConfigProblem,
    KeyDefault, LONGEST_LEASE, LogLevel, MemberConfig, VIEW_LEASE, parse_rules, rules_text,
};
pub use consensus::MembershipError;
pub use disk::DiskError;
pub use error::{AcquireError, StartError};
pub use handle::{CallError, ClientHold, HoldId, NodeHandle, Served};
pub use lock::{Guard, Lock};
pub use mutua_algorithms::FencingToken;
pub use mutua_host::now;
pub use mutua_protocol::{
    Counts, DEFAULT_ALGORITHM, HolderStatus, Limits, LockStatus, MAX_CALL, MAX_NAME, Moment, Rule,
    RuleError, WaiterStatus, usable,
    views::{Client as ServedClient, Role},
};
pub use mutua_tls::{Certificate, Identity, TlsError, TlsFiles};
pub use offline::{Join, PrepareError, forget_cluster, init, join, recover};
pub use refusal_log::RefusalLog;
pub use status::{AwaitedLock, MemberReport, MemberStatus, NodeFigures, NodeStatus};
pub use trace::{TraceConfig, Traced};

/// A running node. Dropping it stops it: its guards are lost, and its waiters get an error.
#[derive(Debug)]
pub struct Node {
    driver: Arc<Driver>,
    /// Aborted when the node is dropped.
    tasks: JoinSet<()>,
    /// Owned as long as the node runs.
    _address: Option<UnixListener>,
    transport: Transport,
}

impl Node {
    /// Starts a node on the present tokio runtime. It returns once the node listens; locks are
    /// granted once a majority of the voters is connected, at the very first start all members.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::begin(config, |_| ()).await
    }

    async fn begin(config: Config, first: fn(&mut Protocol)) -> Result<Self, StartError> {
        let (plan, me) = config.check()?;
        let transport = certificates::transport(&config)?;
        let several = config.is_clustered();
        let (acceptor, address) = match several {
            false => (None, own_address(&config.members[me].address)?),
            true => (Some(listen(&transport, &config, me).await?), None),
        };
        let (disk, mut epoch) = Disk::open(&config.data)?;
        let (identity, incarnation) = match several {
            true => identify(&config)?,
            false => (None, random().max(1)),
        };
        if epoch == 0 && several {
            // The directory is new, or its contents were lost.
            epoch = clock::epoch_of(std::time::SystemTime::now());
        }
        let names: Vec<_> = config.members.iter().map(|member| member.name.clone()).collect();
        let protocol_config = ProtocolConfig {
            cluster: config.cluster.clone(),
            names: names.clone(),
            me: Member(u32::try_from(me).unwrap_or(u32::MAX)),
            plan: Arc::new(plan),
            incarnation,
            epoch,
            limits: config.limits.clone(),
            views: match several {
                true => ViewSource::Unknown { heartbeat: config.view_settings().heartbeat },
                false => ViewSource::FixedList,
            },
        };
        let mut protocol = Protocol::new(now(), protocol_config);
        first(&mut protocol);
        let driver = Arc::new(Driver::new(protocol, disk, names, config.limits.at_once));
        let mut tasks = JoinSet::new();
        tasks.spawn(driver::keep_time(Arc::clone(&driver)));
        if several {
            let consensus = Consensus::new(&mut tasks, &driver, &config, &transport, identity);
            let _ = driver.consensus.set(Arc::clone(&consensus));
            let members = consensus::follow_members(Arc::clone(&consensus), Arc::clone(&driver));
            tasks.spawn(members);
            tasks.spawn(consensus::run(consensus, Arc::clone(&driver)));
        }
        if let Some(acceptor) = acceptor {
            tasks.spawn(network::accept(Arc::clone(&driver), acceptor));
        }
        certificates::spawn(&mut tasks, &transport);
        if let Some(trace) = &config.trace {
            trace::spawn(&mut tasks, &driver, trace)?;
        }
        // Carries out the effects of the start.
        driver.call(|_, _| ());
        Ok(Self { driver, tasks, _address: address, transport })
    }

    /// The lock of this name, which may be any bytes; it is made on first use.
    ///
    /// # Panics
    ///
    /// If the name is longer than [`MAX_NAME`].
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::open(&self.driver, name.as_ref())
    }

    /// The status of the node.
    pub fn status(&self) -> NodeStatus {
        self.driver.status()
    }

    /// The state of a lock as this node knows it.
    pub fn lock_status(&self, name: impl AsRef<[u8]>) -> Option<LockStatus> {
        self.handle().lock_status(name)
    }

    /// The certificates of this node, if it uses TLS.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        match &self.transport {
            Transport::Tcp => None,
            Transport::Tls(identity) => Some(identity),
        }
    }

    /// Takes up new certificates now, if the files have changed; the node looks at them every two
    /// seconds by itself.
    pub fn renew_certificates(&self) {
        if let Some(identity) = self.identity() {
            certificates::look(identity);
        }
    }

    /// Hands over: the other members go on without this node, and need not wait for its view lease.
    /// Guards of this process are lost. Returns when they have done so, or when this much time has
    /// passed; to be called before [`stop`](Self::stop).
    pub async fn hand_over(&self, patience: Duration) {
        self.handle().retire(patience).await;
    }

    /// Stops the node, and waits until its ports and its directory are free again.
    pub async fn stop(mut self) {
        let disk = self.driver.disk();
        self.driver.stop("stopped by its program");
        if let Some(consensus) = self.driver.consensus.get() {
            consensus.stop().await;
        }
        self.tasks.shutdown().await;
        // An epoch may still be being written, on a thread of its own.
        while disk.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the node is in a view, so that locks are granted.
    pub async fn ready(&self) {
        self.driver.ready().await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Not logged: the program knows it, and may have an error to report, which is the reason.
        self.driver.end("its program has ended it");
    }
}

async fn listen(transport: &Transport, config: &Config, me: usize) -> Result<Acceptor, StartError> {
    let address = config.listen.as_ref().unwrap_or(&config.members[me].address).clone();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            StartError::AddressInUse { address: address.clone(), process: None }
        }
        _ => StartError::Listen { address: address.clone(), error },
    };
    let found: Vec<SocketAddr> = tokio::net::lookup_host(&address).await.map_err(failed)?.collect();
    let open = config.insecure || config.tls.is_some();
    if !open && found.iter().any(|one| !one.ip().is_loopback()) {
        return Err(StartError::NotLoopback { address });
    }
    transport.listen(&found).await.map_err(failed)
}

/// Owns the address of the only member of a cluster, on which nothing listens: two nodes with the
/// same address would be one member twice. Without a port there is nothing to own.
fn own_address(address: &str) -> Result<Option<UnixListener>, StartError> {
    if address.rsplit_once(':').is_none_or(|(_, port)| matches!(port, "" | "0")) {
        return Ok(None);
    }
    let name = kernel_name::of_address(address);
    kernel_name::own(&name).map(Some).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let process = kernel_name::owner_of(&name);
            StartError::AddressInUse { address: address.to_owned(), process }
        }
        _ => StartError::Listen { address: address.to_owned(), error },
    })
}

/// The identity of a member of a cluster, if it has one, and the number of this start.
fn identify(config: &Config) -> Result<(Option<ClusterIdentity>, u64), StartError> {
    let file = IdentityFile::new(&config.data);
    let unusable = |error| DiskError::Unusable { path: config.data.clone(), error };
    let identity = file.read().map_err(unusable)?;
    if let Some(identity) = &identity {
        if identity.left {
            return Err(StartError::Left { data: config.data.clone() });
        }
        let name = identity.name().unwrap_or_default();
        if name != config.node {
            let (decided, configured) = (name.to_owned(), config.node.clone());
            return Err(StartError::OtherMember { decided, configured });
        }
    }
    let now = std::time::SystemTime::now();
    let incarnation = file.next_incarnation(now, random()).map_err(unusable)?;
    Ok((identity, incarnation))
}

/// A random number.
fn random() -> u64 {
    // The hasher's keys are random for every process, and the time differs for every call.
    RandomState::new().hash_one(now())
}
