//! What a run with a repair measures beside every run: times and messages of each repair.

use std::collections::BTreeMap;

use mutua_algorithms::{
    Message, NodeId,
    repairs::{Changes, RepairMessage},
};
use serde::Serialize;

use super::causes::{Cause, Causes};

/// Numbers of messages by purpose, and then by kind.
pub type ByPurpose = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// One repair, its times in nanoseconds since the start.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
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
    /// What it follows: every crash, restart and wrong report that no repair before it followed,
    /// the earliest first.
    pub causes: Vec<Cause>,
    /// The time of the first of them.
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
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) causes: Causes,
    /// Reports of a crash of a process that was up.
    pub(super) wrong_reports: u64,
    last_entry_at: Option<u64>,
    /// The processes that have suspended the algorithm, and since when.
    suspended: BTreeMap<NodeId, u64>,
    pub(super) entries_before: Option<u64>,
    pub(super) repairs: Vec<Repaired>,
    /// The repairs after which no process has entered yet.
    awaiting_entry: Vec<usize>,
    /// The special repairs, by the crashed process and the number of its changes.
    special: BTreeMap<(NodeId, u32), usize>,
    pub(super) by_purpose: ByPurpose,
    /// The time that is of interest, and the time between the entries around it.
    gap_at: Option<u64>,
    pub(super) gap: Option<u64>,
}

/// The number of a view and the process that started it.
type View = Option<(u32, Option<NodeId>)>;

impl Measured {
    pub(super) fn new(causes: Causes, gap_at: Option<u64>) -> Self {
        Self {
            causes,
            wrong_reports: 0,
            last_entry_at: None,
            suspended: BTreeMap::new(),
            entries_before: None,
            repairs: Vec::new(),
            awaiting_entry: Vec::new(),
            special: BTreeMap::new(),
            by_purpose: ByPurpose::new(),
            gap_at,
            gap: None,
        }
    }

    pub(super) fn sends<A: Message>(&mut self, message: &RepairMessage<A>, receivers: usize) {
        let kinds = self.by_purpose.entry(message.purpose().word()).or_default();
        *kinds.entry(message.kind()).or_default() += receivers as u64;
    }

    /// A process enters in this view.
    pub(super) fn enters(&mut self, now: u64, view: View) {
        if let (Some(at), Some(before)) = (self.gap_at, self.last_entry_at)
            && before <= at
            && at < now
        {
            self.gap = Some(now - before);
        }
        self.last_entry_at = Some(now);
        let repairs = &mut self.repairs;
        self.awaiting_entry.retain(|&place| {
            let repaired = &mut repairs[place];
            let its = Some((repaired.view, repaired.leader.map(NodeId)));
            let is_after = repaired.how == SPECIAL || its == view;
            if is_after {
                repaired.entered_at = Some(now);
            }
            !is_after
        });
    }

    pub(super) fn suspends(&mut self, now: u64, who: NodeId) {
        self.suspended.entry(who).or_insert(now);
    }

    /// The leader starts a view after these changes. Views of others, as in a partition, are apart.
    pub(super) fn starts(&mut self, now: u64, leader: NodeId, changes: &Changes) {
        let suspended = changes.members().filter_map(|member| self.suspended.get(&member));
        let suspended_at = suspended.copied().min().unwrap_or(now);
        let causes = self.causes.of(changes, suspended_at);
        self.add(Repaired {
            how: VIEW,
            view: changes.view(),
            leader: Some(leader.0),
            members: changes.members().count() as u32,
            changed_at: causes.first().map_or(suspended_at, |cause| cause.at),
            causes,
            suspended_at,
            ..self.repaired(now)
        });
    }

    pub(super) fn resumes(&mut self, now: u64, view: View, who: NodeId, changes: &Changes) {
        self.suspended.remove(&who);
        self.causes.goes_on(who, now, changes);
        let is_it = |repaired: &&mut Repaired| {
            repaired.how == VIEW && Some((repaired.view, repaired.leader.map(NodeId))) == view
        };
        if let Some(repaired) = self.repairs.iter_mut().rev().find(is_it) {
            repaired.resumed_at = now;
        }
    }

    /// A survivor goes on in its view without a crashed process.
    pub(super) fn goes_on(
        &mut self,
        now: u64,
        who: NodeId,
        view: View,
        changes: &Changes,
        without: NodeId,
    ) {
        let count = changes.of(without).unwrap_or(0);
        if let Some(&known) = self.special.get(&(without, count)) {
            self.repairs[known].resumed_at = now;
        } else {
            let causes = vec![self.causes.one(who, without, count, now)];
            self.special.insert((without, count), self.repairs.len());
            self.add(Repaired {
                how: SPECIAL,
                view: view.map_or(0, |(number, _)| number),
                without: Some(without.0),
                members: changes.members().count() as u32,
                changed_at: causes[0].at,
                causes,
                suspended_at: now,
                ..self.repaired(now)
            });
        }
        self.causes.goes_on(who, now, changes);
    }

    /// The part of a crashed process is taken over.
    pub(super) fn takes_over(&mut self, now: u64, of: NodeId, by: NodeId, changes: &Changes) {
        let count = changes.of(of).unwrap_or(0);
        if let Some(&known) = self.special.get(&(of, count)) {
            self.repairs[known].resumed_at = now;
            self.repairs[known].leader = Some(by.0);
        }
    }

    fn add(&mut self, repaired: Repaired) {
        self.awaiting_entry.push(self.repairs.len());
        self.repairs.push(repaired);
    }

    fn repaired(&self, now: u64) -> Repaired {
        Repaired {
            started_at: now,
            resumed_at: now,
            last_entry_at: self.last_entry_at,
            ..Repaired::default()
        }
    }
}

/// The two ways of a repair, as [`Repaired::how`] names them.
const VIEW: &str = "view";
const SPECIAL: &str = "special";
