//! The change of view: what members report, and what a view begins with.
//!
//! A member that learns of view M leaves its view, links to everybody in M, gets its lease in M
//! acknowledged, and reports to M's coordinator. Nothing is granted between leaving and beginning,
//! so a report can only be too long by the time it is used. With all reports in, and the leases of
//! those removed over, the coordinator makes the *plan* of M: who holds what, who waits in which
//! order, which records go on. All begin with the same plan.
//!
//! If the coordinator crashes after some have begun M, those report in M + 1 what they have granted
//! since, or their leases are waited for. So it does not matter who has begun and who has not.

use std::{collections::BTreeMap, time::Duration};

use mutua_algorithms::FencingToken;
use serde::{Deserialize, Serialize};

use super::{
    BeginWait, DecidedState, DecidedView, Instance, MemberId, Record, ViewNumber, ViewSettings,
    merge::merge, records,
};
use crate::Moment;

/// What a member holds, waits for and was asked to take up again.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// An epoch that its fencing tokens are at most of.
    pub floor: u32,
    /// What it holds: guards in the process, and clients that were notified. Who was not notified
    /// yet waits.
    pub held: BTreeMap<Vec<u8>, Hold>,
    /// The names that somebody waits for at it, and for how long.
    pub waiting: BTreeMap<Vec<u8>, Duration>,
    /// What clients of lost nodes have reclaimed at it.
    pub claims: BTreeMap<Vec<u8>, Claim>,
    /// How long what earlier incarnations of this member granted may still be held, if its disk
    /// says so.
    pub leases_left: Option<Duration>,
}

impl Contents {
    /// Its waits have become longer.
    pub(super) fn age(&mut self, by: Duration) {
        for age in self.waiting.values_mut() {
            *age = age.saturating_add(by);
        }
    }
}

/// A lock that a member holds.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Its fencing token.
    pub token: FencingToken,
    /// The client, if it is outside the node's process.
    pub client: Option<Client>,
}

/// A client outside the node's process.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its session.
    pub session: u64,
    /// Its TTL.
    pub ttl: Duration,
    /// The value that goes with the lock.
    pub value: Vec<u8>,
}

/// A lock that a client says it holds.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// With this fencing token.
    pub token: FencingToken,
    /// The client.
    pub client: Client,
}

/// What a member or keeper reports to a view's coordinator. A later version takes the place of an
/// earlier one.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The view.
    pub view: ViewNumber,
    /// Counts the reports to this view.
    pub version: u64,
    /// The last view that this incarnation has begun.
    pub last_begun: ViewNumber,
    /// What it holds and who waits.
    pub contents: Contents,
    /// The records that it keeps.
    pub records: Vec<Record>,
    /// What is left of a wait for lost records that began in that view.
    pub quarantine: Option<(ViewNumber, Duration)>,
}

/// Who holds a lock when a view begins.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The member.
    pub member: Instance,
    /// The fencing token of the hold.
    pub token: FencingToken,
    /// The client, if it is outside the node's process.
    pub client: Option<Client>,
    /// Whether the member holds it as the custodian of a client that it does not know yet.
    pub custody: bool,
}

/// What a view begins with: the same for all.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The view.
    pub view: ViewNumber,
    /// Who holds what; everything else is free.
    pub held: BTreeMap<Vec<u8>, Holder>,
    /// The members where somebody waits, longest wait first. A free lock starts at the first of
    /// them, who enters without a message. Members request again in this order, with clocks that
    /// start at their rank.
    pub waiting: BTreeMap<Vec<u8>, Vec<MemberId>>,
    /// The records that go on; every keeper keeps all of them.
    pub records: Vec<Record>,
}

/// The coordinator's part in a view change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Coordinator {
    view: DecidedView,
    wait: BeginWait,
    reports: BTreeMap<Instance, Report>,
    /// Until when what earlier incarnations of these members granted may be held, on this clock.
    leases_until: BTreeMap<Instance, Moment>,
    /// Shortest known end of a wait for lost records that began in an earlier view.
    waited: Option<Moment>,
    plan: Option<Plan>,
}

