//! One run of one election.

use std::collections::BTreeMap;

use mutua_algorithms::{
    Claim, Election, ElectionEffect, ElectionOutbox, Message, NodeId, Setup, Start, StartError,
    Time, Timer, Wait,
};
use mutua_trace::What;
use serde::Serialize;

use crate::{
    Network, Recorder, Violation, Wheel,
    checks::crashed,
    measures::Measures,
    network::{Fate, Links},
    workload::VIRTUAL_TIME,
};

/// A run of an election to simulate.
#[derive(Clone, Debug)]
pub struct ElectionPlan {
    /// The system, with the processes that are down from the beginning.
    pub setup: Setup,
    /// The network, with crashes and restarts during the run.
    pub network: Network,
    /// The processes that start an election at time 0, since the coordinator has crashed.
    pub starters: Vec<NodeId>,
    /// The bound on transmission that the timeouts use, T_transmit; by default one that holds.
    pub transmission: Option<u64>,
    /// The bound on handling a message, T_process; by default a tenth of the mean latency.
    pub handling: Option<u64>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The measures of an election.
#[derive(Clone, Debug, Serialize)]
pub struct ElectionReport {
    /// The algorithm.
    pub algorithm: &'static str,
    /// How many processes there are.
    pub nodes: u32,
    /// The seed.
    pub seed: u64,
    /// Messages, a multicast counted once per receiver.
    pub messages: u64,
    /// Messages, a multicast counted once.
    pub multicasts: u64,
    /// Messages by kind.
    pub messages_by_kind: BTreeMap<&'static str, u64>,
    /// From the first start until the last process that is up knew the coordinator, in mean
    /// latencies; none if no process ever did.
    pub turnaround: Option<f64>,
    /// The coordinator of all processes that are up, if they agree.
    pub elected: Option<u32>,
    /// Whether that process is down at the end: it crashed after its election, and no process has
    /// started another.
    pub elected_is_down: bool,
    /// Messages that their receivers reported as invalid.
    pub nonsense: u64,
    /// Messages that were dropped.
    pub lost: u64,
    /// The violations found.
    pub violations: Vec<Violation>,
    /// Deliveries, starts and timers fired.
    pub events: u64,
    /// The mean latency, in seconds: the unit of the turn-around.
    pub mean_latency: f64,
    /// A hash of all events: equal for equal runs.
    pub trace_hash: String,
}

#[derive(Debug)]
pub(crate) enum Event<M> {
    Deliver { message: M, from: NodeId, to: NodeId, kind: u8 },
    Start { node: NodeId },
    Timeout { node: NodeId, timer: Timer, generation: u32 },
    Crash { node: NodeId },
    Restart { node: NodeId },
}

/// A run of an election.
#[derive(Debug)]
pub struct ElectionRun<E: Election> {
    plan: ElectionPlan,
    start: Start,
    nodes: Vec<Node<E>>,
    outbox: ElectionOutbox<E::Message>,
    around: Around<E::Message>,
    /// Whether only the highest process that is up may be elected: then E1 can be judged at every
    /// decision.
    highest_wins: bool,
    /// Violations found before the end, the first few.
    violations: Vec<Violation>,
}

/// How many violations found before the end are described.
const KEPT: usize = 10;

#[derive(Debug)]
pub(crate) struct Node<E> {
    machine: E,
    up: bool,
    /// The time of the last crash; none if there was none, or it is down from the start.
    crashed_at: Option<u64>,
    /// How often each timer was set or cancelled: an older one must not fire.
    generations: [u32; 3],
}

/// Everything around the processes.
#[derive(Debug)]
struct Around<M> {
    now: u64,
    wheel: Wheel<Event<M>>,
    links: Links,
    measures: Measures,
    recorder: Option<Recorder>,
    transmission: u64,
    handling: u64,
    /// Messages in transit, and starts, crashes and restarts to come.
    busy: u64,
    decided_at: Option<u64>,
    /// The coordinator that the process reported in the event being handled.
    just_elected: Option<NodeId>,
}

impl<E: Election> ElectionRun<E> {
    /// A run at its beginning; an error if the plan does not fit the algorithm.
    pub fn new(
        plan: ElectionPlan,
        recorder: impl FnOnce(&Start) -> Option<Recorder>,
    ) -> Result<Self, StartError> {
        let start = plan.setup.start_election::<E>()?;
        check(&plan, &start)?;
        let mean = plan.network.mean_latency();
        let mut run = Self {
            nodes: start.all().map(|me| Node::new(me, &start)).collect(),
            outbox: ElectionOutbox::new(),
            around: Around {
                now: 0,
                wheel: Wheel::new(),
                links: Links::new(plan.network.clone(), start.processes(), 1, plan.seed),
                measures: Measures::new(),
                recorder: recorder(&start),
                transmission: plan.transmission.unwrap_or(plan.network.latency_bound()),
                handling: plan.handling.unwrap_or((mean / 10.0) as u64 + 1),
                busy: 0,
                decided_at: None,
                just_elected: None,
            },
            // Without takeover a coordinator stays right when a higher process restarts.
            highest_wins: E::ABOUT.claims.contains(&Claim::Agreement)
                && (E::takes_over(&start)
                    || plan.network.outages.iter().all(|outage| outage.until.is_none())),
            violations: Vec::new(),
            plan,
            start,
        };
        run.begin();
        Ok(run)
    }

