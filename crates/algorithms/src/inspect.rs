//! The trait by which tools look into a process of mutual exclusion.

use std::{fmt::Debug, hash::Hash};

use serde::{Deserialize, Serialize};

use crate::{Fields, Mutex, NodeId, Outbox, Renaming, Stamp, Start, Time};

/// The part of a process that drivers, traces and the checker need beside the paper's rules, which
/// are [`Mutex`](crate::Mutex). Nothing here takes a step of the algorithm; only the hooks of the
/// repairs send messages, and no driver calls those but through a repair.
///
/// All state is in one value, so that the same type runs between real machines, in the simulator
/// and in the model checker.
pub trait Inspect: Clone + Debug + Eq + Hash + Send + Sync + Sized + 'static {
    /// Whether a request gets its place in the order by drawing a ticket, after it has reached
    /// every process; bypasses are counted from the ticket then.
    fn draws_ticket(_start: &Start) -> bool {
        false
    }

    /// The phase of the local client.
    fn phase(&self) -> Phase;

    /// Whether a request made now would be granted at once, with no message.
    fn would_enter_at_once(&self) -> bool;

    /// Whether this process can be replaced by a new one made from `start` and no process notices:
    /// it knows of none that is requesting or in the critical section, and the token or the
    /// permissions are where `start` puts them.
    fn is_at_start(&self, start: &Start) -> bool;

    /// The processes whose message the local client waits for, as far as this process knows; empty
    /// unless it is requesting.
    fn waits_for(&self) -> Vec<NodeId>;

    /// Whether the local client's request has its ticket, where it draws one.
    fn has_ticket(&self) -> bool {
        true
    }

    /// The state under the paper's names.
    fn variables(&self) -> Fields;

    /// Visits every clock reading in the state, so that a checker can shift them all alike.
    fn times(&mut self, _visit: &mut dyn FnMut(&mut Time)) {}

    /// Whether the processes can take each other's names like this and nothing else changes: no id
    /// breaks a tie or decides which process is next, and the structure stays the same. A checker
    /// may then merge systems that differ by names only. An algorithm that returns true implements
    /// [`rename`](Self::rename), and [`Message::rename`](crate::Message::rename) where messages
    /// carry ids.
    fn is_symmetric(_start: &Start, _renaming: &Renaming) -> bool {
        false
    }

    /// Gives every process in the state its new name.
    fn rename(&mut self, _renaming: &Renaming) {}

    /// A view begins in which these requests are pending, the oldest first: they are in the queue,
    /// as if they had been made in this order and all their messages had arrived. Called at every
    /// member, before everything else. False, and nothing has changed, where the algorithm has no
    /// such queue: each pending request is then made again.
    fn resume(
        &mut self,
        _start: &Start,
        _pending: &[Stamp],
        _out: &mut Outbox<Self::Message>,
    ) -> bool
    where
        Self: Mutex,
    {
        false
    }

    /// The repair after a crash that is cheaper than a new view; by default there is none.
    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::None
    }

    /// Whether the special repair suffices when this process crashes. A crashed coordinator, for
    /// one, needs an election.
    fn can_go_without(&self, _crashed: NodeId) -> bool {
        true
    }

    /// A process has crashed. Its requests leave, what it held is free, and its answers count as
    /// given. Called once at the report, and again while the client
    /// [waits for](Self::waits_for) the crashed process.
    fn go_without(&mut self, _crashed: NodeId, _out: &mut Outbox<Self::Message>)
    where
        Self: Mutex,
    {
    }

    /// The ring has closed over a gap: this process is `me` on the ring of `start` now.
    fn close_ring(&mut self, _me: NodeId, _start: &Start) {}

    /// The message that this process passed last to the next one on the ring, to pass it again.
    fn pass_again(&self) -> Option<Self::Message>
    where
        Self: Mutex,
    {
        None
    }

    /// Whether a process requests of this arbiter, by the structure that all know.
    fn requests_of(&self, _node: NodeId, _arbiter: NodeId) -> bool {
        false
    }

    /// What another process needs to know of our client to take over the part of an arbiter.
    /// Questions of the crashed arbiter that are open here are void.
    fn claim_at(&mut self, _arbiter: NodeId) -> Option<ClaimAt<Self::Message>>
    where
        Self: Mutex,
    {
        None
    }

    /// A process in the place of an arbiter: idle, and with no request known to it.
    fn stand_in(&self, _arbiter: NodeId) -> Option<Self> {
        None
    }
}

/// How the survivors of a crash go on without a new view.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum SpecialRepair {
    /// They cannot: every crash starts a view.
    #[default]
    None,
    /// Each survivor takes the crashed process out by itself, with no message.
    TakeOut,
    /// The ring closes over the crashed process. The process before the gap passes its last message
    /// again, which counts if it had not got past the gap.
    CloseRing {
        /// Each pass is acknowledged: a missing acknowledgement shows the gap.
        acknowledged: bool,
    },
    /// The next process takes over the part of the crashed arbiter, and rederives what that one
    /// knew from those that request of it.
    Takeover,
}

/// A request as its sender knows it, for the process that takes over an arbiter's part.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct ClaimAt<M> {
    /// The request.
    pub request: Stamp,
    /// Whether the arbiter has granted it, and it still has that.
    pub granted: bool,
    /// The request as it was sent to the arbiter.
    pub message: M,
}

/// The phase of a client; it goes round in this order.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub enum Phase {
    /// It has not requested the critical section.
    #[default]
    Idle,
    /// It has requested the critical section and waits.
    Requesting,
    /// It is in the critical section.
    InCs,
}

impl Phase {
    /// The phase in one word, for traces and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Requesting => "requesting",
            Self::InCs => "in_cs",
        }
    }
}
