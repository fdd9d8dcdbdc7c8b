//! The violations of several runs, in words.

use std::fmt;

use mutua_algorithms::{Claim, Kind};
use mutua_checker::checkable;
use mutua_simulator::{Report, Violation};
use serde::{Deserialize, Serialize};

use crate::words::counted;

/// A mean needs at least this many entries, unless fewer were wanted.
pub const FEWEST_ENTRIES: u64 = 100;

/// A property that was violated in some of several runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failure {
    /// As a sentence without its end.
    pub what: String,
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

/// Every property that was violated in one of the runs.
pub fn failures(reports: &[Report]) -> Vec<Failure> {
    checkable(Kind::Mutex).iter().filter_map(|&property| failure(property, reports)).collect()
}

fn failure(property: Claim, reports: &[Report]) -> Option<Failure> {
    let violated = |report: &&Report| report.violations_by_property.contains_key(property.name());
    let (runs, of) = (reports.iter().filter(violated).count() as u64, reports.len() as u64);
    (runs > 0).then(|| Failure { what: words(property).to_owned(), runs, of })
}

/// Failures as one text.
pub fn together(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; ")
}

/// The meaning of a violation.
fn words(property: Claim) -> &'static str {
    match property {
        Claim::MutualExclusion => "two processes were in the critical section at once",
        Claim::DeadlockFree => "all processes stopped while one waited (a deadlock)",
        Claim::Liveness => "a process waited for ever",
        Claim::Ordering => "a request was granted before one that had happened before it",
        Claim::BoundedBypass => "a process was bypassed more often than allowed",
        Claim::Fencing => "the fencing token did not grow",
        Claim::Convergence => "it reached no legitimate state",
        Claim::Agreement => "the wrong process was elected",
        Claim::Termination => "a process that was up never learnt the coordinator",
    }
}

/// Whether a run deadlocked or starved a process.
pub fn stopped(report: &Report) -> bool {
    let stops = [Claim::DeadlockFree, Claim::Liveness];
    stops.iter().any(|claim| report.violations_by_property.contains_key(claim.name()))
}

/// The seed of a violation as a prefix, if there were several runs.
pub fn of_seed(violation: &Violation, runs: usize) -> String {
    if runs > 1 { format!("seed {}, ", violation.seed) } else { String::new() }
}