    /// Runs to the end.
    pub fn run_to_end(mut self) -> ElectionReport {
        let processes = u64::from(self.start.processes());
        let patience = 10_000 + 1000 * processes * processes;
        while self.around.measures.events < patience && !self.is_settled() {
            let Some((time, slot, event)) = self.around.wheel.pop() else { break };
            if time >= VIRTUAL_TIME {
                break;
            }
            self.around.now = time;
            self.handle(slot, event);
        }
        self.report()
    }

    fn begin(&mut self) {
        self.around.measures.open(0);
        for who in self.start.all() {
            if self.nodes[who.index()].up {
                self.record_handled(who, || What::Start { in_cs: false });
            } else if let Some(recorder) = &mut self.around.recorder {
                recorder.happens(0, who, What::Crash);
            }
        }
        for outage in self.plan.network.outages.clone() {
            self.around.plan(outage.from, Event::Crash { node: outage.node });
            if let Some(until) = outage.until {
                self.around.plan(until, Event::Restart { node: outage.node });
            }
        }
        for &node in &self.plan.starters {
            self.around.plan(0, Event::Start { node });
        }
    }

    /// Whether all processes that are up agree, and no event is to come that could change it.
    fn is_settled(&self) -> bool {
        self.around.busy == 0
            && self.elected().is_some()
            && self.up().all(|node| !node.machine.takes_part())
    }

    fn handle(&mut self, slot: usize, event: Event<E::Message>) {
        match event {
            Event::Deliver { message, from, to, kind } => {
                self.around.busy -= 1;
                self.around.event(u64::from(kind) + 16, to, u64::from(from.0));
                self.deliver(slot, from, to, message);
            }
            Event::Start { node } => self.start(node),
            Event::Timeout { node, timer, generation } => self.timeout(node, timer, generation),
            Event::Crash { node } => self.crash(node),
            Event::Restart { node } => self.restart(node),
        }
    }

    fn deliver(&mut self, slot: usize, from: NodeId, to: NodeId, message: E::Message) {
        let around = &mut self.around;
        if !self.nodes[to.index()].up {
            around.measures.lost += 1;
            if let Some(recorder) = &mut around.recorder {
                recorder.is_undeliverable(around.now, slot, (from, to), &message);
            }
            return;
        }
        let recorder = around.recorder.as_ref();
        let arrival = recorder.map(|recorder| recorder.arrival(slot, from, &message));
        self.nodes[to.index()].machine.receive(from, message, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.record_handled(to, || arrival);
        }
        self.perform(to);
    }

