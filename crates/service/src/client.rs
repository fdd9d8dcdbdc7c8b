//! Being a client: of a node of ours, or of a real etcd.
//!
//! [`hold`] takes one lock and keeps it. It counts until when the lock is good from when the last
//! acknowledged renewal was *sent*, so that it never thinks longer than the node that it is inside.
//! When the connection breaks it comes back, to the next node if need be, and claims what it has.

mod address;
mod etcd;
pub(crate) mod session;

pub use address::{ConnectError, MAX_PATH, fits, normal};

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

use crate::{
    Moment, place,
    proto::v1::{self, locks_client::LocksClient, request::Ask},
};

/// How to reach a node; called again when a connection is lost.
pub type Connector =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Channel, String>> + Send>> + Send>;

/// What kind of server is at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A node of ours.
    Mutua,
    /// An etcd.
    Etcd,
}

/// What somebody wants to hold.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The lock's name.
    pub name: Vec<u8>,
    /// How long to wait for it; zero: not at all; none: for ever.
    pub wait: Option<Duration>,
    /// The lease.
    pub ttl: Duration,
    /// Who wants it.
    pub client: v1::Client,
    /// Whether what this process runs may outlive it.
    pub guarded: bool,
    /// The node's socket, if it is on this machine: its next life is to know of this one though
    /// the directory may be lost.
    pub place: Option<PathBuf>,
}

/// What happens to a wish.
#[derive(Clone, Debug)]
pub enum Event {
    /// There is a session. The text is what to tell the user, if anything.
    Opened {
        /// Its number.
        session: i64,
        /// The node's version.
        version: String,
    },
    /// It waits.
    Waiting(v1::Waiting),
    /// It is inside.
    Granted {
        /// Its fence.
        fence: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// It is inside until then at least.
    GoodUntil(Moment),
    /// It does not get in.
    Refused(v1::Refused),
    /// It must not be inside any more.
    Lost(String),
    /// It is not inside any more, as it wanted. The last event.
    Left,
    /// There is nobody to ask. The last event.
    Unreachable(String),
    /// Something that the user may want to know.
    Note(String),
}

/// A wish that is being looked after by a task.
#[derive(Debug)]
pub struct Hold {
    /// What happens to it.
    pub events: mpsc::UnboundedReceiver<Event>,
    leave: mpsc::UnboundedSender<()>,
}

impl Hold {
    /// Leaves, or waits no longer. [`Event::Left`] says when it is done.
    pub fn leave(&self) {
        let _ = self.leave.send(());
    }
}

/// Takes a lock and keeps it.
pub fn hold(connector: Connector, kind: Kind, wish: Wish) -> Hold {
    let (tell, events) = mpsc::unbounded_channel();
    let (leave, leaving) = mpsc::unbounded_channel();
    match kind {
        Kind::Mutua => tokio::spawn(session::run(connector, wish, tell, leaving)),
        Kind::Etcd => tokio::spawn(etcd::run(connector, wish, tell, leaving)),
    };
    Hold { events, leave }
}

/// Connects to `unix:PATH`, `HOST:PORT` or `http://HOST:PORT`.
///
/// # Errors
///
/// See [`ConnectError`].
pub async fn connect(endpoint: &str) -> Result<Channel, ConnectError> {
    let failed = |error: tonic::transport::Error| {
        // The innermost is what the system said.
        let causes = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
        let Some(last) = causes.last() else { return ConnectError::Unreachable(endpoint.into()) };
        let text = format!("{endpoint}: {last}");
        match last.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => ConnectError::Denied(text),
            _ => ConnectError::Unreachable(text),
        }
    };
    let address = normal(endpoint)?;
    if let Some(path) = address.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        // Nobody looks at the address.
        let local = Endpoint::from_static("http://localhost");
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { reach(&path).await.map(TokioIo::new) }
        });
        return local.connect_with_connector(connector).await.map_err(failed);
    }
    let parsed = Endpoint::from_shared(address).map_err(|error| {
        ConnectError::NoEndpoint(format!("`{endpoint}` is no endpoint: {error}; HOST:PORT is"))
    })?;
    let parsed = parsed.tcp_nodelay(true).connect_timeout(Duration::from_secs(2));
    parsed.connect().await.map_err(failed)
}

/// How long a node may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// By the path, or by the kernel's name for it if the path leads nowhere.
async fn reach(path: &Path) -> io::Result<UnixStream> {
    use io::ErrorKind::{PermissionDenied, WouldBlock};
    let mut connected = UnixStream::connect(path).await;
    // So many connect at once that the node has not accepted them all yet, or it is stopped.
    let begun = std::time::Instant::now();
    while connected.as_ref().is_err_and(|error| error.kind() == WouldBlock) {
        if begun.elapsed() > PATIENCE {
            return connected;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        connected = UnixStream::connect(path).await;
    }
    match connected {
        Ok(stream) => Ok(stream),
        Err(error) if error.kind() == PermissionDenied => Err(error),
        Err(error) => match place::reach(path) {
            Ok(stream) => Ok(stream),
            Err(taken) if taken.kind() == PermissionDenied => Err(taken),
            Err(_) => Err(error),
        },
    }
}

/// What answers at the other end.
///
/// # Errors
///
/// If nobody does.
pub async fn kind(channel: Channel) -> Result<Kind, String> {
    match LocksClient::new(channel).about(v1::AboutRequest {}).await {
        Ok(_) => Ok(Kind::Mutua),
        Err(status) if status.code() == tonic::Code::Unimplemented => Ok(Kind::Etcd),
        Err(status) => Err(status.message().to_owned()),
    }
}

/// Says goodbye to a session on behalf of somebody who is dead, and waits until it is heard. An
/// etcd has leases instead of sessions.
///
/// # Errors
///
/// A text that says what is wrong; nothing is freed then before the lease has run out.
pub fn goodbye(endpoint: &str, session: i64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let says = async {
        let channel = connect(endpoint).await.map_err(|error| error.to_string())?;
        let hello = v1::Hello { session, only_goodbye: true, ..Default::default() };
        let request = v1::Request { ask: Some(Ask::Hello(hello)) };
        let replies = LocksClient::new(channel.clone()).attach(tokio_stream::once(request)).await;
        let heard = match replies {
            Ok(replies) => replies.into_inner().message().await.map(drop),
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                etcd::revoke(channel, session).await
            }
            Err(status) => Err(status),
        };
        heard.map_err(|status| status.to_string())
    };
    let limit = Duration::from_secs(2);
    runtime.block_on(async {
        tokio::time::timeout(limit, says).await.map_err(|_| "no answer".to_owned())?
    })
}
