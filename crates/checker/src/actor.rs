//! A process as the search sees it: what it can do by itself, and what it does with a message.

use std::{fmt::Debug, hash::Hash};

use mutua_algorithms::{
    Election, Message, Mutex, NodeId, Outbox, Phase, Process, Renaming, Time, Timer,
};

/// Something that happens at a process without a message.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Event {
    /// The client asks for the critical section.
    Request,
    /// The client leaves it.
    Release,
    /// The client starts an election.
    Start,
    /// A timer runs out.
    Timeout(Timer),
    /// The process stops for good, or until it restarts.
    Crash,
    /// A process that had crashed is back, its memory lost.
    Restart,
    /// The application sends a message of its own.
    Tell(NodeId),
}

impl Event {
    /// Whether it must happen in the end, once it can: clients leave and timers run out, but
    /// nobody has to ask.
    pub(crate) fn is_fair(self) -> bool {
        match self {
            Self::Release | Self::Timeout(_) => true,
            Self::Request | Self::Start | Self::Crash | Self::Restart | Self::Tell(_) => false,
        }
    }
}

/// What the properties need to know of a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Look {
    /// It has asked and waits; in an election, it is undecided.
    pub(crate) waiting: bool,
    /// It is in the critical section.
    pub(crate) inside: bool,
    /// It has crashed.
    pub(crate) down: bool,
    /// It has begun its first request or election, or taken part in one.
    pub(crate) begun: bool,
    /// Whom it takes for the coordinator.
    pub(crate) coordinator: Option<NodeId>,
}

/// A machine with what surrounds it: the client, the timers, the crash.
pub(crate) trait Actor: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    type Message: Message;

    /// What can happen here now, beside a delivery.
    fn events(&self, menu: &mut Vec<Event>);

    /// One of those happens. A [`Event::Tell`] changes nothing here.
    fn happen(&mut self, event: Event, out: &mut Outbox<Self::Message>);

    /// A message arrives: the algorithm's, or none for the application's.
    fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: Option<Self::Message>,
        out: &mut Outbox<Self::Message>,
    );

    /// Keeps account of a timer that the machine has set or cancelled.
    fn set_timer(&mut self, _timer: Timer, _armed: bool) {}

    /// The clock that goes with what it sends.
    fn time(&self) -> Time;

    /// Whether this message moves the receiver's clock, and with it the fence.
    fn carries_clock(&self, message: Option<&Self::Message>) -> bool;

    fn look(&self) -> Look;

    /// Maps every clock reading.
    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time));

    /// Gives every process its new name, where names decide nothing.
    fn rename(&mut self, renaming: &Renaming);
}

/// A process of a mutual exclusion algorithm and its client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Client<M> {
    process: Process<M>,
    entries_left: u8,
    down: bool,
}

impl<M: Mutex> Client<M> {
    pub(crate) fn new(process: Process<M>, entries: u8) -> Self {
        Self { process, entries_left: entries, down: false }
    }
}

impl<M: Mutex> Actor for Client<M> {
    type Message = M::Message;

    fn events(&self, menu: &mut Vec<Event>) {
        if self.down {
            return;
        }
        match self.process.machine().phase() {
            Phase::Outside if self.entries_left > 0 => menu.push(Event::Request),
            Phase::Inside => menu.push(Event::Release),
            Phase::Outside | Phase::Requesting => {}
        }
        menu.push(Event::Crash);
    }

    fn happen(&mut self, event: Event, out: &mut Outbox<M::Message>) {
        match event {
            Event::Request => {
                self.entries_left -= 1;
                self.process.request(out);
            }
            Event::Release => self.process.release(out),
            Event::Crash => self.down = true,
            Event::Tell(_) => {}
            Event::Start | Event::Timeout(_) | Event::Restart => {
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
        match message {
            Some(message) => self.process.receive(from, sent, message, out),
            None => self.process.hear(from, sent, out),
        };
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
            inside: phase == Phase::Inside,
            down: self.down,
            ..Look::default()
        }
    }

    fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        self.process.map_times(map);
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

const TIMERS: [Timer; 3] = [Timer::Answer, Timer::Announcement, Timer::Look];

impl<E: Election> Elector<E> {
    pub(crate) fn new(machine: E, starts: u8, down: bool) -> Self {
        let fresh = machine.clone();
        let machine = (!down).then_some(machine);
        Self { machine, fresh, starts_left: starts, begun: false, timers: 0 }
    }
}

impl<E: Election> Actor for Elector<E> {
    type Message = E::Message;

    fn events(&self, menu: &mut Vec<Event>) {
        if self.machine.is_none() {
            return menu.push(Event::Restart);
        }
        if self.starts_left > 0 {
            menu.push(Event::Start);
        }
        let armed = TIMERS.into_iter().filter(|&timer| self.timers & bit(timer) != 0);
        menu.extend(armed.map(Event::Timeout));
        menu.push(Event::Crash);
    }

    fn happen(&mut self, event: Event, out: &mut Outbox<E::Message>) {
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
                self.timers &= !bit(timer);
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
            Event::Tell(_) => {}
            Event::Request | Event::Release => {
                unreachable!("a process of an election has no {event:?}")
            }
        }
    }

    fn receive(
        &mut self,
        from: NodeId,
        _sent: Time,
        message: Option<E::Message>,
        out: &mut Outbox<E::Message>,
    ) {
        if let (Some(machine), Some(message)) = (&mut self.machine, message) {
            machine.receive(from, message, out);
            self.begun |= machine.takes_part() || machine.coordinator().is_some();
        }
    }

    fn set_timer(&mut self, timer: Timer, armed: bool) {
        if armed {
            self.timers |= bit(timer);
        } else {
            self.timers &= !bit(timer);
        }
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

    fn map_times(&mut self, _map: &mut dyn FnMut(&mut Time)) {}

    fn rename(&mut self, _renaming: &Renaming) {
        unreachable!("who is elected is a matter of names")
    }
}

fn bit(timer: Timer) -> u8 {
    1 << (timer as u8)
}
