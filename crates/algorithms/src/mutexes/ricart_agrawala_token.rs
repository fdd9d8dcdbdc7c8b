//! G. Ricart and A. K. Agrawala, author's response to "On mutual exclusion in computer networks"
//! by Carvalho and Roucairol, CACM 26(2), 1983.
//!
//! As with Suzuki and Kasami, requests go to all with a number and the token carries the numbers
//! that have been granted; but it carries no queue. A process that leaves looks round the ring of
//! ids, beginning after itself, and passes the token to the first that waits. N messages per entry,
//! or none for the process that has the token. Links may reorder.
//!
//! Liberties: a token that does not fit our request is refused. The request numbers are counters of
//! their own, not clock readings; they wrap around, so that they never run out.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Outbox,
    Partners, Phase, Stamp, Start, StatedInvariant, Structure, Value,
    mutexes::{serial::is_newer, state::State},
};

/// One process of Ricart and Agrawala's token algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RicartAgrawalaToken {
    me: NodeId,
    /// The token is kept while no process waits that we know of.
    state: State<Granted>,
    /// The number of the latest request of each that we know of: the paper's `requests`.
    requests: Vec<u32>,
}

/// The number of the latest request of each that was granted: the paper's `token`, T.
type Granted = Vec<u32>;

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RicartAgrawalaTokenMessage {
    /// I want the token, for my request of this number.
    Request(u32),
    /// The token is yours; these requests were granted.
    Token(Vec<u32>),
}

use RicartAgrawalaTokenMessage::{Request, Token};

impl Mutex for RicartAgrawalaToken {
    type Message = RicartAgrawalaTokenMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let nothing = vec![0; start.all().len()];
        Self { me, state: State::new(me, start, || nothing.clone()), requests: nothing }
    }

    /// The program of the response, before the critical section.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.state.take_token() {
            Some(granted) => {
                self.state = State::InCs(granted);
                out.enter();
            }
            None => {
                self.state = State::Requesting;
                let ours = self.requests[self.me.index()].wrapping_add(1);
                self.requests[self.me.index()] = ours;
                out.multicast(self.after_us(), Request(ours));
            }
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.index() >= self.requests.len() || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            Request(number) => self.on_request(from, number, out),
            Token(granted) => self.on_token(from, granted, out),
        }
    }

    /// The program after the critical section: `token(me)` is set, and the next process is looked
    /// for.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let Some(mut granted) = self.state.take_token() else { return };
        granted[self.me.index()] = self.requests[self.me.index()];
        self.test(granted, out);
    }
}

impl RicartAgrawalaToken {
    /// The program's part for a request that arrives.
    fn on_request(
        &mut self,
        from: NodeId,
        number: u32,
        out: &mut Outbox<RicartAgrawalaTokenMessage>,
    ) {
        // A stale request: a later one of the same process, or the token that granted it, overtook
        // it. To answer it would send the token to a process that does not wait.
        if !is_newer(number, self.requests[from.index()]) {
            return;
        }
        // The token counts the requests that were granted: there can be one request more, not two.
        if let Some(granted) = self.state.token()
            && is_newer(number, granted[from.index()].wrapping_add(1))
        {
            return out.nonsense(from, "a request before its last one was granted");
        }
        self.requests[from.index()] = number;
        // In the critical section, the test is made on leaving.
        if self.state.is_idle_with_token()
            && let Some(granted) = self.state.take_token()
        {
            self.test(granted, out);
        }
    }

    /// The wait for the token ends.
    fn on_token(
        &mut self,
        from: NodeId,
        granted: Granted,
        out: &mut Outbox<RicartAgrawalaTokenMessage>,
    ) {
        match self.state {
            State::Requesting if self.is_ours(&granted) => {
                self.state = State::InCs(granted);
                out.enter();
            }
            State::Requesting => out.nonsense(from, "a token that does not fit our request"),
            State::Idle => out.nonsense(from, "an unrequested token"),
            State::IdleWithToken(_) | State::InCs(_) => out.nonsense(from, "a second token"),
        }
    }

    /// The program's search `for j := i + 1, ..., n, 1, ..., i - 1`: passes the token to the first
    /// after us that waits, or keeps it.
    fn test(&mut self, granted: Granted, out: &mut Outbox<RicartAgrawalaTokenMessage>) {
        let waits = |node: &NodeId| is_newer(self.requests[node.index()], granted[node.index()]);
        match self.after_us().find(waits) {
            Some(next) => out.send(next, Token(granted)),
            None => self.state = State::IdleWithToken(granted),
        }
    }

    /// Whether this can be the token, given to us for the request that we have made.
    fn is_ours(&self, granted: &Granted) -> bool {
        granted.len() == self.requests.len()
            && granted[self.me.index()].wrapping_add(1) == self.requests[self.me.index()]
    }

    /// All other processes, from the one after us round the ring of ids to the one before us.
    fn after_us(&self) -> impl Iterator<Item = NodeId> + use<> {
        let (me, processes) = (self.me.index(), self.requests.len());
        (me + 1..processes).chain(0..me).map(NodeId::from)
    }
}

impl Inspect for RicartAgrawalaToken {
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
        let mut fields = vec![("R", Value::list(self.requests.iter().copied()))];
        let token = self.state.token();
        fields.extend(token.map(|granted| ("T", Value::list(granted.iter().copied()))));
        fields
    }
}

impl Message for RicartAgrawalaTokenMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request(_) => "request",
            Token(_) => "token",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            Request(number) => vec![("n", (*number).into())],
            Token(granted) => vec![("T", Value::list(granted.iter().copied()))],
        }
    }
}

const ABOUT: About = About {
    name: "ricart-agrawala-token",
    title: "Ricart-Agrawala 1983",
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
    options: &[],
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
    order: "cyclic by id",
    source: "Ricart, Agrawala, CACM 26(2), 1983",
    idea: "The holder of the one token may enter. Requests are numbered and go to all; the token \
           knows the number of the last request that was granted to each. A process that leaves \
           looks round the ring of ids, beginning after itself, for a process whose request is \
           newer than that, and passes the token to the first, so that each of the others enters \
           at most once before us.",
    rules: &[
        "To enter: with the token, enter; else number the request, send it to all others, and wait \
         for the token.",
        "On a request: remember its number in R, unless a later one is there. If the token is here \
         and no process is in the critical section: test.",
        "To leave: set our T to the number of our request, and test.",
        "Test: send the token to the first k of i+1, i+2, ..., i-1 whose R[k] is newer than T[k]; \
         if there is none, keep it.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.T != none) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "by-token",
            formula: "forall p: p.phase = in_cs -> p.T != none",
            meaning: "only the process with the token is in the critical section",
        },
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened, but round the ring.",
        "The token is lost with the process that has it.",
        "The token's size grows with the number of processes.",
    ],
};
