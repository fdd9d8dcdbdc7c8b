//! Beyond what can be exhausted: many random runs, each by a schedule of priorities.
//!
//! Each run draws a priority for every source of steps (a link, a client) and always takes a step
//! of the highest one that has any; at a few steps, drawn beforehand, the highest one is put last.
//! A bug that needs d such changes is found with a probability that does not fall with the length
//! of the run (Burckhardt and others, "A randomized scheduler with probabilistic guarantees of
//! finding bugs", ASPLOS 2010). What is found is a violation; what is not found is not proved.

use mutua_algorithms::split_mix::Dice;

use crate::{
    host::{Host, Watch},
    invariant::{Judge, Judged, KindError},
    limits::Limits,
    model::{Model, Properties, each, invariant_bit},
    rest::violated_at_rest,
    step::{Action, Stepper},
};

/// Random runs instead of a search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Walks {
    /// How many runs.
    pub runs: u64,
    /// How many steps each has at most.
    pub steps: usize,
    /// How often the priorities change in a run.
    pub changes: u32,
    /// The same seed gives the same runs.
    pub seed: u64,
}

/// The result of the runs.
pub(crate) struct Walked {
    pub(crate) runs: u64,
    pub(crate) steps: u64,
    pub(crate) longest: usize,
    pub(crate) seconds: f64,
    /// For each property that was violated, the shortest run that does.
    pub(crate) found: Vec<(Properties, Vec<Action>)>,
    /// The place of an invariant that cannot be judged, and why.
    pub(crate) unjudged: Option<(usize, KindError)>,
}

/// Runs a model at random.
pub(crate) fn walk(model: &Model, walks: Walks, limits: &Limits, host: &mut dyn Host) -> Walked {
    let mut watch = Watch::start(host, limits);
    let mut walked =
        Walked { runs: 0, steps: 0, longest: 0, seconds: 0.0, found: Vec::new(), unjudged: None };
    let mut walker = Walker {
        stepper: Stepper::new(model),
        judge: Judge::new(model),
        unjudged: None,
        walks,
        dice: Dice(walks.seed),
    };
    for run in 0..walks.runs {
        let (actions, violated) = walker.run();
        walked.runs += 1;
        walked.steps += actions.len() as u64;
        walked.longest = walked.longest.max(actions.len());
        walked.keep(violated, actions);
        if walker.unjudged.is_some() {
            break;
        }
        if run % 1024 == 0 && watch.look(walked.steps, walked.longest as u64).is_some() {
            break;
        }
    }
    walked.seconds = watch.seconds();
    walked.unjudged = walker.unjudged;
    walked
}

impl Walked {
    fn keep(&mut self, violated: Properties, actions: Vec<Action>) {
        for property in each(violated) {
            match self.found.iter_mut().find(|(known, _)| *known == property) {
                None => self.found.push((property, actions.clone())),
                Some((_, shortest)) if actions.len() < shortest.len() => {
                    *shortest = actions.clone();
                }
                Some(_) => {}
            }
        }
    }
}

struct Walker<'a> {
    stepper: Stepper<'a>,
    judge: Judge<'a>,
    unjudged: Option<(usize, KindError)>,
    walks: Walks,
    dice: Dice,
}

impl Walker<'_> {
    /// One run: its steps, and what it violates.
    fn run(&mut self) -> (Vec<Action>, Properties) {
        let model = self.stepper.model();
        let sources = model.processes * (model.processes + 1);
        let mut priorities: Vec<u64> = (0..sources).map(|_| self.dice.next()).collect();
        let length = self.walks.steps.max(1) as u64;
        let mut changes: Vec<_> =
            (0..self.walks.changes).map(|_| self.dice.next() % length).collect();
        changes.sort_unstable();
        let mut state = model.start.clone();
        let mut actions = Vec::new();
        while actions.len() < self.walks.steps {
            let Some((action, after, violated)) = self.choose(&state, &priorities) else {
                return (actions, violated_at_rest(&mut self.stepper, &state));
            };
            if changes.contains(&(actions.len() as u64)) {
                // Lower than all that were drawn.
                priorities[source(model, action)] = self.dice.next() >> 32;
            }
            actions.push(action);
            let violated = violated | self.violated_invariants(&after);
            if violated != 0 {
                return (actions, violated);
            }
            state = after;
        }
        (actions, 0)
    }

    fn violated_invariants(&mut self, state: &[u32]) -> Properties {
        if self.stepper.model().invariants.is_empty() {
            return 0;
        }
        match self.judge.violated(state, &Judged::default()) {
            Ok(violated) => violated.into_iter().fold(0, |all, place| all | invariant_bit(place)),
            Err(why) => {
                self.unjudged.get_or_insert(why);
                0
            }
        }
    }

    /// The step of the source with the highest priority; among several of it, any.
    fn choose(
        &mut self,
        state: &[u32],
        priorities: &[u64],
    ) -> Option<(Action, Vec<u32>, Properties)> {
        let model = self.stepper.model();
        let dice = &mut self.dice;
        let mut best: Option<(u64, u64, Action, Vec<u32>, Properties)> = None;
        self.stepper.expand(state, |step| {
            let rank = (priorities[source(model, step.action)], dice.next());
            if best.as_ref().is_none_or(|best| rank > (best.0, best.1)) {
                best = Some((rank.0, rank.1, step.action, step.state.to_vec(), step.violated));
            }
        });
        best.map(|(_, _, action, after, violated)| (action, after, violated))
    }
}

/// Where a step comes from: a process by itself, or a link.
fn source(model: &Model, action: Action) -> usize {
    let (from, to) = match action {
        Action::Happen { node, .. } => (node, model.processes as u8),
        Action::Deliver { from, to, .. }
        | Action::Duplicate { from, to, .. }
        | Action::Lose { from, to, .. }
        | Action::Hear { from, to } => (from, to),
    };
    usize::from(from) * (model.processes + 1) + usize::from(to)
}
