//! The bookkeeping of one link: every message once and in order, across reconnects, as long as both
//! ends run.
//!
//! Messages are numbered. They are kept until the other side has acknowledged them, and sent again
//! from the first one it has not received when a connection is made again. A link to another
//! incarnation of the same member is a new link: messages for the earlier one are dropped.
//!
//! Two processes may run as one member: a cloned machine, a copied configuration. So another
//! incarnation than the known one is refused until the known one has closed its connection, which
//! the system does for a process that ends, or has sent nothing for `lost_after`. A connection that
//! this side closed, or that broke, does not show that the process has ended.
//!
//! The other side may have been connected to another incarnation of us meanwhile and dropped its
//! end of the link. So the state that both ends remember has a number, the session. The side that
//! accepts makes a new session when the other side's hello does not name the one that it remembers;
//! the side that dials takes it over, and starts its end anew, as with a restarted member.

use std::{collections::VecDeque, time::Duration};

use crate::{
    Moment,
    member::digest,
    wire::{self, Decoder, Frame, Hello, Message, WireError},
};

/// An acknowledgement is due after so many frames, unless a frame of ours carried one before.
const ACK_EVERY: u64 = 64;

/// The most bytes in one write.
const BATCH: usize = 64 << 10;

/// A link with so many unacknowledged bytes is full, however few messages they are.
const FULL: usize = 64 << 20;

/// With so many unacknowledged bytes nothing more is accepted from the other side, which could send
/// for ever and never receive. A correct one acknowledges at least every heartbeat while it reads;
/// one that reads slowly is disconnected, reports its progress in its next hello, and goes on from
/// there.
const STUCK: usize = 2 * FULL;

/// The most bytes of a message between view layers in one frame.
const PART: usize = 256 << 10;

/// The longest message between view layers.
const LONGEST: usize = 64 << 20;

/// With so many bytes of view layers waiting to be written, further ones are dropped: the other
/// side does not read, and what matters is repeated.
const CONTROL_FULL: usize = 4 << 20;

/// A connection, numbered by the driver; bytes of an older one are ignored.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Connection(pub u64);

#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The other side's incarnation, once its hello has arrived.
    incarnation: Option<u64>,
    /// The number of the state that both ends remember; 0 before the first hello.
    session: u64,
    tag: u32,
    pub(crate) connection: Option<Connection>,
    /// When it was connected or disconnected.
    pub(crate) since: Moment,
    /// The other side has closed the last connection: its process ended, or gave it up.
    closed: bool,
    /// When the last bytes arrived.
    pub(crate) last_received: Moment,
    /// Whether bytes were written since the last heartbeat.
    wrote: bool,
    /// Frames not yet acknowledged, oldest first.
    kept: VecDeque<Box<[u8]>>,
    kept_bytes: usize,
    /// The number of the oldest frame kept.
    first: u64,
    /// The number of kept frames that were written to this connection.
    written: usize,
    /// The number of frames that have arrived.
    received: u64,
    /// The number of the last frame that we have acknowledged.
    acknowledged_upto: u64,
    /// An acknowledgement is sent even without a frame.
    ack_due: bool,
    /// The last of the frames that were dropped instead of sent, until it is acknowledged; else 0.
    skipped: u64,
    /// Whether the other side is still to be sent [`Frame::Skip`] on this connection.
    skip_due: bool,
    /// Frames of the view layer, to be written before all others; lost with the connection.
    control: VecDeque<Box<[u8]>>,
    control_bytes: usize,
    /// The parts of a message of the other side's view layer that have arrived.
    parts: Vec<u8>,
    /// When the view layer is next informed that the other side is heard from.
    pub(crate) next_heard: Moment,
    decoder: Decoder,
}

/// This side's part of a greeting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    /// This side's incarnation.
    pub(crate) incarnation: u64,
    /// Whether it dials; else it accepts.
    pub(crate) dials: bool,
}

/// The result of a greeting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Greeting {
    /// The same incarnation as before, or the first one.
    Continues,
    /// Another incarnation than the known one, or one that has dropped its end of the link:
    /// messages on their way are lost.
    Restarted,
}

impl Link {
    pub(crate) fn new(now: Moment) -> Self {
        Self { first: 1, since: now, ..Self::default() }
    }

    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    pub(crate) fn is_up(&self) -> bool {
        self.connection.is_some()
    }

    /// The other side's incarnation, 0 if it is unknown.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.unwrap_or(0)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The number of the last frame.
    #[cfg(test)]
    pub(crate) fn sent(&self) -> u64 {
        self.first + self.kept.len() as u64 - 1
    }

    /// The number of the last frame that the other side has acknowledged.
    #[cfg(test)]
    pub(crate) fn acknowledged(&self) -> u64 {
        self.first - 1
    }

