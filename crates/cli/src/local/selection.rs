//! Selecting the node to connect to, and the scope that it must have.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use clap::Args;
use mutua_client::{About, Kind, Scope, about, connect, explained, normal};
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;

use super::{Endpoint, connect_or_start};
use crate::exit::{self, Coded, usage};

/// Options that select the node, the same in every command that needs one.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Connect to this endpoint, unix:PATH, HOST:PORT or, with the certificates that MUTUA_CA,
    /// MUTUA_CERT and MUTUA_KEY name, https://HOST:PORT [default: MUTUA_SOCKET, else the configured
    /// node of this host, else this user's].
    #[arg(long, value_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// Require a node of this cluster, as MUTUA_CLUSTER does: exit code 78 otherwise.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Require the node of this configuration: exit code 78 if another answers.
    #[arg(long, value_name = "FILE", conflicts_with = "endpoint")]
    config: Option<PathBuf>,
    /// Use this user's node on this host, even where a cluster is configured.
    #[arg(long, conflicts_with_all = ["endpoint", "cluster", "config"])]
    local: bool,
}

/// A requirement on the node.
#[derive(Clone, Debug)]
enum Condition {
    /// A node of this cluster, because of this option or variable.
    Cluster { name: String, by: &'static str },
    /// The node of this configuration.
    Member(Member),
    /// This user's local node.
    Local,
}

/// A node, as its configuration names it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) file: PathBuf,
    pub(crate) cluster: String,
    pub(crate) node: String,
}

/// Where the node serves.
#[derive(Clone, Debug)]
enum Location {
    /// At the given endpoint.
    Given(String),
    /// On this host, as configured or by default.
    Host(Endpoint),
}

/// The node to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    location: Location,
    conditions: Vec<Condition>,
}

impl Selection {
    /// Whether a node is selected on the command line.
    pub(crate) fn is_given(&self) -> bool {
        let Self { endpoint, cluster, config, local } = self;
        endpoint.is_some() || cluster.is_some() || config.is_some() || *local
    }

    /// Finds the node, without a connection.
    pub(crate) fn find(&self) -> Result<Target> {
        let mut conditions = self.clusters()?;
        if let Some(endpoint) = &self.endpoint {
            let endpoint = normal(endpoint).map_err(|error| exit::not_connected(&error))?;
            return Ok(Target { location: Location::Given(endpoint), conditions });
        }
        if self.local {
            if let Some(Condition::Cluster { name, by }) = conditions.first() {
                let text = format!("{by} requires cluster {name}: omit --local");
                return Err(Coded(exit::CONFIG, text).into());
            }
            conditions.push(Condition::Local);
            return Ok(Target { location: Location::Host(Endpoint::local()?), conditions });
        }
        let mut endpoint = match Endpoint::configured(self.config.as_deref())? {
            Some(endpoint) => endpoint,
            None if conditions.is_empty() => {
                super::notice::refuse_if_left()?;
                Endpoint::local()?
            }
            None => {
                return Err(unmet(
                    &conditions[0],
                    "no configuration was found, and this user's node is local",
                ));
            }
        };
        if let Some(member) = &endpoint.member {
            for condition in &conditions {
                condition.check(&member.node, &Scope::Cluster(member.cluster.clone())).map_err(
                    |_| unmet(condition, &format!("{} configures {member}", member.file.display())),
                )?;
            }
            conditions.push(Condition::Member(member.clone()));
        } else if !conditions.is_empty() {
            let socket = endpoint.socket.display();
            endpoint.never_start = Some(format!("no node of a cluster serves at {socket}"));
        }
        Ok(Target { location: Location::Host(endpoint), conditions })
    }

    /// The required clusters. Two that differ cannot both be met, which `Condition::check` reports.
    fn clusters(&self) -> Result<Vec<Condition>> {
        let option = self.cluster.clone();
        if option.as_deref() == Some("") {
            return Err(usage("--cluster is empty: give the name of the cluster"));
        }
        let variable = required_cluster()?;
        let option = option.map(|name| Condition::Cluster { name, by: "--cluster" });
        let variable = variable.map(|name| Condition::Cluster { name, by: "MUTUA_CLUSTER" });
        Ok(option.into_iter().chain(variable).collect())
    }
}

