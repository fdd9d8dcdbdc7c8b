//! M. Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems", ACM TOCS 3(2),
//! 1985, without its deadlock resolution: a negative control.
//!
//! A process enters with the votes of its quorum, and each voter has one vote, which it gives in
//! the order of arrival. Any two quorums meet, so no two are in the critical section; but two
//! requests can each hold a vote that the other needs, and then both wait for ever. Where two
//! quorums share two members two requests suffice for that, where they share one it takes three.
//! 3(K-1) messages, K the size of a quorum. Links must keep order, else the next request overtakes
//! the release of the last.
//!
//! Liberties: a message of a process to itself is a call. See [`maekawa`](super::Maekawa) for the
//! whole algorithm.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, NodeSet,
    Outbox, Partners, Phase, Quorums, Renaming, Shared, Stamp, Start, Structure, Value,
};

/// One process of Maekawa's algorithm in its basic form: a requester and a voter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MaekawaBasic {
    me: NodeId,
    quorums: Shared<Quorums>,
    phase: Phase,
    /// The processes that have voted for us.
    votes: NodeSet,
    /// The process that has our vote.
    candidate: Option<NodeId>,
    /// The processes that wait for our vote, in order of arrival.
    queue: VecDeque<NodeId>,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum MaekawaBasicMessage {
    /// I want your vote.
    Request,
    /// You have my vote.
    Grant,
    /// I have left: your vote is free.
    Release,
}

use MaekawaBasicMessage::{Grant, Release, Request};

impl Mutex for MaekawaBasic {
    type Message = MaekawaBasicMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let quorums = start.quorums().clone();
        let in_cs = start.is_in_cs(me);
        let votes: &[NodeId] = if in_cs { quorums.of(me) } else { &[] };
        Self {
            me,
            phase: if in_cs { Phase::InCs } else { Phase::Idle },
            votes: votes.iter().copied().collect(),
            candidate: start.in_cs().filter(|&holder| quorums.contains(holder, me)),
            queue: VecDeque::new(),
            quorums,
        }
    }

    /// The paper's REQUEST to every member of the quorum, ourselves included.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        out.multicast(self.voters(), Request);
        self.vote_or_queue(self.me, out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let known = match message {
            Request | Release => self.quorums.contains(from, self.me),
            Grant => self.quorums.contains(self.me, from),
        };
        if !known || from == self.me {
            return out.nonsense(from, "a message from out of the quorum");
        }
        match message {
            Request if self.candidate == Some(from) || self.queue.contains(&from) => {
                out.nonsense(from, "a second request before the first was released");
            }
            Request => self.vote_or_queue(from, out),
            Grant => self.on_grant(from, out),
            Release => self.on_release(from, out),
        }
    }

    /// The paper's RELEASE to every member of the quorum.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        self.votes.clear();
        out.multicast(self.voters(), Release);
        self.on_release(self.me, out);
    }
}

impl MaekawaBasic {
    // The voter.

    /// The paper's rule for a REQUEST, without FAILED and INQUIRE.
    fn vote_or_queue(&mut self, requester: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        if self.candidate.is_none() {
            self.vote_for(requester, out);
        } else {
            self.queue.push_back(requester);
        }
    }

    /// The paper's rule for a RELEASE.
    fn on_release(&mut self, from: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        if self.candidate != Some(from) {
            return out.nonsense(from, "a release of a vote that it does not have");
        }
        self.candidate = None;
        if let Some(first) = self.queue.pop_front() {
            self.vote_for(first, out);
        }
    }

    fn vote_for(&mut self, requester: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        self.candidate = Some(requester);
        if requester == self.me {
            self.on_grant(requester, out);
        } else {
            out.send(requester, Grant);
        }
    }

    // The requester.

    /// The paper's rule for LOCKED.
    fn on_grant(&mut self, from: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        if self.phase != Phase::Requesting || !self.votes.insert(from) {
            return out.nonsense(from, "an unrequested vote");
        }
        if self.votes.len() == self.quorums.of(self.me).len() {
            self.phase = Phase::InCs;
            out.enter();
        }
    }

    /// The quorum without us.
    fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.quorums.of(self.me).iter().copied().filter(|&voter| voter != self.me)
    }
}

impl Inspect for MaekawaBasic {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.quorums.of(self.me).len() == 1 && self.phase == Phase::Idle && self.candidate.is_none()
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Idle && self.candidate.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => {
                let voters = self.quorums.of(self.me).iter().copied();
                voters.filter(|&voter| !self.votes.contains(voter)).collect()
            }
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("votes", Value::from(&self.votes)),
            ("candidate", self.candidate.into()),
            ("queue", Value::list(self.queue.iter().copied())),
        ]
    }

    /// Votes are given in the order of arrival; only quorums, and the process that begins in the
    /// critical section, differ.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        let kept = start.in_cs().is_none_or(|holder| renaming.of(holder) == holder);
        kept && start.quorums().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        self.votes = renaming.set(&self.votes);
        renaming.all(&mut self.candidate);
        renaming.all(&mut self.queue);
    }
}

impl Message for MaekawaBasicMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request => "request",
            Grant => "grant",
            Release => "release",
        }
    }
}

const ABOUT: About = About {
    name: "maekawa-basic",
    title: "Maekawa 1985, without resolution",
    kind: Kind::Mutex,
    family: "quorum",
    control: true,
    claims: &[Claim::MutualExclusion, Claim::Fencing],
    links: Links::Fifo,
    structure: Structure::Quorums,
    partners: Partners::Quorum,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::mean("3(K-1)"),
        light_multicasts: Cost::mean("K+1"),
        saturated: Cost::words("deadlocks"),
        worst: Cost::bound("3(K-1)"),
        client_delay: Cost::exact("2").table("{}T"),
        sync_delay: Cost::words("2T"),
        ..Costs::NONE
    },
    order: "arrival at each voter",
    source: "Maekawa, ACM TOCS 3(2), 1985, without its resolution",
    idea: "Request the votes of a quorum instead of all processes: any two quorums meet, and a \
           process in both has one vote, which it gives to the first request. Nothing makes the \
           voters agree on which that is, so requests that meet at several voters can block each \
           other for ever.",
    rules: &[
        "To enter: send a request to the quorum, oneself included; enter with all its votes.",
        "On a request: vote, or queue it while the vote is out.",
        "To leave: release all votes. On a release: vote for the first in the queue.",
    ],
    invariants: &[],
    known_failures: &[
        "Two requests deadlock on a grid, where two quorums share two members; three on a plane.",
        "On links that reorder, a request overtakes the release before it and is lost.",
        "A voter that is down stops every process that needs its vote.",
    ],
};
