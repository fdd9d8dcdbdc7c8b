//! L. Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21(7),
//! 1978.
//!
//! Every process keeps a queue of all requests, ordered by timestamp. A process enters when its own
//! request is the first in its own queue, and a later message of every other process has arrived,
//! so that no older request can still come. 3(N-1) messages per entry. Links must keep the order of
//! messages: where they do not, an older request can arrive after a later message, and two
//! processes are in the critical section.
//!
//! As published (`confirm=any`), any message with a later timestamp will do, one of the application
//! included; with `confirm=reply` it must be the reply to the request.
//!
//! Liberties: a process counts the replies that it is owed, so that an unrequested one
//! is recognised. A message of a process to itself is a call.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId,
    NodeSet, Other, Outbox, Partners, Phase, SpecialRepair, Stamp, Start, StatedInvariant,
    Structure, Time, Value, Variant,
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
    /// The processes of which no message stamped later than our request has arrived.
    missing: NodeSet,
    /// How many replies each one owes us: more than one when others' messages let us enter sooner.
    owed: Vec<u32>,
}

/// The message that confirms that no older request of its sender is still under way.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Confirm {
    Any,
    Reply,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Requesting { ours: Stamp },
    InCs,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum LamportMessage {
    /// A request with this time.
    Request(Time),
    /// I have your request.
    Reply,
    /// The sender has left; its request is over.
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
            state: if start.is_in_cs(me) { State::InCs } else { State::Idle },
            queue: start.in_cs().map(|node| Stamp::new(Time::ZERO, node)).into_iter().collect(),
            queued: start.in_cs().into_iter().collect(),
            missing: NodeSet::new(),
            owed: vec![0; start.all().len()],
        }
    }

    /// Rule 1: the request goes to all others and into our own queue.
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

    /// Rule 3: our request leaves our queue, and a release goes to all others.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Idle;
        self.queue.pop_front();
        self.queued.remove(self.me);
        out.multicast(self.others(), Release);
    }

    /// Rule 5, condition (ii): any message of `from` that is stamped later than our request shows
    /// that no older request of it is still on its way, since the link keeps order. It is called
    /// after `receive`: a request that the same message carries must be in the queue before we look
    /// at its head.
    fn observed(&mut self, from: NodeId, sent: Time, out: &mut Outbox<Self::Message>) {
        if self.confirm == Confirm::Any
            && let State::Requesting { ours } = self.state
            && Stamp::new(sent, from) > ours
        {
            self.missing.remove(from);
            self.enter_if_first(out);
        }
    }
}

impl Lamport {
    /// Rule 2: the request goes into the queue, and a reply back.
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<LamportMessage>) {
        if self.queued.contains(theirs.node) {
            return out.nonsense(theirs.node, "a second request before the first was released");
        }
        self.put_in_queue(theirs);
        out.send(theirs.node, Reply);
    }

    /// Rule 2, the requester's side: the acknowledgement has arrived.
    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<LamportMessage>) {
        if self.owed[from.index()] == 0 {
            return out.nonsense(from, "an unrequested reply");
        }
        self.owed[from.index()] -= 1;
        // Where any message counts, this one does too, by its stamp in `observed`: it may answer an
        // older request of ours, and then it shows nothing about this one.
        if self.confirm == Confirm::Reply {
            self.missing.remove(from);
            self.enter_if_first(out);
        }
    }

    /// Rule 4: the sender's request leaves the queue.
    fn on_release(&mut self, from: NodeId, out: &mut Outbox<LamportMessage>) {
        if !self.queued.contains(from) {
            return out.nonsense(from, "a release without a request");
        }
        // Not always the first: the release of one before it may be slower.
        let Some(index) = self.queue.iter().position(|request| request.node == from) else {
            return;
        };
        if self.queue.iter().take(index).any(|request| request.node == self.me) {
            return out.nonsense(from, "a release by a process whose request is after ours");
        }
        self.queue.remove(index);
        self.queued.remove(from);
        self.enter_if_first(out);
    }

    fn put_in_queue(&mut self, request: Stamp) {
        let index = self.queue.partition_point(|&other| other < request);
        self.queue.insert(index, request);
        self.queued.insert(request.node);
    }

    /// Rule 5: (i) our request is the first in our queue, and (ii) no process is missing.
    fn enter_if_first(&mut self, out: &mut Outbox<LamportMessage>) {
        if let State::Requesting { ours } = self.state
            && self.missing.is_empty()
            && self.queue.front() == Some(&ours)
        {
            self.state = State::InCs;
            out.enter();
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.owed.len()).map(NodeId::from).filter(move |&node| node != me)
    }
}

impl Inspect for Lamport {
    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Requesting { .. } => Phase::Requesting,
            State::InCs => Phase::InCs,
        }
    }

    fn would_enter_at_once(&self) -> bool {
        self.owed.len() == 1 && self.state == State::Idle
    }

    fn is_at_start(&self, _start: &Start) -> bool {
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

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::TakeOut
    }

    /// The requests of a crashed process leave the queue, and its replies count as given.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<LamportMessage>) {
        self.queue.retain(|request| request.node != crashed);
        self.queued.remove(crashed);
        self.owed[crashed.index()] = 0;
        self.missing.remove(crashed);
        self.enter_if_first(out);
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
        Claim::MutualExclusion,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::Ordering,
        Claim::BoundedBypass,
        Claim::Fencing,
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
        light: Cost::exact("3(N-1)"),
        light_multicasts: Cost::exact("N+1"),
        saturated: Cost::exact("3(N-1)"),
        saturated_multicasts: Cost::exact("N+1"),
        worst: Cost::bound("3(N-1)"),
        client_delay: Cost::exact("2").table("{}T"),
        sync_delay: Cost::T,
        ..Costs::NONE
    },
    order: "timestamp",
    source: "Lamport, CACM 21(7), 1978",
    idea: "Every request and every release goes to all, and all keep the same queue, ordered by \
           timestamp. A process that is first in its own queue may still not know of an older \
           request on its way; once a later message of every other process has arrived, over links \
           that keep order, no older request can come.",
    rules: &[
        "To enter: stamp the request, put it in its own queue, send it to all others.",
        "On a request: put it in the queue and reply.",
        "Enter when its own request is the first in its own queue and a later message of every \
         other process has arrived (confirm=reply: its reply).",
        "To leave: take the request out of the queue and send a release to all others.",
        "On a release: take the sender's request out of the queue.",
    ],
    invariants: &[
        StatedInvariant {
            name: "equal-queues",
            formula: "size(messages()) = 0 -> forall p, q: p.queue = q.queue",
            meaning: "with no message in flight all queues are equal",
        },
        StatedInvariant {
            name: "head",
            formula: "forall p: p.phase = in_cs -> first(p.queue).node = p",
            meaning: "the process in the critical section is the first in its own queue",
        },
        StatedInvariant {
            name: "once",
            formula: "forall p, q: count(r in p.queue: r.node = q) <= 1",
            meaning: "a queue holds at most one request of each process",
        },
    ],
    known_failures: &[
        "Over links that reorder messages two can be in the critical section, or all wait \
         for ever.",
        "One process that is down stops all.",
    ],
};
