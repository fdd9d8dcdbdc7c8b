//! What view layers say to each other, and what a layer wants done.

use std::{collections::BTreeSet, time::Duration};

use mutua_algorithms::FencingToken;
use serde::{Deserialize, Serialize};

use super::{
    Command, DecidedState, Incarnation, Instance, MemberId, Plan, Record, Report, ViewNumber,
};
use crate::Moment;

/// How far a node is in the view that it names.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Stage {
    /// It is in no view.
    #[default]
    Out,
    /// It links to the others and asks for its lease.
    Joining,
    /// It has reported.
    Reported,
    /// It coordinates, all have reported, and time has to pass.
    Waiting {
        /// So long.
        left: Duration,
    },
    /// It has begun the view.
    Begun,
    /// It wants to be in no view.
    Leaving,
}

/// A message between view layers. All are repeated by their senders until they have had their
/// effect, so each may be lost, late, repeated or out of order. New variants go at the end.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// To all voters: asks for a lease, and says how the sender is.
    Ask(Ask),
    /// A voter's answer.
    Answer {
        /// The incarnation that asked.
        incarnation: Incarnation,
        /// The view it asked in.
        view: ViewNumber,
        /// The number of its ask.
        number: u64,
    },
    /// A voter has applied this view and answers these no more; how long ago it last did.
    Gone {
        /// The view.
        view: ViewNumber,
        /// The incarnations that it removes.
        ages: Vec<(Instance, Duration)>,
    },
    /// The sender has left all views before this one and holds nothing.
    Left {
        /// The view, which the sender is not in.
        below: ViewNumber,
    },
    /// What is decided, to a node that runs no consensus engine.
    Decided(Box<DecidedState>),
    /// To the view coordinator: what the sender holds, keeps and waits for.
    Report(Box<Report>),
    /// The coordinator has the report.
    Noted {
        /// The view.
        view: ViewNumber,
        /// The version of the report.
        version: u64,
        /// Records are lost: nothing begins for so long.
        quarantine: Option<Duration>,
    },
    /// To the view coordinator: has the view begun?
    Poll {
        /// The view.
        view: ViewNumber,
    },
    /// The view begins.
    Begin(Box<Plan>),
    /// To a keeper: keep these, by their numbers.
    Keep {
        /// The view.
        view: ViewNumber,
        /// The records.
        records: Vec<(u64, Record)>,
    },
    /// A keeper keeps them.
    Kept {
        /// The view.
        view: ViewNumber,
        /// The incarnation that sent the records.
        incarnation: Incarnation,
        /// The records' numbers.
        numbers: Vec<u64>,
    },
    /// To a keeper: these holds are over.
    Over {
        /// The view.
        view: ViewNumber,
        /// The locks, and the tokens they were held with.
        over: Vec<(Vec<u8>, FencingToken)>,
    },
}

/// An ask for a lease.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Its number, used once by an incarnation.
    pub number: u64,
    /// The view that the sender is in or joins; 0 if none.
    pub view: ViewNumber,
    /// The version of the decided state that it knows.
    pub known: u64,
    /// The incarnations that it hears from.
    pub sees: BTreeSet<Instance>,
    /// An epoch that the next view's must be above.
    pub floor: u32,
    /// How far it is in its view.
    pub stage: Stage,
    /// The newest level that it can use.
    pub newest: u16,
}

/// What a view layer wants done. Effects are to be done in order.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum ViewEffect {
    /// Send this to a member, whichever incarnation of it runs.
    Send {
        /// The receiver.
        to: MemberId,
        /// The message.
        message: Message,
    },
    /// Propose this to the consensus engine. It may be lost.
    Propose(Command),
    /// The node has left its view: nothing may be granted until the next begins. Holders keep what
    /// they hold and waiters go on waiting, unless it is `removed`: then guards in the process are
    /// lost, and must have stopped by `until`.
    Leave {
        /// The view.
        view: ViewNumber,
        /// Whether the node is not in the next one.
        removed: bool,
        /// The end of its lease.
        until: Moment,
    },
    /// Call [`ViewLayer::report`](super::ViewLayer::report).
    Report {
        /// The view that wants to know.
        view: ViewNumber,
    },
    /// A view begins. What the plan does not name this node the holder of, it holds no more.
    Begin(Box<Plan>),
    /// The lease has lapsed: nothing is granted, no session renewed, and guards in the process are
    /// lost. They count as holders until they are dropped or `until` has passed.
    Lapsed {
        /// The end of the lease.
        until: Moment,
    },
    /// The lease is back in the same view: settle all locks.
    Returned,
    /// All keepers have this record: its client may be notified, if the lease is good, and only in
    /// the view that it was recorded in. A custodian, or a host in a later view, confirms a hold to
    /// a client that names its token, and reports no grant that was not reported before.
    Recorded(Record),
}
