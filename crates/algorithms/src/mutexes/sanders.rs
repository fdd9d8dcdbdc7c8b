//! B. A. Sanders, "The information structure of distributed mutual exclusion algorithms", ACM TOCS
//! 5(3), 1987.
//!
//! A process requests permission of its request set before it enters, and informs its inform set
//! when it leaves. An arbiter remembers a granted request only of a process that will inform it;
//! the others it lets pass. That one algorithm is Ricart-Agrawala's with the sets (all, {i}),
//! Maekawa's with (quorum, quorum), and the central one with ({i, c}, {i, c}). It is safe if the
//! inform sets of any two processes meet or each is in the request set of the other. Links must
//! keep order.
//!
//! Requests that hold permissions which others need are resolved as in Maekawa's algorithm with its
//! corrections: INQUIRE, FAILED, YIELD.
//!
//! Liberties: every message names the request it is about by its time; a message of a process to
//! itself is a call, and the arbiter takes its own permission back without FAILED unless the
//! process is in the critical section. An INQUIRE is left out if the receiver cannot wait for
//! another arbiter, and a FAILED if no other could inquire the receiver. So the
//! special cases cost exactly as much as the algorithms with these sets.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, ClaimAt, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId,
    NodeSet, Other, Outbox, Partners, Phase, SetsOf, Shared, SpecialRepair, Stamp, Start,
    StartError, StatedInvariant, Structure, Time, Value, Variant,
};

/// One process of Sanders' algorithm: a requester and an arbiter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Sanders {
    me: NodeId,
    sets: Shared<SetsOf>,
    requester: Requester,
    arbiter: Arbiter,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Requester {
    phase: Phase,
    /// The time of the request, while there is one.
    time: Time,
    /// The arbiters that have granted our request.
    grants: NodeSet,
    /// The arbiters that have sent FAILED, or have got their permission back, and have not granted
    /// since.
    failed: NodeSet,
    /// The arbiters that have asked for their permission back and still wait for the answer.
    inquired: NodeSet,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Arbiter {
    /// The request that we have granted and know to be in the critical section or about to enter:
    /// CSSTAT. None: it is free.
    granted: Option<Stamp>,
    /// Whether we have asked for the permission back.
    asked_back: bool,
    /// The other requests, best first.
    queue: Vec<Stamp>,
}

/// The messages; each names the request it is about by its time.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum SandersMessage {
    /// May I enter?
    Request(Time),
    /// As far as I know, you may.
    Grant(Time),
    /// A better request is before yours.
    Failed(Time),
    /// Asks for the permission back if you cannot win yet: a better request has come.
    Inquire(Time),
    /// Here is your permission back; I still wait for it.
    Yield(Time),
    /// I have left.
    Release(Time),
}

use SandersMessage::{Failed, Grant, Inquire, Release, Request, Yield};

impl Mutex for Sanders {
    type Message = SandersMessage;

    const ABOUT: &'static About = &ABOUT;

    fn check(start: &Start) -> Result<(), StartError> {
        match start.setting("check") {
            "on" => Ok(sets_of(start).check()?),
            _ => Ok(()),
        }
    }

    fn new(me: NodeId, start: &Start) -> Self {
        let sets = sets_of(start).clone();
        let mut requester = Requester::default();
        if start.is_in_cs(me) {
            requester.phase = Phase::InCs;
            requester.grants = sets.request(me).iter().copied().collect();
        }
        let known = start.in_cs().filter(|&holder| sets.informs(holder, me));
        let granted = known.map(|holder| Stamp::new(Time::ZERO, holder));
        Self { me, requester, arbiter: Arbiter { granted, ..Arbiter::default() }, sets }
    }

    /// The paper's REQUEST to the request set.
    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.requester.phase = Phase::Requesting;
        self.requester.time = ours.time;
        out.multicast(but(self.me, self.sets.request(self.me)), Request(ours.time));
        self.on_request(ours, out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let known = match message {
            Request(_) => self.sets.requests(from, self.me),
            Yield(_) | Release(_) => self.sets.informs(from, self.me),
            Grant(_) | Failed(_) => self.sets.requests(self.me, from),
            Inquire(_) => self.sets.informs(self.me, from),
        };
        if !known || from == self.me {
            return out.nonsense(from, "a message from out of the sets");
        }
        match message {
            Request(time) => self.on_request(Stamp::new(time, from), out),
            Grant(time) => self.on_grant(from, time, out),
            Failed(time) => self.on_failed(from, time, out),
            Inquire(time) => self.on_inquire(from, time, out),
            Yield(time) => self.on_yield(Stamp::new(time, from), out),
            Release(time) => self.on_release(Stamp::new(time, from), out),
        }
    }

