//! The generic repair: after a crash or a restart the survivors start the algorithm anew, from the
//! state of their clients.
//!
//! 1. A failure detector reports the crash (or the restart) to each process, at its own time. The
//!    process suspends the algorithm and takes part in an election among those that are up. Every
//!    message of the election carries the changes that it is about, so that a process which has not
//!    got the report yet joins by the message, and one that knows of more changes drops it.
//! 2. Each survivor reports to the leader whether its client is in the critical section, and the
//!    stamp of its pending request.
//! 3. With a report of every survivor the leader starts the next view: a start of the same
//!    algorithm among the survivors, in which the process in the critical section, or else the one
//!    with the oldest request, is the holder. Pending requests keep their order: where the
//!    algorithm has a queue, the view begins with them in it
//!    ([`Inspect::resume`](crate::Inspect::resume)); elsewhere they are made again, with clocks in
//!    their order.
//!
//! A view needs the report of every member, and a process that has reported to one leader and
//! elects another one afterwards takes back its own collection, so a view has one leader, whatever
//! the election does. The algorithm's messages name their view: those of an older one are dropped,
//! and those of the next one wait until it begins here.
//!
//! With the algorithm's special repair a crash need not start a view: the survivors go on in the
//! one they have, as [`special`] describes. A restart always starts one.
//!
//! The clock's epoch is the number of the view, so a fencing token is greater than all of older
//! views, also that of a crashed holder, whose clock no survivor knows.

mod running;
mod special;

use std::{collections::BTreeMap, fmt::Debug, hash::Hash};

use running::Running;

use super::{
    Changes, Outbox, Plan, RepairMessage, Report, View,
    elector::{Elector, ElectorEvent},
    outbox::Own,
};
use crate::{
    Fields, Message, Mutex, NodeId, Phase, Process, Shared, Stamp, Start, Time, Timer, Value,
};

