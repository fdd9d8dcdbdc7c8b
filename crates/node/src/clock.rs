//! The clock that a node lives by.

use mutua_brain::Moment;
use rustix::time::{ClockId, clock_gettime};

/// Now, on the clock that goes on while the machine sleeps: a lease that ran out meanwhile has run
/// out. Within one machine all processes read the same clock.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_nanos(seconds * 1_000_000_000 + nanos)
}
