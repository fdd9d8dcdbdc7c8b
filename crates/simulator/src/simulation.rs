//! One run of one mutual exclusion algorithm.

use mutua_algorithms::{
    Claim, Fence, Mutex, NodeId, Outbox, Phase, Process, Setup, Start, StartError,
};
use mutua_trace::What;

use crate::{
    Distribution, Load, Network, Recorder, Report, Workload,
    bypass::Bypass,
    checks::Checks,
    network::Links,
    ordering::Ordering,
    tells::{self, Tells, Told},
    workload::Clients,
    world::{Client, Event, Length, Parcel, Stage, Step, World},
};

/// EM3 is looked at where it is claimed and the system is not larger than this: it takes N steps
/// per message.
const ORDERING_UP_TO: u32 = 64;

/// Settling may take longer than anybody would wait for: then it is given up after so many events,
/// and the report says so.
const WARM_UP_EVENTS: u64 = 20_000_000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The system.
    pub setup: Setup,
    /// The network.
    pub network: Network,
    /// The clients.
    pub workload: Workload,
    /// How many entries are measured.
    pub entries: u64,
    /// How many entries come before the first that is measured; by default enough for the system to
    /// settle, if that does not take too many events.
    pub warm_up: Option<u64>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Whether everyone who has asked must still get in at the end.
    pub drain: bool,
    /// How many events there may be; a run that needs more ends with what it has measured by then,
    /// after a warm-up of at most a third of them.
    pub max_events: u64,
    /// Whether to look at EM3; by default where N is not large and it is claimed, or processes tell
    /// each other something.
    pub ordering: Option<bool>,
    /// How long after one message of the application each process sends the next, to anyone; by
    /// default there are none.
    pub tells: Option<Distribution>,
    /// Properties that count as violated if they do not hold, claimed or not. The others that are
    /// looked at and not claimed are listed apart.
    pub judged: Vec<Claim>,
}

impl Plan {
    /// So many entries of this workload over this network, everything else by default.
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
            ordering: None,
            tells: None,
            judged: Vec::new(),
        }
    }

    /// How many entries come first, and after how many events that is given up. Light load needs
    /// longest: Naimi-Trehel's tree starts as a star.
    fn warm_up(&self) -> (u64, u64) {
        let nodes = u64::from(self.setup.nodes);
        let settled = match self.workload.load {
            Load::Light { .. } => 10 * nodes,
            Load::Saturated | Load::Think(_) | Load::Bursts { .. } => 4 * nodes,
            Load::Script(_) => 0,
        };
        let at_most = self.max_events / 3;
        match self.warm_up {
            Some(entries) => (entries, at_most),
            None => (settled, at_most.min(WARM_UP_EVENTS)),
        }
    }

    fn check(&self, start: &Start) -> Result<(), StartError> {
        if self.entries == 0 {
            return Err(StartError::new("0 entries; give at least 1"));
        }
        let fault = self.network.fault(start.processes());
        let fault = fault.or_else(|| self.tells.as_ref().and_then(tells::fault));
        match fault.or_else(|| self.workload.fault(start.contenders())) {
            Some(fault) => Err(StartError::new(fault)),
            None => Ok(()),
        }
    }
}

/// A run of an algorithm: processes, and the world around them.
#[derive(Debug)]
pub struct Simulation<M: Mutex> {
    plan: Plan,
    start: Start,
    nodes: Vec<Node<M>>,
    outbox: Outbox<M::Message>,
    world: World<M::Message>,
    /// So many events without an entry while somebody waits mean that none will come.
    patience: u64,
}

/// A process beside its client, and as few lines of the cache as can be: with a million of them,
/// looking into memory is what takes time.
#[derive(Debug)]
#[repr(C, align(64))]
struct Node<M> {
    process: Process<M>,
    client: Client,
}

impl<M: Mutex> Simulation<M> {
    /// A run at its beginning, or why there is none.
    pub fn new(plan: Plan) -> Result<Self, StartError> {
        Self::with_recorder(plan, |_| None)
    }

    /// The same with somebody who writes it down.
    pub fn with_recorder(
        plan: Plan,
        recorder: impl FnOnce(&Start) -> Option<Recorder>,
    ) -> Result<Self, StartError> {
        let start = plan.setup.start::<M>()?;
        plan.check(&start)?;
        let mut simulation = Self {
            nodes: start.all().map(|me| Node::new(me, &start)).collect(),
            outbox: Outbox::new(),
            world: world::<M>(&plan, &start),
            patience: patience(start.processes()),
            plan,
            start,
        };
        simulation.world.recorder = recorder(&simulation.start);
        simulation.begin();
        Ok(simulation)
    }

    /// Goes on for at most so many events; says whether there is more to do.
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

    /// Goes on to the end.
    pub fn run_to_end(mut self) -> Report {
        self.run(u64::MAX / 2);
        self.report()
    }

