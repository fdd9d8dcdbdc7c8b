//! The special repairs: the survivors of a crash go on in the view they have.
//!
//! - *Take out.* Each survivor takes the crashed process out by itself: its requests are gone and
//!   its answers count as given. No message. (Lamport, Ricart-Agrawala, Carvalho-Roucairol, the
//!   Bakery; the clients of a coordinator.)
//! - *Close the ring.* The process before the gap passes its last message again, to the process
//!   behind it. That one takes it only if it has seen none that was passed later: then the message
//!   was lost with the crashed process, or is under way from it and will be void. So there is one
//!   token afterwards, without an election. (Le Lann, Dijkstra.)
//! - *Take over.* The next process stands in for a crashed arbiter. Each process that requests of
//!   it sends a claim: its request, and whether the arbiter had granted it. With all claims the
//!   arbiter's state is known. (Maekawa, Sanders.)
//!
//! Each survivor raises its clock's epoch when it goes on, so that fencing tokens exceed that of a
//! crashed holder, provided that the holder knew of no other crash that this survivor does not know
//! of: fencing needs every crash reported to all before the next one. (View changes do not: their
//! members agree on the crashes.) What a crashed process has sent is void from then on.

use std::collections::{BTreeMap, VecDeque};

use super::{Generic, Stage, running::Route};
use crate::{
    ClaimAt, Fields, Message, Mutex, NodeId, Process, Shared, SpecialRepair, Start, Time, Timer,
    Value, Wait,
    repairs::{Changes, Hop, Outbox, Plan, RepairMessage, View, outbox::Own},
};

/// What a special repair knows beside the algorithm, in one view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Local<M: Mutex> {
    /// Every crash starts a view.
    NewView,
    TakeOut,
    Ring(Ring),
    Takeover(Takeover<M>),
}

/// A place on a ring that closes over gaps.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Ring {
    acknowledged: bool,
    /// The ring as the view began.
    start: Shared<Start>,
    order: Shared<Vec<NodeId>>,
    holder: NodeId,
    /// The number of the pass that arrived here last, and its sender.
    received: Hop,
    received_from: Option<NodeId>,
    /// The number of the last pass from here.
    passed: Hop,
    /// The pass that is not acknowledged yet.
    pub(super) awaited: Option<Hop>,
    /// A pass was sent in this event: its timer is to be set.
    is_new: bool,
}

/// The parts of crashed arbiters that are taken over here.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Takeover<M: Mutex> {
    parts: BTreeMap<NodeId, Part<M>>,
    /// Messages between processes that are both here, from and to: delivered before an event ends.
    inbox: VecDeque<(NodeId, NodeId, M::Message)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Part<M: Mutex> {
    /// Claims come in, and messages that must wait for the last of them.
    Collecting {
        claims: BTreeMap<NodeId, Option<ClaimAt<M::Message>>>,
        early: Vec<(NodeId, Time, M::Message)>,
    },
    Serving(Box<Process<M>>),
}

impl<M: Mutex> Local<M> {
    pub(super) fn new(repair: SpecialRepair, members: &[NodeId], start: &Start) -> Self {
        match repair {
            SpecialRepair::None => Self::NewView,
            SpecialRepair::TakeOut => Self::TakeOut,
            SpecialRepair::CloseRing { acknowledged } => Self::Ring(Ring {
                acknowledged,
                start: Shared::new(start.clone()),
                order: Shared::new(members.to_vec()),
                holder: members[start.holder().index()],
                received: Hop::NONE,
                received_from: None,
                passed: Hop::NONE,
                awaited: None,
                is_new: false,
            }),
            SpecialRepair::Takeover => {
                Self::Takeover(Takeover { parts: BTreeMap::new(), inbox: VecDeque::new() })
            }
        }
    }

