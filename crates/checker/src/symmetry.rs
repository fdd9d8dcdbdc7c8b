//! States that differ by the names of processes only, where names decide nothing.
//!
//! The renamings that change nothing are a group: those that the algorithm allows, that map a
//! contender to one with as many entries, and that map the start to itself. Of all states that they
//! map to each other one is kept, the least array of numbers. Every step of a state is, renamed, a
//! step of the renamed one, so what can be reached is the same but for the names.
//!
//! Whether *some* process is in the critical section beside another, is overtaken, or waits at rest
//! does not depend on names. Whether *one* process waits for ever in a cycle does: in a cycle of
//! merged states its name may change from round to round. So where runs can go round, liveness is
//! searched for with nothing merged; see `check.rs`.

#[cfg(test)]
mod tests;

use mutua_algorithms::{NodeId, Renaming};

use crate::{
    ids::{LocalId, OutboxId},
    intern::Memo,
    model::Model,
};

/// A renaming that changes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Symmetry {
    pub(crate) renaming: Renaming,
    /// For each new name the old one.
    pub(crate) sources: Vec<u8>,
}

/// More renamings than this are not tried on every state; then some processes keep their names.
const MOST: usize = 120;

/// More processes than this have too many permutations to look through.
const MOST_PROCESSES: usize = 7;

/// The renamings that change nothing, without the identity.
pub(crate) fn group(processes: usize, is_symmetric: impl Fn(&Renaming) -> bool) -> Vec<Symmetry> {
    if processes > MOST_PROCESSES {
        return Vec::new();
    }
    let mut group = Vec::new();
    permutations(&mut (0..processes).collect(), 0, &mut |names| {
        let renaming = Renaming::new(names.iter().copied().map(NodeId::from).collect());
        let renaming = renaming.expect("a permutation");
        if is_symmetric(&renaming) {
            let old = |new| names.iter().position(|&name| name == new).expect("a permutation");
            let sources = (0..processes).map(|new| old(new) as u8).collect();
            group.push(Symmetry { renaming, sources });
        }
    });
    // The renamings that fix one process more are a group again.
    for fixed in 0..processes {
        if group.len() <= MOST {
            break;
        }
        group.retain(|symmetry| usize::from(symmetry.sources[fixed]) == fixed);
    }
    group.retain(|one| one.sources.iter().enumerate().any(|(new, &old)| usize::from(old) != new));
    group
}

fn permutations(names: &mut Vec<usize>, from: usize, visit: &mut dyn FnMut(&[usize])) {
    if from == names.len() {
        return visit(names);
    }
    for index in from..names.len() {
        names.swap(from, index);
        permutations(names, from + 1, visit);
        names.swap(from, index);
    }
}

impl Symmetry {
    /// A state under the new names.
    pub(crate) fn rename(&self, model: &Model, state: &[u32]) -> Vec<u32> {
        let processes = model.processes;
        let mut catalogue = model.catalogue();
        let mut renamed = state.to_vec();
        for (new, &old) in self.sources.iter().enumerate() {
            let old = usize::from(old);
            let (local, outbox) = (LocalId(state[old]), OutboxId(state[processes + old]));
            renamed[new] = catalogue.rename_local(local, &self.renaming).0;
            renamed[processes + new] = catalogue.rename_outbox(outbox, &self.renaming).0;
        }
        renamed
    }
}

/// Renamed situations that were worked out before, and the least of a state's renamings.
pub(crate) struct Orbits {
    locals: Memo<LocalId, u32, LocalId>,
    outboxes: Memo<OutboxId, u32, OutboxId>,
    least: Vec<u32>,
    other: Vec<u32>,
}

impl Orbits {
    pub(crate) fn new() -> Self {
        let (least, other) = (Vec::new(), Vec::new());
        Self { locals: Memo::new(), outboxes: Memo::new(), least, other }
    }

    /// Makes of a state the one that stands for all of its renamings.
    pub(crate) fn settle(&mut self, model: &Model, state: &mut [u32]) {
        let mut least = std::mem::take(&mut self.least);
        let mut other = std::mem::take(&mut self.other);
        least.clear();
        least.extend_from_slice(state);
        for index in 0..model.symmetries.len() {
            if self.rename_below(model, index, state, &least, &mut other) {
                std::mem::swap(&mut least, &mut other);
            }
        }
        state.copy_from_slice(&least);
        (self.least, self.other) = (least, other);
    }

    /// Whether a state renamed is below `least`; then it is in `other`. Most are not, which the
    /// first number decides.
    fn rename_below(
        &mut self,
        model: &Model,
        index: usize,
        state: &[u32],
        least: &[u32],
        other: &mut Vec<u32>,
    ) -> bool {
        let processes = model.processes;
        let mut is_below = false;
        other.clear();
        for (new, &least) in least[..2 * processes].iter().enumerate() {
            let old = usize::from(model.symmetries[index].sources[new % processes]);
            let renamed = if new < processes {
                self.local(model, index, LocalId(state[old])).0
            } else {
                self.outbox(model, index, OutboxId(state[processes + old])).0
            };
            if !is_below && renamed > least {
                return false;
            }
            is_below |= renamed < least;
            other.push(renamed);
        }
        other.extend_from_slice(&state[2 * processes..]);
        is_below
    }

    fn local(&mut self, model: &Model, index: usize, local: LocalId) -> LocalId {
        self.locals.get(local, index as u32).unwrap_or_else(|| {
            let renaming = &model.symmetries[index].renaming;
            let renamed = model.catalogue().rename_local(local, renaming);
            self.locals.set(local, index as u32, renamed);
            renamed
        })
    }

    fn outbox(&mut self, model: &Model, index: usize, outbox: OutboxId) -> OutboxId {
        self.outboxes.get(outbox, index as u32).unwrap_or_else(|| {
            let renaming = &model.symmetries[index].renaming;
            let renamed = model.catalogue().rename_outbox(outbox, renaming);
            self.outboxes.set(outbox, index as u32, renamed);
            renamed
        })
    }
}
