//! The scope of a lock: the clients that it excludes.

use std::fmt;

use crate::proto::v1;

/// The clients that a lock excludes. The same name in another scope is another lock.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Scope {
    /// The clients of one user on one host.
    Local,
    /// The clients of all members of the cluster of this name.
    Cluster(String),
    /// The clients of one node that is configured and in no cluster: its configuration lists no
    /// other member, and it has joined none. The name is that of the cluster that it would be in.
    Node(String),
    /// The clients of an etcd.
    Etcd,
    /// The node is of a version that does not report it.
    #[default]
    Unknown,
}

impl Scope {
    pub(crate) fn new(scope: v1::Scope, cluster: String) -> Self {
        match scope {
            v1::Scope::Local => Self::Local,
            v1::Scope::Cluster => Self::Cluster(cluster),
            v1::Scope::Node => Self::Node(cluster),
            v1::Scope::Unknown => Self::Unknown,
        }
    }

    /// The scope as a message names it.
    pub fn wire(&self) -> v1::Scope {
        match self {
            Self::Local => v1::Scope::Local,
            Self::Cluster(_) => v1::Scope::Cluster,
            Self::Node(_) => v1::Scope::Node,
            Self::Etcd | Self::Unknown => v1::Scope::Unknown,
        }
    }

    /// One word, for programs: `local`, `cluster`, `node`, `etcd` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cluster(_) => "cluster",
            Self::Node(_) => "node",
            Self::Etcd => "etcd",
            Self::Unknown => "unknown",
        }
    }

    /// The cluster's name.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Cluster(name) => Some(name),
            Self::Local | Self::Node(_) | Self::Etcd | Self::Unknown => None,
        }
    }

    /// The cluster that the node's configuration names, whether the node is in it or alone.
    pub fn configured_cluster(&self) -> Option<&str> {
        match self {
            Self::Cluster(name) | Self::Node(name) => Some(name),
            Self::Local | Self::Etcd | Self::Unknown => None,
        }
    }
}

/// For people: `local`, `cluster shop`, `node`, `etcd`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster() {
            Some(name) => write!(f, "cluster {name}"),
            None => f.write_str(self.word()),
        }
    }
}
