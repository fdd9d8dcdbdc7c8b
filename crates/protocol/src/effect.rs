//! The protocol's effects and its answers to clients.

use mutua_algorithms::FencingToken;
use mutua_trace::{Event, Header};

use crate::{
    CallId, Caller, Connection, Member, Ticket,
    view::Name,
    views::{Client, Command},
};

/// Something the driver has to do. Bytes for peers are not among the effects: see
/// [`Protocol::take_ready`](crate::Protocol::take_ready).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// A waiter holds the lock now.
    Granted {
        /// The waiter's ticket.
        ticket: Ticket,
        /// Its fencing token.
        fence: FencingToken,
    },
    /// A waiter waits no longer and does not get the lock.
    Refused {
        /// The waiter's ticket.
        ticket: Ticket,
        /// The reason.
        why: Refusal,
    },
    /// A holder is losing its lock: the view lease has lapsed, or this node is in no view any
    /// more. It must stop before [`Protocol::holds_until`](crate::Protocol::holds_until) and
    /// release; until then it counts as the holder. If it is the hold of a client in another
    /// process, another member serves that client. The fixed list of members never emits it.
    Lost {
        /// The holder's ticket.
        ticket: Ticket,
    },
    /// The hold is [recorded](crate::Protocol::record): its client may be informed of its grant.
    Recorded {
        /// The holder's ticket.
        ticket: Ticket,
    },
    /// This node holds a lock for a client of a node that is gone, and serves that client from now
    /// on: it releases the lock when the client does, or when its TTL has passed without a
    /// renewal.
    Custody {
        /// The lock's name.
        name: Name,
        /// Names the hold.
        ticket: Ticket,
        /// The fencing token of the hold, which the client has.
        fence: FencingToken,
        /// The client.
        client: Client,
    },
    /// Write this epoch to disk for good, then call
    /// [`Protocol::written`](crate::Protocol::written). It must never replace a later one.
    Write {
        /// The epoch to write.
        epoch: u32,
    },
    /// Close this connection; the protocol treats it as closed already.
    Close {
        /// The member at the other end.
        peer: Member,
        /// The connection to close.
        connection: Connection,
    },
    /// Write this to the trace; only after [`Protocol::trace`](crate::Protocol::trace).
    Trace {
        /// The trace.
        trace: TraceId,
        /// The next line.
        line: Box<TraceLine>,
    },
    /// Another member calls: answer with [`Protocol::reply`](crate::Protocol::reply).
    Called {
        /// The call to reply to.
        caller: Caller,
        /// The body of the call.
        body: Vec<u8>,
    },
    /// A member has replied to a call of this node.
    Replied {
        /// The call that [`Protocol::call`](crate::Protocol::call) returned.
        call: CallId,
        /// The body of the reply.
        body: Vec<u8>,
    },
    /// No reply to this call will come: the link broke, or the member restarted.
    Unanswered {
        /// The call that [`Protocol::call`](crate::Protocol::call) returned.
        call: CallId,
    },
    /// Propose this to the consensus engine. It may be lost: what matters is proposed again.
    Propose {
        /// The command to decide.
        command: Command,
    },
    /// The members have changed: dial the new ones, and no longer the former ones.
    Members,
    /// Write this to the node's log.
    Log {
        /// The severity.
        level: Level,
        /// The event, as a sentence.
        text: String,
    },
}

/// A trace of this node; no two ever have the same number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct TraceId(pub(crate) u64);

/// A line of a node's trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TraceLine {
    /// The first line.
    Header(Header),
    /// Every other line.
    Event(Event),
}

/// The severity of a line in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Part of normal operation.
    Info,
    /// An operator may have to act.
    Warning,
}

/// The immediate answer to a client's request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The client holds the lock.
    Granted {
        /// Names the hold from now on.
        ticket: Ticket,
        /// The fencing token of the hold.
        fence: FencingToken,
    },
    /// The client waits; [`Effect::Granted`] or [`Effect::Refused`] follows.
    Waiting {
        /// Names the waiter from now on.
        ticket: Ticket,
    },
    /// The client does not get the lock. Nothing was changed.
    Refused(Refusal),
}

/// Why a client does not get a lock.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another client holds the lock or waits for it.
    #[error("the lock is held or waited for")]
    Busy,
    /// A member whose answer is needed cannot be reached.
    #[error("member {0} cannot be reached")]
    Unreachable(Member),
    /// The node is in no view.
    #[error("no view: {0}")]
    NoView(String),
    /// Too many messages wait to be sent to a member; try again later.
    #[error("too many messages wait to be sent to member {0}")]
    LinkFull(Member),
}
