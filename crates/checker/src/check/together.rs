//! Several properties in one search.
//!
//! The ghost of fencing is one bit at each process and message. It changes no step, so a search
//! with it decides the properties that need no ghost too: one search instead of two. Behind a
//! violation nothing is looked at, though, so this counts only if all of them hold; otherwise each
//! group is searched by itself.

use mutua_algorithms::Claim;

use super::{Checker, Reduction, Verdict};
use crate::{
    cycles,
    evidence::CheckError,
    ghost::Ghost,
    limits::Stop,
    model::{Build, PANIC, bit},
    search::{Reached, Wanted},
};

/// What came of a search for several properties.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Together {
    /// All of them hold.
    Holds,
    /// Not all of them do, or there is a reason to search for each group by itself.
    Apart,
    /// It ended at a limit. With fewer states the properties without a ghost may still be decided.
    Limited,
}

impl Checker<'_> {
    /// Whether the properties without a ghost and fencing may be decided together.
    pub(super) fn go_together(&self, plain: &[Claim], wanted: &[Claim]) -> bool {
        let nothing_else = self.task.invariants.is_empty() && self.task.walks.is_none();
        // Within a number of steps, or of delays, a search ends early and decides little.
        let whole = self.task.limits.depth.is_none() && self.task.limits.delays.is_none();
        let is_first = self.task.first;
        !plain.is_empty() && wanted.contains(&Claim::Fencing) && nothing_else && whole && !is_first
    }

    /// Searches for the properties without a ghost and for fencing at once.
    pub(super) fn check_together(&mut self, plain: &[Claim]) -> Result<Together, CheckError> {
        let mut claims = plain.to_vec();
        claims.push(Claim::Fencing);
        let reduced = self.task.reduction == Reduction::All;
        let build = Build {
            shift: reduced,
            symmetry: reduced,
            partial_order: reduced,
            ..Build::plain(Ghost::Fencing)
        };
        let properties = claims.iter().fold(PANIC, |all, &claim| all | bit(claim));
        let wanted = Wanted { properties, first: false };
        let (model, reached) = self.search_reduced(build, wanted, true)?;
        if reached.stopped.is_some_and(|stop| stop != Stop::Found) {
            self.record_search(&model, &[Claim::Fencing], &reached);
            return Ok(Together::Limited);
        }
        let waits_for_ever = |reached: &Reached| {
            let links = self.task.system.links(self.about);
            reached.backward > 0 && cycles::find_trap(&model, reached, links).is_some()
        };
        if reached.cut != 0 || !reached.found.is_empty() || waits_for_ever(&reached) {
            self.spent += reached.seconds;
            return Ok(Together::Apart);
        }
        self.record_search(&model, &claims, &reached);
        for claim in claims {
            let (name, claimed) = (claim.name().into(), self.is_claimed(claim));
            self.report.verdicts.push(Verdict { name, claimed, holds: Some(true), trail: None });
        }
        let seen = model.catalogue().seen().rename(&model.symmetries);
        self.report.goals = self.goals(&seen);
        Ok(Together::Holds)
    }
}
