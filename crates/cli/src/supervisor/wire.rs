//! The messages between `mutua lock` and its supervisor: records of nine bytes on a socket.

use std::{io::Write, os::unix::net::UnixStream};

use anyhow::Result;

/// The length of a record: its kind, and a number.
pub(crate) const RECORD: usize = 9;

/// A message to the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ToSupervisor {
    /// When the lease expires, on [`now`](super::now)'s clock.
    GoodUntil(u64),
    /// Send this signal to the command's process group.
    Signal(i32),
    /// The lock is lost: end the command.
    Lost,
    /// The session to end.
    Session(i64),
}

/// A message from the supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FromSupervisor {
    /// The command runs; the id of its process and process group.
    Started(i32),
    /// It was not started: the lease expires too soon.
    TooLate,
    /// It could not be started; the system's error.
    NotStarted(i32),
    /// The command's own process ended with this code.
    Exited(i32),
    /// A signal killed it.
    Killed(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// The supervisor has begun to end the command, because the lock is lost.
    Ending,
    /// No process of the command is left.
    Gone,
}

impl ToSupervisor {
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

impl FromSupervisor {
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

/// Sends `mutua lock` a message.
pub(super) fn write(mut control: &UnixStream, message: FromSupervisor) -> Result<()> {
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
    use super::{FromSupervisor, ToSupervisor};

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let to = [ToSupervisor::GoodUntil(u64::MAX), ToSupervisor::Signal(15), ToSupervisor::Lost];
        for message in to.into_iter().chain([ToSupervisor::Session(-7)]) {
            assert_eq!(ToSupervisor::read(message.record()), Some(message));
        }
        let from = [
            FromSupervisor::Started(4_194_304),
            FromSupervisor::NotStarted(2),
            FromSupervisor::Exited(255),
        ];
        let more = [
            FromSupervisor::Killed(9),
            FromSupervisor::Stopped(20),
            FromSupervisor::Ending,
            FromSupervisor::TooLate,
        ];
        for message in from.into_iter().chain(more).chain([FromSupervisor::Gone]) {
            assert_eq!(FromSupervisor::read(message.record()), Some(message));
        }
        assert_eq!(ToSupervisor::read([b'?'; 9]), None);
        assert_eq!(FromSupervisor::read([b'?'; 9]), None);
    }
}
