//! Client of a Mutua node: distributed locks for programs that are not members themselves.
//!
//! ```no_run
//! # async fn work() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use mutua_client::Client;
//!
//! let client = Client::connect("unix:/run/mutua/locks.sock").await?;
//! let guard = client.lock("nightly").acquire().await?;
//! println!("held with fencing token {}", guard.fencing_token());
//! tokio::select! {
//!     lost = guard.lost() => println!("{lost}: stop at once"),
//!     () = work() => println!("done"),
//! }
//! # Ok(()) }
//! ```
//!
//! - A [`Client`] is one session on one connection; its locks exclude all other clients of the
//!   cluster, whatever they use (`mutua lock`, etcd's clients, other languages).
//! - [`Lock::acquire`] has the habits of `tokio::sync::Mutex`: waiters are granted in order of
//!   arrival at their node, dropping the future leaves the queue, dropping the [`Guard`] releases.
//! - The session is renewed in the background. When the connection breaks, the client reconnects,
//!   to another member if its node is lost, and keeps its locks if that succeeds within the lease.
//!   Otherwise [`Guard::lost`] completes, before another client can hold the lock.
//! - [`blocking`] has the same for threads.
//!
//! A `Mutex<T>` that contains its data is not offered: what a distributed lock protects lies
//! elsewhere, and a guard can be lost while it exists. The resource itself should refuse a fencing
//! token that is smaller than one that it has seen.
//!
//! Beneath it, [`hold`] acquires one lock of a node or of a real etcd and reports each event, as
//! `mutua lock` shows them. The crate also has what client and server share: the messages
//! ([`proto`]) and the socket that a node serves local clients on ([`endpoint`]).
//!
//! A lease is counted from the moment the last acknowledged renewal was *sent*, so a client never
//! believes in a lock for longer than the node does.

mod address;
mod calls;
mod client;
pub mod endpoint;
mod etcd;
pub mod frames;
mod probe;
pub mod proto;
mod scope;
mod secure;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use address::{ConnectError, PathTooLong, fits, normal};
pub use calls::{
    About, CallError, about, change_member, change_rules, close_session, describe, explained,
    invite, rules, status, status_of_all, stop,
};
pub use client::{
    AcquireError, Client, Election, Guard, Holder, Leader, Leadership, Lock, Lost, Observer,
    Options, Watch, blocking,
};
pub use mutua_host::now;
pub use mutua_protocol::Moment;
pub use scope::Scope;

use std::{
    error::Error,
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, sync::mpsc};
use tonic::transport::{Channel, Endpoint};

use proto::v1;

/// Connects to a node; called again when a connection is lost.
pub type Connector =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Channel, ConnectError>> + Send>> + Send>;

/// The kind of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A Mutua node.
    Mutua,
    /// An etcd.
    Etcd,
}

/// A request to hold a lock.
#[derive(Clone, Debug)]
pub struct HoldRequest {
    /// The lock's name.
    pub name: Vec<u8>,
    /// The limit on the wait; zero tries once; `None`: no limit.
    pub wait: Option<Duration>,
    /// The value of a candidate: the request is a campaign in the election of this name.
    pub value: Option<Vec<u8>>,
    /// The lease.
    pub ttl: Duration,
    /// The client, as other clients see it.
    pub client: v1::Client,
    /// Whether a supervisor ends what this process runs if this process ends: the lock is then held
    /// until the supervisor closes the session, or until the lease expires.
    pub supervised: bool,
    /// The node's socket, if it is on this machine. The holder leaves a mark there, which the next
    /// node finds though the data directory may be lost.
    pub socket: Option<PathBuf>,
}

