//! A whole election as one value that is stepped by hand.

use std::collections::BTreeSet;

use mutua_algorithms::{Claim, Effect, Election, Links, NodeId, Outbox, Start, Timer};

use crate::{Event, Header, Message, Refusal, What, Which, network::Transit, stage::Stage};

/// Processes, links, timers and the trace of what happened: the sibling of
/// [`Cluster`](crate::Cluster).
///
/// Time is in the hands of who steps it: any timer that is set may run out. That nobody takes the
/// office while a higher one is up (E1) is watched where it is claimed.
#[derive(Clone, Debug)]
pub struct ElectionCluster<E: Election> {
    start: Start,
    /// None where the process is down.
    processes: Vec<Option<E>>,
    timers: BTreeSet<(NodeId, Timer)>,
    stage: Stage<E::Message>,
}

impl<E: Election> ElectionCluster<E> {
    /// A system at its start; the header names its processes.
    pub fn new(start: Start, links: Links, header: Header) -> Self {
        let up = |node| (!start.is_crashed(node)).then(|| E::new(node, &start));
        let mut cluster = Self {
            processes: start.all().map(up).collect(),
            timers: BTreeSet::new(),
            stage: Stage::new(links, header),
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

    // Steps.

    /// A process has noticed that the coordinator is gone.
    pub fn start(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        self.tell_machine(who, What::Election, |process, out| process.start(out));
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

    /// A timer that is set runs out.
    pub fn timeout(&mut self, who: NodeId, timer: Timer) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        if !self.timers.remove(&(who, timer)) {
            let set: Vec<_> = self.timers_of(who).map(Timer::word).collect();
            let set = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
            let (name, timer) = (self.name(who), timer.word());
            return Err(Refusal::new(format!("{name} has not set the timer {timer}; set: {set}")));
        }
        self.tell_machine(who, What::Timeout { timer }, |process, out| process.timeout(timer, out));
        Ok(())
    }

    /// A process stops and loses its memory and its timers.
    pub fn crash(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be_up(who)?;
        self.processes[who.index()] = None;
        self.timers.retain(|&(of, _)| of != who);
        self.stage.recorder.happened(who, What::Crash, None);
        Ok(())
    }

    /// A process that has stopped is back, or another under its name.
    pub fn restart(&mut self, who: NodeId) -> Result<(), Refusal> {
        if self.is_up(who) {
            return Err(Refusal::new(format!("{} restarts, but is up", self.name(who))));
        }
        self.processes[who.index()] = Some(E::new(who, &self.start));
        self.stage.recorder.forget(who);
        self.tell_machine(who, What::Restart, |process, out| process.restart(out));
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

    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.stage.recorder.sent()
    }

    /// A process, for reading; none where it is down.
    pub fn process(&self, who: NodeId) -> Option<&E> {
        self.processes[who.index()].as_ref()
    }

    /// Whether a process has not stopped.
    pub fn is_up(&self, who: NodeId) -> bool {
        self.process(who).is_some()
    }

    /// The timers that a process has set.
    pub fn timers_of(&self, who: NodeId) -> impl Iterator<Item = Timer> {
        self.timers.iter().filter(move |(of, _)| *of == who).map(|&(_, timer)| timer)
    }

    /// Who is up.
    pub fn up(&self) -> impl Iterator<Item = (NodeId, &E)> {
        self.start.all().filter_map(|who| Some((who, self.process(who)?)))
    }

    /// Who takes itself for the coordinator.
    pub fn in_office(&self) -> Vec<NodeId> {
        let has_office =
            |(who, process): (NodeId, &E)| (process.coordinator() == Some(who)).then_some(who);
        self.up().filter_map(has_office).collect()
    }

    /// What is in flight, in order of sending: from whom, to whom, what.
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

    // What follows from a step.

    fn deliver_at(&mut self, place: usize) {
        let Self { stage, processes, .. } = self;
        let Some(transit) = stage.take(place, |to| processes[to.index()].is_some()) else { return };
        let Transit { from, to, shown, payload, .. } = transit;
        let what = What::Receive { from, message: shown };
        self.tell_machine(to, what, |process, out| process.receive(from, payload, out));
    }

    /// Hands something to a process that is up.
    fn tell_machine(
        &mut self,
        who: NodeId,
        what: What,
        handle: impl FnOnce(&mut E, &mut Outbox<E::Message>),
    ) {
        let Some(process) = &mut self.processes[who.index()] else { return };
        let in_office_before = process.coordinator() == Some(who);
        let mut out = Outbox::new();
        handle(process, &mut out);
        let state = process.variables();
        let takes_office = !in_office_before && process.coordinator() == Some(who);
        self.stage.recorder.told(who, what, None, state);
        self.carry_out(who, &mut out);
        if takes_office && E::ABOUT.claims.contains(&Claim::Agreement) {
            self.watch_office(who);
        }
    }

    /// E1: nobody takes the office while a higher one is up.
    fn watch_office(&mut self, who: NodeId) {
        let higher = self.up().map(|(other, _)| other).filter(|&other| other > who).last();
        if let Some(higher) = higher {
            let why = format!("{}, who is higher, is up", self.name(higher)).into();
            self.stage.recorder.did(
                who,
                What::Violation { property: "agreement".into(), why },
                None,
            );
        }
    }

    fn carry_out(&mut self, who: NodeId, out: &mut Outbox<E::Message>) {
        out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let shown = self.stage.shown(&message);
                self.stage.recorder.did(who, What::Send { to, message: shown.clone(), lazy }, None);
                self.stage.send(Transit { from: who, to, shown, lazy, payload: message });
            }
            Effect::Multicast { to, message } => {
                let shown = self.stage.shown(&message);
                let what = What::Multicast { to: to.to_vec(), message: shown.clone() };
                self.stage.recorder.did(who, what, None);
                for &to in to {
                    let (shown, payload) = (shown.clone(), message.clone());
                    self.stage.send(Transit { from: who, to, shown, lazy: false, payload });
                }
            }
            Effect::Elected { coordinator } => {
                self.stage.recorder.did(who, What::Elected { coordinator }, None);
            }
            Effect::SetTimer { timer, after } => {
                self.timers.insert((who, timer));
                self.stage.recorder.did(who, What::Timer { timer, after }, None);
            }
            Effect::CancelTimer { timer } => {
                self.timers.remove(&(who, timer));
                self.stage.recorder.did(who, What::Cancel { timer }, None);
            }
            Effect::Nonsense { from, why } => {
                self.stage.recorder.did(who, What::Nonsense { from, why: why.into() }, None);
            }
            Effect::Enter => unreachable!("only mutual exclusion does this"),
        });
    }
}