    /// The paper's RELEASE to the inform set.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let time = std::mem::take(&mut self.requester.time);
        self.requester.phase = Phase::Idle;
        self.requester.grants.clear();
        out.multicast(but(self.me, self.sets.inform(self.me)), Release(time));
        self.on_release(Stamp::new(time, self.me), out);
    }
}

impl Sanders {
    // The arbiter.

    /// The paper's rule for a REQUEST, with FAILED and INQUIRE as in Maekawa's algorithm.
    fn on_request(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.knows_a_request_of(request.node) {
            return out.nonsense(request.node, "a second request before the first was released");
        }
        let index = self.enqueue(request);
        let Some(granted) = self.arbiter.granted else {
            return self.grant_the_best(out);
        };
        if index > 0 || request > granted {
            return self.fail(request, out);
        }
        // The displaced head was better than the granted request and so got no message: without a
        // FAILED now it would keep permissions although it cannot win. If it was worse than the
        // granted one it has its FAILED already.
        if let Some(&old_head) = self.arbiter.queue.get(1).filter(|&&head| head < granted) {
            self.fail(old_head, out);
        }
        self.ask_back(granted, out);
    }

    /// The paper's rule for a YIELD: the request goes back into the queue.
    fn on_yield(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.granted != Some(request) || !self.arbiter.asked_back {
            return out.nonsense(request.node, "a permission given back without an INQUIRE");
        }
        self.enqueue(request);
        self.become_free(out);
    }

    /// The paper's rule for a RELEASE: CSSTAT is free again.
    fn on_release(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.granted != Some(request) {
            return out.nonsense(request.node, "a release of a permission that it does not have");
        }
        self.become_free(out);
    }

    fn become_free(&mut self, out: &mut Outbox<SandersMessage>) {
        self.arbiter.granted = None;
        self.arbiter.asked_back = false;
        self.grant_the_best(out);
    }

    /// The paper's rule for a free CSSTAT: grants requests until one of them is of a process that
    /// will inform us when it leaves.
    fn grant_the_best(&mut self, out: &mut Outbox<SandersMessage>) {
        while self.arbiter.granted.is_none() && !self.arbiter.queue.is_empty() {
            let best = self.arbiter.queue.remove(0);
            if self.sets.informs(best.node, self.me) {
                self.arbiter.granted = Some(best);
            }
            if best.node == self.me {
                self.on_grant(self.me, best.time, out);
            } else {
                out.send(best.node, Grant(best.time));
            }
        }
    }

    fn fail(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if request.node == self.me {
            self.on_failed(self.me, request.time, out);
        } else if self.sets.is_counted_by_others(request.node, self.me) {
            out.send(request.node, Failed(request.time));
        }
    }

    fn ask_back(&mut self, granted: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.asked_back {
            return;
        }
        if granted.node == self.me {
            if self.requester.phase == Phase::Requesting {
                self.arbiter.asked_back = true;
                self.give_back_our_own(granted, out);
            }
        } else if self.sets.can_wait_for_others(granted.node, self.me) {
            self.arbiter.asked_back = true;
            out.send(granted.node, Inquire(granted.time));
        }
    }

    /// Puts a request into the queue; its index there.
    fn enqueue(&mut self, request: Stamp) -> usize {
        let index = self.arbiter.queue.partition_point(|&waiting| waiting < request);
        self.arbiter.queue.insert(index, request);
        index
    }

    fn knows_a_request_of(&self, node: NodeId) -> bool {
        let mut known = self.arbiter.granted.iter().chain(&self.arbiter.queue);
        known.any(|request| request.node == node)
    }

    // The requester.

    /// The paper's rule for a GRANT: enter once the whole request set has granted.
    fn on_grant(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        if !self.is_requesting_since(time) || !self.requester.grants.insert(from) {
            return out.nonsense(from, "an unrequested permission");
        }
        self.requester.failed.remove(from);
        if self.requester.grants.len() == self.sets.request(self.me).len() {
            self.requester.phase = Phase::InCs;
            // Our release answers the arbiters that sent INQUIRE.
            self.requester.inquired.clear();
            out.enter();
        }
    }

