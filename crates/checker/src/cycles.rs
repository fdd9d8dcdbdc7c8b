//! Runs that go on for ever: strongly connected components, and whether a run may stay in one.
//!
//! A run may stay in a component for ever if it is fair there. For every delivery and every exit:
//! it is taken in the component, or some state of the component does not allow it (weak fairness).
//! For every timer, which under bounds runs only between messages: it is taken, or no state allows
//! it (strong fairness). Weak fairness can be decided on largest components; for a timer that is
//! allowed and never taken, the states that allow it are left out and what remains is taken apart
//! again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use mutua_algorithms::{Kind, Links};

use crate::{
    actor::Event,
    ids::{Id, LocalId, StateId},
    model::Model,
    search::Reached,
    step::{Action, Stepper},
    trail::way_to,
};

/// States in which a process may wait for ever.
pub(crate) struct Trap {
    states: HashSet<StateId>,
    /// The one that is reached first.
    home: StateId,
    /// The steps that a fair cycle has to contain.
    obligations: Vec<Obligation>,
}

/// Something that a fair run does again and again: stand at a state, or go from one to another.
type Obligation = (StateId, Option<StateId>);

/// Looks for a fair run in which some process waits for ever. A process that waits
/// at rest is found by the search itself.
pub(crate) fn find_trap(model: &Model, reached: &Reached, links: Links) -> Option<Trap> {
    let mut stepper = Stepper::new(model);
    let mut nearest: Option<Trap> = None;
    let mut outer = Tarjan::new(reached.end_of_ids());
    let mut inner = Tarjan::new(reached.end_of_ids());
    outer.components(&mut stepper, reached, reached.ids(), |_| true, &mut |component, stepper| {
        for process in 0..model.processes {
            let waiting: Vec<_> = component
                .iter()
                .copied()
                .filter(|&id| waits(stepper, reached.get(id), process))
                .collect();
            let Some(trap) = trap_among(&mut inner, stepper, reached, links, waiting) else {
                continue;
            };
            if nearest.as_ref().is_none_or(|known| trap.distance(reached) < known.distance(reached))
            {
                nearest = Some(trap);
            }
        }
    });
    nearest
}

/// Whether a run through what was reached can go round.
pub(crate) fn go_round(model: &Model, reached: &Reached) -> bool {
    if reached.backward == 0 {
        return false;
    }
    let mut found = false;
    let mut stepper = Stepper::new(model);
    let mut tarjan = Tarjan::new(reached.end_of_ids());
    tarjan.components(&mut stepper, reached, reached.ids(), |_| true, &mut |_, _| found = true);
    found
}

/// Whether the process waits in this state for what it is owed.
fn waits(stepper: &mut Stepper<'_>, state: &[u32], process: usize) -> bool {
    let model = stepper.model();
    let begun = match model.about.kind {
        Kind::Mutex => true,
        Kind::Election => (0..model.processes).any(|node| stepper.look(LocalId(state[node])).begun),
    };
    begun && stepper.look(LocalId(state[process])).waiting
}

fn trap_among(
    tarjan: &mut Tarjan,
    stepper: &mut Stepper<'_>,
    reached: &Reached,
    links: Links,
    states: Vec<StateId>,
) -> Option<Trap> {
    let mut work = vec![states];
    while let Some(states) = work.pop() {
        let members: HashSet<_> = states.iter().copied().collect();
        let mut parts = Vec::new();
        let within = |id| members.contains(&id);
        tarjan.components(stepper, reached, states.iter().copied(), within, &mut |part, _| {
            parts.push(part.to_vec());
        });
        tarjan.forget(&states);
        for part in parts {
            match judge(stepper, reached, links, part) {
                Judged::Fair(trap) => return Some(trap),
                Judged::Unfair => {}
                Judged::Remains(states) => work.push(states),
            }
        }
    }
    None
}

enum Judged {
    Fair(Trap),
    Unfair,
    /// A run may be fair in what is left without some states.
    Remains(Vec<StateId>),
}

/// A step that must be taken in the end once it can be: deliver from a link (or a certain message,
/// where links reorder), leave, time out, report a crash.
type Duty = (u8, u8, u32);

