//! The verdicts on invariants of one's own.

use std::{borrow::Cow, collections::BTreeSet};

use mutua_algorithms::Claim;

use super::{Checker, Goal, Verdict};
use crate::{
    evidence::{CheckError, Evidence},
    ghost::Ghost,
    invariant::KindError,
    kinds::kinds_of,
    model::{Build, MOST_INVARIANTS, Model, invariant_bit},
    search::Reached,
    trail::trail_of,
    walk::Walked,
};

/// Parts of timestamps and messages, which no process has.
const PARTS: [&str; 5] = ["time", "node", "kind", "from", "to"];

impl Checker<'_> {
    /// Whether the search with this ghost judges the invariants too.
    pub(super) fn judges(&self, ghost: Ghost) -> bool {
        ghost == Ghost::None && !self.task.invariants.is_empty()
    }

    /// A model, with the invariants where they are judged.
    pub(super) fn build(&self, build: Build) -> Result<Model, CheckError> {
        let mut model = (self.make)(build)?;
        if self.judges(build.ghost) {
            let (invariants, most) = (self.task.invariants.len(), MOST_INVARIANTS);
            if invariants > most {
                return Err(CheckError::TooManyInvariants { invariants, most });
            }
            model.invariants.clone_from(&self.task.invariants);
        }
        Ok(model)
    }

    /// The properties and invariants of a search.
    pub(super) fn names(&self, ghost: Ghost, claims: &[Claim]) -> Vec<Cow<'static, str>> {
        let claims = claims.iter().map(|claim| claim.name().into());
        let invariants = if self.judges(ghost) { self.task.invariants.as_slice() } else { &[] };
        claims.chain(invariants.iter().map(|one| one.name().to_owned().into())).collect()
    }

    /// A kind of messages that the algorithm does not have is a mistake; one that is not sent in
    /// this system is none.
    pub(super) fn refuse_unknown_kinds(&self) -> Result<(), CheckError> {
        let is_repaired = self.task.system.repair.is_some();
        for invariant in &self.task.invariants {
            let named = invariant.kinds();
            // Most formulas name none.
            let known =
                if named.is_empty() { None } else { kinds_of(self.about.name, is_repaired) };
            let Some(known) = known else { continue };
            let Some(unknown) = named.into_iter().find(|kind| !known.contains(kind)) else {
                continue;
            };
            let alike = |kind: &str| strsim::normalized_damerau_levenshtein(unknown, kind);
            let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let why = KindError::UnknownKind {
                unknown: unknown.to_owned(),
                nearest: nearest.copied().unwrap_or_default(),
                known: known.iter().copied().collect::<Vec<_>>().join(", "),
            };
            return Err(CheckError::Unjudged { name: invariant.name().to_owned(), why });
        }
        Ok(())
    }

    pub(super) fn refuse_unjudged(
        &self,
        found: Option<&(usize, KindError)>,
    ) -> Result<(), CheckError> {
        let Some((place, why)) = found else { return Ok(()) };
        let name = self.task.invariants[*place].name().to_owned();
        Err(CheckError::Unjudged { name, why: why.clone() })
    }

    /// The verdicts, and as goals that the invariants are about something that happens.
    pub(super) fn judge_invariants(
        &mut self,
        model: &Model,
        reached: &Reached,
    ) -> Result<(), CheckError> {
        let over = reached.stopped.is_none();
        for (place, invariant) in model.invariants.iter().enumerate() {
            if over {
                self.refuse_unknown(model, place)?;
            }
            let evidence = self.evidence(model, reached, invariant_bit(place))?;
            let holds = match evidence {
                Evidence::Run(_) | Evidence::Lost => Some(false),
                Evidence::Refuted => return Err(self.contradiction(model, invariant.name())),
                Evidence::None => (over && reached.cut == 0).then_some(true),
            };
            let (name, trail) = (invariant.name().to_owned().into(), evidence.trail());
            self.report.verdicts.push(Verdict { name, claimed: true, holds, trail });
            if invariant.has_premise() {
                let name = format!("a premise of `{}` is true", invariant.name());
                self.report.goals.push(Goal { name, reached: reached.judged.is_met(place) });
            }
            let (_, kinds) = model.catalogue().names();
            for kind in invariant.kinds().into_iter().filter(|kind| !kinds.contains(kind)) {
                let name = format!("a {kind} is in flight, which `{}` names", invariant.name());
                self.report.goals.push(Goal { name, reached: false });
            }
        }
        Ok(())
    }

    /// A name that nothing has in any state is a mistake.
    fn refuse_unknown(&self, model: &Model, place: usize) -> Result<(), CheckError> {
        let (known, _) = model.catalogue().names();
        let invariant = &model.invariants[place];
        let is_known = |name: &str| known.contains(name) || PARTS.contains(&name);
        let Some(name) = invariant.variables().into_iter().find(|name| !is_known(name)) else {
            return Ok(());
        };
        let known: Vec<_> = known.into_iter().collect();
        let why = KindError::UnknownVariable { unknown: name.to_owned(), known: known.join(", ") };
        Err(CheckError::Unjudged { name: invariant.name().to_owned(), why })
    }

    /// Random runs can violate an invariant, but show of none that it holds.
    pub(super) fn walk_invariants(&mut self, model: &Model, walked: &Walked) {
        for (place, invariant) in model.invariants.iter().enumerate() {
            let is_it = |found: &&(u64, Vec<_>)| found.0 == invariant_bit(place);
            let trail =
                walked.found.iter().find(is_it).map(|(_, actions)| trail_of(model, actions));
            self.report.verdicts.push(Verdict {
                name: invariant.name().to_owned().into(),
                claimed: true,
                holds: trail.as_ref().map(|_| false),
                trail,
            });
        }
    }
}

/// Names of variables, and kinds of messages.
pub(crate) type Names = (BTreeSet<&'static str>, BTreeSet<&'static str>);