    fn start(&mut self, who: NodeId) {
        self.around.busy -= 1;
        if !self.nodes[who.index()].up {
            return;
        }
        self.around.event(1, who, 0);
        self.nodes[who.index()].machine.start(&mut self.outbox);
        self.record_handled(who, || What::Election);
        self.perform(who);
    }

    fn timeout(&mut self, who: NodeId, timer: Timer, generation: u32) {
        let node = &mut self.nodes[who.index()];
        if !node.up || node.generations[index_of(timer)] != generation {
            return;
        }
        self.around.event(3, who, index_of(timer) as u64);
        node.machine.timeout(timer, &mut self.outbox);
        self.record_handled(who, || What::Timeout { timer });
        self.perform(who);
    }

    fn crash(&mut self, who: NodeId) {
        self.around.busy -= 1;
        self.around.measures.hash.add([self.around.now, 4 << 32 | u64::from(who.0), 0, 0]);
        let node = &mut self.nodes[who.index()];
        if node.up {
            node.crashed_at = Some(self.around.now);
        }
        node.up = false;
        node.generations = node.generations.map(|generation| generation + 1);
        if let Some(recorder) = &mut self.around.recorder {
            recorder.happens(self.around.now, who, What::Crash);
        }
    }

    fn restart(&mut self, who: NodeId) {
        self.around.busy -= 1;
        let node = &mut self.nodes[who.index()];
        if node.up {
            return;
        }
        self.around.measures.hash.add([self.around.now, 5 << 32 | u64::from(who.0), 0, 0]);
        node.up = true;
        node.machine = E::new(who, &self.start);
        node.machine.restart(&mut self.outbox);
        self.record_handled(who, || What::Restart);
        self.perform(who);
    }

    fn perform(&mut self, who: NodeId) {
        let generations = &mut self.nodes[who.index()].generations;
        let around = &mut self.around;
        self.outbox.drain(|effect| around.perform(who, generations, effect));
        if let Some(elected) = self.around.just_elected.take() {
            self.judge(who, elected);
        }
    }

    /// E1 at a decision: the elected process is not long down, and where only the highest may be
    /// elected, none with a higher id is up.
    fn judge(&mut self, who: NodeId, elected: NodeId) {
        let all = self.start.all().filter(|_| self.highest_wins);
        let higher = all.filter(|id| *id > elected && self.nodes[id.index()].up).last();
        let what = match higher {
            Some(higher) => {
                format!("{who} elects {elected} while {higher}, which is higher, is up")
            }
            None if self.is_long_down(elected) => {
                format!("{who} elects {elected}, which is long down")
            }
            None => return,
        };
        if self.violations.len() == KEPT {
            return;
        }
        let violation = self.violation(Claim::Agreement, who, what);
        if let Some(recorder) = &mut self.around.recorder {
            recorder.violation(&violation);
        }
        self.violations.push(violation);
    }

    /// Whether a process crashed so long ago that none of its messages can be in transit: a crash
    /// after an election does not make its result wrong, nor does one while it is announced.
    fn is_long_down(&self, node: NodeId) -> bool {
        let Some(at) = self.nodes[node.index()].crashed_at else { return false };
        let hop = self.around.transmission.saturating_add(self.around.handling);
        let all = hop.saturating_mul(u64::from(self.start.processes()));
        !self.nodes[node.index()].up && self.around.now > at.saturating_add(all)
    }

    fn is_down_from_the_start(&self, node: NodeId) -> bool {
        let Node { up, crashed_at, .. } = &self.nodes[node.index()];
        !up && crashed_at.is_none()
    }

    fn violation(&self, property: Claim, who: NodeId, what: String) -> Violation {
        let (at, event) = (self.around.now, self.around.measures.events);
        Violation { property, seed: self.plan.seed, at, event, node: who.0, what }
    }

