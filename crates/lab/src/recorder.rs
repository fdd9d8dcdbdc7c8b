//! The trace of a hand-stepped system.

use mutua_algorithms::{Fields, NodeId};

use crate::{Event, Header, Views, Watch, What};

/// Numbers the steps and messages, and keeps every event.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    header: Header,
    /// Whether events are kept; steps and messages are counted in any case.
    keeps: bool,
    step: u64,
    messages: u64,
    sent: u64,
    events: Vec<Event>,
    watch: Watch,
    /// The views of a system with a repair.
    views: Views,
}

impl Recorder {
    pub(crate) fn new(header: Header) -> Self {
        let (events, watch, views) = (Vec::new(), Watch::new(), Views::default());
        Self { header, keeps: true, step: 0, messages: 0, sent: 0, events, watch, views }
    }

    /// Removes the events so far and keeps none from now on.
    pub(crate) fn keep_nothing(&mut self) {
        self.keeps = false;
        self.events.clear();
    }

    /// Whether events are kept: if not, nothing needs to be rendered.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The views that processes have begun.
    pub(crate) fn views(&self) -> &Views {
        &self.views
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

    /// A process begins, before the first step.
    pub(crate) fn begin(&mut self, who: NodeId, in_cs: bool, clock: Option<u64>, now: Fields) {
        self.at_once(who, What::Start { in_cs }, clock, now);
    }

    /// The next step: an event that a process handled, with its state after it.
    pub(crate) fn handled(&mut self, who: NodeId, what: What, clock: Option<u64>, now: Fields) {
        self.step += 1;
        self.at_once(who, what, clock, now);
    }

    /// The same within a step that has begun.
    pub(crate) fn at_once(&mut self, who: NodeId, what: What, clock: Option<u64>, now: Fields) {
        if !self.keeps {
            return;
        }
        let state = self.watch.changes(who, now, &self.header);
        self.events.push(Event { at: self.step, who, what, clock, state });
    }

    /// Records the state of a process that a step of another process has changed, if it has.
    pub(crate) fn noticed(&mut self, who: NodeId, now: Fields) {
        let state = self.watch.changes(who, now, &self.header);
        if !state.is_empty() {
            let what = What::Note { text: "sees its neighbour".into() };
            self.events.push(Event { state, ..Event::new(self.step, who, what) });
        }
    }

    /// The next step: an event that changes the state of no process.
    pub(crate) fn happened(&mut self, who: NodeId, what: What, clock: Option<u64>) {
        self.step += 1;
        self.did(who, what, clock);
    }

    /// An effect of the event that a process handled.
    pub(crate) fn did(&mut self, who: NodeId, what: What, clock: Option<u64>) {
        self.sent += match &what {
            What::Send { .. } => 1,
            What::Multicast { to, .. } => to.len() as u64,
            _ => 0,
        };
        if !self.keeps {
            return;
        }
        self.events.push(Event { clock, ..Event::new(self.step, who, what) });
    }

    /// A process has lost its memory, so its next state is shown in full.
    pub(crate) fn forget(&mut self, who: NodeId) {
        self.watch.forget(who);
    }
}
