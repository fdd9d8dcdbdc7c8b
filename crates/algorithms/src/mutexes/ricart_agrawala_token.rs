//! G. Ricart and A. K. Agrawala, author's response to "On mutual exclusion in computer networks"
//! by Carvalho and Roucairol, CACM 26(2), 1983.
//!
//! As with Suzuki and Kasami, requests go to all with a number and the token tells which numbers
//! have been granted; but it carries no queue. Who leaves looks round the ring of ids, beginning
//! after itself, and passes the token to the first that waits. N messages per entry, or none for
//! the one who has the token. Links may reorder.
//!
//! Liberties: a token that does not fit our request is refused. The request numbers are counters of
//! their own, not clock readings; they wrap around, so that they never run out.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, Outbox, Partners, Phase,
    Stamp, Start, Structure, Value,
    mutexes::{serial::is_newer, state::State},
};

/// One process of Ricart and Agrawala's token algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RicartAgrawalaToken {
    me: NodeId,
    /// The token is kept while nobody waits that we know of.
    state: State<Granted>,
    /// The number of the latest request of each that we know of: the paper's `requests`, S0's R.
    requests: Vec<u32>,
}

/// The number of the latest request of each that was granted: the paper's `token`, T.
type Granted = Vec<u32>;

/// What the processes say.
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

    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.state.take_token() {
            Some(granted) => {
                self.state = State::Inside(granted);
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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        let Some(mut granted) = self.state.take_token() else { return };
        granted[self.me.index()] = self.requests[self.me.index()];
        self.test(granted, out);
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn token_here(&self) -> bool {
        self.state.is_keeping()
    }

    fn at_start(&self, start: &Start) -> bool {
        self.state.is_as_at_start(self.me, start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        // Where the token is, only the one who has it knows.
        Vec::new()
    }

    fn variables(&self) -> Fields {
        let mut fields = vec![("R", Value::list(self.requests.iter().copied()))];
        let token = self.state.token();
        fields.extend(token.map(|granted| ("T", Value::list(granted.iter().copied()))));
        fields
    }
}

impl RicartAgrawalaToken {
    fn on_request(
        &mut self,
        from: NodeId,
        number: u32,
        out: &mut Outbox<RicartAgrawalaTokenMessage>,
    ) {
        // An older number is a request that was overtaken, perhaps by the token that granted it.
        if !is_newer(number, self.requests[from.index()]) {
            return;
        }
        // Who has the token knows what was granted: there can be one request more, not two.
        if let Some(granted) = self.state.token()
            && is_newer(number, granted[from.index()].wrapping_add(1))
        {
            return out.nonsense(from, "a request before its last one was granted");
        }
        self.requests[from.index()] = number;
        // Inside, the test is made on leaving.
        if self.token_here()
            && let Some(granted) = self.state.take_token()
        {
            self.test(granted, out);
        }
    }

    fn on_token(
        &mut self,
        from: NodeId,
        granted: Granted,
        out: &mut Outbox<RicartAgrawalaTokenMessage>,
    ) {
        match self.state {
            State::Requesting if self.is_ours(&granted) => {
                self.state = State::Inside(granted);
                out.enter();
            }
            State::Requesting => out.nonsense(from, "a token that does not fit our request"),
            State::Outside => out.nonsense(from, "a token nobody asked for"),
            State::Keeping(_) | State::Inside(_) => out.nonsense(from, "a second token"),
        }
    }

    /// S0's TEST: passes the token to the first after us that waits, or keeps it.
    fn test(&mut self, granted: Granted, out: &mut Outbox<RicartAgrawalaTokenMessage>) {
        let waits = |node: &NodeId| is_newer(self.requests[node.index()], granted[node.index()]);
        match self.after_us().find(waits) {
            Some(next) => out.send(next, Token(granted)),
            None => self.state = State::Keeping(granted),
        }
    }

    /// Whether this can be the token, given to us for the request that we have made.
    fn is_ours(&self, granted: &Granted) -> bool {
        granted.len() == self.requests.len()
            && granted[self.me.index()].wrapping_add(1) == self.requests[self.me.index()]
    }

    /// Everybody else, from the one after us round the ring of ids to the one before us.
    fn after_us(&self) -> impl Iterator<Item = NodeId> + use<> {
        let (me, processes) = (self.me.index(), self.requests.len());
        (me + 1..processes).chain(0..me).map(NodeId::from)
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
        Claim::Safety,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fence,
    ],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: "N-1 mean (N, or 0)",
        saturated: "N",
        worst: "N",
        client_delay: "0 or 2T",
        sync_delay: "T",
    },
    order: "cyclic by id",
    source: "Ricart, Agrawala, CACM 26(2), 1983",
    idea: "The one token lets its holder in. Requests are numbered and go to all; the token knows \
           the number of the last request that was granted to each. Who leaves looks round the \
           ring of ids, beginning after itself, for somebody whose request is newer than that, and \
           passes the token to the first, so that each of the others goes in at most once before \
           us.",
    rules: &[
        "To enter: with the token, go in; else number the request, send it to all others, and wait \
         for the token.",
        "On a request: remember its number in R, unless a later one is there. If the token is here \
         and nobody is inside: test.",
        "To leave: set our T to the number of our request, and test.",
        "Test: send the token to the first k of i+1, i+2, ..., i-1 whose R[k] is newer than T[k]; \
         if there is none, keep it.",
    ],
    known_failures: &[
        "Requests are not granted in the order in which they happened (EM3), but round the ring.",
        "The token is lost with the process that has it.",
        "The token is as long as there are processes.",
    ],
};