    fn record_handled(&mut self, who: NodeId, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.around.recorder {
            let variables = self.nodes[who.index()].machine.variables();
            recorder.handled(self.around.now, who, what(), None, variables);
        }
    }

    fn up(&self) -> impl Iterator<Item = &Node<E>> {
        self.nodes.iter().filter(|node| node.up)
    }

    /// The coordinator of all processes that are up, if they agree.
    fn elected(&self) -> Option<NodeId> {
        let mut known = self.up().map(|node| node.machine.coordinator());
        let first = known.next()??;
        known.all(|other| other == Some(first)).then_some(first)
    }

    fn report(&mut self) -> ElectionReport {
        let at_the_end = self.violations_at_the_end();
        let elected = self.elected();
        if let Some(recorder) = &mut self.around.recorder {
            at_the_end.iter().for_each(|violation| recorder.violation(violation));
        }
        let violations = std::mem::take(&mut self.violations).into_iter().chain(at_the_end);
        let mean = self.plan.network.mean_latency();
        let measures = &self.around.measures;
        let decided_at = self.around.decided_at.filter(|_| elected.is_some());
        ElectionReport {
            algorithm: E::ABOUT.name,
            nodes: self.start.processes(),
            seed: self.plan.seed,
            messages: measures.messages,
            multicasts: measures.multicasts,
            messages_by_kind: measures.kinds.iter().map(|kind| (kind.name, kind.count)).collect(),
            turnaround: decided_at.map(|at| at as f64 / mean.max(1.0)),
            elected: elected.map(|node| node.0),
            elected_is_down: elected.is_some_and(|node| !self.nodes[node.index()].up),
            nonsense: measures.nonsense,
            lost: measures.lost,
            violations: violations.collect(),
            events: measures.events,
            mean_latency: mean / 1e9,
            trace_hash: measures.hash.text(),
        }
    }

    /// E1 and E2, at the end of the run.
    fn violations_at_the_end(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut add = |property, who, what| violations.push(self.violation(property, who, what));
        let up = || self.start.all().zip(&self.nodes).filter(|(_, node)| node.up);
        let mut decided = up().filter_map(|(me, node)| Some((me, node.machine.coordinator()?)));
        if let Some((first, chosen)) = decided.next() {
            if let Some((other, others)) = decided.find(|(_, coordinator)| *coordinator != chosen) {
                let what = format!("{first} elects {chosen}, {other} elects {others}");
                add(Claim::Agreement, other, what);
            } else if self.is_down_from_the_start(chosen) {
                add(Claim::Agreement, first, format!("{first} elects {chosen}, which is down"));
            }
        }
        let undecided =
            |node: &Node<E>| node.machine.coordinator().is_none() || node.machine.takes_part();
        if let Some((me, _)) = up().find(|(_, node)| undecided(node)) {
            let crashed = crashed(self.start.all().filter(|node| !self.nodes[node.index()].up));
            let what = format!("{me} never learns the coordinator{crashed}");
            add(Claim::Termination, me, what);
        }
        violations
    }
}

impl<E: Election> Node<E> {
    fn new(me: NodeId, start: &Start) -> Self {
        let (machine, up) = (E::new(me, start), !start.is_crashed(me));
        Self { machine, up, crashed_at: None, generations: [0; 3] }
    }
}

impl<M: Message> Around<M> {
    fn plan(&mut self, at: u64, event: Event<M>) {
        self.busy += 1;
        self.wheel.push(at, event);
    }

    fn event(&mut self, code: u64, who: NodeId, other: u64) {
        self.measures.event([self.now, code << 32 | u64::from(who.0), other, 0]);
    }

