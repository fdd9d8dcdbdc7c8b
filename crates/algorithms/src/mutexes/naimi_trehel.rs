//! M. Naimi, M. Trehel and A. Arnold, "A log(N) distributed mutual exclusion algorithm based on
//! path reversal", Journal of Parallel and Distributed Computing 34(1), 1996.
//!
//! Requests climb a tree of probable owners, `father`, to the last requester, and every process on
//! the way points to the new one. The waiting ones form a queue, each knowing only its `next`,
//! along which the token is passed. About log N messages per entry, and the state of a process
//! does not depend on N. Links may reorder.
//!
//! Liberties: `requesting` and `token present` are one enum.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox,
    Partners, Phase, Renaming, Stamp, Start, StatedInvariant, Structure,
    mutexes::state::{State, next_of},
};

/// One process of Naimi and Trehel's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NaimiTrehel {
    me: NodeId,
    processes: u32,
    state: State,
    /// The process that requested last, as far as we know; none when it is us: the paper's
    /// `father`.
    father: Option<NodeId>,
    /// The process that gets the token after us: the paper's `next`.
    next: Option<NodeId>,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum NaimiTrehelMessage {
    /// This process wants the token.
    Request(NodeId),
    /// The token is yours.
    Token,
}

use NaimiTrehelMessage::{Request, Token};

impl Mutex for NaimiTrehel {
    type Message = NaimiTrehelMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let holds = me == start.holder();
        Self {
            me,
            processes: start.processes(),
            state: State::new(me, start, || ()),
            father: (!holds).then_some(start.holder()),
            next: None,
        }
    }

    /// The paper's procedure Request_CS: the request goes to `father`, and we are the root.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.father.take() {
            None => {
                self.state = State::InCs(());
                out.enter();
            }
            Some(father) => {
                self.state = State::Requesting;
                out.send(father, Request(self.me));
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(requester) => self.on_request(from, requester, out),
            Token => self.on_token(from, out),
        }
    }

    /// The paper's procedure Release_CS: the token goes to `next`, if there is one.
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

impl NaimiTrehel {
    /// The paper's rule for Req(k): the root keeps k as `next` or sends it the idle token, any
    /// other process forwards it; then k is `father`.
    fn on_request(
        &mut self,
        from: NodeId,
        requester: NodeId,
        out: &mut Outbox<NaimiTrehelMessage>,
    ) {
        if requester.0 >= self.processes || requester == self.me {
            return out.nonsense(from, "a request for no other member");
        }
        match (self.father, self.state) {
            (Some(father), _) => out.send(father, Request(requester)),
            (None, State::IdleWithToken(())) => {
                self.state = State::Idle;
                out.send(requester, Token);
            }
            (None, State::Requesting | State::InCs(())) => self.next = Some(requester),
            (None, State::Idle) => {
                unreachable!("without a father we are the last that requested, or keep the token")
            }
        }
        // Path reversal: the requester is the last that requested, for every process on the way.
        self.father = Some(requester);
    }

    /// The paper's rule for the token.
    fn on_token(&mut self, from: NodeId, out: &mut Outbox<NaimiTrehelMessage>) {
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

impl Inspect for NaimiTrehel {
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
            ("father", self.father.into()),
            ("next", self.next.into()),
            ("token", self.state.token().is_some().into()),
        ]
    }

    /// The waiting ones are a queue behind the holder, and `father` of all is the last of them.
    fn resume(
        &mut self,
        start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<NaimiTrehelMessage>,
    ) -> bool {
        let waiting = self.state.resume(self.me, start, pending, out);
        if let Some(&last) = waiting.last() {
            self.father = (last != self.me).then_some(last);
            self.next = next_of(self.me, start.holder(), &waiting);
        }
        true
    }

    /// Only the first holder differs from the others.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder()
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.father);
        renaming.all(&mut self.next);
    }
}

impl Message for NaimiTrehelMessage {
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

const LIGHT: Cost = Cost::mean("H(N-1)");

const ABOUT: About = About {
    name: "naimi-trehel",
    title: "Naimi-Trehel 1996",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: LIGHT,
        light_multicasts: LIGHT,
        saturated: Cost::below("4"),
        saturated_multicasts: Cost::below("4"),
        worst: Cost::bound("N"),
        client_delay: LIGHT.table("messages x T"),
        sync_delay: Cost::T,
        light_hints: &[
            "H(N-1) counts requests and token together, over all N requesters, the holder costing \
             0",
        ],
        ..Costs::NONE
    },
    order: "arrival at the last requester",
    source: "Naimi, Trehel, Arnold, JPDC 34(1), 1996",
    idea: "Every process keeps a guess of the last requester. A request follows the guesses to the \
           one that really did, and every process it passes now guesses the new requester, so busy \
           processes are found in a hop or two. The last requester hands the token to its next \
           when it leaves.",
    rules: &[
        "To enter: with the token, enter; else send a request to father and clear father.",
        "On a request: with a father, pass it on; else set next to the requester, or \
         give it the idle token. In any case the requester is the father now.",
        "On the token: enter. To leave: pass the token to next, or keep it.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.token) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "roots",
            formula: "count(p: p.father = none) = size(messages(request)) + 1",
            meaning: "there is one root more than requests in flight",
        },
        StatedInvariant {
            name: "tree",
            formula: "size(messages(request)) = 0 -> exists r: forall p: reaches(p, father, r)",
            meaning: "with no request in flight the fathers lead from every process to one root",
        },
    ],
    known_failures: &["The token is lost with the process that has it."],
};
