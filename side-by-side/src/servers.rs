//! Starts a system's servers from a temporary directory on free ports of loopback, and ends exactly
//! those.

pub(crate) mod peers;
mod process;

use std::{net::TcpListener, path::PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    spec::Client,
    systems::{ALGORITHMS, Kind, REDLOCKS},
};

pub(crate) use process::Server;

/// A system that runs.
pub(crate) struct Servers {
    kind: Kind,
    endpoints: Vec<String>,
    /// Dropped, and so ended, before the directory they live in.
    servers: Vec<Server>,
    /// In memory: what contenders write.
    memory: TempDir,
    /// On disk: what servers write.
    _disk: TempDir,
}

impl Servers {
    pub(crate) fn start(kind: &Kind) -> Result<Self> {
        let memory = directory("/dev/shm")?;
        let disk = directory("/var/tmp")?;
        let home = match kind {
            Kind::Etcd { fsync: false, .. } => memory.path().to_owned(),
            _ => disk.path().to_owned(),
        };
        let (servers, endpoints) = match kind {
            Kind::Served { nodes, algorithm } | Kind::Client { nodes, algorithm } => {
                peers::mutua(&home, *nodes, algorithm)?
            }
            Kind::Etcd { nodes, .. } => peers::etcd(&home, *nodes)?,
            Kind::Zookeeper { nodes } => peers::zookeeper(&home, *nodes)?,
            Kind::RedisPoll | Kind::RedisBlpop => peers::redis(&home, 1)?,
            Kind::Redlock => peers::redis(&home, REDLOCKS)?,
            Kind::Postgres => peers::postgres(&home)?,
            Kind::Ping => peers::ping(&home)?,
            Kind::LibraryEach { .. }
            | Kind::LibraryFew { .. }
            | Kind::Flock
            | Kind::Ring
            | Kind::Mutex => (Vec::new(), Vec::new()),
        };
        Ok(Self { kind: kind.clone(), endpoints, servers, memory, _disk: disk })
    }

    /// The servers' processes, without their children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers.iter().map(Server::pid).collect()
    }

    /// What is wrong with a server that has ended, if one has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.servers.iter_mut().find_map(Server::ended)
    }

    /// A file or directory of this name in memory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.memory.path().join(name)
    }

    /// How so many contender processes reach it. Each run gets new nodes where they live in
    /// contenders; `run` tells runs apart.
    pub(crate) fn client(&self, processes: usize, run: usize) -> Result<Client> {
        let endpoints = self.endpoints.clone();
        let endpoint = endpoints.first().cloned().unwrap_or_default();
        Ok(match &self.kind {
            Kind::LibraryEach { algorithm } => self.library(algorithm, processes, run)?,
            Kind::LibraryFew { .. } => self.library(ALGORITHMS[0], processes, run)?,
            Kind::Client { .. } => Client::Mutua { endpoints },
            Kind::Served { .. } | Kind::Etcd { .. } => Client::Grpc { endpoints },
            Kind::Zookeeper { .. } => Client::Zookeeper { endpoints },
            Kind::RedisPoll => Client::RedisPoll { endpoint },
            Kind::RedisBlpop => Client::RedisBlpop { endpoint },
            Kind::Redlock => Client::Redlock { endpoints },
            Kind::Postgres => Client::Postgres { endpoint },
            Kind::Flock => Client::Flock { directory: self.memory.path().to_owned() },
            Kind::Ring => Client::Ring { addresses: free_addresses(processes)? },
            Kind::Ping => Client::Ping { endpoint },
            Kind::Mutex => Client::Mutex,
        })
    }

    fn library(&self, algorithm: &str, processes: usize, run: usize) -> Result<Client> {
        Ok(Client::Library {
            algorithm: algorithm.to_owned(),
            addresses: free_addresses(processes)?,
            directory: self.file(&format!("nodes-{run}")),
        })
    }
}

/// A directory that other users may pass through: PostgreSQL does not run as root.
fn directory(parent: &str) -> Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o755);
    let mut builder = tempfile::Builder::new();
    builder.prefix("side-by-side-").permissions(permissions);
    builder.tempdir_in(parent).with_context(|| format!("no directory in {parent}"))
}

/// Addresses of loopback that nobody listens on.
pub(crate) fn free_addresses(count: usize) -> Result<Vec<String>> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}
