//! Locks of a node for programs that are not members of its cluster.

pub mod blocking;
mod connection;
mod election;
mod error;
mod lock;
mod run;
mod shared;
mod state;
mod watch;

pub use election::{Election, Leader, Leadership, Observer};
pub use error::{AcquireError, Holder, Lost};
pub use lock::{Guard, Lock};
pub use watch::Watch;

use std::{fmt, sync::Arc, time::Duration};

use shared::Shared;
use state::{Name, Settings, State};
use tokio::time::timeout;

use connection::Connection;

use crate::{CallError, ConnectError, Kind, Scope, explained, normal, proto::v1};

/// The lease unless [`Options::lease`] is set: as `mutua lock` has it.
const LEASE: Duration = Duration::from_secs(10);
/// How long requests wait for a node unless [`Options::unreachable_after`] is set.
const PATIENCE: Duration = Duration::from_secs(10);
/// A node that does not answer for so long is left for the next endpoint.
const SILENCE: Duration = Duration::from_secs(4);
/// A shorter lease ends while a client is only slow.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// A client of a node: one session, on one connection, for any number of locks.
///
/// A clone is the same session. The session is closed when all clones, locks and guards of it are
/// dropped.
#[derive(Clone)]
pub struct Client(Arc<Session>);

/// A session; closed when the last handle is dropped.
struct Session {
    shared: Arc<Shared>,
    scope: Scope,
    /// The endpoint at which the session began.
    first: String,
    /// How long calls wait for a node.
    patience: Duration,
}

impl Session {
    /// The endpoints at which a node may answer.
    fn endpoints(&self) -> Vec<String> {
        let mut endpoints = vec![self.first.clone()];
        endpoints.extend(self.shared.members());
        endpoints
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("scope", &self.0.scope).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a node with the default [`Options`]. The endpoint is `unix:PATH`, `HOST:PORT`
    /// or, with the certificates that `MUTUA_CA`, `MUTUA_CERT` and `MUTUA_KEY` name,
    /// `https://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(endpoint: impl Into<String>) -> Result<Self, ConnectError> {
        Options::new([endpoint]).connect().await
    }

    /// The lock of this name. Nothing is sent.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock::new(Arc::clone(&self.0), Name::from(name.as_ref()))
    }

    /// The election of this name. Nothing is sent.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(self.lock(name))
    }

    /// The clients that the locks of this session exclude.
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }
}

/// How a [`Client`] connects, and how others see it.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), mutua_client::ConnectError> {
/// let client = mutua_client::Options::new(["10.0.0.1:2380", "10.0.0.2:2380"])
///     .cluster("shop")
///     .owner("nightly-report")
///     .lease(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    endpoints: Vec<String>,
    settings: Settings,
}

impl Options {
    /// Options with these endpoints, which are tried in this order. Members of the cluster that
    /// are not listed are learned from the node.
    pub fn new<T: Into<String>>(endpoints: impl IntoIterator<Item = T>) -> Self {
        let arguments = std::env::args_os();
        let words: Vec<_> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        let command = words.join(" ");
        let client = v1::Client {
            owner: std::env::var("USER").unwrap_or_default(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            command,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let (ttl, patience) = (LEASE, PATIENCE);
        let settings = Settings { ttl, client, patience, cluster: None, promises: true };
        Self { endpoints: endpoints.into_iter().map(Into::into).collect(), settings }
    }

    /// The lease, 10 s by default and at least 1 s: locks expire this long after the last renewal.
    /// A node grants at most its `longest_lease`, which is 10 min by default.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.ttl = lease;
        self
    }

    /// The owner that `mutua ls` shows; the user's name by default.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.settings.client.owner = owner.into();
        self
    }

    /// Requests fail with [`AcquireError::Unreachable`] after this long without a node; 10 s by
    /// default.
    #[must_use]
    pub fn unreachable_after(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Has every hold recorded at other members before it is granted: it then outlives its node
    /// from the first moment, and each grant takes one round trip between members longer.
    ///
    /// By default a cluster grants at once, and records a hold that lasts for some milliseconds. If
    /// its node is lost before that, the guard is lost, at the end of the node's view lease at the
    /// latest, and before another client can hold the lock.
    #[must_use]
    pub fn record_first(mut self) -> Self {
        self.settings.promises = false;
        self
    }

    /// Refuses nodes that are not members of the cluster of this name.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.settings.cluster = Some(name.into());
        self
    }

    /// Connects to the first endpoint at which a node answers. A task on the present runtime keeps
    /// the session from then on. A node that accepts the connection and says nothing is left after
    /// some seconds if another endpoint follows, and after
    /// [`unreachable_after`](Self::unreachable_after) if it is the last one.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Unreachable`] if no node answers, [`ConnectError::Invalid`] if an endpoint
    /// or the lease is invalid or its server is not a node of the required cluster.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let endpoints: Vec<_> =
            self.endpoints.iter().map(|endpoint| normal(endpoint)).collect::<Result<_, _>>()?;
        let lease = self.settings.ttl;
        if lease < SHORTEST_LEASE {
            let text = format!("invalid lease of {lease:?}: use {SHORTEST_LEASE:?} or more");
            return Err(ConnectError::Invalid(text));
        }
        let mut failed = ConnectError::Invalid("no endpoint is given".to_owned());
        for (index, endpoint) in endpoints.iter().enumerate() {
            let is_last = index + 1 == endpoints.len();
            let limit = if is_last { self.settings.patience.max(SILENCE) } else { SILENCE };
            let silent = || {
                let text = format!("{endpoint} accepts connections and does not answer");
                Err(ConnectError::Unreachable(text))
            };
            match timeout(limit, self.try_endpoint(endpoint)).await.unwrap_or_else(|_| silent()) {
                Ok((connection, scope)) => {
                    let mut others = endpoints.clone();
                    let first = others.remove(index);
                    let patience = self.settings.patience;
                    let state = State::new(crate::now(), self.settings, others);
                    let shared = Arc::new(Shared::new(state));
                    tokio::spawn(run::run(Arc::clone(&shared), first.clone(), connection));
                    return Ok(Client(Arc::new(Session { shared, scope, first, patience })));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn try_endpoint(&self, endpoint: &str) -> Result<(Connection, Scope), ConnectError> {
        let connection = connection::open(endpoint).await?;
        let about = match connection.about().await {
            Ok(about) => about,
            Err(CallError::Connect(error)) => return Err(error),
            Err(error) => {
                let text = match explained(endpoint, error).await {
                    known @ CallError::NotForClients(_) => known.to_string(),
                    error => format!("{endpoint}: {error}"),
                };
                return Err(ConnectError::Unreachable(text));
            }
        };
        let wanted = self.settings.cluster.as_deref();
        if about.kind != Kind::Mutua {
            return Err(ConnectError::Invalid(format!("{endpoint} is not a node of Mutua")));
        }
        if wanted.is_some() && about.scope.cluster() != wanted {
            let (scope, wanted) = (&about.scope, wanted.unwrap_or_default());
            let text = format!("{endpoint} serves {scope}, not cluster {wanted}");
            return Err(ConnectError::Invalid(text));
        }
        Ok((connection, about.scope))
    }
}
