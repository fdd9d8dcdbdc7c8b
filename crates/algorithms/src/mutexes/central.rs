//! The central coordinator: the folklore algorithm that the others are measured by.
//!
//! One process, the coordinator, keeps a queue; the others ask it, are let in one at a time, and
//! tell it when they leave. 3 messages per entry, 4 with `refusal=denied` when others are before
//! us. The state of a client does not depend on N. Links may reorder.
//!
//! The coordinator is a process of its own, or (`coordinator=member`) one of the contenders, which
//! says to itself what the others send it. `queue=clock` serves the waiting by the timestamps of
//! their requests. That is not the order in which requests happened either: an older one may still
//! be under way.
//!
//! Liberties: with `queue=clock` a process is never put before one that came while it was inside,
//! whatever their timestamps, so that nobody is overtaken twice. A denial is a courtesy: the denied
//! request is in the queue and is not made again; one that arrives late is as good as none.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, Renaming, Stamp, Start, Structure, Time, Value, Variant,
};

/// One process of the central algorithm: a client, and perhaps the coordinator.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Central {
    me: NodeId,
    coordinator: NodeId,
    phase: Phase,
    refusal: Refusal,
    /// Whether the coordinator has told us that others are before us.
    denied: bool,
    /// What the coordinator knows; nothing at the others.
    desk: Option<Box<Desk>>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Refusal {
    Silent,
    Denied,
}

/// The coordinator's part.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Desk {
    /// Those below this id may ask.
    contenders: u32,
    by_clock: bool,
    /// Who has been let in and has not said that it left.
    current: Option<NodeId>,
    /// Who is let in next comes first.
    queue: VecDeque<Waiting>,
    /// The same processes as in the queue, to know at once whether one waits.
    waiting: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Waiting {
    request: Stamp,
    /// Who was inside when it came.
    came_during: NodeId,
}

