//! Simple majority vote: a negative control. Textbooks have it without a source; the idea is that
//! of R. H. Thomas, "A majority consensus approach to concurrency control for multiple copy
//! databases", ACM TODS 4(2), 1979. Rules are numbered as in `ABOUT`.
//!
//! A process requests the vote of all processes and enters with more than half of the votes, its
//! own included. Two majorities share a voter, so no two are in the critical section; but the votes
//! can be split so that none has a majority, and then all wait for ever: two contenders suffice for
//! that where N is even, three where it is odd. 3(N-1) messages when all vote. Links must keep
//! order, else a release overtakes its request.
//!
//! Liberties: a vote names the request that it is for by its number. Votes beyond the majority may
//! arrive when their request is long over, and would count for the next one. A voter whose vote is
//! out queues the request, and drops it if its release comes first. A message of a process to
//! itself is a call.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, NodeSet,
    Outbox, Partners, Phase, Renaming, Stamp, Start, Structure, Value,
};

/// One process of the simple majority vote: a requester and a voter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Majority {
    me: NodeId,
    processes: u32,
    phase: Phase,
    /// The number of our present request, or of the last one.
    round: u64,
    /// The processes that have voted for the present request.
    votes: NodeSet,
    /// The request that has our vote.
    candidate: Option<Ballot>,
    /// The requests that wait for our vote, in order of arrival.
    queue: VecDeque<Ballot>,
}

/// A request that a voter knows of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Ballot {
    node: NodeId,
    round: u64,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum MajorityMessage {
    /// I want your vote for my request of this number.
    Request(u64),
    /// You have my vote for it.
    Grant(u64),
    /// I have left: your vote is free if I had it.
    Release,
}

use MajorityMessage::{Grant, Release, Request};

impl Mutex for Majority {
    type Message = MajorityMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let in_cs = start.is_in_cs(me);
        Self {
            me,
            processes: start.processes(),
            phase: if in_cs { Phase::InCs } else { Phase::Idle },
            round: 0,
            votes: if in_cs { start.all().collect() } else { NodeSet::new() },
            candidate: start.in_cs().map(|node| Ballot { node, round: 0 }),
            queue: VecDeque::new(),
        }
    }

    /// Rule 1: request the vote of all, our own included.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        self.round += 1;
        out.multicast(self.others(), Request(self.round));
        self.vote_or_queue(Ballot { node: self.me, round: self.round }, out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(round) => {
                if self.ballots().any(|ballot| ballot.node == from) {
                    return out.nonsense(from, "a second request before the first was released");
                }
                self.vote_or_queue(Ballot { node: from, round }, out);
            }
            Grant(round) => self.on_grant(from, round, out),
            Release => self.on_release(from, out),
        }
    }

    /// Rule 3: send a release to all, also to voters that have not voted: they have queued us.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        self.votes.clear();
        out.multicast(self.others(), Release);
        self.on_release(self.me, out);
    }
}

impl Majority {
    // The voter.

    /// Rule 2: vote, or queue the request while the vote is out.
    fn vote_or_queue(&mut self, ballot: Ballot, out: &mut Outbox<MajorityMessage>) {
        if self.candidate.is_none() {
            self.vote_for(ballot, out);
        } else {
            self.queue.push_back(ballot);
        }
    }

    /// Rule 3: the vote is free if its sender had it; else its request leaves the queue.
    fn on_release(&mut self, from: NodeId, out: &mut Outbox<MajorityMessage>) {
        if self.candidate.is_some_and(|candidate| candidate.node == from) {
            self.candidate = None;
            if let Some(first) = self.queue.pop_front() {
                self.vote_for(first, out);
            }
        } else if let Some(index) = self.queue.iter().position(|ballot| ballot.node == from) {
            // It won without us, and has no use for our vote any more.
            self.queue.remove(index);
        } else {
            out.nonsense(from, "a release of what was never requested");
        }
    }

    fn vote_for(&mut self, ballot: Ballot, out: &mut Outbox<MajorityMessage>) {
        self.candidate = Some(ballot);
        if ballot.node == self.me {
            self.on_grant(self.me, ballot.round, out);
        } else {
            out.send(ballot.node, Grant(ballot.round));
        }
    }

    fn ballots(&self) -> impl Iterator<Item = &Ballot> {
        self.candidate.iter().chain(&self.queue)
    }

    // The requester.

    /// Rule 1: enter with floor(N/2)+1 votes.
    fn on_grant(&mut self, from: NodeId, round: u64, out: &mut Outbox<MajorityMessage>) {
        if round == 0 || round > self.round {
            return out.nonsense(from, "an unrequested vote");
        }
        if round < self.round || self.phase == Phase::Idle {
            // Our release, which is under way or there, has freed this vote again.
            return;
        }
        if !self.votes.insert(from) {
            return out.nonsense(from, "a second vote for one request");
        }
        if self.phase == Phase::Requesting && self.votes.len() > self.processes as usize / 2 {
            self.phase = Phase::InCs;
            out.enter();
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.processes).map(NodeId).filter(move |&node| node != me)
    }
}

impl Inspect for Majority {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.processes == 1 && self.phase == Phase::Idle
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Idle && self.candidate.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => {
                let all = (0..self.processes).map(NodeId);
                all.filter(|&voter| !self.votes.contains(voter)).collect()
            }
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("round", self.round.into()),
            ("votes", Value::from(&self.votes)),
            ("candidate", self.candidate.map(|ballot| ballot.node).into()),
            ("queue", Value::list(self.queue.iter().map(|ballot| ballot.node))),
        ]
    }

    /// Votes are given in the order of arrival; only the process that begins in the critical
    /// section differs.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        start.in_cs().is_none_or(|holder| renaming.of(holder) == holder)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        self.votes = renaming.set(&self.votes);
        renaming
            .all(self.candidate.iter_mut().chain(&mut self.queue).map(|ballot| &mut ballot.node));
    }
}

impl Message for MajorityMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Grant(_) => "grant",
            Release => "release",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(round) | Grant(round) => vec![("round", (*round).into())],
            Release => Fields::new(),
        }
    }
}

const ABOUT: About = About {
    name: "majority",
    title: "Simple majority vote",
    kind: Kind::Mutex,
    family: "quorum",
    control: true,
    claims: &[Claim::MutualExclusion, Claim::Fencing],
    links: Links::Fifo,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::exact("3(N-1)"),
        light_multicasts: Cost::exact("N+1"),
        saturated: Cost::words("deadlocks"),
        worst: Cost::bound("3(N-1)"),
        client_delay: Cost::exact("2").table("{}T"),
        sync_delay: Cost::words("2T"),
        ..Costs::NONE
    },
    order: "arrival at each voter",
    source: "folklore, after Thomas, ACM TODS 4(2), 1979",
    idea: "Request the vote of every process and enter with more than half of the votes. Two \
           majorities have a voter in common, and no process votes twice. But votes go to the \
           first request and are not taken back, so they can be split until none is left and no \
           request has a majority.",
    rules: &[
        "To enter: send a request to all; enter with floor(N/2)+1 votes, one's own included.",
        "On a request: vote, or queue it while the vote is out.",
        "To leave: send a release to all. It frees the vote only if its sender had it; else it \
         takes the sender's request out of the queue.",
    ],
    invariants: &[],
    known_failures: &[
        "Where N is even two contenders deadlock with half of the votes each; three deadlock for \
         any N from 3 on, as with two votes each of six.",
        "On links that reorder, a release overtakes its request, and the vote is lost.",
    ],
};
