//! O. S. F. Carvalho and G. Roucairol, "On mutual exclusion in computer networks", CACM 26(2),
//! 1983.
//!
//! As in Ricart and Agrawala's algorithm, a process enters with the permission of all; but a
//! permission once given lasts until its giver requests it back. So for any two processes there is
//! one permission, which one of them holds or which is on its way, and a request goes only to those
//! whose permission is not here. 0 to 2(N-1) messages per entry, none for the same process again.
//! Links may reorder.
//!
//! Liberties: in the beginning the permission between two is with the holder, if it is one of
//! them, else with the lower id.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, NodeSet,
    Outbox, Partners, Phase, SpecialRepair, Stamp, Start, StatedInvariant, Structure, Time, Value,
};

/// One process of Carvalho and Roucairol's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CarvalhoRoucairol {
    me: NodeId,
    processes: u32,
    state: State,
    /// The processes whose permission is not here: those with a false entry in the paper's array
    /// `A`.
    lacking: NodeSet,
    /// The processes whose request we answer when we leave.
    deferred: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    /// Every process in `lacking` has our request.
    Requesting {
        ours: Stamp,
    },
    /// No permission is lacking.
    InCs,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum CarvalhoRoucairolMessage {
    /// A request with this time; the sender lacks your permission.
    Request(Time),
    /// You have my permission until I request it.
    Reply,
}

use CarvalhoRoucairolMessage::{Reply, Request};

impl Mutex for CarvalhoRoucairol {
    type Message = CarvalhoRoucairolMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let holder = start.holder();
        let is_theirs = |&other: &NodeId| me != holder && (other == holder || other < me);
        Self {
            me,
            processes: start.processes(),
            state: if start.is_in_cs(me) { State::InCs } else { State::Idle },
            lacking: start.others(me).filter(is_theirs).collect(),
            deferred: NodeSet::new(),
        }
    }

    /// The paper's first rule: REQUEST goes only to each process j with A(j) false.
    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.state = State::Requesting { ours };
        out.multicast(self.lacking.iter(), Request(ours.time));
        self.enter_if_none_lacks(out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(time) => self.on_request(Stamp::new(time, from), out),
            Reply => self.on_reply(from, out),
        }
    }

    /// After the critical section: each deferred reply gives the permission away, A(j) := false.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Idle;
        for waiting in self.deferred.iter() {
            self.lacking.insert(waiting);
            out.send(waiting, Reply);
        }
        self.deferred.clear();
    }
}

impl CarvalhoRoucairol {
    /// The paper's rule for a REQUEST: defer it in the critical section or with the older request
    /// of our own; else reply, A(j) := false.
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        let from = theirs.node;
        if self.deferred.contains(from) {
            return out.nonsense(from, "a second request before the first was answered");
        }
        if self.goes_before(theirs) {
            // Their permission need not be here: the request may have overtaken it, since one that
            // has just replied to us can only request with a later timestamp.
            self.deferred.insert(from);
        } else if self.lacking.insert(from) {
            out.send(from, Reply);
            // Our second request of the paper: we held their permission when we requested, and so
            // did not send them a request. With the reply we give the permission away; without
            // this request they would never give it back, and we would wait for ever.
            if let State::Requesting { ours } = self.state {
                out.send(from, Request(ours.time));
            }
        } else {
            out.nonsense(from, "a request by a process that holds our permission");
        }
    }

    /// The paper's rule for a REPLY: A(j) := true.
    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        if matches!(self.state, State::Requesting { .. }) && self.lacking.remove(from) {
            self.enter_if_none_lacks(out);
        } else {
            out.nonsense(from, "an unrequested reply");
        }
    }

    /// Whether our request comes before this one of another process.
    fn goes_before(&self, theirs: Stamp) -> bool {
        match self.state {
            State::Idle => false,
            State::Requesting { ours } => ours < theirs,
            State::InCs => true,
        }
    }

    fn enter_if_none_lacks(&mut self, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        if self.lacking.is_empty() {
            self.state = State::InCs;
            out.enter();
        }
    }
}

