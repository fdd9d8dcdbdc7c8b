//! The voter's side of view leases.
//!
//! A voter answers an ask iff neither its persisted log nor its latest snapshot holds a later view.
//! It looks at what is persisted, not at what is applied: after a restart it has its log and not
//! its commit index, and must not answer for a view that it has reported as over before. A later
//! view that was only appended may vanish with the log's tail; then it answers again, and nothing
//! is lost but time.
//!
//! Once it has applied view M it reports to M's coordinator when it last answered each incarnation
//! that M removes. It will answer none of them again. It remembers its answers in memory only:
//! since a restart it knows of none, so it reports its uptime as the age, as if it had answered at
//! the very moment it started, which no answer of its earlier life is later than.

use std::{collections::BTreeMap, time::Duration};

use super::{Command, Instance, LeaseRules, ViewNumber, ViewSettings};
use crate::Moment;

/// A voter's part in leases.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct VoterLease {
    started: Moment,
    /// The views in the persisted log behind what is folded into `latest`, by their place.
    log: BTreeMap<u64, ViewNumber>,
    /// The latest view that is in the snapshot or applied, and so stays.
    latest: ViewNumber,
    /// The latest view applied in this life.
    applied: ViewNumber,
    /// When it last answered each incarnation.
    answered: BTreeMap<Instance, Moment>,
}

impl VoterLease {
    /// A voter that starts with a snapshot whose last view this is; its log is then fed to
    /// [`appended`](Self::appended).
    pub fn new(now: Moment, snapshot: ViewNumber) -> Self {
        Self {
            started: now,
            log: BTreeMap::new(),
            latest: snapshot,
            applied: snapshot,
            answered: BTreeMap::new(),
        }
    }

    /// A command is in the persisted log, at this place. To be called before the engine
    /// acknowledges it to its leader.
    pub fn appended(&mut self, index: u64, command: &Command) {
        self.log.remove(&index);
        if let Command::View(view) = command {
            self.log.insert(index, view.number);
        }
    }

    /// The log's tail from this place on is gone.
    pub fn truncated(&mut self, from: u64) {
        self.log.retain(|&index, _| index < from);
    }

    /// A snapshot has taken the place of the log up to this place; its last view. Where the place
    /// is not known the log counts as it was, until something later is applied: a view that has
    /// vanished may keep this voter from answering, a view that is there never goes unnoticed.
    pub fn snapshot_installed(&mut self, index: Option<u64>, last: ViewNumber) {
        self.log.retain(|&place, _| index.is_none_or(|index| place > index));
        self.latest = self.latest.max(last);
        self.applied = self.applied.max(last);
    }

    /// The command at this place was applied; this is the last view now.
    pub fn applied(&mut self, index: u64, last: ViewNumber) {
        self.applied = self.applied.max(last);
        self.latest = self.latest.max(last);
        self.log.retain(|&place, _| place > index);
    }

    /// The latest view that is persisted here.
    pub fn latest(&self, rules: LeaseRules) -> ViewNumber {
        match rules {
            LeaseRules::StopAtApplied => self.applied,
            _ => self.log.values().copied().max().unwrap_or_default().max(self.latest),
        }
    }

    /// Whether to answer an ask for a lease in this view; notes it if so.
    pub fn answer(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        from: Instance,
        view: ViewNumber,
    ) -> bool {
        if view == ViewNumber::default() || view < self.latest(settings.rules.lease) {
            return false;
        }
        // An older note tells no more than the uptime does: both are longer than any lease.
        let old = settings.full_lease() * 2;
        self.answered.retain(|_, last| now.since(*last) < old);
        self.answered.insert(from, now);
        true
    }

    /// How long ago this voter last answered that incarnation at the latest.
    pub fn age(&self, now: Moment, settings: &ViewSettings, of: Instance) -> Duration {
        match (self.answered.get(&of), settings.rules.lease) {
            (Some(&last), _) => now.since(last),
            (None, LeaseRules::UnknownAgeIsLong) => settings.full_lease(),
            (None, _) => now.since(self.started),
        }
    }
}
