//! Everything around the processes: network, clients, checks, measures.

mod requests;
mod stages;

use std::collections::{BTreeMap, VecDeque};

use mutua_algorithms::{Claim, Effect, FencingToken, Message, NodeId, Phase, Time};
use mutua_trace::What;

use crate::{
    Distribution, Load, Wheel,
    app_messages::{AppMessage, AppMessages},
    batches::Batches,
    checks::{Checks, Place, crashed},
    event::{Event, Parcel},
    measures::Measures,
    network::{Fate, Links},
    recorder::Recorder,
    saturation::Saturation,
    workload::Clients,
};

pub(crate) use requests::Due;

/// A process's client and its measures. The fields that every message touches come first, beside
/// the process.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Client {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The number of crashes: an event planned before a crash must not happen after it.
    pub(crate) incarnation: u32,
    pub(crate) phase: Phase,
    pub(crate) down: bool,
    /// No request was before it: no process was in the critical section or waiting.
    found_free: bool,
    pub(crate) requested_at: u64,
    pub(crate) entered_at: u64,
    pub(crate) entries_before: u64,
    pub(crate) waited: u64,
    pub(crate) entries: u64,
}

/// The stages of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    WarmUp,
    Measuring,
    /// No client requests any more; those that wait must still enter.
    Draining,
    Over,
}

/// The length of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) warm_up: u64,
    /// Whether the warm-up goes on until an open system has settled.
    pub(crate) extends: bool,
    /// The warm-up also ends after so many events.
    pub(crate) warm_up_events: u64,
    pub(crate) entries: u64,
    pub(crate) drain: bool,
}

/// One step of one process, while its effects are carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) who: NodeId,
    pub(crate) clock: Time,
    pub(crate) fence: Option<FencingToken>,
}

impl Step {
    fn sender(&self) -> (NodeId, Option<Time>) {
        (self.who, Some(self.clock))
    }
}

#[derive(Debug)]
pub(crate) struct World<M> {
    pub(crate) now: u64,
    pub(crate) stage: Stage,
    pub(crate) wheel: Wheel<Event<M>>,
    pub(crate) measures: Measures,
    pub(crate) checks: Checks,
    pub(crate) clients: Clients,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) links: Links,
    pub(crate) length: Length,
    pub(crate) batches: Batches,
    /// The messages of the application, if there are any.
    pub(crate) app_messages: Option<AppMessages>,
    /// Messages in transit that are not lazy.
    pub(crate) busy: u64,
    requests: u64,
    /// Requests to come, made if their clients are up then.
    pub(crate) planned: u64,
    /// The times of requests that came to a client that was not idle, and wait for its exit.
    backlog: BTreeMap<NodeId, VecDeque<u64>>,
    /// How many they are.
    put_off: u64,
    /// How near an open system of one critical section is to its capacity.
    pub(crate) saturation: Option<Saturation>,
    /// At light load, the time of the last exit while its messages are in transit.
    next_after: Option<u64>,
    /// Events since the last request, entry or exit, counted while a process waits and none is in
    /// the critical section.
    pub(crate) idle_events: u64,
}

impl<M: Message> World<M> {
    pub(crate) fn new(links: Links, clients: Clients, checks: Checks, length: Length) -> Self {
        Self {
            now: 0,
            stage: Stage::WarmUp,
            wheel: Wheel::new(),
            measures: Measures::new(),
            batches: Batches::of(&clients, length.entries),
            saturation: Saturation::of(&clients).filter(|_| checks.is_of_one()),
            checks,
            clients,
            recorder: None,
            links,
            length,
            app_messages: None,
            busy: 0,
            requests: 0,
            planned: 0,
            backlog: BTreeMap::new(),
            put_off: 0,
            next_after: None,
            idle_events: 0,
        }
    }

    /// Plans the first requests.
    pub(crate) fn begin(&mut self) {
        if self.length.warm_up == 0 {
            self.open();
        }
        match self.clients.workload.load.clone() {
            Load::Light { .. } => self.plan_next_light(0),
            Load::Saturated => self.plan_for_all(|_, _| 0),
            Load::Think(think) => {
                self.plan_for_all(|clients, node| clients.think(node, think));
            }
            Load::Poisson { .. } => self.plan_arrival(),
            Load::Bursts { .. } => {
                self.wheel.push(0, Event::Burst);
            }
            Load::Script(requests) => {
                for request in requests {
                    self.plan_request(request.at, request.node, 0);
                }
            }
        }
        for node in self.app_messages.as_ref().map_or(0..0, AppMessages::senders) {
            self.plan_app_message(NodeId(node));
        }
    }

    fn plan_for_all(&mut self, mut when: impl FnMut(&mut Clients, NodeId) -> u64) {
        for node in self.clients.active().map(NodeId) {
            let at = when(&mut self.clients, node);
            self.plan_request(at, node, 0);
        }
    }

