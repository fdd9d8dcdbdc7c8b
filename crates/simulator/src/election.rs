//! One run of one election.

use std::collections::BTreeMap;

use mutua_algorithms::{
    Claim, Effect, Election, Message, NodeId, Outbox, Setup, Start, StartError, Time, Timer, Wait,
};
use mutua_trace::What;
use serde::Serialize;

use crate::{
    Network, Recorder, Violation, Wheel,
    measures::Measures,
    network::{Fate, Links},
};

/// What to simulate.
#[derive(Clone, Debug)]
pub struct ElectionPlan {
    /// The system, and who is down from the beginning.
    pub setup: Setup,
    /// The network, and who crashes and comes back meanwhile.
    pub network: Network,
    /// Who notices at time 0 that the coordinator is gone.
    pub starters: Vec<NodeId>,
    /// The bound on transmission that the processes go by, T_transmit; by default one that holds.
    pub transmission: Option<u64>,
    /// The bound on handling a message, T_process; by default a tenth of the mean latency.
    pub handling: Option<u64>,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// What an election has shown.
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
    /// From the first start until the last one alive knew the coordinator, in mean latencies; none
    /// if nobody ever did.
    pub turnaround: Option<f64>,
    /// Whom all that are alive take for the coordinator, if they agree.
    pub elected: Option<u32>,
    /// Messages that made no sense to their receiver.
    pub nonsense: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// What did not hold.
    pub violations: Vec<Violation>,
    /// Deliveries, starts and timers fired.
    pub events: u64,
    /// The mean latency, in seconds: the unit of the turn-around.
    pub mean_latency: f64,
    /// Equal for equal runs.
    pub trace_hash: String,
}

#[derive(Debug)]
enum Event<M> {
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
    outbox: Outbox<E::Message>,
    around: Around<E::Message>,
    /// Whether only the highest that is up may be elected: E1 can be judged at once.
    highest_wins: bool,
    /// What did not hold on the way, the first few.
    violations: Vec<Violation>,
}

/// How many violations of a run are described.
const KEPT: usize = 10;

#[derive(Debug)]
struct Node<E> {
    machine: E,
    up: bool,
    /// How often each timer was set or cancelled: only the last one set may fire.
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
    /// Messages under way, and starts, crashes and restarts to come.
    busy: u64,
    decided_at: Option<u64>,
    /// Whom the process that is being told something takes for elected since then.
    just_elected: Option<NodeId>,
}

impl<E: Election> ElectionRun<E> {
    /// A run at its beginning, or why there is none.
    pub fn new(
        plan: ElectionPlan,
        recorder: impl FnOnce(&Start) -> Option<Recorder>,
    ) -> Result<Self, StartError> {
        let start = plan.setup.start_election::<E>()?;
        check(&plan, &start)?;
        let mean = plan.network.mean_latency();
        let mut run = Self {
            nodes: start.all().map(|me| Node::new(me, &start)).collect(),
            outbox: Outbox::new(),
            around: Around {
                now: 0,
                wheel: Wheel::new(),
                links: Links::new(plan.network.clone(), start.processes(), plan.seed),
                measures: Measures::new(),
                recorder: recorder(&start),
                transmission: plan.transmission.unwrap_or(plan.network.latency_bound()),
                handling: plan.handling.unwrap_or((mean / 10.0) as u64 + 1),
                busy: 0,
                decided_at: None,
                just_elected: None,
            },
            // A coordinator that a higher process has come back to find in office stays right.
            highest_wins: E::ABOUT.claims.contains(&Claim::Agreement)
                && (start.settings().get("takeover") != Some("no")
                    || plan.network.outages.iter().all(|outage| outage.until.is_none())),
            violations: Vec::new(),
            plan,
            start,
        };
        run.begin();
        Ok(run)
    }

    /// Goes on to the end.
    pub fn run_to_end(mut self) -> ElectionReport {
        let processes = u64::from(self.start.processes());
        let patience = 10_000 + 1000 * processes * processes;
        while self.around.measures.events < patience && !self.is_settled() {
            let Some((time, place, event)) = self.around.wheel.pop() else { break };
            self.around.now = time;
            self.handle(place, event);
        }
        self.report()
    }

