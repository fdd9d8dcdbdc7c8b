//! Lamport's logical clock, timestamps, and the fencing token that falls out of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// How many bits the epoch has.
const EPOCH_BITS: u32 = 23;

/// A reading of a Lamport clock: an epoch and a count within it, kept as one number `epoch * 2^40 +
/// count` so that comparing and merging are those of a number. It stays below 2^63, so that it fits
/// etcd's signed revisions.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// The reading of a clock that has seen nothing.
    pub const ZERO: Self = Self(0);

    /// The bits of a reading's number below its epoch.
    pub const COUNT_BITS: u32 = 40;

    /// Counts within an epoch are below this.
    pub const COUNTS: u64 = 1 << Self::COUNT_BITS;

    /// Epochs are below this.
    pub const EPOCHS: u32 = 1 << EPOCH_BITS;

    /// The numbers of readings are below this.
    pub const NUMBERS: u64 = 1 << (EPOCH_BITS + Self::COUNT_BITS);

    /// The reading with this epoch and count.
    ///
    /// # Panics
    ///
    /// If the epoch needs more than 23 bits or the count more than 40.
    pub fn new(epoch: u32, count: u64) -> Self {
        assert!(epoch < Self::EPOCHS, "an epoch has 23 bits, {epoch} needs more");
        assert!(count < Self::COUNTS, "a clock counts to 2^40 within an epoch, {count} is more");
        Self((u64::from(epoch) << Self::COUNT_BITS) | count)
    }

    /// The reading that was written down as this number.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The reading as one number, `epoch * 2^40 + count`.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The epoch, which the node raises at each view.
    pub fn epoch(self) -> u32 {
        u32::try_from(self.0 >> Self::COUNT_BITS).unwrap_or(u32::MAX)
    }

    /// The count within the epoch.
    pub fn count(self) -> u64 {
        self.0 & (Self::COUNTS - 1)
    }

    /// The next reading. A full count goes over into the next epoch, so it grows whatever happens.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch() {
            0 => write!(f, "{}", self.count()),
            epoch => write!(f, "{epoch}.{}", self.count()),
        }
    }
}

/// The time of a request and its process: no two are equal, the lower one goes first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Stamp {
    /// The requester's clock.
    pub time: Time,
    /// The requester; it breaks ties.
    pub node: NodeId,
}

impl Stamp {
    /// A stamp of this process.
    pub fn new(time: Time, node: NodeId) -> Self {
        Self { time, node }
    }
}

/// The number that a holder shows to the resource it guards: greater than that of every earlier
/// holder of the same name.
///
/// Any two critical sections of a safe algorithm are ordered by happens-before (else some schedule
/// would let them overlap), and the Lamport clock grows along it. So the clock at entry is a
/// fencing token, at no message more.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct FencingToken(pub Time);

impl FencingToken {
    /// The fencing token as one number below 2^63.
    pub fn number(self) -> u64 {
        self.0.number()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_number_and_grows_over_the_end_of_an_epoch() {
        let last = Time::new(6, Time::COUNTS - 1);
        assert_eq!(last.next(), Time::new(7, 0));
        assert_eq!(Time::from_number(last.number()), last);
        assert_eq!((last.epoch(), last.count()), (6, Time::COUNTS - 1));
        assert_eq!(Time::new(Time::EPOCHS - 1, Time::COUNTS - 1).number() + 1, Time::NUMBERS);
        assert!(i64::try_from(Time::NUMBERS - 1).is_ok(), "it fits etcd's signed revisions");
    }

    #[test]
    fn ties_are_broken_by_id() {
        let at = |time, node| Stamp::new(Time::new(0, time), NodeId(node));
        assert!(at(1, 2) < at(2, 1));
        assert!(at(2, 1) < at(2, 2));
    }
}
