//! The effects of a lease table.

use std::time::Duration;

use super::{Name, Opening, RequestId, SessionId, WaitId};
use crate::Moment;

/// Something for the driver of a lease table to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    /// Request a lock from the node, then call
    /// [`LeaseTable::granted`](super::LeaseTable::granted) or
    /// [`LeaseTable::refused`](super::LeaseTable::refused).
    Request {
        /// The number of the request.
        request: RequestId,
        /// The lock's name.
        name: Name,
        /// Whether to wait, to try, or to reclaim.
        mode: Mode,
    },
    /// Release a lock at the node, or cancel its request.
    Drop {
        /// The request.
        request: RequestId,
    },
    /// Record the hold of this request at other members as this session's, then call
    /// [`LeaseTable::recorded`](super::LeaseTable::recorded).
    Keep {
        /// The request, which the node has granted.
        request: RequestId,
        /// The session that is to hold the lock.
        session: SessionId,
    },
    /// Call [`LeaseTable::prolong`](super::LeaseTable::prolong): the node may grant for longer than
    /// it has promised.
    Prolong {
        /// The request, which the node has granted.
        request: RequestId,
    },
    /// Notify a holder of what it is promised from now on, or that its hold is recorded.
    Promised {
        /// The holder's session.
        session: SessionId,
        /// The lock's name.
        name: Name,
        /// The fencing token of the grant.
        fencing_token: u64,
    },
    /// Another member serves this session: its streams end.
    Moved {
        /// The session.
        session: SessionId,
    },
    /// Send the outcome of a client's request.
    Reply {
        /// The client's request.
        wait: WaitId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// Notify a holder that its lock is lost.
    Lost {
        /// The holder's session.
        session: SessionId,
        /// The lock's name.
        name: Name,
        /// The fencing token of the lost grant.
        fencing_token: u64,
        /// Why it is lost.
        reason: String,
    },
    /// A session has ended.
    Ended {
        /// The session.
        session: SessionId,
    },
    /// Record, before any later effect, that holders may have leases of this length: after a crash
    /// the next incarnation starts from the record.
    Record {
        /// The longest lease; zero: no lock is held.
        longest: Duration,
    },
    /// Record, before any later effect, who holds this lock: after a crash the next incarnation
    /// waits for the client. Only where no other member records it.
    RecordHold {
        /// The lock's name.
        name: Name,
        /// The hold; `None`: it is over.
        hold: Option<Box<Held>>,
    },
    /// A lease was renewed this long before it would have expired.
    Renewed {
        /// The time that was left.
        left: Duration,
    },
    /// No lock can be reclaimed any more: the node may take part in views.
    Join,
    /// The holder or the waiters of a lock have changed.
    Changed {
        /// The lock's name.
        name: Name,
    },
}

/// A hold that the next incarnation of the node is to know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Held {
    pub(crate) fencing_token: u64,
    /// The session of its client.
    pub(crate) opening: Opening,
    /// When it was granted.
    pub(crate) since: Moment,
    /// When it ends, if nothing prolongs it any more; else `Moment::NEVER`.
    pub(crate) until: Moment,
    /// Whether it is broken.
    pub(crate) broken: bool,
}

/// The mode of a request to the node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Wait for the lock.
    Wait,
    /// Do not wait.
    Try,
    /// A client has held the lock with this fencing token since before the node's crash.
    Reclaim(u64),
}

/// The outcome of a client's request for a lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The client holds the lock.
    Granted {
        /// The grant's fencing token.
        fencing_token: u64,
        /// The time from the request to the grant.
        waited: Duration,
    },
    /// The session holds the lock already.
    Already {
        /// The fencing token of that grant.
        fencing_token: u64,
    },
    /// The lock is held or has waiters, and the request does not wait.
    Busy,
    /// The wait has reached its limit.
    TimedOut,
    /// The session has ended.
    NoSession,
    /// The request was cancelled.
    Cancelled,
    /// The node cannot grant it, for this reason.
    Unavailable(String),
}