impl Inspect for CarvalhoRoucairol {
    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Requesting { .. } => Phase::Requesting,
            State::InCs => Phase::InCs,
        }
    }

    fn would_enter_at_once(&self) -> bool {
        self.state == State::Idle && self.lacking.is_empty()
    }

    /// The permissions between other pairs may lie as they will: all are made anew together.
    fn is_at_start(&self, start: &Start) -> bool {
        self.state == State::Idle && (self.me != start.holder() || self.lacking.is_empty())
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.state {
            State::Requesting { .. } => self.lacking.iter().collect(),
            State::Idle | State::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let ours = match self.state {
            State::Requesting { ours } => Some(ours),
            State::Idle | State::InCs => None,
        };
        let all = (0..self.processes).map(NodeId);
        let held = all.filter(|&node| node != self.me && !self.lacking.contains(node));
        vec![
            ("request", ours.into()),
            ("A", Value::list(held)),
            ("deferred", Value::from(&self.deferred)),
        ]
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if let State::Requesting { ours } = &mut self.state {
            visit(&mut ours.time);
        }
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::TakeOut
    }

    /// A crashed process gets no permission any more, and its own is ours for good.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        self.deferred.remove(crashed);
        if self.lacking.remove(crashed) && matches!(self.state, State::Requesting { .. }) {
            self.enter_if_none_lacks(out);
        }
    }
}

impl Message for CarvalhoRoucairolMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Reply => "reply",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(time) => vec![("time", (*time).into())],
            Reply => Fields::new(),
        }
    }

    fn times(&mut self, visit: &mut dyn FnMut(&mut Time)) {
        if let Request(time) = self {
            visit(time);
        }
    }
}

const ABOUT: About = About {
    name: "carvalho-roucairol",
    title: "Carvalho-Roucairol 1983",
    kind: Kind::Mutex,
    family: "permission",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: true,
    options: &[],
    costs: Costs {
        // Of any two, the one that entered last need not send the other a request: half get one on
        // average.
        light: Cost::mean("N-1").table("{} mean (0 to 2(N-1))"),
        // The last process to enter sends no request, any other one multicast.
        light_multicasts: Cost::mean("(N-1)/2 + (N-1)/N"),
        saturated: Cost::exact("2(N-1)"),
        saturated_multicasts: Cost::exact("N"),
        worst: Cost::bound("2(N-1)"),
        client_delay: Cost::mean("2(N-1)/N").table("{} T mean (0 or 2T)"),
        sync_delay: Cost::T,
        light_hints: &[
            "the mean over random requesters; the same process again costs 0, after all others \
             2(N-1)",
        ],
        ..Costs::NONE
    },
    order: "timestamp among those that request of each other",
    source: "Carvalho, Roucairol, CACM 26(2), 1983",
    idea: "A permission lasts until its giver requests it back. A process with every \
           permission enters again and again without a message, and otherwise sends requests only \
           to those that have taken theirs back since. Timestamps decide between two requesting \
           processes, as with Ricart and Agrawala.",
    rules: &[
        "To enter: stamp the request, send it to those whose permission is not here, wait for a \
         reply from each.",
        "On a request: defer it if in the critical section, or requesting with the lower (time, \
         id). Else reply: the permission is theirs.",
        "Replying while requesting, to one whose permission was here: send it the own request now.",
        "To leave: reply to all deferred; their permission is theirs again.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-permission",
            formula: "forall p, q: p != q -> not (q in p.A and p in q.A)",
            meaning: "of two processes at most one has the permission of both",
        },
        StatedInvariant {
            name: "all-permissions",
            formula: "forall p: p.phase = in_cs -> size(p.A) = processes() - 1",
            meaning: "a process in the critical section has the permissions of all others",
        },
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened: a process that holds \
         all permissions enters before an older request reaches it.",
        "While a request is under way, a process that holds all permissions can enter any number \
         of times, and so it can when a process must give a permission back and request it again.",
        "A process that is down stops all processes that need its permission.",
    ],
};
