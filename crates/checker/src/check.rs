//! A whole check: one search for each group of properties, and what came of it.

mod asked;
mod invariants;
mod stamps;
#[cfg(test)]
mod tests;
mod together;

use std::borrow::Cow;

pub use asked::checkable;
pub(crate) use asked::properties;
pub(crate) use invariants::Names;

use mutua_algorithms::{About, Claim, Kind, NodeId, self_stabilizing::Settling};

use together::Together;

use crate::{
    catalogue::Seen,
    cycles::{self, Trap},
    evidence::{CheckError, Evidence, weigh},
    ghost::Ghost,
    host::Host,
    invariant::Invariant,
    limits::{Limits, Stop},
    model::{Build, Model, PANIC, Properties, bit, invariant_bit},
    ring,
    search::{Reached, Wanted, search},
    system::{Detector, System},
    trail::{Trail, trail_of, trail_round, trail_to, way_to},
    walk::{Walks, walk},
};

/// A system and the properties to check of it.
#[derive(Clone, Debug)]
pub struct Task {
    /// The algorithm.
    pub name: String,
    /// The system of it.
    pub system: System,
    /// The properties to check; if none are given, those that it claims, and of a control those
    /// that one would expect.
    pub properties: Option<Vec<Claim>>,
    /// How far states are merged and orders of steps left out.
    pub reduction: Reduction,
    /// How far to go.
    pub limits: Limits,
    /// Stop a search at its first violation.
    pub first: bool,
    /// Run at random instead of searching, where a system is too large for that.
    pub walks: Option<Walks>,
    /// Invariants to judge in every state.
    pub invariants: Vec<Invariant>,
}

/// How far states are merged and orders of steps left out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Reduction {
    /// Every state counts.
    None,
    /// All that apply.
    #[default]
    All,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The searches, the one without ghosts first.
    pub searches: Vec<Search>,
    /// One for each property.
    pub verdicts: Vec<Verdict>,
    /// Events that ought to be possible, so that a vacuous model is noticed.
    pub goals: Vec<Goal>,
    /// The longest run until the ring is legitimate. (Dijkstra's ring under a daemon.)
    pub settling: Option<Settling>,
}

/// One search.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The properties that it decides.
    pub properties: Vec<Cow<'static, str>>,
    /// Distinct states.
    pub states: u64,
    /// Steps taken.
    pub steps: u64,
    /// Steps to the farthest state.
    pub depth: usize,
    /// Time taken.
    pub seconds: f64,
    /// Memory for the states; of several searches, of the one that needs most.
    pub bytes: usize,
    /// The states in that memory.
    pub stored: u64,
    /// Why it ended before everything was seen, if it did.
    pub stopped: Option<Stop>,
    /// Where it ended at a limit: every run of fewer steps than this was looked at. None where
    /// orders of steps were left out, since the one that stands for a run may be longer.
    pub covered: Option<usize>,
    /// How states were merged and steps left out.
    pub reductions: Vec<String>,
    /// The violated properties behind which nothing was searched.
    pub cut: Vec<&'static str>,
}

impl Search {
    /// Whether it ended at a limit, with more to be seen.
    pub fn is_limited(&self) -> bool {
        self.stopped.is_some_and(|stop| stop != Stop::Found)
    }

    /// Memory for a state.
    pub fn bytes_a_state(&self) -> f64 {
        self.bytes as f64 / self.stored.max(1) as f64
    }
}

/// The verdict on one property.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The name of the property, or of the invariant.
    pub name: Cow<'static, str>,
    /// Whether the algorithm claims it, as it was set up.
    pub claimed: bool,
    /// Whether it holds; nothing if the search ended before it was decided.
    pub holds: Option<bool>,
    /// A shortest counterexample; where the violation is a run for ever, one whose way into the
    /// cycle is shortest. None where it was found among merged states and the limits ended the
    /// search for a run.
    pub trail: Option<Trail>,
}

/// Something that ought to be possible.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Goal {
    /// The event in words.
    pub name: String,
    /// Whether it was reached.
    pub reached: bool,
}

impl Report {
    /// Whether some property does not hold.
    pub fn is_violated(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.holds == Some(false))
    }

    /// Whether every property was decided.
    pub fn is_complete(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds.is_some())
    }
}

/// The names of a set of properties. Invariants have none here: what is asked for beside them is
/// searched for apart.
fn names_of(properties: Properties) -> Vec<&'static str> {
    let all = checkable(Kind::Mutex).iter().chain(checkable(Kind::Election)).copied();
    let claims = all.filter(|&claim| properties & bit(claim) != 0);
    claims.map(Claim::name).chain((properties & PANIC != 0).then_some(NO_PANIC)).collect()
}

/// The name of the property that no code panics.
const NO_PANIC: &str = "no-panic";

