//! Orders of steps that commute: of some states only the steps at some processes are taken.
//!
//! Take a set of processes into which every link from another process holds a message. Links keep
//! order, so whatever the others do, they can only add behind what is there: what can happen in the
//! set now is all that can happen there next. And it commutes with what the others do, since each
//! step changes one process, the links out of it, and the head of one link into it. So it is enough
//! to take the steps in the set now and all others later (a persistent set).
//!
//! *At rest*: nothing is at rest while these messages are under way, so every state at rest is
//! still reached. *Two in the critical section*: a process stays in the critical section when a
//! message arrives, so if the others can violate safety by themselves they can do so after a
//! delivery in the set; and an entry in the set that is taken earlier than it was overlaps with at
//! least what it did overlap with.
//!
//! *Ghosts* are swept everywhere, at each exit (fencing) or entry (order, bypass). Deliveries and
//! requests commute with a sweep: what they add to the ghost of a process, or of what it sends, is
//! swept there instead of where it came from. An entry or exit in the set meets no other one among
//! the steps that it is moved before, as long as no two are in the critical section: a process that
//! is there when the step can be taken is one too many. So fencing and order are decided in this
//! way for what is safe, and what is not is searched in full. For bypass an entry counts whose
//! request has reached every process by then; moved before the others' deliveries it would count
//! too few. So there a set is taken only if no process enters in it. What else is moved forward can
//! only let an entry count more.
//!
//! *What is counted for the whole system* (faults, messages of the application) makes steps at
//! different processes compete; so nothing is left out before all of it is used up.
//!
//! Nothing must be put off for ever, so this is for systems in which no run goes round: a search
//! whose steps lead in a cycle is done again in full, and so is one that met a violated property,
//! since what lies behind that is not searched. (Where no reduced run goes round no run does, since
//! every run can be reordered into a reduced one that is not shorter.)

use super::{Step, Stepper};
use crate::{
    catalogue::{Delivery, EMPTY, ENTERED},
    ghost::Ghost,
    ids::{Id, LocalId, OutboxId},
    known::put,
};

impl Stepper<'_> {
    /// Takes the steps of some processes, if that is enough.
    pub(super) fn expand_some(
        &mut self,
        state: &[u32],
        next: &mut [u32],
        visit: &mut impl FnMut(Step<'_>),
    ) -> bool {
        if !self.model.partial_order || self.has_budget_left(state) {
            return false;
        }
        let Some(set) = self.persistent(state) else { return false };
        let processes = self.model.processes;
        for node in (0..processes).filter(|node| set & (1 << node) != 0) {
            self.expand_moves(state, node, next, visit);
        }
        for node in 0..processes {
            if self.targets_of(OutboxId(state[processes + node])) & set != 0 {
                self.expand_deliveries(state, node, set, next, visit);
            }
        }
        true
    }

    fn has_budget_left(&self, state: &[u32]) -> bool {
        self.model.has_budget && state[state.len() - 1] != 0
    }

    /// A smallest set of processes into which every link from another process holds a message, one
    /// bit for each, if one is smaller than all.
    fn persistent(&mut self, state: &[u32]) -> Option<u16> {
        let processes = self.model.processes;
        let all = (1_u16 << processes) - 1;
        let mut waits_for = [0_u16; 16];
        for from in 0..processes {
            let missing = all & !self.targets_of(OutboxId(state[processes + from])) & !(1 << from);
            for (to, waits_for) in waits_for[..processes].iter_mut().enumerate() {
                *waits_for |= ((missing >> to) & 1) << from;
            }
        }
        let mut sets = [0_u16; 16];
        for (node, set) in sets[..processes].iter_mut().enumerate() {
            *set = closure(1 << node, &waits_for);
        }
        let sets = &mut sets[..processes];
        sets.sort_unstable_by_key(|set| (set.count_ones(), set.trailing_zeros()));
        let mut tried = 0;
        for &set in sets.iter().take_while(|&&set| set != all) {
            if set != tried && self.is_quiet(state, set) {
                return Some(set);
            }
            tried = set;
        }
        None
    }

    /// Whether no ghost minds that the steps in the set are taken before others.
    fn is_quiet(&mut self, state: &[u32], set: u16) -> bool {
        if self.model.ghost != Ghost::Bypass {
            return true;
        }
        let processes = self.model.processes;
        let is_in = |node: usize| set & (1 << node) != 0;
        (0..processes)
            .filter(|&node| is_in(node))
            .all(|node| self.no_move_enters(LocalId(state[node])))
            && (0..processes)
                .all(|from| self.no_delivery_enters(state, OutboxId(state[processes + from]), set))
    }

    fn no_move_enters(&mut self, local: LocalId) -> bool {
        self.moves_of(local).all(|index| self.moves.items[index].outcome.marks & ENTERED == 0)
    }

    fn no_delivery_enters(&mut self, state: &[u32], outbox: OutboxId, set: u16) -> bool {
        self.targets_of(outbox) & set == 0
            || self.deliveries_of(outbox).all(|index| {
                let Delivery { to, packet, .. } = self.deliveries.items[index];
                let to = usize::from(to);
                set & (1 << to) == 0
                    || self.receive(LocalId(state[to]), packet).marks & ENTERED == 0
            })
    }

    /// The receivers of the messages in an outbox, one bit each.
    fn targets_of(&mut self, outbox: OutboxId) -> u16 {
        if outbox == EMPTY {
            return 0;
        }
        if let Some(Some(targets)) = self.targets.get(outbox.index()) {
            return *targets;
        }
        let range = self.deliveries_of(outbox);
        let deliveries = &self.deliveries.items[range];
        let targets = deliveries.iter().fold(0, |all, delivery| all | (1 << delivery.to));
        put(&mut self.targets, outbox, targets);
        targets
    }
}

/// These processes and all that they wait for.
fn closure(mut set: u16, waits_for: &[u16; 16]) -> u16 {
    let mut new = set;
    while new != 0 {
        let node = new.trailing_zeros() as usize;
        new |= waits_for[node] & !set;
        set |= new;
        new &= !(1 << node);
    }
    set
}
