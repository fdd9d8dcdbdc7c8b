//! Sleeping on the clock that the protocol reads.
//!
//! Tokio's clock stands still while the machine is suspended. A sleep on it would end late by the
//! length of the suspend, and the holders of locks whose view lease has ended meanwhile would be
//! notified late. The kernel's timer on `CLOCK_BOOTTIME` expires at the resume.

use std::{future, io, os::fd::OwnedFd, time::Duration};

use mutua_host::now;
use mutua_protocol::Moment;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// The longest sleep on tokio's clock.
const LONGEST: Duration = Duration::from_secs(1);

/// A timer of the kernel, if it gives one.
pub(crate) struct Timer {
    file: Option<AsyncFd<OwnedFd>>,
}

impl Timer {
    /// A timer on the present runtime. Without a file descriptor left it sleeps on tokio's clock,
    /// and looks at the time once a second.
    pub(crate) fn new() -> Self {
        let file = create();
        if let Err(error) = &file {
            tracing::warn!("no timer that counts suspend: {error}");
        }
        Self { file: file.ok() }
    }

    /// Sleeps until this moment, or a little longer; it may also end too early. Dropping the future
    /// is safe.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        let Some(file) = &self.file else {
            return tokio::time::sleep(moment.since(now()).min(LONGEST)).await;
        };
        if moment == Moment::NEVER {
            return future::pending().await;
        }
        // What cannot be armed or read ends early, and the caller looks at the time.
        if arm(file.get_ref(), moment).is_err() {
            return tokio::time::sleep(moment.since(now()).min(LONGEST)).await;
        }
        let read = |file: &OwnedFd| Ok(rustix::io::read(file, &mut [0; 8])?);
        let _ = file.async_io(Interest::READABLE, read).await;
    }
}

#[expect(deprecated, reason = "sound here: an `OwnedFd` keeps its descriptor open and the same")]
fn create() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let file = timerfd_create(TimerfdClockId::Boottime, flags)?;
    AsyncFd::with_interest(file, Interest::READABLE)
}

/// Sets the timer to this moment. What it has counted before is forgotten.
fn arm(file: &OwnedFd, moment: Moment) -> io::Result<()> {
    // Zero would disarm it.
    let due = Duration::from_nanos(moment.nanos().max(1));
    let seconds = i64::try_from(due.as_secs()).unwrap_or(i64::MAX);
    let due = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: seconds, tv_nsec: due.subsec_nanos().into() },
    };
    timerfd_settime(file, TimerfdTimerFlags::ABSTIME, &due)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsRawFd};

    use super::*;

    #[tokio::test]
    async fn it_sleeps_until_the_moment_and_no_longer_than_told_last() {
        let timer = Timer::new();
        let moment = now().after(Duration::from_millis(20));
        timer.sleep_until(moment).await;
        assert!(now() >= moment);
        // Past moments come at once, the first one too.
        timer.sleep_until(moment).await;
        timer.sleep_until(Moment::ZERO).await;
        // A sleep that is given up leaves nothing behind, whether it has expired or not.
        for wait in [Duration::from_secs(3600), Duration::ZERO] {
            tokio::select! {
                biased;
                () = timer.sleep_until(now().after(wait)) => {}
                () = future::ready(()) => {}
            }
        }
        let moment = now().after(Duration::from_millis(20));
        timer.sleep_until(moment).await;
        assert!(now() >= moment);
    }

    #[tokio::test]
    async fn its_clock_counts_suspend() {
        let timer = Timer::new();
        let file = timer.file.as_ref().expect("a timer").get_ref().as_raw_fd();
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{file}")).expect("a descriptor");
        // 7 is CLOCK_BOOTTIME.
        assert!(about.lines().any(|line| line == "clockid: 7"), "{about}");
    }
}
