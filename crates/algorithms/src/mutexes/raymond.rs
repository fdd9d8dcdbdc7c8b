//! K. Raymond, "A tree-based algorithm for distributed mutual exclusion", ACM TOCS 7(1), 1989.
//!
//! The token moves on the edges of a tree. Every process knows behind which neighbour it is, and
//! asks that neighbour once on behalf of everybody who has asked it. Twice the distance in messages
//! when idle, about 4 per entry when everyone wants in. Links may reorder: a request that overtakes
//! the token on its edge is queued like any other.
//!
//! With `start=flood` only the first holder knows where the token is, and tells the others by
//! INITIALIZE; a process that asks before it has heard waits with its request.
//!
//! Liberties: USING is the phase `Inside`. Where the queue is long, in the middle of a large star,
//! a set beside it tells who stands in it, so that a second request is recognised without a search.

mod queue;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, Other, Outbox,
    Partners, Phase, Renaming, Shared, Stamp, Start, Structure, Tree, Value, Variant,
};
use queue::{Queue, Seat};

/// One process of Raymond's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Raymond {
    me: NodeId,
    tree: Shared<Tree>,
    /// Whether HOLDER is told by a flood.
    flood: bool,
    /// `Inside` is the paper's USING.
    phase: Phase,
    /// We, or the neighbour behind which the token is: HOLDER. Unknown before INITIALIZE.
    holder: Option<NodeId>,
    /// Whether HOLDER has a request of ours that it has not answered: ASKED.
    asked: bool,
    /// Who waits for the token to come here, we or neighbours: `REQUEST_Q`.
    queue: Queue,
}

/// What neighbours say to each other.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RaymondMessage {
    /// I, or somebody behind me, want the token.
    Request,
    /// The token is yours (the paper's PRIVILEGE).
    Token,
    /// The token is on my side.
    Initialize,
}

use RaymondMessage::{Initialize, Request, Token};

impl Mutex for Raymond {
    type Message = RaymondMessage;

    const ABOUT: &'static About = &ABOUT;

    fn new(me: NodeId, start: &Start) -> Self {
        let tree = start.tree().clone();
        let flood = start.setting("start") == "flood";
        let knows = me == start.holder() || !flood;
        Self {
            me,
            flood,
            phase: if start.is_inside(me) { Phase::Inside } else { Phase::Outside },
            holder: knows.then(|| tree.next_hop(me, start.holder())),
            asked: false,
            queue: Queue::default(),
            tree,
        }
    }

    fn begin(&mut self, out: &mut Outbox<Self::Message>) {
        if self.flood && self.holder == Some(self.me) {
            out.multicast(self.tree.neighbours(self.me), Initialize);
        }
    }

    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        self.queue.push(self.me, Seat::OURS);
        self.assign_privilege(out);
        self.make_request(out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let accepted = match message {
            Request => self.on_request(from),
            Token => self.on_token(from),
            Initialize => self.on_initialize(from, out),
        };
        if let Err(why) = accepted {
            return out.nonsense(from, why);
        }
        self.assign_privilege(out);
        self.make_request(out);
    }

    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Outside;
        self.assign_privilege(out);
        self.make_request(out);
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn token_here(&self) -> bool {
        self.holder == Some(self.me) && self.phase == Phase::Outside
    }

    fn at_start(&self, start: &Start) -> bool {
        let unasked = self.phase == Phase::Outside && self.queue.is_empty() && !self.asked;
        let home = self.tree.next_hop(self.me, start.holder());
        unasked && self.holder.is_none_or(|holder| holder == home)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => self.holder.into_iter().collect(),
            Phase::Outside | Phase::Inside => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("HOLDER", self.holder.into()),
            ("USING", (self.phase == Phase::Inside).into()),
            ("ASKED", self.asked.into()),
            ("queue", Value::list(self.queue.iter())),
        ]
    }

    /// The tree, and where the token is at first, are all that tells one from another.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder() && start.tree().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.holder);
        let (tree, me) = (&self.tree, self.me);
        let seat = |node| if node == me { Some(Seat::OURS) } else { seat(tree, me, node) };
        self.queue.rename(renaming, seat);
    }
}

