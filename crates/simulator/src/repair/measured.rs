//! What a run with a repair measures beside every run: times and messages of each repair.

use std::collections::BTreeMap;

use mutua_algorithms::{Message, NodeId, repairs::RepairMessage};
use serde::Serialize;

/// Numbers of messages by purpose, and then by kind.
pub type ByPurpose = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// One repair, its times in nanoseconds since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Repaired {
    /// How: `view`, by the next view, or `special`, in the view that there is.
    pub how: &'static str,
    /// The number of the view.
    pub view: u32,
    /// The process that started the view, or has taken over the crashed one's part.
    pub leader: Option<u32>,
    /// The crashed process that a special repair goes on without.
    pub without: Option<u32>,
    /// The number of processes that are up.
    pub members: u32,
    /// What it follows: `crash`, `restart`, or `suspicion` where neither has happened.
    pub after: &'static str,
    /// The time of the crash or restart that it follows.
    pub changed_at: u64,
    /// The first process suspended the algorithm, or went on without the crashed one.
    pub suspended_at: u64,
    /// The leader had a report of every survivor; the first survivor went on.
    pub started_at: u64,
    /// The last member resumed the algorithm or went on, so far.
    pub resumed_at: u64,
    /// The last entry before the repair.
    pub last_entry_at: Option<u64>,
    /// The first entry in the view, or after the first survivor went on.
    pub entered_at: Option<u64>,
}

impl Repaired {
    /// For how long no process entered: from the last entry before to the first one after.
    pub fn stopped_for(&self) -> Option<u64> {
        Some(self.entered_at? - self.last_entry_at?)
    }
}

/// What the report has beside the measures of every run.
#[derive(Debug, Default)]
pub(super) struct Measured {
    changed: Option<(u64, &'static str)>,
    last_entry_at: Option<u64>,
    /// The processes that have suspended the algorithm, and since when.
    suspended: BTreeMap<NodeId, u64>,
    pub(super) entries_before: Option<u64>,
    pub(super) repairs: Vec<Repaired>,
    pub(super) by_purpose: ByPurpose,
    /// The time that is of interest, and the time between the entries around it.
    gap_at: Option<u64>,
    pub(super) gap: Option<u64>,
}

impl Measured {
    pub(super) fn new(gap_at: Option<u64>) -> Self {
        Self { gap_at, ..Self::default() }
    }

    pub(super) fn sends<A: Message>(&mut self, message: &RepairMessage<A>, receivers: usize) {
        let kinds = self.by_purpose.entry(message.purpose().word()).or_default();
        *kinds.entry(message.kind()).or_default() += receivers as u64;
    }

    /// A process has crashed or restarted.
    pub(super) fn changes(&mut self, now: u64, what: &'static str) {
        self.changed = Some((now, what));
    }

    pub(super) fn enters(&mut self, now: u64) {
        if let (Some(at), Some(before)) = (self.gap_at, self.last_entry_at)
            && before <= at
            && at < now
        {
            self.gap = Some(now - before);
        }
        self.last_entry_at = Some(now);
        if let Some(repaired) = self.repairs.last_mut() {
            repaired.entered_at.get_or_insert(now);
        }
    }

    pub(super) fn suspends(&mut self, now: u64, who: NodeId) {
        self.suspended.entry(who).or_insert(now);
    }

    /// The leader starts a view of these members. Views of others, as in a partition, are apart.
    pub(super) fn starts(&mut self, now: u64, view: u32, leader: NodeId, members: &[NodeId]) {
        let suspended = members.iter().filter_map(|member| self.suspended.get(member));
        let suspended_at = suspended.copied().min().unwrap_or(now);
        let repaired = self.repaired(now, "view", view, members.len() as u32);
        // A wrong suspicion begins with itself.
        let changed_at = match self.changed {
            Some((at, _)) => at,
            None => suspended_at,
        };
        let leader = Some(leader.0);
        self.repairs.push(Repaired { leader, suspended_at, changed_at, ..repaired });
    }

    pub(super) fn resumes(&mut self, now: u64, view: u32, who: NodeId) {
        self.suspended.remove(&who);
        let is_it = |repaired: &&mut Repaired| repaired.view == view && repaired.how == "view";
        if let Some(repaired) = self.repairs.iter_mut().find(is_it) {
            repaired.resumed_at = now;
        }
    }

    /// A survivor goes on without a crashed process.
    pub(super) fn goes_on(
        &mut self,
        now: u64,
        view: Option<(u32, Option<NodeId>)>,
        members: u32,
        without: NodeId,
    ) {
        let view = view.map_or(0, |(number, _)| number);
        match self.special(without) {
            Some(repaired) => repaired.resumed_at = now,
            None => {
                let without = Some(without.0);
                let repaired = self.repaired(now, "special", view, members);
                self.repairs.push(Repaired { without, ..repaired });
            }
        }
    }

    /// The part of a crashed process is taken over.
    pub(super) fn takes_over(&mut self, now: u64, of: NodeId, by: NodeId) {
        if let Some(repaired) = self.special(of) {
            repaired.resumed_at = now;
            repaired.leader = Some(by.0);
        }
    }

    fn special(&mut self, without: NodeId) -> Option<&mut Repaired> {
        let is_it = |repaired: &&mut Repaired| repaired.without == Some(without.0);
        self.repairs.iter_mut().rev().find(is_it)
    }

    fn repaired(&self, now: u64, how: &'static str, view: u32, members: u32) -> Repaired {
        // A wrong suspicion follows no crash.
        let (changed_at, after) = self.changed.unwrap_or((now, "suspicion"));
        Repaired {
            how,
            view,
            members,
            after,
            changed_at,
            suspended_at: now,
            started_at: now,
            resumed_at: now,
            last_entry_at: self.last_entry_at,
            ..Repaired::default()
        }
    }
}
