//! The trait that every election algorithm implements.

use std::{fmt::Debug, hash::Hash, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    About, ElectionOutbox, Fields, Message, NodeId, Start, StartError, UnknownName, names::by_name,
};

/// One process of an election algorithm: the sibling of [`Mutex`](crate::Mutex), with timers.
///
/// A crashed process receives nothing and fires no timers. A process that restarts is a new value,
/// made by [`new`](Self::new), on which [`restart`](Self::restart) is called.
pub trait Election: Clone + Debug + Eq + Hash + Send + Sync + Sized + 'static {
    /// The messages between processes.
    type Message: Message;

    /// Name, costs, claims, options: the algorithm's row in every table.
    const ABOUT: &'static About;

    /// Whether this start suits the algorithm, beyond what [`About`] declares.
    fn check(_start: &Start) -> Result<(), StartError> {
        Ok(())
    }

    /// Whether a process that restarts takes over from a coordinator with a lower id. Where it does
    /// not, E1 allows such a coordinator to stay.
    fn takes_over(_start: &Start) -> bool {
        true
    }

    /// A process that knows of no election yet, and of no coordinator.
    fn new(me: NodeId, start: &Start) -> Self;

    /// The local client suspects that the coordinator has crashed.
    fn start(&mut self, out: &mut ElectionOutbox<Self::Message>);

    /// This process has restarted after a crash, its memory lost.
    fn restart(&mut self, out: &mut ElectionOutbox<Self::Message>) {
        self.start(out);
    }

    /// A message arrives from another process.
    fn receive(
        &mut self,
        from: NodeId,
        message: Self::Message,
        out: &mut ElectionOutbox<Self::Message>,
    );

    /// A timer that was set has run out.
    fn timeout(&mut self, timer: Timer, out: &mut ElectionOutbox<Self::Message>);

    /// The coordinator, as far as this process knows; none while it is undecided.
    fn coordinator(&self) -> Option<NodeId>;

    /// Whether it takes part in an election that it does not yet know to be over.
    fn takes_part(&self) -> bool;

    /// The state under the paper's names.
    fn variables(&self) -> Fields;
}

/// A timer, by what it waits for. A process has one of each: set anew, it starts over; a driver
/// never fires one that was replaced or cancelled.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// Another process to answer.
    Answer,
    /// The elected process to announce itself.
    Announcement,
    /// The next look for others, or after the coordinator.
    Look,
    /// The next process on the ring to acknowledge what was passed to it. (Repairs.)
    Acknowledgement,
}

impl Timer {
    /// Every timer.
    pub const ALL: &'static [Self] =
        &[Self::Answer, Self::Announcement, Self::Look, Self::Acknowledgement];

    /// The name in one word, for traces and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Announcement => "announcement",
            Self::Look => "look",
            Self::Acknowledgement => "acknowledgement",
        }
    }
}

impl FromStr for Timer {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        by_name("timer", Self::ALL, Self::word, word)
    }
}

/// How long a timer runs, in terms of the bounds that a synchronous system promises; the driver
/// knows their lengths.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Wait {
    /// So many times the longest transmission, T_transmit.
    pub transmissions: u32,
    /// And so many times the longest handling of a message, T_process.
    pub handlings: u32,
}
