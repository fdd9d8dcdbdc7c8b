//! Names of members, their incarnations and views.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A member of the cluster, for good: ids are drawn once and never used again, so that a member
/// that has lost its data directory is another member.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct MemberId(pub u64);

/// One start of a member's process. Each start takes a higher one.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

/// One incarnation of a member: what a view consists of, and what a lease is given to. What a
/// member held in one incarnation, the next one does not hold.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct Instance {
    /// The member.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl Instance {
    /// This incarnation of this member.
    pub fn new(member: u64, incarnation: u64) -> Self {
        Self { member: MemberId(member), incarnation: Incarnation(incarnation) }
    }
}

/// The number of a view: decided views are numbered from 1 without gaps; 0 is before the first.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct ViewNumber(pub u64);

impl ViewNumber {
    /// The number after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.member.0, self.incarnation.0)
    }
}

impl fmt::Display for ViewNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
