//! L. Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21(7),
//! 1978.
//!
//! Everyone keeps a queue of all requests, ordered by timestamp. A process enters when its own
//! request is the first in its own queue, and it has heard from everyone since, so that no older
//! one can still come. 3(N-1) messages per entry. Links must keep the order of messages: where they
//! do not, an older request can arrive after what was said later, and two are inside.
//!
//! As published (`confirm=any`), any message with a later timestamp will do, one of the application
//! included; with `confirm=reply` it must be the reply to the request.
//!
//! Liberties: a process counts the replies that it is owed, so that one nobody asked for is
//! recognised. What a process says to itself is a call.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, Stamp, Start, Structure, Time, Value, Variant,
};

/// One process of Lamport's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Lamport {
    me: NodeId,
    confirm: Confirm,
    state: State,
    /// The requests that we know of, ours included, the lowest timestamp first.
    queue: VecDeque<Stamp>,
    /// The same processes as in the queue, to know at once whether one waits.
    queued: NodeSet,
    /// Whom we have not heard since our request.
    missing: NodeSet,
    /// How many replies each one owes us: more than one when others' messages let us in sooner.
    owed: Vec<u32>,
}

/// What confirms that no older request of a process is still under way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Confirm {
    Any,
    Reply,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Outside,
    Requesting { ours: Stamp },
    Inside,
}

/// What the processes say.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum LamportMessage {
    /// I want in, since this time.
    Request(Time),
    /// I have your request.
    Reply,
    /// I have left; forget my request.
    Release,
}

use LamportMessage::{Release, Reply, Request};

impl Mutex for Lamport {
    type Message = LamportMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            confirm: if start.setting("confirm") == "reply" {
                Confirm::Reply
            } else {
                Confirm::Any
            },
            state: if start.is_inside(me) { State::Inside } else { State::Outside },
            queue: start.inside().map(|node| Stamp::new(Time::ZERO, node)).into_iter().collect(),
            queued: start.inside().into_iter().collect(),
            missing: NodeSet::new(),
            owed: vec![0; start.all().len()],
        }
    }

    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.state = State::Requesting { ours };
        self.put_in_queue(ours);
        for other in self.others() {
            self.owed[other.index()] += 1;
            self.missing.insert(other);
        }
        out.multicast(self.others(), Request(ours.time));
        self.enter_if_first(out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.index() >= self.owed.len() || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(time) => self.on_request(Stamp::new(time, from), out),
            Reply => self.on_reply(from, out),
            Release => self.on_release(from, out),
        }
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Outside;
        self.queue.pop_front();
        self.queued.remove(self.me);
        out.multicast(self.others(), Release);
    }

    fn heard(&mut self, from: NodeId, sent: Time, out: &mut Outbox<Self::Message>) {
        if self.confirm == Confirm::Any
            && let State::Requesting { ours } = self.state
            && Stamp::new(sent, from) > ours
        {
            self.missing.remove(from);
            self.enter_if_first(out);
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Outside => Phase::Outside,
            State::Requesting { .. } => Phase::Requesting,
            State::Inside => Phase::Inside,
        }
    }

    fn token_here(&self) -> bool {
        self.owed.len() == 1 && self.state == State::Outside
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.queue.is_empty() && self.owed.iter().all(|&replies| replies == 0)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        if !matches!(self.state, State::Requesting { .. }) {
            return Vec::new();
        }
        let before_us = self.queue.iter().map(|request| request.node);
        let mut waited_for = self.missing.clone();
        waited_for.extend(before_us.take_while(|&node| node != self.me));
        waited_for.iter().collect()
    }

    fn variables(&self) -> Fields {
        vec![
            ("queue", Value::list(self.queue.iter().copied())),
            ("missing", Value::from(&self.missing)),
        ]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if let State::Requesting { ours } = &mut self.state {
            visit(&mut ours.time);
        }
        for request in &mut self.queue {
            visit(&mut request.time);
        }
    }
}

impl Lamport {
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<LamportMessage>) {
        if self.queued.contains(theirs.node) {
            return out.nonsense(theirs.node, "a second request before the first was released");
        }
        self.put_in_queue(theirs);
        out.send(theirs.node, Reply);
    }

    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<LamportMessage>) {
        if self.owed[from.index()] == 0 {
            return out.nonsense(from, "a reply nobody asked for");
        }
        self.owed[from.index()] -= 1;
        // Where any message counts, this one does too, by its time: it may answer an older request.
        if self.confirm == Confirm::Reply {
            self.missing.remove(from);
            self.enter_if_first(out);
        }
    }

    fn on_release(&mut self, from: NodeId, out: &mut Outbox<LamportMessage>) {
        if !self.queued.contains(from) {
            return out.nonsense(from, "a release without a request");
        }
        // Not always the first: the release of one before it may be slower.
        let Some(place) = self.queue.iter().position(|request| request.node == from) else {
            return;
        };
        if self.queue.iter().take(place).any(|request| request.node == self.me) {
            return out.nonsense(from, "a release by one whose turn is after ours");
        }
        self.queue.remove(place);
        self.queued.remove(from);
        self.enter_if_first(out);
    }

    fn put_in_queue(&mut self, request: Stamp) {
        let place = self.queue.partition_point(|&other| other < request);
        self.queue.insert(place, request);
        self.queued.insert(request.node);
    }

    fn enter_if_first(&mut self, out: &mut Outbox<LamportMessage>) {
        if let State::Requesting { ours } = self.state
            && self.missing.is_empty()
            && self.queue.front() == Some(&ours)
        {
            self.state = State::Inside;
            out.enter();
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.owed.len()).map(NodeId::from).filter(move |&node| node != me)
    }
}

impl Message for LamportMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Reply => "reply",
            Release => "release",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(time) => vec![("time", (*time).into())],
            Reply | Release => Fields::new(),
        }
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if let Request(time) = self {
            visit(time);
        }
    }
}

const ABOUT: About = About {
    name: "lamport",
    title: "Lamport 1978",
    kind: Kind::Mutex,
    family: "permission",
    control: false,
    claims: &[
        Claim::Safety,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::Ordering,
        Claim::BoundedBypass,
        Claim::Fence,
    ],
    links: Links::Fifo,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: true,
    options: &[Choice {
        key: "confirm",
        values: &[
            Variant {
                name: "any",
                meaning: "any message with a later timestamp shows that no older request will come",
                drops: &[],
            },
            Variant {
                name: "reply",
                meaning: "only the reply to the request shows it",
                drops: &[],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: "3(N-1)",
        saturated: "3(N-1)",
        worst: "3(N-1)",
        client_delay: "2T",
        sync_delay: "T",
    },
    order: "timestamp",
    source: "Lamport, CACM 21(7), 1978",
    idea: "Everyone tells everyone of every request and every release, and all keep the same \
           queue, ordered by timestamp. Who is first in its own queue may still be ignorant of an \
           older request on its way; once it has heard something later from everyone, over links \
           that keep order, there is none.",
    rules: &[
        "To enter: stamp the request, put it in the own queue, send it to all others.",
        "On a request: put it in the queue and reply.",
        "Go in when the own request is the first in the own queue and every other process has said \
         something later (confirm=reply: has replied).",
        "To leave: take the request out of the queue and send a release to all others.",
        "On a release: take the sender's request out of the queue.",
    ],
    known_failures: &[
        "Over links that reorder messages two can be inside (EM1), or all wait for ever.",
        "One process that is down stops everyone.",
    ],
};
