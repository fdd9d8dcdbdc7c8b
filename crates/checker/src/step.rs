//! One step of a system: from a state, as numbers, to all that can follow it.

mod order;

use mutua_algorithms::{Claim, NodeId};

use crate::{
    actor::{Event, Look},
    budget::Cost,
    catalogue::{
        Delivery, ELECTED, EMPTY, ENTERED, LEFT, Move, NOTHING, OVERTOOK, Outcome, PANICKED,
        UNFENCED,
    },
    ghost::Ghost,
    intern::Memo,
    known::{Shifts, Table, put},
    model::{Broken, Model, PANIC, bit},
    symmetry::Orbits,
    system::Timers,
};

/// All receivers, one bit each.
const EVERYBODY: u16 = u16::MAX;

/// What happens in a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Something at a process by itself.
    Happen { node: u8, event: Event },
    /// A message arrives.
    Deliver { from: u8, to: u8, packet: u32 },
    /// A message will arrive once more, behind all others.
    Duplicate { from: u8, to: u8, packet: u32 },
    /// A message is lost.
    Lose { from: u8, to: u8, packet: u32 },
}

impl Action {
    /// Whether it must happen in the end: messages arrive, clients leave, timers run out.
    pub(crate) fn is_fair(self) -> bool {
        match self {
            Self::Happen { event, .. } => event.is_fair(),
            Self::Deliver { .. } => true,
            Self::Duplicate { .. } | Self::Lose { .. } => false,
        }
    }
}

/// A step that can be taken.
pub(crate) struct Step<'a> {
    pub(crate) action: Action,
    /// The state after it.
    pub(crate) state: &'a [u32],
    /// What is sent in it.
    pub(crate) effect: u32,
    /// The properties that it breaks.
    pub(crate) broken: Broken,
    /// Whether something has to happen in the state before it: this, or what was left out for want
    /// of delays.
    pub(crate) due: bool,
}

impl<'a> Step<'a> {
    fn new(action: Action, state: &'a [u32], effect: u32, broken: Broken) -> Self {
        Self { action, state, effect, broken, due: action.is_fair() }
    }
}

/// Takes steps; one for each worker, with its own copy of what it has looked up.
pub(crate) struct Stepper<'a> {
    model: &'a Model,
    looks: Vec<Option<Look>>,
    moves: Table<Move>,
    deliveries: Table<Delivery>,
    receives: Memo<Outcome>,
    posts: Memo<u32>,
    swept_locals: Memo<u32>,
    swept_outboxes: Memo<u32>,
    spreading: Vec<Option<bool>>,
    targets: Vec<Option<u16>>,
    shifts: Shifts,
    orbits: Orbits,
    next: Vec<u32>,
}

