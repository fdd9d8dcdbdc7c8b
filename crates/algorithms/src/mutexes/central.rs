//! The central coordinator: the folklore algorithm that the others are measured by.
//!
//! One process, the coordinator, keeps a queue; the others send it requests, are granted entry one
//! at a time, and send it a release when they leave. 3 messages per entry, 4 with `refusal=denied`
//! when others are before us. The state of a client does not depend on N. Links may reorder.
//!
//! The coordinator is a process of its own, or (`coordinator=member`) one of the contenders, which
//! handles its own requests as if they had been sent. `queue=clock` serves the waiting by the
//! timestamps of their requests. That is not the order in which requests happened either: an older
//! one may still be under way.
//!
//! Liberties: with `queue=clock` a process is never queued before one that requested while it was
//! in the critical section, whatever their timestamps, so that no process is overtaken twice. A
//! denial only informs: the denied request is in the queue and is not made again; a denial that
//! arrives late changes nothing.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, NodeSet,
    Other, Outbox, Partners, Phase, Renaming, SpecialRepair, Stamp, Start, StatedInvariant,
    Structure, Time, Value, Variant,
};

/// One process of the central algorithm: a client, and perhaps the coordinator.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Central {
    me: NodeId,
    coordinator: NodeId,
    phase: Phase,
    refusal: Refusal,
    /// Whether the coordinator has denied our request for now.
    denied: bool,
    /// The coordinator's part; none at the others.
    as_coordinator: Option<Box<Coordinator>>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Refusal {
    Silent,
    Denied,
}

/// The coordinator's part.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Coordinator {
    /// Processes below this id may send requests.
    contenders: u32,
    by_clock: bool,
    /// The process that was granted and has not released.
    current: Option<NodeId>,
    /// The waiting requests; the next to be granted comes first.
    queue: VecDeque<Waiting>,
    /// The same processes as in the queue, to know at once whether one waits.
    waiting: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Waiting {
    request: Stamp,
    /// The process in the critical section when it arrived.
    came_during: NodeId,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum CentralMessage {
    /// To the coordinator: a request with this time.
    Request(Time),
    /// To a client: enter.
    Reply,
    /// To a client: other requests are before yours; wait.
    Denied,
    /// To the coordinator: the sender has left.
    Release,
}

use CentralMessage::{Denied, Release, Reply, Request};

impl Mutex for Central {
    type Message = CentralMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let coordinator = start.coordinator();
        Self {
            me,
            coordinator,
            phase: if start.is_in_cs(me) { Phase::InCs } else { Phase::Idle },
            refusal: match start.setting("refusal") {
                "denied" => Refusal::Denied,
                _ => Refusal::Silent,
            },
            denied: false,
            as_coordinator: (me == coordinator).then(|| Box::new(Coordinator::new(start))),
        }
    }

    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        if self.as_coordinator.is_some() {
            self.on_request(ours, out);
        } else {
            out.send(self.coordinator, Request(ours.time));
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let known = match &self.as_coordinator {
            Some(coordinator) => coordinator.has_client(from) && from != self.me,
            None => from == self.coordinator,
        };
        if !known {
            return out.nonsense(from, "a message from neither the coordinator nor a client");
        }
        match message {
            Request(time) => self.on_request(Stamp::new(time, from), out),
            Release => self.on_release(from, out),
            Reply => self.on_reply(from, out),
            Denied => self.on_denied(from, out),
        }
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        if self.as_coordinator.is_some() {
            self.on_release(self.me, out);
        } else {
            out.send(self.coordinator, Release);
        }
    }
}

impl Central {
    fn on_request(&mut self, request: Stamp, out: &mut Outbox<CentralMessage>) {
        let Some(coordinator) = &mut self.as_coordinator else {
            return out
                .nonsense(request.node, "a request to a process that is not the coordinator");
        };
        // A request of the process in the critical section is valid: it may have overtaken its
        // release.
        if coordinator.waiting.contains(request.node) {
            return out.nonsense(request.node, "a second request before the first was answered");
        }
        match coordinator.current {
            None => {
                coordinator.current = Some(request.node);
                self.grant(request.node, out);
            }
            Some(current) => {
                coordinator.put_in_queue(Waiting { request, came_during: current });
                self.refuse(request.node, out);
            }
        }
    }

