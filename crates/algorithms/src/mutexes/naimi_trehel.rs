//! M. Naimi, M. Trehel and A. Arnold, "A log(N) distributed mutual exclusion algorithm based on
//! path reversal", Journal of Parallel and Distributed Computing 34(1), 1996.
//!
//! Requests climb a tree of guesses, `father`, to the last one who asked, and every process on the
//! way points to the new requester. The waiting ones form a queue, each knowing only its `next`,
//! along which the token is passed. About log N messages per entry, and the state of a process
//! does not depend on N. Links may reorder.
//!
//! Liberties: `requesting` and `token present` are one enum.

use serde::{Deserialize, Serialize};

use crate::{
    About, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, Outbox, Partners, Phase,
    Renaming, Stamp, Start, Structure, mutexes::state::State,
};

/// One process of Naimi and Trehel's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NaimiTrehel {
    me: NodeId,
    processes: u32,
    state: State,
    /// Whom we take for the last one who asked; nobody when it is us: the paper's `father`.
    father: Option<NodeId>,
    /// Who gets the token after us: the paper's `next`.
    next: Option<NodeId>,
}

/// What the processes say.
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

    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        match self.father.take() {
            None => {
                self.state = State::Inside(());
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

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.state = match self.next.take() {
            Some(next) => {
                out.send(next, Token);
                State::Outside
            }
            None => State::Keeping(()),
        };
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

    /// Nobody but the first holder differs from the others.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder()
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.father);
        renaming.all(&mut self.next);
    }
}

impl NaimiTrehel {
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
            (None, State::Keeping(())) => {
                self.state = State::Outside;
                out.send(requester, Token);
            }
            (None, State::Requesting | State::Inside(())) => self.next = Some(requester),
            (None, State::Outside) => {
                unreachable!("who has no father is the last one who asked, or keeps the token")
            }
        }
        self.father = Some(requester);
    }

    fn on_token(&mut self, from: NodeId, out: &mut Outbox<NaimiTrehelMessage>) {
        match self.state {
            State::Requesting => {
                self.state = State::Inside(());
                out.enter();
            }
            State::Outside => out.nonsense(from, "a token nobody asked for"),
            State::Keeping(()) | State::Inside(()) => out.nonsense(from, "a second token"),
        }
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

const ABOUT: About = About {
    name: "naimi-trehel",
    title: "Naimi-Trehel 1996",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[],
    costs: Costs {
        light: "H(N-1)",
        saturated: "below 4",
        worst: "N",
        client_delay: "messages x T",
        sync_delay: "T",
    },
    order: "arrival at the last requester",
    source: "Naimi, Trehel, Arnold, JPDC 34(1), 1996",
    idea: "Everyone keeps a guess of who asked last. A request follows the guesses to the one that \
           really did, and everyone it passes now guesses the new requester, so busy processes are \
           found in a hop or two. The last one who asked hands the token to its next when it \
           leaves.",
    rules: &[
        "To enter: with the token, go in; else send a request to father and have none.",
        "On a request: with a father, pass it on; else be followed by the requester (next), or \
         give it the idle token. In any case the requester is the father now.",
        "On the token: go in. To leave: pass the token to next, or keep it.",
    ],
    known_failures: &["The token is lost with the process that has it."],
};