impl<'a> Stepper<'a> {
    pub(crate) fn new(model: &'a Model) -> Self {
        Self {
            model,
            looks: Vec::new(),
            moves: Table::new(),
            deliveries: Table::new(),
            receives: Memo::new(),
            posts: Memo::new(),
            swept_locals: Memo::new(),
            swept_outboxes: Memo::new(),
            spreading: Vec::new(),
            targets: Vec::new(),
            shifts: Shifts::new(),
            orbits: Orbits::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn model(&self) -> &'a Model {
        self.model
    }

    /// Shows every step that can be taken in a state; where orders of steps are left out, as many
    /// as are needed, and where delays are counted, as many as can be paid for.
    pub(crate) fn expand(&mut self, state: &[u32], visit: impl FnMut(Step<'_>)) {
        if self.model.delayed {
            self.expand_delayed(state, visit);
        } else {
            self.expand_freely(state, visit);
        }
    }

    /// The steps in their order, each at the price of all before it.
    fn expand_delayed(&mut self, state: &[u32], mut visit: impl FnMut(Step<'_>)) {
        let mut all = Vec::new();
        self.expand_freely(state, |Step { action, state, effect, broken, due }| {
            all.push((action, state.to_vec(), effect, broken, due));
        });
        let due = all.iter().any(|&(.., due)| due);
        for (place, (action, mut state, effect, broken, _)) in all.into_iter().enumerate() {
            let last = state.len() - 1;
            let Some(rest) = Cost::Delay.pay_times(place as u32, state[last]) else { break };
            state[last] = rest;
            visit(Step { action, state: &state, effect, broken, due });
        }
    }

    fn expand_freely(&mut self, state: &[u32], mut visit: impl FnMut(Step<'_>)) {
        let mut next = std::mem::take(&mut self.next);
        next.resize(state.len(), 0);
        if !self.expand_some(state, &mut next, &mut visit) {
            self.expand_all(state, &mut next, &mut visit);
        }
        self.next = next;
    }

    fn expand_all(&mut self, state: &[u32], next: &mut [u32], visit: &mut impl FnMut(Step<'_>)) {
        for node in 0..self.model.processes {
            self.expand_moves(state, node, next, visit);
        }
        for node in 0..self.model.processes {
            if state[self.model.processes + node] != EMPTY {
                self.expand_deliveries(state, node, EVERYBODY, next, visit);
            }
        }
    }

    fn expand_moves(
        &mut self,
        state: &[u32],
        node: usize,
        next: &mut [u32],
        visit: &mut impl FnMut(Step<'_>),
    ) {
        let range = self.moves_of(state[node]);
        for place in range {
            let Move { event, outcome } = self.moves.items[place];
            next.copy_from_slice(state);
            if matches!(event, Event::Timeout(_)) && !self.may_time_out(state) {
                continue;
            }
            if let Some(cost) = Cost::of(event)
                && !self.pay(cost, next)
            {
                continue;
            }
            let broken = self.apply(next, node, outcome);
            let action = Action::Happen { node: node as u8, event };
            visit(Step::new(action, next, outcome.effect, broken));
        }
    }

    /// The deliveries from one process to some, one bit each.
    fn expand_deliveries(
        &mut self,
        state: &[u32],
        node: usize,
        receivers: u16,
        next: &mut [u32],
        visit: &mut impl FnMut(Step<'_>),
    ) {
        let outbox = self.model.processes + node;
        for place in self.deliveries_of(state[outbox]) {
            let Delivery { to, packet, rest, twice } = self.deliveries.items[place];
            if receivers & (1 << to) == 0 {
                continue;
            }
            let outcome = self.receive(state[to as usize], packet);
            let (from, effect) = (node as u8, outcome.effect);
            next.copy_from_slice(state);
            next[outbox] = rest;
            let broken = self.apply(next, to as usize, outcome);
            let action = Action::Deliver { from, to, packet };
            visit(Step::new(action, next, effect, broken));
            if !self.model.has_budget {
                continue;
            }
            next.copy_from_slice(state);
            if self.pay(Cost::Duplicate, next) {
                next[outbox] = twice;
                self.normalise(next);
                let action = Action::Duplicate { from, to, packet };
                visit(Step::new(action, next, NOTHING, 0));
            }
            next.copy_from_slice(state);
            if self.pay(Cost::Loss, next) {
                next[outbox] = rest;
                self.normalise(next);
                let action = Action::Lose { from, to, packet };
                visit(Step::new(action, next, NOTHING, 0));
            }
        }
    }

    /// Lets an outcome at a process take effect, the ghost's included; says what it breaks.
    fn apply(&mut self, next: &mut [u32], node: usize, outcome: Outcome) -> Broken {
        let mut broken = 0;
        if outcome.marks != 0 {
            broken = self.judge(next, node, outcome);
        }
        next[node] = outcome.local;
        if outcome.effect != NOTHING {
            let outbox = &mut next[self.model.processes + node];
            *outbox = self.post(*outbox, outcome.effect);
        }
        if outcome.marks & ELECTED != 0 {
            broken |= self.judge_election(next, node);
        }
        self.normalise(next);
        broken
    }

    /// What an entry or an exit breaks, and what the ghost makes of it.
    fn judge(&mut self, next: &mut [u32], node: usize, outcome: Outcome) -> Broken {
        let marks = outcome.marks;
        let mut broken = 0;
        if marks & ENTERED != 0 {
            let others = (0..self.model.processes).filter(|&other| other != node);
            for other in others {
                if self.look(next[other]).inside {
                    broken |= bit(Claim::Safety);
                }
            }
            match self.model.ghost {
                Ghost::Ordering => self.sweep(next, node),
                Ghost::Bypass => broken |= self.count_bypass(next, node),
                Ghost::None | Ghost::Fence => {}
            }
        }
        if marks & LEFT != 0 && self.model.ghost == Ghost::Fence {
            self.sweep(next, node);
        }
        for (mark, property) in
            [(UNFENCED, bit(Claim::Fence)), (OVERTOOK, bit(Claim::Ordering)), (PANICKED, PANIC)]
        {
            if marks & mark != 0 {
                broken |= property;
            }
        }
        broken
    }

    /// E1: nobody higher than the elected one is up. Where a returning process leaves a working
    /// coordinator in office, that one may be right too, so the agreement is looked at when all is
    /// at rest.
    fn judge_election(&mut self, next: &[u32], node: usize) -> Broken {
        let Some(elected) = self.look(next[node]).coordinator else { return 0 };
        let higher = &next[..self.model.processes][elected.index() + 1..];
        let wrong = self.model.highest_wins && higher.iter().any(|&other| !self.look(other).down);
        if wrong { bit(Claim::Agreement) } else { 0 }
    }

    /// Clears the ghost of everyone else and of all messages.
    fn sweep(&mut self, next: &mut [u32], node: usize) {
        let processes = self.model.processes;
        for place in 0..processes {
            next[place] = self.sweep_local(next[place], node);
            if next[processes + place] != EMPTY {
                next[processes + place] = self.sweep_outbox(next[processes + place], node);
            }
        }
    }

    /// Counts the entry of `node` against all whose request has reached everyone.
    fn count_bypass(&mut self, next: &mut [u32], node: usize) -> Broken {
        let processes = self.model.processes;
        let mut broken = 0;
        for other in (0..processes).filter(|&other| other != node) {
            if !self.look(next[other]).waiting || self.is_spreading(next[processes + other]) {
                continue;
            }
            let counted = self.sweep_local(next[other], node);
            if counted == next[other] {
                broken |= bit(Claim::BoundedBypass);
            }
            next[other] = counted;
        }
        broken
    }

    /// Makes of a state the one that stands for all that cannot be told apart from it.
    fn normalise(&mut self, next: &mut [u32]) {
        if self.model.shift {
            self.sink(next);
        }
        if !self.model.symmetries.is_empty() {
            self.orbits.settle(self.model, next);
        }
    }

    /// Lowers all clocks alike until the lowest reading is zero.
    fn sink(&mut self, next: &mut [u32]) {
        let (locals, rest) = next.split_at_mut(self.model.processes);
        let outboxes = &mut rest[..self.model.processes];
        let lowest = self.shifts.lowest(self.model, locals, outboxes);
        if lowest > 0 {
            self.shifts.shift(self.model, locals, outboxes, lowest);
        }
    }

    fn may_time_out(&self, state: &[u32]) -> bool {
        let processes = self.model.processes;
        match self.model.timers {
            Timers::Any => true,
            Timers::Bounded => {
                state[processes..2 * processes].iter().all(|&outbox| outbox == EMPTY)
            }
        }
    }

    fn pay(&self, cost: Cost, next: &mut [u32]) -> bool {
        if !self.model.has_budget {
            return false;
        }
        let last = next.len() - 1;
        match cost.pay(next[last]) {
            Some(rest) => next[last] = rest,
            None => return false,
        }
        true
    }
}

/// What was looked up before, or is now.
impl Stepper<'_> {
    pub(crate) fn look(&mut self, local: u32) -> Look {
        if let Some(Some(look)) = self.looks.get(local as usize) {
            return *look;
        }
        let look = self.model.catalogue().look(local);
        put(&mut self.looks, local, look);
        look
    }

    fn moves_of(&mut self, local: u32) -> std::ops::Range<usize> {
        self.moves.range(local).unwrap_or_else(|| {
            let moves = self.model.catalogue().moves(local);
            self.moves.set(local, moves)
        })
    }

    fn deliveries_of(&mut self, outbox: u32) -> std::ops::Range<usize> {
        self.deliveries.range(outbox).unwrap_or_else(|| {
            let deliveries = self.model.catalogue().deliveries(outbox);
            self.deliveries.set(outbox, deliveries)
        })
    }

    #[inline]
    fn receive(&mut self, local: u32, packet: u32) -> Outcome {
        self.receives.get(local, packet).unwrap_or_else(|| {
            let outcome = self.model.catalogue().receive(local, packet);
            self.receives.set(local, packet, outcome);
            outcome
        })
    }

    #[inline]
    fn post(&mut self, outbox: u32, effect: u32) -> u32 {
        self.posts.get(outbox, effect).unwrap_or_else(|| {
            let after = self.model.catalogue().post(outbox, effect);
            self.posts.set(outbox, effect, after);
            after
        })
    }

    fn sweep_local(&mut self, local: u32, node: usize) -> u32 {
        self.swept_locals.get(local, node as u32).unwrap_or_else(|| {
            let swept = self.model.catalogue().sweep_local(local, NodeId::from(node));
            self.swept_locals.set(local, node as u32, swept);
            swept
        })
    }

    fn sweep_outbox(&mut self, outbox: u32, node: usize) -> u32 {
        self.swept_outboxes.get(outbox, node as u32).unwrap_or_else(|| {
            let swept = self.model.catalogue().sweep_outbox(outbox, NodeId::from(node));
            self.swept_outboxes.set(outbox, node as u32, swept);
            swept
        })
    }

    fn is_spreading(&mut self, outbox: u32) -> bool {
        if let Some(Some(spreading)) = self.spreading.get(outbox as usize) {
            return *spreading;
        }
        let spreading = self.model.catalogue().is_spreading(outbox);
        put(&mut self.spreading, outbox, spreading);
        spreading
    }
}
