//! One run of one mutual exclusion algorithm.

use mutua_algorithms::{
    Claim, FencingToken, Message, Mutex, NodeId, Outbox, Phase, Process, Setup, Start, StartError,
    properties::{Bypass, Ordering},
};
use mutua_trace::What;

use crate::{
    Distribution, Load, Network, Recorder, Report, Workload,
    app_messages::{self, AppMessage, AppMessages},
    checks::{Checks, Section},
    event::{Event, Parcel},
    network::Links,
    sections::{self, Choice, Sections},
    workload::{Clients, VIRTUAL_TIME},
    world::{Client, Due, Length, Stage, Step, World},
};

/// Ordering (EM3) is checked where it is claimed and the system is not larger than this: the check
/// takes N steps per message.
const ORDERING_UP_TO: u32 = 64;

/// A warm-up that needs more events than this is cut short, and the report says so.
const WARM_UP_EVENTS: u64 = 20_000_000;

/// More events than this while no process requests take about an hour.
const MOST_IDLE_EVENTS: f64 = 2e10;

/// A run to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The system.
    pub setup: Setup,
    /// The network.
    pub network: Network,
    /// The behaviour of the clients.
    pub workload: Workload,
    /// How many entries are measured.
    pub entries: u64,
    /// How many entries the warm-up has; by default enough for the system to settle, if that does
    /// not take too many events.
    pub warm_up: Option<u64>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Whether the run goes on after the last measured entry until every waiting process has
    /// entered.
    pub drain: bool,
    /// How many events there may be, those of the warm-up included; a longer run ends with the
    /// measures taken until then.
    pub max_events: u64,
    /// How many events the warm-up may have; by default a third of `max_events`, and 20 million
    /// unless `warm_up` is given. A warm-up that was cut short is reported.
    pub warm_up_events: Option<u64>,
    /// Whether to check ordering (EM3); by default where N is not large and it is claimed or there
    /// are messages of the application.
    pub ordering: Option<bool>,
    /// The gap between two messages of the application from the same process, each to a random
    /// other process; by default there are no such messages.
    pub app_messages: Option<Distribution>,
    /// Properties whose violations count even if they are not claimed. Violations of other
    /// unclaimed properties are listed apart.
    pub judged: Vec<Claim>,
    /// The critical sections.
    pub sections: Sections,
}

impl Plan {
    /// A run of so many entries of this workload over this network, everything else by default.
    pub fn new(setup: Setup, network: Network, workload: Workload, entries: u64) -> Self {
        Self {
            setup,
            network,
            workload,
            entries,
            warm_up: None,
            seed: 1,
            drain: true,
            max_events: u64::MAX,
            warm_up_events: None,
            ordering: None,
            app_messages: None,
            judged: Vec::new(),
            sections: Sections::ONE,
        }
    }

    /// The entries after which the system is in a steady state. Light load needs most, since
    /// dynamic trees start as a star.
    pub fn settling(&self) -> u64 {
        let nodes = u64::from(self.setup.nodes) * u64::from(self.sections.count);
        match self.workload.load {
            Load::Light { .. } => 10 * nodes,
            Load::Saturated | Load::Think(_) | Load::Bursts { .. } => 4 * nodes,
            // From fewer the load cannot be estimated, by which the warm-up is extended.
            Load::Poisson { .. } => (4 * nodes).max(100),
            Load::Script(_) => 0,
        }
    }

    /// The entries of the warm-up, and the events after which it is cut short.
    fn warm_up(&self) -> (u64, u64) {
        let at_most = self.max_events / 3;
        let (entries, at_most) = match self.warm_up {
            Some(entries) => (entries, at_most),
            None => (self.settling(), at_most.min(WARM_UP_EVENTS)),
        };
        (entries, self.warm_up_events.unwrap_or(at_most))
    }

    pub(crate) fn check(&self, start: &Start) -> Result<(), StartError> {
        if self.entries == 0 {
            return Err(StartError::new("invalid number of entries `0`: give at least 1"));
        }
        let fault = self.network.fault(start.processes());
        let fault = fault.or_else(|| self.app_messages.as_ref().and_then(app_messages::fault));
        let fault = fault.or_else(|| self.workload.fault(start.contenders()));
        let several = fault.is_none() && self.sections.count != 1;
        let fault = fault.or_else(|| several.then(|| self.sections.fault(self, start)).flatten());
        match fault.or_else(|| self.too_long(start.contenders())) {
            Some(fault) => Err(StartError::new(fault)),
            None => Ok(()),
        }
    }