    /// All clients request at once; plans the next burst. A run is measured from a burst to a
    /// burst, since most messages of an entry may be sent at its request.
    pub(crate) fn burst(&mut self, every: Distribution) {
        self.arrival_is_no_progress();
        if self.is_warm(self.measures.entries_in_all) {
            self.open();
        } else if self.stage == Stage::Measuring && self.measures.entries >= self.length.entries {
            return self.close();
        } else {
            self.end_of_batch();
        }
        for node in self.clients.active().map(NodeId) {
            self.plan_request(self.now, node, u32::MAX);
        }
        let next = self.now + self.clients.gap(every).max(1);
        self.wheel.push(next, Event::Burst);
    }

    fn enters(&mut self, step: Step, client: &mut Client) {
        let fence = step.fence.expect("an entry has a fencing token");
        let process = self.links.process(step.who);
        let place = self.place(process);
        self.record(step, || What::Enter { fencing_token: fence.number() });
        self.checks.enters(place, fence);
        self.record_violations();
        self.idle_events = 0;
        let sync = self.checks.here.exited_at.take().map(|exited_at| self.now - exited_at);
        let hold = self.clients.hold(process);
        if let Some(saturation) = &mut self.saturation {
            saturation.enters(self.now, hold);
        }
        if self.measures.open {
            self.measure_entry(client, sync, hold);
            self.batches.shares.enters(process.index());
        }
        self.measures.entries_in_all += 1;
        client.phase = Phase::InCs;
        client.entered_at = self.now;
        let exit = Event::Exit { node: step.who, incarnation: client.incarnation };
        self.wheel.push(self.now + hold, exit);
        self.end_of_entry();
    }

    fn measure_entry(&mut self, client: &mut Client, sync: Option<u64>, hold: u64) {
        let measures = &mut self.measures;
        let waited = self.now - client.requested_at;
        // The entry itself is counted already.
        let bypass = self.checks.here.entries - 1 - client.entries_before;
        measures.entries += 1;
        self.checks.here.measured += 1;
        measures.waiting.record(waited);
        // Recorded at the entry, so that waiting and response time are of the same entries.
        measures.response.record(waited + hold);
        measures.max_bypass = measures.max_bypass.max(bypass);
        if let Some(sync) = sync {
            measures.sync_delay.record(sync);
        }
        if client.found_free {
            measures.client_delay.record(waited);
        }
        client.entries += 1;
        client.waited += waited;
    }

    /// Except at light load and in bursts, a run is measured from an entry to an entry.
    fn end_of_entry(&mut self) {
        if matches!(self.clients.workload.load, Load::Light { .. } | Load::Bursts { .. }) {
            return;
        }
        self.end_of_batch();
        if self.is_warm(self.measures.entries_in_all) {
            self.open();
        } else if self.stage == Stage::Measuring
            && self.measures.entries == self.length.entries
            && !self.has_finished_script()
        {
            self.close();
        }
    }

    /// Whether the requests come from a script and all have been granted. Then the messages of the
    /// last exit count too: the run is measured until no message is in transit.
    fn has_finished_script(&self) -> bool {
        let is_scripted = matches!(self.clients.workload.load, Load::Script(_));
        is_scripted && self.planned == 0 && !self.checks.is_waited_for()
    }

    /// A request comes to a client that is not idle: it waits for the exit.
    pub(crate) fn exits(&mut self, who: NodeId, client: &mut Client) {
        self.checks.exits();
        self.idle_events = 0;
        client.phase = Phase::Idle;
        let here = &mut self.checks.here;
        here.exited_at = (here.waiting > 0).then_some(self.now);
        if let Some(saturation) = &mut self.saturation {
            // While a run drains, requests that were put off are void.
            let put_off = self.put_off > 0 && self.stage != Stage::Draining;
            saturation.exits(self.now, here.waiting > 0 || put_off);
        }
        if self.measures.open {
            self.measures.time_in_cs += self.now - client.entered_at;
        }
        self.plan_after_exit(who, client);
    }

    fn plan_after_exit(&mut self, who: NodeId, client: &mut Client) {
        let incarnation = client.incarnation;
        match self.clients.workload.load {
            Load::Light { .. } => self.next_after = Some(self.now),
            Load::Saturated => self.plan_request(self.now, who, incarnation),
            Load::Think(think) => {
                let at = self.now + self.clients.think(who, think);
                self.plan_request(at, who, incarnation);
            }
            Load::Poisson { .. } | Load::Bursts { .. } | Load::Script(_) => {
                if self.backlog.get(&who).is_some_and(|due| !due.is_empty()) {
                    self.plan_request(self.now, who, incarnation);
                }
            }
        }
    }

