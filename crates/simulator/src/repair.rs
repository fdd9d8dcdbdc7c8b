//! One run of a mutual exclusion algorithm with a repair: crashes, their detection, and the
//! election and the next view, or the algorithm's special repair.

mod agreement;
mod causes;
mod measured;
mod victims;

use agreement::Agreement;
use causes::Causes;
pub use causes::{Cause, Change};
use measured::Measured;
pub use measured::{ByPurpose, Repaired};
use mutua_algorithms::{
    Claim, Effect, Mutex, NodeId, Phase, Shared, SpecialRepair, Start, StartError, Timer, Wait,
    repairs::{self, ElectionName, Generic, Outbox, Plan as Views, RepairMessage},
};
use mutua_trace::{Header, What};
use serde::Serialize;
pub use victims::{ChosenCrash, HitCrash, Victim};

use crate::{
    Distribution, Plan, Random, Recorder, Report,
    event::{Event, Parcel},
    network::Fate,
    simulation::{patience, world},
    world::{Client, Due, Stage, Step, World},
};

/// A run with a repair.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    /// The system, the workload, and the network with its outages.
    pub plan: Plan,
    /// The election of the repair.
    pub election: ElectionName,
    /// The algorithm's special repair, where that suffices; else every crash starts a view.
    pub special: bool,
    /// Crashes of processes that are chosen by their part when the time has come.
    pub chosen: Vec<ChosenCrash>,
    /// The failure detector.
    pub detector: Detector,
    /// The bound on transmission that the timeouts use, T_transmit; by default one that holds.
    pub transmission: Option<u64>,
    /// The bound on handling a message, T_process; by default a tenth of the mean latency.
    pub handling: Option<u64>,
    /// Measure the time between the entries before and after this one, in nanoseconds.
    pub gap_at: Option<u64>,
}

/// A failure detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detector {
    /// Every crash and every restart is reported to every process after this time, and nothing else
    /// is.
    Perfect(Distribution),
    /// Every process sends a heartbeat to every other one twice in this time, and reports a process
    /// from which none arrives for so long. It is wrong where messages take longer.
    Timeout(u64),
}

impl Detector {
    /// The time between two heartbeats of a detector with this timeout.
    pub fn heartbeat(timeout: u64) -> u64 {
        (timeout / 2).max(1)
    }
}

/// The measures of a run with a repair.
#[derive(Clone, Debug, Serialize)]
pub struct RepairReport {
    /// The measures of the whole run.
    #[serde(flatten)]
    pub report: Report,
    /// The election.
    pub election: &'static str,
    /// `generic` or `special`; generic also where the algorithm has no special repair.
    pub repair: &'static str,
    /// The repairs: one for each view after the first, and one for each crash without a new view.
    pub repairs: Vec<Repaired>,
    /// The number of crashes.
    pub crashes: u64,
    /// The processes that the crashes by part have hit, in the order of the options.
    pub hit: Vec<HitCrash>,
    /// Reports of a crash to a process, of one that was up.
    pub wrong_reports: u64,
    /// The end of the run, in nanoseconds of virtual time.
    pub ended_at: u64,
    /// Messages by purpose (`algorithm`, `detection`, `election`, `repair`) and kind, over the
    /// whole run.
    pub messages_by_purpose: ByPurpose,
    /// Requests of processes that are up at the end and were never granted.
    pub requests_lost: u64,
    /// Entries while another process was in the critical section.
    pub double_entries: u64,
    /// Entries before the first crash.
    pub entries_before: u64,
    /// Entries after the first crash.
    pub entries_after: u64,
    /// The time between the entries before and after [`RepairPlan::gap_at`].
    #[serde(skip)]
    pub gap: Option<u64>,
}

/// A run with a repair.
#[derive(Debug)]
struct Run<M: Mutex> {
    plan: RepairPlan,
    views: Shared<Views>,
    start: Start,
    nodes: Vec<Node<M>>,
    outbox: Outbox<M::Message>,
    world: World<RepairMessage<M::Message>>,
    patience: u64,
    random: Random,
    /// The crashes, by their numbers, whose time has come and whose part no process has yet.
    due: Vec<usize>,
    /// The processes that the crashes by part have hit.
    hit: Vec<HitCrash>,
    /// When the last heartbeat of each process arrived at each, by receiver and sender.
    heartbeats: Vec<Vec<u64>>,
    agreement: Agreement,
    measured: Measured,
}

