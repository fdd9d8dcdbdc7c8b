//! K. Raymond, "A tree-based algorithm for distributed mutual exclusion", ACM TOCS 7(1), 1989.
//!
//! The token moves on the edges of a tree. Every process knows behind which neighbour it is, and
//! sends that neighbour one request on behalf of all that have sent it one. Twice the distance in
//! messages when idle, about 4 per entry when all are requesting. Links may reorder: a request that
//! overtakes the token on its edge is queued like any other.
//!
//! With `start=flood` only the first holder knows where the token is, and floods it to the others
//! by INITIALIZE; a process whose client requests before that arrives waits with its request.
//!
//! Liberties: USING is the phase `InCs`. Where the queue is long, in the middle of a large star, a
//! set beside it holds the processes in it, so that a second request is recognised without a
//! search.

mod queue;

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Other,
    Outbox, Partners, Phase, Renaming, Shared, Stamp, Start, StatedInvariant, Structure, Tree,
    Value, Variant,
};
use queue::{LocalIndex, Queue};

/// One process of Raymond's algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Raymond {
    me: NodeId,
    tree: Shared<Tree>,
    /// Whether HOLDER becomes known by a flood.
    flood: bool,
    /// `InCs` is the paper's USING.
    phase: Phase,
    /// We, or the neighbour behind which the token is: HOLDER. Unknown before INITIALIZE.
    holder: Option<NodeId>,
    /// Whether HOLDER has a request of ours that it has not answered: ASKED.
    asked: bool,
    /// The processes that wait for the token to come here, we or neighbours: `REQUEST_Q`.
    queue: Queue,
}

/// The messages between neighbours.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum RaymondMessage {
    /// The sender, or a process behind it, wants the token.
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
            phase: if start.is_in_cs(me) { Phase::InCs } else { Phase::Idle },
            holder: knows.then(|| tree.next_hop(me, start.holder())),
            asked: false,
            queue: Queue::default(),
            tree,
        }
    }

    /// The paper's initialization: the first holder floods INITIALIZE.
    fn begin(&mut self, out: &mut Outbox<Self::Message>) {
        if self.flood && self.holder == Some(self.me) {
            out.multicast(self.tree.neighbours(self.me), Initialize);
        }
    }

    /// The paper's first event: its own client requests. After each of the four events
    /// ASSIGN_PRIVILEGE comes before MAKE_REQUEST: when the token has just been sent to the head of
    /// the queue, a request for the rest of the queue must follow it.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        self.queue.push(self.me, LocalIndex::OURS);
        self.assign_privilege(out);
        self.make_request(out);
    }

    /// The second and the third event: REQUEST and PRIVILEGE arrive.
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

    /// The fourth event: the node leaves the critical section.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        self.assign_privilege(out);
        self.make_request(out);
    }
}

// The state after a message, or why the message makes no sense; the routines follow in `receive`.
impl Raymond {
    fn on_request(&mut self, from: NodeId) -> Result<(), &'static str> {
        let index = self.index_of(from)?;
        match self.holder {
            None => return Err(TOO_EARLY),
            // HOLDER has the token on its side and needs no request to us. If we have asked, it
            // sent the token before this request, which has overtaken it.
            Some(holder) if holder == from && !self.asked => {
                return Err("a request from where the token is");
            }
            Some(_) => {}
        }
        let is_new = self.queue.push(from, index);
        is_new.then_some(()).ok_or("a second request before the first was answered")
    }

    fn on_token(&mut self, from: NodeId) -> Result<(), &'static str> {
        // From where we have asked for it: HOLDER is a neighbour, and it need not be looked for in
        // a tree of perhaps a million.
        if self.holder == Some(from) && self.asked {
            self.holder = Some(self.me);
            return Ok(());
        }
        self.index_of(from)?;
        Err(match self.holder {
            None => TOO_EARLY,
            Some(holder) if holder == self.me => "a second token",
            Some(_) => "an unrequested token",
        })
    }

    fn on_initialize(
        &mut self,
        from: NodeId,
        out: &mut Outbox<RaymondMessage>,
    ) -> Result<(), &'static str> {
        self.index_of(from)?;
        if self.holder.is_some() {
            return Err("an INITIALIZE when HOLDER is known");
        }
        self.holder = Some(from);
        let others = self.tree.neighbours(self.me).filter(|&other| other != from);
        out.multicast(others, Initialize);
        Ok(())
    }

    fn index_of(&self, from: NodeId) -> Result<LocalIndex, &'static str> {
        local_index(&self.tree, self.me, from).ok_or("a message from no neighbour")
    }
}

const TOO_EARLY: &str = "a message before the INITIALIZE";

impl Raymond {
    /// The paper's ASSIGN_PRIVILEGE.
    fn assign_privilege(&mut self, out: &mut Outbox<RaymondMessage>) {
        if self.holder != Some(self.me) || self.phase == Phase::InCs {
            return;
        }
        let Some(head) = self.queue.pop() else { return };
        self.asked = false;
        if head == self.me {
            self.phase = Phase::InCs;
            out.enter();
        } else {
            self.holder = Some(head);
            out.send(head, Token);
        }
    }

