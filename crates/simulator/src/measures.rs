//! The counters of a run.

use mutua_algorithms::{Message, Time};

use crate::{Histogram, hash::TraceHash, histogram::Total};

/// The first so many messages of each kind are encoded to learn their length; after that one in
/// [`WEIGHED_OF`].
const WEIGHED_FIRST: u64 = 512;
const WEIGHED_OF: u64 = 61;

/// The counters of a run. All but `events`, `entries_in_all` and the hash count only while the run
/// is measured: not during the warm-up, and not while it drains.
#[derive(Debug)]
pub(crate) struct Measures {
    pub(crate) open: bool,
    pub(crate) opened_at: u64,
    pub(crate) closed_at: u64,
    pub(crate) entries: u64,
    pub(crate) entries_in_all: u64,
    /// Of them, those of the warm-up.
    pub(crate) entries_before: u64,
    pub(crate) events: u64,
    pub(crate) messages: u64,
    pub(crate) multicasts: u64,
    /// Of the messages, those that processes sent when their client exited.
    pub(crate) at_exits: u64,
    /// Messages from one region to another.
    pub(crate) far: u64,
    pub(crate) kinds: Vec<KindCount>,
    pub(crate) client_delay: Total,
    pub(crate) sync_delay: Total,
    pub(crate) waiting: Histogram,
    pub(crate) response: Histogram,
    pub(crate) max_bypass: u64,
    pub(crate) time_in_cs: u64,
    pub(crate) nonsense: u64,
    pub(crate) lost: u64,
    /// Messages of the application.
    pub(crate) app_messages: u64,
    pub(crate) hash: TraceHash,
}

/// How often a kind of message was sent, and its length in bytes.
#[derive(Debug)]
pub(crate) struct KindCount {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    weighed: u64,
    bytes: u64,
}

impl KindCount {
    /// The bytes of all of them, estimated from the mean of those that were encoded.
    pub(crate) fn total_bytes(&self) -> f64 {
        if self.weighed == 0 {
            return 0.0;
        }
        self.count as f64 * self.bytes as f64 / self.weighed as f64
    }
}

impl Measures {
    pub(crate) fn new() -> Self {
        Self {
            open: false,
            opened_at: 0,
            closed_at: 0,
            entries: 0,
            entries_in_all: 0,
            entries_before: 0,
            events: 0,
            messages: 0,
            multicasts: 0,
            at_exits: 0,
            far: 0,
            kinds: Vec::new(),
            client_delay: Total::default(),
            sync_delay: Total::default(),
            waiting: Histogram::default(),
            response: Histogram::default(),
            max_bypass: 0,
            time_in_cs: 0,
            nonsense: 0,
            lost: 0,
            app_messages: 0,
            hash: TraceHash::new(),
        }
    }

    pub(crate) fn open(&mut self, now: u64) {
        self.open = true;
        self.entries_before = self.entries_in_all;
        self.opened_at = now;
    }

    pub(crate) fn close(&mut self, now: u64) {
        if self.open {
            self.open = false;
            self.closed_at = now;
        }
    }

    /// Counts a message to so many recipients and returns the number of its kind.
    pub(crate) fn sends<M: Message>(&mut self, message: &M, clock: Time, recipients: usize) -> u8 {
        let index = self.kind(message.kind());
        if !self.open {
            return index as u8;
        }
        let recipients = recipients as u64;
        self.messages += recipients;
        self.multicasts += 1;
        let kind = &mut self.kinds[index];
        kind.count += recipients;
        if kind.weighed < WEIGHED_FIRST || kind.count.is_multiple_of(WEIGHED_OF) {
            kind.weighed += 1;
            kind.bytes += length(message, clock);
        }
        index as u8
    }

    /// The bytes of all messages.
    pub(crate) fn bytes(&self) -> f64 {
        // From 0: an empty sum of floating point numbers is -0.
        self.kinds.iter().fold(0.0, |sum, kind| sum + kind.total_bytes())
    }

    /// The number of a kind, by order of first appearance.
    fn kind(&mut self, name: &'static str) -> usize {
        // A kind's text is nearly always at the same address, so the texts are rarely compared.
        let same = |known: &KindCount| std::ptr::eq(known.name, name) || known.name == name;
        if let Some(index) = self.kinds.iter().position(same) {
            return index;
        }
        self.kinds.push(KindCount { name, count: 0, weighed: 0, bytes: 0 });
        self.kinds.len() - 1
    }

    /// Counts an event and adds it to the hash.
    pub(crate) fn event(&mut self, event: [u64; 4]) {
        self.events += 1;
        self.hash.add(event);
    }
}

/// The bytes of a message with its clock reading, as a node encodes them; the frame around them is
/// the node's and not counted.
fn length<M: Message>(message: &M, clock: Time) -> u64 {
    postcard::experimental::serialized_size(&(message, clock))
        .expect("a message of plain data can be encoded") as u64
}
