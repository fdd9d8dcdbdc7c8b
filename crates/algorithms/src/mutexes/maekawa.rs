//! M. Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems", ACM TOCS 3(2),
//! 1985; with the corrections of B. A. Sanders, ACM TOCS 5(3), 1987.
//!
//! A process enters with the votes of its quorum, and each voter has one vote. Since any two
//! quorums meet, no two are in the critical section. Since two could wait for each other's votes, a
//! voter that has given its vote to the worse request asks it back. 3(K-1) messages without
//! contention, K the size of a quorum. Links must keep order.
//!
//! Two forms (`resolution`). With `inquire`, the paper's, a candidate gives its vote back only if
//! it knows that it cannot win now: some voter has sent it FAILED. With `reject`, a textbook form,
//! it gives it back whenever it does not hold all votes, and there is no FAILED.
//!
//! Liberties: every message names the request it is about by its time, so that what arrives after
//! the request is over is recognised as late. A message of a process to itself is a call.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, ClaimAt, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId,
    NodeSet, Other, Outbox, Partners, Phase, Quorums, Shared, SpecialRepair, Stamp, Start,
    StatedInvariant, Structure, Time, Value, Variant,
};

/// One process of Maekawa's algorithm: a requester and a voter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Maekawa {
    me: NodeId,
    quorums: Shared<Quorums>,
    rules: Rules,
    requester: Requester,
    voter: Voter,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Rules {
    resolution: Resolution,
    /// A waiting request that is displaced from the head of a voter's queue gets its FAILED.
    fail_the_displaced: bool,
    /// An INQUIRE that came before a FAILED is answered after it.
    answer_late: bool,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Resolution {
    Inquire,
    Reject,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Requester {
    phase: Phase,
    /// The time of the request, while there is one.
    time: Time,
    votes: NodeSet,
    /// The voters that have sent FAILED, or have got their vote back, and have not voted since.
    failed: NodeSet,
    /// The voters that have sent INQUIRE and still wait for the answer.
    inquired: NodeSet,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Voter {
    /// The request that has our vote.
    candidate: Option<Stamp>,
    /// Whether we have asked for the vote back.
    asked_back: bool,
    /// The other requests, best first.
    queue: Vec<Stamp>,
}

/// The messages; each names the request it is about by its time.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum MaekawaMessage {
    /// I want your vote.
    Request(Time),
    /// You have my vote (the paper's LOCKED).
    Grant(Time),
    /// A better request is before yours.
    Failed(Time),
    /// Asks for the vote back if the candidate cannot win yet: a better request has come.
    Inquire(Time),
    /// The form without FAILED: give my vote back unless you are in the critical section.
    Reject(Time),
    /// Here is your vote back; I still wait for it.
    Relinquish(Time),
    /// I have left.
    Release(Time),
}

use MaekawaMessage::{Failed, Grant, Inquire, Reject, Release, Relinquish, Request};

impl Mutex for Maekawa {
    type Message = MaekawaMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let quorums = start.quorums().clone();
        let in_cs = start.in_cs().map(|node| Stamp::new(Time::ZERO, node));
        let mut requester = Requester::default();
        if start.is_in_cs(me) {
            requester.phase = Phase::InCs;
            requester.votes = quorums.of(me).iter().copied().collect();
        }
        let corrections = start.setting("corrections");
        Self {
            me,
            rules: Rules {
                resolution: match start.setting("resolution") {
                    "reject" => Resolution::Reject,
                    _ => Resolution::Inquire,
                },
                fail_the_displaced: !["off", "no-failed"].contains(&corrections),
                answer_late: !["off", "no-late-answer"].contains(&corrections),
            },
            requester,
            voter: Voter {
                candidate: in_cs.filter(|stamp| quorums.contains(stamp.node, me)),
                ..Voter::default()
            },
            quorums,
        }
    }

    /// The paper's REQUEST to every member of the quorum, ourselves included.
    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.requester.phase = Phase::Requesting;
        self.requester.time = ours.time;
        out.multicast(self.voters(), Request(ours.time));
        self.vote_or_queue(ours, out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let to_voter = matches!(message, Request(_) | Relinquish(_) | Release(_));
        let known = if to_voter {
            self.quorums.contains(from, self.me)
        } else {
            self.quorums.contains(self.me, from)
        };
        if !known || from == self.me {
            return out.nonsense(from, "a message from out of the quorum");
        }
        self.handle(from, message, out);
    }

    /// The paper's RELEASE to every member of the quorum.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let time = std::mem::take(&mut self.requester.time);
        self.requester.phase = Phase::Idle;
        self.requester.votes.clear();
        out.multicast(self.voters(), Release(time));
        self.on_release(Stamp::new(time, self.me), out);
    }
}