#[derive(Debug)]
pub(crate) struct Node<M: Mutex> {
    process: Generic<M>,
    client: Client,
    /// Its crashes and restarts.
    changes: u32,
    /// How often each timer was set or cancelled: an older one must not fire.
    generations: [u32; Timer::ALL.len()],
}

/// Runs the algorithm with a repair to the end.
pub(crate) fn run<M: Mutex>(
    plan: RepairPlan,
    recorder: impl FnOnce(&Start) -> Option<Recorder>,
) -> Result<RepairReport, StartError> {
    let mut run = Run::<M>::new(plan)?;
    run.world.recorder = recorder(&run.start);
    run.begin();
    while run.world.stage != Stage::Over && run.world.measures.events < run.plan.plan.max_events {
        run.step();
    }
    if run.world.stage != Stage::Over {
        run.world.cut();
    }
    Ok(run.report())
}

impl<M: Mutex> Run<M> {
    fn new(plan: RepairPlan) -> Result<Self, StartError> {
        let views = Views::new::<M>(&plan.plan.setup, plan.election)?;
        let views = if plan.special { views.with_special() } else { views };
        let start = views.start().clone();
        plan.plan.check(&start)?;
        plan.chosen.iter().try_for_each(|crash| crash.victim.check(start.about(), &start))?;
        let fault = match plan.detector {
            Detector::Perfect(delay) => delay.fault(),
            Detector::Timeout(0) => Some("a timeout of 0: give a longer one".to_owned()),
            Detector::Timeout(_) => None,
        };
        if let Some(fault) = fault {
            return Err(StartError::new(fault));
        }
        let processes = start.processes() as usize;
        let mut claims = start.about().claims.to_vec();
        // A negative control promises nothing.
        claims.extend((!claims.is_empty()).then_some(Claim::Agreement));
        let mut world = world(&plan.plan, &start, views.links(), &claims, false);
        // A view change issues requests again, which these two do not know.
        world.checks.here.ordering = None;
        world.checks.here.bypass = None;
        let views = Shared::new(views);
        let node = |me| Node {
            process: Generic::new(me, &views),
            client: Client::default(),
            changes: 0,
            generations: [0; Timer::ALL.len()],
        };
        Ok(Self {
            nodes: start.all().map(node).collect(),
            outbox: Outbox::new(),
            world,
            patience: patience(start.processes()),
            random: Random::new(plan.plan.seed, 9),
            due: Vec::new(),
            hit: plan.chosen.iter().map(HitCrash::new).collect(),
            heartbeats: match plan.detector {
                Detector::Perfect(_) => Vec::new(),
                Detector::Timeout(_) => vec![vec![0; processes]; processes],
            },
            agreement: Agreement::new(processes),
            measured: Measured::new(
                Causes::new(matches!(plan.detector, Detector::Perfect(_))),
                plan.gap_at,
            ),
            views,
            start,
            plan,
        })
    }

    fn begin(&mut self) {
        for who in self.start.all() {
            self.nodes[who.index()].process.begin(&mut self.outbox);
            self.record_handled(who, || What::Start { in_cs: false });
            self.perform(who);
        }
        if let Some(holder) = self.start.in_cs() {
            self.world.checks.here.in_cs = 1;
            self.nodes[holder.index()].client.phase = Phase::InCs;
            let hold = self.world.clients.hold(holder);
            self.world.wheel.push(hold, Event::Exit { node: holder, incarnation: 0 });
        }
        for outage in &self.plan.plan.network.outages {
            self.world.wheel.push(outage.from, Event::Crash { node: outage.node });
            if let Some(until) = outage.until {
                self.world.wheel.push(until, Event::Restart { node: outage.node });
            }
        }
        for (index, crash) in self.plan.chosen.iter().enumerate() {
            self.world.wheel.push(crash.from, Event::CrashChosen { index });
        }
        if let Detector::Timeout(_) = self.plan.detector {
            for node in self.start.all() {
                self.world.wheel.push(0, Event::Beat { node });
            }
        }
        self.world.begin();
    }