    /// Why the run does not fit the virtual clock, if it does not. A run with a bound on its events
    /// may end before.
    fn too_long(&self, contenders: u32) -> Option<String> {
        let entries = self.warm_up().0.saturating_add(self.entries);
        let time = self.workload.time_of(entries, contenders);
        (time > VIRTUAL_TIME as f64 && self.max_events == u64::MAX).then(|| {
            let years = time / 1e9 / 3600.0 / 24.0 / 365.25;
            format!(
                "{entries} entries with their warm-up take about {years:.0} years of virtual time, \
                 but the clock has nanoseconds in 64 bits and ends after {YEARS} years: use fewer \
                 entries, or a shorter gap, think time or hold time"
            )
        })
    }
}

/// The end of the virtual clock, in years.
const YEARS: u32 = 292;

/// A run of an algorithm: the processes, and the world around them.
#[derive(Debug)]
pub struct Simulation<M: Mutex> {
    plan: Plan,
    start: Start,
    /// The processes; where there are several critical sections, those of each after each other.
    nodes: Vec<Node<M>>,
    /// The critical section of each process's request.
    sections: Choice,
    outbox: Outbox<M::Message>,
    world: World<M::Message>,
    draws_ticket: bool,
    /// So many events without an entry while a process waits mean that no entry will come.
    patience: u64,
    /// Whether the virtual clock ended before the run.
    out_of_time: bool,
}

/// A process beside its client, in as few cache lines as possible: with a million of them, cache
/// misses dominate.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node<M> {
    process: Process<M>,
    client: Client,
}

impl<M: Mutex> Simulation<M> {
    /// A run at its beginning; an error if the plan does not fit the algorithm.
    pub fn new(plan: Plan) -> Result<Self, StartError> {
        Self::with_recorder(plan, |_| None)
    }

    /// The same with a recorder.
    pub fn with_recorder(
        plan: Plan,
        recorder: impl FnOnce(&Start) -> Option<Recorder>,
    ) -> Result<Self, StartError> {
        let start = plan.setup.start::<M>()?;
        plan.check(&start)?;
        let sections = 0..plan.sections.count;
        let draws_ticket = M::draws_ticket(&start);
        let mut simulation = Self {
            nodes: sections.flat_map(|_| start.all().map(|me| Node::new(me, &start))).collect(),
            sections: Choice::new(plan.sections, start.processes(), plan.seed),
            outbox: Outbox::new(),
            world: world(&plan, &start, start.about().links, start.about().claims, draws_ticket),
            draws_ticket,
            patience: patience(start.processes()),
            out_of_time: false,
            plan,
            start,
        };
        simulation.world.recorder = recorder(&simulation.start);
        simulation.begin();
        Ok(simulation)
    }

    /// Runs for at most so many events; returns whether there is more to do.
    pub fn run(&mut self, events: u64) -> bool {
        let until = (self.world.measures.events + events).min(self.plan.max_events);
        while self.world.stage != Stage::Over && self.world.measures.events < until {
            self.step();
        }
        if self.world.measures.events >= self.plan.max_events {
            self.world.cut();
        }
        self.world.stage != Stage::Over
    }

    /// Runs to the end.
    pub fn run_to_end(mut self) -> Report {
        self.run(u64::MAX / 2);
        self.report()
    }

    /// The share of the run that is done, from 0 to 1.
    pub fn progress(&self) -> f64 {
        let Length { warm_up, entries, .. } = self.world.length;
        (self.world.measures.entries_in_all as f64 / (warm_up + entries) as f64).min(1.0)
    }

    /// The requests and the virtual time so far.
    pub(crate) fn moment(&self) -> (u64, u64) {
        (self.world.requests(), self.world.now)
    }