    fn on_release(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        let Some(coordinator) = &mut self.as_coordinator else {
            return out.nonsense(from, "a release to a process that is not the coordinator");
        };
        if coordinator.current != Some(from) {
            return out.nonsense(from, "a release by a process that was not granted");
        }
        coordinator.current = coordinator.take_from_queue();
        if let Some(next) = coordinator.current {
            self.grant(next, out);
        }
    }

    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        if self.as_coordinator.is_none() && self.phase == Phase::Requesting {
            self.grant(self.me, out);
        } else {
            out.nonsense(from, "an unrequested reply");
        }
    }

    fn on_denied(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        if self.as_coordinator.is_some() || self.refusal == Refusal::Silent {
            return out.nonsense(from, "a denial with refusal=silent");
        }
        // Not requesting: the reply has overtaken it.
        self.denied = self.phase == Phase::Requesting;
    }

    fn grant(&mut self, client: NodeId, out: &mut Outbox<CentralMessage>) {
        if client == self.me {
            self.phase = Phase::InCs;
            self.denied = false;
            out.enter();
        } else {
            out.send(client, Reply);
        }
    }

    fn refuse(&mut self, client: NodeId, out: &mut Outbox<CentralMessage>) {
        if self.refusal == Refusal::Denied {
            if client == self.me {
                self.denied = true;
            } else {
                out.send(client, Denied);
            }
        }
    }
}

impl Coordinator {
    fn new(start: &Start) -> Self {
        Self {
            contenders: start.contenders(),
            by_clock: start.setting("queue") == "clock",
            current: start.in_cs(),
            queue: VecDeque::new(),
            waiting: NodeSet::new(),
        }
    }

    fn has_client(&self, node: NodeId) -> bool {
        node.0 < self.contenders
    }

    fn put_in_queue(&mut self, new: Waiting) {
        let mut index = self.queue.len();
        while index > 0 && self.by_clock && new.goes_before(&self.queue[index - 1]) {
            index -= 1;
        }
        self.queue.insert(index, new);
        self.waiting.insert(new.request.node);
    }

    fn take_from_queue(&mut self) -> Option<NodeId> {
        let next = self.queue.pop_front()?.request.node;
        self.waiting.remove(next);
        Some(next)
    }
}

impl Waiting {
    /// By timestamp, but a process is not granted twice before one that requested while it was in
    /// the critical section.
    fn goes_before(&self, other: &Self) -> bool {
        self.request < other.request && self.request.node != other.came_during
    }
}

impl Inspect for Central {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.as_coordinator.as_ref().is_some_and(|coordinator| {
            coordinator.current.is_none() && coordinator.has_client(self.me)
        })
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Idle
            && self.as_coordinator.as_ref().is_none_or(|coordinator| coordinator.current.is_none())
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match (self.phase, &self.as_coordinator) {
            (Phase::Requesting, None) => vec![self.coordinator],
            (Phase::Requesting, Some(coordinator)) => coordinator.current.into_iter().collect(),
            (Phase::Idle | Phase::InCs, _) => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let mut fields = Fields::new();
        if self.refusal == Refusal::Denied {
            fields.push(("denied", self.denied.into()));
        }
        if let Some(coordinator) = &self.as_coordinator {
            fields.push(("current", coordinator.current.into()));
            let requests = coordinator.queue.iter().map(|waiting| waiting.request);
            fields.push((
                "queue",
                if coordinator.by_clock {
                    Value::list(requests)
                } else {
                    Value::list(requests.map(|request| request.node))
                },
            ));
        }
        fields
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        for waiting in self.as_coordinator.iter_mut().flat_map(|coordinator| &mut coordinator.queue)
        {
            visit(&mut waiting.request.time);
        }
    }

    /// By arrival, clients are all alike; by the clock, ids break ties.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        let coordinator = start.coordinator();
        start.setting("queue") == "arrival" && renaming.of(coordinator) == coordinator
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        if let Some(coordinator) = &mut self.as_coordinator {
            renaming.all(&mut coordinator.current);
            coordinator.waiting = renaming.set(&coordinator.waiting);
            for waiting in &mut coordinator.queue {
                waiting.request = renaming.stamp(waiting.request);
                waiting.came_during = renaming.of(waiting.came_during);
            }
        }
    }

    /// The coordinator takes the requests in as if they arrived in this order.
    fn resume(
        &mut self,
        _start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<CentralMessage>,
    ) -> bool {
        if pending.iter().any(|request| request.node == self.me) {
            self.phase = Phase::Requesting;
        }
        if self.as_coordinator.is_some() {
            pending.iter().for_each(|&request| self.on_request(request, out));
        }
        true
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::TakeOut
    }

    /// Only the coordinator's crash concerns the clients.
    fn can_go_without(&self, crashed: NodeId) -> bool {
        crashed != self.coordinator
    }

    /// The coordinator takes a crashed client's request out, and what it held is free.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<CentralMessage>) {
        let Some(coordinator) = &mut self.as_coordinator else { return };
        coordinator.queue.retain(|waiting| waiting.request.node != crashed);
        coordinator.waiting.remove(crashed);
        if coordinator.current == Some(crashed) {
            self.on_release(crashed, out);
        }
    }
}

