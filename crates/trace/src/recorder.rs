//! The trace of a system that is stepped by hand.

use mutua_algorithms::{Fields, NodeId};

use crate::{Event, Header, Watch, What};

/// Numbers the steps and messages, and keeps every event.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    header: Header,
    step: u64,
    messages: u64,
    sent: u64,
    events: Vec<Event>,
    watch: Watch,
}

impl Recorder {
    pub(crate) fn new(header: Header) -> Self {
        Self { header, step: 0, messages: 0, sent: 0, events: Vec::new(), watch: Watch::new() }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// The number of the next message.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// How many messages of the algorithm were sent, a multicast counting as one for each receiver.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// A process is there; this is before the first step.
    pub(crate) fn begin(&mut self, who: NodeId, inside: bool, clock: Option<u64>, now: Fields) {
        let state = self.watch.changes(who, now, &self.header);
        let what = What::Start { inside };
        self.events.push(Event { at: self.step, who, what, clock, state });
    }

    /// The next step: a process was told something, and this is its state after it.
    pub(crate) fn told(&mut self, who: NodeId, what: What, clock: Option<u64>, now: Fields) {
        self.step += 1;
        self.at_once(who, what, clock, now);
    }

    /// The same within a step that has begun.
    pub(crate) fn at_once(&mut self, who: NodeId, what: What, clock: Option<u64>, now: Fields) {
        let state = self.watch.changes(who, now, &self.header);
        self.events.push(Event { at: self.step, who, what, clock, state });
    }

    /// A process's state has changed by what others did; nothing if it has not.
    pub(crate) fn noticed(&mut self, who: NodeId, now: Fields) {
        let state = self.watch.changes(who, now, &self.header);
        if !state.is_empty() {
            let what = What::Note { text: "sees its neighbour".into() };
            self.events.push(Event { state, ..Event::new(self.step, who, what) });
        }
    }

    /// The next step: something happened that changes no machine.
    pub(crate) fn happened(&mut self, who: NodeId, what: What, clock: Option<u64>) {
        self.step += 1;
        self.did(who, what, clock);
    }

    /// What a process does about what it was told.
    pub(crate) fn did(&mut self, who: NodeId, what: What, clock: Option<u64>) {
        self.sent += match &what {
            What::Send { .. } => 1,
            What::Multicast { to, .. } => to.len() as u64,
            _ => 0,
        };
        self.events.push(Event { clock, ..Event::new(self.step, who, what) });
    }

    /// A process has lost its memory.
    pub(crate) fn forget(&mut self, who: NodeId) {
        self.watch.forget(who);
    }
}
