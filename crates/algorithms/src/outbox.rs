//! What a machine wants done, in the order in which it wants it done.

use std::ops::Range;

use crate::{NodeId, Timer, Wait};

/// The effects of one event. Owned by the driver, handed to every handler, and drained after each
/// call; its memory is used again, so that a handler allocates nothing for its effects.
#[derive(Debug)]
pub struct Outbox<M> {
    effects: Vec<Kept<M>>,
    recipients: Vec<NodeId>,
    entered: bool,
    refused: bool,
}

#[derive(Debug)]
enum Kept<M> {
    Send { to: NodeId, message: M, lazy: bool },
    Multicast { to: Range<usize>, message: M },
    Enter,
    Elected { coordinator: NodeId },
    SetTimer { timer: Timer, after: Wait },
    CancelTimer { timer: Timer },
    Nonsense { from: NodeId, why: &'static str },
}

/// Something a machine wants done.
#[derive(Debug, Eq, PartialEq)]
pub enum Effect<'a, M> {
    /// Deliver `message` to `to`.
    Send {
        /// The receiver, never the sender itself.
        to: NodeId,
        /// What to deliver.
        message: M,
        /// It only keeps things going (an idle token, the next read of a register): a driver may
        /// pace it.
        lazy: bool,
    },
    /// Deliver `message` to several: one message where the network has a multicast, else one each.
    Multicast {
        /// The receivers, without the sender, each once.
        to: &'a [NodeId],
        /// What to deliver to each.
        message: M,
    },
    /// The local client is inside the critical section now. (Mutual exclusion only.)
    Enter,
    /// This process takes `coordinator` for the elected one. (Elections only.)
    Elected {
        /// Who was elected.
        coordinator: NodeId,
    },
    /// Call `timeout` with `timer` after this time; set anew, a timer starts over. (Elections
    /// only.)
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// How long to wait.
        after: Wait,
    },
    /// Do not call `timeout` with `timer`, if it is set. (Elections only.)
    CancelTimer {
        /// Which timer.
        timer: Timer,
    },
    /// A message made no sense and changed nothing.
    Nonsense {
        /// Who sent it.
        from: NodeId,
        /// What was wrong with it.
        why: &'static str,
    },
}

impl<M> Default for Outbox<M> {
    fn default() -> Self {
        Self { effects: Vec::new(), recipients: Vec::new(), entered: false, refused: false }
    }
}

impl<M> Outbox<M> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends to one.
    pub fn send(&mut self, to: NodeId, message: M) {
        self.effects.push(Kept::Send { to, message, lazy: false });
    }

    /// Sends to one what only keeps things going; a driver may take its time.
    pub fn send_lazily(&mut self, to: NodeId, message: M) {
        self.effects.push(Kept::Send { to, message, lazy: true });
    }

    /// Sends the same to several. To nobody: nothing is sent.
    pub fn multicast(&mut self, to: impl IntoIterator<Item = NodeId>, message: M) {
        let start = self.recipients.len();
        self.recipients.extend(to);
        if self.recipients.len() > start {
            self.effects.push(Kept::Multicast { to: start..self.recipients.len(), message });
        }
    }

    /// Lets the local client in.
    pub fn enter(&mut self) {
        self.entered = true;
        self.effects.push(Kept::Enter);
    }

    /// Tells the local client who was elected.
    pub fn elected(&mut self, coordinator: NodeId) {
        self.effects.push(Kept::Elected { coordinator });
    }

    /// Asks to be woken.
    pub fn set_timer(&mut self, timer: Timer, after: Wait) {
        self.effects.push(Kept::SetTimer { timer, after });
    }

    /// Asks not to be woken.
    pub fn cancel_timer(&mut self, timer: Timer) {
        self.effects.push(Kept::CancelTimer { timer });
    }

    /// Reports a message that made no sense.
    pub fn nonsense(&mut self, from: NodeId, why: &'static str) {
        self.refused = true;
        self.effects.push(Kept::Nonsense { from, why });
    }

    /// Whether the event let the local client in.
    pub fn entered(&self) -> bool {
        self.entered
    }

    /// Whether the event was a message that made no sense.
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// Hands every effect to `handle`, in order, and leaves the outbox empty.
    pub fn drain(&mut self, mut handle: impl FnMut(Effect<'_, M>)) {
        for kept in self.effects.drain(..) {
            handle(match kept {
                Kept::Send { to, message, lazy } => Effect::Send { to, message, lazy },
                Kept::Multicast { to, message } => {
                    Effect::Multicast { to: &self.recipients[to], message }
                }
                Kept::Enter => Effect::Enter,
                Kept::Elected { coordinator } => Effect::Elected { coordinator },
                Kept::SetTimer { timer, after } => Effect::SetTimer { timer, after },
                Kept::CancelTimer { timer } => Effect::CancelTimer { timer },
                Kept::Nonsense { from, why } => Effect::Nonsense { from, why },
            });
        }
        self.recipients.clear();
        self.entered = false;
        self.refused = false;
    }
}
