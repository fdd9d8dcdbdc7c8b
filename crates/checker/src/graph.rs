//! The graph of all states of a small system, to be drawn.

use mutua_algorithms::{Fields, NodeId, StartError};

use crate::{
    actor::Event,
    check::{Reduction, Task},
    evidence::CheckError,
    ghost::Ghost,
    host::Host,
    ids::{Id, LocalId, OutboxId, StateId},
    limits::Limits,
    model::{Build, Model},
    rest::violated_at_rest,
    search::{Reached, Wanted, search},
    step::{Action, Stepper},
    trail::{Happening, Message, What},
};

/// All states and steps.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The states, the start first and then by their distance from it.
    pub states: Vec<GraphState>,
    /// The steps between them.
    pub steps: Vec<GraphStep>,
}

/// A state.
#[derive(Clone, Debug)]
pub struct GraphState {
    /// Its distance from the start, in steps.
    pub depth: usize,
    /// Phase, clock and variables of each process.
    pub processes: Vec<Fields>,
    /// The messages in flight: kind, sender and receiver.
    pub messages: Vec<(&'static str, NodeId, NodeId)>,
    /// Two processes are in the critical section, or nothing can happen while a process waits.
    pub violation: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub struct GraphStep {
    /// The place of the state before it.
    pub from: usize,
    /// The place of the state after it.
    pub to: usize,
    /// The step as a sentence.
    pub sentence: String,
}

/// The graph of a system of at most so many states. Of its reductions only clocks are shifted.
pub fn graph(task: &Task, most: u64, host: &mut dyn Host) -> Result<Graph, CheckError> {
    task.algorithm()?;
    if task.has_daemon() {
        let why = "a ring under a daemon has no graph: use daemon=messages";
        return Err(CheckError::Start(StartError::new(why)));
    }
    let shift = task.reduction == Reduction::All;
    let model = Model::new(&task.name, &task.system, Build { shift, ..Build::plain(Ghost::None) })?;
    let limits = Limits { states: Some(most + 1), threads: 1, ..task.limits };
    let reached = search(&model, Wanted { properties: 0, first: false }, &limits, host);
    if reached.stopped.is_some() || reached.states() > most {
        return Err(CheckError::TooLarge { states: reached.states(), most });
    }
    Ok(Drawer { stepper: Stepper::new(&model), graph: Graph::default() }.draw(&reached))
}

struct Drawer<'a> {
    stepper: Stepper<'a>,
    graph: Graph,
}

impl Drawer<'_> {
    fn draw(mut self, reached: &Reached) -> Graph {
        let ids: Vec<_> = reached.ids().collect();
        for &id in &ids {
            let before = reached.parent(id).map(|parent| self.graph.states[parent.index()].depth);
            let state = self.state(reached.get(id), before.map_or(0, |depth| depth + 1));
            self.graph.states.push(state);
        }
        for id in ids {
            self.steps_from(reached, id);
        }
        self.graph
    }

    fn steps_from(&mut self, reached: &Reached, id: StateId) {
        let state = reached.get(id).to_vec();
        let mut steps = Vec::new();
        self.stepper.expand(&state, |step| {
            steps.push((step.action, step.state.to_vec(), reached.find(step.state)));
        });
        for (action, after, to) in steps {
            let sentence = self.sentence(action, &state, &after);
            // Behind two processes in the critical section nothing was searched.
            let to = to.map_or_else(
                || {
                    let depth = self.graph.states[id.index()].depth + 1;
                    let unsafe_state = GraphState { violation: true, ..self.state(&after, depth) };
                    self.graph.states.push(unsafe_state);
                    self.graph.states.len() - 1
                },
                Id::index,
            );
            self.graph.steps.push(GraphStep { from: id.index(), to, sentence });
        }
    }

    fn state(&mut self, state: &[u32], depth: usize) -> GraphState {
        let mut at_rest = true;
        self.stepper.expand(state, |step| at_rest &= !step.due);
        let violation = at_rest && violated_at_rest(&mut self.stepper, state) != 0;
        let model = self.stepper.model();
        let catalogue = model.catalogue();
        let locals = state[..model.processes].iter();
        let processes = locals.map(|&local| catalogue.variables(LocalId(local))).collect();
        let mut messages = Vec::new();
        for &outbox in &state[model.processes..2 * model.processes] {
            for (to, link) in catalogue.contents(OutboxId(outbox)).into_iter().enumerate() {
                let words = link.into_iter().map(|packet| catalogue.words(packet));
                messages.extend(words.map(|words| (words.kind, words.from, NodeId::from(to))));
            }
        }
        GraphState { depth, processes, messages, violation }
    }

    fn sentence(&mut self, action: Action, before: &[u32], after: &[u32]) -> String {
        let message = |packet| {
            let words = self.stepper.model().catalogue().words(packet);
            Message { from: words.from, kind: words.kind, fields: words.fields, nth: 1 }
        };
        let (at, what) = match action {
            Action::Happen { node, event: Event::Crash } => (node, What::Event(Event::Crash)),
            Action::Happen { node, event } => (node, What::Event(event)),
            Action::Deliver { to, packet, .. } => (to, What::Deliver(message(packet))),
            Action::Duplicate { to, packet, .. } => (to, What::Duplicate(message(packet))),
            Action::Lose { to, packet, .. } => (to, What::Lose(message(packet))),
            Action::Hear { .. } => unreachable!("a graph has no search by timestamps"),
        };
        let was = self.stepper.look(LocalId(before[usize::from(at)]));
        let is = self.stepper.look(LocalId(after[usize::from(at)]));
        let happening = Happening {
            at: NodeId(at.into()),
            what,
            down: was.down,
            enters: is.in_cs && !was.in_cs,
            elects: is.coordinator.filter(|_| is.coordinator != was.coordinator),
            variables: Fields::new(),
        };
        happening.sentence()
    }
}
