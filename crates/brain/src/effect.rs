//! What the brain wants done, and what it answers.

use mutua_algorithms::Fence;
use mutua_trace::{Event, Header};

use crate::{CallId, Caller, Connection, Member, Ticket};

/// Something the shell has to do. The brain's output to its peers is not among them: see
/// [`Brain::take_ready`](crate::Brain::take_ready).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Somebody who waited is inside.
    Granted {
        /// Who.
        ticket: Ticket,
        /// With which fence.
        fence: Fence,
    },
    /// Somebody who waited will not get in.
    Refused {
        /// Who.
        ticket: Ticket,
        /// Why not.
        why: Refusal,
    },
    /// Somebody who was inside is no longer.
    Lost {
        /// Who.
        ticket: Ticket,
    },
    /// Write this epoch to disk for good, then call [`Brain::written`](crate::Brain::written). It
    /// must never take the place of a later one.
    Write {
        /// The epoch.
        epoch: u32,
    },
    /// Close this connection; the brain takes it for closed already.
    Close {
        /// To whom it is.
        peer: Member,
        /// Which one.
        connection: Connection,
    },
    /// Write this to the trace; only after [`Brain::trace`](crate::Brain::trace).
    Trace {
        /// The next line.
        line: Box<TraceLine>,
    },
    /// Another member asks something: answer it with [`Brain::reply`](crate::Brain::reply).
    Called {
        /// Who.
        caller: Caller,
        /// What.
        body: Vec<u8>,
    },
    /// A member has answered what it was asked.
    Replied {
        /// Which question.
        call: CallId,
        /// The answer.
        body: Vec<u8>,
    },
    /// A member that was asked something is gone, or another than it was.
    Unanswered {
        /// Which question.
        call: CallId,
    },
    /// Tell whoever runs the node.
    Log {
        /// Whether it is a worry.
        level: Level,
        /// What happened.
        text: String,
    },
}

/// A line of a node's trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TraceLine {
    /// The first.
    Header(Header),
    /// Every other.
    Event(Event),
}

/// How much somebody should worry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Not at all.
    Info,
    /// Something is not as it should be.
    Warning,
}

/// What a client is told at once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It is inside.
    Granted {
        /// What it is called from now on.
        ticket: Ticket,
        /// Its fence.
        fence: Fence,
    },
    /// It waits; an effect will tell more.
    Waiting {
        /// What it is called from now on.
        ticket: Ticket,
    },
    /// It does not get in. Nothing was changed.
    Refused(Refusal),
}

/// Why somebody does not get in.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Somebody is inside or waits already.
    #[error("somebody is inside or waits")]
    Busy,
    /// A member that must be asked cannot be reached.
    #[error("member {0} cannot be reached")]
    Unreachable(Member),
    /// Not all members are there.
    #[error("no view: {0}")]
    NoView(String),
    /// Too much waits to be sent to a member; try again later.
    #[error("too many messages wait to be sent to member {0}")]
    LinkFull(Member),
}
