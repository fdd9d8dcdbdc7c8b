//! G. Le Lann, "Distributed systems: towards a formal approach", IFIP Congress, 1977.
//!
//! One token goes round a ring and never rests. A requesting process keeps it for its critical
//! section; an idle one passes it on at once. No request is ever sent: 1 message per entry when all
//! processes are requesting, and messages without end when none is. The state of a process does not
//! depend on N, and each link carries one message at a time, so that links may reorder.
//!
//! Liberties: the first holder sends the token off when the system begins. A pass by a process that
//! is not requesting is a lazy send, which a driver may slow down. Alone on the ring, a process
//! keeps the token.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox,
    Partners, Phase, SpecialRepair, Stamp, Start, StatedInvariant, Structure,
    mutexes::state::State,
};

/// One process of Le Lann's ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LeLann {
    me: NodeId,
    /// The process before us on the ring, which passes us the token.
    predecessor: NodeId,
    /// The next process on the ring, to which we pass the token.
    successor: NodeId,
    /// The token is kept before the beginning, or alone.
    state: State,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum LeLannMessage {
    /// The token is yours.
    Token,
}

use LeLannMessage::Token;

impl Mutex for LeLann {
    type Message = LeLannMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        Self {
            me,
            predecessor: start.predecessor(me),
            successor: start.successor(me),
            state: State::new(me, start, || ()),
        }
    }

    /// The control token sets off.
    fn begin(&mut self, out: &mut Outbox<Self::Message>) {
        if self.state.is_idle_with_token() && !self.is_alone() {
            self.state = State::Idle;
            out.send_lazily(self.successor, Token);
        }
    }

    /// A request sends nothing: the control token comes by.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.state {
            State::IdleWithToken(()) => {
                self.state = State::InCs(());
                out.enter();
            }
            State::Idle | State::Requesting | State::InCs(()) => {
                self.state = State::Requesting;
            }
        }
    }

    /// The control token arrives: it is kept for the critical section, or passed on.
    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from != self.predecessor || self.is_alone() {
            return out
                .nonsense(from, "a message from a process that is not before us on the ring");
        }
        let Token = message;
        match self.state {
            State::Idle => out.send_lazily(self.successor, Token),
            State::Requesting => {
                self.state = State::InCs(());
                out.enter();
            }
            State::IdleWithToken(()) | State::InCs(()) => out.nonsense(from, "a second token"),
        }
    }

    /// After the critical section the control token is passed on.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        if self.is_alone() {
            self.state = State::IdleWithToken(());
        } else {
            // Even if our client requests again at once, the others on the ring come first.
            self.state = State::Idle;
            out.send(self.successor, Token);
        }
    }
}

impl LeLann {
    fn is_alone(&self) -> bool {
        self.successor == self.me
    }
}

impl Inspect for LeLann {
    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn would_enter_at_once(&self) -> bool {
        self.state.is_idle_with_token()
    }

    /// Once the token is on its way it never rests at the holder again, unless we are alone.
    fn is_at_start(&self, start: &Start) -> bool {
        self.state.is_at_start(self.me, start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.state {
            State::Requesting => vec![self.predecessor],
            State::Idle | State::IdleWithToken(()) | State::InCs(()) => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![("successor", self.successor.into()), ("token", self.state.token().is_some().into())]
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::CloseRing { acknowledged: true }
    }

    fn close_ring(&mut self, me: NodeId, start: &Start) {
        self.me = me;
        self.predecessor = start.predecessor(me);
        self.successor = start.successor(me);
    }

    fn pass_again(&self) -> Option<LeLannMessage> {
        Some(Token)
    }
}

impl Message for LeLannMessage {
    fn kind(&self) -> &'static str {
        let Token = self;
        "token"
    }
}

const ABOUT: About = About {
    name: "le-lann",
    title: "Le Lann 1977",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[
        Claim::MutualExclusion,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fencing,
    ],
    links: Links::Any,
    structure: Structure::Ring,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: Cost::words("unbounded"),
        saturated: Cost::exact("1"),
        saturated_multicasts: Cost::exact("1"),
        worst: Cost::words("unbounded"),
        client_delay: Cost::mean("N/2").table("{} T mean"),
        sync_delay: Cost::exact("1").table("T to (N-1)T"),
        light_hints: &["the ring never rests: its messages per entry grow with the gap between \
                        requests, so no figure compares with them"],
        ..Costs::NONE
    },
    order: "ring",
    source: "Le Lann, IFIP Congress, 1977",
    idea: "One token goes round the ring of processes, whether or not it is requested. A requester \
           waits until it comes by and keeps it for its critical section. No process sends a \
           request, so none knows which others wait, and each of the others can enter at most once \
           before it is our turn.",
    rules: &[
        "In the beginning: the holder passes the token to its successor, unless it is in the \
         critical section.",
        "To enter: wait for the token.",
        "On the token: enter if requesting, else pass it on at once.",
        "To leave: pass the token to the successor.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.token) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "by-token",
            formula: "forall p: p.phase = in_cs -> p.token",
            meaning: "only the process with the token is in the critical section",
        },
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened: a later requester \
         may be next on the ring.",
        "The token is lost with the process that has it, and a crashed process breaks the \
         ring.",
        "With two tokens on the ring two processes can be in the critical section.",
        "The token costs messages while no process wants it.",
    ],
};
