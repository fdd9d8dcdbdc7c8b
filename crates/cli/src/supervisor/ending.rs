//! The steps in which a command is ended.

use std::time::Duration;

/// What the supervisor does with the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// Nothing: the command runs.
    No,
    /// It has sent the first signal, and sends SIGKILL at this time.
    Signalled { kill_at: u64 },
    /// It kills all descendants until none is left.
    Killing,
}

/// The times before the lease expires, on the supervisor's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From the first signal to SIGKILL.
    pub(super) grace: Duration,
    /// From SIGKILL to the end of the lease.
    pub(super) margin: Duration,
}

impl Limits {
    /// When to send the first signal if the lease is not renewed.
    pub(super) fn signal_at(&self, good_until: u64) -> u64 {
        self.last_kill(good_until).saturating_sub(nanos(self.grace))
    }

    /// When to send SIGKILL if the first signal is sent now.
    pub(super) fn kill_at(&self, now: u64, good_until: u64) -> u64 {
        now.saturating_add(nanos(self.grace)).min(self.last_kill(good_until))
    }

    fn last_kill(&self, good_until: u64) -> u64 {
        good_until.saturating_sub(nanos(self.margin))
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Limits;

    #[test]
    fn the_command_is_signalled_a_grace_before_sigkill_and_that_a_margin_before_the_end() {
        let limits = Limits { grace: Duration::from_nanos(300), margin: Duration::from_nanos(50) };
        assert_eq!(limits.signal_at(1000), 650);
        assert_eq!(limits.kill_at(650, 1000), 950);
        assert_eq!(limits.kill_at(100, 1000), 400, "an early loss leaves the whole grace");
        assert_eq!(limits.kill_at(900, 1000), 950, "a late loss does not");
        assert_eq!(limits.signal_at(10), 0);
    }
}
