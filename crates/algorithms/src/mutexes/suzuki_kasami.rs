//! I. Suzuki and T. Kasami, "A distributed mutual exclusion algorithm", ACM TOCS 3(4), 1985.
//!
//! The process with the token may enter, again and again. A process without it sends a request to
//! all others, with a number that counts its requests. The token carries the number of the last
//! granted request of each process, LN, so that its holder knows which processes still wait, and a
//! queue Q of those. N messages per entry, or none for the process that has the token. Links may
//! reorder.
//!
//! Liberties: a token that does not fit our request is refused. Request numbers wrap around, so
//! that they never run out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId,
    NodeSet, Other, Outbox, Partners, Phase, Stamp, Start, StatedInvariant, Structure, Value,
    Variant,
    mutexes::{serial::is_newer, state::State},
};

/// One process of Suzuki and Kasami's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SuzukiKasami {
    me: NodeId,
    scan: Scan,
    /// The token is kept while no process waits that we know of, and Q is empty.
    state: State<Box<TokenState>>,
    /// The number of the latest request of each that we know of: the paper's `RN`.
    rn: Vec<u32>,
    /// The processes in Q, while we look through it; empty between events.
    queued: NodeSet,
}

/// In which order waiting processes that came to be known together are put in Q.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Scan {
    /// From the lowest id.
    First,
    /// From the one after us, round the ring of ids.
    Next,
}

/// The contents of the token.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TokenState {
    /// The number of the latest request of each that was granted: the paper's `LN`.
    ln: Vec<u32>,
    /// The processes that get the token next, in order: the paper's `Q`.
    queue: VecDeque<NodeId>,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum SuzukiKasamiMessage {
    /// I want the token, for my request of this number.
    Request(u32),
    /// The token is yours.
    Token(Box<TokenState>),
}

use SuzukiKasamiMessage::{Request, Token};

impl Mutex for SuzukiKasami {
    type Message = SuzukiKasamiMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let nothing = || vec![0; start.all().len()];
        let token = || Box::new(TokenState { ln: nothing(), queue: VecDeque::new() });
        Self {
            me,
            scan: if start.setting("scan") == "next" { Scan::Next } else { Scan::First },
            state: State::new(me, start, token),
            rn: nothing(),
            queued: NodeSet::new(),
        }
    }

    /// The first part of the paper's procedure P1.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.state.take_token() {
            Some(token) => {
                self.state = State::InCs(token);
                out.enter();
            }
            None => {
                self.state = State::Requesting;
                let ours = self.rn[self.me.index()].wrapping_add(1);
                self.rn[self.me.index()] = ours;
                out.multicast(self.others(), Request(ours));
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.index() >= self.rn.len() || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(number) => self.on_request(from, number, out),
            Token(token) => self.on_token(from, token, out),
        }
    }

    /// The last part of P1, after the critical section.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let Some(mut token) = self.state.take_token() else { return };
        token.ln[self.me.index()] = self.rn[self.me.index()];
        self.queue_all_waiting(&mut token);
        // The head leaves Q before the token is sent: its receiver does not wait any more.
        match token.queue.pop_front() {
            Some(next) => out.send(next, Token(token)),
            None => self.state = State::IdleWithToken(token),
        }
    }
}

impl SuzukiKasami {
    /// The paper's procedure P2.
    fn on_request(&mut self, from: NodeId, number: u32, out: &mut Outbox<SuzukiKasamiMessage>) {
        // A stale request: a later request of the same process overtook it, or the token that
        // granted it did. The paper takes the maximum of RN and the number. To answer it would send
        // the token to a process that does not wait, where it would rest unseen by those that do.
        if !is_newer(number, self.rn[from.index()]) {
            return;
        }
        // LN counts the requests that were granted: there can be one request more, not two.
        if let Some(token) = self.state.token()
            && is_newer(number, token.ln[from.index()].wrapping_add(1))
        {
            return out.nonsense(from, "a request before its last one was granted");
        }
        self.rn[from.index()] = number;
        if let State::IdleWithToken(token) = &self.state
            && self.waits(from, token)
            && let Some(token) = self.state.take_token()
        {
            out.send(from, Token(token));
        }
    }

    /// P1 goes on: PRIVILEGE has arrived.
    fn on_token(
        &mut self,
        from: NodeId,
        token: Box<TokenState>,
        out: &mut Outbox<SuzukiKasamiMessage>,
    ) {
        match self.state {
            State::Requesting => {
                if !self.is_ours(&token) {
                    return out.nonsense(from, "a token that does not fit our request");
                }
                self.state = State::InCs(token);
                out.enter();
            }
            State::Idle => out.nonsense(from, "an unrequested token"),
            State::IdleWithToken(_) | State::InCs(_) => out.nonsense(from, "a second token"),
        }
    }