    /// The parts of crashed arbiters that go on here, each with its variables that are not empty:
    /// who has its vote, and who waits for it. Ids are positions, as the algorithm's are.
    pub(super) fn variables(&self, position: impl Fn(NodeId) -> Option<NodeId>) -> Fields {
        let Self::Takeover(takeover) = self else { return Vec::new() };
        let parts = takeover.parts.iter().filter_map(|(&of, part)| match part {
            Part::Collecting { .. } => None,
            Part::Serving(process) => {
                let is_empty = |value: &Value| match value {
                    Value::None | Value::Flag(false) => true,
                    Value::List(items) => items.is_empty(),
                    _ => false,
                };
                let all = process.machine().variables().into_iter();
                let shown = all.filter(|(_, value)| !is_empty(value));
                let shown = shown.flat_map(|(name, value)| [Value::Word(name), value]);
                let of = position(of).map(Value::Node);
                Some(Value::List(of.into_iter().chain(shown).collect()))
            }
        });
        let parts: Vec<_> = parts.collect();
        if parts.is_empty() { Vec::new() } else { vec![("taken_over", Value::List(parts))] }
    }

    /// The receiver of a message of the algorithm and the message as it is sent; none if the
    /// receiver has crashed, or is here.
    pub(super) fn route(
        &mut self,
        route: &Route<'_>,
        to: NodeId,
        message: M::Message,
    ) -> Option<(NodeId, RepairMessage<M::Message>)> {
        let &Route { me, of, view, named, changes, members } = route;
        let is_up = changes.is_up(to);
        match self {
            Self::NewView | Self::TakeOut => {
                is_up.then_some((to, RepairMessage::Algorithm { view: named, message }))
            }
            Self::Ring(ring) => {
                let hop = ring.received.next(ring.order.len());
                (ring.passed, ring.awaited, ring.is_new) = (hop, Some(hop), true);
                let changes = changes.clone();
                let pass = RepairMessage::Ring { view, changes, hop, again: false, message };
                is_up.then_some((to, pass))
            }
            Self::Takeover(takeover) => {
                let at = if is_up { to } else { stand_in(to, members, changes)? };
                if at == me {
                    takeover.inbox.push_back((of, to, message));
                    return None;
                }
                Some(if is_up && of == me {
                    (at, RepairMessage::Algorithm { view: named, message })
                } else {
                    (at, RepairMessage::StandIn { view, from: of, to, message })
                })
            }
        }
    }

    pub(super) fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        match self {
            Self::NewView | Self::TakeOut | Self::Ring(_) => {}
            Self::Takeover(takeover) => {
                takeover.parts.values_mut().for_each(|part| part.map_times(map));
            }
        }
    }
}

impl<M: Mutex> Part<M> {
    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        match self {
            Self::Serving(process) => process.map_times(map),
            Self::Collecting { claims, early } => {
                for claim in claims.values_mut().flatten() {
                    map(&mut claim.request.time);
                    claim.message.times(map);
                }
                for (_, sent, message) in early {
                    map(sent);
                    message.times(map);
                }
            }
        }
    }
}

impl Ring {
    /// The crashed processes behind this one, and the first behind them that is up: this one, if
    /// all others have crashed.
    fn gap(&self, me: NodeId, changes: &Changes) -> (Vec<NodeId>, NodeId) {
        let mut gap = Vec::new();
        let mut at = NodeId::from(self.order.binary_search(&me).unwrap_or_default());
        loop {
            at = self.start.successor(at);
            let node = self.order[at.index()];
            if node == me || changes.is_up(node) {
                return (gap, node);
            }
            gap.push(node);
        }
    }

    /// Sets the timer of a pass that was sent in this event.
    pub(super) fn await_acknowledgement<A>(&mut self, out: &mut Outbox<A>) {
        if std::mem::take(&mut self.is_new) && self.acknowledged {
            out.own(Own::SetTimer(Timer::Acknowledgement, ACKNOWLEDGED));
        } else if !self.acknowledged {
            self.awaited = None;
        }
    }
}

/// The pass takes a transmission, its handling, and the acknowledgement another transmission.
const ACKNOWLEDGED: Wait = Wait { transmissions: 2, handlings: 1 };

/// The process that stands in for a crashed one: the next member that is up.
fn stand_in(node: NodeId, members: &[NodeId], changes: &Changes) -> Option<NodeId> {
    let at = members.binary_search(&node).ok()?;
    let (before, after) = members.split_at(at);
    after.iter().chain(before).copied().find(|&other| changes.is_up(other))
}

