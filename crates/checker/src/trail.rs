//! The way from the start to a state, step by step.

use mutua_algorithms::{Fields, NodeId};

use crate::{
    actor::Event,
    ids::{EffectId, LocalId, OutboxId, PacketId, StateId},
    model::Model,
    search::{Found, Reached},
    step::{Action, Step, Stepper},
};

/// A run that violates a property.
#[derive(Clone, Debug)]
pub struct Trail {
    /// The steps, from the start.
    pub steps: Vec<Happening>,
    /// Where the part begins that repeats for ever, if one does.
    pub cycle: Option<usize>,
    /// The processes that wait at its end, and all through the part that repeats.
    pub waiting: Vec<NodeId>,
    /// Phase, clock and variables of every process at its end.
    pub last: Vec<Fields>,
    /// The flags that it starts from, where every start is looked at. (Dijkstra's ring.)
    pub flags: Option<Vec<u32>>,
}

/// One step of a counterexample.
#[derive(Clone, Debug)]
pub struct Happening {
    /// Where it happens.
    pub at: NodeId,
    /// The event.
    pub what: What,
    /// The process there has crashed: a message that arrives is lost.
    pub down: bool,
    /// The client there enters by it.
    pub enters: bool,
    /// The process that it takes for the coordinator from then on, if that is new.
    pub elects: Option<NodeId>,
    /// Phase, clock and variables of the process after it.
    pub variables: Fields,
}

/// The event of a step.
#[derive(Clone, Debug)]
pub enum What {
    /// Something at the process by itself.
    Event(Event),
    /// A message arrives there.
    Deliver(Message),
    /// A message that is under way to there will arrive once more, behind all others.
    Duplicate(Message),
    /// A message that was to arrive there is lost.
    Lose(Message),
    /// These processes move at once, under a daemon.
    Move(Vec<NodeId>),
}

/// A message under way.
#[derive(Clone, Debug)]
pub struct Message {
    /// The sender.
    pub from: NodeId,
    /// Its kind; `app` for one of the application.
    pub kind: &'static str,
    /// What it carries.
    pub fields: Fields,
    /// Its position among those of its kind that are under way from the same sender to the same
    /// receiver, from 1.
    pub nth: usize,
}

/// The numbers of the states from the start to this one, both included.
pub(crate) fn way_to(reached: &Reached, state: StateId) -> Vec<StateId> {
    let mut way = vec![state];
    while let Some(parent) = reached.parent(way[way.len() - 1]) {
        way.push(parent);
    }
    way.reverse();
    way
}

/// The trail to a violation.
pub(crate) fn trail_to(model: &Model, reached: &Reached, found: &Found) -> Trail {
    let mut describer = Describer::new(model);
    describer.follow(reached, &way_to(reached, found.state));
    if let Some(last) = found.action {
        describer.step(reached.get(found.state), |step| step.action == last);
    }
    describer.trail(None)
}

/// The trail of these steps from the start.
pub(crate) fn trail_of(model: &Model, actions: &[Action]) -> Trail {
    let mut describer = Describer::new(model);
    let mut state = model.start.clone();
    for &action in actions {
        state = describer.step(&state, |step| step.action == action);
    }
    describer.trail(None)
}

/// The trail through these states, which begin with the start; from index `cycle` on it repeats.
pub(crate) fn trail_round(
    model: &Model,
    reached: &Reached,
    way: &[StateId],
    cycle: usize,
) -> Trail {
    let mut describer = Describer::new(model);
    describer.follow(reached, way);
    describer.trail(Some(cycle))
}

/// Takes the steps of a run once more, and describes them.
struct Describer<'a> {
    stepper: Stepper<'a>,
    /// The messages under way from each process to each, in the order of sending, without ghosts.
    wires: Vec<Vec<Vec<PacketId>>>,
    steps: Vec<Happening>,
    /// The processes that wait after each step, a bit each.
    waiting: Vec<u32>,
    /// The state after the last step.
    last: Vec<u32>,
}

/// A step as it was taken.
struct Taken {
    action: Action,
    after: Vec<u32>,
    effect: EffectId,
}

impl<'a> Describer<'a> {
    fn new(model: &'a Model) -> Self {
        let mut catalogue = model.catalogue();
        let outboxes = model.start[model.processes..].iter().take(model.processes);
        let mut wires: Vec<_> =
            outboxes.map(|&outbox| catalogue.contents(OutboxId(outbox))).collect();
        for packet in wires.iter_mut().flatten().flatten() {
            *packet = catalogue.bare(*packet);
        }
        drop(catalogue);
        let last = model.start.clone();
        let (steps, waiting) = (Vec::new(), Vec::new());
        Self { stepper: Stepper::new(model), wires, steps, waiting, last }
    }

