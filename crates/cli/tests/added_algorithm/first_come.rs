//! First come, first served: an algorithm for the test that adds one.
//!
//! Process 0 keeps a queue. The others send it a request, enter on its grant, and send it a release
//! when they leave. It is the central coordinator with none of its options.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox,
    Partners, Phase, Stamp, Start, Structure, Value,
};

/// One process of the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct FirstCome {
    me: NodeId,
    processes: u32,
    phase: Phase,
    /// The process that was granted and has not released. Known at process 0 only, as is the queue.
    current: Option<NodeId>,
    queue: VecDeque<NodeId>,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum FirstComeMessage {
    /// To process 0: a request.
    Request,
    /// From process 0: enter.
    Grant,
    /// To process 0: the sender has left.
    Release,
}

use FirstComeMessage::{Grant, Release, Request};

const FIRST: NodeId = NodeId(0);

impl Mutex for FirstCome {
    type Message = FirstComeMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            phase: if start.is_in_cs(me) { Phase::InCs } else { Phase::Idle },
            current: start.in_cs().filter(|_| me == FIRST),
            queue: VecDeque::new(),
        }
    }

    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        if self.me == FIRST {
            self.on_request(FIRST, out);
        } else {
            out.send(FIRST, Request);
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let is_known = from != self.me && from.0 < self.processes;
        match message {
            Request if self.me == FIRST && is_known => self.on_request(from, out),
            Release if self.me == FIRST && is_known && self.current == Some(from) => {
                self.grant_next(out);
            }
            Grant if from == FIRST && self.phase == Phase::Requesting && is_known => {
                self.phase = Phase::InCs;
                out.enter();
            }
            Request | Release | Grant => out.nonsense(from, "an unexpected message"),
        }
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        if self.me == FIRST {
            self.grant_next(out);
        } else {
            out.send(FIRST, Release);
        }
    }
}

impl FirstCome {
    fn on_request(&mut self, from: NodeId, out: &mut Outbox<FirstComeMessage>) {
        // Not the current one: its request may overtake its release.
        if self.queue.contains(&from) {
            return out.nonsense(from, "a second request before the first was granted");
        }
        self.queue.push_back(from);
        if self.current.is_none() {
            self.grant_next(out);
        }
    }

    fn grant_next(&mut self, out: &mut Outbox<FirstComeMessage>) {
        self.current = self.queue.pop_front();
        match self.current {
            None => {}
            Some(FIRST) => {
                self.phase = Phase::InCs;
                out.enter();
            }
            Some(next) => out.send(next, Grant),
        }
    }
}

impl Inspect for FirstCome {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.me == FIRST && self.current.is_none()
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Idle && self.current.is_none()
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting if self.me == FIRST => self.current.into_iter().collect(),
            Phase::Requesting => vec![FIRST],
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![("current", self.current.into()), ("queue", Value::list(self.queue.iter().copied()))]
    }
}

impl Message for FirstComeMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request => "request",
            Grant => "grant",
            Release => "release",
        }
    }
}

const ABOUT: About = About {
    name: "first-come",
    title: "First come, first served",
    kind: Kind::Mutex,
    family: "permission",
    control: false,
    claims: &[Claim::Liveness, Claim::DeadlockFree, Claim::MutualExclusion, Claim::Fencing],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::mean("3(N-1)/N"),
        light_multicasts: Cost::mean("3(N-1)/N"),
        saturated: Cost::mean("3(N-1)/N"),
        saturated_multicasts: Cost::mean("3(N-1)/N"),
        worst: Cost::bound("3"),
        client_delay: Cost::mean("2(N-1)/N").table("{} T mean (0 or 2T)"),
        ..Costs::NONE
    },
    order: "arrival at process 0",
    source: "folklore",
    idea: "One process keeps a queue of requests and grants them one at a time.",
    rules: &["To enter: ask process 0.", "To leave: release at process 0."],
    invariants: &[],
    known_failures: &["Process 0 is a single point of failure."],
};