    /// The paper's rule for a FAILED.
    fn on_failed(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        if !self.is_requesting_since(time) || self.requester.grants.contains(from) {
            return out.nonsense(from, "a FAILED for no request of ours");
        }
        self.requester.failed.insert(from);
        self.answer_if_failed(out);
    }

    /// The paper's rule for an INQUIRE.
    fn on_inquire(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        // In the critical section our release is the answer; after it, the question is late.
        if self.is_requesting_since(time) && self.requester.grants.contains(from) {
            self.requester.inquired.insert(from);
            self.answer_if_failed(out);
        }
    }

    /// Gives back what was asked for, once we know that we cannot enter now.
    fn answer_if_failed(&mut self, out: &mut Outbox<SandersMessage>) {
        if self.requester.failed.is_empty() {
            return;
        }
        while let Some(arbiter) = self.requester.inquired.pop() {
            self.requester.grants.remove(arbiter);
            self.requester.failed.insert(arbiter);
            out.send(arbiter, Yield(self.requester.time));
        }
    }

    /// The arbiter takes its permission back from the requester, both being us. It may have it
    /// again at once, if the better request is of a process that does not inform us.
    fn give_back_our_own(&mut self, ours: Stamp, out: &mut Outbox<SandersMessage>) {
        self.requester.grants.remove(self.me);
        self.requester.failed.insert(self.me);
        self.on_yield(ours, out);
        self.answer_if_failed(out);
    }

    fn is_requesting_since(&self, time: Time) -> bool {
        self.requester.phase == Phase::Requesting && self.requester.time == time
    }
}

fn sets_of(start: &Start) -> &Shared<SetsOf> {
    start.sets().expect("an algorithm that declares sets has them")
}

/// A set without one of its members.
fn but(me: NodeId, set: &[NodeId]) -> impl Iterator<Item = NodeId> + '_ {
    set.iter().copied().filter(move |&node| node != me)
}

impl Inspect for Sanders {
    fn phase(&self) -> Phase {
        self.requester.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.sets.request(self.me).len() == 1
            && self.requester.phase == Phase::Idle
            && self.arbiter.granted.is_none()
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.requester.phase == Phase::Idle && self.arbiter.granted.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.requester.phase {
            Phase::Requesting => {
                let arbiters = self.sets.request(self.me).iter().copied();
                arbiters.filter(|&arbiter| !self.requester.grants.contains(arbiter)).collect()
            }
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let requesting = self.requester.phase == Phase::Requesting;
        vec![
            ("request", requesting.then_some(self.requester.time).into()),
            ("grants", Value::from(&self.requester.grants)),
            ("failed", Value::from(&self.requester.failed)),
            ("inquired", Value::from(&self.requester.inquired)),
            ("CSSTAT", self.arbiter.granted.into()),
            ("queue", Value::list(self.arbiter.queue.iter().copied())),
        ]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if self.requester.phase != Phase::Idle {
            visit(&mut self.requester.time);
        }
        for stamp in self.arbiter.granted.iter_mut().chain(&mut self.arbiter.queue) {
            visit(&mut stamp.time);
        }
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::Takeover
    }

    /// The crashed process's request leaves, and what it was granted is free. Its own part as an
    /// arbiter is another's now.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<SandersMessage>) {
        self.arbiter.queue.retain(|request| request.node != crashed);
        if self.arbiter.granted.is_some_and(|request| request.node == crashed) {
            self.become_free(out);
        }
    }

    fn requests_of(&self, node: NodeId, arbiter: NodeId) -> bool {
        self.sets.requests(node, arbiter)
    }

    fn claim_at(&mut self, arbiter: NodeId) -> Option<ClaimAt<SandersMessage>> {
        self.requester.inquired.remove(arbiter);
        (self.requester.phase != Phase::Idle).then(|| ClaimAt {
            request: Stamp::new(self.requester.time, self.me),
            granted: self.requester.grants.contains(arbiter),
            message: Request(self.requester.time),
        })
    }

    fn stand_in(&self, arbiter: NodeId) -> Option<Self> {
        Some(Self {
            me: arbiter,
            sets: self.sets.clone(),
            requester: Requester::default(),
            arbiter: Arbiter::default(),
        })
    }
}