impl Maekawa {
    fn handle(&mut self, from: NodeId, message: MaekawaMessage, out: &mut Outbox<MaekawaMessage>) {
        match message {
            Request(time) => {
                if self.knows_a_request_of(from) {
                    return out.nonsense(from, "a second request before the first was released");
                }
                self.vote_or_queue(Stamp::new(time, from), out);
            }
            Grant(time) => self.on_grant(from, time, out),
            Failed(time) => self.on_failed(from, time, out),
            Inquire(time) | Reject(time) => self.on_inquire(from, time, out),
            Relinquish(time) => self.on_relinquish(Stamp::new(time, from), out),
            Release(time) => self.on_release(Stamp::new(time, from), out),
        }
    }

    // The voter.

    /// The paper's rule for a REQUEST: LOCKED to the first; else the request is queued, and either
    /// it gets a FAILED, or the candidate an INQUIRE.
    fn vote_or_queue(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        let Some(candidate) = self.voter.candidate else {
            return self.vote_for(request, out);
        };
        let index = self.voter.queue.partition_point(|&waiting| waiting < request);
        let head = self.voter.queue.first().copied();
        self.voter.queue.insert(index, request);
        if self.rules.resolution == Resolution::Inquire {
            let beaten = if index > 0 || request > candidate {
                Some(request)
            } else {
                // Sanders' correction (1987): the request that was at the head is displaced, and
                // got no message, because it was better than the candidate. Without a FAILED now it
                // keeps the votes that others inquire about, since it does not know that it cannot
                // win, and a circle of such requests waits for ever. A head that was worse than the
                // candidate has its FAILED already.
                head.filter(|&head| head < candidate && self.rules.fail_the_displaced)
            };
            if let Some(beaten) = beaten {
                self.post(beaten.node, Failed(beaten.time), out);
            }
        }
        if index == 0 && request < candidate && !self.voter.asked_back {
            self.voter.asked_back = true;
            let ask_back = match self.rules.resolution {
                Resolution::Inquire => Inquire(candidate.time),
                Resolution::Reject => Reject(candidate.time),
            };
            self.post(candidate.node, ask_back, out);
        }
    }

    /// The paper's rule for a RELINQUISH: the candidate goes back into the queue, and the best
    /// request gets the vote.
    fn on_relinquish(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        if self.voter.candidate != Some(request) || !self.voter.asked_back {
            return out.nonsense(request.node, "a vote given back without an INQUIRE");
        }
        let index = self.voter.queue.partition_point(|&waiting| waiting < request);
        self.voter.queue.insert(index, request);
        self.vote_for_the_best(out);
    }

    /// The paper's rule for a RELEASE.
    fn on_release(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        if self.voter.candidate != Some(request) {
            return out.nonsense(request.node, "a release of a vote that it does not have");
        }
        self.vote_for_the_best(out);
    }

    fn vote_for_the_best(&mut self, out: &mut Outbox<MaekawaMessage>) {
        self.voter.candidate = None;
        self.voter.asked_back = false;
        if !self.voter.queue.is_empty() {
            let best = self.voter.queue.remove(0);
            self.vote_for(best, out);
        }
    }

    fn vote_for(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        self.voter.candidate = Some(request);
        self.post(request.node, Grant(request.time), out);
    }

    fn knows_a_request_of(&self, node: NodeId) -> bool {
        self.voter.candidate.iter().chain(&self.voter.queue).any(|request| request.node == node)
    }

    // The requester.

    /// The paper's rule for LOCKED: enter once every member of the quorum has sent it.
    fn on_grant(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        if !self.is_requesting_since(time) || !self.requester.votes.insert(from) {
            return out.nonsense(from, "an unrequested vote");
        }
        self.requester.failed.remove(from);
        if self.requester.votes.len() == self.quorums.of(self.me).len() {
            self.requester.phase = Phase::InCs;
            // Our release answers the voters that sent INQUIRE.
            self.requester.inquired.clear();
            out.enter();
        }
    }

