//! Entries in the order of their timestamps, and messages of the application as what they do to a
//! clock. `check/stamps.rs` says why this decides EM3.

use mutua_algorithms::{Claim, NodeId};

use super::{Action, Step, Stepper};
use crate::{
    catalogue::{CLOCK_ONLY, Delivery, Move, NOTHING, Outcome},
    ids::{LocalId, OutboxId},
    known::small,
    model::{Properties, bit},
};

impl Stepper<'_> {
    /// A message of the application arrives at a process, from any other one, with any reading that
    /// it can have. Where it changes the clock alone it need not arrive before the next event here,
    /// nor before one that sends nothing.
    pub(super) fn expand_hearing(
        &mut self,
        state: &[u32],
        node: usize,
        next: &mut [u32],
        visit: &mut impl FnMut(Step<'_>),
    ) {
        for index in 0..self.heard_now(state, node) {
            let (from, outcome) = self.hearings[index];
            let action = Action::Hear { from, to: node as u8 };
            if !self.waits_for_event(outcome) {
                next.copy_from_slice(state);
                let violated = self.apply(next, node, outcome);
                visit(Step::new(action, next, outcome.effect, violated));
                continue;
            }
            for index in self.moves_of(outcome.local) {
                let Move { outcome: then, .. } = self.moves.items[index];
                if then.effect == NOTHING {
                    continue;
                }
                next.copy_from_slice(state);
                next[node] = outcome.local.0;
                let violated = self.apply(next, node, then);
                visit(Step::new(action, next, then.effect, violated));
            }
        }
    }

    /// The same before a message of the algorithm is received.
    pub(super) fn expand_hearing_first(
        &mut self,
        state: &[u32],
        delivery: Delivery,
        outbox: usize,
        next: &mut [u32],
        visit: &mut impl FnMut(Step<'_>),
    ) {
        let node = usize::from(delivery.to);
        for index in 0..self.heard_now(state, node) {
            let (from, outcome) = self.hearings[index];
            if !self.waits_for_event(outcome) {
                continue;
            }
            let then = self.receive(outcome.local, delivery.packet);
            if then.effect == NOTHING {
                continue;
            }
            next.copy_from_slice(state);
            next[node] = outcome.local.0;
            next[outbox] = delivery.rest.0;
            let violated = self.apply(next, node, then);
            let action = Action::Hear { from, to: delivery.to };
            visit(Step::new(action, next, then.effect, violated));
        }
    }

    /// Whether what was heard is put off until the next event at its process, which assumes that
    /// an algorithm uses a reading at once or not at all (`check/stamps.rs`). Not where orders of
    /// steps are left out: that puts off as much, and keeps all ways to a state equally long.
    fn waits_for_event(&self, heard: Outcome) -> bool {
        heard.marks & CLOCK_ONLY != 0 && !self.model.partial_order
    }

    /// Collects what a message of the application can do to a process now; how much that is.
    fn heard_now(&mut self, state: &[u32], node: usize) -> usize {
        self.hearings.clear();
        let local = LocalId(state[node]);
        if !self.look(local).hears {
            return 0;
        }
        for from in (0..self.model.processes).filter(|&from| from != node) {
            for sent in 0..=self.latest(state, from, node) {
                let outcome = self.hear(local, from, sent);
                let is_known = self.hearings.iter().any(|(_, other)| other.local == outcome.local);
                if outcome.local != local && !is_known {
                    self.hearings.push((from as u8, outcome));
                }
            }
        }
        self.hearings.len()
    }

    /// The latest reading of a message of the application that could arrive now: where links keep
    /// order it was sent before what is first on the link.
    fn latest(&mut self, state: &[u32], from: usize, to: usize) -> u64 {
        let head = self.head(OutboxId(state[self.model.processes + from]), to);
        head.unwrap_or_else(|| self.look(LocalId(state[from])).clock)
    }

    /// At an entry: no other request is earlier, and none will be. An idle process whose clock is
    /// lower could still make one.
    pub(super) fn judge_stamps(
        &mut self,
        next: &[u32],
        node: usize,
        outcome: Outcome,
    ) -> Properties {
        let before = self.look(LocalId(next[node])).requested;
        let ours = before.unwrap_or_else(|| self.look(outcome.local).clock);
        let mut others = (0..self.model.processes).filter(|&other| other != node);
        let earlier = others.any(|other| {
            let look = self.look(LocalId(next[other]));
            look.requested.unwrap_or(look.clock) < ours
        });
        if earlier { bit(Claim::Ordering) } else { 0 }
    }

    fn head(&mut self, outbox: OutboxId, to: usize) -> Option<u64> {
        let to = to as u32;
        self.heads.get(outbox, to).unwrap_or_else(|| {
            let head = self.model.catalogue().head(outbox, to);
            self.heads.set(outbox, to, head);
            head
        })
    }

    fn hear(&mut self, local: LocalId, from: usize, sent: u64) -> Outcome {
        let code = (from as u32) << 24 | small(sent);
        self.heard.get(local, code).unwrap_or_else(|| {
            let outcome = self.model.catalogue().hear(local, NodeId::from(from), sent);
            self.heard.set(local, code, outcome);
            outcome
        })
    }
}
