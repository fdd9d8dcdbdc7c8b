//! Properties of runs, judged exactly by an observer that sees every event: ordering (EM3), bounded
//! bypass and fencing. The simulator and the hand-stepped cluster share these judges.
//!
//! A message under way is known by its *slot*, a number that the driver chooses; a slot may be used
//! again once its message has arrived or is lost.

mod bypass;
mod ordering;

pub use bypass::Bypass;
pub use ordering::Ordering;

use crate::FencingToken;

/// Fencing: the fencing token of an entry is above those of all earlier entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fencing {
    highest: Option<FencingToken>,
}

impl Fencing {
    /// A process enters with this fencing token; returns an earlier one that is not below it.
    #[inline]
    pub fn enter(&mut self, fencing_token: FencingToken) -> Option<FencingToken> {
        let violated = self.highest.filter(|&highest| fencing_token <= highest);
        self.highest = self.highest.max(Some(fencing_token));
        violated
    }
}
