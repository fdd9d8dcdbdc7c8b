//! A process as the search sees it: what it can do by itself, and what it does with a message.

use std::{fmt::Debug, hash::Hash};

use mutua_algorithms::{
    Effect, Election, ElectionEffect, ElectionOutbox, Fields, Message, Mutex, NodeId, Outbox,
    Phase, Process, Renaming, Time, Timer, Value,
};

/// Something that happens at a process without a message.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Event {
    /// The client requests the critical section.
    Request,
    /// The client exits.
    Release,
    /// The client starts an election.
    Start,
    /// A timer runs out.
    Timeout(Timer),
    /// The process stops for good, or until it restarts.
    Crash,
    /// A process that has crashed restarts with an empty memory.
    Restart,
    /// The application sends a message of its own.
    AppSend(NodeId),
    /// The failure detector reports that another process has crashed and restarted so many times
    /// in all. (Repairs.)
    Report(NodeId, u8),
}

impl Event {
    /// Whether it must happen in the end, once it can: clients exit, timers run out and crashes are
    /// reported, but no client has to request.
    pub(crate) fn is_fair(self) -> bool {
        match self {
            Self::Release | Self::Timeout(_) | Self::Report(..) => true,
            Self::Request | Self::Start | Self::Crash | Self::Restart | Self::AppSend(_) => false,
        }
    }
}

/// The part of a process's state that the properties look at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Look {
    /// It has requested and waits; in an election, it is undecided.
    pub(crate) waiting: bool,
    /// Its request has its place in the order, as far as that takes a ticket.
    pub(crate) ticket: bool,
    /// It is in the critical section.
    pub(crate) in_cs: bool,
    /// It has crashed.
    pub(crate) down: bool,
    /// It has begun its first request or election, or taken part in one.
    pub(crate) begun: bool,
    /// The process that it takes for the coordinator.
    pub(crate) coordinator: Option<NodeId>,
    /// Its crashes and restarts. (Repairs.)
    pub(crate) changes: u8,
    /// Its view and the process that started it. (Repairs.)
    pub(crate) view: Option<(u32, Option<NodeId>)>,
    /// It has the token, or would enter at once. (Repairs.)
    pub(crate) token: bool,
    /// Its clock, and that of its open request. (Timestamps.)
    pub(crate) clock: u64,
    pub(crate) requested: Option<u64>,
    /// It may still receive a message of the application. (Timestamps.)
    pub(crate) hears: bool,
    /// It sets its clock to the start of no epoch below this one any more. (Repairs.)
    pub(crate) settled: u32,
}

/// The reaction of a process to one event.
#[derive(Debug)]
pub(crate) struct Reaction<M> {
    /// Its messages with their receivers, in order.
    pub(crate) sends: Vec<(NodeId, M)>,
    /// Its client is in the critical section now.
    pub(crate) entered: bool,
    /// It has decided on a coordinator.
    pub(crate) elected: bool,
    /// It starts a view, which is after everything of older views.
    pub(crate) starts_view: bool,
    /// It has come into a view.
    pub(crate) resumed: bool,
}

impl<M> Default for Reaction<M> {
    fn default() -> Self {
        Self {
            sends: Vec::new(),
            entered: false,
            elected: false,
            starts_view: false,
            resumed: false,
        }
    }
}

impl<M: Clone> Reaction<M> {
    pub(crate) fn multicast(&mut self, to: &[NodeId], message: &M) {
        self.sends.extend(to.iter().map(|&to| (to, message.clone())));
    }

    /// The effects of a step of mutual exclusion.
    pub(crate) fn drain(out: &mut Outbox<M>) -> Self {
        let mut reaction = Self::default();
        out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => reaction.sends.push((to, message)),
            Effect::Multicast { to, message } => reaction.multicast(to, &message),
            Effect::Enter => reaction.entered = true,
            Effect::Nonsense { .. } => {}
        });
        reaction
    }
}