    /// How much of the run is done, from 0 to 1.
    pub fn progress(&self) -> f64 {
        let Length { warm_up, entries, .. } = self.world.length;
        (self.world.measures.entries_in_all as f64 / (warm_up + entries) as f64).min(1.0)
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.world.measures.events
    }

    /// Whether a property was violated so far.
    pub fn is_violated(&self) -> bool {
        self.world.checks.violations.count > 0
    }

    /// What was measured so far.
    pub fn report(&self) -> Report {
        let clients: Vec<_> = self.nodes.iter().map(|node| &node.client).collect();
        Report::new(M::ABOUT.name, &self.plan, &self.world, &clients)
    }

    fn begin(&mut self) {
        for who in self.start.all() {
            let process = &mut self.nodes[who.index()].process;
            process.begin(&mut self.outbox);
            self.told(who, || What::Start { inside: false });
            self.perform(who, None);
        }
        if let Some(holder) = self.start.inside() {
            self.begin_inside(holder);
        }
        for outage in &self.plan.network.outages {
            self.world.wheel.push(outage.from, Event::Crash { node: outage.node });
            if let Some(until) = outage.until {
                self.world.wheel.push(until, Event::Restart { node: outage.node });
            }
        }
        self.world.begin();
    }

    fn begin_inside(&mut self, holder: NodeId) {
        self.world.checks.inside = 1;
        self.nodes[holder.index()].client.phase = Phase::Inside;
        let stay = self.world.clients.hold(holder);
        self.world.wheel.push(stay, Event::Leave { node: holder, incarnation: 0 });
    }

    fn step(&mut self) {
        let Some((time, place, event)) = self.world.wheel.pop() else {
            return self.end();
        };
        self.world.now = time;
        let of_application = matches!(event, Event::Tell { .. } | Event::Hear(_));
        match event {
            Event::Deliver(parcel) => self.deliver(place, parcel),
            Event::Request { node, incarnation } => self.request(node, incarnation),
            Event::Leave { node, incarnation } => self.leave(node, incarnation),
            Event::Burst => self.burst(),
            Event::Tell { node } => self.tell(node),
            Event::Hear(told) => self.hear(place, told),
            Event::Crash { node } => self.crash(node),
            Event::Restart { node } => self.restart(node),
        }
        self.world.after_event();
        self.look_whether_it_goes_on(of_application);
    }

    /// Ends a run in which nobody will enter any more. What applications tell each other goes on
    /// for ever; it can let somebody in (Lamport's algorithm draws conclusions from any message),
    /// so it counts where nothing else happens.
    fn look_whether_it_goes_on(&mut self, of_application: bool) {
        if self.world.checks.inside > 0 {
            return;
        }
        let is_over = if self.world.checks.waiting == 0 {
            of_application && self.world.is_all_else_at_rest()
        } else {
            let counts = !of_application || self.world.is_all_else_at_rest();
            self.world.idle_events += u64::from(counts);
            self.world.idle_events > self.patience
        };
        if is_over && self.world.stage != Stage::Over {
            self.end();
        }
    }

