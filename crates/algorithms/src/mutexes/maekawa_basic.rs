//! M. Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems", ACM TOCS 3(2),
//! 1985, without its deadlock resolution: a negative control.
//!
//! A process enters with the votes of its quorum, and each voter has one vote, which it gives in
//! the order of arrival. Any two quorums meet, so no two are inside; but two requests can each hold
//! a vote that the other needs, and then both wait for ever. Where two quorums share two members
//! two requests suffice for that, where they share one it takes three. 3(K-1) messages, K the size
//! of a quorum. Links must keep order, else the next request overtakes the release of the last.
//!
//! Liberties: what a process says to itself is a call. See [`maekawa`](super::Maekawa) for the
//! whole algorithm.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Outbox, Partners,
    Phase, Quorums, Renaming, Shared, Stamp, Start, Structure, Value,
};

/// One process of Maekawa's algorithm in its basic form: a requester and a voter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MaekawaBasic {
    me: NodeId,
    quorums: Shared<Quorums>,
    phase: Phase,
    /// Who has voted for us.
    votes: NodeSet,
    /// Who has our vote.
    candidate: Option<NodeId>,
    /// Who waits for our vote, in order of arrival.
    queue: VecDeque<NodeId>,
}

/// What the processes say.
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
        let inside = start.is_inside(me);
        let votes: &[NodeId] = if inside { quorums.of(me) } else { &[] };
        Self {
            me,
            phase: if inside { Phase::Inside } else { Phase::Outside },
            votes: votes.iter().copied().collect(),
            candidate: start.inside().filter(|&holder| quorums.contains(holder, me)),
            queue: VecDeque::new(),
            quorums,
        }
    }

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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Outside;
        self.votes.clear();
        out.multicast(self.voters(), Release);
        self.on_release(self.me, out);
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn token_here(&self) -> bool {
        self.quorums.of(self.me).len() == 1
            && self.phase == Phase::Outside
            && self.candidate.is_none()
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Outside && self.candidate.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => {
                let voters = self.quorums.of(self.me).iter().copied();
                voters.filter(|&voter| !self.votes.contains(voter)).collect()
            }
            Phase::Outside | Phase::Inside => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("votes", Value::from(&self.votes)),
            ("candidate", self.candidate.into()),
            ("queue", Value::list(self.queue.iter().copied())),
        ]
    }

    /// Votes are given in the order of arrival; only quorums, and who is inside at first, differ.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        let kept = start.inside().is_none_or(|holder| renaming.of(holder) == holder);
        kept && start.quorums().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        self.votes = renaming.set(&self.votes);
        renaming.all(&mut self.candidate);
        renaming.all(&mut self.queue);
    }
}

impl MaekawaBasic {
    // The voter.

    fn vote_or_queue(&mut self, requester: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        if self.candidate.is_none() {
            self.vote_for(requester, out);
        } else {
            self.queue.push_back(requester);
        }
    }

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

    fn on_grant(&mut self, from: NodeId, out: &mut Outbox<MaekawaBasicMessage>) {
        if self.phase != Phase::Requesting || !self.votes.insert(from) {
            return out.nonsense(from, "a vote nobody asked for");
        }
        if self.votes.len() == self.quorums.of(self.me).len() {
            self.phase = Phase::Inside;
            out.enter();
        }
    }

    /// The quorum without us.
    fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.quorums.of(self.me).iter().copied().filter(|&voter| voter != self.me)
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
    claims: &[Claim::Safety, Claim::Fence],
    links: Links::Fifo,
    structure: Structure::Quorums,
    partners: Partners::Quorum,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: "3(K-1)",
        saturated: "deadlocks",
        worst: "3(K-1)",
        client_delay: "2T",
        sync_delay: "2T",
    },
    order: "arrival at each voter",
    source: "Maekawa, ACM TOCS 3(2), 1985, without its resolution",
    idea: "Ask a quorum instead of everyone: any two quorums meet, and who is in both has one \
           vote, which it gives to whoever asks first. Nothing makes the voters agree on who that \
           is, so requests that meet at several voters can block each other for ever.",
    rules: &[
        "To enter: ask the quorum, oneself included; enter with all its votes.",
        "On a request: vote, or queue it while the vote is out.",
        "To leave: release all votes. On a release: vote for the first in the queue.",
    ],
    known_failures: &[
        "Two requests deadlock on a grid, where two quorums share two members; three on a plane.",
        "On links that reorder, a request overtakes the release before it and is lost.",
        "A voter that is down stops everyone who needs its vote.",
    ],
};
