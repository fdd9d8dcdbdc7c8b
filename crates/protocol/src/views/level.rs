//! Levels of what members send each other, so that a cluster can be upgraded node by node.
//!
//! A node understands all levels from an oldest to a newest one, and offers that range in its
//! hello. The level of a view says what may be sent and proposed in it. It rises with a view, as
//! soon as all members of the directory can use a higher one, and never falls: a node that does not
//! understand the decided level is refused.
//!
//! | level | what it adds |
//! |---|---|
//! | 0 | views, leases, records, membership |
//! | 1 | the rules of locks change by decision ([`Command::Rules`](super::Command::Rules)) |

use serde::{Deserialize, Serialize};

/// The level from which on the rules of locks change by decision.
pub const LEVEL_OF_RULES: u16 = 1;

/// The levels that a node can use.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// The lowest.
    pub oldest: u16,
    /// The highest.
    pub newest: u16,
}

impl Levels {
    /// Those of this version.
    pub const HERE: Self = Self { oldest: 0, newest: LEVEL_OF_RULES };

    /// The same without those above this one: a cluster that is being upgraded can go back while
    /// one of its members holds its level down.
    #[must_use]
    pub fn up_to(self, highest: u16) -> Self {
        Self { newest: self.newest.min(highest).max(self.oldest), ..self }
    }

    /// Whether this level is one of them.
    pub fn contains(self, level: u16) -> bool {
        (self.oldest..=self.newest).contains(&level)
    }

    /// Whether two nodes have a level in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

impl std::fmt::Display for Levels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self { oldest, newest } if oldest == newest => write!(f, "level {oldest}"),
            Self { oldest, newest } => write!(f, "levels {oldest} to {newest}"),
        }
    }
}