/// What keeps a view from beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blocked {
    /// Somebody has not reported.
    Report(Instance),
    /// Too few voters have said when they last answered whom the view removes.
    Words,
    /// A member knows of an epoch that is not below the view's; a view with a higher one is needed.
    Epoch,
    /// Time has to pass: leases that end, or locks of clients whose records are lost.
    Until(Moment),
}

impl Coordinator {
    /// The coordinator of this view, by what is decided.
    pub fn new(state: &DecidedState, view: &DecidedView) -> Self {
        let wait = BeginWait::new(state, view);
        let (reports, leases_until) = (BTreeMap::new(), BTreeMap::new());
        Self { view: view.clone(), wait, reports, leases_until, waited: None, plan: None }
    }

    /// Something was decided; see [`BeginWait::refresh`].
    pub fn refresh(&mut self, state: &DecidedState) {
        self.wait.refresh(state, &self.view);
    }

    /// The wait for removed leases.
    pub fn wait(&mut self) -> &mut BeginWait {
        &mut self.wait
    }

    /// Takes a report; says whether it is known now, in this version or a later one. After the plan
    /// is made it changes nothing.
    pub fn report(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
        from: Instance,
        mut report: Report,
    ) -> bool {
        if report.view != self.view.number || !self.view.concerns(from) {
            return false;
        }
        if self.plan.is_some() {
            return true;
        }
        if let Some((view, left)) = report.quarantine
            // As for records: no record was completed since that view without this keeper.
            && self.view.keepers.contains(&from)
            && report.last_begun < view
            && records::knows_all(state, &self.view, from, view)
            && records::is_covered(state, &self.view, view)
        {
            let until = now.after(settings.on_any_clock(left));
            self.waited = Some(self.waited.map_or(until, |known| known.min(until)));
        }
        let newer = |known: &Report| known.version < report.version;
        if self.reports.get(&from).is_none_or(newer) {
            // Waits are compared as of one moment, whenever each report has arrived.
            report.contents.age(Moment::NEVER.since(now));
            // What is left is left as of this report: a later version of it says less.
            if let Some(left) = report.contents.leases_left {
                self.leases_until.insert(from, now.after(settings.on_any_clock(left)));
            }
            self.reports.insert(from, report);
        }
        true
    }

    /// Whether this member's report is known.
    pub fn has_report(&self, from: Instance) -> bool {
        self.reports.contains_key(&from)
    }

    /// The plan, once it is made.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// What keeps the view from beginning, if anything does.
    pub fn blocked(
        &self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
    ) -> Option<Blocked> {
        let everybody = self.view.everybody();
        if let Some(&late) = everybody.iter().find(|one| !self.reports.contains_key(one)) {
            return Some(Blocked::Report(late));
        }
        // An algorithm's clock starts in the view's epoch; a member above it would be ignored.
        if self.reports.values().any(|report| report.contents.floor >= self.view.epoch) {
            return Some(Blocked::Epoch);
        }
        let Some(over_at) = self.wait.over_at(settings) else { return Some(Blocked::Words) };
        let until = over_at.max(self.quarantined_until(settings, state, over_at));
        (until > now).then_some(Blocked::Until(until))
    }

    /// For how long clients may hold what no record names, once all have reported.
    pub fn quarantine_left(
        &self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
    ) -> Option<Duration> {
        let complete = self.view.everybody().iter().all(|one| self.reports.contains_key(one));
        let over_at = self.wait.over_at(settings).filter(|_| complete)?;
        let left = self.quarantined_until(settings, state, over_at).since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Until when clients may hold what no record names.
    fn quarantined_until(
        &self,
        settings: &ViewSettings,
        state: &DecidedState,
        over_at: Moment,
    ) -> Moment {
        if records::is_whole(settings, state, &self.view, &self.reports) {
            return Moment::ZERO;
        }
        let leases_until = &self.leases_until;
        let anew = records::quarantine(settings, state, &self.view, leases_until, over_at);
        self.waited.map_or(anew, |waited| waited.min(anew))
    }

    /// Makes the plan if nothing keeps the view from beginning; says whether it is made now.
    pub fn try_begin(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        state: &DecidedState,
    ) -> bool {
        if self.plan.is_some() || self.blocked(now, settings, state).is_some() {
            return false;
        }
        let whole = records::is_whole(settings, state, &self.view, &self.reports);
        self.plan = Some(merge(state, &self.view, &self.reports, whole));
        true
    }
}