    /// The paper's rule for FAILED.
    fn on_failed(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        if !self.is_requesting_since(time) || self.requester.votes.contains(from) {
            return out.nonsense(from, "a FAILED for no request of ours");
        }
        self.requester.failed.insert(from);
        // An INQUIRE that came before this FAILED could not be answered then, and no other comes:
        // it must be answered now.
        if self.rules.answer_late {
            while let Some(voter) = self.requester.inquired.pop() {
                self.relinquish(voter, out);
            }
        }
    }

    /// The paper's rule for INQUIRE: give the vote back if we cannot win now, else answer later.
    fn on_inquire(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        // In the critical section our release is the answer; after it, the question is late.
        if !self.is_requesting_since(time) || !self.requester.votes.contains(from) {
            return;
        }
        let gives_in = match self.rules.resolution {
            Resolution::Inquire => !self.requester.failed.is_empty(),
            Resolution::Reject => true,
        };
        if gives_in {
            self.relinquish(from, out);
        } else {
            self.requester.inquired.insert(from);
        }
    }

    fn relinquish(&mut self, voter: NodeId, out: &mut Outbox<MaekawaMessage>) {
        self.requester.votes.remove(voter);
        self.requester.failed.insert(voter);
        self.post(voter, Relinquish(self.requester.time), out);
    }

    fn is_requesting_since(&self, time: Time) -> bool {
        self.requester.phase == Phase::Requesting && self.requester.time == time
    }

    /// Sends, or calls when it is to ourselves.
    fn post(&mut self, to: NodeId, message: MaekawaMessage, out: &mut Outbox<MaekawaMessage>) {
        if to == self.me {
            self.handle(to, message, out);
        } else {
            out.send(to, message);
        }
    }

    /// The quorum without us.
    fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.quorums.of(self.me).iter().copied().filter(|&voter| voter != self.me)
    }
}

impl Inspect for Maekawa {
    fn phase(&self) -> Phase {
        self.requester.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.quorums.of(self.me).len() == 1
            && self.requester.phase == Phase::Idle
            && self.voter.candidate.is_none()
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.requester.phase == Phase::Idle && self.voter.candidate.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.requester.phase {
            Phase::Requesting => {
                let voters = self.quorums.of(self.me).iter().copied();
                voters.filter(|&voter| !self.requester.votes.contains(voter)).collect()
            }
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let requesting = self.requester.phase == Phase::Requesting;
        vec![
            ("request", requesting.then_some(self.requester.time).into()),
            ("votes", Value::from(&self.requester.votes)),
            ("failed", Value::from(&self.requester.failed)),
            ("inquired", Value::from(&self.requester.inquired)),
            ("candidate", self.voter.candidate.into()),
            ("queue", Value::list(self.voter.queue.iter().copied())),
        ]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if self.requester.phase != Phase::Idle {
            visit(&mut self.requester.time);
        }
        for stamp in self.voter.candidate.iter_mut().chain(&mut self.voter.queue) {
            visit(&mut stamp.time);
        }
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::Takeover
    }

    /// The crashed process's request leaves, and what it was granted is free. Its own part as a
    /// voter is another's now.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<MaekawaMessage>) {
        self.voter.queue.retain(|request| request.node != crashed);
        if self.voter.candidate.is_some_and(|request| request.node == crashed) {
            self.vote_for_the_best(out);
        }
    }

    fn requests_of(&self, node: NodeId, arbiter: NodeId) -> bool {
        self.quorums.contains(node, arbiter)
    }

    fn claim_at(&mut self, arbiter: NodeId) -> Option<ClaimAt<MaekawaMessage>> {
        self.requester.inquired.remove(arbiter);
        (self.requester.phase != Phase::Idle).then(|| ClaimAt {
            request: Stamp::new(self.requester.time, self.me),
            granted: self.requester.votes.contains(arbiter),
            message: Request(self.requester.time),
        })
    }

    fn stand_in(&self, arbiter: NodeId) -> Option<Self> {
        Some(Self {
            me: arbiter,
            quorums: self.quorums.clone(),
            rules: self.rules,
            requester: Requester::default(),
            voter: Voter::default(),
        })
    }
}

impl Message for MaekawaMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Grant(_) => "grant",
            Failed(_) => "failed",
            Inquire(_) => "inquire",
            Reject(_) => "reject",
            Relinquish(_) => "relinquish",
            Release(_) => "release",
        }
    }

    fn fields(&self) -> Fields {
        vec![("time", self.time().into())]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        match self {
            Request(time) | Grant(time) | Failed(time) | Inquire(time) | Reject(time)
            | Relinquish(time) | Release(time) => visit(time),
        }
    }
}