/// An event of a request, in the order in which they happen.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session is open.
    Opened {
        /// Its number.
        session: i64,
        /// The node's version.
        version: String,
        /// The clients that its locks exclude.
        scope: Scope,
        /// Its lease, which may be shorter than the one that was asked for.
        ttl: Duration,
        /// For so long nothing is granted: the node did not stop cleanly, and waits for the clients
        /// of its last process.
        suspended_for: Duration,
    },
    /// The request waits.
    Waiting(v1::Waiting),
    /// The lock is held.
    Granted {
        /// The fencing token of this grant.
        fencing_token: u64,
        /// The time from the request to the grant.
        waited: Duration,
    },
    /// The lease does not expire before this moment.
    ValidUntil(Moment),
    /// The lock is not granted.
    Refused(v1::Refused),
    /// The lock is no longer held, for this reason.
    Lost(String),
    /// The lock is released, or the wait is cancelled, as requested. The last event.
    Released,
    /// The node cannot be reached, or has not confirmed a release, for this reason. The last event.
    Unreachable(String),
    /// A text to show to the user.
    Note(String),
}

/// A request that a task of its own keeps.
#[derive(Debug)]
pub struct Hold {
    /// The events of the request.
    pub events: mpsc::UnboundedReceiver<Event>,
    release: mpsc::UnboundedSender<()>,
}

impl Hold {
    /// Releases the lock, or cancels the wait. [`Event::Released`] follows when that is done.
    pub fn release(&self) {
        let _ = self.release.send(());
    }
}

/// Acquires a lock and keeps it until [`Hold::release`].
pub fn hold(connector: Connector, kind: Kind, request: HoldRequest) -> Hold {
    let (report, events) = mpsc::unbounded_channel();
    let (release, releases) = mpsc::unbounded_channel();
    match kind {
        Kind::Mutua => tokio::spawn(session::run(connector, request, report, releases)),
        Kind::Etcd => tokio::spawn(etcd::run(connector, request, report, releases)),
    };
    Hold { events, release }
}

/// Connects to `unix:PATH`, `HOST:PORT`, `http://HOST:PORT` or, with the certificates that
/// `MUTUA_CA`, `MUTUA_CERT` and `MUTUA_KEY` name, `https://HOST:PORT`.
///
/// # Errors
///
/// See [`ConnectError`].
pub async fn connect(endpoint: &str) -> Result<Channel, ConnectError> {
    let failed = |error: tonic::transport::Error| {
        // The innermost error is the system's.
        let causes = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
        let Some(last) = causes.last() else { return ConnectError::Unreachable(endpoint.into()) };
        let text = format!("{endpoint}: {last}");
        match last.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => ConnectError::Denied(format!(
                "{text}; a node serves its own user and root, and other users by rules in \
                 [[access]] of its configuration"
            )),
            _ => ConnectError::Unreachable(text),
        }
    };
    let address = normal(endpoint)?;
    if let Some(path) = address.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        // The connector below ignores this address.
        let local = Endpoint::from_static("http://localhost");
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { connect_to_socket(&path).await.map(TokioIo::new) }
        });
        return local.connect_with_connector(connector).await.map_err(failed);
    }
    if address.starts_with("https:") {
        return secure::connect(&address, failed).await;
    }
    let parsed = Endpoint::from_shared(address).map_err(|error| {
        ConnectError::Invalid(format!("invalid endpoint `{endpoint}`: {error}; use HOST:PORT"))
    })?;
    let parsed = parsed.tcp_nodelay(true).connect_timeout(Duration::from_secs(2));
    parsed.connect().await.map_err(failed)
}

/// The longest time that a node may take to accept a connection.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

/// Connects by the path, or by the kernel's name for it if nothing listens at the path.
async fn connect_to_socket(path: &Path) -> io::Result<UnixStream> {
    use io::ErrorKind::{PermissionDenied, WouldBlock};
    let mut connected = UnixStream::connect(path).await;
    // The node's backlog is full: it has not accepted all connections yet, or it is stopped.
    let begun = std::time::Instant::now();
    while connected.as_ref().is_err_and(|error| error.kind() == WouldBlock) {
        if begun.elapsed() > ACCEPT_LIMIT {
            return connected;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        connected = UnixStream::connect(path).await;
    }
    match connected {
        Ok(stream) => Ok(stream),
        Err(error) if error.kind() == PermissionDenied => Err(error),
        Err(error) => match endpoint::connect(path) {
            Ok(stream) => Ok(stream),
            Err(taken) if taken.kind() == PermissionDenied => Err(taken),
            Err(_) => Err(error),
        },
    }
}
