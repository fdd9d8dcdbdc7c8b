//! Records a run in the trace format.

use std::fmt;

use mutua_algorithms::{Fields, Message, NodeId, Time};
use mutua_trace::{Event, Header, Views, Watch, What};

use crate::checks::Violation;

/// Hands every event of a run to a closure, in the trace format.
pub struct Recorder {
    header: Header,
    watch: Watch,
    /// The views of a run with a repair.
    views: Views,
    sink: Box<dyn FnMut(Event)>,
    /// The number of the last message of each process.
    last_id: Vec<u64>,
    /// The number of the message in each slot of the wheel.
    carried: Vec<u64>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Hands the events of a run with this header to `sink`.
    pub fn new(header: Header, sink: impl FnMut(Event) + 'static) -> Self {
        let last_id = vec![0; header.processes.len()];
        let (watch, views, sink) = (Watch::new(), Views::default(), Box::new(sink));
        Self { header, watch, views, sink, last_id, carried: Vec::new() }
    }

    /// The names of the processes.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// A process begins a view with these members.
    pub(crate) fn begins_view(
        &mut self,
        who: NodeId,
        view: u32,
        members: impl IntoIterator<Item = NodeId>,
    ) {
        self.views.begins(who, view, members);
    }

    /// An event that a process has handled, with its state after it.
    pub(crate) fn handled(
        &mut self,
        at: u64,
        who: NodeId,
        what: What,
        clock: Option<Time>,
        now: Fields,
    ) {
        let state = self.watch.changes(who, now, &self.header);
        let clock = clock.map(Time::number);
        (self.sink)(Event { at, who, what, clock, state });
    }

    /// An effect of a process.
    pub(crate) fn does(&mut self, at: u64, who: NodeId, clock: Option<Time>, what: What) {
        let mut event = Event::new(at, who, what);
        event.clock = clock.map(Time::number);
        (self.sink)(event);
    }

    /// An event that no process handles, such as a crash or a drop.
    pub(crate) fn happens(&mut self, at: u64, who: NodeId, what: What) {
        if what == What::Crash {
            self.watch.forget(who);
        }
        (self.sink)(Event::new(at, who, what));
    }

    pub(crate) fn sends<M: Message>(
        &mut self,
        at: u64,
        sender: (NodeId, Option<Time>),
        to: NodeId,
        message: &M,
        lazy: bool,
    ) {
        let message = self.numbered(sender.0, message);
        self.does(at, sender.0, sender.1, What::Send { to, message, lazy });
    }

    pub(crate) fn multicasts<M: Message>(
        &mut self,
        at: u64,
        sender: (NodeId, Option<Time>),
        to: &[NodeId],
        message: &M,
    ) {
        let message = self.numbered(sender.0, message);
        self.does(at, sender.0, sender.1, What::Multicast { to: to.to_vec(), message });
    }

    /// A process sends a message of the application.
    pub(crate) fn sends_app_message(&mut self, at: u64, from: NodeId, clock: Time, to: NodeId) {
        let id = &mut self.last_id[from.index()];
        *id += 1;
        let id = *id;
        self.does(at, from, Some(clock), What::AppSend { to, id });
    }

    /// The arrival of the application's message in this slot.
    pub(crate) fn app_arrival(&self, slot: usize, from: NodeId) -> What {
        What::Observed { from, id: self.carried[slot] }
    }

    /// A message of the application is dropped: the one in this slot, or the one sent last.
    pub(crate) fn drops_app_message(
        &mut self,
        at: u64,
        from: NodeId,
        to: NodeId,
        slot: Option<usize>,
    ) {
        let id = slot.map_or(self.last_id[from.index()], |slot| self.carried[slot]);
        let (kind, fields) = (mutua_trace::APP.into(), mutua_trace::Values::default());
        let message = mutua_trace::Message { id, kind, fields };
        self.happens(at, from, What::Drop { to, message });
    }

    /// The message sent last by this process waits in this slot of the wheel.
    pub(crate) fn goes_to(&mut self, slot: usize, from: NodeId) {
        if self.carried.len() <= slot {
            self.carried.resize(slot + 1, 0);
        }
        self.carried[slot] = self.last_id[from.index()];
    }

    /// The arrival of the message in this slot.
    pub(crate) fn arrival<M: Message>(&self, slot: usize, from: NodeId, message: &M) -> What {
        let message =
            mutua_trace::Message::new(self.carried[slot], message, from, &self.header, &self.views);
        What::Receive { from, message }
    }

    /// The message sent last by `from` is dropped.
    pub(crate) fn drops<M: Message>(&mut self, at: u64, from: NodeId, to: NodeId, message: &M) {
        let message = self.last(from, message);
        self.happens(at, from, What::Drop { to, message });
    }

    /// The message in this slot is dropped, since its receiver is down.
    pub(crate) fn is_undeliverable<M: Message>(
        &mut self,
        at: u64,
        slot: usize,
        (from, to): (NodeId, NodeId),
        message: &M,
    ) {
        let message =
            mutua_trace::Message::new(self.carried[slot], message, from, &self.header, &self.views);
        self.happens(at, from, What::Drop { to, message });
    }

    /// The message sent last by `from` will arrive twice.
    pub(crate) fn duplicates<M: Message>(
        &mut self,
        at: u64,
        from: NodeId,
        to: NodeId,
        message: &M,
    ) {
        let message = self.last(from, message);
        self.happens(at, from, What::Duplicate { to, message });
    }

    pub(crate) fn violation(&mut self, violation: &Violation) {
        let property = violation.property.name().into();
        let what = What::Violation { property, why: violation.what.clone().into() };
        self.happens(violation.at, NodeId(violation.node), what);
    }

    fn numbered<M: Message>(&mut self, from: NodeId, message: &M) -> mutua_trace::Message {
        let id = &mut self.last_id[from.index()];
        *id += 1;
        mutua_trace::Message::new(*id, message, from, &self.header, &self.views)
    }

    fn last<M: Message>(&self, from: NodeId, message: &M) -> mutua_trace::Message {
        mutua_trace::Message::new(
            self.last_id[from.index()],
            message,
            from,
            &self.header,
            &self.views,
        )
    }
}
