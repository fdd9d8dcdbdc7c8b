//! One step of a system: from a state, as numbers, to all that can follow it.

mod order;
mod stamps;

use mutua_algorithms::{Claim, NodeId};

use crate::{
    actor::{Event, Look},
    budget::Cost,
    catalogue::{
        Delivery, ELECTED, EMPTY, ENTERED, LEFT, Move, NOTHING, OVERTOOK, Outcome, PANICKED,
        RESUMED, UNFENCED,
    },
    ghost::Ghost,
    ids::{EffectId, Id, LocalId, OutboxId, PacketId},
    intern::Memo,
    known::{Shifts, Table, put},
    model::{Model, PANIC, Properties, bit},
    symmetry::Orbits,
    system::{Detector, Timers},
};

/// All receivers, one bit each.
const EVERY_PROCESS: u16 = u16::MAX;

/// The event of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Something at a process by itself.
    Happen { node: u8, event: Event },
    /// A message arrives.
    Deliver { from: u8, to: u8, packet: PacketId },
    /// A message will arrive once more, behind all others.
    Duplicate { from: u8, to: u8, packet: PacketId },
    /// A message is lost.
    Lose { from: u8, to: u8, packet: PacketId },
    /// A message of the application arrives. (Timestamps; no such run is ever shown.)
    Hear { from: u8, to: u8 },
}

impl Action {
    /// Whether it must happen in the end: messages arrive, clients exit, timers run out.
    pub(crate) fn is_fair(self) -> bool {
        match self {
            Self::Happen { event, .. } => event.is_fair(),
            Self::Deliver { .. } => true,
            Self::Duplicate { .. } | Self::Lose { .. } | Self::Hear { .. } => false,
        }
    }
}

/// A step that can be taken.
pub(crate) struct Step<'a> {
    pub(crate) action: Action,
    /// The state after it.
    pub(crate) state: &'a [u32],
    /// The messages that are sent in it.
    pub(crate) effect: EffectId,
    /// The properties that it violates.
    pub(crate) violated: Properties,
    /// Whether something has to happen in the state before it: this, or what was left out for want
    /// of delays.
    pub(crate) due: bool,
}

impl<'a> Step<'a> {
    fn new(action: Action, state: &'a [u32], effect: EffectId, violated: Properties) -> Self {
        Self { action, state, effect, violated, due: action.is_fair() }
    }
}