    /// Why the run would take hours, if the events since an earlier moment, of which there were
    /// [`SLICE`](crate::SLICE), were messages that an algorithm goes on sending while no process
    /// requests.
    pub(crate) fn takes_for_ever(&self, (requests, then): (u64, u64)) -> Option<StartError> {
        let checks = &self.world.checks;
        let idle = requests == self.world.requests()
            && !checks.is_waited_for()
            && !checks.is_held()
            && self.world.stage != Stage::Over;
        if !idle || self.plan.max_events != u64::MAX || self.plan.app_messages.is_some() {
            return None;
        }
        let entries = self.plan.warm_up().0.saturating_add(self.plan.entries);
        let time = self.plan.workload.time_of(entries, self.start.contenders());
        let events = time / (self.world.now - then).max(1) as f64 * crate::SLICE as f64;
        (events > MOST_IDLE_EVENTS).then(|| {
            StartError::new(format!(
                "this run would have about {:.0} billion events, nearly all of them messages that \
                 {} sends while no process requests: use a shorter gap or think time, fewer \
                 entries, a longer latency, or --pace",
                events / 1e9,
                self.start.about().name
            ))
        })
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.world.measures.events
    }

    /// Why the run ended early though nothing is wrong with it: the virtual clock ended.
    pub fn error(&self) -> Option<StartError> {
        self.out_of_time.then(|| {
            let (entries, of) = (self.world.measures.entries, self.plan.entries);
            StartError::new(format!(
                "the virtual clock ended after {YEARS} years, with {entries} of {of} entries \
                 measured: use fewer entries, or a shorter gap, think time or hold time"
            ))
        })
    }

    /// Whether a property was violated so far.
    pub fn is_violated(&self) -> bool {
        self.world.checks.violations.count > 0
    }

    /// The measures so far.
    pub fn report(&self) -> Report {
        let clients: Vec<_> = self.nodes.iter().map(|node| &node.client).collect();
        if self.plan.sections.count == 1 {
            return Report::new(self.start.about().name, &self.plan, &self.world, &clients);
        }
        let merged = sections::merged(&clients, self.start.processes());
        let clients: Vec<_> = merged.iter().collect();
        Report::new(self.start.about().name, &self.plan, &self.world, &clients)
    }

    fn begin(&mut self) {
        for who in (0..self.nodes.len()).map(NodeId::from) {
            let process = &mut self.nodes[who.index()].process;
            process.begin(&mut self.outbox);
            self.record_handled(who, || What::Start { in_cs: false });
            self.perform(who, None);
        }
        if let Some(holder) = self.start.in_cs() {
            self.begin_in_cs(holder);
        }
        for outage in &self.plan.network.outages {
            self.world.wheel.push(outage.from, Event::Crash { node: outage.node });
            if let Some(until) = outage.until {
                self.world.wheel.push(until, Event::Restart { node: outage.node });
            }
        }
        self.world.begin();
    }

    fn begin_in_cs(&mut self, holder: NodeId) {
        self.world.checks.here.in_cs = 1;
        self.nodes[holder.index()].client.phase = Phase::InCs;
        let hold = self.world.clients.hold(holder);
        self.world.wheel.push(hold, Event::Exit { node: holder, incarnation: 0 });
    }

    fn step(&mut self) {
        let Some((time, slot, event)) = self.world.wheel.pop() else {
            return self.end();
        };
        if time >= VIRTUAL_TIME {
            self.out_of_time = true;
            return self.world.cut();
        }
        self.world.now = time;
        let of_application = matches!(event, Event::AppSend { .. } | Event::AppReceive(_));
        match event {
            Event::Deliver(parcel) => self.deliver(slot, parcel),
            Event::Request { node, incarnation } => self.request(node, incarnation),
            Event::Exit { node, incarnation } => self.exit(node, incarnation),
            Event::Burst => self.burst(),
            Event::AppSend { node } => self.send_app_message(node),
            Event::AppReceive(message) => self.receive_app_message(slot, message),
            Event::Crash { node } => self.crash(node),
            Event::Restart { node } => self.restart(node),
            // Only runs with a repair have these.
            Event::Report { .. }
            | Event::CrashChosen { .. }
            | Event::Beat { .. }
            | Event::Heartbeat { .. }
            | Event::Timeout { .. } => {}
        }
        self.world.after_event();
        self.end_if_stuck(of_application);
    }

