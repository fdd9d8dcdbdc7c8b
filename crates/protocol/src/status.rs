//! The status of a node and of its locks.

use serde::Serialize;

use crate::{Counts, Member, Moment, Protocol};

/// The status of a node.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The cluster's name.
    pub cluster: String,
    /// This member.
    pub me: Member,
    /// The epoch of the view it is in, if it is in one.
    pub epoch: Option<u32>,
    /// Why no lock is granted, if none is.
    pub stopped: Option<String>,
    /// The view it is in or joins, where consensus decides views.
    pub view: Option<ViewStatus>,
    /// Its links to the other members.
    pub links: Vec<LinkStatus>,
    /// The number of locks it knows.
    pub locks: usize,
    /// The number of locks that clients of this node hold.
    pub held: usize,
    /// The number of waiters of this node.
    pub waiting: usize,
    /// Entries and messages of all locks that it knows.
    pub counts: Counts,
}

/// The status of a view that consensus has decided.
#[derive(Clone, Debug, Serialize)]
pub struct ViewStatus {
    /// Its number.
    pub number: u64,
    /// The members that hold locks in it.
    pub members: Vec<Member>,
    /// The members that vote.
    pub voters: Vec<Member>,
    /// The members that keep its records.
    pub keepers: Vec<Member>,
    /// Milliseconds until the view lease lapses unless it is renewed; 0 if it has.
    pub lease_left_ms: u64,
    /// The number of records of clients' holds that this node keeps.
    pub records: usize,
    /// The incarnation of each member and keeper.
    pub incarnations: Vec<(Member, u64)>,
    /// The level of what may be sent in it.
    pub level: u16,
    /// The number of changes of the rules of locks that it has.
    pub rules: u64,
    /// Milliseconds until it begins, while it waits for leases or for lost records.
    pub begins_in_ms: Option<u64>,
    /// For each member that reports to this voter: the members that it receives messages from.
    pub reach: Vec<(Member, Vec<Member>)>,
}

/// The status of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// The other member.
    pub member: Member,
    /// Whether it is connected.
    pub up: bool,
    /// Milliseconds since it was connected or disconnected.
    pub for_ms: u64,
    /// The number of messages not acknowledged yet.
    pub backlog: usize,
}

/// The status of a lock as one node knows it.
#[derive(Clone, Debug, Serialize)]
pub struct LockStatus {
    /// Its name; a name that is not UTF-8 is escaped.
    pub name: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// The member with its token or coordinator while it is not in use, if there is a view.
    pub home: Option<Member>,
    /// The client of this node that holds it.
    pub holder: Option<HolderStatus>,
    /// The waiters of this node, in order.
    pub waiting: Vec<WaiterStatus>,
    /// Its counters at this node.
    pub counts: Counts,
    /// The state of its process under the paper's names.
    pub variables: Vec<(&'static str, String)>,
}

/// A holder.
#[derive(Clone, Debug, Serialize)]
pub struct HolderStatus {
    /// Its fencing token.
    pub fence: u64,
    /// Milliseconds since it was granted.
    pub for_ms: u64,
    /// Its description of itself.
    pub owner: Option<String>,
}

/// A waiter.
#[derive(Clone, Debug, Serialize)]
pub struct WaiterStatus {
    /// Milliseconds since it was requested.
    pub for_ms: u64,
    /// Its description of itself.
    pub owner: Option<String>,
}

impl Protocol {
    /// The status of this node.
    pub fn status(&self, now: Moment) -> Status {
        let mut status = Status {
            cluster: self.cluster().to_owned(),
            me: self.me(),
            epoch: self.epoch(),
            stopped: self.why_stopped(Some(now)),
            view: self.view_status(now),
            links: self.link_statuses(now),
            locks: 0,
            held: 0,
            waiting: 0,
            counts: self.table().counts(),
        };
        for (_, entry) in self.table().iter() {
            status.locks += 1;
            status.held += usize::from(entry.holder.is_some());
            status.waiting += entry.waiting.len();
        }
        status
    }

    /// The status of a lock, if this node knows it.
    pub fn lock_status(&self, now: Moment, name: &[u8]) -> Option<LockStatus> {
        let entry = self.table().get(self.table().find(name)?)?;
        let owner = |owner: &crate::Owner| owner.as_deref().map(str::to_owned);
        let machine = entry.machine.as_ref();
        let variables = machine.map(|machine| machine.variables()).unwrap_or_default();
        Some(LockStatus {
            name: readable(&entry.name),
            algorithm: self.algorithm(entry.rule),
            home: self.home(&entry.name),
            holder: entry.holder.as_ref().map(|holder| HolderStatus {
                fence: holder.fence.number(),
                for_ms: milliseconds(now, holder.since),
                owner: owner(&holder.owner),
            }),
            waiting: entry
                .waiting
                .values()
                .map(|waiter| WaiterStatus {
                    for_ms: milliseconds(now, waiter.since),
                    owner: owner(&waiter.owner),
                })
                .collect(),
            counts: entry.counts,
            variables: variables
                .into_iter()
                .map(|(name, value)| (name, value.render(&|node| node.to_string())))
                .collect(),
        })
    }
}

pub(crate) fn milliseconds(now: Moment, since: Moment) -> u64 {
    u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX)
}

fn readable(name: &[u8]) -> String {
    match str::from_utf8(name) {
        Ok(text) => text.to_owned(),
        Err(_) => name.escape_ascii().to_string(),
    }
}
