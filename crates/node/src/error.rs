//! The errors of a node.

use std::io;

use mutua_host::kernel_name;

use crate::{ConfigError, disk::DiskError};

/// Why a node does not start. No part of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid, or its certificates cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// Another process uses the address.
    #[error(
        "cannot listen on {address}: another process listens there{}: stop it, or give this node \
         another address",
        kernel_name::in_words(*process)
    )]
    AddressInUse {
        /// The address.
        address: String,
        /// The process, if it is known.
        process: Option<u32>,
    },
    /// The file of the trace cannot be created.
    #[error("cannot write the trace to {}: {error}", path.display())]
    Trace {
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The data directory belongs to another member.
    #[error(
        "this data directory is that of member {decided}, and the configuration is for \
         {configured}: a member keeps its name; use another data directory for another member"
    )]
    OtherMember {
        /// The member of the data directory.
        decided: String,
        /// The member of the configuration.
        configured: String,
    },
    /// The member has left its cluster.
    #[error(
        "this member has left the cluster: to join again, as a new member, remove {} and use \
         `mutua cluster join`",
        data.display()
    )]
    Left {
        /// The data directory.
        data: std::path::PathBuf,
    },
    /// The address is not on the loopback interface, there is no TLS, and `insecure` is not set.
    #[error(
        "{address} can be reached from other machines, and without TLS links are neither encrypted \
         nor authenticated: configure [tls] (see `mutua cert`), use a loopback address, or set \
         insecure"
    )]
    NotLoopback {
        /// The address.
        address: String,
    },
}

/// Why a lock was not acquired. The caller holds nothing and waits in no queue.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another client holds the lock or waits for it, and the caller did not want to wait.
    #[error("the lock is held or waited for")]
    Busy,
    /// The lock was not granted within the time limit.
    #[error("not acquired in time")]
    TimedOut,
    /// A member whose answer is needed cannot be reached, so it is unknown whether the lock is
    /// free.
    #[error("member `{0}` cannot be reached")]
    Unreachable(String),
    /// The node is in no view, so no lock is granted.
    #[error("no lock is granted now: {0}")]
    NoView(String),
    /// Too many messages wait to be sent to a member; try again later.
    #[error("too many messages wait to be sent to member `{0}`")]
    LinkFull(String),
    /// The node has stopped.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}
