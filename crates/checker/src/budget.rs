//! What may still go wrong in a run, in one word of the state.

use crate::{actor::Event, system::Faults};

/// What a budget is kept for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cost {
    Crash,
    Restart,
    Loss,
    Duplicate,
    Tell,
}

/// Bits for each cost.
const BITS: u32 = 6;

impl Cost {
    /// What an event costs; most are free.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Crash => Some(Self::Crash),
            Event::Restart => Some(Self::Restart),
            Event::Tell(_) => Some(Self::Tell),
            Event::Request | Event::Release | Event::Start | Event::Timeout(_) => None,
        }
    }

    /// The budget after it, if there is enough left.
    pub(crate) fn pay(self, budget: u32) -> Option<u32> {
        let shift = self as u32 * BITS;
        ((budget >> shift) & ((1 << BITS) - 1) != 0).then(|| budget - (1 << shift))
    }
}

/// The budget at the start.
pub(crate) fn budget(faults: Faults, tells: u32) -> u32 {
    [faults.crashes, faults.restarts, faults.losses, faults.duplicates, tells]
        .into_iter()
        .enumerate()
        .map(|(cost, count)| count.min((1 << BITS) - 1) << (cost as u32 * BITS))
        .sum()
}
