//! A violation and the run that shows it, and what to make of one that is not found again.

use mutua_algorithms::StartError;

use crate::{invariant::KindError, trail::Trail};

/// Why a check gives no report.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The system cannot start as it is set up; nothing was searched.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The registry does not hold the algorithm.
    #[error("unknown algorithm `{name}`: `mutua algorithms` lists them")]
    UnknownAlgorithm {
        /// The name that was not found.
        name: String,
    },
    /// A set of processes is one 16-bit word, so that steps stay cheap.
    #[error("{processes} processes cannot be explored; at most {most}")]
    TooManyProcesses {
        /// The processes of the system.
        processes: usize,
        /// The most that can be explored.
        most: usize,
    },
    /// A part of the task would have no effect.
    #[error("{what} do not apply {here}")]
    Unread {
        /// What would have none.
        what: &'static str,
        /// The system that does not look at it, and what would be right.
        here: &'static str,
    },
    /// No search judges this property of such a system: it would seem to hold.
    #[error("{property} is not checked of this system: use one of {known}")]
    NotChecked {
        /// The property.
        property: &'static str,
        /// The properties that are checked.
        known: String,
    },
    /// A process counts its entries in 8 bits.
    #[error("{entries} entries of a process cannot be explored; at most {most}")]
    TooManyEntries {
        /// The entries of each contender.
        entries: u32,
        /// The most that can be counted.
        most: u32,
    },
    /// The budget of a state counts each kind of fault in a few bits.
    #[error(
        "{count} crashes, restarts, losses, duplicates, messages of the application or delays are \
         too many; at most {most} of each"
    )]
    TooManyFaults {
        /// The number that does not fit.
        count: u32,
        /// The highest number that fits.
        most: u32,
    },
    /// A graph of so many states is not made.
    #[error("the graph has more than {most} states: use fewer processes, entries or contenders")]
    TooLarge {
        /// The states that were reached.
        states: u64,
        /// The most that can be drawn.
        most: u64,
    },
    /// So many bits of a set of properties are left for them.
    #[error("{invariants} invariants are too many for one search; at most {most}")]
    TooManyInvariants {
        /// The number of invariants.
        invariants: usize,
        /// The most that can be judged.
        most: usize,
    },
    /// An invariant is about something that there is not, or compares values of two kinds.
    #[error("the invariant `{name}` cannot be judged: {why}")]
    Unjudged {
        /// The invariant.
        name: String,
        /// What is wrong.
        why: KindError,
    },
    /// A bug of the checker, or of the symmetries that an algorithm declares. It shows nothing else
    /// about the algorithm, and the user cannot fix it.
    #[error(
        "a bug of the checker, and no verdict on {algorithm}: {property} was violated {how}, but a \
         full search, which went as far with one worker and with nothing merged or left out, found \
         no counterexample; please report this with the whole command"
    )]
    Contradiction {
        /// The algorithm.
        algorithm: String,
        /// The property that is violated in one search and not in the other.
        property: String,
        /// The reductions or the workers of the search that found the violation.
        how: String,
    },
}

impl CheckError {
    /// Whether the task is impossible; otherwise the checker has a bug.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Start(_)
            | Self::UnknownAlgorithm { .. }
            | Self::TooManyProcesses { .. }
            | Self::TooManyEntries { .. }
            | Self::Unread { .. }
            | Self::NotChecked { .. }
            | Self::TooManyFaults { .. }
            | Self::TooLarge { .. }
            | Self::TooManyInvariants { .. }
            | Self::Unjudged { .. } => true,
            Self::Contradiction { .. } => false,
        }
    }
}

/// The evidence for the violation of one property.
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

/// The verdict on a violation after a second search, of all states and by one worker: `again` is
/// the run that it has found, and `far_enough` whether it must have found one. The run that was
/// found first counts if it is one of the system and not of merged states.
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
    fn a_violation_that_a_second_search_does_not_find_gives_no_verdict() {
        assert_eq!(weigh(Some(1), None, true), Evidence::Refuted);
        assert_eq!(weigh::<u32>(None, None, true), Evidence::Refuted);
    }

    #[test]
    fn a_second_search_that_met_a_limit_takes_nothing_back() {
        assert_eq!(weigh(Some(1), None, false), Evidence::Run(1));
        assert_eq!(weigh::<u32>(None, None, false), Evidence::Lost);
    }
}
