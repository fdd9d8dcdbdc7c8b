//! Records of what clients outside a node's process hold.
//!
//! Such a client outlives its node, and believes that it holds its lock until its last renewal plus
//! its TTL. So before it learns that it holds something, its host sends a record to *all* keepers
//! of the view and waits for all of them. A keeper acknowledges only in a view that it has begun
//! and not left: what it acknowledges it reports to the next view.
//!
//! In a view without the host a member, the custodian, holds the lock for the client, and is its
//! host from then on. It releases the lock when the client's TTL has passed since the view began:
//! the earlier host renewed nobody after its own lease had ended, which was before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mutua_algorithms::{FencingToken, split_mix::mix};
use serde::{Deserialize, Serialize};

use super::{
    DecidedState, DecidedView, Instance, MemberId, RecordRules, Report, ViewNumber, ViewSettings,
};
use crate::Moment;

/// A lock that a client outside its node's process holds.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The lock.
    pub name: Vec<u8>,
    /// The fencing token of the hold.
    pub token: FencingToken,
    /// The client's session.
    pub session: u64,
    /// How long the client believes without a renewal.
    pub ttl: Duration,
    /// The incarnation that renews the session: the client's node, or a custodian.
    pub host: Instance,
    /// The view that made this host the client's, whose plan it must have begun to know of the
    /// hold; 0 if it granted the lock itself.
    pub hosted_since: ViewNumber,
    /// The value that goes with the lock.
    pub value: Vec<u8>,
}

/// A keeper's records.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Keeper {
    records: BTreeMap<Vec<u8>, Record>,
}

impl Keeper {
    /// Keeps a record, unless a later hold of the same lock is known.
    pub fn keep(&mut self, record: Record) {
        let known = self.records.get(&record.name);
        if known.is_none_or(|known| known.token <= record.token) {
            self.records.insert(record.name.clone(), record);
        }
    }

    /// The hold with this token is over, `host` says. Of the hold itself only its present host can
    /// say that: an earlier one, which was cut off and is back, may end its session meanwhile, and
    /// the custodian goes on. Earlier holds are over in any case: somebody has entered since.
    pub fn drop(&mut self, host: Instance, name: &[u8], token: FencingToken) {
        let is_over =
            |known: &Record| known.token < token || (known.token == token && known.host == host);
        if self.records.get(name).is_some_and(is_over) {
            self.records.remove(name);
        }
    }

    /// A view begins with these records.
    pub fn begin(&mut self, records: &[Record]) {
        self.records = records.iter().map(|one| (one.name.clone(), one.clone())).collect();
    }

    /// The record of a lock.
    pub fn get(&self, name: &[u8]) -> Option<&Record> {
        self.records.get(name)
    }

    /// All records.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }
}

/// A host's records on their way to the keepers.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Host {
    numbers: u64,
    pending: BTreeMap<u64, Pending>,
    /// Records that are over; the keepers learn of them with the next batch.
    over: Vec<(Vec<u8>, FencingToken)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Pending {
    record: Record,
    awaiting: BTreeSet<MemberId>,
}

impl Host {
    /// A record that all keepers of the view must acknowledge; its number, not used again.
    pub fn begin(&mut self, view: &DecidedView, record: Record) -> u64 {
        self.numbers += 1;
        // An earlier record of the lock is out of date.
        self.pending.retain(|_, pending| pending.record.name != record.name);
        let awaiting = view.keepers.iter().map(|keeper| keeper.member).collect();
        self.pending.insert(self.numbers, Pending { record, awaiting });
        self.numbers
    }

    /// A keeper has the record; the record, once all have.
    pub fn kept(&mut self, keeper: MemberId, number: u64) -> Option<Record> {
        let pending = self.pending.get_mut(&number)?;
        pending.awaiting.remove(&keeper);
        if !pending.awaiting.is_empty() {
            return None;
        }
        self.pending.remove(&number).map(|pending| pending.record)
    }

    /// The hold is over; says what no keeper needs to hear of any more.
    pub fn over(&mut self, name: &[u8], token: FencingToken) {
        self.pending.retain(|_, pending| pending.record.name != name);
        self.over.push((name.to_vec(), token));
    }

    /// Takes what the keepers are to drop.
    pub fn take_over(&mut self) -> Vec<(Vec<u8>, FencingToken)> {
        std::mem::take(&mut self.over)
    }

    /// What this keeper has not acknowledged yet.
    pub fn due(&self, keeper: MemberId) -> Vec<(u64, Record)> {
        let due = |(_, pending): &(&u64, &Pending)| pending.awaiting.contains(&keeper);
        let record = |(&number, pending): (&u64, &Pending)| (number, pending.record.clone());
        self.pending.iter().filter(due).map(record).collect()
    }

    /// The view is over: what is not acknowledged never will be, and its client was not notified.
    pub fn leave_view(&mut self) {
        self.pending.clear();
        self.over.clear();
    }
}

