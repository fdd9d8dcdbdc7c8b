//! The writing end of a connection.

use std::{
    io,
    sync::{
        Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mutua_protocol::{Connection, Member, Moment};
use tokio::sync::Notify;

use crate::{driver::Driver, transport::WriteHalf};

/// After a pause as long as this, a caller with something to send writes it itself, which saves
/// waking a task. More often it is left to the connection's task, which writes what has gathered in
/// one piece: a token and the request that follows it at once travel together, and arrive together.
const LULL: Duration = Duration::from_millis(2);

/// Writes to a connection, and wakes its tasks.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The member at the other end.
    peer: Member,
    connection: Connection,
    writer: WriteHalf,
    out: Mutex<Out>,
    /// Notified when there are bytes to write.
    output: Notify,
    /// Tasks that were woken by a grant run before the next write.
    after_others: AtomicBool,
    /// Notified when the connection is to be closed.
    pub(crate) close: Notify,
}

#[derive(Debug, Default)]
struct Out {
    /// Bytes taken from the protocol, and how many of them were written.
    buffer: Vec<u8>,
    written: usize,
    /// When the last bytes were written.
    last: Moment,
}

impl Writer {
    /// A writer that begins with these bytes.
    pub(crate) fn new(
        peer: Member,
        connection: Connection,
        writer: WriteHalf,
        first: Vec<u8>,
    ) -> Self {
        Self {
            peer,
            connection,
            writer,
            out: Mutex::new(Out { buffer: first, ..Out::default() }),
            output: Notify::new(),
            after_others: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    /// The address of the other end.
    pub(crate) fn address(&self) -> Option<String> {
        self.writer.peer_addr().ok().map(|address| address.to_string())
    }

    /// There are bytes to write: writes them here and now if `at_once` is set and the connection
    /// was quiet, since waking a task would only cost time.
    pub(crate) fn announce(&self, driver: &Driver, now: Moment, at_once: bool) {
        let out = match self.out.try_lock() {
            Ok(out) => Some(out),
            Err(TryLockError::Poisoned(out)) => Some(out.into_inner()),
            // Its task is writing, and may have looked for bytes before these were there.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut out) = out {
            let pause = now.since(std::mem::replace(&mut out.last, now));
            if at_once && pause >= LULL && matches!(self.write(&mut out, driver), Ok(true)) {
                return;
            }
        }
        if !at_once {
            self.after_others.store(true, Ordering::Relaxed);
        }
        // The task will see an error too.
        self.output.notify_one();
    }

    /// Writes whenever there are bytes; ends when the connection does.
    pub(crate) async fn keep_writing(&self, driver: &Driver) -> io::Result<()> {
        loop {
            let done = {
                let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
                self.write(&mut out, driver)?
            };
            if done {
                self.output.notified().await;
                // A write takes as long as the rest of a hand-over: a client that was granted a
                // lock does not wait for it, and a release that follows at once is written with it.
                if self.after_others.swap(false, Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                }
            } else {
                self.writer.writable().await?;
            }
        }
    }

    /// Writes until no bytes are left; returns false if no more are accepted now.
    fn write(&self, out: &mut Out, driver: &Driver) -> io::Result<bool> {
        loop {
            if out.written == out.buffer.len() {
                out.buffer.clear();
                out.written = 0;
                if !driver.output(self.peer, self.connection, &mut out.buffer) {
                    return Ok(true);
                }
            }
            match self.writer.try_write(&out.buffer[out.written..]) {
                Ok(count) => out.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}
