//! The bookkeeping of one link: every message once and in order, across reconnects, as long as
//! both ends live.
//!
//! Messages are numbered. They are kept until the other side has acknowledged them, and sent again
//! from the first one it has not seen when a connection comes back. A link to another life of the
//! same member is a new link: what was meant for the dead one is dropped.

use std::collections::VecDeque;

use crate::{
    Moment,
    wire::{self, Decoder, Frame, Hello, Message, WireError},
};

/// After so many frames an acknowledgement is due, if no frame of ours has carried one before.
const ACK_EVERY: u64 = 64;

/// How much goes into one write; more waits for the next.
const BATCH: usize = 64 << 10;

/// So many bytes that wait to be acknowledged are enough, however few messages they are.
const FULL: usize = 64 << 20;

/// With so many no more is taken in from the other side, which could go on asking and never hear
/// our answers. An honest one acknowledges at least every heartbeat while it reads; one that reads
/// slowly is disconnected, says in its next hello how far it has come, and goes on from there.
const STUCK: usize = 2 * FULL;

/// A connection of the shell's, numbered by it; what comes from an older one is ignored.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Connection(pub u64);

#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The other side's life, once it has said hello.
    life: Option<u64>,
    tag: u32,
    pub(crate) connection: Option<Connection>,
    /// Since when it is up or down.
    pub(crate) since: Moment,
    /// When something last arrived.
    pub(crate) heard: Moment,
    /// Whether something has been written since the last heartbeat.
    spoke: bool,
    /// Frames not yet acknowledged, oldest first.
    kept: VecDeque<Box<[u8]>>,
    kept_bytes: usize,
    /// The number of the oldest frame kept.
    first: u64,
    /// How many of the frames kept have been written to this connection.
    written: usize,
    /// How many frames have arrived.
    received: u64,
    /// Up to which number we have told the other side so.
    told: u64,
    /// An acknowledgement goes out even if nothing else does.
    ack_due: bool,
    decoder: Decoder,
}

/// What a greeting means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Greeting {
    /// The same life as before, or the first one.
    Continues,
    /// Another life than the one known: that one is dead.
    Restarted,
}

impl Link {
    pub(crate) fn new(now: Moment) -> Self {
        Self { first: 1, since: now, ..Self::default() }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.connection.is_some()
    }

    /// The life of the other side that we know, 0 if none.
    pub(crate) fn life(&self) -> u64 {
        self.life.unwrap_or(0)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The number of the last frame.
    #[cfg(test)]
    pub(crate) fn sent(&self) -> u64 {
        self.first + self.kept.len() as u64 - 1
    }

    /// Whether so much waits to be acknowledged that no more should be begun.
    pub(crate) fn is_full(&self, messages: usize) -> bool {
        self.kept.len() >= messages || self.kept_bytes >= FULL
    }

    /// Messages and bytes waiting to be acknowledged.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        (self.kept.len(), self.kept_bytes)
    }

    /// The other side is there, on this connection.
    pub(crate) fn connect(
        &mut self,
        now: Moment,
        connection: Connection,
        hello: &Hello,
        our_life: u64,
    ) -> Result<Greeting, WireError> {
        let greeting = match self.life {
            Some(life) if life != hello.incarnation => Greeting::Restarted,
            Some(_) | None => Greeting::Continues,
        };
        if self.life != Some(hello.incarnation) {
            *self = Self::new(now);
            self.life = Some(hello.incarnation);
            self.tag = wire::tag(&hello.cluster, [our_life, hello.incarnation]);
        }
        self.acknowledge(if hello.knows == our_life { hello.received } else { 0 })?;
        self.connection = Some(connection);
        self.since = now;
        self.heard = now;
        self.written = 0;
        self.told = 0;
        self.ack_due = true;
        self.decoder = Decoder::default();
        Ok(greeting)
    }

    pub(crate) fn disconnect(&mut self, now: Moment) {
        self.connection = None;
        self.since = now;
    }

    /// Takes a message to deliver. To nobody yet met there is nothing to say.
    pub(crate) fn send(&mut self, message: Message<'_>) {
        if self.life.is_none() {
            return;
        }
        let number = self.first + self.kept.len() as u64;
        let frame = wire::encode(self.tag, &Frame::Data { number, message });
        self.kept_bytes += frame.len();
        self.kept.push_back(frame);
    }