    // The stages of a run: `world/stages.rs`.

    fn open(&mut self) {
        self.stage = Stage::Measuring;
        self.measures.open(self.now);
        self.end_of_batch();
    }

    fn end_of_batch(&mut self) {
        if self.measures.open && self.batches.is_due(self.measures.entries) {
            self.batches.mark(&self.measures, self.now);
        }
    }

    fn close(&mut self) {
        self.end_of_batch();
        self.measures.close(self.now);
        self.stage = if self.length.drain { Stage::Draining } else { Stage::Over };
    }

    /// After every event: at light load the next request is planned once no message is in transit,
    /// and a run that drains is over once no process waits.
    pub(crate) fn after_event(&mut self) {
        if self.busy > 0 {
            return;
        }
        if let Some(exited_at) = self.next_after.take() {
            if self.measures.entries >= self.length.entries {
                self.close();
            } else {
                self.plan_next_light(exited_at);
            }
        }
        let settled = !self.checks.is_waited_for() && !self.checks.is_held();
        if settled && self.stage != Stage::Draining && self.has_finished_script() {
            self.close();
        }
        if self.stage == Stage::Draining && settled {
            self.stage = Stage::Over;
        }
    }

    /// Ends the run at its greatest number of events.
    pub(crate) fn cut(&mut self) {
        self.measures.close(self.now);
        self.stage = Stage::Over;
    }

