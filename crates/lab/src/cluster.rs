//! A whole system of mutual exclusion as one value that is stepped by hand.

mod fingerprint;

use mutua_algorithms::{
    Claim, Effect, FencingToken, Fields, Links, Mutex, NodeId, NodeSet, Outbox, Phase, Process,
    Start, Time,
    properties::{Bypass, Fencing, Ordering},
};

use crate::{Event, Header, Message, Refusal, Unit, What, Which, network::Transit, stage::Stage};

/// Processes, links and a recorder: what scripts, counterexamples and tests are played on.
///
/// Every step that is taken is one number further in the trace. A step that cannot be taken changes
/// nothing, and its error gives the reason. Mutual exclusion, ordering, bounded bypass and fencing
/// are judged at every entry; all violations but those of bounded bypass are in the trace too.
///
/// With several critical sections there is an instance of every process for each of them, numbered
/// section by section; messages of one never reach another, and each section is judged by itself.
#[derive(Clone, Debug)]
pub struct Cluster<M: Mutex> {
    start: Start,
    processes: Vec<Process<M>>,
    down: NodeSet,
    stage: Stage<Parcel<M::Message>>,
    ordering: Ordering,
    /// One for each critical section.
    bypass: Vec<Bypass>,
    fencing: Vec<Fencing>,
    /// The slot of the next message for the judges: none is used twice.
    next_slot: usize,
    entries: Vec<NodeId>,
    violations: Vec<Violated>,
    nonsense: Vec<Nonsense>,
}

/// A property that an entry has violated.
#[derive(Clone, Debug)]
pub struct Violated {
    /// The property.
    pub property: Claim,
    /// The process that entered.
    pub who: NodeId,
    /// The evidence, as a sentence without its end.
    pub why: String,
}

/// A message that its receiver reported as invalid.
#[derive(Clone, Copy, Debug)]
pub struct Nonsense {
    /// The receiver.
    pub who: NodeId,
    /// The sender.
    pub from: NodeId,
    /// The reason.
    pub why: &'static str,
}

/// A message in flight, of the algorithm or, if there is none, of the application, with its clock
/// reading and its slot for the judges.
#[derive(Clone, Debug)]
struct Parcel<M> {
    message: Option<M>,
    sent: Time,
    slot: usize,
}

impl<M: Mutex> Cluster<M> {
    /// A system at its start; the header names its processes, and says how many critical sections
    /// there are.
    pub fn new(start: Start, links: Links, header: Header) -> Self {
        let sections = header.sections.max(1) as usize;
        let process = |_| start.all().map(|me| Process::new(me, &start));
        let processes: Vec<Process<M>> = (0..sections).flat_map(process).collect();
        let mut cluster = Self {
            ordering: Ordering::new(processes.len()),
            bypass: vec![
                Bypass::new(start.processes() as usize)
                    .with_tickets(M::draws_ticket(&start));
                sections
            ],
            fencing: vec![Fencing::default(); sections],
            next_slot: 0,
            processes,
            down: NodeSet::new(),
            stage: Stage::new(links, header),
            entries: Vec::new(),
            violations: Vec::new(),
            nonsense: Vec::new(),
            start,
        };
        cluster.begin();
        cluster
    }

    /// A system at its start that keeps no trace: for long random runs.
    pub fn unrecorded(start: Start, links: Links) -> Self {
        let names = Header::default_names(&start);
        let header = Header::new(start.about().name, &start, names, Unit::Step);
        let mut cluster = Self::new(start, links, header);
        cluster.stage.recorder.keep_nothing();
        cluster
    }

    /// Removes the trace so far and keeps none from now on.
    pub(crate) fn drop_trace(&mut self) {
        self.stage.recorder.keep_nothing();
    }

    /// The start from which the processes were made.
    pub(crate) fn start_of_all(&self) -> &Start {
        &self.start
    }

    fn begin(&mut self) {
        let mut out = Outbox::new();
        for who in self.all() {
            let in_cs = self.start.is_in_cs(self.local(who));
            let process = &mut self.processes[who.index()];
            process.begin(&mut out);
            let time = process.time().number();
            let state = process.machine().variables();
            self.stage.recorder.begin(who, in_cs, Some(time), state);
            self.carry_out(who, &mut out);
        }
    }

    // Steps.

