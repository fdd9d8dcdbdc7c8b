//! Everything around the processes: network, clients, checks, measures.

use std::collections::{BTreeMap, VecDeque};

use mutua_algorithms::{Claim, Effect, Fence, Message, NodeId, Phase, Time};
use mutua_trace::What;

use crate::{
    Distribution, Load, Wheel,
    batches::Batches,
    checks::{Checks, Place},
    measures::Measures,
    network::{Fate, Links},
    recorder::Recorder,
    tells::{Tells, Told},
    workload::Clients,
};

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Event<M> {
    Deliver(Parcel<M>),
    Request {
        node: NodeId,
        incarnation: u32,
    },
    Leave {
        node: NodeId,
        incarnation: u32,
    },
    Burst,
    /// It is time for this process to tell another one something.
    Tell {
        node: NodeId,
    },
    Hear(Told),
    Crash {
        node: NodeId,
    },
    Restart {
        node: NodeId,
    },
}

/// A message under way.
#[derive(Clone, Debug)]
pub(crate) struct Parcel<M> {
    pub(crate) message: M,
    pub(crate) sent: Time,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) lazy: bool,
    /// The number of the message's kind.
    pub(crate) kind: u8,
}

/// A process's client, and what is measured of it. What every message touches comes first, beside
/// the process.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Client {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Counts the crashes: what was planned before one must not happen after it.
    pub(crate) incarnation: u32,
    pub(crate) phase: Phase,
    pub(crate) down: bool,
    /// Nobody was inside or waiting when it asked.
    asked_alone: bool,
    pub(crate) requested_at: u64,
    pub(crate) entered_at: u64,
    pub(crate) entries_before: u64,
    pub(crate) waited: u64,
    pub(crate) entries: u64,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    WarmUp,
    Measuring,
    /// Nobody asks any more; those who have asked must still get in.
    Draining,
    Over,
}

/// How long a run is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) warm_up: u64,
    /// The warm-up is over after so many events, too.
    pub(crate) warm_up_events: u64,
    pub(crate) entries: u64,
    pub(crate) drain: bool,
}

/// One step of one process, while its effects are carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) who: NodeId,
    pub(crate) clock: Time,
    pub(crate) fence: Option<Fence>,
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
    /// What processes tell each other beside the algorithm, if they do.
    pub(crate) tells: Option<Tells>,
    /// Messages under way that are not lazy.
    pub(crate) busy: u64,
    requests: u64,
    /// Requests that will be made, if their clients are up then.
    pub(crate) planned: u64,
    /// When requests came to clients that were not outside, and could not be made yet.
    backlog: BTreeMap<NodeId, VecDeque<u64>>,
    /// When the last one left while others waited, until the next one enters.
    left_at: Option<u64>,
    /// At light load: somebody has left, and not everything has come to rest since.
    next_after: Option<u64>,
    /// Events since anybody asked, entered or left, while nobody was inside and somebody waited.
    pub(crate) idle_events: u64,
}

impl<M: Message> World<M> {
    pub(crate) fn new(links: Links, clients: Clients, checks: Checks, length: Length) -> Self {
        Self {
            now: 0,
            stage: Stage::WarmUp,
            wheel: Wheel::new(),
            measures: Measures::new(),
            checks,
            batches: Batches::new(length.entries, clients.active().len() as u64),
            clients,
            recorder: None,
            links,
            length,
            tells: None,
            busy: 0,
            requests: 0,
            planned: 0,
            backlog: BTreeMap::new(),
            left_at: None,
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
            Load::Bursts { .. } => {
                self.wheel.push(0, Event::Burst);
            }
            Load::Script(wishes) => {
                for wish in wishes {
                    self.plan_request(wish.at, wish.node, 0);
                }
            }
        }
        for node in self.tells.as_ref().map_or(0..0, Tells::who) {
            self.plan_to_tell(NodeId(node));
        }
    }

    fn plan_request(&mut self, at: u64, node: NodeId, incarnation: u32) {
        self.planned += 1;
        self.wheel.push(at, Event::Request { node, incarnation });
    }

