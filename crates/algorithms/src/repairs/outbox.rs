//! The effects of a repair: those of mutual exclusion and those of an election.

use super::{ElectorMessage, RepairMessage};
use crate::{
    FencingToken, NodeId, Timer, Wait,
    outbox::{Buffer, Kept},
};

/// The effects of one event of a process with a repair; otherwise as
/// [`Outbox`](crate::Outbox) of mutual exclusion. `M` is the algorithm's message.
#[derive(Debug)]
pub struct Outbox<M> {
    pub(super) buffer: Buffer<RepairMessage<M>, Own>,
    /// For the calls of the algorithm.
    pub(super) algorithm: crate::Outbox<M>,
}

/// An effect of a process with a repair.
#[derive(Debug, Eq, PartialEq)]
pub enum Effect<'a, M> {
    /// Deliver `message` to `to`.
    Send {
        /// The receiver, never the sender itself.
        to: NodeId,
        /// The message to deliver.
        message: RepairMessage<M>,
        /// It only keeps things going: a driver may pace it.
        lazy: bool,
    },
    /// Deliver `message` to several: one message where the network has a multicast, else one each.
    Multicast {
        /// The receivers, without the sender, each once.
        to: &'a [NodeId],
        /// The message to deliver to each.
        message: RepairMessage<M>,
    },
    /// The local client is in the critical section now.
    Enter {
        /// Its fencing token: the view in the upper bits, the clock in the lower ones.
        token: FencingToken,
    },
    /// The algorithm is suspended here: no client enters until the next view.
    Suspend,
    /// This process leads the repair and starts the next view.
    StartView {
        /// The number of the view.
        view: u32,
    },
    /// The algorithm runs here again, in the view of this number.
    Resume {
        /// The number of the view.
        view: u32,
    },
    /// The survivor goes on without a crashed process, by a special repair.
    GoOn {
        /// The crashed process.
        without: NodeId,
    },
    /// The part of a crashed process is taken over here, with all that it knew.
    TakeOver {
        /// The crashed process.
        of: NodeId,
    },
    /// Call `timeout` with `timer` after this time; set anew, a timer starts over.
    SetTimer {
        /// The timer to start.
        timer: Timer,
        /// How long it runs.
        after: Wait,
    },
    /// Do not call `timeout` with `timer`, if it is set.
    CancelTimer {
        /// The timer to stop.
        timer: Timer,
    },
    /// A message was invalid and changed nothing.
    Nonsense {
        /// The sender.
        from: NodeId,
        /// The reason.
        why: &'static str,
    },
}

/// The effects that are neither messages nor invalid ones.
#[derive(Debug)]
pub(super) enum Own {
    Enter(FencingToken),
    Suspend,
    StartView(u32),
    Resume(u32),
    GoOn(NodeId),
    TakeOver(NodeId),
    SetTimer(Timer, Wait),
    CancelTimer(Timer),
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { buffer: Buffer::default(), algorithm: crate::Outbox::default() }
    }
}

impl<M> Outbox<M> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands every effect to `handle`, in order, and leaves the outbox empty.
    pub fn drain(&mut self, mut handle: impl FnMut(Effect<'_, M>)) {
        self.buffer.drain(|kept, to| {
            handle(match kept {
                Kept::Send { to, message, lazy } => Effect::Send { to, message, lazy },
                Kept::Multicast { message, .. } => Effect::Multicast { to, message },
                Kept::Own(Own::Enter(token)) => Effect::Enter { token },
                Kept::Own(Own::Suspend) => Effect::Suspend,
                Kept::Own(Own::StartView(view)) => Effect::StartView { view },
                Kept::Own(Own::Resume(view)) => Effect::Resume { view },
                Kept::Own(Own::GoOn(without)) => Effect::GoOn { without },
                Kept::Own(Own::TakeOver(of)) => Effect::TakeOver { of },
                Kept::Own(Own::SetTimer(timer, after)) => Effect::SetTimer { timer, after },
                Kept::Own(Own::CancelTimer(timer)) => Effect::CancelTimer { timer },
                Kept::Nonsense { from, why } => Effect::Nonsense { from, why },
            });
        });
    }

    pub(super) fn send(&mut self, to: NodeId, message: RepairMessage<M>) {
        self.buffer.effects.push(Kept::Send { to, message, lazy: false });
    }

    pub(super) fn multicast(
        &mut self,
        to: impl IntoIterator<Item = NodeId>,
        message: RepairMessage<M>,
    ) {
        self.buffer.multicast(to, message);
    }

    pub(super) fn own(&mut self, effect: Own) {
        self.buffer.effects.push(Kept::Own(effect));
    }

    pub(super) fn nonsense(&mut self, from: NodeId, why: &'static str) {
        self.buffer.nonsense(from, why);
    }

    /// Puts an effect of the election behind the others, its messages with the changes that the
    /// election is about; returns the coordinator if the effect is that one is elected.
    pub(super) fn add(
        &mut self,
        effect: crate::ElectionEffect<'_, ElectorMessage>,
        changes: &super::Changes,
    ) -> Option<NodeId> {
        use crate::ElectionEffect::{
            CancelTimer, Elected, Multicast, Nonsense, Send as SendTo, SetTimer,
        };
        let wrap = |message| RepairMessage::Election { changes: changes.clone(), message };
        match effect {
            SendTo { to, message } => self.send(to, wrap(message)),
            Multicast { to, message } => self.multicast(to.iter().copied(), wrap(message)),
            SetTimer { timer, after } => self.own(Own::SetTimer(timer, after)),
            CancelTimer { timer } => self.own(Own::CancelTimer(timer)),
            Nonsense { from, why } => self.nonsense(from, why),
            Elected { coordinator } => return Some(coordinator),
        }
        None
    }
}
