//! Time as an argument of the protocol.

use std::time::Duration;

/// A reading of the driver's clock, in nanoseconds since some fixed point.
///
/// The driver reads a clock that counts suspend (`CLOCK_BOOTTIME`), so that a lease expires while a
/// machine sleeps; a test passes any time. The protocol never reads a clock itself.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(u64);

impl Moment {
    /// The first moment.
    pub const ZERO: Self = Self(0);

    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment so many nanoseconds after the first.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the first moment.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// The moment this long after.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The moment this long before, or the first.
    #[must_use]
    pub fn before(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
