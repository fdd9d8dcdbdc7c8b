//! The events of a lock at this node, in the common trace format.
//!
//! A node knows only its own part. The traces of all nodes of a cluster, put together, are the run:
//! messages are numbered so that sender and receiver use the same number without sending it. A
//! message carries its sender's clock, links keep order, and messages with the same clock to the
//! same receiver are counted at both ends. So a trace may begin at any time.

use mutua_algorithms::{FencingToken, NodeId, Phase, Time};
use mutua_trace::{Event, Header, Message, Unit, Values, Watch, What};

use super::{Protocol, ViewState};
use crate::{Effect, LockId, Member, Moment, TraceId, TraceLine, view::Name};

/// A trace of one lock.
#[derive(Debug)]
pub(super) struct Tracer {
    id: TraceId,
    /// The lock's name; `None` until the first lock is used.
    name: Option<Name>,
    /// The header, once it is written: its processes are all members.
    header: Option<Header>,
    /// The header with the members of the view alone, by which its processes know each other.
    in_view: Option<Header>,
    watch: Watch,
    /// The last clock that was sent to each member and received from it, and how many messages had
    /// it.
    sent: Vec<(Time, u64)>,
    received: Vec<(Time, u64)>,
}

impl Tracer {
    fn write(&self, effects: &mut Vec<Effect>, event: Event) {
        // Events before the header are not part of the trace.
        if self.header.is_some() {
            let line = Box::new(TraceLine::Event(event));
            effects.push(Effect::Trace { trace: self.id, line });
        }
    }
}

impl Protocol {
    /// Emits [`Effect::Trace`] for the lock of this name from now on, or for the first one that is
    /// used.
    pub fn trace(&mut self, now: Moment, name: Option<&[u8]>) -> TraceId {
        self.numbers += 1;
        let id = TraceId(self.numbers);
        self.tracers.push(Tracer {
            id,
            name: name.map(Name::from),
            header: None,
            in_view: None,
            watch: Watch::new(),
            sent: Vec::new(),
            received: Vec::new(),
        });
        let lock = name.and_then(|name| self.table.find(name));
        if let Some(lock) = lock
            && self.is_in_view()
            && self.table.get(lock).is_some_and(|entry| entry.machine.is_some())
        {
            let phase = self.table.entry(lock).phase();
            self.begin_trace(now, lock, self.tracers.len() - 1, phase == Phase::InCs);
            if phase == Phase::Requesting {
                self.change(now, lock, self.tracers.len() - 1, What::Request);
            }
        }
        id
    }

    /// Ends a trace.
    pub fn end_trace(&mut self, trace: TraceId) {
        self.tracers.retain(|tracer| tracer.id != trace);
    }

    /// The traces of this lock, by their index.
    fn traces_of(&mut self, lock: LockId) -> Vec<usize> {
        let name = &self.table.entry(lock).name;
        let is_of = |(index, tracer): (usize, &mut Tracer)| {
            let wanted = tracer.name.get_or_insert_with(|| Name::clone(name));
            (*wanted == *name).then_some(index)
        };
        self.tracers.iter_mut().enumerate().filter_map(is_of).collect()
    }

    /// Its process was made.
    pub(super) fn trace_start(&mut self, now: Moment, lock: LockId, in_cs: bool) {
        if self.tracers.is_empty() {
            return;
        }
        for index in self.traces_of(lock) {
            self.begin_trace(now, lock, index, in_cs);
        }
    }

    fn begin_trace(&mut self, now: Moment, lock: LockId, index: usize, in_cs: bool) {
        let ViewState::In(view) = &mut self.view_state else { return };
        let tracer = &mut self.tracers[index];
        let entry = self.table.entry(lock);
        let rule = self.config.plan.rule(entry.rule);
        let start = view.start(entry.rule, rule, &entry.name);
        let all = &self.config.names;
        let name_of = |member: &Member| all.get(member.index()).cloned().unwrap_or_default();
        let names = view.members.iter().map(name_of).collect();
        let mut header = Header::new(rule.about.name, &start, names, Unit::Nanoseconds);
        header.title = format!("lock {}", entry.name.escape_ascii());
        tracer.in_view = Some(header.clone());
        if tracer.header.is_none() {
            header.processes.clone_from(all);
            let line = Box::new(TraceLine::Header(header.clone()));
            self.effects.push(Effect::Trace { trace: tracer.id, line });
            tracer.header = Some(header);
        }
        tracer.watch = Watch::new();
        tracer.sent = vec![(Time::ZERO, 0); all.len()];
        tracer.received.clone_from(&tracer.sent);
        self.change(now, lock, index, What::Start { in_cs });
    }

