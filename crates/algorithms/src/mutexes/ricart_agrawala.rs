//! G. Ricart and A. K. Agrawala, "An optimal algorithm for mutual exclusion in computer
//! networks", CACM 24(1), 1981.
//!
//! A process asks everyone and enters once everyone has agreed. One that is inside, or wants in
//! with the older timestamp, keeps its agreement back until it leaves. 2(N-1) messages per entry.
//! Links may reorder.
//!
//! Liberties: the reply counter is a set, so that a stray reply cannot be counted twice. The
//! paper's sequence numbers travel on requests only; here the clock travels on replies too, since
//! otherwise requests are not granted in the order in which they happened (`replies=plain` shows
//! that).

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, Stamp, Start, Structure, Time, Value, Variant,
};

/// One process of Ricart and Agrawala's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RicartAgrawala {
    me: NodeId,
    processes: u32,
    replies_stamped: bool,
    state: State,
    /// Who has not yet answered our request: the paper's `Outstanding_Reply_Count`, as a set.
    missing: NodeSet,
    /// Whose request we answer when we leave: the paper's `Reply_Deferred`, S2's DR.
    deferred: NodeSet,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum State {
    Outside,
    Requesting { ours: Stamp },
    Inside,
}

/// What the processes say.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RicartAgrawalaMessage {
    /// I want in, since this time.
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
            state: if start.is_inside(me) { State::Inside } else { State::Outside },
            missing: NodeSet::new(),
            deferred: NodeSet::new(),
        }
    }

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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = State::Outside;
        for waiting in self.deferred.iter() {
            out.send(waiting, Reply);
        }
        self.deferred.clear();
    }

    fn carries_clock(&self, message: Option<&Self::Message>) -> bool {
        self.replies_stamped || matches!(message, Some(Request(_)))
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Outside => Phase::Outside,
            State::Requesting { .. } => Phase::Requesting,
            State::Inside => Phase::Inside,
        }
    }

    fn token_here(&self) -> bool {
        self.processes == 1 && self.state == State::Outside
    }

    fn at_start(&self, _start: &Start) -> bool {
        self.state == State::Outside
    }

    fn waits_for(&self) -> Vec<NodeId> {
        self.missing.iter().collect()
    }

    fn variables(&self) -> Fields {
        let ours = match self.state {
            State::Requesting { ours } => Some(ours),
            State::Outside | State::Inside => None,
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
}

impl RicartAgrawala {
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

    fn on_reply(&mut self, from: NodeId, out: &mut Outbox<RicartAgrawalaMessage>) {
        if self.missing.remove(from) {
            self.enter_if_all_agreed(out);
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

    fn enter_if_all_agreed(&mut self, out: &mut Outbox<RicartAgrawalaMessage>) {
        if self.missing.is_empty() {
            self.state = State::Inside;
            out.enter();
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.processes).map(NodeId).filter(move |&node| node != me)
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

const ABOUT: About = About {
    name: "ricart-agrawala",
    title: "Ricart-Agrawala 1981",
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
                drops: &[Claim::Ordering, Claim::Fence],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: "2(N-1)",
        saturated: "2(N-1)",
        worst: "2(N-1)",
        client_delay: "2T",
        sync_delay: "T",
    },
    order: "timestamp",
    source: "Ricart, Agrawala, CACM 24(1), 1981",
    idea: "Ask everyone, enter when everyone has agreed. Whoever is inside, or wants in and asked \
           earlier, answers only when it leaves. So of any two that want in, exactly one waits for \
           the other, and the lowest timestamp waits for nobody.",
    rules: &[
        "To enter: stamp the request, send it to all others, wait for a reply from each.",
        "On a request: reply at once, unless inside, or requesting with the lower (time, id); then \
         defer.",
        "To leave: reply to all deferred.",
    ],
    known_failures: &[
        "One process that is down stops everyone: its reply never comes.",
        "With replies=plain a request that happened before another can be granted after it (EM3), \
         and the fence of a later entry can be the lower one.",
    ],
};
