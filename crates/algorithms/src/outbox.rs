//! The effects of an event on a process, in their order.
//!
//! There are two outboxes, one for mutual exclusion and one for elections, so that a driver handles
//! the effects of its own contract and no others. What both have in common is stored by [`Buffer`].

use std::ops::Range;

use crate::{NodeId, Timer, Wait};

/// The effects of one event of mutual exclusion. The driver owns it, hands it to every handler and
/// drains it after each call; its memory is used again, so that a handler allocates nothing for its
/// effects.
#[derive(Debug)]
pub struct Outbox<M> {
    buffer: Buffer<M, Entry>,
    entered: bool,
}

/// An effect of mutual exclusion.
#[derive(Debug, Eq, PartialEq)]
pub enum Effect<'a, M> {
    /// Deliver `message` to `to`.
    Send {
        /// The receiver, never the sender itself.
        to: NodeId,
        /// The message to deliver.
        message: M,
        /// It only keeps things going (an idle token, the next read of a register): a driver may
        /// pace it.
        lazy: bool,
    },
    /// Deliver `message` to several: one message where the network has a multicast, else one each.
    Multicast {
        /// The receivers, without the sender, each once.
        to: &'a [NodeId],
        /// The message to deliver to each.
        message: M,
    },
    /// The local client is in the critical section now.
    Enter,
    /// A message was invalid and changed nothing.
    Nonsense {
        /// The sender.
        from: NodeId,
        /// The reason.
        why: &'static str,
    },
}

/// The effects of one event of an election; otherwise as [`Outbox`].
#[derive(Debug)]
pub struct ElectionOutbox<M> {
    buffer: Buffer<M, Decision>,
}

/// An effect of an election.
#[derive(Debug, Eq, PartialEq)]
pub enum ElectionEffect<'a, M> {
    /// Deliver `message` to `to`.
    Send {
        /// The receiver, never the sender itself.
        to: NodeId,
        /// The message to deliver.
        message: M,
    },
    /// Deliver `message` to several: one message where the network has a multicast, else one each.
    Multicast {
        /// The receivers, without the sender, each once.
        to: &'a [NodeId],
        /// The message to deliver to each.
        message: M,
    },
    /// This process takes `coordinator` for the elected one.
    Elected {
        /// The elected process.
        coordinator: NodeId,
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

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { buffer: Buffer::default(), entered: false }
    }
}

impl<M> Outbox<M> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends to one.
    pub fn send(&mut self, to: NodeId, message: M) {
        self.buffer.effects.push(Kept::Send { to, message, lazy: false });
    }

    /// Sends to one a message that only keeps things going; a driver may delay it.
    pub fn send_lazily(&mut self, to: NodeId, message: M) {
        self.buffer.effects.push(Kept::Send { to, message, lazy: true });
    }

    /// Sends the same to several. With no receiver nothing is sent.
    pub fn multicast(&mut self, to: impl IntoIterator<Item = NodeId>, message: M) {
        self.buffer.multicast(to, message);
    }

    /// Lets the local client enter the critical section.
    pub fn enter(&mut self) {
        self.entered = true;
        self.buffer.effects.push(Kept::Own(Entry));
    }

    /// Reports an invalid message.
    pub fn nonsense(&mut self, from: NodeId, why: &'static str) {
        self.buffer.nonsense(from, why);
    }

    /// Whether the event let the local client enter.
    pub fn entered(&self) -> bool {
        self.entered
    }

    /// Whether the event was an invalid message.
    pub fn refused(&self) -> bool {
        self.buffer.refused
    }

    /// Hands every effect to `handle`, in order, and leaves the outbox empty.
    pub fn drain(&mut self, mut handle: impl FnMut(Effect<'_, M>)) {
        self.buffer.drain(|kept, to| {
            handle(match kept {
                Kept::Send { to, message, lazy } => Effect::Send { to, message, lazy },
                Kept::Multicast { message, .. } => Effect::Multicast { to, message },
                Kept::Own(Entry) => Effect::Enter,
                Kept::Nonsense { from, why } => Effect::Nonsense { from, why },
            });
        });
        self.entered = false;
    }
}

impl<M> Default for ElectionOutbox<M> {
    fn default() -> Self {
        Self { buffer: Buffer::default() }
    }
}

