//! M. Maekawa, "A sqrt(N) algorithm for mutual exclusion in decentralized systems", ACM TOCS 3(2),
//! 1985; with the corrections of B. A. Sanders, ACM TOCS 5(3), 1987.
//!
//! A process enters with the votes of its quorum, and each voter has one vote. Since any two
//! quorums meet, no two are inside. Since two could wait for each other's votes, a voter that has
//! given its vote to the worse request asks it back. 3(K-1) messages without contention, K the
//! size of a quorum. Links must keep order.
//!
//! Two forms (`resolution`). With `inquire` (S1) a candidate gives its vote back only if it knows
//! that it cannot win now: some voter has told it FAILED. With `reject` (S0) it gives it back
//! whenever it does not hold all votes, and there is no FAILED.
//!
//! Liberties: every message names the request it is about by its time, so that what arrives after
//! the request is over is recognised as late. What a process says to itself is a call.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, Quorums, Shared, Stamp, Start, Structure, Time, Value, Variant,
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
    /// Who has said FAILED, or has got its vote back, and has not voted since.
    failed: NodeSet,
    /// Who has asked for its vote back and still waits for the answer.
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

/// What the processes say; each names the request it is about by the time of it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum MaekawaMessage {
    /// I want your vote.
    Request(Time),
    /// You have my vote (the paper's LOCKED).
    Grant(Time),
    /// Somebody better is before you.
    Failed(Time),
    /// Do you need my vote still? Somebody better has asked.
    Inquire(Time),
    /// S0's form: give my vote back unless you are inside.
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
        let inside = start.inside().map(|node| Stamp::new(Time::ZERO, node));
        let mut requester = Requester::default();
        if start.is_inside(me) {
            requester.phase = Phase::Inside;
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
                candidate: inside.filter(|stamp| quorums.contains(stamp.node, me)),
                ..Voter::default()
            },
            quorums,
        }
    }

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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let time = std::mem::take(&mut self.requester.time);
        self.requester.phase = Phase::Outside;
        self.requester.votes.clear();
        out.multicast(self.voters(), Release(time));
        self.on_release(Stamp::new(time, self.me), out);
    }

    fn phase(&self) -> Phase {
        self.requester.phase
    }

    fn token_here(&self) -> bool {
        self.quorums.of(self.me).len() == 1
            && self.requester.phase == Phase::Outside
            && self.voter.candidate.is_none()
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.requester.phase == Phase::Outside && self.voter.candidate.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.requester.phase {
            Phase::Requesting => {
                let voters = self.quorums.of(self.me).iter().copied();
                voters.filter(|&voter| !self.requester.votes.contains(voter)).collect()
            }
            Phase::Outside | Phase::Inside => Vec::new(),
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
        if self.requester.phase != Phase::Outside {
            visit(&mut self.requester.time);
        }
        for stamp in self.voter.candidate.iter_mut().chain(&mut self.voter.queue) {
            visit(&mut stamp.time);
        }
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

    fn vote_or_queue(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        let Some(candidate) = self.voter.candidate else {
            return self.vote_for(request, out);
        };
        let place = self.voter.queue.partition_point(|&waiting| waiting < request);
        let head = self.voter.queue.first().copied();
        self.voter.queue.insert(place, request);
        if self.rules.resolution == Resolution::Inquire {
            let beaten = if place > 0 || request > candidate {
                Some(request)
            } else {
                // The old head thought that it was next; if it was worse than the candidate it
                // has its FAILED already.
                head.filter(|&head| head < candidate && self.rules.fail_the_displaced)
            };
            if let Some(beaten) = beaten {
                self.post(beaten.node, Failed(beaten.time), out);
            }
        }
        if place == 0 && request < candidate && !self.voter.asked_back {
            self.voter.asked_back = true;
            let ask_back = match self.rules.resolution {
                Resolution::Inquire => Inquire(candidate.time),
                Resolution::Reject => Reject(candidate.time),
            };
            self.post(candidate.node, ask_back, out);
        }
    }

    fn on_relinquish(&mut self, request: Stamp, out: &mut Outbox<MaekawaMessage>) {
        if self.voter.candidate != Some(request) || !self.voter.asked_back {
            return out.nonsense(request.node, "a vote given back that nobody asked for");
        }
        let place = self.voter.queue.partition_point(|&waiting| waiting < request);
        self.voter.queue.insert(place, request);
        self.vote_for_the_best(out);
    }

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

    fn on_grant(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        if !self.is_requesting_since(time) || !self.requester.votes.insert(from) {
            return out.nonsense(from, "a vote nobody asked for");
        }
        self.requester.failed.remove(from);
        if self.requester.votes.len() == self.quorums.of(self.me).len() {
            self.requester.phase = Phase::Inside;
            // Who asked for its vote back is answered by our release.
            self.requester.inquired.clear();
            out.enter();
        }
    }

    fn on_failed(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        if !self.is_requesting_since(time) || self.requester.votes.contains(from) {
            return out.nonsense(from, "a FAILED for no request of ours");
        }
        self.requester.failed.insert(from);
        if self.rules.answer_late {
            while let Some(voter) = self.requester.inquired.pop() {
                self.relinquish(voter, out);
            }
        }
    }

    fn on_inquire(&mut self, from: NodeId, time: Time, out: &mut Outbox<MaekawaMessage>) {
        // Inside, our release is the answer; after it, the question is late.
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

const ABOUT: About = About {
    name: "maekawa",
    title: "Maekawa 1985, with resolution",
    kind: Kind::Mutex,
    family: "quorum",
    control: false,
    claims: &[Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence],
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
                    meaning: "a vote is given back only after a FAILED (S1)",
                    drops: &[],
                },
                Variant {
                    name: "reject",
                    meaning: "a vote is given back whenever not all are held (S0)",
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
    costs: Costs {
        light: "3(K-1)",
        saturated: "4(K-1)",
        worst: "6(K-1)",
        client_delay: "2T",
        sync_delay: "2T",
    },
    order: "timestamp where requests meet",
    source: "Maekawa, ACM TOCS 3(2), 1985; Sanders, ACM TOCS 5(3), 1987",
    idea: "Ask a quorum instead of everyone: any two quorums meet, and who is in both has one \
           vote. Because two requests may each hold a vote that the other needs, a voter asks its \
           vote back when a better request comes, and gets it from whoever cannot win yet.",
    rules: &[
        "To enter: ask the quorum; enter with all its votes. To leave: release them all.",
        "A voter with its vote free gives it; else it queues the request by timestamp. If the new \
         request is the best it knows, it asks the candidate for the vote back (INQUIRE); if not, \
         it says FAILED. A waiting request that is no longer next gets its FAILED then.",
        "On INQUIRE: give the vote back (RELINQUISH) once some voter has said FAILED, later too.",
        "On RELINQUISH or RELEASE: vote for the best in the queue.",
    ],
    known_failures: &[
        "Without the literature's two corrections it can deadlock.",
        "On links that reorder it can deadlock: a release overtakes its request.",
        "A voter that is down stops everyone who needs its vote.",
    ],
};