fn duty(action: Action, links: Links) -> Option<Duty> {
    match (action, links) {
        (Action::Deliver { from, to, .. }, Links::Fifo) => Some((from, to, u32::MAX)),
        (Action::Deliver { from, to, packet }, Links::Any) => Some((from, to, packet.0)),
        (Action::Happen { node, event: Event::Release }, _) => Some((node, node, 0)),
        (Action::Happen { node, event: Event::Timeout(timer) }, _) => {
            Some((node, node, 1 + timer as u32))
        }
        (Action::Happen { node, event: Event::Report(other, _) }, _) => {
            Some((other.0 as u8, node, u32::MAX - 1))
        }
        (
            Action::Happen { .. }
            | Action::Duplicate { .. }
            | Action::Lose { .. }
            | Action::Hear { .. },
            _,
        ) => None,
    }
}

fn is_strong((from, to, what): Duty) -> bool {
    from == to && what > 0
}

#[derive(Default)]
struct Account {
    /// In how many states it can be done, and one in which it cannot.
    allowed: usize,
    /// Where it is done without leaving the component.
    taken: Option<Obligation>,
}

fn judge(stepper: &mut Stepper<'_>, reached: &Reached, links: Links, part: Vec<StateId>) -> Judged {
    let states: HashSet<_> = part.iter().copied().collect();
    let mut accounts: BTreeMap<Duty, Account> = BTreeMap::new();
    for &id in &part {
        for (duty, next) in duties(stepper, reached, links, id) {
            let account = accounts.entry(duty).or_default();
            account.allowed += 1;
            if let Some(next) = next.filter(|next| states.contains(next)) {
                account.taken.get_or_insert((id, Some(next)));
            }
        }
    }
    let mut obligations = Vec::new();
    for (&duty, account) in &accounts {
        match account.taken {
            Some(taken) => obligations.push(taken),
            None if is_strong(duty) => {
                let allows = |&id: &StateId| {
                    duties(stepper, reached, links, id).iter().all(|&(other, _)| other != duty)
                };
                return Judged::Remains(part.iter().copied().filter(allows).collect());
            }
            None if account.allowed == part.len() => return Judged::Unfair,
            None => {
                let free = part.iter().copied().find(|&id| {
                    duties(stepper, reached, links, id).iter().all(|&(other, _)| other != duty)
                });
                obligations.extend(free.map(|id| (id, None)));
            }
        }
    }
    let home = part.into_iter().min_by_key(|&id| reached.order(id)).expect("a part has states");
    Judged::Fair(Trap { states, home, obligations })
}

/// The obligations in a state, and the state that each leads to.
fn duties(
    stepper: &mut Stepper<'_>,
    reached: &Reached,
    links: Links,
    id: StateId,
) -> Vec<(Duty, Option<StateId>)> {
    let mut all = Vec::new();
    stepper.expand(reached.get(id), |step| {
        if let Some(duty) = duty(step.action, links) {
            all.push((duty, reached.find(step.state)));
        }
    });
    all
}

impl Trap {
    /// How many steps it is away from the start.
    fn distance(&self, reached: &Reached) -> usize {
        way_to(reached, self.home).len()
    }

    /// A way round that meets every obligation, from the start: the states, and where the round
    /// begins.
    pub(crate) fn way_round(&self, model: &Model, reached: &Reached) -> (Vec<StateId>, usize) {
        let mut stepper = Stepper::new(model);
        let mut way = way_to(reached, self.home);
        let begin = way.len() - 1;
        for &(from, to) in &self.obligations {
            self.walk(&mut stepper, reached, &mut way, from);
            way.extend(to);
        }
        if way.len() == begin + 1 {
            let next = self.successors(&mut stepper, reached, self.home);
            way.extend(next.into_iter().next());
        }
        self.walk(&mut stepper, reached, &mut way, self.home);
        (way, begin)
    }

    /// Goes on by a shortest way within the trap.
    fn walk(
        &self,
        stepper: &mut Stepper<'_>,
        reached: &Reached,
        way: &mut Vec<StateId>,
        goal: StateId,
    ) {
        let here = way[way.len() - 1];
        let mut from = HashMap::from([(here, here)]);
        let mut queue = VecDeque::from([here]);
        while let Some(state) = queue.pop_front() {
            if state == goal {
                break;
            }
            for next in self.successors(stepper, reached, state) {
                from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    state
                });
            }
        }
        let mut back = Vec::new();
        let mut state = goal;
        while state != here {
            back.push(state);
            state = from[&state];
        }
        way.extend(back.into_iter().rev());
    }

    fn successors(
        &self,
        stepper: &mut Stepper<'_>,
        reached: &Reached,
        id: StateId,
    ) -> Vec<StateId> {
        let mut next = Vec::new();
        stepper.expand(reached.get(id), |step| next.extend(reached.find(step.state)));
        next.retain(|id| self.states.contains(id));
        next
    }
}