impl<M> ElectionOutbox<M> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends to one.
    pub fn send(&mut self, to: NodeId, message: M) {
        self.buffer.effects.push(Kept::Send { to, message, lazy: false });
    }

    /// Sends the same to several. With no receiver nothing is sent.
    pub fn multicast(&mut self, to: impl IntoIterator<Item = NodeId>, message: M) {
        self.buffer.multicast(to, message);
    }

    /// Reports the elected process to the local client.
    pub fn elected(&mut self, coordinator: NodeId) {
        self.buffer.effects.push(Kept::Own(Decision::Elected { coordinator }));
    }

    /// Starts a timer.
    pub fn set_timer(&mut self, timer: Timer, after: Wait) {
        self.buffer.effects.push(Kept::Own(Decision::SetTimer { timer, after }));
    }

    /// Stops a timer.
    pub fn cancel_timer(&mut self, timer: Timer) {
        self.buffer.effects.push(Kept::Own(Decision::CancelTimer { timer }));
    }

    /// Reports an invalid message.
    pub fn nonsense(&mut self, from: NodeId, why: &'static str) {
        self.buffer.nonsense(from, why);
    }

    /// Hands every effect to `handle`, in order, and leaves the outbox empty.
    pub fn drain(&mut self, mut handle: impl FnMut(ElectionEffect<'_, M>)) {
        self.buffer.drain(|kept, receivers| {
            handle(match kept {
                Kept::Send { to, message, lazy: _ } => ElectionEffect::Send { to, message },
                Kept::Multicast { message, .. } => {
                    ElectionEffect::Multicast { to: receivers, message }
                }
                Kept::Own(Decision::Elected { coordinator }) => {
                    ElectionEffect::Elected { coordinator }
                }
                Kept::Own(Decision::SetTimer { timer, after }) => {
                    ElectionEffect::SetTimer { timer, after }
                }
                Kept::Own(Decision::CancelTimer { timer }) => ElectionEffect::CancelTimer { timer },
                Kept::Nonsense { from, why } => ElectionEffect::Nonsense { from, why },
            });
        });
    }
}

/// Effects in order; `X` are those that only one of the contracts has. The receivers of all
/// multicasts are in one list, so that a multicast allocates nothing.
#[derive(Debug)]
pub(crate) struct Buffer<M, X> {
    pub(crate) effects: Vec<Kept<M, X>>,
    receivers: Vec<NodeId>,
    refused: bool,
}

#[derive(Debug)]
pub(crate) enum Kept<M, X> {
    Send { to: NodeId, message: M, lazy: bool },
    Multicast { to: Range<usize>, message: M },
    Own(X),
    Nonsense { from: NodeId, why: &'static str },
}

#[derive(Debug)]
struct Entry;

#[derive(Debug)]
enum Decision {
    Elected { coordinator: NodeId },
    SetTimer { timer: Timer, after: Wait },
    CancelTimer { timer: Timer },
}

impl<M, X> Default for Buffer<M, X> {
    fn default() -> Self {
        Self { effects: Vec::new(), receivers: Vec::new(), refused: false }
    }
}

impl<M, X> Buffer<M, X> {
    pub(crate) fn multicast(&mut self, to: impl IntoIterator<Item = NodeId>, message: M) {
        let start = self.receivers.len();
        self.receivers.extend(to);
        if self.receivers.len() > start {
            self.effects.push(Kept::Multicast { to: start..self.receivers.len(), message });
        }
    }

    pub(crate) fn nonsense(&mut self, from: NodeId, why: &'static str) {
        self.refused = true;
        self.effects.push(Kept::Nonsense { from, why });
    }

    /// Hands over every effect, a multicast with its receivers.
    pub(crate) fn drain(&mut self, mut handle: impl FnMut(Kept<M, X>, &[NodeId])) {
        for kept in self.effects.drain(..) {
            let receivers = match &kept {
                Kept::Multicast { to, .. } => &self.receivers[to.clone()],
                Kept::Send { .. } | Kept::Own(_) | Kept::Nonsense { .. } => &[],
            };
            handle(kept, receivers);
        }
        self.receivers.clear();
        self.refused = false;
    }
}
