//! A whole system of mutual exclusion as one value that is stepped by hand.

use mutua_algorithms::{
    Effect, Fence, Links, Mutex, NodeId, NodeSet, Outbox, Phase, Process, Start, Time,
};

use crate::{
    Event, Header, Message, Refusal, What, Which,
    network::Transit,
    order::{Order, Past},
    stage::Stage,
};

/// Processes, links and the trace of what happened: what scripts and counterexamples are played on.
///
/// Every step that is taken is one number further in the trace. A step that cannot be taken changes
/// nothing and says why. Safety, ordering and the growth of the fence are watched; what is found
/// broken is in the trace as a violation.
#[derive(Clone, Debug)]
pub struct Cluster<M: Mutex> {
    start: Start,
    processes: Vec<Process<M>>,
    down: NodeSet,
    stage: Stage<Parcel<M::Message>>,
    order: Order,
    entries: Vec<NodeId>,
    last_fence: Option<Fence>,
}

/// What is in flight: a message of the algorithm, or none of its messages but the application's;
/// with the clock that travels along and what the sender knew.
#[derive(Clone, Debug)]
struct Parcel<M> {
    message: Option<M>,
    sent: Time,
    past: Past,
}

/// How the application's own messages are called.
pub(crate) const TELL: &str = "tell";

impl<M: Mutex> Cluster<M> {
    /// A system at its start; the header names its processes.
    pub fn new(start: Start, links: Links, header: Header) -> Self {
        let processes: Vec<Process<M>> = start.all().map(|me| Process::new(me, &start)).collect();
        let mut cluster = Self {
            order: Order::new(processes.len()),
            processes,
            down: NodeSet::new(),
            stage: Stage::new(links, header),
            entries: Vec::new(),
            last_fence: None,
            start,
        };
        cluster.begin();
        cluster
    }

    fn begin(&mut self) {
        let mut out = Outbox::new();
        for who in self.start.all() {
            let process = &mut self.processes[who.index()];
            process.begin(&mut out);
            let (inside, time) = (self.start.is_inside(who), process.time().number());
            let state = process.machine().variables();
            self.stage.recorder.begin(who, inside, Some(time), state);
            self.carry_out(who, &mut out);
        }
    }

    // Steps.