/// One process of a mutual exclusion algorithm with the generic repair.
///
/// A driver uses it like a [`Process`], sends every message with [`time`](Self::time), and adds the
/// reports of a failure detector and the election's timers.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Generic<M: Mutex> {
    me: NodeId,
    plan: Shared<Plan>,
    changes: Changes,
    client: Client,
    stage: Stage<M>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Client {
    Idle,
    Requesting(Stamp),
    InCs,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Stage<M: Mutex> {
    Running(Box<Running<M>>),
    Suspended(Box<Suspended<M::Message>>),
}

/// The repair under way.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Suspended<A> {
    time: Time,
    elector: Elector,
    /// The reports of the others, while this process is the leader.
    reports: BTreeMap<NodeId, Report>,
    /// Messages that may be of the next view.
    early: Vec<Early<A>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Early<A> {
    view: u32,
    from: NodeId,
    sent: Time,
    message: RepairMessage<A>,
}

impl<M: Mutex> Generic<M> {
    /// A process at the start. The next call is [`begin`](Self::begin).
    pub fn new(me: NodeId, plan: &Shared<Plan>) -> Self {
        let start = plan.start();
        let members = start.all().collect();
        let running = Running::new(Process::new(me, start), members, plan, start);
        Self {
            me,
            plan: plan.clone(),
            changes: Changes::none(plan.processes()),
            client: if start.is_in_cs(me) { Client::InCs } else { Client::Idle },
            stage: Stage::Running(Box::new(running)),
        }
    }

    /// A process that has restarted with an empty memory: its crashes and restarts are `changes`,
    /// an even number. The next call is [`begin`](Self::begin), by which it starts an election and
    /// so joins the next view.
    pub fn restarted(me: NodeId, plan: &Shared<Plan>, changes: u32) -> Self {
        let mut known = Changes::none(plan.processes());
        known.raise(me, changes);
        let elector = Elector::new(plan.election(), me, &known, plan.processes());
        let (reports, early) = (BTreeMap::new(), Vec::new());
        // Its requests are behind those that are pending: it knows no clock of before.
        let time = Time::new(known.view(), 0);
        let suspended = Suspended { time, elector, reports, early };
        Self {
            me,
            plan: plan.clone(),
            changes: known,
            client: Client::Idle,
            stage: Stage::Suspended(Box::new(suspended)),
        }
    }

    /// Its id.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Its clock, which goes with every message it sends.
    pub fn time(&self) -> Time {
        match &self.stage {
            Stage::Running(running) => running.process.time(),
            Stage::Suspended(suspended) => suspended.time,
        }
    }

    /// The phase of the local client.
    pub fn phase(&self) -> Phase {
        match self.client {
            Client::Idle => Phase::Idle,
            Client::Requesting(_) => Phase::Requesting,
            Client::InCs => Phase::InCs,
        }
    }

    /// Whether it has the token: its client is in the critical section, or would enter at once.
    pub fn has_token(&self) -> bool {
        match (&self.stage, self.client) {
            (_, Client::InCs) => true,
            (Stage::Running(running), Client::Idle) => {
                running.process.machine().would_enter_at_once()
            }
            (Stage::Running(_) | Stage::Suspended(_), Client::Idle | Client::Requesting(_)) => {
                false
            }
        }
    }

    /// The crashes and restarts that it knows of.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The number of its view and the process that started it; none while it is suspended.
    pub fn view(&self) -> Option<(u32, Option<NodeId>)> {
        match &self.stage {
            Stage::Running(running) => Some((running.number, running.leader)),
            Stage::Suspended(_) => None,
        }
    }

    /// The coordinator of its view: of the algorithm, or else the process that started the view;
    /// none while it is suspended, nor in the first view of an algorithm without one.
    pub fn coordinator(&self) -> Option<NodeId> {
        match &self.stage {
            Stage::Running(running) => running.coordinator.or(running.leader),
            Stage::Suspended(_) => None,
        }
    }

    /// Whether the clock travels with this message (`None`: a message of the application). An
    /// election needs none: the view that follows it sets the clocks. Nor does a report with a
    /// reading of that view, as of a process that has restarted.
    pub fn carries_clock(&self, message: Option<&RepairMessage<M::Message>>) -> bool {
        match (&self.stage, message) {
            (Stage::Running(running), None) => running.process.machine().carries_clock(None),
            (Stage::Running(running), Some(RepairMessage::Algorithm { message, .. })) => {
                running.process.machine().carries_clock(Some(message))
            }
            (_, Some(RepairMessage::Election { .. } | RepairMessage::Acknowledge { .. })) => false,
            (_, Some(RepairMessage::Report(report))) => report.counts(self.time()),
            (Stage::Running(_) | Stage::Suspended(_), _) => true,
        }
    }

    /// The state: that of the view, and under the paper's names that of the algorithm or of the
    /// election.
    pub fn variables(&self) -> Fields {
        let mut fields = vec![
            ("view", self.view().map(|(number, _)| number).into()),
            ("members", Value::list(self.changes.members())),
        ];
        fields.extend(match &self.stage {
            Stage::Running(running) => {
                let member = |at: NodeId| running.members.get(at.index()).copied().unwrap_or(at);
                let variables = running.process.machine().variables().into_iter();
                let variables = variables.chain(running.local.variables(|of| running.position(of)));
                variables.map(|(name, value)| (name, value.with_ids(&member))).collect()
            }
            Stage::Suspended(suspended) => suspended.elector.variables(),
        });
        fields
    }

    /// The system begins, or the process has restarted: every driver calls this once, before
    /// everything else.
    pub fn begin(&mut self, out: &mut Outbox<M::Message>) {
        match self.stage {
            Stage::Running(_) => self.run(out, |process, out| process.begin(out)),
            Stage::Suspended(_) => self.elect(ElectorEvent::Start, out),
        }
    }

    /// The local client requests. While the algorithm is suspended, the request waits for the next
    /// view.
    ///
    /// # Panics
    ///
    /// If the client is requesting or in the critical section: an error of the driver.
    pub fn request(&mut self, out: &mut Outbox<M::Message>) {
        assert!(
            self.client == Client::Idle,
            "process {} requests while it is {}; one request at a time",
            self.me,
            self.phase().word()
        );
        self.client = Client::Requesting(Stamp::new(self.time().next(), self.me));
        match &mut self.stage {
            Stage::Running(_) => self.run(out, |process, out| {
                process.request(out);
            }),
            Stage::Suspended(suspended) => suspended.time = suspended.time.next(),
        }
    }

    /// The local client leaves.
    ///
    /// # Panics
    ///
    /// If the client is not in the critical section: an error of the driver.
    pub fn release(&mut self, out: &mut Outbox<M::Message>) {
        assert!(
            self.client == Client::InCs,
            "process {} releases while it is {}; only a process in the critical section can",
            self.me,
            self.phase().word()
        );
        self.client = Client::Idle;
        self.run(out, |process, out| process.release(out));
    }

    /// The failure detector reports that a process has crashed and restarted so many times in all:
    /// an odd number means that it is down.
    pub fn report(&mut self, node: NodeId, changes: u32, out: &mut Outbox<M::Message>) {
        if node == self.me || !self.changes.raise(node, changes) {
            return;
        }
        if self.can_go_on_without(node, changes) {
            self.go_on_without(node, out);
        } else {
            self.suspend(out);
            self.elect(ElectorEvent::Start, out);
        }
    }

    /// The failure detector reports that a process has crashed.
    pub fn crashed(&mut self, node: NodeId, out: &mut Outbox<M::Message>) {
        if let Some(known) = self.changes.of(node).filter(|known| known.is_multiple_of(2)) {
            self.report(node, known + 1, out);
        }
    }

    /// The failure detector reports that a process which had crashed is up again.
    pub fn recovered(&mut self, node: NodeId, out: &mut Outbox<M::Message>) {
        if let Some(known) = self.changes.of(node).filter(|known| !known.is_multiple_of(2)) {
            self.report(node, known + 1, out);
        }
    }

    /// A timer that was set has run out.
    pub fn timeout(&mut self, timer: Timer, out: &mut Outbox<M::Message>) {
        match timer {
            Timer::Acknowledgement => self.miss_acknowledgement(out),
            Timer::Answer | Timer::Announcement | Timer::Look => {
                self.elect(ElectorEvent::Timeout(timer), out);
            }
        }
    }

    /// A message of the application arrives, which carries the clock too.
    pub fn observe(&mut self, from: NodeId, sent: Time, out: &mut Outbox<M::Message>) {
        let Stage::Running(running) = &mut self.stage else { return self.rise_above(sent) };
        let Some(from) = running.position(from) else { return self.rise_above(sent) };
        self.run(out, |process, out| {
            process.observe(from, sent, out);
        });
    }

    /// A message arrives that was sent at `sent`.
    pub fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: RepairMessage<M::Message>,
        out: &mut Outbox<M::Message>,
    ) {
        if let Some(view) = message.view(self.changes.view()) {
            return self.on_message_of_view(Early { view, from, sent, message }, out);
        }
        match message {
            RepairMessage::Election { changes, message } => {
                if self.catch_up(from, &changes, out) {
                    self.elect(ElectorEvent::Receive(from, message), out);
                }
            }
            RepairMessage::Report(report) => {
                if report.counts(sent) {
                    self.rise_above(sent);
                }
                if self.catch_up(from, &report.changes, out) {
                    self.on_report(from, report, out);
                }
            }
            RepairMessage::View(view) => {
                self.rise_above(sent);
                if self.catch_up(from, &view.changes, out) {
                    self.install(&view, from, out);
                }
            }
            RepairMessage::Algorithm { .. }
            | RepairMessage::Ring { .. }
            | RepairMessage::Acknowledge { .. }
            | RepairMessage::Claim { .. }
            | RepairMessage::StandIn { .. } => unreachable!("it names its view"),
        }
    }

    /// Maps every clock reading, for checkers.
    pub fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        if let Client::Requesting(stamp) = &mut self.client {
            map(&mut stamp.time);
        }
        match &mut self.stage {
            Stage::Running(running) => running.map_times(map),
            Stage::Suspended(suspended) => {
                map(&mut suspended.time);
                let stamps = suspended.reports.values_mut().filter_map(|it| it.pending.as_mut());
                stamps.for_each(|stamp| map(&mut stamp.time));
                for early in &mut suspended.early {
                    map(&mut early.sent);
                    early.message.times(map);
                }
            }
        }
    }

    /// A message that belongs to a view: it counts in that one, and those of the next one wait.
    fn on_message_of_view(&mut self, message: Early<M::Message>, out: &mut Outbox<M::Message>) {
        let forming = self.changes.view();
        match &mut self.stage {
            Stage::Running(running) => {
                let is_current = self.plan.is_current(running.number, message.view);
                // What a crashed process has sent and what has not arrived yet is void: the
                // survivors have gone on without it.
                if is_current && self.changes.is_up(message.from) {
                    self.handle(message, out);
                } else {
                    self.pass_over(&message);
                }
            }
            Stage::Suspended(suspended)
                if message.view > forming || self.plan.is_current(forming, message.view) =>
            {
                suspended.early.push(message);
            }
            Stage::Suspended(_) => self.pass_over(&message),
        }
    }

    /// Does not handle a message; its clock counts, if it carries one.
    fn pass_over(&mut self, message: &Early<M::Message>) {
        if self.carries_clock(Some(&message.message)) {
            self.rise_above(message.sent);
        }
    }

    /// Takes over the changes that a message of a repair is about; whether the message is part of
    /// the repair under way here.
    fn catch_up(&mut self, from: NodeId, changes: &Changes, out: &mut Outbox<M::Message>) -> bool {
        if !changes.is_like(&self.changes) || !changes.is_up(from) || from == self.me {
            out.nonsense(from, "changes that cannot be");
            return false;
        }
        if !changes.is_up(self.me) {
            // The others take this process for crashed.
            return false;
        }
        if self.changes.covers(changes) {
            return self.changes == *changes && self.is_suspended_for_a_view(out);
        }
        let is_newer = changes.covers(&self.changes);
        self.changes.join(changes);
        self.suspend(out);
        if !is_newer {
            // Each knows of a change that the other does not: no process has begun this election.
            self.elect(ElectorEvent::Start, out);
        }
        is_newer
    }

    /// Whether the algorithm is suspended here. If this process has gone on without the crashed
    /// ones, and another one could not, it takes part in that one's view change.
    fn is_suspended_for_a_view(&mut self, out: &mut Outbox<M::Message>) -> bool {
        match &self.stage {
            Stage::Suspended(_) => true,
            Stage::Running(running) if running.number < self.changes.view() => {
                self.suspend(out);
                true
            }
            Stage::Running(_) => false,
        }
    }

    /// Suspends the algorithm, or begins the repair again for more changes.
    fn suspend(&mut self, out: &mut Outbox<M::Message>) {
        let early = match &mut self.stage {
            Stage::Running(running) => {
                running.stop_waiting(out);
                out.own(Own::Suspend);
                Vec::new()
            }
            Stage::Suspended(suspended) => {
                stop_timers(out);
                std::mem::take(&mut suspended.early)
            }
        };
        let (plan, changes) = (&self.plan, &self.changes);
        let suspended = Suspended {
            time: self.time(),
            elector: Elector::new(plan.election(), self.me, changes, plan.processes()),
            reports: BTreeMap::new(),
            early: early
                .into_iter()
                .filter(|early| {
                    early.view >= changes.view() || plan.is_current(changes.view(), early.view)
                })
                .collect(),
        };
        self.stage = Stage::Suspended(Box::new(suspended));
    }

    /// Lets an event of the election happen, and reports to the process that is elected by it.
    fn elect(&mut self, event: ElectorEvent, out: &mut Outbox<M::Message>) {
        let Stage::Suspended(suspended) = &mut self.stage else { return };
        let mut elected = None;
        suspended.elector.happen(event, &mut |effect| {
            elected = out.add(effect, &self.changes).or(elected);
        });
        let Some(leader) = elected else { return };
        suspended.reports.clear();
        if leader == self.me {
            self.start_view(out);
        } else {
            let report = self.own_report();
            out.send(leader, RepairMessage::Report(report));
        }
    }

    fn own_report(&self) -> Report {
        let term = match &self.stage {
            Stage::Running(_) => 0,
            Stage::Suspended(suspended) => suspended.elector.term(),
        };
        Report {
            changes: self.changes.clone(),
            term,
            in_cs: self.client == Client::InCs,
            pending: match self.client {
                Client::Requesting(stamp) => Some(stamp),
                Client::Idle | Client::InCs => None,
            },
        }
    }

    fn on_report(&mut self, from: NodeId, report: Report, out: &mut Outbox<M::Message>) {
        let Stage::Suspended(suspended) = &mut self.stage else { return };
        let elector = &suspended.elector;
        if elector.coordinator() == Some(self.me) && elector.term() == report.term {
            suspended.reports.insert(from, report);
            self.start_view(out);
        }
    }

    /// Starts the next view, if every member has reported.
    fn start_view(&mut self, out: &mut Outbox<M::Message>) {
        let own = self.own_report();
        let Stage::Suspended(suspended) = &mut self.stage else { return };
        let is_missing = |node: NodeId| node != self.me && !suspended.reports.contains_key(&node);
        if self.changes.members().any(is_missing) {
            return;
        }
        let mut reports = std::mem::take(&mut suspended.reports);
        reports.insert(self.me, own);
        let in_cs = reports.iter().find(|(_, report)| report.in_cs).map(|(&node, _)| node);
        let mut pending: Vec<_> = reports.values().filter_map(|report| report.pending).collect();
        pending.sort_unstable();
        let pending: Vec<_> = pending.into_iter().map(|stamp| stamp.node).collect();
        let view = View {
            changes: self.changes.clone(),
            holder: in_cs.or(pending.first().copied()).unwrap_or(self.me),
            in_cs: in_cs.is_some(),
            pending,
        };
        out.own(Own::StartView(view.changes.view()));
        let others = view.changes.members().filter(|&node| node != self.me);
        out.multicast(others, RepairMessage::View(view.clone()));
        self.install(&view, self.me, out);
    }

    /// Begins the view here: with the client as it is now, which may have left the critical section
    /// or made a request since it was reported.
    fn install(&mut self, view: &View, leader: NodeId, out: &mut Outbox<M::Message>) {
        let Stage::Suspended(suspended) = &mut self.stage else { return };
        let early = std::mem::take(&mut suspended.early);
        let Some(start) = self.plan.start_of::<M>(view, leader) else { return };
        let members = Plan::members(&view.changes);
        let Ok(position) = members.binary_search(&self.me) else { return };
        stop_timers(out);
        let mut process = Process::new(NodeId::from(position), &start);
        // Requests that were pending keep their order by clocks, and later ones are behind them.
        let at = view.pending.iter().position(|&node| node == self.me);
        let count = at.unwrap_or(view.pending.len()) as u64;
        process.raise_time(Time::new(view.changes.view(), count));
        let pending = view.requests(&members);
        let mut running = Running::new(process, members, &self.plan, &start);
        (running.number, running.leader) = (view.changes.view(), Some(leader));
        self.stage = Stage::Running(Box::new(running));
        out.own(Own::Resume(view.changes.view()));
        self.run(out, |process, out| process.resume(&start, &pending, out));
        // A ring's token leaves an idle holder at once: the holder's request comes before that.
        let requests_first = view.holder == self.me && !view.in_cs;
        if requests_first {
            self.resume_client(&start, NodeId::from(position), out);
        }
        self.begin(out);
        if !requests_first {
            self.resume_client(&start, NodeId::from(position), out);
        }
        for early in early {
            self.on_message_of_view(early, out);
        }
    }

    fn resume_client(&mut self, start: &Start, me: NodeId, out: &mut Outbox<M::Message>) {
        if start.is_in_cs(me) && self.client != Client::InCs {
            self.run(out, |process, out| process.release(out));
        }
        let (Stage::Running(running), Client::Requesting(_)) = (&self.stage, self.client) else {
            return;
        };
        // Unless the view begins with it in the queue, the request is made again.
        if running.process.machine().phase() == Phase::Idle {
            self.client = Client::Requesting(Stamp::new(self.time().next(), self.me));
            self.run(out, |process, out| {
                process.request(out);
            });
        } else {
            self.client = Client::Requesting(Stamp::new(self.time(), self.me));
        }
    }

    fn rise_above(&mut self, sent: Time) {
        match &mut self.stage {
            Stage::Running(running) => running.process.raise_time(sent.next()),
            Stage::Suspended(suspended) => suspended.time = suspended.time.max(sent.next()),
        }
    }
}

fn stop_timers<A>(out: &mut Outbox<A>) {
    for &timer in Timer::ALL {
        out.own(Own::CancelTimer(timer));
    }
}

#[cfg(test)]
mod tests;