    /// Ends a run in which no process will enter any more: the instances that wait, each having
    /// requested after so many entries of its section, wait for ever, and these processes are
    /// down.
    pub(crate) fn end(
        &mut self,
        waiting: impl Iterator<Item = (NodeId, u64)>,
        down: impl Iterator<Item = NodeId>,
    ) {
        let down = crashed(down);
        self.measures.close(self.now);
        // In a drained system an end without events does not show the cause: a process that every
        // other one bypassed twice was starved while others entered.
        let draining = self.stage == Stage::Draining;
        self.stage = Stage::Over;
        let contenders = u64::from(self.clients.active().end);
        let stopped =
            if self.has_only_app_events() { Claim::DeadlockFree } else { Claim::Liveness };
        let mut sections: BTreeMap<u32, Vec<(NodeId, u64)>> = BTreeMap::new();
        for (instance, since) in waiting {
            let section = sections.entry(self.links.section(instance)).or_default();
            section.push((self.links.process(instance), since));
        }
        for (section, waiting) in sections {
            self.checks.select(section);
            let entries = self.checks.here.entries;
            let is_starved = |since: u64| draining && entries - since > 2 * contenders;
            let (starved, stuck): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|&(_, since)| is_starved(since));
            for (claim, waiting) in [(stopped, stuck), (Claim::Liveness, starved)] {
                let waiting = waiting.into_iter().map(|(node, _)| node).collect();
                self.waits_for_ever(claim, waiting, &down);
            }
        }
    }

    fn waits_for_ever(&mut self, claim: Claim, waiting: Vec<NodeId>, down: &str) {
        if let Some(&first) = waiting.first() {
            let names: Vec<_> = waiting.iter().take(5).map(NodeId::to_string).collect();
            let names = names.join(", ");
            let what = match waiting.len() {
                1 => format!("process {names} waits for ever{down}"),
                count @ 2..=5 => format!("{count} processes wait for ever: {names}{down}"),
                count => format!("{count} processes wait for ever: {names}, ...{down}"),
            };
            self.checks.violation(claim, self.place(first), what);
            self.record_violations();
        }
    }

    // Effects of processes.

    pub(crate) fn perform(&mut self, step: Step, client: &mut Client, effect: Effect<'_, M>) {
        match effect {
            Effect::Send { to, message, lazy } => {
                let kind = self.measures.sends(&message, step.clock, 1);
                client.sent += u64::from(self.measures.open);
                if let Some(recorder) = &mut self.recorder {
                    recorder.sends(self.now, step.sender(), to, &message, lazy);
                }
                let sent = step.clock;
                self.transmit(Parcel { message, sent, from: step.who, to, lazy, kind });
            }
            Effect::Multicast { to, message } => {
                let kind = self.measures.sends(&message, step.clock, to.len());
                client.sent += if self.measures.open { to.len() as u64 } else { 0 };
                if let Some(recorder) = &mut self.recorder {
                    recorder.multicasts(self.now, step.sender(), to, &message);
                }
                let (sent, from) = (step.clock, step.who);
                for &to in to {
                    let message = message.clone();
                    self.transmit(Parcel { message, sent, from, to, lazy: false, kind });
                }
            }
            Effect::Enter => self.enters(step, client),
            Effect::Nonsense { from, why } => {
                self.measures.nonsense += 1;
                self.record(step, || What::Nonsense { from, why: why.into() });
            }
        }
    }

    fn transmit(&mut self, parcel: Parcel<M>) {
        let far = self.measures.open && self.links.are_apart(parcel.from, parcel.to);
        self.measures.far += u64::from(far);
        match self.links.send(self.now, parcel.from, parcel.to, parcel.lazy) {
            Fate::Once(at) => self.put_in_transit(at, parcel),
            Fate::Twice(first, second) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.duplicates(self.now, parcel.from, parcel.to, &parcel.message);
                }
                self.put_in_transit(first, parcel.clone());
                self.put_in_transit(second, parcel);
            }
            Fate::Dropped => self.drops(&parcel),
        }
    }

    fn put_in_transit(&mut self, at: u64, parcel: Parcel<M>) {
        let from = parcel.from;
        self.busy += u64::from(!parcel.lazy);
        let slot = self.wheel.push(at, Event::Deliver(parcel));
        self.checks.sends(self.links.process(from), slot);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(slot, from);
        }
    }

    /// Notes that a message has come to the end of its link.
    pub(crate) fn arrives(&mut self, parcel: &Parcel<M>) {
        self.busy -= u64::from(!parcel.lazy);
        self.measures.event([
            self.now,
            (u64::from(parcel.kind) + 16) << 32 | u64::from(parcel.to.0),
            u64::from(parcel.from.0),
            parcel.sent.number(),
        ]);
    }

    /// Drops the message of this slot, since its receiver is down.
    pub(crate) fn cannot_deliver(&mut self, slot: usize, parcel: &Parcel<M>) {
        self.measures.lost += 1;
        if let Some(recorder) = &mut self.recorder {
            let ends = (parcel.from, parcel.to);
            recorder.is_undeliverable(self.now, slot, ends, &parcel.message);
        }
    }

    fn drops(&mut self, parcel: &Parcel<M>) {
        self.measures.lost += 1;
        self.checks.drops(self.links.process(parcel.from));
        if let Some(recorder) = &mut self.recorder {
            recorder.drops(self.now, parcel.from, parcel.to, &parcel.message);
        }
    }

    // Messages of the application.

    fn plan_app_message(&mut self, node: NodeId) {
        if let Some(app_messages) = &mut self.app_messages {
            app_messages.waiting += 1;
            let at = self.now + app_messages.gap();
            self.wheel.push(at, Event::AppSend { node });
        }
    }

    /// A process sends a message of the application, unless it is down; plans its next one.
    pub(crate) fn sends_app_message(&mut self, from: NodeId, clock: Time, down: bool) {
        let Some(app_messages) = &mut self.app_messages else { return };
        app_messages.waiting -= 1;
        let to = app_messages.receiver(from);
        self.plan_app_message(from);
        if down {
            return;
        }
        self.measures.app_messages += u64::from(self.measures.open);
        self.measures.event([self.now, 3 << 32 | u64::from(from.0), u64::from(to.0), 0]);
        if let Some(recorder) = &mut self.recorder {
            recorder.sends_app_message(self.now, from, clock, to);
        }
        let message = AppMessage { sent: clock, from, to };
        match self.links.send(self.now, from, to, false) {
            Fate::Once(at) => self.put_app_message_in_transit(at, message),
            Fate::Twice(first, second) => {
                self.put_app_message_in_transit(first, message);
                self.put_app_message_in_transit(second, message);
            }
            Fate::Dropped => self.drops_app_message(message, None),
        }
    }

    fn put_app_message_in_transit(&mut self, at: u64, message: AppMessage) {
        let slot = self.wheel.push(at, Event::AppReceive(message));
        if let Some(app_messages) = &mut self.app_messages {
            app_messages.waiting += 1;
        }
        self.checks.sends(message.from, slot);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(slot, message.from);
        }
    }

    /// Drops a message of the application: at once, or from its slot since its receiver is down.
    pub(crate) fn drops_app_message(&mut self, message: AppMessage, slot: Option<usize>) {
        self.measures.lost += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.drops_app_message(self.now, message.from, message.to, slot);
        }
    }

    /// Whether no event is to come but those of the application.
    pub(crate) fn has_only_app_events(&self) -> bool {
        self.wheel.len() == self.app_messages.as_ref().map_or(0, |messages| messages.waiting)
    }

    pub(crate) fn place(&self, node: NodeId) -> Place {
        Place { at: self.now, event: self.measures.events, node }
    }

    fn record(&mut self, step: Step, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.recorder {
            recorder.does(self.now, step.who, Some(step.clock), what());
        }
    }

    fn record_violations(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let Checks { violations, unclaimed, .. } = &mut self.checks;
            for violation in violations.fresh().iter().chain(unclaimed.fresh()) {
                recorder.violation(violation);
            }
        }
    }
}
