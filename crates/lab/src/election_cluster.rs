//! A whole election as one value that is stepped by hand.

use mutua_algorithms::{
    Claim, Election, ElectionEffect, ElectionOutbox, Fields, Links, NodeId, Start, Timer,
};

use crate::{
    Event, Header, Message, Nonsense, Refusal, Unit, What, Which, network::Transit, stage::Stage,
    timers::Timers,
};

/// Processes, links, timers and a trace: the counterpart of [`Cluster`](crate::Cluster) for
/// elections.
///
/// The caller decides about time: any timer that is set may expire. E1, that no process elects
/// itself while a higher one is up, is judged where it is claimed.
#[derive(Clone, Debug)]
pub struct ElectionCluster<E: Election> {
    start: Start,
    /// None where the process is down.
    processes: Vec<Option<E>>,
    timers: Timers,
    stage: Stage<E::Message>,
    elected: Vec<(NodeId, NodeId)>,
    nonsense: Vec<Nonsense>,
}

impl<E: Election> ElectionCluster<E> {
    /// A system at its start; the header names its processes.
    pub fn new(start: Start, links: Links, header: Header) -> Self {
        let up = |node| (!start.is_crashed(node)).then(|| E::new(node, &start));
        let mut cluster = Self {
            processes: start.all().map(up).collect(),
            timers: Timers::default(),
            stage: Stage::new(links, header),
            elected: Vec::new(),
            nonsense: Vec::new(),
            start,
        };
        for who in cluster.start.all() {
            match &cluster.processes[who.index()] {
                Some(process) => {
                    cluster.stage.recorder.begin(who, false, None, process.variables())
                }
                None => cluster.stage.recorder.did(who, What::Crash, None),
            }
        }
        cluster
    }

    /// A system at its start that keeps no trace: for long random runs.
    pub fn unrecorded(start: Start, links: Links) -> Self {
        let names = Header::default_names(&start);
        let header = Header::new(E::ABOUT.name, &start, names, Unit::Step);
        let mut cluster = Self::new(start, links, header);
        cluster.stage.recorder.keep_nothing();
        cluster
    }

    // Steps.

    /// A process has detected that the coordinator has crashed.
    pub fn start(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        self.handle(who, What::Election, |process, out| process.start(out));
        Ok(())
    }

    /// A message in flight arrives. If its receiver is down, it is lost.
    pub fn deliver(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        let index = self.stage.find(from, to, which)?;
        self.deliver_at(index);
        Ok(())
    }

    /// The message at this index of [`in_flight`](Self::in_flight) arrives; where links keep order,
    /// the one that must go before it on its link.
    ///
    /// # Panics
    ///
    /// If fewer messages are in flight.
    pub fn deliver_nth(&mut self, index: usize) {
        self.deliver_at(self.stage.first_before(index));
    }

    /// The same message is lost instead.
    ///
    /// # Panics
    ///
    /// If fewer messages are in flight.
    pub fn lose_nth(&mut self, index: usize) {
        self.stage.lose_at(self.stage.first_before(index));
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

    /// A timer that is set expires.
    pub fn timeout(&mut self, who: NodeId, timer: Timer) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        let name = self.name(who);
        self.timers.expire(who, &name, timer)?;
        self.handle(who, What::Timeout { timer }, |process, out| process.timeout(timer, out));
        Ok(())
    }

    /// A process crashes and loses its memory and its timers.
    pub fn crash(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        self.processes[who.index()] = None;
        self.timers.lose(who);
        self.stage.recorder.happened(who, What::Crash, None);
        Ok(())
    }

    /// A crashed process restarts, or another one under its name.
    pub fn restart(&mut self, who: NodeId) -> Result<(), Refusal> {
        if self.is_up(who) {
            return Err(Refusal::new(format!("{} restarts, but is up", self.name(who))));
        }
        self.processes[who.index()] = Some(E::new(who, &self.start));
        self.stage.recorder.forget(who);
        self.handle(who, What::Restart, |process, out| process.restart(out));
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

    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.stage.recorder.sent()
    }

    /// A process, for reading; none where it is down.
    pub fn process(&self, who: NodeId) -> Option<&E> {
        self.processes[who.index()].as_ref()
    }

    /// Whether a process is up: it has not crashed, or has restarted since.
    pub fn is_up(&self, who: NodeId) -> bool {
        self.process(who).is_some()
    }

