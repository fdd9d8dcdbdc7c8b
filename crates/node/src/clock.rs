//! The wall clock, which fencing tokens start from.

use std::time::{SystemTime, UNIX_EPOCH};

use mutua_algorithms::Time;

/// The first of January 2026.
const START: u64 = 1_767_225_600_000;
/// The length of an epoch of the wall clock in milliseconds, and the number of fencing tokens in
/// one of these.
const EPOCH: u64 = 120_000;
const MILLISECOND: u64 = 1 << 21;
/// The highest epoch of the wall clock, in 2041: a wrong clock must leave later epochs.
const LAST: u64 = 1 << 22;

/// The fencing token of a time of the wall clock. A node without an epoch on disk starts from it,
/// so that it is greater than all tokens of a directory that was lost, or of another node.
pub fn fence_of(now: SystemTime) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let millis = u64::try_from(now).unwrap_or(0).saturating_sub(START);
    ((millis / EPOCH).min(LAST) << Time::COUNT_BITS) + millis % EPOCH * MILLISECOND
}

/// The epoch of that fencing token.
pub(crate) fn epoch_of(now: SystemTime) -> u32 {
    u32::try_from(fence_of(now) >> Time::COUNT_BITS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fencing_token_of_a_later_time_is_greater_up_to_a_bound() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let moments = [0, 1_800_000_000, 1_800_000_001, 1_800_000_119, 1_800_000_121];
        let fences = moments.map(|seconds| fence_of(at(seconds)));
        assert_eq!(fences[0], 0);
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
        assert_eq!(epoch_of(at(1_800_000_120)), epoch_of(at(1_800_000_000)) + 1);
        assert_eq!(u64::from(epoch_of(at(u64::from(u32::MAX) * 9))), LAST);
    }
}
