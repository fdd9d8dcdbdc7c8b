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
//! Liberties: USING is the phase `Inside`. A bit per neighbour says who is in the queue, so that a
//! second request is recognised without a search, even in the middle of a large star.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Kind, Links, Message, Mutex, NodeId, NodeSet, Other,
    Outbox, Partners, Phase, Renaming, Shared, Stamp, Start, Structure, Tree, Value, Variant,
};

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
    queue: VecDeque<NodeId>,
    /// Which neighbours are in the queue, by their places among the neighbours, where it is too
    /// long to look through.
    queued: NodeSet,
}

/// A queue of so many is looked through; only the hub of a star has a longer one.
const SHORT: usize = 8;

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
            queue: VecDeque::new(),
            queued: NodeSet::new(),
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
        self.enqueue(self.me);
        self.assign_privilege(out);
        self.make_request(out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if let Err(why) = self.accept(from, &message) {
            return out.nonsense(from, why);
        }
        if message == Initialize {
            let others = self.tree.neighbours(self.me).filter(|&other| other != from);
            out.multicast(others, Initialize);
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
            ("queue", Value::list(self.queue.iter().copied())),
        ]
    }

    /// The tree, and where the token is at first, are all that tells one from another.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder() && start.tree().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.holder);
        renaming.all(&mut self.queue);
        self.mark_queued();
    }
}

impl Raymond {
    /// Takes note of a message, or says why it makes no sense.
    fn accept(&mut self, from: NodeId, message: &RaymondMessage) -> Result<(), &'static str> {
        // The token from where we have asked for it: HOLDER is a neighbour, and nobody needs to
        // look for it in a tree of perhaps a million.
        if *message == Token && self.holder == Some(from) && self.asked {
            self.holder = Some(self.me);
            return Ok(());
        }
        if self.tree.place(self.me, from).is_none() {
            return Err("a message from no neighbour");
        }
        match (message, self.holder) {
            (Initialize, None) => self.holder = Some(from),
            (Initialize, Some(_)) => return Err("an INITIALIZE for one who knows the holder"),
            (Request | Token, None) => return Err("a message before the INITIALIZE"),
            // The token was sent before this request and will be here in a moment; who has sent us
            // no token has nothing to ask us for.
            (Request, Some(holder)) if holder == from && !self.asked => {
                return Err("a request from where the token is");
            }
            (Request, Some(_)) => {
                if !self.enqueue(from) {
                    return Err("a second request before the first was answered");
                }
            }
            (Token, Some(holder)) if holder == self.me => return Err("a second token"),
            (Token, Some(_)) => return Err("a token nobody asked for"),
        }
        Ok(())
    }

    fn assign_privilege(&mut self, out: &mut Outbox<RaymondMessage>) {
        if self.holder != Some(self.me) || self.phase == Phase::Inside {
            return;
        }
        let Some(head) = self.dequeue() else { return };
        self.asked = false;
        if head == self.me {
            self.phase = Phase::Inside;
            out.enter();
        } else {
            self.holder = Some(head);
            out.send(head, Token);
        }
    }

    /// Puts us or a neighbour at the end of the queue, unless it stands there.
    fn enqueue(&mut self, node: NodeId) -> bool {
        let is_new = match self.place_in_long_queue(node) {
            Some(place) => self.queued.insert(place),
            None => !self.queue.contains(&node),
        };
        if is_new {
            self.queue.push_back(node);
            if self.queue.len() == SHORT + 1 {
                self.mark_queued();
            }
        }
        is_new
    }

    /// Marks anew who is in the queue, where it is long.
    fn mark_queued(&mut self) {
        self.queued.clear();
        if self.queue.len() > SHORT {
            let neighbours = self.queue.iter().filter(|&&other| other != self.me);
            let places = neighbours.filter_map(|&other| self.tree.place(self.me, other));
            self.queued = places.map(NodeId).collect();
        }
    }

    fn dequeue(&mut self) -> Option<NodeId> {
        let head = self.queue.pop_front()?;
        if self.queue.len() == SHORT {
            self.queued.clear();
        } else if let Some(place) = self.place_in_long_queue(head) {
            self.queued.remove(place);
        }
        Some(head)
    }

    /// The place of a neighbour among the neighbours, where `queued` is kept. We stand in the queue
    /// once at most, since we ask once at a time.
    fn place_in_long_queue(&self, node: NodeId) -> Option<NodeId> {
        if self.queue.len() <= SHORT || node == self.me {
            return None;
        }
        self.tree.place(self.me, node).map(NodeId)
    }

    fn make_request(&mut self, out: &mut Outbox<RaymondMessage>) {
        let Some(holder) = self.holder.filter(|&holder| holder != self.me) else { return };
        if !self.queue.is_empty() && !self.asked {
            self.asked = true;
            out.send(holder, Request);
        }
    }
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
