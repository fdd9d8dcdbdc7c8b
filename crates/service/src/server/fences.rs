//! Fences of a node that is alone, which grow though its directory is lost.
//!
//! A node among others begins with the clock's epoch instead: its fences come from all of them.
//!
//! Its place may be cleared, as `/tmp` is when the machine starts, and with it all that was written
//! there. So its fences follow the wall's clock: each of its lives begins with the
//! fence of that moment, or above all that the life before may have given out, if that is still
//! written and later. The clock is never outrun: in a millisecond it passes far more fences than
//! can be given out or set aside in one. Only a clock that was put back and a directory that was
//! lost together can make fences step back.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, time::SystemTime};

use mutua_node::fence_of;

/// The bits of a fence below its epoch, and what of them a life may begin with.
const COUNT: u32 = 40;
const LATE: u64 = 1 << 38;
/// So many fences are set aside at a time: eight milliseconds of the clock.
const AHEAD: u64 = 1 << 24;

pub(super) struct Fences {
    file: File,
    /// All below may have been given out.
    below: u64,
}

impl Fences {
    /// The fences of a life that begins now, and the one that all of them are above. The directory
    /// must be this node's already.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written: nothing may be granted then.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, u64)> {
        Self::open_at(directory, SystemTime::now())
    }

    fn open_at(directory: &Path, now: SystemTime) -> io::Result<(Self, u64)> {
        let (file, text) = super::record(&directory.join("fences"))?;
        let mut fences = Self { file, below: 0 };
        let last = text.trim().parse().unwrap_or(0);
        let first = fence_of(now).max(on_time(last));
        fences.set_aside(first)?;
        Ok((fences, first))
    }

    /// Sees to it that a fence is set aside, before it is told to anybody.
    ///
    /// # Errors
    ///
    /// If that cannot be written: it must not be told then.
    pub(super) fn cover(&mut self, fence: u64) -> io::Result<()> {
        if fence < self.below { Ok(()) } else { self.set_aside(fence) }
    }

    fn set_aside(&mut self, fence: u64) -> io::Result<()> {
        self.below = fence.saturating_add(AHEAD);
        // In place and always as long: no death of the process leaves less than a whole one.
        self.file.write_all_at(format!("{:020}\n", self.below).as_bytes(), 0)
    }
}

/// The fence itself, or the next epoch's first, so that a clock within an epoch does not run out.
fn on_time(fence: u64) -> u64 {
    let late = fence % (1 << COUNT) >= LATE;
    if late { ((fence >> COUNT) + 1) << COUNT } else { fence }
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

    fn life(directory: &Path, seconds: f64) -> u64 {
        Fences::open_at(directory, at(seconds)).expect("opened").1
    }

    #[test]
    fn fences_grow_whatever_is_lost_as_long_as_the_clock_goes_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut last = 0;
        for step in 0..20_000 {
            let first = life(directory.path(), f64::from(step) * 0.0099);
            assert!(first > last, "life {step}");
            // As many as one can be given out in a life this short.
            last = first + 1_000_000;
            if step % 3 == 0 {
                fs::remove_file(directory.path().join("fences")).expect("removed");
            }
        }
    }

    #[test]
    fn fences_grow_though_the_clock_is_put_back_as_long_as_nothing_is_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut fences, mut last) = Fences::open_at(directory.path(), at(500.0)).expect("opened");
        for fence in [last + 1, last + AHEAD, last + 5 * AHEAD] {
            fences.cover(fence).expect("written");
            last = fence;
        }
        for step in 0..20_000 {
            let first = life(directory.path(), 400.0 - f64::from(step % 7));
            assert!(first > last, "life {step}");
            assert!(first % (1 << COUNT) <= LATE);
            last = first;
        }
    }
}