/// The cluster that `MUTUA_CLUSTER` requires.
pub(crate) fn required_cluster() -> Result<Option<String>> {
    match std::env::var("MUTUA_CLUSTER") {
        Ok(name) => Ok(Some(name).filter(|name| !name.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Coded(exit::CONFIG, format!("MUTUA_CLUSTER: {error}")).into()),
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {} of cluster {}", self.node, self.cluster)
    }
}

impl Condition {
    fn check(&self, node: &str, scope: &Scope) -> Result<(), ()> {
        let met = match self {
            Self::Cluster { name, .. } => scope.cluster() == Some(name),
            Self::Member(member) => {
                scope.configured_cluster() == Some(&*member.cluster) && node == member.node
            }
            Self::Local => *scope == Scope::Local,
        };
        met.then_some(()).ok_or(())
    }
}

/// The error for a condition that a node does not meet.
fn unmet(condition: &Condition, but: &str) -> anyhow::Error {
    let wanted = match condition {
        Condition::Cluster { name, by } => format!("{by} requires a node of cluster {name}"),
        Condition::Member(member) => format!("{} requires {member}", member.file.display()),
        Condition::Local => "--local requires this user's node".to_owned(),
    };
    Coded(exit::CONFIG, format!("{wanted}, but {but}; nothing was done")).into()
}

impl Target {
    /// The endpoint that a client connects to.
    pub(crate) fn endpoint(&self) -> String {
        match &self.location {
            Location::Given(endpoint) => endpoint.clone(),
            Location::Host(endpoint) => endpoint.endpoint(),
        }
    }

    /// The socket, if the node is on this host.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        match &self.location {
            Location::Given(endpoint) => endpoint.strip_prefix("unix:").map(PathBuf::from),
            Location::Host(endpoint) => Some(endpoint.socket.clone()),
        }
    }

    /// Whether this command starts the node itself, if it does not run.
    pub(crate) fn is_started_here(&self) -> bool {
        matches!(&self.location, Location::Host(endpoint) if endpoint.is_kept().is_none())
    }

    /// Connects, and starts this user's node if needed. Nothing is checked yet.
    async fn connect(&self) -> Result<Channel> {
        match &self.location {
            Location::Given(endpoint) => {
                connect(endpoint).await.map_err(|error| exit::not_connected(&error))
            }
            Location::Host(endpoint) => connect_or_start(endpoint).await,
        }
    }

    /// Connects to a server that meets all conditions. It must answer within the limit.
    pub(crate) async fn open(&self, limit: Duration) -> Result<(Channel, Kind)> {
        if let (Location::Host(_), []) = (&self.location, &*self.conditions) {
            // This user's node serves only the local scope, so it is not queried.
            return Ok((self.connect().await?, Kind::Mutua));
        }
        let (channel, about) = self.query(limit).await?;
        Ok((channel, about.kind))
    }

    /// Connects as [`open`](Self::open) does, and returns what the server reports about itself.
    pub(crate) async fn query(&self, limit: Duration) -> Result<(Channel, About)> {
        let silent = |_| exit::unavailable(format!("{} does not answer", self.endpoint()));
        let mut deadline = Instant::now() + limit;
        let channel = match &self.location {
            Location::Given(_) => timeout_at(deadline, self.connect()).await.map_err(silent)??,
            Location::Host(_) => {
                // Starting a node has a time limit of its own.
                let channel = self.connect().await?;
                deadline = Instant::now() + limit;
                channel
            }
        };
        let endpoint = self.endpoint();
        let about = async {
            match about(channel.clone()).await {
                Ok(about) => Ok(about),
                Err(error) => Err(explained(&endpoint, error).await),
            }
        };
        let about = timeout_at(deadline, about).await.map_err(silent)?;
        let about = about.map_err(|error| exit::unavailable(error.to_string()))?;
        self.check(&about)?;
        Ok((channel, about))
    }

    fn check(&self, about: &About) -> Result<()> {
        for condition in &self.conditions {
            condition.check(&about.node, &about.scope).map_err(|()| {
                let found = match &about.scope {
                    Scope::Local => "this user's node, whose locks are local".to_owned(),
                    Scope::Cluster(cluster) => format!("node {} of cluster {cluster}", about.node),
                    Scope::Node(cluster) => format!(
                        "node {}, which is in no cluster: its configuration lists no other member \
                         of {cluster}, so its locks exclude no other host; list all members, or \
                         found a cluster of one (`clustered = true`, `mutua cluster init`)",
                        about.node
                    ),
                    Scope::Etcd => "an etcd".to_owned(),
                    Scope::Unknown => "a node that reports no cluster".to_owned(),
                };
                unmet(condition, &format!("{} is {found}", self.endpoint()))
            })?;
        }
        Ok(())
    }
}

/// The configuration that all commands use: the given file, else `MUTUA_CONFIG`, else the system's.
pub(crate) fn config_file(named: Option<&Path>) -> PathBuf {
    named_config(named).unwrap_or_else(|| SYSTEM_CONFIG.into())
}

/// The configuration that an option or a variable names.
pub(super) fn named_config(option: Option<&Path>) -> Option<PathBuf> {
    let variable = || std::env::var_os("MUTUA_CONFIG").filter(|file| !file.is_empty());
    option.map(Path::to_owned).or_else(|| variable().map(PathBuf::from))
}

/// The system's configuration.
pub(crate) const SYSTEM_CONFIG: &str = "/etc/mutua/mutua.toml";