    fn plan_for_all(&mut self, mut when: impl FnMut(&mut Clients, NodeId) -> u64) {
        for node in self.clients.active().map(NodeId) {
            let at = when(&mut self.clients, node);
            self.plan_request(at, node, 0);
        }
    }

    /// Everybody asks at once, and will again.
    pub(crate) fn burst(&mut self, every: Distribution) {
        for node in self.clients.active().map(NodeId) {
            self.plan_request(self.now, node, u32::MAX);
        }
        let next = self.now + self.clients.gap(every).max(1);
        self.wheel.push(next, Event::Burst);
    }

    fn is_light(&self) -> bool {
        matches!(self.clients.workload.load, Load::Light { .. })
    }

    fn plan_next_light(&mut self, left_at: u64) {
        let Load::Light { gap } = self.clients.workload.load else { return };
        let at = (left_at + self.clients.gap(gap)).max(self.now);
        let node = self.clients.draw();
        self.plan_request(at, node, u32::MAX);
    }

    // What clients do.

    pub(crate) fn asks(&mut self, who: NodeId, client: &mut Client) {
        self.requests += 1;
        self.idle_events = 0;
        if self.is_light() && self.is_warm(self.requests - 1) {
            self.open();
        }
        if self.is_light() {
            self.end_of_batch();
        }
        client.phase = Phase::Requesting;
        // Whoever had to put a request off has waited since.
        let due = self.backlog.get_mut(&who).and_then(VecDeque::pop_front);
        client.requested_at = due.unwrap_or(self.now);
        client.entries_before = self.measures.entries_in_all;
        client.asked_alone = self.checks.inside == 0 && self.checks.waiting == 0;
        self.checks.asks(who);
    }

    fn enters(&mut self, step: Step, client: &mut Client) {
        let fence = step.fence.expect("who enters has a fence");
        let place = self.place(step.who);
        self.record(step, || What::Enter { fence: fence.number() });
        self.checks.enters(place, fence);
        self.record_violations();
        self.idle_events = 0;
        let sync = self.left_at.take().map(|left| self.now - left);
        let stay = self.clients.hold(step.who);
        if self.measures.open {
            self.measure_entry(client, sync, stay);
        }
        self.measures.entries_in_all += 1;
        client.phase = Phase::Inside;
        client.entered_at = self.now;
        let leave = Event::Leave { node: step.who, incarnation: client.incarnation };
        self.wheel.push(self.now + stay, leave);
        self.end_of_entry();
    }

    fn measure_entry(&mut self, client: &mut Client, sync: Option<u64>, stay: u64) {
        let measures = &mut self.measures;
        let waited = self.now - client.requested_at;
        let bypass = measures.entries_in_all - client.entries_before;
        measures.entries += 1;
        measures.waiting.record(waited);
        // Here, so that both speak of the same entries.
        measures.response.record(waited + stay);
        measures.max_bypass = measures.max_bypass.max(bypass);
        if let Some(sync) = sync {
            measures.sync_delay.record(sync);
        }
        if client.asked_alone && bypass == 0 {
            measures.client_delay.record(waited);
        }
        client.entries += 1;
        client.waited += waited;
    }

    /// Everywhere but at light load, what is measured reaches from an entry to an entry.
    fn end_of_entry(&mut self) {
        if self.is_light() {
            return;
        }
        self.end_of_batch();
        if self.is_warm(self.measures.entries_in_all) {
            self.open();
        } else if self.stage == Stage::Measuring
            && self.measures.entries == self.length.entries
            && !self.has_read_its_script()
        {
            self.close();
        }
    }

    /// Whether the requests were written down, and nobody will make one any more. Then the messages
    /// of the last exit count too: it is measured until all is at rest.
    fn has_read_its_script(&self) -> bool {
        let is_written = matches!(self.clients.workload.load, Load::Script(_));
        is_written && self.planned == 0 && self.checks.waiting == 0
    }

