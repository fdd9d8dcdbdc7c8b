//! What can be set about a node, beside its rules.

use std::time::Duration;

/// Limits and times. The defaults suit a small cluster on a LAN.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many clients of one node may be inside one after the other before other nodes get their
    /// turn.
    pub run: u32,
    /// How many clients of one node may get inside without waiting before the node reads its links:
    /// who has the token enters with a direct call, in which nothing is read. It begins with one
    /// when the lock has come from elsewhere, and doubles up to this. For the shell; the brain does
    /// not know when it is called.
    pub at_once: u32,
    /// How long a link may be down before its member counts as lost and the view ends.
    pub lost_after: Duration,
    /// How often two nodes hear of each other when they have nothing to say.
    pub heartbeat: Duration,
    /// How many messages may wait on one link before new requests are refused.
    pub backlog: usize,
    /// The pause before a lazy message while somebody wants the lock.
    pub pace_wanted: Duration,
    /// The same while nobody does, at first.
    pub pace_idle: Duration,
    /// The same after a while.
    pub pace_rest: Duration,
    /// How long a name must be unused before all members agree to forget it.
    pub forget_after: Duration,
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
            forget_after: Duration::from_secs(300),
        }
    }
}