impl<M: Mutex> Generic<M> {
    /// Whether this process can go on in its view without one that has crashed now.
    pub(super) fn can_go_on_without(&self, node: NodeId, changes: u32) -> bool {
        let Stage::Running(running) = &self.stage else { return false };
        let Some(position) = running.position(node) else { return false };
        if changes.is_multiple_of(2) || !running.process.machine().can_go_without(position) {
            return false;
        }
        match &running.local {
            Local::NewView => false,
            Local::TakeOut | Local::Takeover(_) => true,
            // Alone on the ring a process keeps the token, which it may not have.
            Local::Ring(ring) => ring.gap(self.me, &self.changes).1 != self.me,
        }
    }

    /// Goes on without a process that has crashed.
    pub(super) fn go_on_without(&mut self, node: NodeId, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Some(position) = running.position(node) else { return };
        running.process.raise_time(Time::new(self.changes.view(), 0));
        out.own(Own::GoOn(node));
        match running.local {
            Local::NewView => {}
            Local::Ring(_) => self.close_ring(node, out),
            Local::TakeOut | Local::Takeover(_) => {
                self.take_out(position, out);
                self.move_parts(node, out);
            }
        }
        self.settle(out);
    }

    /// Takes over the crashes that another survivor of this view knows of.
    pub(super) fn learn(&mut self, changes: &Changes, out: &mut Outbox<M::Message>) {
        if changes.is_like(&self.changes) {
            for &(node, count) in changes.counts() {
                self.report(node, count, out);
            }
        }
    }

    /// What is left of an event: messages between the parts of this process, and waits for crashed
    /// processes, which are over.
    pub(super) fn settle(&mut self, out: &mut Outbox<M::Message>) {
        loop {
            let Stage::Running(running) = &mut self.stage else { return };
            if running.number == self.changes.view() {
                return;
            }
            match &mut running.local {
                Local::NewView | Local::Ring(_) => return,
                Local::TakeOut => {
                    let waits = running.process.machine().waits_for();
                    let is_up = |at: &NodeId| self.changes.is_up(running.members[at.index()]);
                    let Some(crashed) = waits.into_iter().find(|at| !is_up(at)) else { return };
                    let machine = |machine: &mut M| machine.go_without(crashed, &mut out.algorithm);
                    running.process.repair(machine);
                    self.carry_out(self.me, out);
                }
                Local::Takeover(takeover) => {
                    let Some((from, to, message)) = takeover.inbox.pop_front() else { return };
                    let sent = running.process.time();
                    self.deliver((from, to), sent, message, out);
                }
            }
        }
    }

    /// The process here, and those that it stands in for, take a crashed one out.
    fn take_out(&mut self, crashed: NodeId, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        running.process.repair(|machine| machine.go_without(crashed, &mut out.algorithm));
        self.carry_out(self.me, out);
        for arbiter in self.served() {
            if let Some(process) = self.part(arbiter) {
                process.repair(|machine| machine.go_without(crashed, &mut out.algorithm));
                self.carry_out(arbiter, out);
            }
        }
    }

    /// The arbiters whose part is served here.
    fn served(&self) -> Vec<NodeId> {
        let Stage::Running(running) = &self.stage else { return Vec::new() };
        let Local::Takeover(takeover) = &running.local else { return Vec::new() };
        takeover.parts.keys().copied().collect()
    }

    fn part(&mut self, arbiter: NodeId) -> Option<&mut Process<M>> {
        let Stage::Running(running) = &mut self.stage else { return None };
        let Local::Takeover(takeover) = &mut running.local else { return None };
        match takeover.parts.get_mut(&arbiter) {
            Some(Part::Serving(process)) => Some(process),
            Some(Part::Collecting { .. }) | None => None,
        }
    }
}

