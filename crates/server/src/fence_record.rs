//! The fencing tokens of a node that is alone. They grow though its data directory may be lost.
//!
//! A node with peers starts from the clock's epoch instead: its tokens come from all members.
//!
//! The data directory may be cleared, as `/tmp` is when the machine starts, and its records with
//! it. So the tokens follow the wall clock: each incarnation starts with the token of its start
//! time, or above all tokens that the last incarnation may have granted, if that is recorded and
//! greater. Tokens never overtake the clock, which passes far more of them in a millisecond than
//! can be granted or reserved in one. Only a clock that was set back together with a lost directory
//! can make tokens decrease.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, time::SystemTime};

use mutua_node::fence_of;

/// The bits of a fencing token below its epoch.
const COUNT: u32 = 40;
/// The greatest count that an incarnation starts with.
const LATE: u64 = 1 << 38;
/// The number of tokens that are reserved at a time: eight milliseconds of the clock.
const AHEAD: u64 = 1 << 24;

pub(super) struct FenceRecord {
    file: File,
    /// All tokens below may have been granted.
    below: u64,
}

impl FenceRecord {
    /// Opens the record of an incarnation that starts now. Also returns the token that all of its
    /// tokens are greater than. The directory must be locked by this node.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written: no lock may be granted then.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, u64)> {
        Self::open_at(directory, SystemTime::now())
    }

    fn open_at(directory: &Path, now: SystemTime) -> io::Result<(Self, u64)> {
        let (file, text) = super::open_record(&directory.join("fences"))?;
        let mut record = Self { file, below: 0 };
        let last = text.trim().parse().unwrap_or(0);
        let first = fence_of(now).max(on_time(last));
        record.reserve(first)?;
        Ok((record, first))
    }

    /// Makes sure that a token is reserved, before it is sent to a client.
    ///
    /// # Errors
    ///
    /// If the record cannot be written: the token must not be sent then.
    pub(super) fn cover(&mut self, token: u64) -> io::Result<()> {
        if token < self.below { Ok(()) } else { self.reserve(token) }
    }

    fn reserve(&mut self, token: u64) -> io::Result<()> {
        self.below = token.saturating_add(AHEAD);
        // In place and always as long: no crash of the process leaves a part of it.
        self.file.write_all_at(format!("{:020}\n", self.below).as_bytes(), 0)
    }
}

/// The token itself, or the next epoch's first, so that an incarnation has enough counts left.
fn on_time(token: u64) -> u64 {
    let late = token % (1 << COUNT) >= LATE;
    if late { ((token >> COUNT) + 1) << COUNT } else { token }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::Path,
        time::{Duration, UNIX_EPOCH},
    };

    use super::*;

    fn at(seconds: f64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs_f64(1.8e9 + seconds)
    }

    fn start(directory: &Path, seconds: f64) -> u64 {
        FenceRecord::open_at(directory, at(seconds)).expect("opened").1
    }

    #[test]
    fn tokens_grow_though_the_record_is_lost_while_the_clock_goes_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut last = 0;
        for step in 0..20_000 {
            let first = start(directory.path(), f64::from(step) * 0.0099);
            assert!(first > last, "start {step}");
            // More than can be granted in a run this short.
            last = first + 1_000_000;
            if step % 3 == 0 {
                fs::remove_file(directory.path().join("fences")).expect("removed");
            }
        }
    }

    #[test]
    fn tokens_grow_though_the_clock_is_set_back_while_the_record_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut record, mut last) =
            FenceRecord::open_at(directory.path(), at(500.0)).expect("opened");
        for token in [last + 1, last + AHEAD, last + 5 * AHEAD] {
            record.cover(token).expect("written");
            last = token;
        }
        for step in 0..20_000 {
            let first = start(directory.path(), 400.0 - f64::from(step % 7));
            assert!(first > last, "start {step}");
            assert!(first % (1 << COUNT) <= LATE);
            last = first;
        }
    }
}
