//! The clock that a node lives by, and the wall's, which fences begin with.

use std::time::{SystemTime, UNIX_EPOCH};

use mutua_brain::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The first of January 2026.
const START: u64 = 1_767_225_600_000;
/// How long an epoch of the wall's clock is, in milliseconds, and how many fences one of these has.
const EPOCH: u64 = 120_000;
const MILLISECOND: u64 = 1 << 21;
/// The bits of a fence below its epoch.
const COUNT: u32 = 40;
/// No clock is believed beyond this epoch, in 2041: a wrong one would leave none for later.
const LAST: u64 = 1 << 22;

/// Now, on the clock that goes on while the machine sleeps: a lease that ran out meanwhile has run
/// out. Within one machine all processes read the same clock.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// The fence of a moment of the wall's clock. A node that knows of no fence begins with it, so that
/// what a node with another directory gave out before is smaller: it was lost, or was another's.
pub fn fence_of(now: SystemTime) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let millis = u64::try_from(now).unwrap_or(0).saturating_sub(START);
    ((millis / EPOCH).min(LAST) << COUNT) + millis % EPOCH * MILLISECOND
}

/// Its epoch.
pub(crate) fn epoch_of(now: SystemTime) -> u32 {
    u32::try_from(fence_of(now) >> COUNT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fence_of_a_later_moment_is_greater_until_no_clock_is_believed() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let moments = [0, 1_800_000_000, 1_800_000_001, 1_800_000_119, 1_800_000_121];
        let fences = moments.map(|seconds| fence_of(at(seconds)));
        assert_eq!(fences[0], 0);
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
        assert_eq!(epoch_of(at(1_800_000_120)), epoch_of(at(1_800_000_000)) + 1);
        assert_eq!(u64::from(epoch_of(at(u64::from(u32::MAX) * 9))), LAST);
    }
}