// What is taken note of when a message arrives, or why it makes no sense.
impl Raymond {
    fn on_request(&mut self, from: NodeId) -> Result<(), &'static str> {
        let seat = self.seat_of(from)?;
        match self.holder {
            None => return Err(TOO_EARLY),
            // Who has sent us no token has nothing to ask us for. If we have asked, the token was
            // sent before this request and will be here in a moment.
            Some(holder) if holder == from && !self.asked => {
                return Err("a request from where the token is");
            }
            Some(_) => {}
        }
        let is_new = self.queue.push(from, seat);
        is_new.then_some(()).ok_or("a second request before the first was answered")
    }

    fn on_token(&mut self, from: NodeId) -> Result<(), &'static str> {
        // From where we have asked for it: HOLDER is a neighbour, and nobody needs to look for it
        // in a tree of perhaps a million.
        if self.holder == Some(from) && self.asked {
            self.holder = Some(self.me);
            return Ok(());
        }
        self.seat_of(from)?;
        Err(match self.holder {
            None => TOO_EARLY,
            Some(holder) if holder == self.me => "a second token",
            Some(_) => "a token nobody asked for",
        })
    }

    fn on_initialize(
        &mut self,
        from: NodeId,
        out: &mut Outbox<RaymondMessage>,
    ) -> Result<(), &'static str> {
        self.seat_of(from)?;
        if self.holder.is_some() {
            return Err("an INITIALIZE for one who knows the holder");
        }
        self.holder = Some(from);
        let others = self.tree.neighbours(self.me).filter(|&other| other != from);
        out.multicast(others, Initialize);
        Ok(())
    }

    fn seat_of(&self, from: NodeId) -> Result<Seat, &'static str> {
        seat(&self.tree, self.me, from).ok_or("a message from no neighbour")
    }
}

const TOO_EARLY: &str = "a message before the INITIALIZE";

impl Raymond {
    fn assign_privilege(&mut self, out: &mut Outbox<RaymondMessage>) {
        if self.holder != Some(self.me) || self.phase == Phase::Inside {
            return;
        }
        let Some(head) = self.queue.pop() else { return };
        self.asked = false;
        if head == self.me {
            self.phase = Phase::Inside;
            out.enter();
        } else {
            self.holder = Some(head);
            out.send(head, Token);
        }
    }

    fn make_request(&mut self, out: &mut Outbox<RaymondMessage>) {
        let Some(holder) = self.holder.filter(|&holder| holder != self.me) else { return };
        if !self.queue.is_empty() && !self.asked {
            self.asked = true;
            out.send(holder, Request);
        }
    }
}

/// The seat of a neighbour in the queue of `me`; nobody else has one there.
fn seat(tree: &Tree, me: NodeId, neighbour: NodeId) -> Option<Seat> {
    tree.place(me, neighbour).map(Seat::of_neighbour)
}

impl Message for RaymondMessage {
    fn kind(&self) -> &'static str {
        match self {
            Request => "request",
            Token => "token",
            Initialize => "initialize",
        }
    }
}

const ABOUT: About = About {
    name: "raymond",
    title: "Raymond 1989",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[Claim::Safety, Claim::DeadlockFree, Claim::Liveness, Claim::Fence],
    links: Links::Any,
    structure: Structure::Tree,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[Choice {
        key: "start",
        values: &[
            Variant {
                name: "given",
                meaning: "everyone knows at the start where the token is",
                drops: &[],
            },
            Variant {
                name: "flood",
                meaning: "the first holder tells the others by INITIALIZE",
                drops: &[],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: "2 x mean distance",
        saturated: "4(N-1)/N",
        worst: "2D",
        client_delay: "messages x T",
        sync_delay: "2(N-1)/N T",
    },
    order: "arrival, at each process of the tree",
    source: "Raymond, ACM TOCS 7(1), 1989",
    idea: "The processes are a tree, and each knows behind which neighbour the token is. A request \
           goes towards it step by step, and each process on the way asks only once, however many \
           have asked it; the token comes back the same way and turns the edges round. The busier \
           the system, the more requests are answered by a token that passes anyway.",
    rules: &[
        "Every process keeps a queue of those who want the token from it: itself and neighbours.",
        "assign_privilege: with the token here and unused, take the head of the queue: enter if it \
         is oneself, else send it the token; HOLDER is the head, ASKED is false.",
        "make_request: with the token elsewhere, the queue not empty and not ASKED, send a request \
         to HOLDER and be ASKED.",
        "On a wish, a request, the token or an exit: note it, then assign_privilege, then \
         make_request.",
    ],
    known_failures: &[
        "A process that is down cuts the tree in parts; the token is lost with who has it.",
        "Entries are in the order of queues, not of happens-before.",
    ],
};