    /// Every decision so far: the process that decided and the coordinator that it reported.
    pub fn elected(&self) -> &[(NodeId, NodeId)] {
        &self.elected
    }

    /// The messages so far that their receivers reported as invalid.
    pub fn nonsense(&self) -> &[Nonsense] {
        &self.nonsense
    }

    /// How many messages are in flight.
    pub fn in_flight_count(&self) -> usize {
        self.stage.in_flight_count()
    }

    /// All timers that are set.
    pub fn timers(&self) -> impl Iterator<Item = (NodeId, Timer)> {
        self.timers.all()
    }

    /// The timers that a process has set.
    pub fn timers_of(&self, who: NodeId) -> impl Iterator<Item = Timer> {
        self.timers.of(who)
    }

    /// The processes that are up.
    pub fn up(&self) -> impl Iterator<Item = (NodeId, &E)> {
        self.start.all().filter_map(|who| Some((who, self.process(who)?)))
    }

    /// The messages in flight, in order of sending: sender, receiver, message.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        self.stage.in_flight()
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

    // The effects of a step.

    fn deliver_at(&mut self, index: usize) {
        let Self { stage, processes, .. } = self;
        let Some(transit) = stage.take(index, |to| processes[to.index()].is_some()) else { return };
        let Transit { from, to, shown, payload, .. } = transit;
        let what = What::Receive { from, message: shown };
        self.handle(to, what, |process, out| process.receive(from, payload, out));
    }

    /// Lets a process that is up handle an event, records it and carries out the effects.
    fn handle(
        &mut self,
        who: NodeId,
        what: What,
        handler: impl FnOnce(&mut E, &mut ElectionOutbox<E::Message>),
    ) {
        let Some(process) = &mut self.processes[who.index()] else { return };
        let was_coordinator = process.coordinator() == Some(who);
        let mut out = ElectionOutbox::new();
        handler(process, &mut out);
        let keeps = self.stage.recorder.keeps();
        let state = if keeps { process.variables() } else { Fields::new() };
        let becomes_coordinator = !was_coordinator && process.coordinator() == Some(who);
        self.stage.recorder.handled(who, what, None, state);
        self.carry_out(who, &mut out);
        if becomes_coordinator && E::ABOUT.claims.contains(&Claim::Agreement) {
            self.judge_agreement(who);
        }
    }

    /// E1: no process elects itself while a higher one is up.
    fn judge_agreement(&mut self, who: NodeId) {
        let higher = self.up().map(|(other, _)| other).filter(|&other| other > who).last();
        if let Some(higher) = higher {
            let why = format!("{}, which is higher, is up", self.name(higher)).into();
            self.stage.recorder.did(
                who,
                What::Violation { property: "agreement".into(), why },
                None,
            );
        }
    }

    fn carry_out(&mut self, who: NodeId, out: &mut ElectionOutbox<E::Message>) {
        out.drain(|effect| match effect {
            ElectionEffect::Send { to, message } => {
                let shown = self.stage.shown(who, &message);
                self.stage.recorder.did(
                    who,
                    What::Send { to, message: shown.clone(), lazy: false },
                    None,
                );
                self.stage.send(Transit { from: who, to, shown, lazy: false, payload: message });
            }
            ElectionEffect::Multicast { to, message } => {
                let shown = self.stage.shown(who, &message);
                let what = What::Multicast { to: to.to_vec(), message: shown.clone() };
                self.stage.recorder.did(who, what, None);
                for &to in to {
                    let (shown, payload) = (shown.clone(), message.clone());
                    self.stage.send(Transit { from: who, to, shown, lazy: false, payload });
                }
            }
            ElectionEffect::Elected { coordinator } => {
                self.elected.push((who, coordinator));
                self.stage.recorder.did(who, What::Elected { coordinator }, None);
            }
            ElectionEffect::SetTimer { timer, after } => {
                self.timers.set(who, timer);
                self.stage.recorder.did(who, What::Timer { timer, after }, None);
            }
            ElectionEffect::CancelTimer { timer } => {
                self.timers.cancel(who, timer);
                self.stage.recorder.did(who, What::Cancel { timer }, None);
            }
            ElectionEffect::Nonsense { from, why } => {
                self.nonsense.push(Nonsense { who, from, why });
                self.stage.recorder.did(who, What::Nonsense { from, why: why.into() }, None);
            }
        });
    }
}
