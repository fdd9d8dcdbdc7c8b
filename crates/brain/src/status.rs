//! What a node tells about itself.

use serde::Serialize;

use crate::{Brain, Counts, Member, Moment, Name, Ticket};

/// A node at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The cluster's name.
    pub cluster: String,
    /// Which member this is.
    pub me: Member,
    /// The epoch of the view it is in, if it is in one.
    pub epoch: Option<u32>,
    /// Why nothing new is granted, if that is so.
    pub stopped: Option<String>,
    /// Its links to the other members.
    pub links: Vec<LinkStatus>,
    /// How many locks it knows.
    pub locks: usize,
    /// How many of them somebody of this node is inside.
    pub inside: usize,
    /// How many clients of this node wait.
    pub waiting: usize,
    /// Entries and messages of all locks that it knows.
    pub counts: Counts,
}

/// A link at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatus {
    /// The other member.
    pub member: Member,
    /// Whether it is connected.
    pub up: bool,
    /// For how many milliseconds it has been so.
    pub for_ms: u64,
    /// Messages that wait to be acknowledged.
    pub backlog: usize,
}

/// A lock at one moment, as one node knows it.
#[derive(Clone, Debug, Serialize)]
pub struct LockStatus {
    /// Its name; bytes that are no text are escaped.
    pub name: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Where its token or its coordinator is when nobody has used it, if there is a view.
    pub home: Option<Member>,
    /// Who of this node is inside.
    pub holder: Option<HolderStatus>,
    /// Who of this node waits, in order.
    pub waiting: Vec<WaiterStatus>,
    /// Whose message this node waits for, by their processes, as far as it knows.
    pub waits_for: Vec<u32>,
    /// What happened to it here.
    pub counts: Counts,
    /// The state of its process under the paper's names.
    pub variables: Vec<(&'static str, String)>,
}

/// Somebody inside.
#[derive(Clone, Debug, Serialize)]
pub struct HolderStatus {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its fence.
    pub fence: u64,
    /// For how many milliseconds.
    pub for_ms: u64,
    /// Who it says it is.
    pub owner: Option<String>,
}

/// Somebody who waits.
#[derive(Clone, Debug, Serialize)]
pub struct WaiterStatus {
    /// Its ticket.
    pub ticket: Ticket,
    /// For how many milliseconds.
    pub for_ms: u64,
    /// Who it says it is.
    pub owner: Option<String>,
}

impl Brain {
    /// How this node is.
    pub fn status(&self, now: Moment) -> Status {
        let mut status = Status {
            cluster: self.cluster().to_owned(),
            me: self.me(),
            epoch: self.epoch(),
            stopped: self.stopped(),
            links: self.link_statuses(now),
            locks: 0,
            inside: 0,
            waiting: 0,
            counts: Counts::default(),
        };
        for (_, entry) in self.table().iter() {
            status.locks += 1;
            status.inside += usize::from(entry.holder.is_some());
            status.waiting += entry.waiting.len();
            status.counts.entries += entry.counts.entries;
            status.counts.messages += entry.counts.messages;
            status.counts.lazy += entry.counts.lazy;
        }
        status
    }

    /// How a lock is, if this node knows it.
    pub fn lock_status(&self, now: Moment, name: &[u8]) -> Option<LockStatus> {
        let entry = self.table().get(self.table().find(name)?)?;
        let owner = |owner: &crate::Owner| owner.as_deref().map(str::to_owned);
        let machine = entry.machine.as_ref();
        let waits_for = machine.map(|machine| machine.waits_for()).unwrap_or_default();
        let variables = machine.map(|machine| machine.variables()).unwrap_or_default();
        Some(LockStatus {
            name: readable(&entry.name),
            algorithm: self.algorithm(entry.rule),
            home: self.home(&entry.name),
            holder: entry.holder.as_ref().map(|holder| HolderStatus {
                ticket: holder.ticket,
                fence: holder.fence.number(),
                for_ms: milliseconds(now, holder.since),
                owner: owner(&holder.owner),
            }),
            waiting: entry
                .waiting
                .iter()
                .map(|(&ticket, waiter)| WaiterStatus {
                    ticket,
                    for_ms: milliseconds(now, waiter.since),
                    owner: owner(&waiter.owner),
                })
                .collect(),
            waits_for: waits_for.into_iter().map(|node| node.0).collect(),
            counts: entry.counts,
            variables: variables
                .into_iter()
                .map(|(name, value)| (name, value.render(&|node| node.to_string())))
                .collect(),
        })
    }

    /// The names that this node knows.
    pub fn names(&self) -> Vec<Name> {
        self.table().iter().map(|(_, entry)| Name::clone(&entry.name)).collect()
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
