//! M. L. Neilsen and M. Mizuno, "A DAG-based algorithm for distributed mutual exclusion", 11th
//! International Conference on Distributed Computing Systems, 1991.
//!
//! The edges of a tree always point towards the last requester. A request follows them and turns
//! each round; the process that it reaches in the end sends the token straight to the requester,
//! when it is done. The mean distance and one message per entry, below 3 when all are requesting,
//! and a process keeps three variables. Links may reorder: of an edge's two ends only one ever has
//! a request to send over it, and the token goes to a process that waits for nothing else.
//!
//! Liberties: HOLDING and the phase of the client are one enum.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox,
    Partners, Phase, Renaming, Shared, Stamp, Start, StatedInvariant, Structure, Tree,
    mutexes::state::{State, next_of},
};

/// One process of Neilsen and Mizuno's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NeilsenMizuno {
    me: NodeId,
    tree: Shared<Tree>,
    /// `IdleWithToken` is the paper's HOLDING.
    state: State,
    /// The neighbour on the way to the last requester; none when it is us: LAST.
    last: Option<NodeId>,
    /// The process that gets the token after us: NEXT.
    next: Option<NodeId>,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum NeilsenMizunoMessage {
    /// From neighbour to neighbour: this process wants the token.
    Request(NodeId),
    /// To the requester itself: the token is yours (the paper's PRIVILEGE).
    Token,
}

use NeilsenMizunoMessage::{Request, Token};

impl Mutex for NeilsenMizuno {
    type Message = NeilsenMizunoMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let tree = start.tree().clone();
        let holds = me == start.holder();
        Self {
            me,
            state: State::new(me, start, || ()),
            last: (!holds).then(|| tree.next_hop(me, start.holder())),
            next: None,
            tree,
        }
    }

    /// The paper's procedure P1, before the critical section.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.last.take() {
            None => {
                self.state = State::InCs(());
                out.enter();
            }
            Some(last) => {
                self.state = State::Requesting;
                out.send(last, Request(self.me));
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.0 >= self.tree.nodes() || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(requester) => self.on_request(from, requester, out),
            Token => self.on_token(from, out),
        }
    }

    /// P1 after the critical section: the token goes to NEXT, if there is one.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = match self.next.take() {
            Some(next) => {
                out.send(next, Token);
                State::Idle
            }
            None => State::IdleWithToken(()),
        };
    }
}

impl NeilsenMizuno {
    /// The paper's procedure P2: a sink keeps the requester as NEXT or sends it the idle token, any
    /// other process forwards the request along LAST; then LAST points back.
    fn on_request(
        &mut self,
        from: NodeId,
        requester: NodeId,
        out: &mut Outbox<NeilsenMizunoMessage>,
    ) {
        if !self.tree.are_adjacent(self.me, from) {
            return out.nonsense(from, "a request from no neighbour");
        }
        if requester.0 >= self.tree.nodes() || requester == self.me {
            return out.nonsense(from, "a request for no other member");
        }
        // An edge points one way: requests come over it from the other end.
        if self.last == Some(from) {
            return out.nonsense(from, "a request from where ours go");
        }
        match (self.last, self.state) {
            (Some(last), _) => out.send(last, Request(requester)),
            (None, State::IdleWithToken(())) => {
                self.state = State::Idle;
                out.send(requester, Token);
            }
            (None, State::Requesting | State::InCs(())) => self.next = Some(requester),
            (None, State::Idle) => {
                unreachable!("without LAST we are the last that requested, or keep the token")
            }
        }
        // The edge is reversed: the last request is now behind the neighbour that it came from.
        self.last = Some(from);
    }

    /// P1 goes on: PRIVILEGE has arrived.
    fn on_token(&mut self, from: NodeId, out: &mut Outbox<NeilsenMizunoMessage>) {
        match self.state {
            State::Requesting => {
                self.state = State::InCs(());
                out.enter();
            }
            State::Idle => out.nonsense(from, "an unrequested token"),
            State::IdleWithToken(()) | State::InCs(()) => out.nonsense(from, "a second token"),
        }
    }
}

impl Inspect for NeilsenMizuno {
    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn would_enter_at_once(&self) -> bool {
        self.state.is_idle_with_token()
    }

    fn is_at_start(&self, start: &Start) -> bool {
        self.state.is_at_start(self.me, start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        // The one in front of us in the queue is not known here: it knows us.
        Vec::new()
    }

    fn variables(&self) -> Fields {
        vec![
            ("HOLDING", self.state.is_idle_with_token().into()),
            ("LAST", self.last.into()),
            ("NEXT", self.next.into()),
        ]
    }

    /// The waiting ones are a queue behind the holder, and LAST leads to the last of them.
    fn resume(
        &mut self,
        start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<NeilsenMizunoMessage>,
    ) -> bool {
        let waiting = self.state.resume(self.me, start, pending, out);
        if let Some(&last) = waiting.last() {
            self.last = (last != self.me).then(|| self.tree.next_hop(self.me, last));
            self.next = next_of(self.me, start.holder(), &waiting);
        }
        true
    }

    /// The tree, and where the token is at first, are all that distinguishes the processes.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder() && start.tree().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.last);
        renaming.all(&mut self.next);
    }
}

impl Message for NeilsenMizunoMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Token => "token",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(requester) => vec![("for", (*requester).into())],
            Token => Fields::new(),
        }
    }

    fn rename(&mut self, renaming: &Renaming) {
        if let Request(requester) = self {
            *requester = renaming.of(*requester);
        }
    }
}

const LIGHT: Cost = Cost::mean("mean distance + (N-1)/N");

const ABOUT: About = About {
    name: "neilsen-mizuno",
    title: "Neilsen-Mizuno 1991",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Any,
    structure: Structure::Tree,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: LIGHT,
        light_multicasts: LIGHT,
        saturated: Cost::below("3"),
        saturated_multicasts: Cost::below("3"),
        worst: Cost::bound("D+1"),
        client_delay: LIGHT.table("messages x T"),
        sync_delay: Cost::T,
        light_hints: &["mean distance + 1 is over requesters other than the holder, which costs 0"],
        ..Costs::NONE
    },
    order: "arrival at the last requester",
    source: "Neilsen, Mizuno, ICDCS 1991",
    idea: "A tree whose edges point to the last requester. A request follows them, and every \
           process it passes turns its edge to where the request came from. The last requester \
           remembers the next one and sends the token there directly, not along the tree.",
    rules: &[
        "To enter: with the token, enter; else send a request to LAST and have none.",
        "On a request from X for Y: with a LAST, pass it on there; else set NEXT to Y, \
         or give Y the idle token. In any case LAST is X now.",
        "On the token: enter. To leave: pass the token to NEXT, or keep it.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.HOLDING or p.phase = in_cs) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "sinks",
            formula: "count(p: p.LAST = none) = size(messages(request)) + 1",
            meaning: "there is one sink more than requests in flight",
        },
        StatedInvariant {
            name: "tree",
            formula: "size(messages(request)) = 0 -> exists r: forall p: reaches(p, LAST, r)",
            meaning: "with no request in flight LAST leads from every process to one sink",
        },
    ],
    known_failures: &[
        "The token is lost with the process that has it.",
        "A process that is down cuts the tree in parts.",
        "Entries are in the order in which requests arrive, not of happens-before.",
    ],
};
