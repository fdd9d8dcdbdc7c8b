//! When a view may begin: the leases of all incarnations that it removes have ended for certain.
//!
//! A lease of X has a majority of its view's voters, all of which answered after the ask was sent.
//! The coordinator has the words of a majority of the same voters that they answer X no more, with
//! the age of their last answers. Some voter is in both majorities. So the ask was sent before that
//! voter's last answer, the lease ends within L of it in real time, and the coordinator waits
//! L(1 + rho) less the age on its own clock from the arrival of the word, which is longer.
//!
//! X may instead say itself that it has left every earlier view and holds nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{DecidedState, DecidedView, Instance, LeaseRules, MemberId, ViewSettings, majority};
use crate::Moment;

/// The coordinator's wait for the leases of those whom a view removes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct BeginWait {
    removed: BTreeMap<Instance, Removed>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Removed {
    /// The voters of each view that it may have a lease in.
    voters: BTreeSet<BTreeSet<MemberId>>,
    /// From when on, by a voter's word, no lease that this voter acknowledged is left.
    free_at: BTreeMap<MemberId, Moment>,
    /// When it said itself that it has left.
    left: Option<Moment>,
}

impl BeginWait {
    /// The wait for this view, by what is decided.
    pub fn new(state: &DecidedState, view: &DecidedView) -> Self {
        let removed = state.removed(view).into_iter().map(|(instance, voters)| {
            (instance, Removed { voters, free_at: BTreeMap::new(), left: None })
        });
        Self { removed: removed.collect() }
    }

    /// Something was decided: a view that has begun everywhere ends the waits for those that it has
    /// waited for itself. Voters say no more of them.
    pub fn refresh(&mut self, state: &DecidedState, view: &DecidedView) {
        let known = state.removed(view);
        self.removed.retain(|instance, removed| match known.get(instance) {
            Some(voters) => {
                removed.voters.clone_from(voters);
                true
            }
            None => false,
        });
    }

    /// A voter answers that incarnation no more; its last answer was so long ago.
    pub fn gone(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        voter: MemberId,
        of: Instance,
        age: Duration,
    ) {
        if let Some(removed) = self.removed.get_mut(&of) {
            let at = now.after(settings.full_lease().saturating_sub(age));
            // Each word is true by itself, so the one that ends first counts.
            let known = removed.free_at.entry(voter).or_insert(at);
            *known = at.min(*known);
        }
    }

    /// That incarnation says that it has left all earlier views and holds nothing.
    pub fn left(&mut self, now: Moment, instance: Instance) {
        if let Some(removed) = self.removed.get_mut(&instance) {
            removed.left.get_or_insert(now);
        }
    }

    /// Whether nobody is removed.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// From when on nobody removed has a lease or renews a client; none while too few voters have
    /// spoken. What lost clients may hold counts from here.
    pub fn over_at(&self, settings: &ViewSettings) -> Option<Moment> {
        let mut over = Moment::ZERO;
        if settings.rules.lease == LeaseRules::BeginAtOnce {
            return Some(over);
        }
        for removed in self.removed.values() {
            if let Some(left) = removed.left {
                over = over.max(left);
                continue;
            }
            for voters in &removed.voters {
                let needed = match settings.rules.lease {
                    LeaseRules::OneVotersWord => 1,
                    _ => majority(voters.len()),
                };
                let mut words: Vec<_> = removed
                    .free_at
                    .iter()
                    .filter(|(voter, _)| voters.contains(voter))
                    .map(|(_, &at)| at)
                    .collect();
                words.sort_unstable();
                over = over.max(*words.get(needed - 1)?);
            }
        }
        Some(over)
    }
}