/// Tarjan's algorithm without recursion.
struct Tarjan {
    /// The order of discovery from 1; 0 while it is not discovered, the highest number when done.
    index: Vec<u32>,
    low: Vec<u32>,
    count: u32,
    stack: Vec<StateId>,
    frames: Vec<Frame>,
    /// Successors still to be looked at, those of the innermost frame last.
    pending: Vec<StateId>,
}

struct Frame {
    state: StateId,
    /// Where its successors begin among the pending ones.
    begin: usize,
    /// It is its own successor.
    loops: bool,
}

const DONE: u32 = u32::MAX;

impl Tarjan {
    /// For states whose numbers are below `end`.
    fn new(end: usize) -> Self {
        Self {
            index: vec![0; end],
            low: vec![0; end],
            count: 0,
            stack: Vec::new(),
            frames: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Hands every component with a cycle among these states to `visit`.
    fn components(
        &mut self,
        stepper: &mut Stepper<'_>,
        reached: &Reached,
        states: impl Iterator<Item = StateId>,
        within: impl Fn(StateId) -> bool,
        visit: &mut dyn FnMut(&[StateId], &mut Stepper<'_>),
    ) {
        for root in states {
            if self.index[root.index()] == 0 {
                self.explore(root, stepper, reached, &within, visit);
            }
        }
    }

    /// Makes these states unknown again.
    fn forget(&mut self, states: &[StateId]) {
        self.count = 0;
        for &state in states {
            self.index[state.index()] = 0;
        }
    }

    fn explore(
        &mut self,
        root: StateId,
        stepper: &mut Stepper<'_>,
        reached: &Reached,
        within: &impl Fn(StateId) -> bool,
        visit: &mut dyn FnMut(&[StateId], &mut Stepper<'_>),
    ) {
        self.enter(root, stepper, reached, within);
        while let Some(frame) = self.frames.last() {
            let (state, begin) = (frame.state, frame.begin);
            if self.pending.len() > begin {
                let next = self.pending.pop().expect("there are successors left");
                match self.index[next.index()] {
                    0 => self.enter(next, stepper, reached, within),
                    DONE => {}
                    index => self.lower(state, index),
                }
            } else {
                let loops = frame.loops;
                self.frames.pop();
                self.leave(state, loops, stepper, visit);
                if let Some(parent) = self.frames.last() {
                    let (parent, low) = (parent.state, self.low[state.index()]);
                    self.lower(parent, low);
                }
            }
        }
    }

    fn enter(
        &mut self,
        state: StateId,
        stepper: &mut Stepper<'_>,
        reached: &Reached,
        within: &impl Fn(StateId) -> bool,
    ) {
        self.count += 1;
        self.index[state.index()] = self.count;
        self.low[state.index()] = self.count;
        self.stack.push(state);
        let begin = self.pending.len();
        let pending = &mut self.pending;
        stepper.expand(reached.get(state), |step| {
            // A state that was not reached lies behind a violated property.
            pending.extend(reached.find(step.state).filter(|&id| within(id)));
        });
        let loops = self.pending[begin..].contains(&state);
        self.frames.push(Frame { state, begin, loops });
    }

    fn lower(&mut self, state: StateId, index: u32) {
        let low = &mut self.low[state.index()];
        *low = (*low).min(index);
    }

    fn leave(
        &mut self,
        state: StateId,
        loops: bool,
        stepper: &mut Stepper<'_>,
        visit: &mut dyn FnMut(&[StateId], &mut Stepper<'_>),
    ) {
        if self.low[state.index()] != self.index[state.index()] {
            return;
        }
        let start = self.stack.iter().rposition(|&other| other == state);
        let component = self.stack.split_off(start.expect("a state on the stack"));
        for &member in &component {
            self.index[member.index()] = DONE;
        }
        if component.len() > 1 || loops {
            visit(&component, stepper);
        }
    }
}
