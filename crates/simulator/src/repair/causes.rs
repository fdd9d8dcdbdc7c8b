//! What a repair follows: crashes, restarts, and reports of neither.

use std::{collections::BTreeMap, fmt};

use mutua_algorithms::{NodeId, repairs::Changes};
use serde::Serialize;

/// A change that a repair follows.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Cause {
    /// When it happened, in nanoseconds; when it was reported, where nothing happened.
    pub at: u64,
    /// The kind of the change.
    pub what: Change,
    /// The process that crashed or restarted, or was taken for crashed.
    pub of: u32,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The process crashed.
    Crash,
    /// The process restarted.
    Restart,
    /// The process was up and was taken for crashed, by a detector that can be wrong.
    Suspicion,
    /// The process had been taken for crashed, and messages of it arrived again.
    Withdrawal,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Suspicion => "suspicion",
            Self::Withdrawal => "withdrawal",
        })
    }
}

/// The crashes and restarts of a run, and what each process has taken account of.
#[derive(Debug)]
pub(super) struct Causes {
    /// The detector reports every change and nothing else, so that reports count the changes.
    is_perfect: bool,
    /// The times of each process's crashes and restarts, which take turns.
    happened: BTreeMap<NodeId, Vec<u64>>,
    /// The changes that each process took account of when it went on last, and when that was.
    known: BTreeMap<NodeId, (u64, Vec<(NodeId, u32)>)>,
}

impl Causes {
    pub(super) fn new(is_perfect: bool) -> Self {
        Self { is_perfect, happened: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// A process has crashed or restarted.
    pub(super) fn happens(&mut self, now: u64, who: NodeId) {
        self.happened.entry(who).or_default().push(now);
    }

    /// The number of crashes.
    pub(super) fn crashes(&self) -> u64 {
        self.happened.values().map(|changes| changes.len().div_ceil(2) as u64).sum()
    }

    /// A process goes on, having taken account of these changes.
    pub(super) fn goes_on(&mut self, who: NodeId, now: u64, changes: &Changes) {
        self.known.insert(who, (now, changes.counts().to_vec()));
    }

    /// The changes that no member took account of before, which were reported at this time.
    pub(super) fn of(&self, changes: &Changes, reported_at: u64) -> Vec<Cause> {
        let members = || changes.members().filter_map(|member| self.known.get(&member));
        let since = members().map(|&(at, _)| at).max().unwrap_or(0);
        let mut known: BTreeMap<NodeId, u32> = BTreeMap::new();
        for &(node, count) in members().flat_map(|(_, counts)| counts) {
            let highest = known.entry(node).or_default();
            *highest = count.max(*highest);
        }
        let new = changes.counts().iter().flat_map(|&(node, count)| {
            let known = known.get(&node).copied().unwrap_or(0);
            (known + 1..=count).map(move |number| (node, number))
        });
        let mut causes: Vec<_> =
            new.map(|(node, number)| self.cause(node, number, since, reported_at)).collect();
        causes.sort_unstable();
        causes.dedup();
        causes
    }

    /// The change of this number of a process, which was reported to another at this time.
    pub(super) fn one(&self, to: NodeId, of: NodeId, number: u32, reported_at: u64) -> Cause {
        let since = self.known.get(&to).map_or(0, |&(at, _)| at);
        self.cause(of, number, since, reported_at)
    }

    fn cause(&self, of: NodeId, number: u32, since: u64, reported_at: u64) -> Cause {
        let is_crash = !number.is_multiple_of(2);
        let (at, what) = match (self.time(of, number, since), is_crash) {
            (Some(at), true) => (at, Change::Crash),
            (Some(at), false) => (at, Change::Restart),
            (None, true) => (reported_at, Change::Suspicion),
            (None, false) => (reported_at, Change::Withdrawal),
        };
        Cause { at, what, of: of.0 }
    }

    /// When the change happened; none if it did not. Older ones have been taken account of.
    fn time(&self, of: NodeId, number: u32, since: u64) -> Option<u64> {
        let happened = self.happened.get(&of)?;
        if self.is_perfect {
            return happened.get(number as usize - 1).copied();
        }
        // A timeout counts what it takes for changes. The last crash is the one that it has seen if
        // the process is still down, or was up when the others went on last.
        let is_alike = |(index, _): &(usize, &u64)| (index % 2 == 0) != number.is_multiple_of(2);
        let (index, &at) = happened.iter().enumerate().rfind(is_alike)?;
        let is_last = index + 1 == happened.len();
        ((is_last && !number.is_multiple_of(2)) || at >= since).then_some(at)
    }
}