/// The ring.
impl<M: Mutex> Generic<M> {
    /// Closes the ring over a crashed process; before the gap the last message is passed again.
    fn close_ring(&mut self, crashed: NodeId, out: &mut Outbox<M::Message>) {
        let view = View {
            changes: self.changes.clone(),
            holder: self.me,
            in_cs: false,
            pending: Vec::new(),
        };
        let Some(start) = self.plan.start_of::<M>(&view, self.me) else { return };
        let Stage::Running(running) = &mut self.stage else { return };
        running.members = Plan::members(&self.changes);
        let Some(position) = running.position(self.me) else { return };
        running.process.close_ring(position, &start);
        let again = running.process.machine().pass_again();
        let Local::Ring(ring) = &mut running.local else { return };
        let (gap, next) = ring.gap(self.me, &self.changes);
        if !gap.contains(&crashed) {
            return;
        }
        // In the first round it is as if the holder had got the message from the process before it.
        let Some(message) = again else { return };
        if ring.passed == Hop::NONE && !gap.contains(&ring.holder) {
            return;
        }
        let (view, changes, hop) = (running.number, self.changes.clone(), ring.passed);
        (ring.awaited, ring.is_new) = (Some(hop), true);
        out.send(next, RepairMessage::Ring { view, changes, hop, again: true, message });
        ring.await_acknowledgement(out);
    }

    /// A message is passed here on the ring.
    pub(super) fn on_pass(
        &mut self,
        from: NodeId,
        (sent, hop): (Time, Hop),
        again: bool,
        message: M::Message,
        out: &mut Outbox<M::Message>,
    ) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Some(position) = running.position(from) else { return };
        let view = running.number;
        let Local::Ring(ring) = &mut running.local else { return };
        if ring.acknowledged {
            out.send(from, RepairMessage::Acknowledge { view, hop });
        }
        // A process passes again before it passes anything else over the gap. If a later pass has
        // overtaken that one, the message is not lost.
        let is_overtaken = ring.received_from == Some(from);
        if again && (is_overtaken || !hop.is_later(ring.received, ring.order.len())) {
            return;
        }
        (ring.received, ring.received_from) = (hop, Some(from));
        self.run(out, |process, out| {
            process.receive(position, sent, message, out);
        });
    }

    pub(super) fn on_acknowledge(&mut self, from: NodeId, hop: Hop, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Local::Ring(ring) = &mut running.local else { return };
        let next = ring.gap(self.me, &self.changes).1;
        if next == from && ring.awaited == Some(hop) {
            ring.awaited = None;
            out.own(Own::CancelTimer(Timer::Acknowledgement));
        }
    }

    /// No acknowledgement has come in time: the next process has crashed.
    pub(super) fn miss_acknowledgement(&mut self, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Local::Ring(ring) = &mut running.local else { return };
        if ring.awaited.take().is_some() {
            let next = ring.gap(self.me, &self.changes).1;
            self.crashed(next, out);
        }
    }
}

/// The parts of arbiters.
impl<M: Mutex> Generic<M> {
    /// The parts that a crashed process had, its own and those that it stood in for, move to the
    /// next process: claims go there.
    fn move_parts(&mut self, crashed: NodeId, out: &mut Outbox<M::Message>) {
        let (me, changes) = (self.me, &self.changes);
        let Stage::Running(running) = &mut self.stage else { return };
        let (view, members) = (running.number, &running.members);
        let Local::Takeover(takeover) = &mut running.local else { return };
        let Ok(here) = members.binary_search(&me).map(NodeId::from) else { return };
        let was_at = |arbiter: NodeId| {
            let is_it = |&node: &NodeId| node == crashed || changes.is_up(node);
            let at = members.binary_search(&arbiter).unwrap_or_default();
            members[at..].iter().chain(&members[..at]).copied().find(is_it)
        };
        let moved = members.iter().copied().filter(|&node| !changes.is_up(node));
        let moved: Vec<_> = moved.filter(|&arbiter| was_at(arbiter) == Some(crashed)).collect();
        for arbiter in moved {
            let Some(at) = stand_in(arbiter, members, changes) else { continue };
            let Ok(position) = members.binary_search(&arbiter).map(NodeId::from) else { continue };
            let (mut claims, mut claim) = (BTreeMap::new(), None);
            running.process.repair(|machine| claim = machine.claim_at(position));
            let requests = running.process.machine().requests_of(here, position);
            if at != me && requests {
                let changes = changes.clone();
                out.send(at, RepairMessage::Claim { view, changes, arbiter, claim });
            } else if at == me {
                if requests {
                    claims.insert(me, claim);
                }
                takeover.parts.insert(arbiter, Part::Collecting { claims, early: Vec::new() });
            }
        }
        for arbiter in self.served() {
            self.serve_if_all_claimed(arbiter, out);
        }
    }

