//! How far the end of a command has come.

use std::time::Duration;

/// What the guard does with the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// It lets it run.
    No,
    /// It has asked it to end, and kills it at this time.
    Asked { kill_at: u64 },
    /// It kills everything, until nothing is left.
    Killing,
}

/// The times before the lock's end, both on the guard's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Between asking and killing.
    pub(super) grace: Duration,
    /// Between killing and the lock's end.
    pub(super) margin: Duration,
}

impl Limits {
    /// When to ask the command to end if the lock is good until then and no longer.
    pub(super) fn ask_at(&self, good_until: u64) -> u64 {
        self.last_kill(good_until).saturating_sub(nanos(self.grace))
    }

    /// When to kill what was asked to end now.
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
    fn the_command_is_asked_a_grace_before_it_is_killed_a_margin_before_the_end() {
        let limits = Limits { grace: Duration::from_nanos(300), margin: Duration::from_nanos(50) };
        assert_eq!(limits.ask_at(1000), 650);
        assert_eq!(limits.kill_at(650, 1000), 950);
        assert_eq!(limits.kill_at(100, 1000), 400, "an early loss leaves the whole grace");
        assert_eq!(limits.kill_at(900, 1000), 950, "a late one does not");
        assert_eq!(limits.ask_at(10), 0);
    }
}