    /// A request comes to a client that cannot make it yet.
    pub(crate) fn put_off(&mut self, who: NodeId) {
        self.backlog.entry(who).or_default().push_back(self.now);
    }

    pub(crate) fn leaves(&mut self, who: NodeId, client: &mut Client) {
        self.checks.leaves();
        self.idle_events = 0;
        client.phase = Phase::Outside;
        self.left_at = (self.checks.waiting > 0).then_some(self.now);
        if self.measures.open {
            self.measures.time_inside += self.now - client.entered_at;
        }
        self.plan_after_leaving(who, client);
    }

    pub(crate) fn plan_after_leaving(&mut self, who: NodeId, client: &mut Client) {
        let incarnation = client.incarnation;
        match self.clients.workload.load {
            Load::Light { .. } => self.next_after = Some(self.now),
            Load::Saturated => self.plan_request(self.now, who, incarnation),
            Load::Think(think) => {
                let at = self.now + self.clients.think(who, think);
                self.plan_request(at, who, incarnation);
            }
            Load::Bursts { .. } | Load::Script(_) => {
                if self.backlog.get(&who).is_some_and(|due| !due.is_empty()) {
                    self.plan_request(self.now, who, incarnation);
                }
            }
        }
    }

    // How a run proceeds.

    /// Whether the warm-up ends after so many entries.
    fn is_warm(&self, entries: u64) -> bool {
        let Length { warm_up, warm_up_events, .. } = self.length;
        self.stage == Stage::WarmUp
            && (entries >= warm_up || self.measures.events >= warm_up_events)
    }

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

    /// After every event: at light load the next one may ask once all is at rest, and in the end
    /// the run is over once nobody waits.
    pub(crate) fn after_event(&mut self) {
        if self.busy > 0 {
            return;
        }
        if let Some(left_at) = self.next_after.take() {
            if self.measures.entries >= self.length.entries {
                self.close();
            } else {
                self.plan_next_light(left_at);
            }
        }
        let settled = self.checks.waiting == 0 && self.checks.inside == 0;
        if settled && self.stage != Stage::Draining && self.has_read_its_script() {
            self.close();
        }
        if self.stage == Stage::Draining && settled {
            self.stage = Stage::Over;
        }
    }

    /// There were as many events as there may be.
    pub(crate) fn cut(&mut self) {
        self.measures.close(self.now);
        self.stage = Stage::Over;
    }

    /// Nothing more will happen, or nothing that helps: who waits now, having asked after so many
    /// entries, waits for ever.
    pub(crate) fn end(&mut self, waiting: impl Iterator<Item = (NodeId, u64)>) {
        self.measures.close(self.now);
        // Once nobody asks any more, an end without events tells nothing of why: whoever was passed
        // twice by everybody was starved by those who still entered.
        let draining = self.stage == Stage::Draining;
        self.stage = Stage::Over;
        let contenders = u64::from(self.clients.active().end);
        let entries = self.measures.entries_in_all;
        let is_starved = |asked_after: u64| draining && entries - asked_after > 2 * contenders;
        let (starved, stuck): (Vec<_>, Vec<_>) = waiting.partition(|&(_, since)| is_starved(since));
        let stopped =
            if self.is_all_else_at_rest() { Claim::DeadlockFree } else { Claim::Liveness };
        for (claim, waiting) in [(stopped, stuck), (Claim::Liveness, starved)] {
            self.waits_for_ever(claim, waiting.into_iter().map(|(node, _)| node).collect());
        }
    }

    fn waits_for_ever(&mut self, claim: Claim, waiting: Vec<NodeId>) {
        if let Some(&first) = waiting.first() {
            let names: Vec<_> = waiting.iter().take(5).map(NodeId::to_string).collect();
            let more = if waiting.len() > 5 { ", ..." } else { "" };
            let count = waiting.len();
            let wait = if count == 1 { "waits" } else { "wait" };
            let what = format!("{count} {wait} for ever: {}{more}", names.join(", "));
            self.checks.violation(claim, self.place(first), what);
            self.record_violations();
        }
    }

