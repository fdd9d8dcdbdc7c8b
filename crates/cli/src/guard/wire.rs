//! What `mutua lock` and its guard tell each other: records of nine bytes on a socket.

use std::{io::Write, os::unix::net::UnixStream};

use anyhow::Result;

/// How long a record is: what it is, and a number.
pub(crate) const RECORD: usize = 9;

/// To the guard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ToGuard {
    /// Until when the lock is good, on [`now`](super::now)'s clock.
    GoodUntil(u64),
    /// Send this signal to the command's process group.
    Signal(i32),
    /// The lock is lost: end the command.
    Lost,
    /// The session to say goodbye to.
    Session(i64),
}

/// From the guard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FromGuard {
    /// The command runs; this is its process, and its process group.
    Started(i32),
    /// It was not started: the lock is not good for long enough.
    TooLate,
    /// It could not be started; the system's error.
    NotStarted(i32),
    /// The command's own process ended with this code.
    Exited(i32),
    /// It died of this signal.
    Killed(i32),
    /// It was stopped by this signal.
    Stopped(i32),
    /// The guard has begun to end the command, because the lock is lost.
    Ending,
    /// Nothing of the command is left.
    Gone,
}

impl ToGuard {
    /// As bytes.
    pub(crate) fn record(self) -> [u8; RECORD] {
        match self {
            Self::GoodUntil(time) => record(b'd', time),
            Self::Signal(signal) => record(b's', i64::from(signal).cast_unsigned()),
            Self::Lost => record(b'l', 0),
            Self::Session(session) => record(b'n', session.cast_unsigned()),
        }
    }

    /// From bytes.
    pub(crate) fn read(record: [u8; RECORD]) -> Option<Self> {
        let (kind, number) = parts(record);
        Some(match kind {
            b'd' => Self::GoodUntil(number),
            b's' => Self::Signal(i32::try_from(number).ok()?),
            b'l' => Self::Lost,
            b'n' => Self::Session(number.cast_signed()),
            _ => return None,
        })
    }
}

impl FromGuard {
    /// As bytes.
    pub(crate) fn record(self) -> [u8; RECORD] {
        let (kind, number) = match self {
            Self::Started(pid) => (b'p', pid),
            Self::TooLate => (b'o', 0),
            Self::NotStarted(error) => (b'f', error),
            Self::Exited(code) => (b'e', code),
            Self::Killed(signal) => (b'k', signal),
            Self::Stopped(signal) => (b't', signal),
            Self::Ending => (b'x', 0),
            Self::Gone => (b'g', 0),
        };
        record(kind, i64::from(number).cast_unsigned())
    }

    /// From bytes.
    pub(crate) fn read(record: [u8; RECORD]) -> Option<Self> {
        let (kind, number) = parts(record);
        let number = i32::try_from(number).ok()?;
        Some(match kind {
            b'p' => Self::Started(number),
            b'o' => Self::TooLate,
            b'f' => Self::NotStarted(number),
            b'e' => Self::Exited(number),
            b'k' => Self::Killed(number),
            b't' => Self::Stopped(number),
            b'x' => Self::Ending,
            b'g' => Self::Gone,
            _ => return None,
        })
    }
}

/// Tells `mutua lock` something.
pub(super) fn write(mut control: &UnixStream, message: FromGuard) -> Result<()> {
    Ok(control.write_all(&message.record())?)
}

fn record(kind: u8, number: u64) -> [u8; RECORD] {
    let mut bytes = [kind; RECORD];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn parts(record: [u8; RECORD]) -> (u8, u64) {
    let [kind, number @ ..] = record;
    (kind, u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::{FromGuard, ToGuard};

    #[test]
    fn what_is_written_is_what_is_read() {
        let to = [ToGuard::GoodUntil(u64::MAX), ToGuard::Signal(15), ToGuard::Lost];
        for message in to.into_iter().chain([ToGuard::Session(-7)]) {
            assert_eq!(ToGuard::read(message.record()), Some(message));
        }
        let from =
            [FromGuard::Started(4_194_304), FromGuard::NotStarted(2), FromGuard::Exited(255)];
        let more =
            [FromGuard::Killed(9), FromGuard::Stopped(20), FromGuard::Ending, FromGuard::TooLate];
        for message in from.into_iter().chain(more).chain([FromGuard::Gone]) {
            assert_eq!(FromGuard::read(message.record()), Some(message));
        }
        assert_eq!(ToGuard::read([b'?'; 9]), None);
        assert_eq!(FromGuard::read([b'?'; 9]), None);
    }
}
