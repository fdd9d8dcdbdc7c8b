//! What can go wrong.

use std::io;

use crate::{ConfigError, disk::DiskError};

/// Why a node does not start. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its configuration contradicts itself or asks for what there is not.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot write.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// It cannot write the trace that is wanted.
    #[error("the trace cannot be written to {}: {error}", path.display())]
    Trace {
        /// Where.
        path: std::path::PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It was told to listen where others could reach it.
    #[error(
        "{address} can be reached from other machines, and nothing on the link is secret or proven \
         yet; listen on a loopback address, or say that it is meant to be insecure"
    )]
    NotLoopback {
        /// Where.
        address: String,
    },
}

/// Why a lock was not acquired. Nothing is held; whoever asked is in no queue any more.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody is inside or waits, and the caller did not want to wait.
    #[error("somebody is inside or waits")]
    Busy,
    /// It was not the caller's turn within the time it gave.
    #[error("not acquired in time")]
    TimedOut,
    /// Whether the lock is free cannot be known, since a member cannot be asked.
    #[error("member `{0}` cannot be reached")]
    Unreachable(String),
    /// Not all members are there, so nothing new is granted.
    #[error("nothing is granted now: {0}")]
    NoView(String),
    /// Too much waits to be sent to a member; later it may be better.
    #[error("too many messages wait to be sent to member `{0}`")]
    LinkFull(String),
    /// The node has stopped.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}
