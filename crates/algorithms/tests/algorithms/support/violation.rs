//! The violations that a random run can end with.

use std::fmt;

use mutua_algorithms::Claim;

/// A claim that a schedule has refuted, or something that must hold of any algorithm.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) claim: Option<Claim>,
    what: String,
}

impl Violation {
    pub(crate) fn new(claim: impl Into<Option<Claim>>, what: impl Into<String>) -> Self {
        Self { claim: claim.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.claim.map_or("always", Claim::name), self.what)
    }
}
