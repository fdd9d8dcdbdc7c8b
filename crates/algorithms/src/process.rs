//! A machine with its Lamport clock: what every driver drives.

use crate::{FencingToken, Mutex, NodeId, Outbox, Phase, Renaming, Stamp, Start, Time};

/// One process: a machine and the one clock that serves timestamps, ordering and fencing.
///
/// The clock steps at each request and rises above the clock of everything that arrives. That is
/// all that Lamport's condition needs here: along every chain of messages it grows, and no two
/// requests of a process have the same stamp. Events that are never compared share a reading, which
/// keeps a checker's state space small.
///
/// A driver sends every message with [`time`](Self::time) as it is after the call.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Process<M> {
    me: NodeId,
    time: Time,
    machine: M,
}

impl<M: Mutex> Process<M> {
    /// A process at the start. The next call is [`begin`](Self::begin).
    pub fn new(me: NodeId, start: &Start) -> Self {
        Self { me, time: Time::ZERO, machine: M::new(me, start) }
    }

    /// Its id.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Its clock, which goes with every message it sends.
    pub fn time(&self) -> Time {
        self.time
    }

    /// The machine, for reading.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Raises the clock to at least this reading: a new epoch, or what a node has kept on disk.
    pub fn raise_time(&mut self, at_least: Time) {
        self.time = self.time.max(at_least);
    }

    /// The system begins: every driver calls this once, before everything else, and does what it
    /// asks for.
    pub fn begin(&mut self, out: &mut Outbox<M::Message>) {
        self.machine.begin(out);
    }

    /// The local client requests; returns the fencing token if it enters at once.
    ///
    /// # Panics
    ///
    /// If the client is requesting or in the critical section: an error of the driver.
    pub fn request(&mut self, out: &mut Outbox<M::Message>) -> Option<FencingToken> {
        let phase = self.machine.phase();
        assert!(
            phase == Phase::Idle,
            "process {} requests while it is {}; one request at a time",
            self.me,
            phase.word()
        );
        self.time = self.time.next();
        self.machine.request(Stamp::new(self.time, self.me), out);
        self.fence_if_entered(out)
    }

    /// A message arrives that was sent at `sent`; returns the fencing token if the client enters by
    /// it.
    pub fn receive(
        &mut self,
        from: NodeId,
        sent: Time,
        message: M::Message,
        out: &mut Outbox<M::Message>,
    ) -> Option<FencingToken> {
        let stamped = self.machine.carries_clock(Some(&message));
        if stamped {
            self.rise_above(sent);
        }
        self.machine.receive(from, message, out);
        if stamped && !out.refused() {
            self.machine.observed(from, sent, out);
        }
        self.fence_if_entered(out)
    }

    /// A message of the application arrives, which carries the clock too; returns the fencing token
    /// if the client enters by it.
    pub fn observe(
        &mut self,
        from: NodeId,
        sent: Time,
        out: &mut Outbox<M::Message>,
    ) -> Option<FencingToken> {
        if self.machine.carries_clock(None) {
            self.rise_above(sent);
            self.machine.observed(from, sent, out);
        }
        self.fence_if_entered(out)
    }

    /// The local client leaves.
    ///
    /// # Panics
    ///
    /// If the client is not in the critical section: an error of the driver.
    pub fn release(&mut self, out: &mut Outbox<M::Message>) {
        let phase = self.machine.phase();
        assert!(
            phase == Phase::InCs,
            "process {} releases while it is {}; only a process in the critical section can",
            self.me,
            phase.word()
        );
        self.machine.release(out);
    }

    /// Lets a repair change the machine by a hook of [`Inspect`](crate::Inspect).
    pub(crate) fn repair(&mut self, change: impl FnOnce(&mut M)) {
        change(&mut self.machine);
    }

    /// Begins in a view with these requests, the oldest first, if the machine can: else the client
    /// is idle, and its request, if it is one of them, is to be made again.
    pub(crate) fn resume(
        &mut self,
        start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<M::Message>,
    ) {
        let ours = pending.iter().find(|request| request.node == self.me);
        if self.machine.resume(start, pending, out)
            && let Some(ours) = ours
        {
            self.raise_time(ours.time);
        }
    }

    /// Gives the process its id on a ring that has closed over a gap.
    pub(crate) fn close_ring(&mut self, me: NodeId, start: &Start) {
        self.me = me;
        self.machine.close_ring(me, start);
    }

    /// A process around a machine, its clock at this reading.
    pub(crate) fn with_machine(me: NodeId, time: Time, machine: M) -> Self {
        Self { me, time, machine }
    }

    /// Shifts or maps every clock reading of the process, its messages' readings being mapped
    /// alike. For checkers, where states that differ by a shift of all clocks are one.
    pub fn map_times(&mut self, map: &mut dyn FnMut(&mut Time)) {
        map(&mut self.time);
        self.machine.times(map);
    }

    /// Gives this process and all in its state their new names, its messages' being renamed alike.
    /// For checkers, where [`Inspect::is_symmetric`](crate::Inspect::is_symmetric) allows it.
    pub fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        self.machine.rename(renaming);
    }

    fn rise_above(&mut self, sent: Time) {
        self.time = self.time.max(sent.next());
    }

    fn fence_if_entered(&self, out: &Outbox<M::Message>) -> Option<FencingToken> {
        out.entered().then_some(FencingToken(self.time))
    }
}
