//! What travels between two nodes: a hello on each new connection, then frames.
//!
//! A frame is its length (4 bytes), the tag of the session (4 bytes: cluster, protocol version and
//! both incarnations, so that nothing of another life is ever taken for this one), and its body.
//! What is about locks names the view it belongs to. The bodies are postcard's.

use mutua_algorithms::Time;
use serde::{Deserialize, Serialize};

use crate::{Member, member::digest};

/// The version of all this; nodes of different versions do not speak.
pub const VERSION: u8 = 1;

/// The longest name of a lock, in bytes.
pub const MAX_NAME: usize = 4096;

/// The longest body of a frame.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// The longest hello.
const MAX_HELLO: usize = 1024;

/// Clocks are below this, epoch and count together; the next one must fit too.
const CLOCKS: u64 = 1 << 63;

const MAGIC: &[u8; 4] = b"MTUA";

/// Length and tag.
const HEADER: usize = 8;

/// The first thing either side says on a connection.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hello {
    /// The cluster's name.
    pub cluster: String,
    /// A number that members with the same rules share.
    pub(crate) plan: u64,
    /// Who speaks.
    pub from: Member,
    /// To whom.
    pub to: Member,
    /// Which life of the speaker this is.
    pub(crate) incarnation: u64,
    /// The life of the other that the speaker has met, 0 if none.
    pub(crate) knows: u64,
    /// How many frames of that life have arrived.
    pub(crate) received: u64,
}

/// Why bytes are refused. The connection they came on is of no use any more.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side is no node of ours.
    #[error("it does not speak Mutua's protocol")]
    NoNode,
    /// It is one, of another version.
    #[error("it speaks version {theirs} of the protocol, this node speaks {VERSION}")]
    Version {
        /// Its version.
        theirs: u8,
    },
    /// A length beyond all bounds.
    #[error("a frame of {length} bytes; at most {MAX_BODY} are allowed")]
    TooLong {
        /// What it said.
        length: usize,
    },
    /// The frame belongs to another session.
    #[error("a frame of another cluster or incarnation")]
    Tag,
    /// The body is not what it should be.
    #[error("a frame that cannot be read")]
    Garbled,
    /// Frames are missing before this one.
    #[error("frame {got} arrived where {expected} was due")]
    Gap {
        /// The next number.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// A clock that no node can have.
    #[error("a clock of {0}; they end at 2^63")]
    Clock(u64),
    /// What no honest member says: the message is dropped.
    #[error("it breaks the protocol: {0}")]
    Breach(&'static str),
    /// It is ahead of us by more than we keep; nothing is lost, it sends all of it again.
    #[error("too much has come for a view that is not there yet; it may send it again later")]
    Early,
    /// It goes on speaking and does not say that our answers have come; nothing is lost either.
    #[error("it has not acknowledged {0} bytes; it may go on when it has")]
    Unacknowledged(usize),
    /// It acknowledges what was never sent.
    #[error("frame {0} is acknowledged and was never sent")]
    Acknowledged(u64),
}

impl Hello {
    /// The hello as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_allocvec(self).expect("a hello is plain data");
        let length = u16::try_from(body.len()).expect("a hello is short");
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        bytes.extend(length.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    /// Reads a hello from the beginning of what has arrived: it and its length in bytes, or nothing
    /// while more is needed.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
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
        let hello = read(body)?;
        Ok(Some((hello, 7 + length)))
    }
}

/// What a frame says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Frame<'a> {
    /// A message, numbered from 1 without gaps.
    Data {
        number: u64,
        #[serde(borrow)]
        message: Message<'a>,
    },
    /// Everything up to this number has arrived. Also a sign of life.
    Ack { upto: u64 },
}

/// What nodes say to each other, each exactly once and in order.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Message<'a> {
    /// A lock's algorithm speaks.
    Lock { epoch: u32, name: &'a [u8], sent: Time, body: &'a [u8] },
    /// Somebody wants this lock, whose algorithm moves by itself: do not dawdle.
    Nudge { epoch: u32, name: &'a [u8] },
    /// Is anybody of yours inside, or waiting too?
    Ask { epoch: u32, id: u64, name: &'a [u8], waiting_counts: bool },
    /// Whether somebody is.
    Answer { epoch: u32, id: u64, busy: bool },
    /// Of these names everything may be forgotten, as far as I am concerned.
    Forget { epoch: u32, round: u64, names: Vec<&'a [u8]> },
    /// Of the names of that round, by their places, I cannot forget these; I say nothing of the
    /// others until all have spoken twice.
    Vote { epoch: u32, home: Member, round: u64, second: bool, kept: Vec<u32>, clock: Time },
    /// A new view is wanted: leave yours and say what you are inside.
    Gather { round: u64 },
    /// I am inside these; more follow, or the report.
    Inside {
        round: u64,
        #[serde(borrow)]
        names: Vec<&'a [u8]>,
    },
    /// That was all; the highest epoch that I know.
    Report { round: u64, epoch: u32 },
    /// In the next view these are inside; more follow, or the view.
    Held {
        round: u64,
        #[serde(borrow)]
        names: Vec<(Member, &'a [u8])>,
    },
    /// That was all: the view.
    Install { round: u64, epoch: u32 },
    /// I have left the view of this epoch.
    Ended { epoch: u32 },
    /// A question of the shell's, in no view.
    Call { id: u64, body: &'a [u8] },
    /// Its answer.
    Reply { id: u64, body: &'a [u8] },
}

impl Frame<'_> {
    /// The clock that it carries, if any.
    fn clock(&self) -> Option<Time> {
        match self {
            Self::Data { message: Message::Lock { sent: clock, .. }, .. }
            | Self::Data { message: Message::Vote { clock, .. }, .. } => Some(*clock),
            Self::Data { .. } | Self::Ack { .. } => None,
        }
    }
}

/// The tag of a session: the same from both ends.
pub(crate) fn tag(cluster: &str, lives: [u64; 2]) -> u32 {
    let [low, high] = [lives[0].min(lives[1]), lives[0].max(lives[1])];
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

/// Cuts what arrives into frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Takes in what has arrived.
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
            Some(clock) if clock.number() >= CLOCKS => Err(WireError::Clock(clock.number())),
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