    fn follow(&mut self, reached: &Reached, way: &[StateId]) {
        for pair in way.windows(2) {
            let after = reached.get(pair[1]);
            self.step(reached.get(pair[0]), |step| step.state == after);
        }
    }

    /// Takes the step that is meant; the state after it.
    fn step(&mut self, before: &[u32], is_meant: impl Fn(&Step<'_>) -> bool) -> Vec<u32> {
        let mut taken = None;
        self.stepper.expand(before, |step| {
            if taken.is_none() && is_meant(&step) {
                let Step { action, state, effect, .. } = step;
                taken = Some(Taken { action, after: state.to_vec(), effect });
            }
        });
        let taken = taken.expect("a step that was taken once can be taken again");
        let happening = self.describe(before, &taken);
        self.steps.push(happening);
        let waiting = self.waiting_in(&taken.after);
        self.waiting.push(waiting);
        self.last.clone_from(&taken.after);
        taken.after
    }

    fn trail(self, cycle: Option<usize>) -> Trail {
        let model = self.stepper.model();
        let catalogue = model.catalogue();
        let locals = self.last[..model.processes].iter();
        let last = locals.map(|&local| catalogue.variables(LocalId(local))).collect();
        drop(catalogue);
        let from = cycle.unwrap_or(self.waiting.len().saturating_sub(1));
        let waiting = self.waiting[from..].iter().copied().reduce(|one, other| one & other);
        let waits = |node: &usize| waiting.is_some_and(|waiting| waiting & (1 << node) != 0);
        let waiting = (0..model.processes).filter(waits).map(NodeId::from).collect();
        Trail { steps: self.steps, cycle, waiting, last, flags: None }
    }

    fn waiting_in(&mut self, state: &[u32]) -> u32 {
        let processes = 0..self.stepper.model().processes;
        let waits = |&node: &usize| self.stepper.look(LocalId(state[node])).waiting;
        processes.filter(waits).fold(0, |bits, node| bits | 1 << node)
    }

    fn describe(&mut self, before: &[u32], taken: &Taken) -> Happening {
        let (at, what) = match taken.action {
            Action::Happen { node, event } => (node, What::Event(event)),
            Action::Deliver { from, to, packet } => {
                (to, What::Deliver(self.take(from, to, packet)))
            }
            Action::Duplicate { from, to, packet } => {
                let wire = self.wires[usize::from(from)][usize::from(to)].clone();
                let message = self.take(from, to, packet);
                self.wires[usize::from(from)][usize::from(to)] = wire;
                let bare = self.stepper.model().catalogue().bare(packet);
                self.wires[usize::from(from)][usize::from(to)].push(bare);
                (to, What::Duplicate(message))
            }
            Action::Lose { from, to, packet } => (to, What::Lose(self.take(from, to, packet))),
            Action::Hear { .. } => unreachable!("what timestamps find is searched for again"),
        };
        self.send(at, taken.effect);
        let index = usize::from(at);
        let was = self.stepper.look(LocalId(before[index]));
        let is = self.stepper.look(LocalId(taken.after[index]));
        Happening {
            at: NodeId(at.into()),
            what,
            down: was.down,
            enters: is.in_cs && !was.in_cs,
            elects: is.coordinator.filter(|_| is.coordinator != was.coordinator),
            variables: self.stepper.model().catalogue().variables(LocalId(taken.after[index])),
        }
    }

    /// Takes a message off its wire.
    fn take(&mut self, from: u8, to: u8, packet: PacketId) -> Message {
        let mut catalogue = self.stepper.model().catalogue();
        let bare = catalogue.bare(packet);
        let wire = &mut self.wires[usize::from(from)][usize::from(to)];
        let index = wire.iter().position(|&other| other == bare);
        let index = index.expect("a message that arrives was sent");
        wire.remove(index);
        let words = catalogue.words(packet);
        let same_kind = |&&other: &&PacketId| catalogue.words(other).kind == words.kind;
        let nth = 1 + wire[..index].iter().filter(same_kind).count();
        Message { from: NodeId(from.into()), kind: words.kind, fields: words.fields, nth }
    }

    fn send(&mut self, from: u8, effect: EffectId) {
        let mut catalogue = self.stepper.model().catalogue();
        for (to, packet) in catalogue.sends(effect) {
            let bare = catalogue.bare(packet);
            self.wires[usize::from(from)][to as usize].push(bare);
        }
    }
}
