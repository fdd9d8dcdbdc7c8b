//! The events of one lock at this node, in the common trace format.
//!
//! A node knows only its own part. The traces of all nodes of a cluster, put together, are the run:
//! messages are numbered so that sender and receiver use the same number without sending it. Links
//! keep order within a view, so the receiver counts along.

use mutua_algorithms::{FencingToken, NodeId};
use mutua_trace::{Event, Header, Message, Unit, Values, Watch, What};

use super::{Protocol, ViewState};
use crate::{Effect, LockId, Moment, TraceLine, view::Name};

/// Numbers of messages begin anew at this multiple of the view's epoch.
const NUMBERS: u64 = 1 << 28;

/// The lock to trace, and the state of its trace.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// The lock's name; `None` until the first lock is used.
    name: Option<Name>,
    header: Option<Header>,
    watch: Watch,
    /// The number of messages to each process and from it, in this view.
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Protocol {
    /// Emits [`Effect::Trace`] for the lock of this name from now on, or for the first one that is
    /// used.
    pub fn trace(&mut self, name: Option<&[u8]>) {
        self.tracer = Some(Tracer { name: name.map(Name::from), ..Tracer::default() });
    }

    fn traces(&mut self, lock: LockId) -> bool {
        let Some(tracer) = &mut self.tracer else { return false };
        let name = &self.table.entry(lock).name;
        *tracer.name.get_or_insert_with(|| Name::clone(name)) == *name
    }

    /// Its process was made.
    pub(super) fn trace_start(&mut self, now: Moment, lock: LockId, in_cs: bool) {
        if !self.traces(lock) {
            return;
        }
        let ViewState::In(view) = &mut self.view_state else { return };
        let Some(tracer) = &mut self.tracer else { return };
        let entry = self.table.entry(lock);
        let rule = self.config.plan.rule(entry.rule);
        let start = view.start(entry.rule, rule, &entry.name);
        if tracer.header.is_none() {
            let names = self.config.names.clone();
            let mut header = Header::new(rule.about.name, &start, names, Unit::Nanoseconds);
            header.title = format!("lock {}", entry.name.escape_ascii());
            let line = TraceLine::Header(header.clone());
            self.effects.push(Effect::Trace { line: Box::new(line) });
            tracer.header = Some(header);
        }
        tracer.watch = Watch::new();
        tracer.sent = vec![0; view.members.len()];
        tracer.received = tracer.sent.clone();
        self.trace_input(now, lock, What::Start { in_cs });
    }

    /// Its process was called.
    #[inline]
    pub(super) fn trace_input(&mut self, now: Moment, lock: LockId, what: What) {
        if self.tracer.is_some() && self.traces(lock) {
            self.trace_change(now, lock, what);
        }
    }

    fn trace_change(&mut self, now: Moment, lock: LockId, what: What) {
        let who = NodeId(self.config.me.0);
        let Some(machine) = &self.table.entry(lock).machine else { return };
        let (clock, variables) = (Some(machine.time().number()), machine.variables());
        let Some(Tracer { header: Some(header), watch, .. }) = &mut self.tracer else { return };
        let state = watch.changes(who, variables, header);
        self.trace_event(Event { at: now.nanos(), who, what, clock, state });
    }

    /// Its process requested, and is in the critical section if there is a fencing token.
    #[inline]
    pub(super) fn trace_request(&mut self, now: Moment, lock: LockId, fence: Option<FencingToken>) {
        if self.tracer.is_some() && self.traces(lock) {
            self.trace_change(now, lock, What::Request);
            self.trace_entry(now, fence);
        }
    }

    /// A message has arrived for its process, which entered if there is a fencing token.
    pub(super) fn trace_receive(
        &mut self,
        now: Moment,
        lock: LockId,
        from: NodeId,
        body: &[u8],
        fence: Option<FencingToken>,
    ) {
        if !self.traces(lock) {
            return;
        }
        let me = self.config.me;
        let me = match &self.view_state {
            ViewState::In(view) => view.node(me).map_or(me.0, |node| node.0),
            ViewState::Writing(_) | ViewState::Apart { .. } => me.0,
        };
        let Some(number) = self.next_in(me, |tracer| tracer.received.get_mut(from.index())) else {
            return;
        };
        if let Some(message) = self.shown(lock, number, body) {
            self.trace_change(now, lock, What::Receive { from, message });
            self.trace_entry(now, fence);
        }
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
        if self.tracer.is_none() || !self.traces(lock) {
            return;
        }
        let Some(number) = self.next_in(to.0, |tracer| tracer.sent.get_mut(to.index())) else {
            return;
        };
        if let Some(message) = self.shown(lock, number, body) {
            self.trace_does(now, What::Send { to, message, lazy });
        }
    }

    /// The lock stays with this node, for its next waiter.
    pub(super) fn trace_stay(&mut self, now: Moment, lock: LockId, fence: FencingToken) {
        if self.tracer.is_some() && self.traces(lock) {
            let text = format!("the next client of this node, fencing token {fence}");
            self.trace_does(now, What::Note { text: text.into() });
        }
    }

    /// The number of the next message to `to`: no other message of its sender has it.
    fn next_in(
        &mut self,
        to: u32,
        count: impl FnOnce(&mut Tracer) -> Option<&mut u64>,
    ) -> Option<u64> {
        let epoch = u64::from(self.epoch_of_view()?);
        let members = self.links.len() as u64;
        let count = count(self.tracer.as_mut()?)?;
        *count += 1;
        Some(epoch * NUMBERS + *count * members + u64::from(to))
    }

    fn shown(&mut self, lock: LockId, id: u64, body: &[u8]) -> Option<Message> {
        let (kind, fields) = self.table.entry(lock).machine.as_ref()?.show(body)?;
        let header = self.tracer.as_ref()?.header.as_ref()?;
        let fields = Values::render(&fields, &|node| header.name(node));
        Some(Message { id, kind: kind.into(), fields })
    }

    fn trace_entry(&mut self, now: Moment, fence: Option<FencingToken>) {
        if let Some(fence) = fence {
            self.trace_does(now, What::Enter { fencing_token: fence.number() });
        }
    }

    fn trace_does(&mut self, now: Moment, what: What) {
        self.trace_event(Event::new(now.nanos(), NodeId(self.config.me.0), what));
    }

    fn trace_event(&mut self, event: Event) {
        // Events before the header are not part of the trace.
        if self.tracer.as_ref().is_some_and(|tracer| tracer.header.is_some()) {
            self.effects.push(Effect::Trace { line: Box::new(TraceLine::Event(event)) });
        }
    }
}
