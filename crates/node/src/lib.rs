//! A distributed lock to embed: at most one of all the processes that run a node is inside.
//!
//! ```
//! use mutua_node::{Config, Node};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let place = tempfile::tempdir()?;
//! # runtime.block_on(async {
//! // One node alone, with its directory; `Config::read("mutua.toml")` for several.
//! let node = Node::start(Config::alone(place.path())).await?;
//! let lock = node.lock("accounts/1");
//! let guard = lock.acquire().await?;
//! println!("inside, with fence {}", guard.fence());
//! drop(guard);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Each node is one of a fixed list of members. Grants need all of them to be there; see
//! `mutua-brain` for views. What a guard carries is its *fence*: a number greater than that of
//! every earlier guard of the same name, through restarts of anybody, which the guarded resource
//! should compare and refuse if it has seen a greater one.
//!
//! Who has the token enters again with a direct call under one lock, without a task switch. So that
//! a loop of that does not keep others out, it lets the runtime read the links now and then; see
//! [`Limits::at_once`].
//!
//! Tokio drives sockets, timers and waiting; everything that decides is in `mutua-brain`.

mod calls;
mod claims;
mod clock;
mod config;
mod disk;
mod error;
mod hearing;
mod line;
mod lock;
mod network;
mod shared;
mod socket;
mod trace;

use std::{
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use mutua_brain::{Brain, Member, Seat};
use tokio::{net::TcpListener, task::JoinSet};

use disk::Disk;
use shared::Shared;

pub use clock::{fence_of, now};
pub use config::{Config, ConfigError, MemberConfig};
pub use disk::DiskError;
pub use error::{AcquireError, StartError};
pub use lock::{Guard, Lock};
pub use mutua_algorithms::Fence;
pub use mutua_brain::{
    Counts, DEFAULT_ALGORITHM, HolderStatus, Limits, LinkStatus, LockStatus, MAX_CALL, MAX_NAME,
    Moment, Rule, Status, WaiterStatus, usable,
};
pub use socket::{MemberStatus, NodeStatus, ask_status, ask_to_stop, socket_path};
pub use trace::TraceConfig;

/// A running node. It stops when this is dropped: its guards are lost, those who wait are told.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    /// Ended with the node.
    tasks: JoinSet<()>,
}

impl Node {
    /// Starts a node on the present tokio runtime. It returns once the node listens; grants begin
    /// when all members have met.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::begin(config, |_| ()).await
    }

    async fn begin(config: Config, first: fn(&mut Brain)) -> Result<Self, StartError> {
        let (plan, me) = config.check()?;
        let listener = match config.members.len() {
            1 => None,
            _ => Some(listen(&config, me).await?),
        };
        let (disk, mut epoch) = Disk::open(&config.data)?;
        if epoch == 0 && config.members.len() > 1 {
            // The directory is new, or its contents were lost.
            epoch = clock::epoch_of(std::time::SystemTime::now());
        }
        let names: Vec<_> = config.members.iter().map(|member| member.name.clone()).collect();
        let seat = Seat {
            cluster: config.cluster.clone(),
            names: names.clone(),
            me: Member(u32::try_from(me).unwrap_or(u32::MAX)),
            plan: Arc::new(plan),
            incarnation: new_incarnation(),
            epoch,
            limits: config.limits.clone(),
        };
        let mut brain = Brain::new(clock::now(), seat);
        first(&mut brain);
        let shared = Arc::new(Shared::new(brain, disk, names, config.limits.at_once));
        let mut tasks = JoinSet::new();
        tasks.spawn(shared::keep_time(Arc::clone(&shared)));
        network::spawn(&mut tasks, &shared, &config, me, listener);
        socket::spawn(&mut tasks, &shared, &config.data)?;
        if let Some(trace) = &config.trace {
            trace::spawn(&mut tasks, &shared, trace)?;
        }
        // The first effects, those of the beginning.
        shared.call(|_, _| ());
        Ok(Self { shared, tasks })
    }

    /// The lock of this name, whatever bytes it is; it is made on first use.
    ///
    /// # Panics
    ///
    /// If the name is longer than [`MAX_NAME`].
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::open(&self.shared, name.as_ref())
    }

    /// How the node is.
    pub fn status(&self) -> NodeStatus {
        self.shared.status()
    }

    /// How a lock is, as this node knows it.
    pub fn lock_status(&self, name: impl AsRef<[u8]>) -> Option<LockStatus> {
        self.shared.call(|core, now| core.brain.lock_status(now, name.as_ref()))
    }

    /// Waits until somebody on this machine asks the node to stop, as `mutua cluster down` does.
    pub async fn asked_to_stop(&self) {
        self.shared.asked_to_stop.notified().await;
    }

    /// Stops the node, and waits until its ports and its directory are free again.
    pub async fn stop(mut self) {
        let disk = self.shared.disk();
        self.shared.stop("it was told to");
        self.tasks.shutdown().await;
        // An epoch may still be on its way to the disk, on a thread of its own.
        while disk.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the node is in a view, so that locks are granted.
    pub async fn ready(&self) {
        self.shared.ready().await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop("it was dropped");
    }
}

async fn listen(config: &Config, me: usize) -> Result<TcpListener, StartError> {
    let address = config.members[me].address.clone();
    let failed = |error| StartError::Listen { address: address.clone(), error };
    let found: Vec<SocketAddr> = tokio::net::lookup_host(&address).await.map_err(failed)?.collect();
    if !config.insecure && found.iter().any(|one| !one.ip().is_loopback()) {
        return Err(StartError::NotLoopback { address });
    }
    TcpListener::bind(&*found).await.map_err(failed)
}

/// A number that no other life of this node has.
fn new_incarnation() -> u64 {
    // The hasher's keys are random for every process, and the time differs for every node in it.
    RandomState::new().hash_one(clock::now()).max(1)
}
