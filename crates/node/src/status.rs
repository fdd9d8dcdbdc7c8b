//! The status of a node, with its members' names.

use std::sync::Arc;

use mutua_protocol::{LinkStatus, Member, Status};
use serde::{Deserialize, Serialize};

use crate::driver::Driver;

/// The status of a node, with its members' names.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeStatus {
    /// The cluster's name.
    pub cluster: String,
    /// This node's name.
    pub node: String,
    /// The process that runs it.
    pub pid: u32,
    /// The epoch of the view it is in, if it is in one.
    pub epoch: Option<u32>,
    /// Why no lock is granted, if none is.
    pub suspended: Option<String>,
    /// The number of the view it is in or joins, where consensus decides views.
    pub view: Option<u64>,
    /// Milliseconds until its view lease lapses unless a majority of voters renews it.
    pub lease_left_ms: Option<u64>,
    /// The leader of the consensus engine, if this node votes and knows one.
    pub leader: Option<String>,
    /// The number of records of clients' holds that it keeps for other members.
    pub records: usize,
    /// All members, this one too.
    pub members: Vec<MemberStatus>,
    /// The number of locks it knows.
    pub locks: usize,
    /// The number of locks that its clients hold.
    pub held: usize,
    /// The number of waiters.
    pub waiting: usize,
    /// Grants to its clients.
    pub grants: u64,
    /// Messages that its processes sent.
    pub messages: u64,
    /// Lazy messages, which are not among those.
    pub lazy: u64,
}

/// The status of a member as this node sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Whether it is connected; a node is connected to itself.
    pub up: bool,
    /// Milliseconds since it was connected or disconnected.
    pub for_ms: u64,
    /// The number of messages that it has not acknowledged yet.
    pub backlog: usize,
    /// Whether it is a member of the view.
    pub in_view: bool,
    /// Whether it votes.
    pub votes: bool,
    /// The members that it receives messages from, as it reports to this node; empty if it does
    /// not report.
    pub reaches: Vec<String>,
}

impl Driver {
    /// The status of the node.
    pub(crate) fn status(self: &Arc<Self>) -> NodeStatus {
        let (status, stopped) = self.call(|core, now| {
            (core.protocol.status(now), core.stopped().map(|why| why.to_string()))
        });
        let Status { cluster, me, epoch, links, locks, held, waiting, counts, view, .. } = status;
        let member = |member: Member, up: bool, for_ms: u64, backlog: usize| {
            let view = view.as_ref();
            let row = view.and_then(|view| view.reach.iter().find(|(of, _)| *of == member));
            let others = row.iter().flat_map(|(_, sees)| sees).filter(|one| **one != member);
            MemberStatus {
                name: self.name(member),
                up,
                for_ms,
                backlog,
                in_view: view.is_none_or(|view| view.members.contains(&member)),
                votes: view.is_none_or(|view| view.voters.contains(&member)),
                reaches: others.map(|one| self.name(*one)).collect(),
            }
        };
        let of_link = |link: LinkStatus| member(link.member, link.up, link.for_ms, link.backlog);
        let mut members: Vec<_> = links.into_iter().map(of_link).collect();
        let node = self.name(me);
        members.insert(me.index(), member(me, true, 0, 0));
        let consensus = self.consensus.get();
        NodeStatus {
            cluster,
            node,
            pid: std::process::id(),
            epoch,
            suspended: stopped.or(status.stopped),
            view: view.as_ref().map(|view| view.number),
            lease_left_ms: view.as_ref().map(|view| view.lease_left_ms),
            leader: consensus.and_then(|consensus| consensus.leader()),
            records: view.as_ref().map_or(0, |view| view.records),
            members,
            locks,
            held,
            waiting,
            grants: counts.entries,
            messages: counts.messages,
            lazy: counts.lazy,
        }
    }
}