    /// A client asks for the critical section.
    pub fn request(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::Outside, "requests")?;
        if who.0 >= self.start.contenders() {
            return Err(Refusal::new(format!("{} only coordinates", self.name(who))));
        }
        self.order.request(who);
        self.tell_machine(who, What::Request, |process, out| process.request(out));
        Ok(())
    }

    /// A client leaves the critical section.
    pub fn release(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::Inside, "exits")?;
        self.tell_machine(who, What::Exit, |process, out| {
            process.release(out);
            None
        });
        Ok(())
    }

    /// An application sends a message of its own.
    pub fn tell(&mut self, from: NodeId, to: NodeId) -> Result<(), Refusal> {
        self.must_be_up(from)?;
        if from == to {
            return Err(Refusal::new(format!("{} tells itself", self.name(from))));
        }
        let id = self.stage.recorder.next_id();
        let sent = self.processes[from.index()].time();
        self.stage.recorder.happened(from, What::Tell { to, id }, Some(sent.number()));
        let shown = Message { id, kind: TELL.into(), fields: crate::Values::default() };
        let payload = Parcel { message: None, sent, past: self.order.past(from) };
        self.stage.send(Transit { from, to, shown, lazy: false, payload });
        Ok(())
    }

    /// A message in flight arrives. If its receiver is down, it is lost.
    pub fn deliver(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        let place = self.stage.find(from, to, which)?;
        self.deliver_at(place);
        Ok(())
    }

    /// Messages arrive, oldest first, until none is in flight that is not lazy.
    pub fn deliver_all(&mut self) -> Result<(), Refusal> {
        let end = self.stage.patience();
        while let Some(place) = self.stage.next_before(end)? {
            self.deliver_at(place);
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

    /// A process's clock is raised to this reading, as if much had happened before.
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

    /// A process stops. What is in flight to it stays there until it is delivered, and so lost, or
    /// until the process is back.
    pub fn crash(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        self.down.insert(who);
        self.order.forget(who);
        self.stage.recorder.happened(who, What::Crash, None);
        Ok(())
    }

    /// A process that has stopped is replaced by a new one, as at the start.
    pub fn restart(&mut self, who: NodeId) -> Result<(), Refusal> {
        if !self.down.remove(who) {
            return Err(Refusal::new(format!("{} restarts, but is up", self.name(who))));
        }
        self.stage.recorder.forget(who);
        self.processes[who.index()] = Process::new(who, &self.start);
        self.tell_machine(who, What::Restart, |_, _| None);
        Ok(())
    }

    // What is so.

    /// The trace so far.
    pub fn events(&self) -> &[Event] {
        self.stage.recorder.events()
    }

    /// What ran, and who took part.
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

    /// Whether a process has not stopped.
    pub fn is_up(&self, who: NodeId) -> bool {
        !self.down.contains(who)
    }

    /// Who has entered so far, in order.
    pub fn entries(&self) -> &[NodeId] {
        &self.entries
    }

    /// Who is inside now and has not stopped.
    pub fn inside(&self) -> Vec<NodeId> {
        self.in_phase(Phase::Inside)
    }

    /// Who waits now and has not stopped.
    pub fn waiting(&self) -> Vec<NodeId> {
        self.in_phase(Phase::Requesting)
    }

    /// What is in flight, in order of sending: from whom, to whom, what.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        self.stage.in_flight()
    }

    /// Whether somebody waits, nobody is inside, and nothing is in flight that could change it.
    pub fn is_deadlocked(&self) -> bool {
        let nothing_arrives = self.in_flight().all(|(_, to, _)| !self.is_up(to));
        !self.waiting().is_empty() && self.inside().is_empty() && nothing_arrives
    }

    fn in_phase(&self, phase: Phase) -> Vec<NodeId> {
        let is_in = |&who: &NodeId| {
            self.is_up(who) && self.processes[who.index()].machine().phase() == phase
        };
        self.start.all().filter(is_in).collect()
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
        Err(Refusal::new(format!("{name} {verb}, but is {phase}; only who is {wanted} can")))
    }

    // What follows from a step.

    fn deliver_at(&mut self, place: usize) {
        let Self { stage, down, .. } = self;
        let Some(transit) = stage.take(place, |to| !down.contains(to)) else { return };
        let Transit { from, to, shown, payload, .. } = transit;
        let Parcel { message, sent, past } = payload;
        self.order.receive(to, &past);
        match message {
            Some(message) => {
                let what = What::Receive { from, message: shown };
                self.tell_machine(to, what, |it, out| it.receive(from, sent, message, out));
            }
            None => {
                let what = What::Heard { from, id: shown.id };
                self.tell_machine(to, what, |process, out| process.hear(from, sent, out));
            }
        }
    }

    fn tell_machine(
        &mut self,
        who: NodeId,
        what: What,
        handle: impl FnOnce(&mut Process<M>, &mut Outbox<M::Message>) -> Option<Fence>,
    ) {
        let mut out = Outbox::new();
        let process = &mut self.processes[who.index()];
        handle(process, &mut out);
        let (clock, state) = (process.time().number(), process.machine().variables());
        self.stage.recorder.told(who, what, Some(clock), state);
        self.carry_out(who, &mut out);
    }

    fn carry_out(&mut self, who: NodeId, out: &mut Outbox<M::Message>) {
        let time = self.processes[who.index()].time();
        let clock = Some(time.number());
        out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let shown = self.stage.shown(&message);
                let what = What::Send { to, message: shown.clone(), lazy };
                self.stage.recorder.did(who, what, clock);
                self.post(who, to, shown, message, lazy);
            }
            Effect::Multicast { to, message } => {
                let shown = self.stage.shown(&message);
                let what = What::Multicast { to: to.to_vec(), message: shown.clone() };
                self.stage.recorder.did(who, what, clock);
                for &to in to {
                    self.post(who, to, shown.clone(), message.clone(), false);
                }
            }
            Effect::Enter => self.enter(who, Fence(time)),
            Effect::Nonsense { from, why } => {
                self.stage.recorder.did(who, What::Nonsense { from, why: why.into() }, clock);
            }
            Effect::Elected { .. } | Effect::SetTimer { .. } | Effect::CancelTimer { .. } => {
                unreachable!("only elections do this")
            }
        });
    }

    fn post(&mut self, from: NodeId, to: NodeId, shown: Message, message: M::Message, lazy: bool) {
        let sent = self.processes[from.index()].time();
        let payload = Parcel { message: Some(message), sent, past: self.order.past(from) };
        self.stage.send(Transit { from, to, shown, lazy, payload });
    }

    fn enter(&mut self, who: NodeId, fence: Fence) {
        let clock = Some(fence.number());
        self.entries.push(who);
        self.stage.recorder.did(who, What::Enter { fence: fence.number() }, clock);
        let others: Vec<_> = self.inside().into_iter().filter(|&other| other != who).collect();
        let names: Vec<_> = others.iter().map(|&other| self.name(other)).collect();
        if !others.is_empty() {
            let inside = if others.len() == 1 { "is" } else { "are" };
            self.violation(who, "safety", format!("{} {inside} inside too", names.join(", ")));
        } else if self.last_fence.is_some_and(|last| last >= fence) {
            self.violation(who, "fence", format!("{fence} is not above the last one"));
        }
        self.last_fence = self.last_fence.max(Some(fence));
        if let Some(passed_over) = self.order.enter(who) {
            let name = self.name(passed_over);
            self.violation(who, "ordering", format!("{name}, who asked before, still waits"));
        }
    }

    fn violation(&mut self, who: NodeId, property: &'static str, why: String) {
        let what = What::Violation { property: property.into(), why: why.into() };
        self.stage.recorder.did(who, what, None);
    }
}