    /// Ends a run in which no process will enter any more. Messages of the application go on for
    /// ever; they can let a process enter (an algorithm may observe the clock on any message), so
    /// they count where no other event is to come.
    fn end_if_stuck(&mut self, of_application: bool) {
        if self.world.checks.is_held() {
            return;
        }
        let is_over = if !self.world.checks.is_waited_for() {
            of_application && self.world.has_only_app_events()
        } else {
            let counts = !of_application || self.world.has_only_app_events();
            self.world.idle_events += u64::from(counts);
            self.world.idle_events > self.patience
        };
        if is_over && self.world.stage != Stage::Over {
            self.end();
        }
    }

    fn deliver(&mut self, slot: usize, parcel: Parcel<M::Message>) {
        let world = &mut self.world;
        let Parcel { from, to, sent, .. } = parcel;
        world.arrives(&parcel);
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return world.cannot_deliver(slot, &parcel);
        }
        node.client.received += u64::from(world.measures.open);
        world.checks.select(world.links.section(to));
        world.checks.receives(world.links.process(to), slot);
        let arrival =
            world.recorder.as_ref().map(|recorder| recorder.arrival(slot, from, &parcel.message));
        let fence =
            node.process.receive(world.links.process(from), sent, parcel.message, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.record_handled(to, || arrival);
        }
        self.perform(to, fence);
    }

    /// A process requests one of the critical sections, or the only one.
    fn request(&mut self, process: NodeId, incarnation: u32) {
        let last = &self.nodes[self.sections.last(process).index()].client;
        match self.world.request_is_due(process, incarnation, last) {
            Due::Now => {}
            Due::PutOff => return,
            Due::Void => return self.keep_light(),
        }
        let who = self.sections.choose(process);
        let node = &mut self.nodes[who.index()];
        self.world.checks.select(self.world.links.section(who));
        self.world.make_request(process, who, &mut node.client);
        let fence = node.process.request(&mut self.outbox);
        self.record_handled(who, || What::Request);
        self.perform(who, fence);
        self.world.checks.has_requested(process);
    }

    fn exit(&mut self, who: NodeId, incarnation: u32) {
        let node = &mut self.nodes[who.index()];
        if incarnation != node.client.incarnation {
            return;
        }
        self.world.measures.event([self.world.now, 2 << 32 | u64::from(who.0), 0, 0]);
        self.world.checks.select(self.world.links.section(who));
        self.world.exits(self.world.links.process(who), &mut node.client);
        node.process.release(&mut self.outbox);
        self.record_handled(who, || What::Exit);
        let before = self.world.measures.messages;
        self.perform(who, None);
        self.world.measures.at_exits += self.world.measures.messages - before;
    }

    fn send_app_message(&mut self, who: NodeId) {
        let Node { process, client } = &self.nodes[who.index()];
        self.world.sends_app_message(who, process.time(), client.down);
    }

    fn receive_app_message(&mut self, slot: usize, message: AppMessage) {
        let AppMessage { sent, from, to } = message;
        let world = &mut self.world;
        if let Some(app_messages) = &mut world.app_messages {
            app_messages.waiting -= 1;
        }
        let event = [world.now, 4 << 32 | u64::from(to.0), u64::from(from.0), sent.number()];
        world.measures.event(event);
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return world.drops_app_message(message, Some(slot));
        }
        world.checks.receives(to, slot);
        let arrival = world.recorder.as_ref().map(|recorder| recorder.app_arrival(slot, from));
        let fence = node.process.observe(from, sent, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.record_handled(to, || arrival);
        }
        self.perform(to, fence);
    }

    fn burst(&mut self) {
        let Load::Bursts { every } = self.world.clients.workload.load else { return };
        if self.world.stage != Stage::Draining {
            self.world.burst(every);
        }
    }

    fn crash(&mut self, process: NodeId) {
        for who in self.sections.instances(process) {
            let client = &mut self.nodes[who.index()].client;
            if client.down {
                return;
            }
            self.world.checks.select(self.world.links.section(who));
            self.world.checks.crashes(process, client);
            client.down = true;
            client.incarnation += 1;
            client.phase = Phase::Idle;
            if let Some(recorder) = &mut self.world.recorder {
                recorder.happens(self.world.now, who, What::Crash);
            }
        }
        self.keep_light();
    }

    /// At light load others request instead of a process that is down.
    fn keep_light(&mut self) {
        self.world.keep_light(|who| self.nodes[who.index()].client.down);
    }

    /// Restarts a process from its initial state: the algorithms define no recovery.
    fn restart(&mut self, process: NodeId) {
        for who in self.sections.instances(process) {
            let node = &mut self.nodes[who.index()];
            if !node.client.down {
                return;
            }
            node.client.down = false;
            node.process = Process::new(process, &self.start);
            node.process.begin(&mut self.outbox);
            self.record_handled(who, || What::Restart);
            self.perform(who, None);
        }
        if self.world.clients.active().contains(&process.0) {
            let client = &mut self.nodes[process.index()].client;
            self.world.plan_after_restart(process, client);
        }
    }

    fn perform(&mut self, who: NodeId, fence: Option<FencingToken>) {
        let Node { process, client } = &mut self.nodes[who.index()];
        let step = Step { who, clock: process.time(), fence };
        let world = &mut self.world;
        world.checks.select(world.links.section(who));
        if self.draws_ticket && process.machine().has_ticket() {
            world.checks.draws(world.links.process(who));
        }
        let first = self.sections.first_of(who);
        if first == 0 {
            return self.outbox.drain(|effect| world.perform(step, client, effect));
        }
        self.outbox.drain(|effect| {
            sections::shifted(effect, first, |effect| world.perform(step, client, effect));
        });
    }

    fn record_handled(&mut self, who: NodeId, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.world.recorder {
            let process = &self.nodes[who.index()].process;
            let (clock, variables) = (Some(process.time()), process.machine().variables());
            recorder.handled(self.world.now, who, what(), clock, variables);
        }
    }

    fn end(&mut self) {
        let instances = (0..).map(NodeId).zip(&self.nodes);
        let waiting = instances.clone().filter(|(_, node)| node.client.phase == Phase::Requesting);
        let waiting = waiting.map(|(who, node)| (who, node.client.entries_before));
        let processes = self.start.processes() as usize;
        let down = instances.take(processes).filter(|(_, node)| node.client.down);
        self.world.end(waiting, down.map(|(who, _)| who));
    }
}

