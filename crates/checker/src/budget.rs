//! The faults that may still happen in a run, in one word of the state.

use crate::{actor::Event, evidence::CheckError, system::Faults};

/// An event that a budget limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cost {
    Crash,
    Restart,
    Loss,
    Duplicate,
    AppSend,
    Delay,
}

/// Bits for each cost.
const BITS: u32 = 5;

/// The most that can be had of each.
const MOST: u32 = (1 << BITS) - 1;

impl Cost {
    /// The cost of an event; most are free.
    pub(crate) fn of(event: Event) -> Option<Self> {
        match event {
            Event::Crash => Some(Self::Crash),
            Event::Restart => Some(Self::Restart),
            Event::AppSend(_) => Some(Self::AppSend),
            Event::Request
            | Event::Release
            | Event::Start
            | Event::Timeout(_)
            | Event::Report(..) => None,
        }
    }

    /// The budget after it, if there is enough left.
    pub(crate) fn pay(self, budget: u32) -> Option<u32> {
        self.pay_times(1, budget)
    }

    /// The budget after so many of it, if there is enough left.
    pub(crate) fn pay_times(self, times: u32, budget: u32) -> Option<u32> {
        let shift = self as u32 * BITS;
        ((budget >> shift) & MOST >= times).then(|| budget - (times << shift))
    }
}

/// The budget at the start.
pub(crate) fn budget(faults: Faults, app_messages: u32, delays: u32) -> Result<u32, CheckError> {
    let Faults { crashes, restarts, losses, duplicates } = faults;
    let mut budget = 0;
    let counts = [crashes, restarts, losses, duplicates, app_messages, delays];
    for (place, count) in counts.into_iter().enumerate() {
        if count > MOST {
            return Err(CheckError::TooManyFaults { count, most: MOST });
        }
        budget |= count << (place as u32 * BITS);
    }
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cost_is_paid_from_its_own_and_no_further() {
        let faults = Faults { crashes: 1, duplicates: MOST, ..Faults::default() };
        let full = budget(faults, 2, 3).expect("few enough");
        let after = Cost::Delay.pay_times(3, full).expect("three delays");
        assert_eq!(Cost::Delay.pay(after), None);
        assert_eq!(Cost::Crash.pay(after), Some(after - 1));
        assert_eq!(Cost::Loss.pay(after), None);
        assert!(Cost::Duplicate.pay_times(MOST, after).is_some());
    }

    #[test]
    fn more_than_can_be_counted_is_refused() {
        let faults = Faults { losses: MOST + 1, ..Faults::default() };
        let refused = CheckError::TooManyFaults { count: MOST + 1, most: MOST };
        assert_eq!(budget(faults, 0, 0), Err(refused));
    }
}