    fn begin(&mut self) {
        self.around.measures.open(0);
        for who in self.start.all() {
            if self.nodes[who.index()].up {
                self.told(who, || What::Start { inside: false });
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

    /// All that are alive agree, and nothing is under way that could change it.
    fn is_settled(&self) -> bool {
        self.around.busy == 0
            && self.elected().is_some()
            && self.alive().all(|node| !node.machine.takes_part())
    }

    fn handle(&mut self, place: usize, event: Event<E::Message>) {
        match event {
            Event::Deliver { message, from, to, kind } => {
                self.around.busy -= 1;
                self.around.event(u64::from(kind) + 16, to, u64::from(from.0));
                self.deliver(place, from, to, message);
            }
            Event::Start { node } => self.start(node),
            Event::Timeout { node, timer, generation } => self.timeout(node, timer, generation),
            Event::Crash { node } => self.crash(node),
            Event::Restart { node } => self.restart(node),
        }
    }

    fn deliver(&mut self, place: usize, from: NodeId, to: NodeId, message: E::Message) {
        let around = &mut self.around;
        if !self.nodes[to.index()].up {
            around.measures.lost += 1;
            if let Some(recorder) = &mut around.recorder {
                recorder.is_undeliverable(around.now, place, (from, to), &message);
            }
            return;
        }
        let recorder = around.recorder.as_ref();
        let arrival = recorder.map(|recorder| recorder.arrival(place, from, &message));
        self.nodes[to.index()].machine.receive(from, message, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.told(to, || arrival);
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
        self.told(who, || What::Election);
        self.perform(who);
    }

    fn timeout(&mut self, who: NodeId, timer: Timer, generation: u32) {
        let node = &mut self.nodes[who.index()];
        if !node.up || node.generations[place_of(timer)] != generation {
            return;
        }
        self.around.event(3, who, place_of(timer) as u64);
        node.machine.timeout(timer, &mut self.outbox);
        self.told(who, || What::Timeout { timer });
        self.perform(who);
    }

    fn crash(&mut self, who: NodeId) {
        self.around.busy -= 1;
        self.around.measures.hash.add([self.around.now, 4 << 32 | u64::from(who.0), 0, 0]);
        let node = &mut self.nodes[who.index()];
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
        self.told(who, || What::Restart);
        self.perform(who);
    }

    fn perform(&mut self, who: NodeId) {
        let generations = &mut self.nodes[who.index()].generations;
        let around = &mut self.around;
        self.outbox.drain(|effect| around.perform(who, generations, effect));
        if let Some(elected) = self.around.just_elected.take().filter(|_| self.highest_wins) {
            self.judge(who, elected);
        }
    }

    /// E1, whenever a process takes somebody for elected: nobody higher is up.
    fn judge(&mut self, who: NodeId, elected: NodeId) {
        let higher = self.start.all().filter(|id| *id > elected && self.nodes[id.index()].up);
        let Some(higher) = higher.last() else { return };
        if self.violations.len() == KEPT {
            return;
        }
        let what = format!("{who} takes {elected} for elected, and {higher}, who is higher, is up");
        let violation = self.violation(Claim::Agreement, who, what);
        if let Some(recorder) = &mut self.around.recorder {
            recorder.violation(&violation);
        }
        self.violations.push(violation);
    }

    fn violation(&self, property: Claim, who: NodeId, what: String) -> Violation {
        let (at, event) = (self.around.now, self.around.measures.events);
        Violation { property, seed: self.plan.seed, at, event, node: who.0, what }
    }

    fn told(&mut self, who: NodeId, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.around.recorder {
            let variables = self.nodes[who.index()].machine.variables();
            recorder.told(self.around.now, who, what(), None, variables);
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Node<E>> {
        self.nodes.iter().filter(|node| node.up)
    }

    /// Whom all that are alive take for the coordinator.
    fn elected(&self) -> Option<NodeId> {
        let mut known = self.alive().map(|node| node.machine.coordinator());
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
        let alive = || self.start.all().zip(&self.nodes).filter(|(_, node)| node.up);
        let mut decided = alive().filter_map(|(me, node)| Some((me, node.machine.coordinator()?)));
        if let Some((first, chosen)) = decided.next() {
            if let Some((other, others)) = decided.find(|(_, coordinator)| *coordinator != chosen) {
                let what = format!("{first} takes {chosen} for elected, {other} takes {others}");
                add(Claim::Agreement, other, what);
            } else if !self.nodes[chosen.index()].up {
                add(Claim::Agreement, first, format!("{chosen} is elected, and it is down"));
            }
        }
        let undecided =
            |node: &Node<E>| node.machine.coordinator().is_none() || node.machine.takes_part();
        if let Some((me, _)) = alive().find(|(_, node)| undecided(node)) {
            add(Claim::Termination, me, format!("{me} never learns who is elected"));
        }
        violations
    }
}

impl<E: Election> Node<E> {
    fn new(me: NodeId, start: &Start) -> Self {
        Self { machine: E::new(me, start), up: !start.is_crashed(me), generations: [0; 3] }
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

    fn perform(&mut self, who: NodeId, generations: &mut [u32; 3], effect: Effect<'_, M>) {
        match effect {
            Effect::Send { to, message, lazy } => {
                let kind = self.measures.sends(&message, Time::ZERO, 1);
                if let Some(recorder) = &mut self.recorder {
                    recorder.sends(self.now, (who, None), to, &message, lazy);
                }
                self.transmit((who, to), message, lazy, kind);
            }
            Effect::Multicast { to, message } => {
                let kind = self.measures.sends(&message, Time::ZERO, to.len());
                if let Some(recorder) = &mut self.recorder {
                    recorder.multicasts(self.now, (who, None), to, &message);
                }
                for &to in to {
                    self.transmit((who, to), message.clone(), false, kind);
                }
            }
            Effect::Elected { coordinator } => {
                self.decided_at = Some(self.now);
                self.just_elected = Some(coordinator);
                self.record(who, What::Elected { coordinator });
            }
            Effect::SetTimer { timer, after } => self.set_timer(who, generations, timer, after),
            Effect::CancelTimer { timer } => {
                generations[place_of(timer)] += 1;
                self.record(who, What::Cancel { timer });
            }
            Effect::Nonsense { from, why } => {
                self.measures.nonsense += 1;
                self.record(who, What::Nonsense { from, why: why.into() });
            }
            Effect::Enter => unreachable!("an effect of mutual exclusion from an election"),
        }
    }

    fn set_timer(&mut self, who: NodeId, generations: &mut [u32; 3], timer: Timer, after: Wait) {
        let generation = &mut generations[place_of(timer)];
        *generation += 1;
        let length = u64::from(after.transmissions) * self.transmission
            + u64::from(after.handlings) * self.handling;
        let timeout = Event::Timeout { node: who, timer, generation: *generation };
        self.wheel.push(self.now + length, timeout);
        self.record(who, What::Timer { timer, after });
    }

    fn transmit(&mut self, (from, to): (NodeId, NodeId), message: M, lazy: bool, kind: u8) {
        let event = |message| Event::Deliver { message, from, to, kind };
        match self.links.send(self.now, from, to, lazy) {
            Fate::Once(at) => self.put_under_way(at, from, event(message)),
            Fate::Twice(first, second) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.duplicates(self.now, from, to, &message);
                }
                self.put_under_way(first, from, event(message.clone()));
                self.put_under_way(second, from, event(message));
            }
            Fate::Lost => {
                self.measures.lost += 1;
                if let Some(recorder) = &mut self.recorder {
                    recorder.loses(self.now, from, to, &message);
                }
            }
        }
    }

    fn put_under_way(&mut self, at: u64, from: NodeId, event: Event<M>) {
        self.busy += 1;
        let place = self.wheel.push(at, event);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(place, from);
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
        let text = format!("process {starter} is to start, but they are 0 to {last}");
        return Err(StartError::new(text));
    }
    let up = |node: &&NodeId| !start.is_crashed(**node);
    let restarts = plan.network.outages.iter().any(|outage| outage.until.is_some());
    if !restarts && plan.starters.iter().find(up).is_none() {
        return Err(StartError::new("nobody who is up starts an election; name a starter"));
    }
    plan.network.fault(start.processes()).map_or(Ok(()), |fault| Err(StartError::new(fault)))
}

fn place_of(timer: Timer) -> usize {
    match timer {
        Timer::Answer => 0,
        Timer::Announcement => 1,
        Timer::Look => 2,
    }
}
