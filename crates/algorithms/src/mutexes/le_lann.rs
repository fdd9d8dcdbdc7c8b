//! G. Le Lann, "Distributed systems: towards a formal approach", IFIP Congress, 1977.
//!
//! One token goes round a ring and never rests. Who wants in keeps it for the time inside; who does
//! not passes it on at once. No request is ever sent: 1 message per entry when everyone wants in,
//! and messages without end when nobody does. The state of a process does not depend on N, and each
//! link carries one message at a time, so that order on links means nothing.
//!
//! Liberties: the first holder sends the token off when the system begins. A pass by somebody who
//! did not want the token is a lazy send, which a driver may slow down. Alone on the ring, a
//! process keeps the token.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, Outbox, Partners, Phase,
    Stamp, Start, Structure, mutexes::state::State,
};

/// One process of Le Lann's ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct LeLann {
    me: NodeId,
    /// Who passes the token to us.
    predecessor: NodeId,
    /// Whom we pass it to.
    successor: NodeId,
    /// The token is kept before the beginning, or alone.
    state: State,
}

/// What the processes say.
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

    fn begin(&mut self, out: &mut Outbox<Self::Message>) {
        if self.state.is_keeping() && !self.is_alone() {
            self.state = State::Outside;
            out.send_lazily(self.successor, Token);
        }
    }

    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.state {
            State::Keeping(()) => {
                self.state = State::Inside(());
                out.enter();
            }
            State::Outside | State::Requesting | State::Inside(()) => {
                self.state = State::Requesting;
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from != self.predecessor || self.is_alone() {
            return out.nonsense(from, "a message from one who is not before us on the ring");
        }
        let Token = message;
        match self.state {
            State::Outside => out.send_lazily(self.successor, Token),
            State::Requesting => {
                self.state = State::Inside(());
                out.enter();
            }
            State::Keeping(()) | State::Inside(()) => out.nonsense(from, "a second token"),
        }
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        if self.is_alone() {
            self.state = State::Keeping(());
        } else {
            // Even if we want in again at once, the others on the ring come first.
            self.state = State::Outside;
            out.send(self.successor, Token);
        }
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn token_here(&self) -> bool {
        self.state.is_keeping()
    }

    /// Once the token is on its way it never rests at the holder again, unless we are alone.
    fn at_start(&self, start: &Start) -> bool {
        self.state.is_as_at_start(self.me, start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.state {
            State::Requesting => vec![self.predecessor],
            State::Outside | State::Keeping(()) | State::Inside(()) => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![("successor", self.successor.into()), ("token", self.state.token().is_some().into())]
    }
}

impl LeLann {
    fn is_alone(&self) -> bool {
        self.successor == self.me
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
        Claim::Safety,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fence,
    ],
    links: Links::Any,
    structure: Structure::Ring,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: "unbounded",
        saturated: "1",
        worst: "unbounded",
        client_delay: "N/2 T mean",
        sync_delay: "T to (N-1)T",
    },
    order: "ring",
    source: "Le Lann, IFIP Congress, 1977",
    idea: "One token goes round the ring of processes, whether or not anybody wants it. Who wants \
           in waits until it comes by and keeps it for the time inside. Nobody asks for anything, \
           so nobody is ever told who waits, and each of the others can go in at most once before \
           it is our turn.",
    rules: &[
        "In the beginning: the holder passes the token to its successor, unless it is inside.",
        "To enter: wait for the token.",
        "On the token: go in if we wait for it, else pass it on at once.",
        "To leave: pass the token to the successor.",
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened (EM3): one who asked later \
         may be next on the ring.",
        "The token is lost with the process that has it, and a process that is gone breaks the \
         ring.",
        "With two tokens on the ring two can be inside (EM1).",
        "The token costs messages while nobody wants it.",
    ],
};