/// A machine with what surrounds it: the client, the timers, the crash.
pub(crate) trait Actor: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    type Message: Message;

    /// Where its machine leaves its effects.
    type Outbox: Default + Send;

    /// The events that can happen here now, beside a delivery.
    fn events(&self, menu: &mut Vec<Event>);

    /// One of those happens. An [`Event::AppSend`] changes nothing here.
    fn happen(&mut self, event: Event, out: &mut Self::Outbox);

    /// A message arrives: the algorithm's, or none for the application's.
    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: Option<Self::Message>,
        out: &mut Self::Outbox,
    );

    /// A message of the application arrives that was sent at this time; returns whether nothing but
    /// the clock has changed. If not even that has, it has not arrived. (Timestamps.)
    fn hear(&mut self, _from: NodeId, _sent: Time, _out: &mut Self::Outbox) -> bool {
        unreachable!("only a client of mutual exclusion notes timestamps")
    }

    /// Empties the outbox after a step; timers that the machine has set or cancelled are kept here.
    fn react(&mut self, out: &mut Self::Outbox) -> Reaction<Self::Message>;

    /// The clock that goes with what it sends.
    fn time(&self) -> Time;

    /// Whether this message moves the receiver's clock, and with it the fencing token.
    fn carries_clock(&self, message: Option<&Self::Message>) -> bool;

    fn look(&self) -> Look;

    /// The phase of the client and the variables under the paper's names.
    fn variables(&self) -> Fields;

    /// Maps every clock reading.
    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time));

    /// Gives every process its new name, where names decide nothing.
    fn rename(&mut self, renaming: &Renaming);
}

/// The phase of a process that has crashed.
pub(crate) const DOWN: (&str, Value) = ("phase", Value::Word("down"));

/// A process of a mutual exclusion algorithm and its client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Client<M> {
    process: Process<M>,
    entries_left: u8,
    down: bool,
    /// For [`Ghost::Stamps`](crate::ghost::Ghost::Stamps).
    noted: Option<Noted>,
}

/// What is noted of a process whose entries are judged by timestamps.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Noted {
    /// The timestamp of its open request.
    requested: Option<Time>,
    /// Whether a message of the application may still arrive.
    hears: bool,
}

impl<M: Mutex> Client<M> {
    pub(crate) fn new(process: Process<M>, entries: u8) -> Self {
        Self { process, entries_left: entries, down: false, noted: None }
    }

    /// The same, with timestamps noted.
    pub(crate) fn noting(mut self, hears: bool) -> Self {
        self.noted = Some(Noted { requested: None, hears });
        self
    }
}

impl<M: Mutex> Actor for Client<M> {
    type Message = M::Message;
    type Outbox = Outbox<M::Message>;

    fn events(&self, menu: &mut Vec<Event>) {
        if self.down {
            return;
        }
        match self.process.machine().phase() {
            Phase::Idle if self.entries_left > 0 => menu.push(Event::Request),
            Phase::InCs => menu.push(Event::Release),
            Phase::Idle | Phase::Requesting => {}
        }
        menu.push(Event::Crash);
    }

    fn happen(&mut self, event: Event, out: &mut Outbox<M::Message>) {
        match event {
            Event::Request => {
                self.entries_left -= 1;
                let before = self.process.time();
                self.process.request(out);
                if let Some(noted) = &mut self.noted {
                    // Lamport's condition, on which the order by timestamps rests.
                    assert!(self.process.time() > before, "a request steps the clock");
                    noted.requested = Some(self.process.time());
                }
            }
            Event::Release => self.process.release(out),
            Event::Crash => self.down = true,
            Event::AppSend(_) => {}
            Event::Start | Event::Timeout(_) | Event::Restart | Event::Report(..) => {
                unreachable!("a client of mutual exclusion has no {event:?}")
            }
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: Option<M::Message>,
        out: &mut Outbox<M::Message>,
    ) {
        if self.down {
            return;
        }
        let clocked = self.process.machine().carries_clock(message.as_ref());
        match message {
            Some(message) => self.process.receive(from, sent, message, out),
            None => self.process.observe(from, sent, out),
        };
        if self.noted.is_some() {
            let risen = clocked && self.process.time() > sent;
            assert!(risen, "the clock rises above that of every message");
        }
    }

    fn hear(&mut self, from: NodeId, sent: Time, out: &mut Outbox<M::Message>) -> bool {
        let before = self.process.clone();
        self.receive(from, sent, None, out);
        if let Some(noted) = &mut self.noted {
            noted.hears = self.process == before;
        }
        self.process.machine() == before.machine()
    }

    fn react(&mut self, out: &mut Outbox<M::Message>) -> Reaction<M::Message> {
        let reaction = Reaction::drain(out);
        if let Some(noted) = self.noted.as_mut().filter(|_| reaction.entered) {
            noted.requested = None;
        }
        reaction
    }

    fn time(&self) -> Time {
        self.process.time()
    }

    fn carries_clock(&self, message: Option<&M::Message>) -> bool {
        self.process.machine().carries_clock(message)
    }

    fn look(&self) -> Look {
        let phase = self.process.machine().phase();
        Look {
            waiting: phase == Phase::Requesting && !self.down,
            ticket: self.process.machine().has_ticket(),
            in_cs: phase == Phase::InCs,
            down: self.down,
            clock: self.process.time().number(),
            requested: self.noted.and_then(|noted| noted.requested).map(Time::number),
            hears: self.noted.is_some_and(|noted| noted.hears),
            ..Look::default()
        }
    }

    fn variables(&self) -> Fields {
        if self.down {
            return vec![DOWN];
        }
        let machine = self.process.machine();
        let mut fields = vec![("phase", machine.phase().word().into())];
        fields.extend(machine.variables());
        fields
    }

    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        self.process.map_times(map);
        if let Some(Noted { requested: Some(requested), .. }) = &mut self.noted {
            map(requested);
        }
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.process.rename(renaming);
    }
}