    /// Whether this incarnation must be refused, since another one still counts as running.
    pub(crate) fn is_taken(&self, now: Moment, incarnation: u64, lost_after: Duration) -> bool {
        let another = self.incarnation.is_some_and(|known| known != incarnation);
        another && !self.closed && now.since(self.last_received) < lost_after
    }

    /// Whether so much is unacknowledged that no new request should be sent.
    pub(crate) fn is_full(&self, messages: usize) -> bool {
        self.kept.len() >= messages || self.kept_bytes >= FULL
    }

    /// The number of unacknowledged messages, and of their bytes.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        (self.kept.len(), self.kept_bytes)
    }

    /// The other side's hello has arrived on this connection.
    pub(crate) fn connect(
        &mut self,
        now: Moment,
        connection: Connection,
        hello: &Hello,
        ours: Ours,
    ) -> Result<Greeting, WireError> {
        let continues =
            self.incarnation == Some(hello.incarnation) && self.session == hello.session;
        let greeting = match self.incarnation {
            Some(_) if !continues => Greeting::Restarted,
            Some(_) | None => Greeting::Continues,
        };
        if continues {
            self.acknowledge(hello.received)?;
        } else {
            let session = if ours.dials { hello.session } else { self.next_session(hello, ours) };
            *self = Self::new(now);
            self.incarnation = Some(hello.incarnation);
            self.session = session;
            self.tag = wire::tag(&hello.cluster, [ours.incarnation, hello.incarnation]);
        }
        self.connection = Some(connection);
        self.closed = false;
        self.since = now;
        self.last_received = now;
        self.written = 0;
        self.acknowledged_upto = 0;
        self.ack_due = true;
        self.skip_due = self.skipped > 0;
        self.clear_control();
        self.decoder = Decoder::default();
        Ok(greeting)
    }

    fn next_session(&self, hello: &Hello, ours: Ours) -> u64 {
        let text = format!("{} {} {}", ours.incarnation, hello.incarnation, self.session);
        digest(text.as_bytes()).max(1)
    }

    /// The connection is over; `closed` if the other side has closed it.
    pub(crate) fn disconnect(&mut self, now: Moment, closed: bool) {
        self.connection = None;
        self.since = now;
        self.closed = closed;
        self.clear_control();
    }

    fn clear_control(&mut self) {
        self.control.clear();
        self.control_bytes = 0;
        self.parts.clear();
    }

    /// Drops the frames that are not acknowledged: they are not sent again. The other side misses
    /// the last messages of the views that this node has left, and nothing of later ones.
    pub(crate) fn skip(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        self.first += self.kept.len() as u64;
        self.kept.clear();
        self.kept_bytes = 0;
        self.written = 0;
        self.skipped = self.first - 1;
        self.skip_due = self.is_up();
    }

    /// Queues a message of the view layer, if the other side is connected.
    pub(crate) fn send_control(&mut self, message: &[u8]) {
        if !self.is_up() || self.control_bytes >= CONTROL_FULL || message.len() > LONGEST {
            return;
        }
        let parts = message.len().div_ceil(PART);
        for (index, part) in message.chunks(PART).enumerate() {
            let frame = wire::encode(self.tag, &Frame::Layer { last: index + 1 == parts, part });
            self.control_bytes += frame.len();
            self.control.push_back(frame);
        }
    }

    /// Takes a part of a message of the other side's view layer; returns the whole message with its
    /// last part.
    pub(crate) fn take_part(
        &mut self,
        last: bool,
        part: &[u8],
    ) -> Result<Option<Vec<u8>>, WireError> {
        if self.parts.len() + part.len() > LONGEST {
            return Err(WireError::Breach("a message about views that is too long"));
        }
        self.parts.extend(part);
        Ok(last.then(|| std::mem::take(&mut self.parts)))
    }

    /// Queues a message. Before the first hello of the other side it is dropped.
    pub(crate) fn send(&mut self, message: Message<'_>) {
        if self.incarnation.is_none() {
            return;
        }
        let number = self.first + self.kept.len() as u64;
        let frame = wire::encode(self.tag, &Frame::Data { number, message });
        self.kept_bytes += frame.len();
        self.kept.push_back(frame);
    }

    /// Whether there is something to write.
    pub(crate) fn has_output(&self) -> bool {
        let frames = self.written < self.kept.len() || !self.control.is_empty();
        self.is_up() && (frames || self.ack_due || self.skip_due)
    }

    /// Appends the bytes to write now; returns whether there were any.
    pub(crate) fn output(&mut self, buffer: &mut Vec<u8>) -> bool {
        if !self.has_output() {
            return false;
        }
        if self.ack_due || self.acknowledged_upto < self.received {
            self.acknowledged_upto = self.received;
            self.ack_due = false;
            buffer.extend(wire::encode(self.tag, &Frame::Ack { upto: self.received }));
        }
        while buffer.len() < BATCH
            && let Some(frame) = self.control.pop_front()
        {
            self.control_bytes -= frame.len();
            buffer.extend(&frame);
        }
        if std::mem::take(&mut self.skip_due) {
            buffer.extend(wire::encode(self.tag, &Frame::Skip { upto: self.skipped }));
        }
        while self.written < self.kept.len() && buffer.len() < BATCH {
            buffer.extend(&self.kept[self.written]);
            self.written += 1;
        }
        self.wrote = true;
        true
    }

    /// Appends bytes that have arrived to the decoder, and returns it: a message is borrowed from
    /// it while it is handled, and handling it may use this link.
    pub(crate) fn input(&mut self, now: Moment, bytes: &[u8]) -> (Decoder, u32) {
        self.last_received = now;
        self.decoder.push(bytes);
        (std::mem::take(&mut self.decoder), self.tag)
    }

    /// Takes back the decoder.
    pub(crate) fn finish_input(&mut self, decoder: Decoder) {
        self.decoder = decoder;
    }

    /// Whether this frame has the next message.
    pub(crate) fn is_next(&self, frame: &Frame<'_>) -> bool {
        matches!(frame, Frame::Data { number, .. } if *number == self.received + 1)
    }

    /// Counts a frame as received; returns the message in it, if it is a new one.
    pub(crate) fn accept<'a>(
        &mut self,
        frame: Frame<'a>,
    ) -> Result<Option<Message<'a>>, WireError> {
        match frame {
            Frame::Ack { upto } => self.acknowledge(upto).map(|()| None),
            // Sent again after a reconnect, since our acknowledgement did not arrive.
            Frame::Data { number, .. } if number <= self.received => Ok(None),
            Frame::Data { number, .. } if number != self.received + 1 => {
                Err(WireError::Gap { expected: self.received + 1, got: number })
            }
            Frame::Data { .. } if self.kept_bytes >= STUCK => {
                Err(WireError::Unacknowledged(self.kept_bytes))
            }
            Frame::Skip { upto } => {
                self.received = self.received.max(upto);
                self.ack_due = true;
                Ok(None)
            }
            Frame::Layer { .. } => Ok(None),
            Frame::Data { number, message } => {
                self.received = number;
                self.ack_due |= self.received - self.acknowledged_upto >= ACK_EVERY;
                Ok(Some(message))
            }
        }
    }

    /// A heartbeat: the other side receives bytes at least this often.
    pub(crate) fn beat(&mut self) {
        self.ack_due |= !self.wrote || self.acknowledged_upto < self.received;
        self.wrote = false;
    }

    fn acknowledge(&mut self, upto: u64) -> Result<(), WireError> {
        if upto >= self.first + self.kept.len() as u64 {
            return Err(WireError::Acknowledged(upto));
        }
        while self.first <= upto {
            let frame = self.kept.pop_front().expect("numbers and frames go together");
            self.kept_bytes -= frame.len();
            self.written = self.written.saturating_sub(1);
            self.first += 1;
        }
        if upto >= self.skipped {
            self.skipped = 0;
            self.skip_due = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    /// Two ends, 0 and 1, and the messages that arrived at each.
    struct Pair {
        ends: [Link; 2],
        connections: u64,
        got: [Vec<u32>; 2],
    }

    const INCARNATIONS: [u64; 2] = [10, 20];

    impl Pair {
        fn connect(&mut self) {
            self.connections += 1;
            // End 1 dials; the answer is made after its hello was handled.
            for (from, to) in [(1, 0), (0, 1)] {
                let hello = Hello {
                    cluster: "c".to_owned(),
                    plan: 0,
                    from: Member(from as u32),
                    to: Member(to as u32),
                    incarnation: INCARNATIONS[from],
                    session: self.ends[from].session(),
                    received: self.ends[from].received(),
                    levels: crate::views::Levels::HERE,
                };
                let ours = Ours { incarnation: INCARNATIONS[to], dials: to == 1 };
                let connection = Connection(self.connections);
                let greeting = self.ends[to].connect(Moment::ZERO, connection, &hello, ours);
                greeting.expect("a greeting that fits");
            }
        }

        /// An end is connected to another incarnation of the other side, and drops its state.
        fn connect_another(&mut self, end: usize) {
            let hello = Hello {
                cluster: "c".to_owned(),
                plan: 0,
                from: Member(1 - end as u32),
                to: Member(end as u32),
                incarnation: 99,
                session: 0,
                received: 0,
                levels: crate::views::Levels::HERE,
            };
            let ours = Ours { incarnation: INCARNATIONS[end], dials: end == 1 };
            let greeting = self.ends[end].connect(Moment::ZERO, Connection(0), &hello, ours);
            assert_eq!(greeting, Ok(Greeting::Restarted));
        }

        fn send(&mut self, from: usize, epoch: u32) {
            self.ends[from].send(Message::Ended { epoch });
        }

        /// Delivers the bytes that `from` writes, or drops them.
        fn carry(&mut self, from: usize, arrives: bool) {
            let mut bytes = Vec::new();
            self.ends[from].output(&mut bytes);
            if !arrives {
                return;
            }
            self.arrive(1 - from, &bytes).expect("frames in order");
        }

        fn arrive(&mut self, to: usize, bytes: &[u8]) -> Result<(), WireError> {
            let (mut decoder, tag) = self.ends[to].input(Moment::ZERO, bytes);
            while let Some(frame) = decoder.next(tag)? {
                match self.ends[to].accept(frame)? {
                    Some(Message::Ended { epoch }) => self.got[to].push(epoch),
                    None => {}
                    Some(other) => panic!("{other:?} was never sent"),
                }
            }
            self.ends[to].finish_input(decoder);
            Ok(())
        }
    }

    #[test]
    fn messages_arrive_once_and_in_order_whichever_bytes_a_connection_drops() {
        let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
        let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
        pair.connect();
        for number in 0..500 {
            pair.send(0, number);
            pair.send(1, number);
            // Some connections break with bytes on them, in one direction or both.
            pair.carry(0, number % 7 != 0);
            pair.carry(1, number % 5 != 0);
            if number % 7 == 0 || number % 5 == 0 {
                pair.connect();
            }
        }
        for end in [0, 1, 0, 1] {
            pair.ends[end].beat();
            pair.carry(end, true);
        }
        let all: Vec<_> = (0..500).collect();
        assert_eq!(pair.got, [all.clone(), all]);
        assert_eq!(pair.ends[0].backlog(), (0, 0));
    }

    #[test]
    fn messages_of_a_peer_that_never_acknowledges_are_refused_until_it_does() {
        let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
        let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
        pair.connect();
        let name = vec![0; 1 << 19];
        while pair.ends[0].kept_bytes < STUCK {
            pair.ends[0].send(Message::Nudge { epoch: 1, name: &name });
        }
        let frame = || Frame::Data { number: 1, message: Message::Ended { epoch: 1 } };
        let stuck = pair.ends[0].accept(frame());
        assert_eq!(stuck, Err(WireError::Unacknowledged(pair.ends[0].kept_bytes)));
        pair.ends[0].accept(Frame::Ack { upto: 1 }).expect("it was sent");
        assert_eq!(pair.ends[0].accept(frame()), Ok(Some(Message::Ended { epoch: 1 })));
    }

    #[test]
    fn a_frame_after_a_gap_is_refused() {
        let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
        let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
        pair.connect();
        pair.send(0, 1);
        let mut lost = Vec::new();
        pair.ends[0].output(&mut lost);
        pair.send(0, 2);
        let mut bytes = Vec::new();
        pair.ends[0].output(&mut bytes);
        let result = pair.arrive(1, &bytes);
        assert_eq!(result, Err(WireError::Gap { expected: 1, got: 2 }));
    }

    #[test]
    fn a_dropped_end_starts_the_link_anew_at_both_ends() {
        // The end that drops its state, and the end that had sent messages.
        for (lost, sender) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
            let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
            pair.connect();
            for number in 0..3 {
                pair.send(sender, number);
            }
            for end in [sender, 1 - sender] {
                pair.ends[end].beat();
                pair.carry(end, true);
            }
            pair.connect_another(lost);
            for number in [7, 8] {
                pair.connect();
                for end in [0, 1] {
                    pair.send(end, number);
                    pair.carry(end, true);
                }
            }
            assert!(pair.got.iter().all(|got| got.ends_with(&[7, 8])), "{:?}", pair.got);
        }
    }

    #[test]
    fn another_incarnation_is_refused_until_the_known_one_has_ended_or_is_silent() {
        let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
        let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
        let lost_after = Duration::from_secs(2);
        let soon = Moment::ZERO.after(Duration::from_secs(1));
        let late = Moment::ZERO.after(Duration::from_secs(2));
        assert!(!pair.ends[0].is_taken(soon, 99, lost_after), "none is known");
        pair.connect();
        let link = &mut pair.ends[0];
        assert!(!link.is_taken(soon, INCARNATIONS[1], lost_after), "it is the known one");
        assert!(link.is_taken(soon, 99, lost_after));
        assert!(!link.is_taken(late, 99, lost_after), "it is silent");
        link.disconnect(soon, false);
        assert!(link.is_taken(soon, 99, lost_after), "a broken connection ends no process");
        link.disconnect(soon, true);
        assert!(!link.is_taken(soon, 99, lost_after));
    }
}
