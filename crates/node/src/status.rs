//! The status of a node, with its members' names.

use std::{sync::Arc, time::Duration};

use mutua_protocol::{Figures, LinkStatus, Member, Status, views::Directory};
use serde::{Serialize, Serializer};

use crate::{config::ALONE, driver::Driver};

/// The status of a node, with its members' names.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// The cluster's name; `None` for a node of [`Config::alone`](crate::Config::alone), which has
    /// none.
    pub cluster: Option<String>,
    /// This node's name.
    pub node: String,
    /// The process that runs it.
    pub pid: u32,
    /// The epoch of the view it is in, if it is in one.
    pub epoch: Option<u32>,
    /// Why no lock is granted to clients, if none is. Guards in the node's own process may be,
    /// where the algorithm needs no message for that.
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
    /// What this node's configuration says and the cluster has decided otherwise.
    pub notes: Vec<String>,
    /// The level of the protocol that is decided.
    pub level: Option<u16>,
    /// The number of changes of the rules of locks since the cluster was founded.
    pub rules: u64,
    /// The number of locks that a server around the node holds for clients of lost nodes.
    pub custodies: usize,
    /// Of a single node: the locks that it waits for after a crash, because their clients have not
    /// reclaimed them.
    pub awaited: Vec<AwaitedLock>,
    /// Milliseconds until the view begins, while it waits for leases or for lost records.
    pub begins_in_ms: Option<u64>,
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

/// A lock whose client held it when its single node crashed, and has not reclaimed it yet.
#[derive(Clone, Debug, Serialize)]
pub struct AwaitedLock {
    /// The lock's name; escaped if it is not UTF-8.
    pub name: String,
    /// The fencing token of the hold.
    pub fencing_token: String,
    /// Milliseconds until its lease has expired.
    pub left_ms: u64,
}

/// The status of a member as this node sees it.
#[derive(Clone, Debug, Serialize)]
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
    /// Its id, which no other member has or had; 0 where the members are not decided.
    #[serde(serialize_with = "as_text")]
    pub id: u64,
    /// Its incarnation in the view; 0 if it is not in it.
    #[serde(serialize_with = "as_text")]
    pub incarnation: u64,
    /// The address where it accepts the other members.
    pub address: String,
    /// What it takes part in: voter, follower or witness.
    pub role: String,
    /// The role that it will have once it has the log of the consensus engine.
    pub becomes: Option<String>,
    /// Whether it keeps records of clients' holds in the view.
    pub keeps: bool,
    /// What it reports of itself, if it was asked and has answered.
    pub report: Option<MemberReport>,
}

/// What a member reports of itself.
#[derive(Clone, Debug, Serialize)]
pub struct MemberReport {
    /// The number of records of clients' holds that it keeps.
    pub records: usize,
    /// The number of locks that it holds for clients of lost nodes.
    pub custodies: usize,
    /// Milliseconds until its view lease lapses unless a majority of voters renews it.
    pub lease_left_ms: u64,
    /// Why it grants nothing, if so.
    pub suspended: Option<String>,
}

/// Figures of a node since its start, for monitors.
#[derive(Clone, Debug, Default)]
pub struct NodeFigures {
    /// The messages of each algorithm and type, one for each receiver, lazy ones included.
    pub messages: Vec<(&'static str, &'static str, u64)>,
    /// The views that have begun.
    pub views: u64,
    /// The last round trip to each voter that is connected.
    pub round_trips: Vec<(String, Duration)>,
}

/// What grants to clients wait for, if a member of the view is not connected: each is recorded at
/// all voters of the view.
fn awaited_member(members: &[MemberStatus]) -> Option<String> {
    let missing = members.iter().find(|one| one.in_view && !one.up)?;
    let name = &missing.name;
    Some(format!(
        "{name} is not connected; grants resume when it returns or a view without it begins"
    ))
}

impl Driver {
    /// The figures of the node since its start.
    pub(crate) fn figures(self: &Arc<Self>) -> NodeFigures {
        let Figures { messages, views, round_trips } = self.call(|core, _| core.protocol.figures());
        let named = round_trips.into_iter().map(|(member, time)| (self.name(member), time));
        NodeFigures { messages, views, round_trips: named.collect() }
    }