/// What the processes say.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum CentralMessage {
    /// To the coordinator: I want in, since this time.
    Request(Time),
    /// To a client: go in.
    Reply,
    /// To a client: others are before you; wait.
    Denied,
    /// To the coordinator: I have left.
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
            phase: if start.is_inside(me) { Phase::Inside } else { Phase::Outside },
            refusal: match start.setting("refusal") {
                "denied" => Refusal::Denied,
                _ => Refusal::Silent,
            },
            denied: false,
            desk: (me == coordinator).then(|| Box::new(Desk::new(start))),
        }
    }

    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        if self.desk.is_some() {
            self.on_request(ours, out);
        } else {
            out.send(self.coordinator, Request(ours.time));
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let known = match &self.desk {
            Some(desk) => desk.has_client(from) && from != self.me,
            None => from == self.coordinator,
        };
        if !known {
            return out.nonsense(from, "a message from one who is not the coordinator or a client");
        }
        match message {
            Request(time) => self.on_request(Stamp::new(time, from), out),
            Release => self.on_release(from, out),
            Reply => self.on_reply(from, out),
            Denied => self.on_denied(from, out),
        }
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Outside;
        if self.desk.is_some() {
            self.on_release(self.me, out);
        } else {
            out.send(self.coordinator, Release);
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn token_here(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.current.is_none() && desk.has_client(self.me))
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.phase == Phase::Outside && self.desk.as_ref().is_none_or(|desk| desk.current.is_none())
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match (self.phase, &self.desk) {
            (Phase::Requesting, None) => vec![self.coordinator],
            (Phase::Requesting, Some(desk)) => desk.current.into_iter().collect(),
            (Phase::Outside | Phase::Inside, _) => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let mut fields = Fields::new();
        if self.refusal == Refusal::Denied {
            fields.push(("denied", self.denied.into()));
        }
        if let Some(desk) = &self.desk {
            fields.push(("current", desk.current.into()));
            let requests = desk.queue.iter().map(|waiting| waiting.request);
            fields.push((
                "queue",
                if desk.by_clock {
                    Value::list(requests)
                } else {
                    Value::list(requests.map(|request| request.node))
                },
            ));
        }
        fields
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        for waiting in self.desk.iter_mut().flat_map(|desk| &mut desk.queue) {
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
        if let Some(desk) = &mut self.desk {
            renaming.all(&mut desk.current);
            desk.waiting = renaming.set(&desk.waiting);
            for waiting in &mut desk.queue {
                waiting.request = renaming.stamp(waiting.request);
                waiting.came_during = renaming.of(waiting.came_during);
            }
        }
    }
}

impl Central {
    fn on_request(&mut self, request: Stamp, out: &mut Outbox<CentralMessage>) {
        let Some(desk) = &mut self.desk else {
            return out.nonsense(request.node, "a request to one who is not the coordinator");
        };
        // A request of the one inside is no nonsense: it may have overtaken its release.
        if desk.waiting.contains(request.node) {
            return out.nonsense(request.node, "a second request before the first was answered");
        }
        match desk.current {
            None => {
                desk.current = Some(request.node);
                self.let_in(request.node, out);
            }
            Some(inside) => {
                desk.put_in_queue(Waiting { request, came_during: inside });
                self.refuse(request.node, out);
            }
        }
    }

    fn on_release(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        let Some(desk) = &mut self.desk else {
            return out.nonsense(from, "a release to one who is not the coordinator");
        };
        if desk.current != Some(from) {
            return out.nonsense(from, "a release by one who was not let in");
        }
        desk.current = desk.take_from_queue();
        if let Some(next) = desk.current {
            self.let_in(next, out);
        }
    }

    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        if self.desk.is_none() && self.phase == Phase::Requesting {
            self.let_in(self.me, out);
        } else {
            out.nonsense(from, "a reply nobody asked for");
        }
    }

    fn on_denied(&mut self, from: NodeId, out: &mut Outbox<CentralMessage>) {
        if self.desk.is_some() || self.refusal == Refusal::Silent {
            return out.nonsense(from, "a denial where nobody is denied");
        }
        // Not requesting: the reply has overtaken it.
        self.denied = self.phase == Phase::Requesting;
    }

    fn let_in(&mut self, client: NodeId, out: &mut Outbox<CentralMessage>) {
        if client == self.me {
            self.phase = Phase::Inside;
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

impl Desk {
    fn new(start: &Start) -> Self {
        Self {
            contenders: start.contenders(),
            by_clock: start.setting("queue") == "clock",
            current: start.inside(),
            queue: VecDeque::new(),
            waiting: NodeSet::new(),
        }
    }

    fn has_client(&self, node: NodeId) -> bool {
        node.0 < self.contenders
    }

    fn put_in_queue(&mut self, new: Waiting) {
        let mut place = self.queue.len();
        while place > 0 && self.by_clock && new.goes_before(&self.queue[place - 1]) {
            place -= 1;
        }
        self.queue.insert(place, new);
        self.waiting.insert(new.request.node);
    }

    fn take_from_queue(&mut self) -> Option<NodeId> {
        let next = self.queue.pop_front()?.request.node;
        self.waiting.remove(next);
        Some(next)
    }
}

impl Waiting {
    /// By timestamp, but nobody goes a second time before one that came while it was inside.
    fn goes_before(&self, other: &Self) -> bool {
        self.request < other.request && self.request.node != other.came_during
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

const ABOUT: About = About {
    name: "central",
    title: "Central coordinator",
    kind: Kind::Mutex,
    family: "permission",
    control: false,
    claims: &[
        Claim::Safety,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fence,
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
                Variant { name: "silent", meaning: "who must wait hears nothing", drops: &[] },
                Variant {
                    name: "denied",
                    meaning: "who must wait is told so, and is queued all the same",
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
        light: "3",
        saturated: "3 (denied: 4)",
        worst: "3 (denied: 4)",
        client_delay: "2T",
        sync_delay: "2T",
    },
    order: "arrival at the coordinator",
    source: "folklore",
    idea: "One process keeps a queue for all. A client asks it, goes in when it is told to, and \
           says when it has left; the permission is a token that always comes back to the \
           coordinator. It costs little, but all of it at one process.",
    rules: &[
        "To enter: send a request to the coordinator and wait for its reply.",
        "On a request: the coordinator replies if nobody is inside, else it queues the request \
         (and says denied).",
        "To leave: send a release to the coordinator.",
        "On a release: the coordinator replies to the first in the queue.",
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened (EM3): one that is slow on \
         its way comes after one that was made later. queue=clock does not mend that.",
        "Without the coordinator nothing goes on; all messages go through it.",
    ],
};
