//! A whole system with a repair as one value that is stepped by hand.

use mutua_algorithms::{
    Claim, FencingToken, Fields, Mutex, NodeId, Phase, Shared, Start, Time, Timer,
    properties::Fencing,
    registry,
    repairs::{Effect, Generic, Outbox, Plan, RepairMessage},
};

use crate::{
    Event, Header, Message, Refusal, What, Which, network::Transit, stage::Stage, timers::Timers,
};

/// Processes with a repair, links, timers and a trace: the counterpart of
/// [`Cluster`](crate::Cluster) where crashes are repaired.
///
/// The caller is the failure detector: it reports crashes and restarts to each process, and may be
/// wrong. It decides about time, too: any timer that is set may expire.
#[derive(Clone, Debug)]
pub struct RepairCluster<M: Mutex> {
    plan: Shared<Plan>,
    /// None where the process is down.
    processes: Vec<Option<Generic<M>>>,
    /// The crashes and restarts of each process.
    changes: Vec<u32>,
    timers: Timers,
    stage: Stage<Parcel<M::Message>>,
    entries: Vec<NodeId>,
    fencing: Fencing,
    /// Whether two processes are in the critical section or would enter at once, so that this is
    /// reported once.
    disagree: bool,
}

#[derive(Clone, Debug)]
struct Parcel<A> {
    message: RepairMessage<A>,
    sent: Time,
}

impl<M: Mutex> RepairCluster<M> {
    /// A system at its start; the header names its processes.
    pub fn new(plan: Plan, header: Header) -> Self {
        let links = plan.links();
        Self::with_links(plan, links, header)
    }

    /// The same with links that keep the order of messages, or do not.
    pub fn with_links(plan: Plan, links: mutua_algorithms::Links, header: Header) -> Self {
        let plan = Shared::new(plan);
        let start = plan.start().clone();
        let mut cluster = Self {
            processes: start.all().map(|me| Some(Generic::new(me, &plan))).collect(),
            changes: vec![0; start.processes() as usize],
            timers: Timers::default(),
            stage: Stage::new(links, header),
            entries: Vec::new(),
            fencing: Fencing::default(),
            disagree: false,
            plan,
        };
        for who in start.all() {
            let mut out = Outbox::new();
            if let Some(process) = &mut cluster.processes[who.index()] {
                process.begin(&mut out);
                let clock = Some(process.time().number());
                let state = process.variables();
                cluster.stage.recorder.begin(who, start.is_in_cs(who), clock, state);
            }
            cluster.carry_out(who, &mut out);
        }
        cluster
    }

    // Steps.

