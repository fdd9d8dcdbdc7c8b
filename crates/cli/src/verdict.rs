//! What the runs of a system did not keep, in words.

use std::fmt;

use mutua_algorithms::{Claim, Kind};
use mutua_checker::checkable;
use mutua_simulator::{Report, Violation};
use serde::{Deserialize, Serialize};

/// No mean is taken of fewer entries than this, if more were to be measured.
pub(crate) const FEWEST_ENTRIES: u64 = 100;

/// A property that did not hold in some of several runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Failure {
    /// As a sentence without its end.
    pub(crate) what: String,
    /// In how many runs.
    runs: u64,
    /// Of how many.
    of: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} of {}", self.what, self.runs, counted(self.of, "run"))
    }
}

/// Every property that did not hold in one of the runs.
pub(crate) fn failures(reports: &[Report]) -> Vec<Failure> {
    checkable(Kind::Mutex).iter().filter_map(|&property| failure(property, reports)).collect()
}

fn failure(property: Claim, reports: &[Report]) -> Option<Failure> {
    let broken = |report: &&Report| report.violations_by_property.contains_key(property.name());
    let (runs, of) = (reports.iter().filter(broken).count() as u64, reports.len() as u64);
    (runs > 0).then(|| Failure { what: words(property).to_owned(), runs, of })
}

/// Failures as one text.
pub(crate) fn together(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; ")
}

/// What it means that a property did not hold.
fn words(property: Claim) -> &'static str {
    match property {
        Claim::Safety => "two were inside at once (EM1)",
        Claim::DeadlockFree => "all stood still while somebody waited (a deadlock)",
        Claim::Liveness => "somebody waited for ever (EM2)",
        Claim::Ordering => "a request overtook one that had happened before it (EM3)",
        Claim::BoundedBypass => "somebody was passed by more often than allowed",
        Claim::Fence => "the fence did not grow",
        Claim::Convergence => "it came to no legitimate state",
        Claim::Agreement => "the wrong one was elected (E1)",
        Claim::Termination => "somebody alive never knew whom (E2)",
    }
}

/// Whether a run stood still, or starved somebody.
pub(crate) fn stopped(report: &Report) -> bool {
    let stops = [Claim::DeadlockFree, Claim::Liveness];
    stops.iter().any(|claim| report.violations_by_property.contains_key(claim.name()))
}

/// In which of several runs it was.
pub(crate) fn of_seed(violation: &Violation, runs: usize) -> String {
    if runs > 1 { format!("seed {}, ", violation.seed) } else { String::new() }
}

/// A number with its noun: `1 run`, `2 runs`, `3 entries`, `4 crashes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if noun.ends_with('s') || noun.ends_with("sh") => format!("{count} {noun}es"),
        (_, None) => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(2, "entry"), "2 entries");
        assert_eq!(counted(0, "seed"), "0 seeds");
        assert_eq!(counted(9, "process"), "9 processes");
        assert_eq!(counted(2, "crash"), "2 crashes");
    }
}
