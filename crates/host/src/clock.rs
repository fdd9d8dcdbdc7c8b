//! The clock of leases.

use mutua_protocol::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The time on `CLOCK_BOOTTIME`, which counts suspend: a lease expires while the machine sleeps.
/// All processes of a machine read the same clock.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Moment::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