    fn deliver(&mut self, place: usize, parcel: Parcel<M::Message>) {
        let world = &mut self.world;
        world.busy -= u64::from(!parcel.lazy);
        let Parcel { from, to, sent, kind, .. } = parcel;
        world.measures.event([
            world.now,
            (u64::from(kind) + 16) << 32 | u64::from(to.0),
            u64::from(from.0),
            sent.number(),
        ]);
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return world.cannot_deliver(place, &parcel);
        }
        node.client.received += u64::from(world.measures.open);
        world.checks.receives(to, place);
        let arrival =
            world.recorder.as_ref().map(|recorder| recorder.arrival(place, from, &parcel.message));
        let fence = node.process.receive(from, sent, parcel.message, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.told(to, || arrival);
        }
        self.perform(to, fence);
    }

    fn request(&mut self, who: NodeId, incarnation: u32) {
        self.world.planned -= 1;
        let node = &mut self.nodes[who.index()];
        // Whoever is drawn or told to ask does so in any life; who asks of its own accord only in
        // the one in which it planned to.
        let planned = incarnation == u32::MAX || incarnation == node.client.incarnation;
        if self.world.stage == Stage::Draining || node.client.down || !planned {
            return;
        }
        if node.client.phase != Phase::Outside {
            return self.world.put_off(who);
        }
        self.world.measures.event([self.world.now, 1 << 32 | u64::from(who.0), 0, 0]);
        self.world.asks(who, &mut node.client);
        let fence = node.process.request(&mut self.outbox);
        self.told(who, || What::Request);
        self.perform(who, fence);
        self.world.checks.has_asked(who);
    }

    fn leave(&mut self, who: NodeId, incarnation: u32) {
        let node = &mut self.nodes[who.index()];
        if incarnation != node.client.incarnation {
            return;
        }
        self.world.measures.event([self.world.now, 2 << 32 | u64::from(who.0), 0, 0]);
        self.world.leaves(who, &mut node.client);
        node.process.release(&mut self.outbox);
        self.told(who, || What::Exit);
        self.perform(who, None);
    }

    fn tell(&mut self, who: NodeId) {
        let Node { process, client } = &self.nodes[who.index()];
        self.world.tells(who, process.time(), client.down);
    }

    fn hear(&mut self, place: usize, told: Told) {
        let Told { sent, from, to } = told;
        let world = &mut self.world;
        if let Some(tells) = &mut world.tells {
            tells.waiting -= 1;
        }
        let event = [world.now, 4 << 32 | u64::from(to.0), u64::from(from.0), sent.number()];
        world.measures.event(event);
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return world.loses_told(told, Some(place));
        }
        world.checks.receives(to, place);
        let arrival = world.recorder.as_ref().map(|recorder| recorder.hearing(place, from));
        let fence = node.process.hear(from, sent, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.told(to, || arrival);
        }
        self.perform(to, fence);
    }

    fn burst(&mut self) {
        let Load::Bursts { every } = self.world.clients.workload.load else { return };
        if self.world.stage != Stage::Draining {
            self.world.burst(every);
        }
    }

    fn crash(&mut self, who: NodeId) {
        let client = &mut self.nodes[who.index()].client;
        if client.down {
            return;
        }
        self.world.checks.crashes(who, client);
        client.down = true;
        client.incarnation += 1;
        client.phase = Phase::Outside;
        if let Some(recorder) = &mut self.world.recorder {
            recorder.happens(self.world.now, who, What::Crash);
        }
    }

    /// It begins anew, knowing nothing of what was: the algorithms do not say how to come back.
    fn restart(&mut self, who: NodeId) {
        let node = &mut self.nodes[who.index()];
        if !node.client.down {
            return;
        }
        node.client.down = false;
        node.process = Process::new(who, &self.start);
        node.process.begin(&mut self.outbox);
        self.told(who, || What::Restart);
        self.perform(who, None);
        if self.world.clients.active().contains(&who.0) {
            let client = &mut self.nodes[who.index()].client;
            self.world.plan_after_leaving(who, client);
        }
    }

    fn perform(&mut self, who: NodeId, fence: Option<Fence>) {
        let Node { process, client } = &mut self.nodes[who.index()];
        let step = Step { who, clock: process.time(), fence };
        let world = &mut self.world;
        self.outbox.drain(|effect| world.perform(step, client, effect));
    }

    fn told(&mut self, who: NodeId, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.world.recorder {
            let process = &self.nodes[who.index()].process;
            let (clock, variables) = (Some(process.time()), process.machine().variables());
            recorder.told(self.world.now, who, what(), clock, variables);
        }
    }

    fn end(&mut self) {
        let waits = |node: &&Node<M>| node.client.phase == Phase::Requesting;
        let since = |node: &Node<M>| (node.process.id(), node.client.entries_before);
        let waiting = self.nodes.iter().filter(waits).map(since);
        self.world.end(waiting);
    }
}

impl<M: Mutex> Node<M> {
    fn new(me: NodeId, start: &Start) -> Self {
        Self { process: Process::new(me, start), client: Client::default() }
    }
}

fn world<M: Mutex>(plan: &Plan, start: &Start) -> World<M::Message> {
    let (warm_up, warm_up_events) = plan.warm_up();
    let length = Length { warm_up, warm_up_events, entries: plan.entries, drain: plan.drain };
    let mut world = World::new(
        Links::new(plan.network.clone(), start.processes(), plan.seed).for_needs(M::ABOUT.links),
        Clients::new(plan.workload.clone(), start.contenders(), plan.seed),
        checks(plan, start, M::ABOUT.claims),
        length,
    );
    world.tells = plan.tells.map(|every| Tells::new(every, start.contenders(), plan.seed));
    world
}

/// What every algorithm is judged by, those too that are kept to be found broken.
const ALWAYS: [Claim; 4] = [Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence];

fn checks(plan: &Plan, start: &Start, claims: &[Claim]) -> Checks {
    let mut judged = ALWAYS.to_vec();
    judged.extend(claims.iter().chain(&plan.judged));
    let processes = start.processes() as usize;
    let wanted = plan.ordering.unwrap_or_else(|| {
        let small = start.processes() <= ORDERING_UP_TO;
        let judged_anyway = plan.judged.contains(&Claim::Ordering);
        judged_anyway || (small && (plan.tells.is_some() || claims.contains(&Claim::Ordering)))
    });
    let ordering = wanted.then(|| Ordering::new(processes));
    let bypass = judged.contains(&Claim::BoundedBypass).then(|| Bypass::new(processes));
    Checks::new(plan.seed, judged, ordering, bypass)
}

/// The Bakery's pollers need about 4 N^2 messages from one entry to the next; everyone else needs
/// less.
fn patience(processes: u32) -> u64 {
    let processes = u64::from(processes);
    10_000 + 64 * processes * processes
}