    /// The status of the node.
    pub(crate) fn status(self: &Arc<Self>) -> NodeStatus {
        let (status, stopped, directory) = self.call(|core, now| {
            let stopped = core.stopped().map(|why| why.to_string());
            (core.protocol.status(now), stopped, core.protocol.directory().cloned())
        });
        let engine = self.consensus.get().map(|one| one.engine_voters()).unwrap_or_default();
        let Status { cluster, me, epoch, links, locks, held, waiting, counts, view, .. } = status;
        let links = self.shown_links(me, links, directory.as_ref());
        let directory = directory.unwrap_or_default();
        let member = |member: Member, up: bool, for_ms: u64, backlog: usize| {
            let view = view.as_ref();
            let row = view.and_then(|view| view.reach.iter().find(|(of, _)| *of == member));
            let others = row.iter().flat_map(|(_, sees)| sees).filter(|one| **one != member);
            let id = directory.at(member.0).unwrap_or_default();
            let entry = directory.entry(id);
            let incarnations = view.map(|view| view.incarnations.as_slice()).unwrap_or_default();
            let incarnation = incarnations.iter().find(|(of, _)| *of == member);
            MemberStatus {
                name: self.name(member),
                up,
                for_ms,
                backlog,
                in_view: view.is_none_or(|view| view.members.contains(&member)),
                // A former voter is needed until the engine lets it vote no longer.
                votes: view.is_none_or(|view| view.voters.contains(&member))
                    || engine.contains(&id),
                reaches: others.map(|one| self.name(*one)).collect(),
                id: id.0,
                incarnation: incarnation.map_or(0, |(_, incarnation)| *incarnation),
                address: entry.map(|entry| entry.address.clone()).unwrap_or_default(),
                role: entry.map(|entry| entry.role.name().to_owned()).unwrap_or_default(),
                becomes: directory.wanted(id).map(|role| role.name().to_owned()),
                keeps: view.is_some_and(|view| view.keepers.contains(&member)),
                report: None,
            }
        };
        let of_link = |link: LinkStatus| member(link.member, link.up, link.for_ms, link.backlog);
        let (before, after): (Vec<_>, Vec<_>) =
            links.into_iter().partition(|link| link.member < me);
        let own = std::iter::once(member(me, true, 0, 0));
        let members = before.into_iter().map(of_link).chain(own);
        let members: Vec<_> = members.chain(after.into_iter().map(of_link)).collect();
        let node = self.name(me);
        let consensus = self.consensus.get();
        let missing = if view.is_some() { awaited_member(&members) } else { None };
        NodeStatus {
            cluster: (node != ALONE || cluster != ALONE).then_some(cluster),
            node,
            pid: std::process::id(),
            epoch,
            suspended: stopped.or(status.stopped).or(missing),
            view: view.as_ref().map(|view| view.number),
            lease_left_ms: view.as_ref().map(|view| view.lease_left_ms),
            leader: consensus.and_then(|consensus| consensus.leader()),
            records: view.as_ref().map_or(0, |view| view.records),
            level: view.as_ref().map(|view| view.level),
            rules: view.as_ref().map_or(0, |view| view.rules),
            custodies: 0,
            awaited: Vec::new(),
            begins_in_ms: view.as_ref().and_then(|view| view.begins_in_ms),
            members,
            notes: consensus.map(|consensus| consensus.differences()).unwrap_or_default(),
            locks,
            held,
            waiting,
            grants: counts.entries,
            messages: counts.messages,
            lazy: counts.lazy,
        }
    }

    /// The links to members. A former one may still have a link, until a view without it has begun.
    fn shown_links(
        &self,
        me: Member,
        links: Vec<LinkStatus>,
        directory: Option<&Directory>,
    ) -> Vec<LinkStatus> {
        let Some(directory) = directory else { return self.listed(me, links) };
        let id = |link: &LinkStatus| directory.at(link.member.0);
        let is_member = |link: &LinkStatus| id(link).is_none_or(|id| !directory.was_removed(id));
        links.into_iter().filter(is_member).collect()
    }

    /// Before the cluster is founded: the members of the list, which are dialled once it is.
    fn listed(&self, me: Member, links: Vec<LinkStatus>) -> Vec<LinkStatus> {
        if self.consensus.get().is_none() {
            return links;
        }
        let others = (0..).map(Member).take(self.names().len()).filter(|one| *one != me);
        others.map(|member| LinkStatus { member, up: false, for_ms: 0, backlog: 0 }).collect()
    }
}

/// A number that may be above 2^53, which many readers of JSON would round.
fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