    /// The paper's MAKE_REQUEST: one request to HOLDER stands for the whole queue, so that ASKED
    /// keeps the next ones back.
    fn make_request(&mut self, out: &mut Outbox<RaymondMessage>) {
        let Some(holder) = self.holder.filter(|&holder| holder != self.me) else { return };
        if !self.queue.is_empty() && !self.asked {
            self.asked = true;
            out.send(holder, Request);
        }
    }
}

/// The index of a neighbour in the queue of `me`; no other process has one there.
fn local_index(tree: &Tree, me: NodeId, neighbour: NodeId) -> Option<LocalIndex> {
    tree.neighbour_index(me, neighbour).map(LocalIndex::of_neighbour)
}

impl Inspect for Raymond {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.holder == Some(self.me) && self.phase == Phase::Idle
    }

    fn is_at_start(&self, start: &Start) -> bool {
        let at_rest = self.phase == Phase::Idle && self.queue.is_empty() && !self.asked;
        let home = self.tree.next_hop(self.me, start.holder());
        at_rest && self.holder.is_none_or(|holder| holder == home)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => self.holder.into_iter().collect(),
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("HOLDER", self.holder.into()),
            ("USING", (self.phase == Phase::InCs).into()),
            ("ASKED", self.asked.into()),
            ("queue", Value::list(self.queue.iter())),
        ]
    }

    /// The tree, and where the token is at first, are all that distinguishes the processes.
    fn is_symmetric(start: &Start, renaming: &Renaming) -> bool {
        renaming.of(start.holder()) == start.holder() && start.tree().is_kept_by(renaming)
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.me = renaming.of(self.me);
        renaming.all(&mut self.holder);
        let (tree, me) = (&self.tree, self.me);
        let index =
            |node| if node == me { Some(LocalIndex::OURS) } else { local_index(tree, me, node) };
        self.queue.rename(renaming, index);
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

const LIGHT: Cost = Cost::mean("2 x mean distance");

const ABOUT: About = About {
    name: "raymond",
    title: "Raymond 1989",
    kind: Kind::Mutex,
    family: "token",
    control: false,
    claims: &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing],
    links: Links::Any,
    structure: Structure::Tree,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[Choice {
        key: "start",
        values: &[
            Variant {
                name: "given",
                meaning: "every process knows at the start where the token is",
                drops: &[],
            },
            Variant {
                name: "flood",
                meaning: "the first holder informs the others by INITIALIZE",
                drops: &[],
            },
        ],
        other: Other::Nothing,
    }],
    costs: Costs {
        light: LIGHT,
        light_multicasts: LIGHT,
        saturated: Cost::exact("4(N-1)/N"),
        saturated_multicasts: Cost::exact("4(N-1)/N"),
        worst: Cost::bound("2D"),
        client_delay: LIGHT.table("messages x T"),
        sync_delay: Cost::exact("2(N-1)/N").table("{} T"),
        light_hints: &[
            "over all N requesters, the holder included; over distinct pairs it is N/(N-1) times \
             that, on a line 2(N+1)/3",
        ],
        saturated_hints: &[
            "the textbooks' T log(N)/2 is not the synchronization delay of a saturated system",
        ],
        ..Costs::NONE
    },
    order: "arrival, at each process of the tree",
    source: "Raymond, ACM TOCS 7(1), 1989",
    idea: "The processes are a tree, and each knows behind which neighbour the token is. A request \
           goes towards it step by step, and each process on the way sends only one, however many \
           it has received; the token comes back the same way and turns the edges round. The \
           busier the system, the more requests are answered by a token that passes anyway.",
    rules: &[
        "Every process keeps a queue of the processes that wait for the token from it: itself and \
         neighbours.",
        "assign_privilege: with the token here and unused, take the head of the queue: enter if it \
         is oneself, else send it the token; HOLDER is the head, ASKED is false.",
        "make_request: with the token elsewhere, the queue not empty and not ASKED, send a request \
         to HOLDER and be ASKED.",
        "On an own request, a REQUEST, the token or an exit: note it, then assign_privilege, then \
         make_request.",
    ],
    invariants: &[
        StatedInvariant {
            name: "one-token",
            formula: "count(p: p.HOLDER = p) + size(messages(token)) = 1",
            meaning: "there is exactly one token",
        },
        StatedInvariant {
            name: "holder-leads",
            formula: "forall q: q.HOLDER = q or size(messages(token, any, q)) = 1 -> forall p: \
                     reaches(p, HOLDER, q)",
            meaning: "HOLDER leads from every process to the token",
        },
        StatedInvariant {
            name: "queue-bound",
            formula: "forall p: size(p.queue) <= size(neighbours(p)) + 1",
            meaning: "a queue holds at most the neighbours and the process itself",
        },
        StatedInvariant {
            name: "asked",
            formula: "forall p: p.ASKED -> p.HOLDER != p and size(p.queue) > 0",
            meaning: "only a process without the token whose queue is not empty has asked for it",
        },
        StatedInvariant {
            name: "one-request",
            formula: "forall p, q: size(messages(request, p, q)) <= 1",
            meaning: "on an edge there is at most one request in a direction",
        },
    ],
    known_failures: &[
        "A process that is down cuts the tree in parts; the token is lost with its holder.",
        "Entries are in the order of queues, not of happens-before.",
    ],
};