/// Checks a system.
pub fn check(task: &Task, host: &mut dyn Host) -> Result<Report, CheckError> {
    let about = task.algorithm()?;
    if let Some(report) = ring::check(task, host)? {
        return Ok(report);
    }
    asked::refuse_unchecked(task, about)?;
    asked::refuse_unread(task, about)?;
    let make = |build| Model::new(&task.name, &task.system, build);
    let report = Report::default();
    let checker = Checker { task, about, make: &make, host, report, spent: 0.0 };
    checker.check()
}

/// The properties that need a ghost, the cheapest first: what does not fit then keeps nothing else
/// from being decided.
const WITH_GHOST: [(Claim, Ghost); 3] = [
    (Claim::Fencing, Ghost::Fencing),
    (Claim::BoundedBypass, Ghost::Bypass),
    (Claim::Ordering, Ghost::Ordering),
];

struct Checker<'a> {
    task: &'a Task,
    about: &'static About,
    /// Builds a model of the system.
    make: &'a dyn Fn(Build) -> Result<Model, CheckError>,
    host: &'a mut dyn Host,
    report: Report,
    /// The time of a search that decided nothing, to be counted with the next one.
    spent: f64,
}

impl Checker<'_> {
    fn check(mut self) -> Result<Report, CheckError> {
        self.refuse_unknown_kinds()?;
        let wanted = properties(self.task, self.about);
        let needs_ghost = |claim: &Claim| WITH_GHOST.iter().any(|(other, _)| other == claim);
        let plain: Vec<_> = wanted.iter().copied().filter(|claim| !needs_ghost(claim)).collect();
        let together = match self.go_together(&plain, &wanted) {
            true => self.check_together(&plain)?,
            false => Together::Apart,
        };
        let is_left = !plain.is_empty() || !self.task.invariants.is_empty();
        if is_left && together != Together::Holds {
            self.check_group(Ghost::None, &plain)?;
        }
        for (claim, ghost) in WITH_GHOST.into_iter().filter(|(claim, _)| wanted.contains(claim)) {
            if claim == Claim::Fencing && together == Together::Holds {
                continue;
            }
            let is_limited = claim == Claim::Fencing && together == Together::Limited;
            if is_limited || self.gives_up() {
                self.leave_open(claim);
            } else if claim != Claim::Ordering || !self.decide_by_stamps()? {
                self.check_group(ghost, &[claim])?;
            }
        }
        Ok(self.report)
    }

    /// Whether a search has met a limit and no further one is wanted then.
    fn gives_up(&self) -> bool {
        self.task.limits.give_up && self.report.searches.iter().any(Search::is_limited)
    }

    fn leave_open(&mut self, claim: Claim) {
        let (name, claimed) = (claim.name().into(), self.is_claimed(claim));
        self.report.verdicts.push(Verdict { name, claimed, holds: None, trail: None });
    }

    fn check_group(&mut self, ghost: Ghost, claims: &[Claim]) -> Result<(), CheckError> {
        if let Some(walks) = self.task.walks {
            return self.walk_group(ghost, claims, walks);
        }
        let reduced = self.task.reduction == Reduction::All;
        let delays = self.task.limits.delays;
        // Within so many steps, every run is meant, and not one that stands for it and is longer.
        let partial_order = reduced && self.task.limits.depth.is_none();
        let plain = Build::plain(ghost);
        let mut build = Build { shift: reduced, symmetry: reduced, partial_order, delays, ..plain };
        let mut properties = claims.iter().fold(PANIC, |all, &claim| all | bit(claim));
        if self.judges(ghost) {
            // Ids may decide in an invariant, and every state counts.
            build = Build { symmetry: false, partial_order: false, ..build };
            let places = 0..self.task.invariants.len();
            properties = places.fold(properties, |all, place| all | invariant_bit(place));
        }
        if ghost != Ghost::None {
            // Other properties are decided by the search without a ghost.
            properties = claims.iter().fold(0, |all, &claim| all | bit(claim));
        }
        let wanted = Wanted { properties, first: self.task.first };
        let (model, mut reached) = self.search_reduced(build, wanted, ghost == Ghost::None)?;
        reached.stopped = reached.stopped.or(delays.map(Stop::Delays));
        self.refuse_unjudged(reached.unjudged.as_ref())?;
        self.record_search(&model, claims, &reached);
        for &claim in claims {
            let verdict = self.judge(&model, &reached, claim)?;
            self.report.verdicts.push(verdict);
        }
        if ghost == Ghost::None {
            self.judge_panic(&model, &reached)?;
            let seen = model.catalogue().seen().rename(&model.symmetries);
            self.report.goals = self.goals(&seen);
            self.judge_invariants(&model, &reached)?;
        }
        Ok(())
    }

    /// Searches with what is merged and left out, and if that does not decide, with less. Whether a
    /// process waits for ever depends on `names`.
    fn search_reduced(
        &mut self,
        build: Build,
        wanted: Wanted,
        names: bool,
    ) -> Result<(Model, Reached), CheckError> {
        let model = self.build(build)?;
        let reached = search(&model, wanted, &self.task.limits, self.host);
        let over = reached.stopped.is_none();
        let left_out = model.partial_order || !model.symmetries.is_empty();
        if !over || !left_out {
            return Ok((model, reached));
        }
        let goes_round = cycles::go_round(&model, &reached);
        // Where runs can go round, a step could be put off for ever; and behind a violated property
        // nothing was looked at, so that another may lie behind an order that was left out.
        let partial_order = build.partial_order && !goes_round && reached.cut == 0;
        // A process that waits for ever in a cycle must keep its name there; no property with a
        // ghost is about that.
        let symmetry = build.symmetry && !(goes_round && names);
        let enough =
            (!model.partial_order || partial_order) && (model.symmetries.is_empty() || symmetry);
        if enough {
            return Ok((model, reached));
        }
        let seconds = reached.seconds;
        drop((model, reached));
        let build = Build { partial_order, symmetry, ..build };
        let model = self.build(build)?;
        let mut reached = search(&model, wanted, &self.task.limits, self.host);
        reached.seconds += seconds;
        Ok((model, reached))
    }

    /// Random runs for a group of properties: they can break one, but decide none that holds.
    fn walk_group(
        &mut self,
        ghost: Ghost,
        claims: &[Claim],
        walks: Walks,
    ) -> Result<(), CheckError> {
        let model = self.build(Build::plain(ghost))?;
        let walked = walk(&model, walks, &self.task.limits, self.host);
        self.refuse_unjudged(walked.unjudged.as_ref())?;
        self.report.searches.push(Search {
            properties: self.names(ghost, claims),
            states: 0,
            steps: walked.steps,
            depth: walked.longest,
            seconds: walked.seconds,
            bytes: 0,
            stopped: Some(Stop::Walked(walked.runs)),
            ..Search::default()
        });
        for &claim in claims {
            let found = walked.found.iter().find(|(property, _)| *property == bit(claim));
            let trail = found.map(|(_, actions)| trail_of(&model, actions));
            self.report.verdicts.push(Verdict {
                name: claim.name().into(),
                claimed: self.is_claimed(claim),
                holds: trail.as_ref().map(|_| false),
                trail,
            });
        }
        self.walk_invariants(&model, &walked);
        Ok(())
    }

    fn is_claimed(&self, claim: Claim) -> bool {
        let claims = self.about.claims_with(&self.task.system.setup.settings);
        match self.task.system.repair {
            None => claims.contains(&claim),
            Some(repair) => {
                let promised = repair.detector == Detector::Perfect && !repair.without_views;
                promised && (claim == Claim::Agreement || claims.contains(&claim))
            }
        }
    }

    fn record_search(&mut self, model: &Model, claims: &[Claim], reached: &Reached) {
        let search = self.searched(model, claims, reached);
        self.report.searches.push(search);
    }

    /// A search for these properties, with the time that was spent before it.
    fn searched(&mut self, model: &Model, claims: &[Claim], reached: &Reached) -> Search {
        let depth = reached.depths.len().saturating_sub(1);
        let at_limit = reached.stopped.is_some_and(Stop::is_depth_known);
        Search {
            properties: self.names(model.ghost, claims),
            states: reached.states(),
            steps: reached.steps,
            depth,
            seconds: reached.seconds + std::mem::take(&mut self.spent),
            bytes: reached.bytes(),
            stored: reached.states(),
            stopped: reached.stopped,
            covered: (at_limit && !model.partial_order).then_some(depth),
            reductions: model.reductions(),
            cut: names_of(reached.cut),
        }
    }

    fn judge(
        &mut self,
        model: &Model,
        reached: &Reached,
        claim: Claim,
    ) -> Result<Verdict, CheckError> {
        let mut evidence = self.evidence(model, reached, bit(claim))?;
        let by_running = matches!(claim, Claim::Liveness | Claim::Termination);
        if by_running && matches!(evidence, Evidence::None) {
            evidence = self.endless(model, reached)?;
        }
        let holds = match evidence {
            Evidence::Run(_) | Evidence::Lost => Some(false),
            Evidence::Refuted => return Err(self.contradiction(model, claim.name())),
            // Behind a violated property nothing was looked at.
            Evidence::None if reached.cut != 0 || reached.stopped.is_some() => None,
            Evidence::None => Some(true),
        };
        let (claimed, trail) = (self.is_claimed(claim), evidence.trail());
        Ok(Verdict { name: claim.name().into(), claimed, holds, trail })
    }

    fn judge_panic(&mut self, model: &Model, reached: &Reached) -> Result<(), CheckError> {
        let (name, holds) = (NO_PANIC, Some(false));
        match self.evidence(model, reached, PANIC)? {
            Evidence::None => Ok(()),
            Evidence::Refuted => Err(self.contradiction(model, name)),
            found @ (Evidence::Run(_) | Evidence::Lost) => {
                let trail = found.trail();
                let name = name.into();
                self.report.verdicts.push(Verdict { name, claimed: true, holds, trail });
                Ok(())
            }
        }
    }

    fn contradiction(&self, model: &Model, property: &str) -> CheckError {
        let how = if model.is_reduced() {
            format!("by merging {}", model.reductions().join(" and "))
        } else {
            format!("by {} workers", self.task.limits.threads)
        };
        let (algorithm, property) = (self.task.name.clone(), property.to_owned());
        CheckError::Contradiction { algorithm, property, how }
    }

    /// The way to a violation that was found. Found among merged states, it is looked for again
    /// among all, for a run of the system as it is; found by several workers, by one, so that the
    /// run does not depend on which of them was faster.
    fn evidence(
        &mut self,
        model: &Model,
        reached: &Reached,
        property: Properties,
    ) -> Result<Evidence, CheckError> {
        let Some(found) = reached.found.iter().find(|found| found.property == property) else {
            return Ok(Evidence::None);
        };
        let first = (!model.is_reduced()).then(|| trail_to(model, reached, found));
        if !self.must_repeat(model) {
            return Ok(first.map_or(Evidence::Lost, Evidence::Run));
        }
        let (all, again) = self.repeat(model, Wanted { properties: property, first: true })?;
        // Among all states there is a run of at most this length: it is met no later.
        let far_enough = again.has_expanded(way_to(reached, found.state).len() - 1);
        let trail = again.found.first().map(|found| trail_to(&all, &again, found));
        Ok(weigh(first, trail, far_enough))
    }

    /// A run that never ends, in which a process waits for ever.
    fn endless(&mut self, model: &Model, reached: &Reached) -> Result<Evidence, CheckError> {
        if reached.stopped.is_some() || reached.backward == 0 {
            return Ok(Evidence::None);
        }
        let links = self.task.system.links(self.about);
        let Some(trap) = cycles::find_trap(model, reached, links) else {
            return Ok(Evidence::None);
        };
        let first = (!model.is_reduced()).then(|| round(model, reached, &trap));
        if !self.must_repeat(model) {
            return Ok(first.map_or(Evidence::Lost, Evidence::Run));
        }
        let (all, again) = self.repeat(model, Wanted { properties: 0, first: false })?;
        if again.stopped.is_some() {
            return Ok(weigh(first, None, false));
        }
        let trap = cycles::find_trap(&all, &again, links);
        Ok(weigh(first, trap.map(|trap| round(&all, &again, &trap)), true))
    }

    fn must_repeat(&self, model: &Model) -> bool {
        model.is_reduced() || self.task.limits.threads > 1
    }

    /// Searches again with nothing merged and nothing left out, by one worker.
    fn repeat(&mut self, model: &Model, wanted: Wanted) -> Result<(Model, Reached), CheckError> {
        let build = Build { delays: self.task.limits.delays, ..Build::plain(model.ghost) };
        let mut all = (self.make)(build)?;
        all.invariants.clone_from(&model.invariants);
        let limits = Limits { threads: 1, ..self.task.limits };
        let reached = search(&all, wanted, &limits, self.host);
        Ok((all, reached))
    }

    fn goals(&self, seen: &Seen) -> Vec<Goal> {
        let verb = match self.about.kind {
            Kind::Mutex => "enters",
            Kind::Election => "learns the coordinator",
        };
        let system = &self.task.system;
        let contenders = (0..system.setup.nodes).map(NodeId);
        let mut goals: Vec<_> = contenders
            .filter(|&node| match self.about.kind {
                Kind::Mutex => system.entries_of(node) > 0,
                Kind::Election => !system.setup.crashed.contains(&node),
            })
            .map(|node| Goal {
                name: format!("process {node} {verb}"),
                reached: seen.entered.contains(&node),
            })
            .collect();
        let kinds = seen.arrived.iter().map(|&(kind, _)| kind);
        let kinds: std::collections::BTreeSet<_> = kinds.collect();
        for kind in kinds {
            let processes = seen.arrived.iter().filter(|&&(arrived, _)| arrived == kind).count();
            let name = format!("{kind} arrives, at {processes} of the processes");
            goals.push(Goal { name, reached: true });
        }
        for (question, answer) in &seen.answered {
            let name = format!("{question} is answered by {answer}");
            goals.push(Goal { name, reached: true });
        }
        goals
    }
}

fn round(model: &Model, reached: &Reached, trap: &Trap) -> Trail {
    let (way, cycle) = trap.way_round(model, reached);
    trail_round(model, reached, &way, cycle)
}
