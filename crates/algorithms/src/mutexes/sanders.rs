//! B. A. Sanders, "The information structure of distributed mutual exclusion algorithms", ACM TOCS
//! 5(3), 1987.
//!
//! Every process has a request set, whom it asks before it enters, and an inform set, whom it tells
//! when it leaves. An arbiter remembers whom it has let in only of those who will tell it; the
//! others it lets pass. That one algorithm is Ricart-Agrawala's with the sets (all, {i}), Maekawa's
//! with (quorum, quorum), and the central one with ({i, c}, {i, c}). It is safe if the inform sets
//! of any two processes meet or each asks the other. Links must keep order.
//!
//! Requests that hold permissions which others need are resolved as in Maekawa's algorithm with its
//! corrections: INQUIRE, FAILED, YIELD.
//!
//! Liberties: every message names the request it is about by its time; what a process says to
//! itself is a call, and the arbiter takes its own permission back without FAILED unless the
//! process is inside. An INQUIRE is left out if the receiver cannot wait for anybody else, and a
//! FAILED if nobody else could ask the receiver for its permission back. So the special cases cost
//! exactly what the algorithms do whose sets they are.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, SetsOf, Shared, Stamp, Start, StartError, Structure, Time, Value,
    Variant,
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
    /// Who has let us in.
    grants: NodeSet,
    /// Who has said FAILED, or has got its permission back, and has not let us in since.
    failed: NodeSet,
    /// Who has asked for its permission back and still waits for the answer.
    inquired: NodeSet,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Arbiter {
    /// The request that we know to be inside, or on its way in: CSSTAT. None: it is free.
    inside: Option<Stamp>,
    /// Whether we have asked for the permission back.
    asked_back: bool,
    /// The other requests, best first.
    queue: Vec<Stamp>,
}