/// Whether the keepers of a view that have reported know every record of a hold whose client was
/// notified, so that what no record and no member names is free.
///
/// They do if one keeper of the view, in the same incarnation, has begun view v as its keeper and
/// was a keeper in every view decided after v. A record completed in a later view than v would have
/// needed this keeper's acknowledgement there, where it never began. One completed in v has it. One
/// of before v was given to all keepers by the beginning of v. With no view before the first there
/// is nothing to know.
pub fn is_whole(
    settings: &ViewSettings,
    state: &DecidedState,
    view: &DecidedView,
    reports: &BTreeMap<Instance, Report>,
) -> bool {
    let mut keepers = view.keepers.iter().filter_map(|&one| Some((one, reports.get(&one)?)));
    match settings.rules.records {
        RecordRules::Right => {
            keepers.any(|(keeper, report)| knows_all(state, view, keeper, report.last_begun))
        }
        RecordRules::BeganSomeView => {
            view.number == ViewNumber(1) || keepers.any(|(_, report)| report.last_begun.0 > 0)
        }
        RecordRules::WasInLastView => {
            let last = state.views().filter(|earlier| earlier.number < view.number).last();
            last.is_none_or(|last| keepers.any(|(keeper, _)| last.keepers.contains(&keeper)))
        }
    }
}

/// Whether this keeper of `view` has been one in every view since `begun`, that one included.
/// Where views since then are forgotten the answer is no: then a view has begun everywhere that
/// this keeper has not begun.
pub(super) fn knows_all(
    state: &DecidedState,
    view: &DecidedView,
    keeper: Instance,
    begun: ViewNumber,
) -> bool {
    let remembered = state.views().next().is_none_or(|first| first.number <= begun.next());
    let mut since = state.views().filter(|one| begun <= one.number && one.number <= view.number);
    remembered && begun >= state.begun() && since.all(|one| one.keepers.contains(&keeper))
}

/// The member that holds a lock for the client of a dead node: where the client has reclaimed it,
/// else the next incarnation of the same node, which is near the client, else one by rendezvous
/// over the session, so that all locks of a session are at one place.
pub fn custodian(
    view: &DecidedView,
    record: &Record,
    reports: &BTreeMap<Instance, Report>,
) -> Instance {
    let claimed = view.members.iter().find(|member| {
        let claim = reports.get(member).and_then(|report| report.contents.claims.get(&record.name));
        claim.is_some_and(|claim| claim.token == record.token)
    });
    let restarted = view.members.iter().find(|member| member.member == record.host.member);
    let weight = |member: &&Instance| mix(mix(record.session) ^ mix(member.member.0 + 1));
    *claimed
        .or(restarted)
        .or_else(|| view.members.iter().max_by_key(weight))
        .expect("a view has a member")
}

/// Until when to wait if the records are not whole: what the lost incarnations granted may be held
/// until then. A lost member that is back knows how long its own grants last, if its disk has
/// survived (`leases_until`); for the others it is the longest TTL from `over_at` on, when all
/// removed leases have ended.
pub fn quarantine(
    settings: &ViewSettings,
    state: &DecidedState,
    view: &DecidedView,
    leases_until: &BTreeMap<Instance, Moment>,
    over_at: Moment,
) -> Moment {
    let until = |lost: Instance| {
        let back = view.members.iter().find(|member| member.member == lost.member);
        let known = back.and_then(|back| leases_until.get(back));
        known.copied().unwrap_or_else(|| over_at.after(settings.on_any_clock(state.longest())))
    };
    state.removed(view).into_keys().map(until).max().unwrap_or(over_at)
}

/// Whether a wait for lost records that began in view `since` covers all that `view` has lost:
/// nobody that could have clients was still a member then. One that was has renewed them since.
pub(super) fn is_covered(state: &DecidedState, view: &DecidedView, since: ViewNumber) -> bool {
    let in_views = |lost: &Instance, early: bool| {
        let mut views = state.views().filter(|one| (one.number < since) == early);
        views.any(|one| one.number < view.number && one.members.contains(lost))
    };
    state.removed(view).keys().all(|lost| !(in_views(lost, true) && in_views(lost, false)))
}

/// A wait for lost records that a node has learnt of, so that the next view need not start it anew.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Quarantine {
    /// The view that waited, and until when.
    known: Option<(ViewNumber, Moment)>,
}

impl Quarantine {
    /// The coordinator of this view waits for so long.
    pub fn note(&mut self, now: Moment, settings: &ViewSettings, view: ViewNumber, left: Duration) {
        let until = now.after(settings.on_any_clock(left));
        let known = self.known.filter(|known| known.1 <= until);
        self.known = Some(known.unwrap_or((view, until)));
    }

    /// A view has begun.
    pub fn clear(&mut self) {
        self.known = None;
    }

    /// Whether there is such a wait.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// What to report to the next view: the rest of the wait.
    pub fn left(&self, now: Moment) -> Option<(ViewNumber, Duration)> {
        self.known.map(|(view, until)| (view, until.since(now)))
    }
}