impl<M: Mutex> Node<M> {
    fn new(me: NodeId, start: &Start) -> Self {
        Self { process: Process::new(me, start), client: Client::default() }
    }
}

pub(crate) fn world<A: Message>(
    plan: &Plan,
    start: &Start,
    needed: mutua_algorithms::Links,
    claims: &[Claim],
    draws_ticket: bool,
) -> World<A> {
    let (warm_up, warm_up_events) = plan.warm_up();
    let (extends, entries, drain) = (plan.warm_up.is_none(), plan.entries, plan.drain);
    let length = Length { warm_up, extends, warm_up_events, entries, drain };
    let mut world = World::new(
        Links::new(plan.network.clone(), start.processes(), plan.sections.count, plan.seed)
            .for_needs(needed),
        Clients::new(plan.workload.clone(), start.contenders(), plan.seed),
        checks(plan, start, claims, draws_ticket),
        length,
    );
    let app_messages = |gap| AppMessages::new(gap, start.contenders(), plan.seed);
    world.app_messages = plan.app_messages.map(app_messages);
    world
}

/// The properties by which every algorithm is judged, negative controls included.
const ALWAYS: [Claim; 4] =
    [Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing];

fn checks(plan: &Plan, start: &Start, claims: &[Claim], draws_ticket: bool) -> Checks {
    let mut judged = ALWAYS.to_vec();
    judged.extend(claims.iter().chain(&plan.judged));
    let processes = start.processes() as usize;
    let wanted = plan.ordering.unwrap_or_else(|| {
        let small = start.processes() <= ORDERING_UP_TO;
        let judged_anyway = plan.judged.contains(&Claim::Ordering);
        judged_anyway
            || (small && (plan.app_messages.is_some() || claims.contains(&Claim::Ordering)))
    });
    let ordering = wanted.then(|| Ordering::new(processes));
    let bypass = judged
        .contains(&Claim::BoundedBypass)
        .then(|| Bypass::new(processes).with_tickets(draws_ticket));
    Checks::new(plan.seed, judged, Section::new(ordering, bypass), plan.sections.count)
}

/// Processes that poll registers need the most messages from one entry to the next, about 4 N^2.
pub(crate) fn patience(processes: u32) -> u64 {
    let processes = u64::from(processes);
    10_000 + processes.saturating_mul(processes).saturating_mul(64).min(u64::MAX / 2)
}