    // What processes do.

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
            Effect::Elected { .. } | Effect::SetTimer { .. } | Effect::CancelTimer { .. } => {
                unreachable!("an effect of elections from a mutual exclusion algorithm")
            }
        }
    }

    fn transmit(&mut self, parcel: Parcel<M>) {
        let far = self.measures.open && self.links.are_apart(parcel.from, parcel.to);
        self.measures.far += u64::from(far);
        match self.links.send(self.now, parcel.from, parcel.to, parcel.lazy) {
            Fate::Once(at) => self.put_under_way(at, parcel),
            Fate::Twice(first, second) => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.duplicates(self.now, parcel.from, parcel.to, &parcel.message);
                }
                self.put_under_way(first, parcel.clone());
                self.put_under_way(second, parcel);
            }
            Fate::Lost => self.loses(&parcel),
        }
    }

    fn put_under_way(&mut self, at: u64, parcel: Parcel<M>) {
        let from = parcel.from;
        self.busy += u64::from(!parcel.lazy);
        let place = self.wheel.push(at, Event::Deliver(parcel));
        self.checks.sends(from, place);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(place, from);
        }
    }

    /// The message of this place finds its receiver down.
    pub(crate) fn cannot_deliver(&mut self, place: usize, parcel: &Parcel<M>) {
        self.measures.lost += 1;
        if let Some(recorder) = &mut self.recorder {
            let ends = (parcel.from, parcel.to);
            recorder.is_undeliverable(self.now, place, ends, &parcel.message);
        }
    }

    fn loses(&mut self, parcel: &Parcel<M>) {
        self.measures.lost += 1;
        self.checks.loses(parcel.from);
        if let Some(recorder) = &mut self.recorder {
            recorder.loses(self.now, parcel.from, parcel.to, &parcel.message);
        }
    }

    // What applications do.

    fn plan_to_tell(&mut self, node: NodeId) {
        if let Some(tells) = &mut self.tells {
            tells.waiting += 1;
            let at = self.now + tells.gap();
            self.wheel.push(at, Event::Tell { node });
        }
    }

    /// A process tells another one something; if it is down, only when it is up again.
    pub(crate) fn tells(&mut self, from: NodeId, clock: Time, down: bool) {
        let Some(tells) = &mut self.tells else { return };
        tells.waiting -= 1;
        let to = tells.listener(from);
        self.plan_to_tell(from);
        if down {
            return;
        }
        self.measures.tells += u64::from(self.measures.open);
        self.measures.event([self.now, 3 << 32 | u64::from(from.0), u64::from(to.0), 0]);
        if let Some(recorder) = &mut self.recorder {
            recorder.tells(self.now, from, clock, to);
        }
        let told = Told { sent: clock, from, to };
        match self.links.send(self.now, from, to, false) {
            Fate::Once(at) => self.put_told_under_way(at, told),
            Fate::Twice(first, second) => {
                self.put_told_under_way(first, told);
                self.put_told_under_way(second, told);
            }
            Fate::Lost => self.loses_told(told, None),
        }
    }

    fn put_told_under_way(&mut self, at: u64, told: Told) {
        let place = self.wheel.push(at, Event::Hear(told));
        if let Some(tells) = &mut self.tells {
            tells.waiting += 1;
        }
        self.checks.sends(told.from, place);
        if let Some(recorder) = &mut self.recorder {
            recorder.goes_to(place, told.from);
        }
    }

    /// What was told is lost: at once, or when it finds its receiver down.
    pub(crate) fn loses_told(&mut self, told: Told, place: Option<usize>) {
        self.measures.lost += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.loses_told(self.now, told.from, told.to, place);
        }
    }

    /// Whether nothing waits but what applications tell each other.
    pub(crate) fn is_all_else_at_rest(&self) -> bool {
        self.wheel.len() == self.tells.as_ref().map_or(0, |tells| tells.waiting)
    }

    fn place(&self, node: NodeId) -> Place {
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