    /// A client requests the critical section.
    pub fn request(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::Idle, "requests")?;
        let (local, section) = (self.local(who), self.section(who));
        if local.0 >= self.start.contenders() {
            return Err(Refusal::new(format!("{} only coordinates", self.name(who))));
        }
        self.ordering.request(who);
        self.bypass[section].request(local);
        self.handle(who, What::Request, |process, out| process.request(out));
        self.bypass[section].requested(local);
        Ok(())
    }

    /// A client leaves the critical section.
    pub fn release(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::InCs, "exits")?;
        self.handle(who, What::Exit, |process, out| {
            process.release(out);
            None
        });
        Ok(())
    }

    /// A process sends a message of the application.
    pub fn send_app_message(&mut self, from: NodeId, to: NodeId) -> Result<(), Refusal> {
        self.must_be_up(from)?;
        if from == to {
            return Err(Refusal::new(format!("{} sends to itself", self.name(from))));
        }
        if self.section(from) != self.section(to) {
            let (from, to) = (self.name(from), self.name(to));
            return Err(Refusal::new(format!("{from} and {to} are of different sections")));
        }
        let id = self.stage.recorder.next_id();
        let sent = self.processes[from.index()].time();
        self.stage.recorder.happened(from, What::AppSend { to, id }, Some(sent.number()));
        let shown = Message { id, kind: crate::APP.into(), fields: crate::Values::default() };
        let payload = Parcel { message: None, sent, slot: self.slot(from) };
        self.stage.send(Transit { from, to, shown, lazy: false, payload });
        Ok(())
    }

    /// The message at this index of [`in_flight`](Self::in_flight) arrives; where links keep order,
    /// the one that must go before it on its link. Returns the receiver.
    ///
    /// # Panics
    ///
    /// If fewer messages are in flight.
    pub fn deliver_nth(&mut self, index: usize) -> NodeId {
        let to = self.stage.receiver(index);
        self.deliver_at(self.stage.first_before(index));
        to
    }

    /// The oldest message that is not lazy arrives; false if there is none.
    pub fn deliver_next(&mut self) -> bool {
        let next = self.stage.next();
        if let Some(index) = next {
            self.deliver_at(index);
        }
        next.is_some()
    }

    /// Every process is replaced by a new one from this start, which suits the algorithm, and keeps
    /// its clock. Messages in flight stay.
    pub fn replace_all(&mut self, start: Start) {
        self.start = start;
        for who in self.all() {
            let local = self.local(who);
            let process = &mut self.processes[who.index()];
            let time = process.time();
            *process = Process::new(local, &self.start);
            process.raise_time(time);
            self.stage.recorder.forget(who);
        }
        self.begin();
    }

    /// A message in flight arrives. If its receiver is down, it is lost.
    pub fn deliver(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        let index = self.stage.find(from, to, which)?;
        self.deliver_at(index);
        Ok(())
    }

    /// Messages arrive, oldest first, until none is in flight that is not lazy.
    pub fn deliver_all(&mut self) -> Result<(), Refusal> {
        let end = self.stage.patience();
        while let Some(index) = self.stage.next_before(end)? {
            self.deliver_at(index);
        }
        Ok(())
    }

    /// A message in flight is lost.
    pub fn lose(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        self.stage.lose(from, to, which)
    }

    /// A message in flight will arrive twice, the second time behind the others on its link.
    pub fn duplicate(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        self.stage.duplicate(from, to, which)
    }

    /// A process's clock is raised to this reading, as if more events had happened before.
    pub fn set_clock(&mut self, who: NodeId, time: Time) -> Result<(), Refusal> {
        let process = &mut self.processes[who.index()];
        if time < process.time() {
            let now = process.time();
            let name = self.name(who);
            return Err(Refusal::new(format!(
                "the clock of {name} is at {now} and cannot go back to {time}"
            )));
        }
        process.raise_time(time);
        let text = format!("clock set to {time}").into();
        self.stage.recorder.happened(who, What::Note { text }, Some(time.number()));
        Ok(())
    }

    /// A process crashes, in all critical sections. Messages in flight to it stay there until they
    /// are delivered, and so lost, or until the process restarts.
    pub fn crash(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        let local = self.local(who);
        for (who, section) in self.instances(local) {
            self.down.insert(who);
            self.ordering.crash(who);
            self.bypass[section].crash(local);
            self.stage.recorder.happened(who, What::Crash, None);
        }
        Ok(())
    }

    /// A crashed process is replaced by a new one, as at the start.
    pub fn restart(&mut self, who: NodeId) -> Result<(), Refusal> {
        if self.is_up(who) {
            return Err(Refusal::new(format!("{} restarts, but is up", self.name(who))));
        }
        let local = self.local(who);
        for (who, _) in self.instances(local) {
            self.down.remove(who);
            self.stage.recorder.forget(who);
            self.processes[who.index()] = Process::new(local, &self.start);
            self.handle(who, What::Restart, |_, _| None);
        }
        Ok(())
    }

    // The state.

    /// The trace so far.
    pub fn events(&self) -> &[Event] {
        self.stage.recorder.events()
    }

    /// The algorithm, its settings and its processes.
    pub fn header(&self) -> &Header {
        self.stage.recorder.header()
    }

    /// How many messages of the algorithm were sent.
    pub fn sent(&self) -> u64 {
        self.stage.recorder.sent()
    }

    /// A process, for reading.
    pub fn process(&self, who: NodeId) -> &Process<M> {
        &self.processes[who.index()]
    }

    /// Whether a process is up: it has not crashed, or has restarted since.
    pub fn is_up(&self, who: NodeId) -> bool {
        !self.down.contains(who)
    }

    /// The violations so far, in order.
    pub fn violations(&self) -> &[Violated] {
        &self.violations
    }

    /// The messages so far that their receivers reported as invalid.
    pub fn nonsense(&self) -> &[Nonsense] {
        &self.nonsense
    }

    /// How many messages are in flight.
    pub fn in_flight_count(&self) -> usize {
        self.stage.in_flight_count()
    }

    /// Whether the message at this index of [`in_flight`](Self::in_flight) is lazy.
    ///
    /// # Panics
    ///
    /// If fewer messages are in flight.
    pub fn is_lazy(&self, index: usize) -> bool {
        self.stage.is_lazy(index)
    }

    /// The processes that have entered so far, in order of entry.
    pub fn entries(&self) -> &[NodeId] {
        &self.entries
    }

    /// The processes in the critical section that are up.
    pub fn in_cs(&self) -> Vec<NodeId> {
        self.in_phase(Phase::InCs)
    }

    /// The requesting processes that are up.
    pub fn waiting(&self) -> Vec<NodeId> {
        self.in_phase(Phase::Requesting)
    }

    /// The messages in flight, in order of sending: sender, receiver, message.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        self.stage.in_flight()
    }

    /// Whether in a critical section a process waits, none is in it, and nothing is in flight that
    /// could change it.
    pub fn is_deadlocked(&self) -> bool {
        (0..self.fencing.len()).any(|section| {
            let is_here = |who: &NodeId| self.section(*who) == section;
            let nothing_arrives =
                self.in_flight().all(|(_, to, _)| !is_here(&to) || !self.is_up(to));
            self.waiting().iter().any(is_here)
                && !self.in_cs().iter().any(is_here)
                && nothing_arrives
        })
    }

    /// All processes; with several critical sections, all their instances.
    fn all(&self) -> impl Iterator<Item = NodeId> + use<M> {
        (0..self.processes.len()).map(NodeId::from)
    }

    /// The id of a process in its critical section.
    fn local(&self, who: NodeId) -> NodeId {
        NodeId(who.0 % self.start.processes())
    }

    /// The critical section of a process.
    fn section(&self, who: NodeId) -> usize {
        (who.0 / self.start.processes()) as usize
    }

    /// The process that is known under this id in the section of `beside`.
    pub(crate) fn instance(&self, beside: NodeId, local: NodeId) -> NodeId {
        NodeId(beside.0 - self.local(beside).0 + local.0)
    }

    /// The instances of a process, each with its critical section.
    fn instances(&self, local: NodeId) -> impl Iterator<Item = (NodeId, usize)> + use<M> {
        let (sections, processes) = (self.fencing.len(), self.start.processes() as usize);
        (0..sections)
            .map(move |section| (NodeId::from(section * processes + local.index()), section))
    }

    fn in_phase(&self, phase: Phase) -> Vec<NodeId> {
        let is_in = |&who: &NodeId| {
            self.is_up(who) && self.processes[who.index()].machine().phase() == phase
        };
        self.all().filter(is_in).collect()
    }

    fn name(&self, who: NodeId) -> String {
        self.stage.name(who)
    }

    fn must_be_up(&self, who: NodeId) -> Result<(), Refusal> {
        if self.is_up(who) {
            return Ok(());
        }
        Err(Refusal::new(format!("{} has crashed", self.name(who))))
    }

    fn must_be(&self, who: NodeId, wanted: Phase, verb: &str) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        let phase = self.processes[who.index()].machine().phase();
        if phase == wanted {
            return Ok(());
        }
        let (name, phase, wanted) = (self.name(who), phase.word(), wanted.word());
        Err(Refusal::new(format!("{name} {verb}, but is {phase}; it must be {wanted}")))
    }

    // The effects of a step.

    fn deliver_at(&mut self, index: usize) {
        let Self { stage, down, .. } = self;
        let Some(transit) = stage.take(index, |to| !down.contains(to)) else { return };
        let Transit { from, to, shown, payload, .. } = transit;
        let Parcel { message, sent, slot } = payload;
        self.ordering.receive(to, slot);
        let section = self.section(to);
        self.bypass[section].receive(slot);
        let sender = self.local(from);
        match message {
            Some(message) => {
                let what = What::Receive { from, message: shown };
                self.handle(to, what, |it, out| it.receive(sender, sent, message, out));
            }
            None => {
                let what = What::Observed { from, id: shown.id };
                self.handle(to, what, |process, out| process.observe(sender, sent, out));
            }
        }
    }

    /// Lets a process handle an event, records it and carries out the effects.
    fn handle(
        &mut self,
        who: NodeId,
        what: What,
        handler: impl FnOnce(&mut Process<M>, &mut Outbox<M::Message>) -> Option<FencingToken>,
    ) {
        let mut out = Outbox::new();
        let process = &mut self.processes[who.index()];
        handler(process, &mut out);
        let has_ticket = M::draws_ticket(&self.start) && process.machine().has_ticket();
        let clock = process.time().number();
        let keeps = self.stage.recorder.keeps();
        let state = if keeps { process.machine().variables() } else { Fields::new() };
        self.stage.recorder.handled(who, what, Some(clock), state);
        if has_ticket {
            let (local, section) = (self.local(who), self.section(who));
            self.bypass[section].draw(local);
        }
        self.carry_out(who, &mut out);
    }

    fn carry_out(&mut self, who: NodeId, out: &mut Outbox<M::Message>) {
        let time = self.processes[who.index()].time();
        let clock = Some(time.number());
        out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let to = self.instance(who, to);
                let shown = self.stage.shown(who, &message);
                let what = What::Send { to, message: shown.clone(), lazy };
                self.stage.recorder.did(who, what, clock);
                self.post(who, to, shown, message, lazy);
            }
            Effect::Multicast { to, message } => {
                let to: Vec<_> = to.iter().map(|&to| self.instance(who, to)).collect();
                let shown = self.stage.shown(who, &message);
                let what = What::Multicast { to: to.clone(), message: shown.clone() };
                self.stage.recorder.did(who, what, clock);
                for to in to {
                    self.post(who, to, shown.clone(), message.clone(), false);
                }
            }
            Effect::Enter => self.enter(who, FencingToken(time)),
            Effect::Nonsense { from, why } => {
                let from = self.instance(who, from);
                self.nonsense.push(Nonsense { who, from, why });
                self.stage.recorder.did(who, What::Nonsense { from, why: why.into() }, clock);
            }
        });
    }

    fn post(&mut self, from: NodeId, to: NodeId, shown: Message, message: M::Message, lazy: bool) {
        let sent = self.processes[from.index()].time();
        let payload = Parcel { message: Some(message), sent, slot: self.slot(from) };
        self.stage.send(Transit { from, to, shown, lazy, payload });
    }

    /// A slot for a message that this process sends now.
    fn slot(&mut self, from: NodeId) -> usize {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.ordering.send(from, slot);
        let (local, section) = (self.local(from), self.section(from));
        self.bypass[section].send(local, slot);
        slot
    }

    fn enter(&mut self, who: NodeId, fence: FencingToken) {
        let clock = Some(fence.number());
        self.entries.push(who);
        self.stage.recorder.did(who, What::Enter { fencing_token: fence.number() }, clock);
        let section = self.section(who);
        let is_other = |other: &NodeId| *other != who && self.section(*other) == section;
        let others: Vec<_> = self.in_cs().into_iter().filter(is_other).collect();
        let names: Vec<_> = others.iter().map(|&other| self.name(other)).collect();
        let not_below = self.fencing[section].enter(fence);
        if !others.is_empty() {
            let are = if others.len() == 1 { "is" } else { "are" };
            let names = names.join(", ");
            self.violated(
                who,
                Claim::MutualExclusion,
                format!("{names} {are} in the critical section too"),
            );
        } else if let Some(last) = not_below {
            let why = format!("{} is not greater than {}, an earlier one", fence.0, last.0);
            self.violated(who, Claim::Fencing, why);
        }
        if let Some(overtaken) = self.ordering.enter(who) {
            let name = self.name(overtaken);
            self.violated(
                who,
                Claim::Ordering,
                format!("{name}, which requested before, still waits"),
            );
        }
        let local = self.local(who);
        if let Some(bypassed) = self.bypass[section].enter(local) {
            let bypassed = self.name(self.instance(who, bypassed));
            let why = format!("it bypasses {bypassed} for the second time");
            self.violated(who, Claim::BoundedBypass, why);
        }
    }

    fn violated(&mut self, who: NodeId, property: Claim, why: String) {
        // A bypass shows over several entries, and few algorithms exclude it: traces leave it out.
        if property != Claim::BoundedBypass {
            let property = property.name().into();
            let what = What::Violation { property, why: why.clone().into() };
            self.stage.recorder.did(who, what, None);
        }
        self.violations.push(Violated { property, who, why });
    }
}
