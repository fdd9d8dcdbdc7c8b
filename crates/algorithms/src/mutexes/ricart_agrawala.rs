//! G. Ricart and A. K. Agrawala, "An optimal algorithm for mutual exclusion in computer
//! networks", CACM 24(1), 1981.
//!
//! A process sends a request to all others and enters once all have replied. A process that is in
//! the critical section, or requesting with the older timestamp, defers its reply until it leaves.
//! 2(N-1) messages per entry. Links may reorder.
//!
//! Liberties: the reply counter is a set, so that a stray reply cannot be counted twice. The
//! paper's sequence numbers travel on requests only; here the clock travels on replies too, since
//! otherwise requests are not granted in the order in which they happened (`replies=plain` shows
//! that).

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId,
    NodeSet, Other, Outbox, Partners, Phase, SpecialRepair, Stamp, Start, StatedInvariant,
    Structure, Time, Value, Variant,
};

/// One process of Ricart and Agrawala's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RicartAgrawala {
    me: NodeId,
    processes: u32,
    replies_stamped: bool,
    state: State,
    /// The processes that have not yet answered our request: the paper's `Outstanding_Reply_Count`,
    /// as a set.
    missing: NodeSet,
    /// The processes whose request we answer when we leave: the paper's `Reply_Deferred`.
    deferred: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Idle,
    Requesting { ours: Stamp },
    InCs,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RicartAgrawalaMessage {
    /// A request with this time.
    Request(Time),
    /// As far as I am concerned, go ahead.
    Reply,
}

use RicartAgrawalaMessage::{Reply, Request};

impl Mutex for RicartAgrawala {
    type Message = RicartAgrawalaMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            processes: start.processes(),
            replies_stamped: start.setting("replies") == "stamped",
            state: if start.is_in_cs(me) { State::InCs } else { State::Idle },
            missing: NodeSet::new(),
            deferred: NodeSet::new(),
        }
    }

    /// The paper's process that invokes mutual exclusion, up to the critical section.
    fn request(&mut self, ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.missing.extend(self.others());
        out.multicast(self.others(), Request(ours.time));
        self.state = State::Requesting { ours };
        self.enter_if_all_agreed(out);
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

    /// The same process after the critical section: the deferred replies.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Idle;
        for waiting in self.deferred.iter() {
            out.send(waiting, Reply);
        }
        self.deferred.clear();
    }

    /// As published, only requests carry the clock. Then a reply orders two requests without moving
    /// the clock: a request can have a lower stamp than one that happened before it, and overtake
    /// it.
    fn carries_clock(&self, message: Option<&Self::Message>) -> bool {
        self.replies_stamped || matches!(message, Some(Request(_)))
    }
}

impl RicartAgrawala {
    /// The paper's process that receives REQUEST messages.
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<RicartAgrawalaMessage>) {
        if self.deferred.contains(theirs.node) {
            return out.nonsense(theirs.node, "a second request before the first was answered");
        }
        if self.goes_before(theirs) {
            self.deferred.insert(theirs.node);
        } else {
            out.send(theirs.node, Reply);
        }
    }

    /// The paper's process that receives REPLY messages.
    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<RicartAgrawalaMessage>) {
        if self.missing.remove(from) {
            self.enter_if_all_agreed(out);
        } else {
            out.nonsense(from, "an unrequested reply");
        }
    }

    /// The paper's `Defer_it`: whether our request comes before this one of another process.
    fn goes_before(&self, theirs: Stamp) -> bool {
        match self.state {
            State::Idle => false,
            State::Requesting { ours } => ours < theirs,
            State::InCs => true,
        }
    }

    fn enter_if_all_agreed(&mut self, out: &mut Outbox<RicartAgrawalaMessage>) {
        if self.missing.is_empty() {
            self.state = State::InCs;
            out.enter();
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.processes).map(NodeId).filter(move |&node| node != me)
    }
}

impl Inspect for RicartAgrawala {
    fn phase(&self) -> Phase {
        match self.state {
            State::Idle => Phase::Idle,
            State::Requesting { .. } => Phase::Requesting,
            State::InCs => Phase::InCs,
        }
    }

    fn would_enter_at_once(&self) -> bool {
        self.processes == 1 && self.state == State::Idle
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        self.state == State::Idle
    }

    fn waits_for(&self) -> Vec<NodeId> {
        self.missing.iter().collect()
    }

    fn variables(&self) -> Fields {
        let ours = match self.state {
            State::Requesting { ours } => Some(ours),
            State::Idle | State::InCs => None,
        };
        vec![
            ("request", ours.into()),
            ("missing", Value::from(&self.missing)),
            ("DR", Value::from(&self.deferred)),
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

    /// A crashed process gets no reply, and its own counts as given.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<RicartAgrawalaMessage>) {
        self.deferred.remove(crashed);
        if self.missing.remove(crashed) {
            self.enter_if_all_agreed(out);
        }
    }
}

impl Message for RicartAgrawalaMessage {
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

/// A deferred reply goes to each waiting process by itself, so it counts as often as it is sent.
pub(super) const COSTS: Costs = Costs {
    light: Cost::exact("2(N-1)"),
    light_multicasts: Cost::exact("N"),
    saturated: Cost::exact("2(N-1)"),
    saturated_multicasts: Cost::exact("N"),
    worst: Cost::bound("2(N-1)"),
    client_delay: Cost::exact("2").table("{}T"),
    sync_delay: Cost::T,
    light_hints: HINTS,
    saturated_hints: HINTS,
    ..Costs::NONE
};

const HINTS: &[&str] =
    &["2n-1 and a split that counts deferred replies twice are in print; each of the N-1 others \
     costs one request and one reply"];

const ABOUT: About = About {
    name: "ricart-agrawala",
    title: "Ricart-Agrawala 1981",
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
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: true,
    options: &[Choice {
        key: "replies",
        values: &[
            Variant { name: "stamped", meaning: "replies carry the clock too", drops: &[] },
            Variant {
                name: "plain",
                meaning: "only requests carry it, as published",
                drops: &[Claim::Ordering, Claim::Fencing],
            },
        ],
        other: Other::Nothing,
    }],
    costs: COSTS,
    order: "timestamp",
    source: "Ricart, Agrawala, CACM 24(1), 1981",
    idea: "Send a request to all, enter when all have agreed. A process in the critical section, \
           or requesting with the earlier timestamp, answers only when it leaves. So of any two \
           requesting processes exactly one waits for the other, and the lowest timestamp waits \
           for none.",
    rules: &[
        "To enter: stamp the request, send it to all others, wait for a reply from each.",
        "On a request: reply at once, unless in the critical section, or requesting with the lower \
         (time, id); then defer.",
        "To leave: reply to all deferred.",
    ],
    invariants: &[
        StatedInvariant {
            name: "all-replies",
            formula: "forall p: p.phase = in_cs -> size(p.missing) = 0",
            meaning: "a process in the critical section has the replies of all others",
        },
        StatedInvariant {
            name: "later-deferred",
            formula: "forall p, q: p.request != none and q.request != none and q in p.DR -> \
                     p.request < q.request",
            meaning: "a requesting process defers only requests that are later than its own",
        },
        StatedInvariant {
            name: "none-deferred",
            formula: "forall p: p.phase = idle -> size(p.DR) = 0",
            meaning: "an idle process defers no reply",
        },
    ],
    known_failures: &[
        "One process that is down stops all: its reply never comes.",
        "With replies=plain a request that happened before another can be granted after it, \
         and the fencing token of a later entry can be the lower one.",
    ],
};
