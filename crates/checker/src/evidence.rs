//! A violation and the run that shows it, and what to make of one that is not found again.

use mutua_algorithms::StartError;

use crate::trail::Trail;

/// Why a check has come to no report.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// There is no such system: nothing was searched.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A mistake of the checker, or of what an algorithm says of its symmetries, which says nothing
    /// of the algorithm otherwise. It is not the user's to mend.
    #[error(
        "a mistake of the checker, and no verdict on {algorithm}: {property} was found broken \
         {how}, but a full search, which went as far with one worker and with nothing merged or \
         left out, has found no run that breaks it; please report this with the whole command"
    )]
    Contradiction {
        /// The algorithm.
        algorithm: String,
        /// The property that one search has found broken and the other not.
        property: &'static str,
        /// How the one searched that has found it: its reductions, or its workers.
        how: String,
    },
}

/// Whether a property was found broken.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Evidence<R = Trail> {
    None,
    /// By this run.
    Run(R),
    /// Among merged states, and the limits ended the search for a run among all.
    Lost,
    /// In one search, and not in another that must have found it too.
    Refuted,
}

impl Evidence {
    pub(crate) fn trail(self) -> Option<Trail> {
        match self {
            Self::Run(trail) => Some(trail),
            Self::None | Self::Lost | Self::Refuted => None,
        }
    }
}

/// What a violation comes to after a second search, of all states and by one worker: `again` is the
/// run that it has found, and `far_enough` whether it must have found one. The run that was found
/// first counts if it is one of the system and not of merged states.
pub(crate) fn weigh<R>(first: Option<R>, again: Option<R>, far_enough: bool) -> Evidence<R> {
    match (again, first) {
        (Some(run), _) => Evidence::Run(run),
        (None, _) if far_enough => Evidence::Refuted,
        (None, Some(run)) => Evidence::Run(run),
        (None, None) => Evidence::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_the_second_search_finds_is_the_one_to_show() {
        for far_enough in [false, true] {
            assert_eq!(weigh(None, Some(2), far_enough), Evidence::Run(2));
            assert_eq!(weigh(Some(1), Some(2), far_enough), Evidence::Run(2));
        }
    }

    #[test]
    fn what_a_second_search_must_find_and_does_not_is_no_violation() {
        assert_eq!(weigh(Some(1), None, true), Evidence::Refuted);
        assert_eq!(weigh::<u32>(None, None, true), Evidence::Refuted);
    }

    #[test]
    fn a_second_search_that_met_a_limit_takes_nothing_back() {
        assert_eq!(weigh(Some(1), None, false), Evidence::Run(1));
        assert_eq!(weigh::<u32>(None, None, false), Evidence::Lost);
    }
}
