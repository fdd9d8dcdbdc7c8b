//! The writing end of a connection.

use std::{
    io,
    sync::{
        Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mutua_brain::{Connection, Member, Moment};
use tokio::{net::tcp::OwnedWriteHalf, sync::Notify};

use crate::shared::Shared;

/// After a pause as long as this, whoever has something to say writes it itself, which saves a
/// task's turn. More often it is left to the connection's task, which writes what has gathered in
/// one piece: a token and the request that follows it at once travel together, and arrive together.
const LULL: Duration = Duration::from_millis(2);

/// How to write to a connection, and how to reach its tasks.
#[derive(Debug)]
pub(crate) struct Line {
    /// To whom it is.
    peer: Member,
    connection: Connection,
    writer: OwnedWriteHalf,
    out: Mutex<Out>,
    /// There is something to write.
    output: Notify,
    /// Somebody who was let in goes first.
    after_others: AtomicBool,
    /// It is to be closed.
    pub(crate) close: Notify,
}

#[derive(Debug, Default)]
struct Out {
    /// What was taken from the brain, and how much of it has been written.
    buffer: Vec<u8>,
    written: usize,
    /// When something was last written.
    last: Moment,
}

impl Line {
    pub(crate) fn new(peer: Member, connection: Connection, writer: OwnedWriteHalf) -> Self {
        Self {
            peer,
            connection,
            writer,
            out: Mutex::default(),
            output: Notify::new(),
            after_others: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    /// There is something to write: does so here and now if there is nothing better to do and the
    /// line has been quiet, since a task in between would only cost time.
    pub(crate) fn announce(&self, shared: &Shared, now: Moment, at_once: bool) {
        let out = match self.out.try_lock() {
            Ok(out) => Some(out),
            Err(TryLockError::Poisoned(out)) => Some(out.into_inner()),
            // Its task writes just now, and may have looked too early for this.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut out) = out {
            let pause = now.since(std::mem::replace(&mut out.last, now));
            if at_once && pause >= LULL && matches!(self.write(&mut out, shared), Ok(true)) {
                return;
            }
        }
        if !at_once {
            self.after_others.store(true, Ordering::Relaxed);
        }
        // What went wrong, if something did, the task will see too.
        self.output.notify_one();
    }

    /// Writes what there is whenever there is something; ends when the connection does.
    pub(crate) async fn keep_writing(&self, shared: &Shared) -> io::Result<()> {
        loop {
            let done = {
                let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
                self.write(&mut out, shared)?
            };
            if done {
                self.output.notified().await;
                // A write takes as long as the rest of a hand-over: who was let in does not wait
                // for it, and what it says if it leaves at once is written with it.
                if self.after_others.swap(false, Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                }
            } else {
                self.writer.writable().await?;
            }
        }
    }

    /// Writes until nothing is left, or nothing more is taken: then it says no.
    fn write(&self, out: &mut Out, shared: &Shared) -> io::Result<bool> {
        loop {
            if out.written == out.buffer.len() {
                out.buffer.clear();
                out.written = 0;
                if !shared.output(self.peer, self.connection, &mut out.buffer) {
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