/// A process of an election algorithm, with its timers.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Elector<E> {
    /// None while it is down.
    machine: Option<E>,
    /// As it is made at first, and again after a crash.
    fresh: E,
    starts_left: u8,
    /// Whether it has ever taken part in an election.
    begun: bool,
    /// The timers that run, one bit each.
    timers: u8,
}

/// Every timer.
pub(crate) const TIMERS: [Timer; 4] =
    [Timer::Answer, Timer::Announcement, Timer::Look, Timer::Acknowledgement];

impl<E: Election> Elector<E> {
    pub(crate) fn new(machine: E, starts: u8, down: bool) -> Self {
        let fresh = machine.clone();
        let machine = (!down).then_some(machine);
        Self { machine, fresh, starts_left: starts, begun: false, timers: 0 }
    }
}

impl<E: Election> Actor for Elector<E> {
    type Message = E::Message;
    type Outbox = ElectionOutbox<E::Message>;

    fn events(&self, menu: &mut Vec<Event>) {
        if self.machine.is_none() {
            return menu.push(Event::Restart);
        }
        if self.starts_left > 0 {
            menu.push(Event::Start);
        }
        let armed = TIMERS.into_iter().filter(|&timer| self.timers & timer_bit(timer) != 0);
        menu.extend(armed.map(Event::Timeout));
        menu.push(Event::Crash);
    }

    fn happen(&mut self, event: Event, out: &mut ElectionOutbox<E::Message>) {
        if event == Event::Restart {
            self.machine = Some(self.fresh.clone());
        }
        let Some(machine) = &mut self.machine else { return };
        match event {
            Event::Start => {
                self.starts_left -= 1;
                self.begun = true;
                machine.start(out);
            }
            Event::Timeout(timer) => {
                self.timers &= !timer_bit(timer);
                machine.timeout(timer, out);
            }
            Event::Crash => {
                self.machine = None;
                self.timers = 0;
            }
            Event::Restart => {
                self.begun = true;
                machine.restart(out);
            }
            Event::AppSend(_) => {}
            Event::Request | Event::Release | Event::Report(..) => {
                unreachable!("a process of an election has no {event:?}")
            }
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        _sent: Time,
        message: Option<E::Message>,
        out: &mut ElectionOutbox<E::Message>,
    ) {
        if let (Some(machine), Some(message)) = (&mut self.machine, message) {
            machine.receive(from, message, out);
            self.begun |= machine.takes_part() || machine.coordinator().is_some();
        }
    }

    fn react(&mut self, out: &mut ElectionOutbox<E::Message>) -> Reaction<E::Message> {
        let mut reaction = Reaction::default();
        out.drain(|effect| match effect {
            ElectionEffect::Send { to, message } => reaction.sends.push((to, message)),
            ElectionEffect::Multicast { to, message } => reaction.multicast(to, &message),
            ElectionEffect::Elected { .. } => reaction.elected = true,
            ElectionEffect::SetTimer { timer, .. } => self.timers |= timer_bit(timer),
            ElectionEffect::CancelTimer { timer } => self.timers &= !timer_bit(timer),
            ElectionEffect::Nonsense { .. } => {}
        });
        reaction
    }

    fn time(&self) -> Time {
        Time::ZERO
    }

    fn carries_clock(&self, _message: Option<&E::Message>) -> bool {
        true
    }

    fn look(&self) -> Look {
        let Some(machine) = &self.machine else {
            return Look { down: true, ..Look::default() };
        };
        Look {
            waiting: machine.takes_part() || machine.coordinator().is_none(),
            begun: self.begun,
            coordinator: machine.coordinator(),
            ..Look::default()
        }
    }

    fn variables(&self) -> Fields {
        self.machine.as_ref().map_or_else(|| vec![DOWN], Election::variables)
    }

    fn map_times(&mut self, _map: &mut dyn FnMut(&mut Time)) {}

    fn rename(&mut self, _renaming: &Renaming) {
        unreachable!("the ids decide an election")
    }
}

/// The bit of a timer in a set.
pub(crate) fn timer_bit(timer: Timer) -> u8 {
    1 << (timer as u8)
}