    fn step(&mut self) {
        let Some((time, slot, event)) = self.world.wheel.pop() else { return self.end() };
        self.world.now = time;
        match event {
            Event::Deliver(parcel) => self.deliver(slot, parcel),
            Event::Request { node, incarnation } => self.request(node, incarnation),
            Event::Exit { node, incarnation } => self.exit(node, incarnation),
            Event::Burst => {
                if let crate::Load::Bursts { every } = self.world.clients.workload.load
                    && self.world.stage != Stage::Draining
                {
                    self.world.burst(every);
                }
            }
            Event::Crash { node } => self.crash(node),
            Event::CrashChosen { index } => self.due.push(index),
            Event::Restart { node } => self.restart(node),
            Event::Report { node, about, changes } => self.report_change(node, about, changes),
            Event::Beat { node } => self.beat(node),
            Event::Heartbeat { from, to } => self.receive_heartbeat(from, to),
            Event::Timeout { node, timer, generation } => self.timeout(node, timer, generation),
            // Runs with a repair have no messages of the application.
            Event::AppSend { .. } | Event::AppReceive(_) => {}
        }
        self.crash_the_chosen();
        self.world.after_event();
        if self.world.checks.here.in_cs == 0 && self.world.checks.here.waiting > 0 {
            self.world.idle_events += 1;
            if self.world.idle_events > self.patience && self.world.stage != Stage::Over {
                self.end();
            }
        }
    }