/// Takes steps; one for each worker, with its own copy of what it has looked up.
pub(crate) struct Stepper<'a> {
    model: &'a Model,
    looks: Vec<Option<Look>>,
    moves: Table<LocalId, Move>,
    deliveries: Table<OutboxId, Delivery>,
    receives: Memo<LocalId, PacketId, Outcome>,
    posts: Memo<OutboxId, EffectId, OutboxId>,
    swept_locals: Memo<LocalId, u32, LocalId>,
    swept_outboxes: Memo<OutboxId, u32, OutboxId>,
    /// What a message of the application can do now, and its sender.
    hearings: Vec<(u8, Outcome)>,
    heads: Memo<OutboxId, u32, Option<u64>>,
    heard: Memo<LocalId, u32, Outcome>,
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
            hearings: Vec::new(),
            heads: Memo::new(),
            heard: Memo::new(),
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
        self.expand_freely(state, |Step { action, state, effect, violated, due }| {
            all.push((action, state.to_vec(), effect, violated, due));
        });
        let due = all.iter().any(|&(.., due)| due);
        for (index, (action, mut state, effect, violated, _)) in all.into_iter().enumerate() {
            let last = state.len() - 1;
            let Some(rest) = Cost::Delay.pay_times(index as u32, state[last]) else { break };
            state[last] = rest;
            visit(Step { action, state: &state, effect, violated, due });
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
            if OutboxId(state[self.model.processes + node]) != EMPTY {
                self.expand_deliveries(state, node, EVERY_PROCESS, next, visit);
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
        let range = self.moves_of(LocalId(state[node]));
        for index in range {
            let Move { event, outcome } = self.moves.items[index];
            next.copy_from_slice(state);
            if matches!(event, Event::Timeout(_)) && !self.may_time_out(state) {
                continue;
            }
            if let Event::Report(other, changes) = event
                && !self.may_report(state, other, changes)
            {
                continue;
            }
            if let Some(cost) = Cost::of(event)
                && !self.pay(cost, next)
            {
                continue;
            }
            let violated = self.apply(next, node, outcome);
            let action = Action::Happen { node: node as u8, event };
            visit(Step::new(action, next, outcome.effect, violated));
        }
        if self.model.ghost == Ghost::Stamps {
            self.expand_hearing(state, node, next, visit);
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
        for index in self.deliveries_of(OutboxId(state[outbox])) {
            let Delivery { to, packet, rest, twice } = self.deliveries.items[index];
            if receivers & (1 << to) == 0 {
                continue;
            }
            let outcome = self.receive(LocalId(state[to as usize]), packet);
            let (from, effect) = (node as u8, outcome.effect);
            next.copy_from_slice(state);
            next[outbox] = rest.0;
            let violated = self.apply(next, to as usize, outcome);
            let action = Action::Deliver { from, to, packet };
            visit(Step::new(action, next, effect, violated));
            if self.model.ghost == Ghost::Stamps {
                let delivery = self.deliveries.items[index];
                self.expand_hearing_first(state, delivery, outbox, next, visit);
            }
            if !self.model.has_budget {
                continue;
            }
            next.copy_from_slice(state);
            if self.pay(Cost::Duplicate, next) {
                next[outbox] = twice.0;
                self.normalise(next);
                let action = Action::Duplicate { from, to, packet };
                visit(Step::new(action, next, NOTHING, 0));
            }
            next.copy_from_slice(state);
            if self.pay(Cost::Loss, next) {
                next[outbox] = rest.0;
                self.normalise(next);
                let action = Action::Lose { from, to, packet };
                visit(Step::new(action, next, NOTHING, 0));
            }
        }
    }

    /// Lets an outcome at a process take effect, the ghost's included; returns what it violates.
    fn apply(&mut self, next: &mut [u32], node: usize, outcome: Outcome) -> Properties {
        let mut violated = 0;
        if outcome.marks != 0 {
            violated = self.judge(next, node, outcome);
        }
        next[node] = outcome.local.0;
        if outcome.effect != NOTHING {
            let outbox = &mut next[self.model.processes + node];
            *outbox = self.post(OutboxId(*outbox), outcome.effect).0;
        }
        if outcome.marks & ELECTED != 0 {
            violated |= self.judge_election(next, node);
        }
        if outcome.marks & RESUMED != 0 {
            violated |= self.judge_view(next, node);
        }
        if self.model.repaired {
            violated |= self.judge_token(next, node);
        }
        self.normalise(next);
        violated
    }

    /// The violations of an entry or an exit, and the ghost after it.
    fn judge(&mut self, next: &mut [u32], node: usize, outcome: Outcome) -> Properties {
        let marks = outcome.marks;
        let mut violated = 0;
        if marks & ENTERED != 0 {
            let others = (0..self.model.processes).filter(|&other| other != node);
            for other in others {
                if self.look(LocalId(next[other])).in_cs {
                    violated |= bit(Claim::MutualExclusion);
                }
            }
            match self.model.ghost {
                Ghost::Ordering => self.sweep(next, node),
                Ghost::Bypass => violated |= self.count_bypass(next, node),
                Ghost::Stamps => violated |= self.judge_stamps(next, node, outcome),
                Ghost::None | Ghost::Fencing => {}
            }
        }
        if marks & LEFT != 0 && self.model.ghost == Ghost::Fencing {
            self.sweep(next, node);
        }
        for (mark, property) in
            [(UNFENCED, bit(Claim::Fencing)), (OVERTOOK, bit(Claim::Ordering)), (PANICKED, PANIC)]
        {
            if marks & mark != 0 {
                violated |= property;
            }
        }
        violated
    }

    /// E1: no process above the elected one is up. Where a returning process leaves a working
    /// coordinator in office, that one may be right too, so the agreement is looked at when all is
    /// at rest.
    fn judge_election(&mut self, next: &[u32], node: usize) -> Properties {
        let Some(elected) = self.look(LocalId(next[node])).coordinator else { return 0 };
        let higher = &next[..self.model.processes][elected.index() + 1..];
        let wrong =
            self.model.highest_wins && higher.iter().any(|&other| !self.look(LocalId(other)).down);
        if wrong { bit(Claim::Agreement) } else { 0 }
    }

    /// A view has one leader: every process in it has it from the same one.
    fn judge_view(&mut self, next: &[u32], node: usize) -> Properties {
        let Some((number, leader)) = self.look(LocalId(next[node])).view else { return 0 };
        let differs = next[..self.model.processes].iter().any(|&other| {
            let view = self.look(LocalId(other)).view;
            view.is_some_and(|(other, by)| other == number && by != leader)
        });
        if differs { bit(Claim::Agreement) } else { 0 }
    }

    /// Of the processes that are up, one at most has the token or would enter at once: a repair
    /// makes no second one.
    fn judge_token(&mut self, next: &[u32], node: usize) -> Properties {
        if !self.look(LocalId(next[node])).token {
            return 0;
        }
        let mut others = (0..self.model.processes).filter(|&other| other != node);
        let second = others.any(|other| self.look(LocalId(next[other])).token);
        if second { bit(Claim::Agreement) } else { 0 }
    }

    /// Whether the failure detector can report so many crashes and restarts of a process.
    fn may_report(&mut self, state: &[u32], node: NodeId, changes: u8) -> bool {
        let wrong = self.model.detector == Detector::Timeout && changes == 1;
        wrong || changes <= self.look(LocalId(state[node.index()])).changes
    }

    /// Clears the ghost of all other processes and of all messages.
    fn sweep(&mut self, next: &mut [u32], node: usize) {
        let processes = self.model.processes;
        for index in 0..processes {
            next[index] = self.sweep_local(LocalId(next[index]), node).0;
            let outbox = OutboxId(next[processes + index]);
            if outbox != EMPTY {
                next[processes + index] = self.sweep_outbox(outbox, node).0;
            }
        }
    }

    /// Counts the entry of `node` against all whose request has arrived wherever they sent it, and
    /// has a ticket where requests draw one.
    fn count_bypass(&mut self, next: &mut [u32], node: usize) -> Properties {
        let processes = self.model.processes;
        let mut violated = 0;
        for other in (0..processes).filter(|&other| other != node) {
            let look = self.look(LocalId(next[other]));
            if !(look.waiting && look.ticket)
                || self.is_spreading(OutboxId(next[processes + other]))
            {
                continue;
            }
            let before = LocalId(next[other]);
            let counted = self.sweep_local(before, node);
            if counted == before {
                violated |= bit(Claim::BoundedBypass);
            }
            next[other] = counted.0;
        }
        violated
    }

    /// Makes of a state the one that stands for all that are equal to it under the reductions.
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
        if self.model.repaired {
            return self.sink_in_epochs(next);
        }
        let (locals, rest) = next.split_at_mut(self.model.processes);
        let outboxes = &mut rest[..self.model.processes];
        let lowest = self.shifts.lowest(self.model, locals, outboxes);
        if lowest > 0 {
            self.shifts.shift(self.model, locals, outboxes, 0, lowest);
        }
    }

    /// A repair sets clocks to the start of an epoch. Once no process will do that within an epoch
    /// any more, its readings are compared and stepped only, whatever those of other epochs are.
    fn sink_in_epochs(&mut self, next: &mut [u32]) {
        let processes = self.model.processes;
        let up = next[..processes].iter().map(|&local| self.look(LocalId(local)));
        let settled = up.filter(|look| !look.down).map(|look| look.settled).min();
        let Some(settled) = settled else { return };
        let (locals, rest) = next.split_at_mut(processes);
        let outboxes = &mut rest[..processes];
        for epoch in 0..settled {
            let lowest = self.shifts.lowest_of(self.model, locals, outboxes, epoch);
            if lowest > 0 {
                self.shifts.shift(self.model, locals, outboxes, epoch, lowest);
            }
        }
    }

    fn may_time_out(&self, state: &[u32]) -> bool {
        let processes = self.model.processes;
        match self.model.timers {
            Timers::Any => true,
            Timers::Bounded => {
                state[processes..2 * processes].iter().all(|&outbox| OutboxId(outbox) == EMPTY)
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

/// A cached look-up; the catalogue is asked where the cache has none.
impl Stepper<'_> {
    pub(crate) fn look(&mut self, local: LocalId) -> Look {
        if let Some(Some(look)) = self.looks.get(local.index()) {
            return *look;
        }
        let look = self.model.catalogue().look(local);
        put(&mut self.looks, local, look);
        look
    }

    fn moves_of(&mut self, local: LocalId) -> std::ops::Range<usize> {
        self.moves.range(local).unwrap_or_else(|| {
            let moves = self.model.catalogue().moves(local);
            self.moves.set(local, moves)
        })
    }

    fn deliveries_of(&mut self, outbox: OutboxId) -> std::ops::Range<usize> {
        self.deliveries.range(outbox).unwrap_or_else(|| {
            let deliveries = self.model.catalogue().deliveries(outbox);
            self.deliveries.set(outbox, deliveries)
        })
    }

    #[inline]
    fn receive(&mut self, local: LocalId, packet: PacketId) -> Outcome {
        self.receives.get(local, packet).unwrap_or_else(|| {
            let outcome = self.model.catalogue().receive(local, packet);
            self.receives.set(local, packet, outcome);
            outcome
        })
    }

    #[inline]
    fn post(&mut self, outbox: OutboxId, effect: EffectId) -> OutboxId {
        self.posts.get(outbox, effect).unwrap_or_else(|| {
            let after = self.model.catalogue().post(outbox, effect);
            self.posts.set(outbox, effect, after);
            after
        })
    }

    fn sweep_local(&mut self, local: LocalId, node: usize) -> LocalId {
        self.swept_locals.get(local, node as u32).unwrap_or_else(|| {
            let swept = self.model.catalogue().sweep_local(local, NodeId::from(node));
            self.swept_locals.set(local, node as u32, swept);
            swept
        })
    }

    fn sweep_outbox(&mut self, outbox: OutboxId, node: usize) -> OutboxId {
        self.swept_outboxes.get(outbox, node as u32).unwrap_or_else(|| {
            let swept = self.model.catalogue().sweep_outbox(outbox, NodeId::from(node));
            self.swept_outboxes.set(outbox, node as u32, swept);
            swept
        })
    }

    fn is_spreading(&mut self, outbox: OutboxId) -> bool {
        if let Some(Some(spreading)) = self.spreading.get(outbox.index()) {
            return *spreading;
        }
        let spreading = self.model.catalogue().is_spreading(outbox);
        put(&mut self.spreading, outbox, spreading);
        spreading
    }
}