impl Message for CentralMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Reply => "reply",
            Denied => "denied",
            Release => "release",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(time) => vec![("time", (*time).into())],
            Reply | Denied | Release => Fields::new(),
        }
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if let Request(time) = self {
            visit(time);
        }
    }
}

use crate::{Cost, CostsWith};

const DEDICATED: Costs = Costs {
    light: Cost::exact("3"),
    light_multicasts: Cost::exact("3"),
    saturated: Cost::exact("3"),
    saturated_multicasts: Cost::exact("3"),
    worst: Cost::bound("3"),
    client_delay: Cost::exact("2").table("{}T"),
    sync_delay: Cost::exact("2").table("{}T"),
    ..Costs::NONE
};

const DENIED: Costs = Costs {
    saturated: Cost::exact("4"),
    saturated_multicasts: Cost::exact("4"),
    worst: Cost::bound("4"),
    ..DEDICATED
};

/// The coordinator is drawn once in N times, and then needs no message.
pub(super) const MEMBER: Costs = Costs {
    light: Cost::mean("3(N-1)/N"),
    light_multicasts: Cost::mean("3(N-1)/N"),
    saturated: Cost::exact("3(N-1)/N"),
    saturated_multicasts: Cost::exact("3(N-1)/N"),
    worst: Cost::bound("3"),
    client_delay: Cost::mean("2(N-1)/N").table("{} T"),
    sync_delay: Cost::exact("2(N-1)/N").table("{} T"),
    ..Costs::NONE
};

const ABOUT: About = About {
    name: "central",
    title: "Central coordinator",
    kind: Kind::Mutex,
    family: "permission",
    control: false,
    claims: &[
        Claim::MutualExclusion,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fencing,
    ],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::Few,
    uses_stamps: true,
    options: &[
        Choice {
            key: "coordinator",
            values: &[
                Variant {
                    name: "dedicated",
                    meaning: "a process more, which only coordinates",
                    drops: &[],
                },
                Variant {
                    name: "member",
                    meaning: "one of the contenders: 3(N-1)/N messages per entry on average",
                    drops: &[],
                },
            ],
            other: Other::Nothing,
        },
        Choice {
            key: "refusal",
            values: &[
                Variant {
                    name: "silent",
                    meaning: "a client that must wait gets no message",
                    drops: &[],
                },
                Variant {
                    name: "denied",
                    meaning: "a client that must wait is denied, and queued all the same",
                    drops: &[],
                },
            ],
            other: Other::Nothing,
        },
        Choice {
            key: "queue",
            values: &[
                Variant { name: "arrival", meaning: "first come, first served", drops: &[] },
                Variant {
                    name: "clock",
                    meaning: "of those waiting, the lowest timestamp is served first",
                    drops: &[],
                },
            ],
            other: Other::Nothing,
        },
    ],
    costs: Costs {
        saturated: Cost::exact("3").table("{} (denied: 4)"),
        worst: Cost::bound("3").table("{} (denied: 4)"),
        variants: &[
            CostsWith::new(
                &[("refusal", "denied"), ("coordinator", "member")],
                Costs {
                    saturated: Cost::exact("4(N-1)/N"),
                    saturated_multicasts: Cost::exact("4(N-1)/N"),
                    ..MEMBER
                },
            ),
            CostsWith::new(&[("coordinator", "member")], MEMBER),
            CostsWith::new(&[("refusal", "denied")], DENIED),
        ],
        ..DEDICATED
    },
    order: "arrival at the coordinator",
    source: "folklore",
    idea: "One process keeps a queue for all. A client sends it a request, enters when it replies, \
           and sends a release when it leaves; the permission is a token that always comes back to \
           the coordinator. It costs little, but all of it at one process.",
    rules: &[
        "To enter: send a request to the coordinator and wait for its reply.",
        "On a request: the coordinator replies if no process is in the critical section, else it \
         queues the request (and sends denied).",
        "To leave: send a release to the coordinator.",
        "On a release: the coordinator replies to the first in the queue.",
    ],
    invariants: &[
        StatedInvariant {
            name: "granted",
            formula: "forall p: p.phase = in_cs -> exists c: c.current = p",
            meaning: "the process in the critical section is the one that the coordinator has \
                     granted",
        },
        StatedInvariant {
            name: "no-idle-queue",
            formula: "forall c: c.current = none -> size(c.queue) = 0",
            meaning: "nobody is in the queue while the critical section is free",
        },
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened: one that is slow on \
         its way comes after one that was made later. queue=clock does not change that.",
        "Without the coordinator nothing goes on; all messages go through it.",
    ],
};
