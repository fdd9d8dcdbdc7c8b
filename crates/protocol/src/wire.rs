//! The bytes between two nodes: a hello on each new connection, then frames.
//!
//! A frame is its length (4 bytes), the tag of the session (4 bytes: cluster, protocol version and
//! both incarnations, so that no frame of another incarnation is accepted), and its body. A message
//! about locks names the view it belongs to. Bodies are encoded by postcard.

use mutua_algorithms::Time;
use serde::{Deserialize, Serialize};

use crate::{Member, member::digest, views::Levels};

/// The version of the hello and of frames; nodes of different versions refuse each other. What
/// frames say may grow without it: see [`Levels`].
pub const VERSION: u8 = 3;

/// The longest name of a lock, in bytes.
pub const MAX_NAME: usize = 4096;

/// The longest body of a frame.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// The longest hello.
const MAX_HELLO: usize = 1024;

const MAGIC: &[u8; 4] = b"MTUA";

/// The first bytes of an answer that refuses a hello.
const REFUSAL: &[u8; 4] = b"MTUR";

/// The longest text in a refusal.
const MAX_REASON: usize = 200;

/// Length and tag.
const HEADER: usize = 8;

/// The first message of either side on a connection.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hello {
    /// The cluster's name.
    pub cluster: String,
    /// A digest of members and rules, which must be equal.
    pub(crate) plan: u64,
    /// The sender.
    pub from: Member,
    /// The receiver.
    pub to: Member,
    /// The sender's incarnation.
    pub(crate) incarnation: u64,
    /// The session of the link that the sender remembers, 0 if none.
    pub(crate) session: u64,
    /// The number of frames of that session that have arrived.
    pub(crate) received: u64,
    /// The levels that the sender can use.
    pub(crate) levels: Levels,
}

/// Why a node refuses a hello.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
pub enum HelloRefused {
    /// Another process runs as the sender's member.
    #[error("another process runs as this member{}", at(address))]
    Conflict {
        /// The address of that process, empty if it is unknown.
        address: String,
    },
    /// Any other reason.
    #[error("refused: {why}")]
    Other {
        /// The reason, as a sentence.
        why: String,
    },
    /// A later process than the sender has run as its member.
    #[error("a later process has run as this member")]
    Outdated {
        /// The incarnation of that process.
        known: u64,
    },
    /// The sender's member was removed from the cluster.
    #[error("this member was removed from the cluster")]
    Removed,
}

fn at(address: &str) -> String {
    if address.is_empty() { String::new() } else { format!(", connected from {address}") }
}

/// Shortens a text to at most so many bytes, at the end of a character.
fn truncate(text: &mut String, most: usize) {
    while text.len() > most {
        text.pop();
    }
}

impl HelloRefused {
    /// The refusal as bytes, to send instead of a hello.
    pub fn encode(mut self) -> Vec<u8> {
        match &mut self {
            Self::Conflict { address: text } | Self::Other { why: text } => {
                truncate(text, MAX_REASON);
            }
            Self::Outdated { .. } | Self::Removed => {}
        }
        enveloped(REFUSAL, &self)
    }
}

fn enveloped(magic: &[u8], value: &impl Serialize) -> Vec<u8> {
    let body = postcard::to_allocvec(value).expect("plain data");
    let length = u16::try_from(body.len()).expect("a hello is short");
    let mut bytes = magic.to_vec();
    bytes.push(VERSION);
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Why received bytes are refused. Close the connection they came on.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side is not a node.
    #[error("not a Mutua node")]
    NoNode,
    /// It is a node of another version.
    #[error("its protocol version is {theirs}, this node's is {VERSION}")]
    Version {
        /// Its version.
        theirs: u8,
    },
    /// The frame is too long.
    #[error("a frame of {length} bytes; at most {MAX_BODY} are allowed")]
    TooLong {
        /// The length in its header.
        length: usize,
    },
    /// The frame belongs to another session.
    #[error("a frame of another cluster or incarnation")]
    Tag,
    /// The body cannot be decoded.
    #[error("a frame that cannot be decoded")]
    Garbled,
    /// Frames before this one did not arrive.
    #[error("frame {got} arrived where {expected} was due")]
    Gap {
        /// The next number due.
        expected: u64,
        /// The number that arrived.
        got: u64,
    },
    /// The clock exceeds the range of clocks.
    #[error("a clock of {0}, which is not below 2^63")]
    Clock(u64),
    /// No correct member sends this: the message is dropped.
    #[error("it violates the protocol: {0}")]
    Breach(&'static str),
    /// Too many messages came for a view that is not installed here yet. None is lost: it sends
    /// them again.
    #[error(
        "too many messages for a view that is not installed here yet; it may send them again later"
    )]
    Early,
    /// It sends and does not acknowledge what it receives. No message is lost.
    #[error("it has not acknowledged {0} bytes; it may go on when it has")]
    Unacknowledged(usize),
    /// It acknowledges a frame that was never sent.
    #[error("frame {0} is acknowledged and was never sent")]
    Acknowledged(u64),
    /// It refuses our hello.
    #[error(transparent)]
    Refused(HelloRefused),
}

impl Hello {
    /// The hello as bytes.
    pub fn encode(&self) -> Vec<u8> {
        enveloped(MAGIC, self)
    }

