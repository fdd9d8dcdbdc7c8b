//! Messages in frames: the fast way between a client and its node.
//!
//! gRPC serves every language, at the price of HTTP/2. Mutua's own clients speak the same messages
//! ([`v1::SessionRequest`] and [`v1::SessionReply`]) on the same socket in frames: four bytes of
//! length, little endian, and the message. The first bytes of a connection tell the two apart: a
//! client that speaks frames begins with [`MAGIC`] and the versions that it knows, and the node
//! replies with the version to use and a frame that describes it. An older node, or an etcd, ends
//! such a connection; the client then uses gRPC.
//!
//! [`v1::SessionRequest`]: crate::proto::v1::SessionRequest
//! [`v1::SessionReply`]: crate::proto::v1::SessionReply

mod begin;
mod socket;
#[cfg(test)]
mod tests;

pub use socket::Socket;

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use prost::Message;
use tokio::sync::Notify;

/// The first bytes of a connection that speaks frames. HTTP begins with a letter.
pub const MAGIC: [u8; 6] = *b"\xb5mutua";

/// The versions that this program speaks.
pub const VERSIONS: std::ops::RangeInclusive<u8> = 1..=1;

/// The length of either side's beginning: [`MAGIC`] and two bytes.
pub const BEGINNING: usize = 8;

/// The longest message. A request has a name, and an `Open` the locks to reclaim.
const LONGEST: usize = 1 << 20;

/// A receiver that leaves this much unread is given up.
const MOST_UNREAD: usize = 4 << 20;

/// Why a connection does not speak frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// The other side speaks something else.
    #[error("the other side does not speak frames")]
    Other,
    /// There is no version that both sides know.
    #[error("no common version: the other side speaks {0} to {1}")]
    Version(u8, u8),
}

/// A client's beginning: the versions that it knows.
pub fn client_beginning() -> [u8; BEGINNING] {
    beginning(*VERSIONS.start(), *VERSIONS.end())
}

fn beginning(one: u8, two: u8) -> [u8; BEGINNING] {
    let mut bytes = [0; BEGINNING];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    (bytes[BEGINNING - 2], bytes[BEGINNING - 1]) = (one, two);
    bytes
}

fn versions(bytes: [u8; BEGINNING]) -> Result<(u8, u8), BeginError> {
    let [magic @ .., one, two] = bytes;
    if magic == MAGIC { Ok((one, two)) } else { Err(BeginError::Other) }
}

/// A node's reply to a client's beginning: the version to use twice, or, with the error, the
/// versions that it knows.
///
/// # Errors
///
/// See [`BeginError`]. With [`BeginError::Version`] the reply is to be sent all the same.
pub fn node_beginning(client: [u8; BEGINNING]) -> Result<[u8; BEGINNING], BeginError> {
    let (oldest, newest) = versions(client)?;
    let version = newest.min(*VERSIONS.end());
    if oldest <= version && VERSIONS.contains(&version) {
        Ok(beginning(version, version))
    } else {
        Err(BeginError::Version(oldest, newest))
    }
}

/// The node's refusal: the versions that it knows, which are never one twice.
pub fn refusal() -> [u8; BEGINNING] {
    beginning(0, *VERSIONS.end())
}

/// Reads a node's reply to [`client_beginning`].
///
/// # Errors
///
/// See [`BeginError`].
pub fn check_node(node: [u8; BEGINNING]) -> Result<(), BeginError> {
    match versions(node)? {
        (one, two) if one == two && VERSIONS.contains(&one) => Ok(()),
        (one, two) => Err(BeginError::Version(one, two)),
    }
}

/// Takes messages out of the bytes that have arrived.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// How many of them are taken.
    taken: usize,
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it has arrived.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the bytes are not a message. The connection is of no use from then on.
    pub fn message<M: Message + Default>(&mut self) -> io::Result<Option<M>> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST {
            return Err(invalid(format!("a message of {length} bytes is too long")));
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = M::decode(message).map_err(|error| invalid(error.to_string()))?;
        self.taken += 4 + length;
        if self.taken > LONGEST {
            // Rarely, since all bytes are mostly taken before more arrive.
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        Ok(Some(message))
    }
}

/// Adds a message in its frame.
fn encode(message: &impl Message, bytes: &mut Vec<u8>) {
    let length = message.encoded_len();
    // Longer ones are refused by the receiver; no message of ours comes near.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    // A vector grows as needed.
    let _ = message.encode(bytes);
}

/// A connection that speaks frames. Any thread may send; one task receives.
#[derive(Debug)]
pub struct Frames {
    socket: Socket,
    out: Mutex<Out>,
    /// The socket does not accept more bytes now: the receiving task writes the rest.
    blocked: Notify,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    written: usize,
}

impl Frames {
    /// A connection on which both sides have begun.
    pub fn new(socket: Socket) -> Self {
        let closed = AtomicBool::new(false);
        Self { socket, out: Mutex::default(), blocked: Notify::new(), closed }
    }

    /// Sends a message at once, in the caller's thread, and never blocks. That the connection has
    /// ended is noticed by its receiver.
    pub fn send(&self, message: &impl Message) {
        let mut out = self.lock();
        encode(message, &mut out.bytes);
        self.write(&mut out);
    }

    /// Adds a message that [`flush`](Self::flush) sends.
    pub fn queue(&self, message: &impl Message) {
        encode(message, &mut self.lock().bytes);
    }

    /// Sends what was queued.
    pub fn flush(&self) {
        let mut out = self.lock();
        if !out.bytes.is_empty() {
            self.write(&mut out);
        }
    }

    /// Ends the connection; its receiver notices.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.socket.shut_down();
        self.blocked.notify_one();
    }

    /// The next message; `None` at the end of the connection. It may be cancelled and called again.
    ///
    /// # Errors
    ///
    /// The system's, or `InvalidData` for bytes that are not a message.
    pub async fn receive<M: Message + Default>(
        &self,
        decoder: &mut Decoder,
    ) -> io::Result<Option<M>> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = decoder.message()? {
                return Ok(Some(message));
            }
            if self.closed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.socket.try_read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => decoder.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                Err(error) => return Err(error),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes as much as is accepted now.
    fn write(&self, out: &mut Out) {
        loop {
            if out.written == out.bytes.len() {
                out.bytes.clear();
                out.written = 0;
                return;
            }
            match self.socket.try_write(&out.bytes[out.written..]) {
                Ok(count) => out.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if out.bytes.len() - out.written > MOST_UNREAD {
                        // The receiver does not read.
                        self.close();
                    }
                    return self.blocked.notify_one();
                }
                Err(_) => return self.close(),
            }
        }
    }

    /// Waits for bytes, and writes meanwhile what was not accepted.
    async fn wait(&self) -> io::Result<()> {
        let blocked = !self.lock().bytes.is_empty();
        if blocked {
            // Both, or two sides that wait for each other to read would wait for ever.
            self.socket.ready().await?;
            self.write(&mut self.lock());
            return Ok(());
        }
        tokio::select! {
            ready = self.socket.readable() => ready,
            () = self.blocked.notified() => Ok(()),
        }
    }
}
