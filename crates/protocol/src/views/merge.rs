//! The plan of a view, made from all reports.
//!
//! Of two that say they hold the same lock the greater fencing token entered later, and the other
//! has left: tokens grow with every grant. Of two with the same token, the one that has begun the
//! later view knows better: a custodian against a host that was cut off, and came back.

use std::collections::BTreeMap;

use mutua_algorithms::FencingToken;

use super::{
    Client, DecidedState, DecidedView, Holder, Instance, MemberId, Plan, Record, Report,
    ViewNumber, records,
};

/// A reason to take somebody for the holder. The greatest wins; the fields' order counts.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Weight {
    token: FencingToken,
    begun: ViewNumber,
    source: Source,
}

/// Where it is said: in a member's own report before a record, and in a record before a claim.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Source {
    Claim,
    Record,
    Host,
}

impl Weight {
    /// The view that makes the holder the client's host, if it is not yet.
    fn hosted_since(&self, view: &DecidedView) -> ViewNumber {
        match self.source {
            Source::Host => ViewNumber(0),
            Source::Record | Source::Claim => view.number,
        }
    }
}

#[derive(Default)]
struct Merge {
    held: BTreeMap<Vec<u8>, (Weight, Holder)>,
}

impl Merge {
    fn consider(&mut self, name: &[u8], weight: Weight, holder: Holder) {
        let known = self.held.get(name);
        if known.is_none_or(|(known, _)| *known < weight) {
            self.held.insert(name.to_vec(), (weight, holder));
        }
    }
}

/// The plan of a view; `whole` says whether its keepers know all records.
pub(super) fn merge(
    state: &DecidedState,
    view: &DecidedView,
    reports: &BTreeMap<Instance, Report>,
    whole: bool,
) -> Plan {
    let latest = reports.values().map(|report| report.last_begun).max().unwrap_or_default();
    let mut merge = Merge::default();
    for (&member, report) in reports.iter().filter(|(member, _)| view.members.contains(member)) {
        if !is_superseded(state, member, report.last_begun, latest) {
            for (name, hold) in &report.contents.held {
                let weight =
                    Weight { token: hold.token, begun: report.last_begun, source: Source::Host };
                let (token, client) = (hold.token, hold.client.clone());
                merge.consider(name, weight, Holder { member, token, client, custody: false });
            }
        }
        if !whole {
            for (name, claim) in &report.contents.claims {
                let weight =
                    Weight { token: claim.token, begun: ViewNumber(0), source: Source::Claim };
                let client = Some(claim.client.clone());
                let holder = Holder { member, token: claim.token, client, custody: false };
                merge.consider(name, weight, holder);
            }
        }
    }
    for (begun, record) in kept(state, view, reports, whole) {
        // A host that is here has said itself what it holds, unless it does not know that it is the
        // host: it has not begun the view that made it the custodian.
        let host = reports.get(&record.host).filter(|_| view.members.contains(&record.host));
        let speaks = |report: &Report| {
            !is_superseded(state, record.host, report.last_begun, latest)
                && record.hosted_since <= report.last_begun
        };
        if !host.is_some_and(speaks) {
            let member = records::custodian(view, record, reports);
            let weight = Weight { token: record.token, begun, source: Source::Record };
            let Record { session, ttl, value, .. } = record.clone();
            let client = Some(Client { session, ttl, value });
            let holder = Holder { member, token: record.token, client, custody: true };
            merge.consider(&record.name, weight, holder);
        }
    }
    let record = |(name, (weight, holder)): (&Vec<u8>, &(Weight, Holder))| {
        record_of(name, holder, weight.hosted_since(view))
    };
    let records = merge.held.iter().filter_map(record).collect();
    let held = merge.held.into_iter().map(|(name, (_, holder))| (name, holder)).collect();
    Plan { view: view.number, waiting: waiting(view, reports), held, records }
}

/// The records that count: of whole ones, those of the keepers that know them all and have begun
/// the latest view, which is what is newest; else all that there are.
fn kept<'a>(
    state: &DecidedState,
    view: &DecidedView,
    reports: &'a BTreeMap<Instance, Report>,
    whole: bool,
) -> impl Iterator<Item = (ViewNumber, &'a Record)> {
    let knowing: Vec<_> = reports
        .iter()
        .filter(|(keeper, report)| {
            let keeps = view.keepers.contains(keeper);
            keeps && records::knows_all(state, view, **keeper, report.last_begun)
        })
        .map(|(_, report)| report.last_begun)
        .collect();
    let newest = knowing.into_iter().max().filter(|_| whole);
    reports
        .values()
        .filter(move |report| newest.is_none_or(|newest| report.last_begun >= newest))
        .flat_map(|report| report.records.iter().map(|record| (report.last_begun, record)))
}

/// Whether what this incarnation holds was taken over: a view has begun without it since the last
/// that it has begun itself. In-process guards have ended with its lease, and its clients have
/// custodians, or have had them.
fn is_superseded(
    state: &DecidedState,
    member: Instance,
    begun: ViewNumber,
    latest: ViewNumber,
) -> bool {
    let mut since = state.views().filter(|view| begun < view.number && view.number <= latest);
    begun < state.begun() || since.any(|view| !view.members.contains(&member))
}

fn record_of(name: &[u8], holder: &Holder, hosted_since: ViewNumber) -> Option<Record> {
    let Client { session, ttl, value } = holder.client.clone()?;
    Some(Record {
        name: name.to_vec(),
        token: holder.token,
        session,
        ttl,
        host: holder.member,
        hosted_since,
        value,
    })
}

fn waiting(
    view: &DecidedView,
    reports: &BTreeMap<Instance, Report>,
) -> BTreeMap<Vec<u8>, Vec<MemberId>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for member in &view.members {
        for (name, age) in reports.get(member).iter().flat_map(|one| &one.contents.waiting) {
            all.entry(name.clone()).or_default().push((std::cmp::Reverse(*age), member.member));
        }
    }
    let order = |(name, mut waits): (_, Vec<_>)| {
        waits.sort_unstable();
        (name, waits.into_iter().map(|(_, member)| member).collect())
    };
    all.into_iter().map(order).collect()
}