    /// A claim of a request at an arbiter whose part is taken over here.
    pub(super) fn on_claim(
        &mut self,
        from: NodeId,
        arbiter: NodeId,
        claim: Option<ClaimAt<M::Message>>,
        out: &mut Outbox<M::Message>,
    ) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Local::Takeover(takeover) = &mut running.local else { return };
        if let Some(Part::Collecting { claims, .. }) = takeover.parts.get_mut(&arbiter) {
            claims.insert(from, claim);
            self.serve_if_all_claimed(arbiter, out);
            self.settle(out);
        }
    }

    /// With the claims of all that request of it, the arbiter's part goes on here: the granted
    /// request first, the others as if they arrived in the order of their stamps.
    fn serve_if_all_claimed(&mut self, arbiter: NodeId, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Some(position) = running.position(arbiter) else { return };
        let (machine, members) = (running.process.machine(), &running.members);
        let Local::Takeover(takeover) = &mut running.local else { return };
        let Some(Part::Collecting { claims, early }) = takeover.parts.get_mut(&arbiter) else {
            return;
        };
        let is_missing = |(at, node): (usize, &NodeId)| {
            self.changes.is_up(*node)
                && machine.requests_of(NodeId::from(at), position)
                && !claims.contains_key(node)
        };
        if members.iter().enumerate().any(is_missing) {
            return;
        }
        let Some(machine) = machine.stand_in(position) else { return };
        claims.retain(|&node, _| self.changes.is_up(node));
        let mut requests: Vec<_> = std::mem::take(claims).into_values().flatten().collect();
        requests.sort_unstable_by_key(|claim| (!claim.granted, claim.request));
        let early = std::mem::take(early);
        let process = Process::with_machine(position, running.process.time(), machine);
        takeover.parts.insert(arbiter, Part::Serving(Box::new(process)));
        for ClaimAt { request, granted, message } in requests {
            let Some(process) = self.part(arbiter) else { return };
            process.receive(request.node, request.time, message, &mut out.algorithm);
            if granted {
                // The grant has arrived already.
                out.algorithm.drain(|_| {});
            }
            self.carry_out(arbiter, out);
        }
        out.own(Own::TakeOver(arbiter));
        for (from, sent, message) in early {
            self.deliver((from, arbiter), sent, message, out);
        }
    }

    /// A message to or from an arbiter whose part is taken over, here or by the sender.
    pub(super) fn on_stand_in(
        &mut self,
        sender: NodeId,
        (from, to): (NodeId, NodeId),
        sent: Time,
        message: M::Message,
        out: &mut Outbox<M::Message>,
    ) {
        let Stage::Running(running) = &self.stage else { return };
        let is_stand_in = stand_in(from, &running.members, &self.changes) == Some(sender);
        if is_stand_in {
            self.deliver((from, to), sent, message, out);
            self.settle(out);
        }
    }

    /// Delivers a message to the process here, or to one whose part is taken over here.
    fn deliver(
        &mut self,
        (from, to): (NodeId, NodeId),
        sent: Time,
        message: M::Message,
        out: &mut Outbox<M::Message>,
    ) {
        let Stage::Running(running) = &mut self.stage else { return };
        let Some(position) = running.position(from) else { return };
        if to == self.me {
            running.process.receive(position, sent, message, &mut out.algorithm);
            return self.carry_out(to, out);
        }
        let Local::Takeover(takeover) = &mut running.local else { return };
        match takeover.parts.get_mut(&to) {
            Some(Part::Serving(process)) => {
                process.receive(position, sent, message, &mut out.algorithm);
                self.carry_out(to, out);
            }
            Some(Part::Collecting { early, .. }) => early.push((from, sent, message)),
            None => {}
        }
    }
}