impl MaekawaMessage {
    fn time(&self) -> Time {
        match *self {
            Request(time) | Grant(time) | Failed(time) | Inquire(time) | Reject(time)
            | Relinquish(time) | Release(time) => time,
        }
    }
}

use crate::{Cost, CostsWith};

pub(super) const INQUIRE: Costs = Costs {
    light: Cost::mean("3(K-1)"),
    light_multicasts: Cost::mean("K+1"),
    saturated: Cost::exact("4(K-1)"),
    saturated_multicasts: Cost::exact("2K"),
    worst: Cost::bound("6(K-1)"),
    client_delay: Cost::exact("2").table("{}T"),
    sync_delay: Cost::bound("2").table("{}T").words_beside("{} with a third-party voter, else 1"),
    saturated_hints: &[
        "2T holds where the shared voter is a third party; a waiter that votes itself knows of \
         the exit after T",
    ],
    ..Costs::NONE
};

/// A vote is given back without a FAILED before it, so none is sent.
const REJECT: Costs =
    Costs { saturated: Cost::exact("3(K-1)"), saturated_multicasts: Cost::exact("K+1"), ..INQUIRE };

const ABOUT: About = About {
    name: "maekawa",
    title: "Maekawa 1985, with resolution",
    kind: Kind::Mutex,
    family: "quorum",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Fifo,
    structure: Structure::Quorums,
    partners: Partners::Quorum,
    uses_stamps: true,
    options: &[
        Choice {
            key: "resolution",
            values: &[
                Variant {
                    name: "inquire",
                    meaning: "a vote is given back only after a FAILED",
                    drops: &[],
                },
                Variant {
                    name: "reject",
                    meaning: "a vote is given back whenever not all are held",
                    drops: &[],
                },
            ],
            other: Other::Nothing,
        },
        Choice {
            key: "corrections",
            values: &[
                Variant { name: "on", meaning: "with the literature's corrections", drops: &[] },
                Variant {
                    name: "off",
                    meaning: "without either",
                    drops: &[Claim::DeadlockFree, Claim::Liveness],
                },
                Variant {
                    name: "no-failed",
                    meaning: "a displaced waiting request gets no FAILED",
                    drops: &[Claim::DeadlockFree, Claim::Liveness],
                },
                Variant {
                    name: "no-late-answer",
                    meaning: "an INQUIRE that came before a FAILED is never answered",
                    drops: &[Claim::DeadlockFree, Claim::Liveness],
                },
            ],
            other: Other::Nothing,
        },
    ],
    costs: Costs { variants: &[CostsWith::new(&[("resolution", "reject")], REJECT)], ..INQUIRE },
    order: "timestamp where requests meet",
    source: "Maekawa, ACM TOCS 3(2), 1985; Sanders, ACM TOCS 5(3), 1987",
    idea: "Request the votes of a quorum instead of all processes: any two quorums meet, and a \
           process in both has one vote. Because two requests may each hold a vote that the other \
           needs, a voter asks its vote back when a better request comes, and gets it from a \
           candidate that cannot win yet.",
    rules: &[
        "To enter: send a request to the quorum; enter with all its votes. To leave: release them.",
        "A voter with its vote free gives it; else it queues the request by timestamp. If the new \
         request is the best it knows, it asks the candidate for the vote back (INQUIRE); if not, \
         it sends FAILED. A waiting request that is no longer next gets its FAILED then.",
        "On INQUIRE: give the vote back (RELINQUISH) once some voter has sent FAILED, later too.",
        "On RELINQUISH or RELEASE: vote for the best in the queue.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-vote",
            formula: "forall p, q: p != q -> not exists v in p.votes: v in q.votes",
            meaning: "no two processes have the vote of the same voter",
        },
        StatedInvariant {
            name: "all-votes",
            formula: "forall p: p.phase = in_cs -> forall v in quorum(p): v in p.votes",
            meaning: "a process in the critical section has all votes of its quorum",
        },
        StatedInvariant {
            name: "candidate",
            formula: "forall p: forall v in p.votes: v.candidate.node = p",
            meaning: "a vote is held by the voter's candidate",
        },
    ],
    known_failures: &[
        "Without the literature's two corrections it can deadlock.",
        "On links that reorder it can deadlock: a release overtakes its request.",
        "A voter that is down stops every process that needs its vote.",
    ],
};