    fn perform(&mut self, who: NodeId, generations: &mut [u32; 3], effect: ElectionEffect<'_, M>) {
        match effect {
            ElectionEffect::Send { to, message } => {
                let kind = self.measures.sends(&message, Time::ZERO, 1);
                if let Some(recorder) = &mut self.recorder {
                    recorder.sends(self.now, (who, None), to, &message, false);
                }
                self.transmit((who, to), message, kind);
            }
            ElectionEffect::Multicast { to, message } => {
                let kind = self.measures.sends(&message, Time::ZERO, to.len());
                if let Some(recorder) = &mut self.recorder {
                    recorder.multicasts(self.now, (who, None), to, &message);
                }
                for &to in to {
                    self.transmit((who, to), message.clone(), kind);
                }
            }
            ElectionEffect::Elected { coordinator } => {
                self.decided_at = Some(self.now);
                self.just_elected = Some(coordinator);
                self.record(who, What::Elected { coordinator });
            }
            ElectionEffect::SetTimer { timer, after } => {
                self.set_timer(who, generations, timer, after)
            }
            ElectionEffect::CancelTimer { timer } => {
                generations[index_of(timer)] += 1;
                self.record(who, What::Cancel { timer });
            }
            ElectionEffect::Nonsense { from, why } => {
                self.measures.nonsense += 1;
                self.record(who, What::Nonsense { from, why: why.into() });
            }
        }
    }

    fn set_timer(&mut self, who: NodeId, generations: &mut [u32; 3], timer: Timer, after: Wait) {
        let generation = &mut generations[index_of(timer)];
        *generation += 1;
        let transmissions = u64::from(after.transmissions).saturating_mul(self.transmission);
        let handlings = u64::from(after.handlings).saturating_mul(self.handling);
        // Beyond that the virtual clock would overflow.
        let length = transmissions.saturating_add(handlings).min(VIRTUAL_TIME / 2);
        let timeout = Event::Timeout { node: who, timer, generation: *generation };
        self.wheel.push(self.now + length, timeout);
        self.record(who, What::Timer { timer, after });
    }

    fn transmit(&mut self, (from, to): (NodeId, NodeId), message: M, kind: u8) {
        let event = |message| Event::Deliver { message, from, to, kind };
        match self.links.send(self.now, from, to, false) {
            Fate::Once(at) => self.put_in_transit(at, from, event(message)),
            Fate::Twice(first, second) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.duplicates(self.now, from, to, &message);
                }
                self.put_in_transit(first, from, event(message.clone()));
                self.put_in_transit(second, from, event(message));
            }
            Fate::Dropped => {
                self.measures.lost += 1;
                if let Some(recorder) = &mut self.recorder {
                    recorder.drops(self.now, from, to, &message);
                }
            }
        }
    }

    fn put_in_transit(&mut self, at: u64, from: NodeId, event: Event<M>) {
        self.busy += 1;
        let slot = self.wheel.push(at, event);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(slot, from);
        }
    }

    fn record(&mut self, who: NodeId, what: What) {
        if let Some(recorder) = &mut self.recorder {
            recorder.does(self.now, who, None, what);
        }
    }
}

fn check(plan: &ElectionPlan, start: &Start) -> Result<(), StartError> {
    let last = start.processes() - 1;
    if let Some(starter) = plan.starters.iter().find(|starter| starter.0 > last) {
        let text = format!("unknown process {starter} starts: the ids are 0 to {last}");
        return Err(StartError::new(text));
    }
    let up = |node: &&NodeId| !start.is_crashed(**node);
    let restarts = plan.network.outages.iter().any(|outage| outage.until.is_some());
    if !restarts && plan.starters.iter().find(up).is_none() {
        return Err(StartError::new("no process that is up starts an election: name a starter"));
    }
    plan.network.fault(start.processes()).map_or(Ok(()), |fault| Err(StartError::new(fault)))
}

fn index_of(timer: Timer) -> usize {
    match timer {
        Timer::Answer => 0,
        Timer::Announcement => 1,
        Timer::Look => 2,
        Timer::Acknowledgement => unreachable!("a timer of repairs"),
    }
}
