//! O. S. F. Carvalho and G. Roucairol, "On mutual exclusion in computer networks", CACM 26(2),
//! 1983.
//!
//! As in Ricart and Agrawala's algorithm, a process enters with everyone's permission; but a
//! permission once given lasts until its giver asks for it back. So for any two processes there is
//! one permission, which one of them holds or which is on its way, and only those are asked whose
//! permission is not here. 0 to 2(N-1) messages per entry, none for the same process again. Links
//! may reorder.
//!
//! Liberties: in the beginning the permission between two is with the holder, if it is one of
//! them, else with the lower id.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Outbox, Partners,
    Phase, Stamp, Start, Structure, Time, Value,
};

/// One process of Carvalho and Roucairol's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CarvalhoRoucairol {
    me: NodeId,
    processes: u32,
    state: State,
    /// Whose permission is not here: those with a false entry in the paper's array `A`.
    lacking: NodeSet,
    /// Whose request we answer when we leave.
    deferred: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Outside,
    /// Everyone in `lacking` has been asked.
    Requesting {
        ours: Stamp,
    },
    /// Nobody is lacking.
    Inside,
}

/// What the processes say.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum CarvalhoRoucairolMessage {
    /// I want in, since this time, and lack your permission.
    Request(Time),
    /// You have my permission until I ask for it.
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
            state: if start.is_inside(me) { State::Inside } else { State::Outside },
            lacking: start.others(me).filter(is_theirs).collect(),
            deferred: NodeSet::new(),
        }
    }

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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Outside;
        for waiting in self.deferred.iter() {
            self.lacking.insert(waiting);
            out.send(waiting, Reply);
        }
        self.deferred.clear();
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Outside => Phase::Outside,
            State::Requesting { .. } => Phase::Requesting,
            State::Inside => Phase::Inside,
        }
    }

    fn token_here(&self) -> bool {
        self.state == State::Outside && self.lacking.is_empty()
    }

    /// The permissions between other pairs may lie as they will: all are made anew together.
    fn at_start(&self, start: &Start) -> bool {
        self.state == State::Outside && (self.me != start.holder() || self.lacking.is_empty())
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.state {
            State::Requesting { .. } => self.lacking.iter().collect(),
            State::Outside | State::Inside => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        let ours = match self.state {
            State::Requesting { ours } => Some(ours),
            State::Outside | State::Inside => None,
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
}

impl CarvalhoRoucairol {
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        let from = theirs.node;
        if self.deferred.contains(from) {
            return out.nonsense(from, "a second request before the first was answered");
        }
        if self.goes_before(theirs) {
            // Their permission need not be here: the request may have overtaken it, since one that
            // has just answered us can only ask with a later timestamp.
            self.deferred.insert(from);
        } else if self.lacking.insert(from) {
            out.send(from, Reply);
            // We held their permission and so have not asked for it. Now we must.
            if let State::Requesting { ours } = self.state {
                out.send(from, Request(ours.time));
            }
        } else {
            out.nonsense(from, "a request by one who holds our permission");
        }
    }

    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        if matches!(self.state, State::Requesting { .. }) && self.lacking.remove(from) {
            self.enter_if_none_lacks(out);
        } else {
            out.nonsense(from, "a reply nobody asked for");
        }
    }

    /// Whether we come first against a request of somebody else.
    fn goes_before(&self, theirs: Stamp) -> bool {
        match self.state {
            State::Outside => false,
            State::Requesting { ours } => ours < theirs,
            State::Inside => true,
        }
    }

    fn enter_if_none_lacks(&mut self, out: &mut Outbox<CarvalhoRoucairolMessage>) {
        if self.lacking.is_empty() {
            self.state = State::Inside;
            out.enter();
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
    claims: &[Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: true,
    options: &[],
    costs: Costs {
        light: "0 to 2(N-1)",
        saturated: "2(N-1)",
        worst: "2(N-1)",
        client_delay: "0 or 2T",
        sync_delay: "T",
    },
    order: "timestamp among those that ask each other",
    source: "Carvalho, Roucairol, CACM 26(2), 1983",
    idea: "A permission lasts until its giver asks for it back. Who has everyone's permission goes \
           in again and again without a message, and asks otherwise only those who have taken \
           theirs back since. Timestamps decide between two that want in, as with Ricart and \
           Agrawala.",
    rules: &[
        "To enter: stamp the request, send it to those whose permission is not here, wait for a \
         reply from each.",
        "On a request: defer it if inside, or requesting with the lower (time, id). Else reply: \
         the permission is theirs.",
        "Replying while requesting, to one whose permission was here: send it the own request now.",
        "To leave: reply to all deferred; their permission is theirs again.",
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened (EM3): who holds all \
         permissions goes in before it hears of an older request.",
        "While a request is under way, one who holds all permissions can go in any number of \
         times, and so it can when a process must give a permission back and ask for it again.",
        "One process that is down stops everyone whom it owes a permission.",
    ],
};