/// What the processes say; each names the request it is about by the time of it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum SandersMessage {
    /// May I enter?
    Request(Time),
    /// As far as I know, you may.
    Grant(Time),
    /// Somebody better is before you.
    Failed(Time),
    /// Do you still need my permission? Somebody better has asked.
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
        if start.is_inside(me) {
            requester.phase = Phase::Inside;
            requester.grants = sets.request(me).iter().copied().collect();
        }
        let known = start.inside().filter(|&holder| sets.tells(holder, me));
        let inside = known.map(|holder| Stamp::new(Time::ZERO, holder));
        Self { me, requester, arbiter: Arbiter { inside, ..Arbiter::default() }, sets }
    }

    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.requester.phase = Phase::Requesting;
        self.requester.time = ours.time;
        out.multicast(but(self.me, self.sets.request(self.me)), Request(ours.time));
        self.on_request(ours, out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let known = match message {
            Request(_) => self.sets.asks(from, self.me),
            Yield(_) | Release(_) => self.sets.tells(from, self.me),
            Grant(_) | Failed(_) => self.sets.asks(self.me, from),
            Inquire(_) => self.sets.tells(self.me, from),
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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let time = std::mem::take(&mut self.requester.time);
        self.requester.phase = Phase::Outside;
        self.requester.grants.clear();
        out.multicast(but(self.me, self.sets.inform(self.me)), Release(time));
        self.on_release(Stamp::new(time, self.me), out);
    }

    fn phase(&self) -> Phase {
        self.requester.phase
    }

    fn token_here(&self) -> bool {
        self.sets.request(self.me).len() == 1
            && self.requester.phase == Phase::Outside
            && self.arbiter.inside.is_none()
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.requester.phase == Phase::Outside && self.arbiter.inside.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.requester.phase {
            Phase::Requesting => {
                let asked = self.sets.request(self.me).iter().copied();
                asked.filter(|&asked| !self.requester.grants.contains(asked)).collect()
            }
            Phase::Outside | Phase::Inside => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let requesting = self.requester.phase == Phase::Requesting;
        vec![
            ("request", requesting.then_some(self.requester.time).into()),
            ("grants", Value::from(&self.requester.grants)),
            ("failed", Value::from(&self.requester.failed)),
            ("inquired", Value::from(&self.requester.inquired)),
            ("CSSTAT", self.arbiter.inside.into()),
            ("queue", Value::list(self.arbiter.queue.iter().copied())),
        ]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if self.requester.phase != Phase::Outside {
            visit(&mut self.requester.time);
        }
        for stamp in self.arbiter.inside.iter_mut().chain(&mut self.arbiter.queue) {
            visit(&mut stamp.time);
        }
    }
}

impl Sanders {
    // The arbiter.

    fn on_request(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.knows_a_request_of(request.node) {
            return out.nonsense(request.node, "a second request before the first was released");
        }
        let place = self.enqueue(request);
        let Some(inside) = self.arbiter.inside else {
            return self.grant_the_best(out);
        };
        if place > 0 || request > inside {
            return self.fail(request, out);
        }
        // The old head thought that it was next; if it was worse than the one inside it has its
        // FAILED already.
        if let Some(&old_head) = self.arbiter.queue.get(1).filter(|&&head| head < inside) {
            self.fail(old_head, out);
        }
        self.ask_back(inside, out);
    }

    fn on_yield(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.inside != Some(request) || !self.arbiter.asked_back {
            return out.nonsense(request.node, "a permission given back that nobody asked for");
        }
        self.enqueue(request);
        self.become_free(out);
    }

    fn on_release(&mut self, request: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.inside != Some(request) {
            return out.nonsense(request.node, "a release of a permission that it does not have");
        }
        self.become_free(out);
    }

    fn become_free(&mut self, out: &mut Outbox<SandersMessage>) {
        self.arbiter.inside = None;
        self.arbiter.asked_back = false;
        self.grant_the_best(out);
    }

    /// Lets requests in until one of them will tell us when it leaves.
    fn grant_the_best(&mut self, out: &mut Outbox<SandersMessage>) {
        while self.arbiter.inside.is_none() && !self.arbiter.queue.is_empty() {
            let best = self.arbiter.queue.remove(0);
            if self.sets.tells(best.node, self.me) {
                self.arbiter.inside = Some(best);
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

    fn ask_back(&mut self, inside: Stamp, out: &mut Outbox<SandersMessage>) {
        if self.arbiter.asked_back {
            return;
        }
        if inside.node == self.me {
            if self.requester.phase == Phase::Requesting {
                self.arbiter.asked_back = true;
                self.give_back_our_own(inside, out);
            }
        } else if self.sets.can_wait_for_others(inside.node, self.me) {
            self.arbiter.asked_back = true;
            out.send(inside.node, Inquire(inside.time));
        }
    }

    /// Puts a request into the queue and says where.
    fn enqueue(&mut self, request: Stamp) -> usize {
        let place = self.arbiter.queue.partition_point(|&waiting| waiting < request);
        self.arbiter.queue.insert(place, request);
        place
    }

    fn knows_a_request_of(&self, node: NodeId) -> bool {
        let mut known = self.arbiter.inside.iter().chain(&self.arbiter.queue);
        known.any(|request| request.node == node)
    }

    // The requester.

    fn on_grant(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        if !self.is_requesting_since(time) || !self.requester.grants.insert(from) {
            return out.nonsense(from, "a permission nobody asked for");
        }
        self.requester.failed.remove(from);
        if self.requester.grants.len() == self.sets.request(self.me).len() {
            self.requester.phase = Phase::Inside;
            // Who asked for its permission back is answered by our release.
            self.requester.inquired.clear();
            out.enter();
        }
    }

    fn on_failed(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        if !self.is_requesting_since(time) || self.requester.grants.contains(from) {
            return out.nonsense(from, "a FAILED for no request of ours");
        }
        self.requester.failed.insert(from);
        self.answer_if_failed(out);
    }

    fn on_inquire(&mut self, from: NodeId, time: Time, out: &mut Outbox<SandersMessage>) {
        // Inside, our release is the answer; after it, the question is late.
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
    /// again at once, if the better request is from one who does not tell us.
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

const ABOUT: About = About {
    name: "sanders",
    title: "Sanders 1987",
    kind: Kind::Mutex,
    family: "quorum",
    control: false,
    claims: &[Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence],
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
                    meaning: "ask everyone, tell nobody: 2(N-1) messages",
                    drops: &[],
                },
                Variant {
                    name: "maekawa",
                    meaning: "ask and tell the quorum: 3(K-1) messages",
                    drops: &[],
                },
                Variant {
                    name: "central",
                    meaning: "ask and tell the coordinator: 3 messages",
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
                    drops: &[Claim::Safety, Claim::Fence],
                },
            ],
            other: Other::Nothing,
        },
    ],
    costs: Costs {
        light: "2(|R|-1) + |I|-1",
        saturated: "by its sets",
        worst: "by its sets",
        client_delay: "2T",
        sync_delay: "T to 2T",
    },
    order: "timestamp where requests meet",
    source: "Sanders, ACM TOCS 5(3), 1987",
    idea: "Whom must a process ask before it enters, and whom must it tell when it leaves? Many \
           algorithms differ in nothing else. Who is told keeps account of who is inside and lets \
           one in at a time; who is only asked lets others pass unless it wants in itself. Two \
           processes are kept apart if somebody keeps account of both, or if each asks the other.",
    rules: &[
        "To enter: send the stamped request to the request set; enter with all permissions. To \
         leave: tell the inform set.",
        "On a request: queue it by timestamp. While CSSTAT is free, let the first in; CSSTAT is \
         its sender then, if that one will tell us when it leaves.",
        "With CSSTAT taken: if the new request is the best known, ask for the permission back \
         (INQUIRE); if not, say FAILED. A waiting request that is no longer next gets its FAILED.",
        "On INQUIRE: give the permission back (YIELD) once somebody has said FAILED, later too.",
        "On YIELD or RELEASE: CSSTAT is free; let the first in.",
    ],
    known_failures: &[
        "With check=off and sets that do not keep two processes apart, both can be inside.",
        "On links that reorder it can deadlock, unless nobody tells anybody else.",
        "Who is asked and is down stops everyone who asks it.",
    ],
};
