//! What a desk wants done.

use std::time::Duration;

use super::{AskId, Name, SessionId, WaitId};

/// Something to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Ask the node for an entry, then call [`Desk::granted`](super::Desk::granted) or
    /// [`Desk::refused`](super::Desk::refused).
    Ask {
        /// What it is called from now on.
        ask: AskId,
        /// For which lock.
        name: Name,
        /// In which way.
        how: How,
    },
    /// Leave, or do not ask any longer.
    Drop {
        /// What was asked for.
        ask: AskId,
    },
    /// Somebody who asked is answered.
    Answer {
        /// Who.
        wait: WaitId,
        /// What.
        outcome: Outcome,
    },
    /// Somebody who is inside must leave.
    Lost {
        /// Whose session it is.
        session: SessionId,
        /// Which lock.
        name: Name,
        /// With which fence it was inside.
        fence: u64,
        /// Why.
        reason: String,
    },
    /// A session has ended.
    Ended {
        /// Which one.
        session: SessionId,
    },
    /// Write down, before doing anything after this, that leases as long as this may be out there:
    /// a node that starts after a crash is told it.
    Remember {
        /// The longest of them; zero: none.
        longest: Duration,
    },
    /// Nobody can claim anything any more: the node may take part in views.
    Join,
    /// A lock is not as it was.
    Changed {
        /// Which one.
        name: Name,
    },
}

/// How the node is asked for an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// Wait for it.
    Wait,
    /// Do not wait for it.
    Try,
    /// Somebody is inside with this fence since before the node's death.
    Claim(u64),
}

/// The answer to somebody who asked for a lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is inside.
    Granted {
        /// Its fence.
        fence: u64,
        /// How long it waited.
        waited: Duration,
    },
    /// Its session is inside already.
    Already {
        /// With this fence.
        fence: u64,
    },
    /// Somebody is inside or waits, and it did not want to wait.
    Busy,
    /// It has waited as long as it wanted to.
    TimedOut,
    /// Its session has ended.
    NoSession,
    /// It has been called off.
    Cancelled,
    /// The node cannot.
    Unavailable(String),
}