    /// Its process was called.
    #[inline]
    pub(super) fn trace_input(&mut self, now: Moment, lock: LockId, what: What) {
        if !self.tracers.is_empty() {
            for index in self.traces_of(lock) {
                self.change(now, lock, index, what.clone());
            }
        }
    }

    fn change(&mut self, now: Moment, lock: LockId, index: usize, what: What) {
        let who = NodeId(self.config.me.0);
        let Some(machine) = &self.table.entry(lock).machine else { return };
        let (clock, variables) = (Some(machine.time().number()), machine.variables());
        let tracer = &mut self.tracers[index];
        let Some(header) = &tracer.in_view else { return };
        let state = tracer.watch.changes(who, variables, header);
        tracer.write(&mut self.effects, Event { at: now.nanos(), who, what, clock, state });
    }

    /// Its process requested, and is in the critical section if there is a fencing token.
    #[inline]
    pub(super) fn trace_request(&mut self, now: Moment, lock: LockId, fence: Option<FencingToken>) {
        if !self.tracers.is_empty() {
            self.trace_input(now, lock, What::Request);
            self.trace_entry(now, lock, fence);
        }
    }

    /// A message has arrived for its process, which entered if there is a fencing token.
    pub(super) fn trace_receive(
        &mut self,
        now: Moment,
        lock: LockId,
        from: Member,
        (sent, body): (Time, &[u8]),
        fence: Option<FencingToken>,
    ) {
        if self.tracers.is_empty() {
            return;
        }
        let me = self.config.me;
        for index in self.traces_of(lock) {
            let last = self.tracers[index].received.get_mut(from.index());
            let Some(id) = last.map(|last| number(last, sent, me)) else { continue };
            let from = NodeId(from.0);
            if let Some(message) = self.shown(lock, index, id, body) {
                self.change(now, lock, index, What::Receive { from, message });
            }
        }
        self.trace_entry(now, lock, fence);
    }

    /// Its process has sent a message.
    pub(super) fn trace_send(
        &mut self,
        now: Moment,
        lock: LockId,
        to: NodeId,
        body: &[u8],
        lazy: bool,
    ) {
        if self.tracers.is_empty() {
            return;
        }
        let ViewState::In(view) = &self.view_state else { return };
        let to = view.members[to.index()];
        let Some(machine) = &self.table.entry(lock).machine else { return };
        let sent = machine.time();
        for index in self.traces_of(lock) {
            let last = self.tracers[index].sent.get_mut(to.index());
            let Some(id) = last.map(|last| number(last, sent, to)) else { continue };
            if let Some(message) = self.shown(lock, index, id, body) {
                let what = What::Send { to: NodeId(to.0), message, lazy };
                self.note(now, index, what);
            }
        }
    }

    /// The lock stays with this node, for its next waiter.
    pub(super) fn trace_stay(&mut self, now: Moment, lock: LockId, fence: FencingToken) {
        if !self.tracers.is_empty() {
            let text = format!("the next client of this node, fencing token {fence}");
            for index in self.traces_of(lock) {
                self.note(now, index, What::Note { text: text.clone().into() });
            }
        }
    }

    fn shown(&mut self, lock: LockId, index: usize, id: u64, body: &[u8]) -> Option<Message> {
        let (kind, fields) = self.table.entry(lock).machine.as_ref()?.show(body)?;
        let header = self.tracers[index].in_view.as_ref()?;
        let fields = Values::render(&fields, &|node| header.name(node));
        Some(Message { id, kind: kind.into(), fields })
    }

    fn trace_entry(&mut self, now: Moment, lock: LockId, fence: Option<FencingToken>) {
        let Some(fence) = fence else { return };
        for index in self.traces_of(lock) {
            self.note(now, index, What::Enter { fencing_token: fence.number() });
        }
    }

    fn note(&mut self, now: Moment, index: usize, what: What) {
        let event = Event::new(now.nanos(), NodeId(self.config.me.0), what);
        self.tracers[index].write(&mut self.effects, event);
    }
}

/// The number of the next message with this clock to `to`: no other message of its sender has it,
/// as long as both are within the last 4096 views and 2^32 readings.
fn number(last: &mut (Time, u64), sent: Time, to: Member) -> u64 {
    *last = if last.0 == sent { (sent, last.1 + 1) } else { (sent, 0) };
    let part = |value: u64, bits: u32| value & ((1 << bits) - 1);
    let epoch = part(sent.epoch().into(), 12);
    let count = part(sent.count(), 32);
    epoch << 52 | count << 20 | part(last.1, 8) << 12 | part(to.0.into(), 12)
}