    /// Whether there is something to write.
    pub(crate) fn has_output(&self) -> bool {
        self.is_up() && (self.written < self.kept.len() || self.ack_due)
    }

    /// Appends what is to be written now; says whether there was anything.
    pub(crate) fn output(&mut self, buffer: &mut Vec<u8>) -> bool {
        if !self.has_output() {
            return false;
        }
        if self.ack_due || self.told < self.received {
            self.told = self.received;
            self.ack_due = false;
            buffer.extend(wire::encode(self.tag, &Frame::Ack { upto: self.received }));
        }
        while self.written < self.kept.len() && buffer.len() < BATCH {
            buffer.extend(&self.kept[self.written]);
            self.written += 1;
        }
        self.spoke = true;
        true
    }

    /// Takes in what has arrived, and hands out the decoder: a message is borrowed from it while it
    /// is handled, and handling it may use this link.
    pub(crate) fn input(&mut self, now: Moment, bytes: &[u8]) -> (Decoder, u32) {
        self.heard = now;
        self.decoder.push(bytes);
        (std::mem::take(&mut self.decoder), self.tag)
    }

    /// Takes back the decoder.
    pub(crate) fn finish_input(&mut self, decoder: Decoder) {
        self.decoder = decoder;
    }

    /// Whether this frame brings a message that has not been here before.
    pub(crate) fn is_next(&self, frame: &Frame<'_>) -> bool {
        matches!(frame, Frame::Data { number, .. } if *number == self.received + 1)
    }

    /// Takes note of a frame; the message in it, if it is a new one.
    pub(crate) fn accept<'a>(
        &mut self,
        frame: Frame<'a>,
    ) -> Result<Option<Message<'a>>, WireError> {
        match frame {
            Frame::Ack { upto } => self.acknowledge(upto).map(|()| None),
            // Sent again after a reconnect, since our acknowledgement was lost.
            Frame::Data { number, .. } if number <= self.received => Ok(None),
            Frame::Data { number, .. } if number != self.received + 1 => {
                Err(WireError::Gap { expected: self.received + 1, got: number })
            }
            Frame::Data { .. } if self.kept_bytes >= STUCK => {
                Err(WireError::Unacknowledged(self.kept_bytes))
            }
            Frame::Data { number, message } => {
                self.received = number;
                self.ack_due |= self.received - self.told >= ACK_EVERY;
                Ok(Some(message))
            }
        }
    }

    /// A heartbeat: the other side hears from us at least this often.
    pub(crate) fn beat(&mut self) {
        self.ack_due |= !self.spoke || self.told < self.received;
        self.spoke = false;
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    /// Two ends, 0 and 1, and what is on the way to each.
    struct Pair {
        ends: [Link; 2],
        connections: u64,
        got: [Vec<u32>; 2],
    }

    const LIVES: [u64; 2] = [10, 20];

    impl Pair {
        fn connect(&mut self) {
            self.connections += 1;
            let hello = |from: usize| Hello {
                cluster: "c".to_owned(),
                plan: 0,
                from: Member(from as u32),
                to: Member(1 - from as u32),
                incarnation: LIVES[from],
                knows: self.ends[from].life(),
                received: self.ends[from].received(),
            };
            let hellos = [hello(0), hello(1)];
            for end in [0, 1] {
                let connection = Connection(self.connections);
                self.ends[end]
                    .connect(Moment::ZERO, connection, &hellos[1 - end], LIVES[end])
                    .expect("a greeting that fits");
            }
        }

        fn send(&mut self, from: usize, epoch: u32) {
            self.ends[from].send(Message::Ended { epoch });
        }

        /// Carries over what `from` has to say, or loses it.
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
    fn messages_arrive_once_and_in_order_whatever_is_lost_with_a_connection() {
        let ends = [Link::new(Moment::ZERO), Link::new(Moment::ZERO)];
        let mut pair = Pair { ends, connections: 0, got: [vec![], vec![]] };
        pair.connect();
        for number in 0..500 {
            pair.send(0, number);
            pair.send(1, number);
            // Some connections die with what is on them, in one direction or both.
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
    fn who_never_acknowledges_is_not_listened_to_until_it_does() {
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
}