impl Message for SandersMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Grant(_) => "grant",
            Failed(_) => "failed",
            Inquire(_) => "inquire",
            Yield(_) => "yield",
            Release(_) => "release",
        }
    }

    fn fields(&self) -> Fields {
        match *self {
            Request(time) | Grant(time) | Failed(time) | Inquire(time) | Yield(time)
            | Release(time) => vec![("time", time.into())],
        }
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        match self {
            Request(time) | Grant(time) | Failed(time) | Inquire(time) | Yield(time)
            | Release(time) => visit(time),
        }
    }
}

use crate::{Cost, CostsWith};

use super::{central, maekawa, ricart_agrawala};

const ABOUT: About = About {
    name: "sanders",
    title: "Sanders 1987",
    kind: Kind::Mutex,
    family: "quorum",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Fifo,
    structure: Structure::Sets,
    partners: Partners::All,
    uses_stamps: true,
    options: &[
        Choice {
            key: "sets",
            values: &[
                Variant {
                    name: "ricart-agrawala",
                    meaning: "request of all, inform none: 2(N-1) messages",
                    drops: &[],
                },
                Variant {
                    name: "maekawa",
                    meaning: "request of the quorum and inform it: 3(K-1) messages",
                    drops: &[],
                },
                Variant {
                    name: "central",
                    meaning: "request of the coordinator and inform it: 3 messages",
                    drops: &[],
                },
            ],
            other: Other::File,
        },
        Choice {
            key: "check",
            values: &[
                Variant {
                    name: "on",
                    meaning: "sets that do not keep two processes apart are refused",
                    drops: &[],
                },
                Variant {
                    name: "off",
                    meaning: "any sets are taken",
                    drops: &[Claim::MutualExclusion, Claim::Fencing],
                },
            ],
            other: Other::Nothing,
        },
    ],
    costs: Costs {
        light: Cost::words("2(|R|-1) + |I|-1"),
        saturated: Cost::words("by its sets"),
        worst: Cost::words("by its sets"),
        client_delay: Cost::words("2T"),
        sync_delay: Cost::words("T to 2T"),
        saturated_hints: maekawa::INQUIRE.saturated_hints,
        variants: &[
            CostsWith::new(&[("sets", "ricart-agrawala")], ricart_agrawala::COSTS),
            // Of two or three it leaves out a FAILED that could change nothing.
            CostsWith {
                settings: &[("sets", "maekawa")],
                below: Some(4),
                costs: Costs {
                    saturated: Cost::bound("4(K-1)"),
                    saturated_multicasts: Cost::NONE,
                    ..maekawa::INQUIRE
                },
            },
            CostsWith::new(&[("sets", "maekawa")], maekawa::INQUIRE),
            CostsWith::new(&[("sets", "central")], central::MEMBER),
        ],
        ..Costs::NONE
    },
    order: "timestamp where requests meet",
    source: "Sanders, ACM TOCS 5(3), 1987",
    idea: "Of which processes must a process request permission before it enters, and which must \
           it inform when it leaves? Many algorithms differ in nothing else. An arbiter that is \
           informed knows which process is in the critical section and grants one at a time; one \
           that only gets requests lets others pass unless it is requesting itself. Two processes \
           exclude each other if an arbiter keeps account of both, or if each requests of the \
           other.",
    rules: &[
        "To enter: send the stamped request to the request set; enter with all permissions. To \
         leave: inform the inform set.",
        "On a request: queue it by timestamp. While CSSTAT is free, grant the first; CSSTAT is its \
         sender then, if that one will inform us when it leaves.",
        "With CSSTAT taken: if the new request is the best known, ask for the permission back \
         (INQUIRE); if not, send FAILED. A waiting request that is no longer next gets its FAILED.",
        "On INQUIRE: give the permission back (YIELD) once an arbiter has sent FAILED, later too.",
        "On YIELD or RELEASE: CSSTAT is free; grant the first.",
    ],
    invariants: &[StatedInvariant {
        name: "one-grant",
        formula: "forall p, q: p != q -> not exists a in p.grants: a in q.grants and p.phase \
                     = in_cs and q.phase = in_cs",
        meaning: "no two processes are in the critical section by a grant of the same arbiter",
    }],
    known_failures: &[
        "With check=off and sets that do not exclude two processes, both can be in the critical \
         section.",
        "On links that reorder it can deadlock, unless no process informs another.",
        "A process that is down stops every process with it in its request set.",
    ],
};
