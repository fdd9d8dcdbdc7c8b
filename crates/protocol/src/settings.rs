//! The settings of a node, beside its rules.

use std::time::Duration;

/// Limits and times. The defaults suit a small cluster on a LAN.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The number of clients of one node that get a lock one after the other before other nodes get
    /// it.
    pub run: u32,
    /// The number of grants without waiting before the node reads its links: a client whose node
    /// has the token gets the lock by a direct call, in which nothing is read. It begins with one
    /// when the lock has come from another member, and doubles up to this. For the driver; the
    /// protocol does not use it.
    pub at_once: u32,
    /// How long a link may be down before the view ends.
    pub lost_after: Duration,
    /// The interval of heartbeats on a link without other messages.
    pub heartbeat: Duration,
    /// The number of messages that may wait on one link before new requests are refused.
    pub backlog: usize,
    /// The pause before a lazy message while a client wants the lock.
    pub pace_wanted: Duration,
    /// The same while no client does, at first.
    pub pace_idle: Duration,
    /// The longest pause, after a while.
    pub pace_rest: Duration,
    /// How long a name must be unused before all members agree to remove its state.
    pub idle_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            run: 16,
            at_once: 128,
            lost_after: Duration::from_secs(2),
            heartbeat: Duration::from_millis(500),
            backlog: 100_000,
            pace_wanted: Duration::from_millis(1),
            pace_idle: Duration::from_millis(10),
            pace_rest: Duration::from_millis(200),
            idle_after: Duration::from_secs(300),
        }
    }
}
