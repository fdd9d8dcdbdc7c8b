//! Why a lock is not held.

use std::{fmt, time::Duration};

use crate::proto::v1;

/// Why a lock was not acquired. After any of these nothing is held, and the caller is in no queue.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The lock is held or has waiters, and the call does not wait.
    #[error("the lock is held or has waiters{}", held_by(holder.as_deref()))]
    Busy {
        /// The holder, as far as it is known.
        holder: Option<Box<Holder>>,
    },
    /// The wait has reached its limit.
    #[error("the lock was not granted in time{}", held_by(holder.as_deref()))]
    TimedOut {
        /// The holder, as far as it is known.
        holder: Option<Box<Holder>>,
    },
    /// The node cannot grant the lock now, for this reason.
    #[error("the node cannot grant the lock: {0}")]
    Unavailable(String),
    /// No node could be reached for as long as [`Options::unreachable_after`] allows.
    ///
    /// [`Options::unreachable_after`]: crate::Options::unreachable_after
    #[error("no node can be reached: {0}")]
    Unreachable(String),
    /// The name or the request is invalid; repeating it does not help.
    #[error("the node refused the request: {0}")]
    Invalid(String),
    /// A rule of the node refuses it to this client; the text names the rule.
    #[error("{0}")]
    Denied(String),
    /// The client was closed, or the runtime that it ran on has ended.
    #[error("the client is closed")]
    Closed,
}

fn held_by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(": held by {holder}")).unwrap_or_default()
}

/// The lock is no longer held. The work that it protects must stop.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the lock is lost: {reason}")]
pub struct Lost {
    pub(crate) reason: String,
}

impl Lost {
    /// Why it is lost.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The holder of a lock, as it describes itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Holder {
    /// Its owner: a user name, or what the client chose.
    pub owner: String,
    /// Its machine.
    pub host: String,
    /// Its process on that machine; 0: unknown.
    pub pid: u32,
    /// The command it runs.
    pub command: String,
    /// The node that serves it; empty if there is only one.
    pub node: String,
    /// The fencing token of its grant.
    pub fencing_token: u64,
    /// For how long it has held the lock.
    pub held_for: Duration,
}

impl From<v1::Entry> for Holder {
    fn from(entry: v1::Entry) -> Self {
        let client = entry.client.unwrap_or_default();
        Self {
            owner: client.owner,
            host: client.host,
            pid: client.pid,
            command: client.command,
            node: entry.node,
            fencing_token: entry.fencing_token,
            held_for: Duration::from_millis(entry.for_ms),
        }
    }
}

/// `ann (pid 7404 on web1)`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.owner.is_empty() { "a client" } else { &self.owner };
        match (self.pid, &*self.host) {
            (0, "") => f.write_str(owner),
            (0, host) => write!(f, "{owner} (on {host})"),
            (pid, "") => write!(f, "{owner} (pid {pid})"),
            (pid, host) => write!(f, "{owner} (pid {pid} on {host})"),
        }
    }
}