    /// A client requests the critical section.
    pub fn request(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::Idle, "requests")?;
        self.handle(who, What::Request, |process, out| process.request(out));
        Ok(())
    }

    /// A client exits the critical section.
    pub fn release(&mut self, who: NodeId) -> Result<(), Refusal> {
        self.must_be(who, Phase::InCs, "exits")?;
        self.handle(who, What::Exit, |process, out| process.release(out));
        Ok(())
    }

    /// The failure detector reports a crash or a restart of `of` to `who`: the next one that it
    /// does not know of. If there was none, the report is wrong, as one by a timeout can be.
    pub fn report(&mut self, of: NodeId, who: NodeId) -> Result<(), Refusal> {
        let known = self.must_be_up(who)?.changes().of(of).unwrap_or(0);
        if of == who {
            return Err(Refusal::new(format!("{} cannot get a report of itself", self.name(who))));
        }
        let changes = known + 1;
        let crashed = !changes.is_multiple_of(2);
        let what = What::Report { of, crashed };
        self.handle(who, what, |process, out| process.report(of, changes, out));
        Ok(())
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
        self.changes[who.index()] += 1;
        self.timers.lose(who);
        self.stage.recorder.happened(who, What::Crash, None);
        Ok(())
    }

    /// A crashed process restarts with an empty memory.
    pub fn restart(&mut self, who: NodeId) -> Result<(), Refusal> {
        if self.is_up(who) {
            return Err(Refusal::new(format!("{} restarts, but is up", self.name(who))));
        }
        self.changes[who.index()] += 1;
        let process = Generic::restarted(who, &self.plan, self.changes[who.index()]);
        self.processes[who.index()] = Some(process);
        self.stage.recorder.forget(who);
        self.handle(who, What::Restart, |process, out| process.begin(out));
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

    /// A process, for reading; none where it is down.
    pub fn process(&self, who: NodeId) -> Option<&Generic<M>> {
        self.processes[who.index()].as_ref()
    }

    /// Whether a process is up: it has not crashed, or has restarted since.
    pub fn is_up(&self, who: NodeId) -> bool {
        self.process(who).is_some()
    }

    /// The processes that have entered, in order of entry.
    pub fn entries(&self) -> &[NodeId] {
        &self.entries
    }

    /// The messages in flight, in order of sending: sender, receiver, message.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        self.stage.in_flight()
    }

    /// The timers that a process has set.
    pub fn timers_of(&self, who: NodeId) -> impl Iterator<Item = Timer> {
        self.timers.of(who)
    }

    /// Whether the message at this index of [`in_flight`](Self::in_flight) is lazy.
    pub fn is_lazy(&self, index: usize) -> bool {
        self.stage.is_lazy(index)
    }

    /// The start of the first view.
    pub fn start_of_all(&self) -> &Start {
        self.plan.start()
    }

    /// The processes of which a crash or a restart has not been reported to this one.
    pub fn unreported_to(&self, who: NodeId) -> Vec<NodeId> {
        let Some(process) = self.process(who) else { return Vec::new() };
        let all = self.changes.iter().enumerate().map(|(of, &changes)| (NodeId::from(of), changes));
        let missing = all.filter(|&(of, changes)| {
            of != who && process.changes().of(of).is_some_and(|known| known < changes)
        });
        missing.map(|(of, _)| of).collect()
    }

    /// Whether a process that is up waits, none is in the critical section, and nothing is in
    /// flight or set that could change it. A report of the failure detector could.
    pub fn is_deadlocked(&self) -> bool {
        let in_phase = |phase| self.processes.iter().flatten().any(|it| it.phase() == phase);
        let nothing_arrives = self.in_flight().all(|(_, to, _)| !self.is_up(to));
        in_phase(Phase::Requesting)
            && !in_phase(Phase::InCs)
            && nothing_arrives
            && self.timers.is_empty()
    }

    fn name(&self, who: NodeId) -> String {
        self.stage.name(who)
    }

    fn must_be_up(&self, who: NodeId) -> Result<&Generic<M>, Refusal> {
        self.process(who).ok_or_else(|| Refusal::new(format!("{} has crashed", self.name(who))))
    }

    fn must_be(&self, who: NodeId, wanted: Phase, verb: &str) -> Result<(), Refusal> {
        let phase = self.must_be_up(who)?.phase();
        if phase == wanted {
            return Ok(());
        }
        let (name, phase, wanted) = (self.name(who), phase.word(), wanted.word());
        Err(Refusal::new(format!("{name} {verb}, but is {phase}; it must be {wanted}")))
    }

    // The effects of a step.

    fn deliver_at(&mut self, index: usize) {
        let Self { stage, processes, .. } = self;
        let Some(transit) = stage.take(index, |to| processes[to.index()].is_some()) else { return };
        let Transit { from, to, shown, payload: Parcel { message, sent }, .. } = transit;
        let what = What::Receive { from, message: shown };
        self.handle(to, what, |process, out| process.receive(from, sent, message, out));
    }

    /// Lets a process that is up handle an event, records it and carries out the effects.
    fn handle(
        &mut self,
        who: NodeId,
        what: What,
        handler: impl FnOnce(&mut Generic<M>, &mut Outbox<M::Message>),
    ) {
        let Some(process) = &mut self.processes[who.index()] else { return };
        let mut out = Outbox::new();
        let view = process.view();
        handler(process, &mut out);
        let clock = Some(process.time().number());
        let keeps = self.stage.recorder.keeps();
        let state = if keeps { process.variables() } else { Fields::new() };
        self.stage.recorder.handled(who, what, clock, state);
        let resumes = process.view().is_some() && process.view() != view;
        let before = self.stage.recorder.events().len();
        self.carry_out(who, &mut out);
        self.judge_agreement(who, resumes, before);
    }

    /// As the checker judges it: all processes of a view have it from the same leader, and at most
    /// one process is in the critical section or would enter at once. Where the step has violated
    /// another property too, after so many events, that one says enough.
    fn judge_agreement(&mut self, who: NodeId, resumes: bool, before: usize) {
        let tokens = self.second_token(who);
        let leaders = resumes.then(|| self.second_leader(who)).flatten();
        let disagree = self.holders().nth(1).is_some();
        let is_known = std::mem::replace(&mut self.disagree, disagree);
        let events = &self.stage.recorder.events()[before..];
        if events.iter().any(|event| matches!(event.what, What::Violation { .. })) {
            return;
        }
        if let Some(why) = leaders.or(tokens.filter(|_| !is_known)) {
            let property = Claim::Agreement.name().into();
            self.stage.recorder.did(who, What::Violation { property, why: why.into() }, None);
        }
    }

    /// The processes that are in the critical section or would enter at once.
    fn holders(&self) -> impl Iterator<Item = &Generic<M>> {
        self.processes.iter().flatten().filter(|process| process.has_token())
    }

    /// Another process that would enter as well as this one, as a sentence.
    fn second_token(&self, who: NodeId) -> Option<String> {
        let me = self.process(who).filter(|process| process.has_token())?;
        let other = self.holders().find(|other| other.id() != who)?;
        let coordinates = |process: &Generic<M>| process.coordinator() == Some(process.id());
        let has_coordinator = self.start_of_all().settings().get("coordinator").is_some();
        let name = self.name(other.id());
        let about = registry::about(&self.header().algorithm);
        Some(if about.is_some_and(|about| about.family == "token") {
            format!("{name} has a token too")
        } else if has_coordinator && coordinates(me) && coordinates(other) {
            format!("{name} is a coordinator too")
        } else if other.phase() == Phase::InCs {
            format!("it would enter at once, and {name} is in the critical section")
        } else {
            format!("{name} would enter at once too")
        })
    }

    /// Another process whose view has the same number and another leader, as a sentence.
    fn second_leader(&self, who: NodeId) -> Option<String> {
        let (number, leader) = self.process(who)?.view()?;
        let differs = |other: &&Generic<M>| {
            other.view().is_some_and(|(view, by)| view == number && by != leader)
        };
        let other = self.processes.iter().flatten().find(differs)?;
        let by = |leader: Option<NodeId>| leader.map_or("none".to_owned(), |who| self.name(who));
        let (_, theirs) = other.view()?;
        let name = self.name(other.id());
        let (mine, theirs) = (by(leader), by(theirs));
        Some(format!(
            "its view {number} was started by {mine}, view {number} of {name} by {theirs}"
        ))
    }

    fn carry_out(&mut self, who: NodeId, out: &mut Outbox<M::Message>) {
        let Some(sent) = self.process(who).map(Generic::time) else { return };
        let clock = Some(sent.number());
        out.drain(|effect| match effect {
            Effect::Send { to, message, lazy } => {
                let shown = self.stage.shown(who, &message);
                let what = What::Send { to, message: shown.clone(), lazy };
                self.stage.recorder.did(who, what, clock);
                let payload = Parcel { message, sent };
                self.stage.send(Transit { from: who, to, shown, lazy, payload });
            }
            Effect::Multicast { to, message } => {
                let shown = self.stage.shown(who, &message);
                let what = What::Multicast { to: to.to_vec(), message: shown.clone() };
                self.stage.recorder.did(who, what, clock);
                for &to in to {
                    let (shown, message) = (shown.clone(), message.clone());
                    let payload = Parcel { message, sent };
                    self.stage.send(Transit { from: who, to, shown, lazy: false, payload });
                }
            }
            Effect::Enter { token } => self.enter(who, token),
            Effect::Suspend => self.note(who, "suspended".to_owned()),
            Effect::StartView { .. } => {}
            Effect::Resume { view } => {
                if let Some(process) = &self.processes[who.index()] {
                    let members = process.changes().members();
                    self.stage.recorder.begins_view(who, view, members);
                }
                self.note(who, format!("view {view}"));
            }
            Effect::GoOn { without } => {
                self.note(who, format!("goes on without {}", self.name(without)));
            }
            Effect::TakeOver { of } => self.note(who, format!("takes over {}", self.name(of))),
            Effect::SetTimer { timer, after } => {
                self.timers.set(who, timer);
                self.stage.recorder.did(who, What::Timer { timer, after }, None);
            }
            Effect::CancelTimer { timer } => {
                if self.timers.cancel(who, timer) {
                    self.stage.recorder.did(who, What::Cancel { timer }, None);
                }
            }
            Effect::Nonsense { from, why } => {
                self.stage.recorder.did(who, What::Nonsense { from, why: why.into() }, clock);
            }
        });
    }

    fn note(&mut self, who: NodeId, text: String) {
        self.stage.recorder.did(who, What::Note { text: text.into() }, None);
    }

    fn enter(&mut self, who: NodeId, token: FencingToken) {
        self.entries.push(who);
        let clock = Some(token.number());
        self.stage.recorder.did(who, What::Enter { fencing_token: token.number() }, clock);
        let in_cs = |it: &&Generic<M>| it.phase() == Phase::InCs && it.id() != who;
        let others = self.processes.iter().flatten().filter(in_cs);
        let others: Vec<_> = others.map(|it| self.name(it.id())).collect();
        let not_below = self.fencing.enter(token);
        let (property, why) = match (others.as_slice(), not_below) {
            ([], Some(last)) => {
                let why = format!("{} is not greater than {}, an earlier one", token.0, last.0);
                (Claim::Fencing, why)
            }
            ([], None) => return,
            ([one], _) => (Claim::MutualExclusion, format!("{one} is in the critical section too")),
            (several, _) => {
                let names = several.join(", ");
                (Claim::MutualExclusion, format!("{names} are in the critical section too"))
            }
        };
        let (property, why) = (property.name().into(), why.into());
        self.stage.recorder.did(who, What::Violation { property, why }, None);
    }
}