    /// P1 after the critical section: appends every waiting process that is not in Q yet.
    fn queue_all_waiting(&mut self, token: &mut TokenState) {
        self.queued.extend(token.queue.iter().copied());
        let processes = self.rn.len();
        let first = match self.scan {
            Scan::First => 0,
            Scan::Next => self.me.index() + 1,
        };
        for index in first..first + processes {
            let node = NodeId::from(index % processes);
            if self.waits(node, token) && !self.queued.contains(node) {
                token.queue.push_back(node);
            }
        }
        self.queued.clear();
    }

    /// Whether the latest request that we know of this process is the next to be granted.
    fn waits(&self, node: NodeId, token: &TokenState) -> bool {
        self.rn[node.index()] == token.ln[node.index()].wrapping_add(1)
    }

    /// Whether this can be the token, given to us for the request that we have made.
    fn is_ours(&mut self, token: &TokenState) -> bool {
        let known = |node: &NodeId| node.index() < self.rn.len() && *node != self.me;
        let fits = token.ln.len() == self.rn.len()
            && self.waits(self.me, token)
            && token.queue.iter().all(known)
            && token.queue.iter().all(|&node| self.queued.insert(node));
        self.queued.clear();
        fits
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.rn.len()).map(NodeId::from).filter(move |&node| node != me)
    }
}

impl TokenState {
    fn fields(&self) -> Fields {
        vec![
            ("LN", Value::list(self.ln.iter().copied())),
            ("Q", Value::list(self.queue.iter().copied())),
        ]
    }
}

impl Inspect for SuzukiKasami {
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
        // Only its holder knows where the token is.
        Vec::new()
    }

    fn variables(&self) -> Fields {
        let mut fields = vec![("RN", Value::list(self.rn.iter().copied()))];
        fields.extend(self.state.token().into_iter().flat_map(|token| token.fields()));
        fields
    }

    /// Q has all that wait, and RN the first request of each.
    fn resume(
        &mut self,
        start: &Start,
        pending: &[Stamp],
        out: &mut Outbox<SuzukiKasamiMessage>,
    ) -> bool {
        let waiting = self.state.resume(self.me, start, pending, out);
        for &node in &waiting {
            self.rn[node.index()] = 1;
        }
        if let State::IdleWithToken(token) | State::InCs(token) = &mut self.state {
            token.queue = waiting.into();
        }
        true
    }
}

impl Message for SuzukiKasamiMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Token(_) => "token",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(number) => vec![("n", (*number).into())],
            Token(token) => token.fields(),
        }
    }
}

const ABOUT: About = About {
    name: "suzuki-kasami",
    title: "Suzuki-Kasami 1985",
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
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: &[Choice {
        key: "scan",
        values: &[
            Variant {
                name: "first",
                meaning: "waiting processes are put in the queue from the lowest id on",
                drops: &[],
            },
            Variant {
                name: "next",
                meaning: "from the id after the one that leaves, round to the one before it",
                drops: &[],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: Cost::mean("N-1").table("{} mean (N, or 0)"),
        light_multicasts: Cost::mean("2(N-1)/N"),
        saturated: Cost::exact("N"),
        saturated_multicasts: Cost::exact("2"),
        worst: Cost::bound("N"),
        client_delay: Cost::mean("2(N-1)/N").table("{} T mean (0 or 2T)"),
        sync_delay: Cost::T,
        light_hints: &[
            "N if the token is elsewhere, 0 if it is here: N-1 is the mean over all N requesters",
        ],
        ..Costs::NONE
    },
    order: "the token's queue",
    source: "Suzuki, Kasami, ACM TOCS 3(4), 1985",
    idea: "The holder of the one token may enter. Every process counts its requests and sends all \
           others the count, and the token counts how many of them have been granted to each; \
           where the two differ, a process waits. A process that leaves adds the waiting ones that \
           it knows of to the queue in the token and passes both to the first.",
    rules: &[
        "To enter: with the token, enter; else count the request, send its number to all others, \
         and wait for the token.",
        "On a request: remember its number in RN, unless a later one is there. If the token is \
         here, its client is idle, and RN is LN + 1: send the token.",
        "To leave: set our LN to our RN, append all that wait and are not in Q, and send the token \
         to the head of Q, or keep it.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.LN != none) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "known-requests",
            formula: "forall p, q: p.RN[q] <= q.RN[q]",
            meaning: "no process knows of a request before it is made",
        },
        StatedInvariant {
            name: "served-requests",
            formula: "forall p, q: p.LN != none -> p.LN[q] <= q.RN[q]",
            meaning: "no request is served before it is made",
        },
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened: it depends on which \
         request reaches the token first.",
        "The token is lost with the process that has it.",
        "The token's size grows with the number of processes.",
    ],
};