    /// Decodes a hello at the beginning of `bytes`: the hello and its length in bytes, or `None`
    /// while more bytes are needed. A refusal in its place is [`WireError::Refused`].
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let seen = bytes.len().min(MAGIC.len());
        let is_refusal = bytes[..seen] != MAGIC[..seen];
        if is_refusal && bytes[..seen] != REFUSAL[..seen] {
            return Err(WireError::NoNode);
        }
        let Some(&[version, low, high]) = bytes.get(4..7) else { return Ok(None) };
        if version != VERSION {
            return Err(WireError::Version { theirs: version });
        }
        let length = usize::from(u16::from_le_bytes([low, high]));
        if length > MAX_HELLO {
            return Err(WireError::TooLong { length });
        }
        let Some(body) = bytes.get(7..7 + length) else { return Ok(None) };
        if is_refusal {
            return Err(WireError::Refused(read(body)?));
        }
        let hello = read(body)?;
        Ok(Some((hello, 7 + length)))
    }
}

/// The body of a frame.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Frame<'a> {
    /// A message, numbered from 1 without gaps.
    Data {
        number: u64,
        #[serde(borrow)]
        message: Message<'a>,
    },
    /// Every frame up to this number has arrived. Also a heartbeat.
    Ack { upto: u64 },
    /// The frames up to this number, as far as they have not arrived, do not come: they were of
    /// views that the sender has left.
    Skip { upto: u64 },
    /// A part of a message between view layers, in order on a connection; the last part ends it.
    /// Not numbered: it is lost with the connection, and its sender repeats what matters.
    Layer { last: bool, part: &'a [u8] },
}

/// The messages between nodes, each delivered once and in order.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Message<'a> {
    /// A message of a lock's algorithm.
    Lock { epoch: u32, name: &'a [u8], sent: Time, body: &'a [u8] },
    /// A client waits for this lock, whose algorithm moves by itself: do not pace its messages.
    Nudge { epoch: u32, name: &'a [u8] },
    /// Query: does a client of the receiver hold this lock, or wait for it if waiters count?
    Query { epoch: u32, id: u64, name: &'a [u8], waiting_counts: bool },
    /// Whether one does.
    QueryReply { epoch: u32, id: u64, busy: bool },
    /// The state of these names can be removed at the sender, their home.
    Cleanup { epoch: u32, round: u64, names: Vec<&'a [u8]> },
    /// The sender's vote on a round of idle cleanup: the indices of the names that it keeps. It
    /// sends nothing for the other names until all have voted twice.
    Vote { epoch: u32, home: Member, round: u64, second: bool, kept: Vec<u32>, clock: Time },
    /// A view is to be formed: leave yours and report.
    Gather { round: u64 },
    /// The sender's clients hold these locks; more follow, or the report.
    Holds {
        round: u64,
        #[serde(borrow)]
        names: Vec<&'a [u8]>,
    },
    /// The end of a report: the highest epoch that the sender knows, and the incarnation of every
    /// member that it is linked to, its own included.
    Report { round: u64, epoch: u32, incarnations: Vec<u64> },
    /// These locks are held when the next view begins; more follow, or the view.
    Held {
        round: u64,
        #[serde(borrow)]
        names: Vec<(Member, &'a [u8])>,
    },
    /// The decided view, and the incarnations of its members.
    Install { round: u64, epoch: u32, incarnations: Vec<u64> },
    /// The sender has left the view of this epoch.
    Ended { epoch: u32 },
    /// A call of the program around the node, in no view.
    Call { id: u64, body: &'a [u8] },
    /// The reply to a call.
    Reply { id: u64, body: &'a [u8] },
}

impl Frame<'_> {
    /// The clock that it carries, if any.
    fn clock(&self) -> Option<Time> {
        match self {
            Self::Data { message: Message::Lock { sent: clock, .. }, .. }
            | Self::Data { message: Message::Vote { clock, .. }, .. } => Some(*clock),
            Self::Data { .. } | Self::Ack { .. } | Self::Skip { .. } | Self::Layer { .. } => None,
        }
    }
}

/// The tag of a session: the same from both ends.
pub(crate) fn tag(cluster: &str, incarnations: [u64; 2]) -> u32 {
    let [low, high] = [incarnations[0].min(incarnations[1]), incarnations[0].max(incarnations[1])];
    let whole = digest(format!("{VERSION} {cluster} {low} {high}").as_bytes());
    (whole ^ (whole >> 32)) as u32
}

/// The frame as bytes.
pub(crate) fn encode(tag: u32, frame: &Frame<'_>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend([0; HEADER]);
    bytes = postcard::to_extend(frame, bytes).expect("a frame is plain data");
    let length = u32::try_from(bytes.len() - HEADER).expect("a frame is bounded");
    debug_assert!(length as usize <= MAX_BODY, "a frame of {length} bytes");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&tag.to_le_bytes());
    bytes.into()
}

/// Cuts the bytes that arrive into frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Appends bytes that have arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend(bytes);
    }

    /// The next frame, if it is complete.
    pub(crate) fn next(&mut self, tag: u32) -> Result<Option<Frame<'_>>, WireError> {
        let rest = &self.bytes[self.read..];
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, e, f, g, h] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > MAX_BODY {
            return Err(WireError::TooLong { length });
        }
        if u32::from_le_bytes([e, f, g, h]) != tag {
            return Err(WireError::Tag);
        }
        let Some(body) = rest.get(HEADER..HEADER + length) else { return Ok(None) };
        self.read += HEADER + length;
        let frame: Frame<'_> = read(body)?;
        match frame.clock() {
            Some(clock) if clock.number() >= Time::NUMBERS => Err(WireError::Clock(clock.number())),
            Some(_) | None => Ok(Some(frame)),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok(_) | Err(_) => Err(WireError::Garbled),
    }
}

#[cfg(test)]
mod tests;