    fn deliver(&mut self, slot: usize, parcel: Parcel<RepairMessage<M::Message>>) {
        let world = &mut self.world;
        let Parcel { from, to, sent, .. } = parcel;
        world.arrives(&parcel);
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return world.cannot_deliver(slot, &parcel);
        }
        node.client.received += u64::from(world.measures.open);
        let recorder = world.recorder.as_ref();
        let arrival = recorder.map(|recorder| recorder.arrival(slot, from, &parcel.message));
        node.process.receive(from, sent, parcel.message, &mut self.outbox);
        if let Some(arrival) = arrival {
            self.record_handled(to, || arrival);
        }
        self.perform(to);
    }

    fn request(&mut self, who: NodeId, incarnation: u32) {
        let node = &mut self.nodes[who.index()];
        match self.world.request_is_due(who, incarnation, &node.client) {
            Due::Now => {}
            Due::PutOff => return,
            Due::Void => return self.keep_light(),
        }
        self.world.make_request(who, who, &mut node.client);
        node.process.request(&mut self.outbox);
        self.record_handled(who, || What::Request);
        self.perform(who);
    }

    fn exit(&mut self, who: NodeId, incarnation: u32) {
        let node = &mut self.nodes[who.index()];
        if incarnation != node.client.incarnation {
            return;
        }
        self.world.measures.event([self.world.now, 2 << 32 | u64::from(who.0), 0, 0]);
        self.world.exits(who, &mut node.client);
        node.process.release(&mut self.outbox);
        self.record_handled(who, || What::Exit);
        self.perform(who);
    }

    /// Crashes the processes that have the part whose crash is due.
    fn crash_the_chosen(&mut self) {
        for index in (0..self.due.len()).rev() {
            let processes: Vec<_> = self.up().map(|node| &node.process).collect();
            let number = self.due[index];
            let crash = self.plan.chosen[number];
            let Some(node) = crash.victim.find(&processes, &self.start) else { continue };
            self.due.remove(index);
            self.hit[number].process = Some(node.0);
            self.hit[number].at = Some(self.world.now);
            self.crash(node);
            if let Some(until) = crash.until {
                self.world.wheel.push(until.max(self.world.now), Event::Restart { node });
            }
        }
    }

    fn up(&self) -> impl Iterator<Item = &Node<M>> {
        self.nodes.iter().filter(|node| !node.client.down)
    }

    fn crash(&mut self, who: NodeId) {
        let node = &mut self.nodes[who.index()];
        if node.client.down {
            return;
        }
        self.world.checks.crashes(who, &node.client);
        self.agreement.crashes(who);
        node.client.down = true;
        node.client.incarnation += 1;
        node.client.phase = Phase::Idle;
        node.generations = node.generations.map(|generation| generation + 1);
        if let Some(recorder) = &mut self.world.recorder {
            recorder.happens(self.world.now, who, What::Crash);
        }
        self.measured.entries_before.get_or_insert(self.world.measures.entries_in_all);
        self.changes(who);
        self.keep_light();
    }

    /// At light load others request instead of a process that is down.
    fn keep_light(&mut self) {
        self.world.keep_light(|who| self.nodes[who.index()].client.down);
    }

    fn restart(&mut self, who: NodeId) {
        if !self.nodes[who.index()].client.down {
            return;
        }
        self.changes(who);
        let node = &mut self.nodes[who.index()];
        node.client.down = false;
        node.process = Generic::restarted(who, &self.views, node.changes);
        node.process.begin(&mut self.outbox);
        if let Some(arrived) = self.heartbeats.get_mut(who.index()) {
            arrived.fill(self.world.now);
        }
        self.record_handled(who, || What::Restart);
        self.perform(who);
        if self.world.clients.active().contains(&who.0) {
            let client = &mut self.nodes[who.index()].client;
            self.world.plan_after_restart(who, client);
        }
    }

    /// A process has crashed or restarted: a perfect detector will report it to every other one.
    fn changes(&mut self, who: NodeId) {
        let node = &mut self.nodes[who.index()];
        node.changes += 1;
        let (about, changes) = (who, node.changes);
        let now = self.world.now;
        self.world.measures.event([now, 5 << 32 | u64::from(who.0), changes.into(), 0]);
        self.measured.causes.happens(now, who);
        let Detector::Perfect(delay) = self.plan.detector else { return };
        for node in self.start.others(who) {
            let at = now + delay.sample(&mut self.random);
            self.world.wheel.push(at, Event::Report { node, about, changes });
        }
    }

    /// Sends a heartbeat to every other process, and reports those of which none has arrived.
    fn beat(&mut self, who: NodeId) {
        let Detector::Timeout(limit) = self.plan.detector else { return };
        let now = self.world.now;
        self.world.wheel.push(now + Detector::heartbeat(limit), Event::Beat { node: who });
        if self.nodes[who.index()].client.down {
            return;
        }
        for to in self.start.others(who) {
            let heartbeats = self.measured.by_purpose.entry("detection").or_default();
            *heartbeats.entry("heartbeat").or_default() += 1;
            if let Fate::Once(at) = self.world.links.send(now, who, to, false) {
                self.world.wheel.push(at, Event::Heartbeat { from: who, to });
            }
        }
        for other in self.start.others(who) {
            let node = &mut self.nodes[who.index()];
            let silent = now - self.heartbeats[who.index()][other.index()] > limit;
            if silent && node.process.changes().is_up(other) {
                node.process.crashed(other, &mut self.outbox);
                let is_wrong = !self.nodes[other.index()].client.down;
                self.measured.wrong_reports += u64::from(is_wrong);
                self.record_handled(who, || What::Report { of: other, crashed: true });
                self.perform(who);
            }
        }
    }

    /// A heartbeat arrives: its sender is up.
    fn receive_heartbeat(&mut self, from: NodeId, to: NodeId) {
        let node = &mut self.nodes[to.index()];
        if node.client.down {
            return;
        }
        self.heartbeats[to.index()][from.index()] = self.world.now;
        if !node.process.changes().is_up(from) {
            node.process.recovered(from, &mut self.outbox);
            self.record_handled(to, || What::Report { of: from, crashed: false });
            self.perform(to);
        }
    }

    fn report_change(&mut self, who: NodeId, about: NodeId, changes: u32) {
        let node = &mut self.nodes[who.index()];
        if node.client.down {
            return;
        }
        let event = [self.world.now, 6 << 32 | u64::from(who.0), about.0.into(), changes.into()];
        self.world.measures.event(event);
        node.process.report(about, changes, &mut self.outbox);
        let crashed = !changes.is_multiple_of(2);
        self.record_handled(who, || What::Report { of: about, crashed });
        self.perform(who);
    }

    fn timeout(&mut self, who: NodeId, timer: Timer, generation: u32) {
        let node = &mut self.nodes[who.index()];
        if node.client.down || node.generations[timer as usize] != generation {
            return;
        }
        self.world.measures.event([self.world.now, 7 << 32 | u64::from(who.0), timer as u64, 0]);
        node.process.timeout(timer, &mut self.outbox);
        self.record_handled(who, || What::Timeout { timer });
        self.perform(who);
    }

    /// Carries out the effects of a step.
    fn perform(&mut self, who: NodeId) {
        let Node { process, client, generations, .. } = &mut self.nodes[who.index()];
        let step = Step { who, clock: process.time(), fence: None };
        let (world, measured) = (&mut self.world, &mut self.measured);
        let violations = world.checks.violations.count;
        let mut timers = Vec::new();
        self.outbox.drain(|effect| match effect {
            repairs::Effect::Send { to, message, lazy } => {
                measured.sends(&message, 1);
                world.perform(step, client, Effect::Send { to, message, lazy });
            }
            repairs::Effect::Multicast { to, message } => {
                measured.sends(&message, to.len());
                world.perform(step, client, Effect::Multicast { to, message });
            }
            repairs::Effect::Enter { token } => {
                measured.enters(world.now, process.view());
                world.perform(Step { fence: Some(token), ..step }, client, Effect::Enter);
            }
            repairs::Effect::Suspend => {
                note(world, who, |_| "suspended".to_owned());
                measured.suspends(world.now, who);
            }
            repairs::Effect::StartView { .. } => {
                measured.starts(world.now, who, process.changes());
            }
            repairs::Effect::Resume { view } => {
                note(world, who, |_| format!("view {view}"));
                if let Some(recorder) = &mut world.recorder {
                    recorder.begins_view(who, view, process.changes().members());
                }
                measured.resumes(world.now, process.view(), who, process.changes());
            }
            repairs::Effect::GoOn { without } => {
                note(world, who, |header| format!("goes on without {}", header.name(without)));
                let changes = process.changes();
                measured.goes_on(world.now, who, process.view(), changes, without);
            }
            repairs::Effect::TakeOver { of } => {
                note(world, who, |header| format!("takes over {}", header.name(of)));
                measured.takes_over(world.now, of, who, process.changes());
            }
            repairs::Effect::SetTimer { timer, after } => {
                generations[timer as usize] += 1;
                timers.push((timer, after, generations[timer as usize]));
            }
            repairs::Effect::CancelTimer { timer } => generations[timer as usize] += 1,
            repairs::Effect::Nonsense { from, why } => {
                world.perform(step, client, Effect::Nonsense { from, why });
            }
        });
        for (timer, after, generation) in timers {
            let at = self.world.now + self.length_of(timer, after);
            self.world.wheel.push(at, Event::Timeout { node: who, timer, generation });
        }
        self.judge_agreement(who, violations);
    }

    /// Where the step has violated another property too, beyond so many violations, that one says
    /// enough.
    fn judge_agreement(&mut self, who: NodeId, violations: u64) {
        let process = &self.nodes[who.index()].process;
        let disagree = self.agreement.handled(who, process.has_token(), process.view());
        let (place, checks) = (self.world.place(who), &mut self.world.checks);
        if let Some(why) = disagree.filter(|_| checks.violations.count == violations) {
            checks.violation(Claim::Agreement, place, why);
        }
    }

    fn length_of(&self, timer: Timer, wait: Wait) -> u64 {
        let network = &self.plan.plan.network;
        // An idle token leaves after its pace only.
        let pace = if timer == Timer::Acknowledgement { network.pace } else { 0 };
        let transmission = self.plan.transmission.unwrap_or(network.latency_bound());
        let mean = network.mean_latency();
        let handling = self.plan.handling.unwrap_or((mean / 10.0) as u64 + 1);
        pace + u64::from(wait.transmissions) * transmission + u64::from(wait.handlings) * handling
    }

    fn record_handled(&mut self, who: NodeId, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.world.recorder {
            let process = &self.nodes[who.index()].process;
            let (clock, variables) = (Some(process.time()), process.variables());
            recorder.handled(self.world.now, who, what(), clock, variables);
        }
    }

    fn end(&mut self) {
        let waits = |node: &&Node<M>| node.client.phase == Phase::Requesting;
        let since = |node: &Node<M>| (node.process.id(), node.client.entries_before);
        let waiting = self.nodes.iter().filter(waits).map(since);
        let down = self.nodes.iter().filter(|node| node.client.down);
        self.world.end(waiting, down.map(|node| node.process.id()));
    }

    fn report(self) -> RepairReport {
        let clients: Vec<_> = self.nodes.iter().map(|node| &node.client).collect();
        let report = Report::new(self.start.about().name, &self.plan.plan, &self.world, &clients);
        let entries = self.world.measures.entries_in_all;
        let before = self.measured.entries_before.unwrap_or(entries);
        let waits = |client: &&&Client| client.phase == Phase::Requesting;
        let findings = &self.world.checks.violations.by_property;
        RepairReport {
            report,
            election: self.plan.election.name(),
            repair: match self.views.special::<M>() {
                SpecialRepair::None => "generic",
                SpecialRepair::TakeOut
                | SpecialRepair::CloseRing { .. }
                | SpecialRepair::Takeover => "special",
            },
            gap: self.measured.gap,
            crashes: self.measured.causes.crashes(),
            hit: self.hit,
            wrong_reports: self.measured.wrong_reports,
            ended_at: self.world.now,
            repairs: self.measured.repairs,
            messages_by_purpose: self.measured.by_purpose,
            requests_lost: clients.iter().filter(waits).count() as u64,
            double_entries: findings.get("mutual-exclusion").copied().unwrap_or(0),
            entries_before: before,
            entries_after: entries - before,
        }
    }
}

/// Records a step of the repair in the trace.
fn note<A>(world: &mut World<A>, who: NodeId, text: impl FnOnce(&Header) -> String) {
    if let Some(recorder) = &mut world.recorder {
        let text = text(recorder.header()).into();
        recorder.happens(world.now, who, What::Note { text });
    }
}
