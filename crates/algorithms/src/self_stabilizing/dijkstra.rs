//! E. W. Dijkstra, "Self-stabilizing systems in spite of distributed control", CACM 17(11), 1974:
//! the solution with K-state machines.
//!
//! Processes stand in a ring, each with a flag of K values, and see their left neighbour's. The
//! first is privileged when the two are equal, and then counts on; any other when they differ, and
//! then copies. A privileged process may be in the critical section. From all flags equal there is
//! one privilege, which goes round; from any other start there comes to be one, if K is large
//! enough.
//!
//! This is the form by messages: each process keeps a copy of its left neighbour's flag. The rule
//! is [`privileged`] and [`moved`]; [`Ring`](super::Ring) applies it to flags that are read
//! directly, as the paper does.
//!
//! Liberties of this form: a process sends its flag when it leaves, and whenever a message has come
//! on which it does not enter, changed or not. So in a legitimate run there is one message, and
//! each one carries a change; in any other run the same messages are the resending without which a
//! wrong copy could leave no process privileged for ever. It costs nothing and needs no timer; but
//! in the beginning one process must have a message to answer: the holder.

use serde::{Deserialize, Serialize};

use super::{Daemon, moved, privileged};
use crate::{
    About, Choice, Claim, Cost, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, Other,
    Outbox, Partners, Phase, SpecialRepair, Stamp, Start, StartError, Structure, Variant,
};

/// One process of Dijkstra's ring, by messages.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Dijkstra {
    me: NodeId,
    processes: u32,
    k: u32,
    phase: Phase,
    /// Our own flag: the paper's S.
    flag: u32,
    /// The left neighbour's flag as of its last message.
    copy: u32,
    /// Whether a message has come that we have not answered yet.
    owing: bool,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum DijkstraMessage {
    /// My flag, to the right neighbour.
    Flag(u32),
}

use DijkstraMessage::Flag;

impl Mutex for Dijkstra {
    type Message = DijkstraMessage;

    const ABOUT: &'static About = &ABOUT;

    fn check(start: &Start) -> Result<(), StartError> {
        match flag_values(start) {
            k @ 0..2 => Err(StartError::new(format!("a flag of {k} values; k is at least 2"))),
            2.. => Ok(()),
        }
    }

    fn new(me: NodeId, start: &Start) -> Self {
        // One step in the flags, just before the holder; none if that is the first.
        let flag = |node: NodeId| u32::from(node < start.holder());
        let left = left_of(me, start.processes());
        let owing = me == start.holder();
        let phase = if start.is_in_cs(me) { Phase::InCs } else { Phase::Idle };
        Self { phase, ..Self::anywhere(me, start, flag(me), flag(left), owing) }
    }

    fn begin(&mut self, out: &mut Outbox<Self::Message>) {
        if self.phase == Phase::Idle && self.owing && !self.is_alone() {
            self.owing = false;
            self.pass_on(out);
        }
    }

    /// A privileged process may enter; its move is made when it leaves.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Requesting;
        self.enter_if_privileged(out);
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        let Flag(flag) = message;
        if self.is_alone() || from != left_of(self.me, self.processes) {
            return out.nonsense(from, "a flag from no left neighbour");
        }
        if flag >= self.k {
            return out.nonsense(from, "a flag that is not below K");
        }
        if self.owing {
            // From a legitimate start there is one message. From others this makes them fewer; what
            // it carried, the next one carries again.
            return out.nonsense(from, "a second message while one is held");
        }
        self.copy = flag;
        self.enter_if_privileged(out);
        match self.phase {
            Phase::InCs => self.owing = true,
            Phase::Idle | Phase::Requesting => self.pass_on(out),
        }
    }

    /// The move of the paper, and the flag to the right neighbour if it waits for an answer.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.phase = Phase::Idle;
        self.move_if_privileged();
        if self.is_alone() {
            self.copy = self.flag;
        } else if std::mem::take(&mut self.owing) {
            out.send(self.right(), Flag(self.flag));
        }
    }
}

impl Dijkstra {
    /// An idle process in any state, legitimate or not. To come to a legitimate one, the ring needs
    /// a message: on some link, or at a process that owes one.
    ///
    /// # Panics
    ///
    /// If a flag is not below K.
    pub fn anywhere(me: NodeId, start: &Start, flag: u32, copy: u32, owing: bool) -> Self {
        let k = flag_values(start);
        assert!(flag < k && copy < k, "flags are below {k}, not {flag} and {copy}");
        let processes = start.processes();
        Self { me, processes, k, phase: Phase::Idle, flag, copy, owing }
    }

    /// Whether it is privileged, by the flags that it sees.
    pub fn is_privileged(&self) -> bool {
        privileged(self.is_first(), self.copy, self.flag)
    }

    fn enter_if_privileged(&mut self, out: &mut Outbox<DijkstraMessage>) {
        if self.phase == Phase::Requesting && self.is_privileged() {
            self.phase = Phase::InCs;
            out.enter();
        }
    }

    /// Answers a message on which the client does not enter.
    fn pass_on(&mut self, out: &mut Outbox<DijkstraMessage>) {
        self.move_if_privileged();
        out.send_lazily(self.right(), Flag(self.flag));
    }

    fn move_if_privileged(&mut self) {
        if self.is_privileged() {
            self.flag = moved(self.is_first(), self.copy, self.flag, self.k);
        }
    }

    fn is_first(&self) -> bool {
        self.me == NodeId(0)
    }

    /// Alone, a process is its own neighbour and sends nothing.
    fn is_alone(&self) -> bool {
        self.processes == 1
    }

    fn right(&self) -> NodeId {
        NodeId((self.me.0 + 1) % self.processes)
    }
}

fn left_of(node: NodeId, processes: u32) -> NodeId {
    NodeId(node.0.checked_sub(1).unwrap_or(processes - 1))
}

/// How many values a flag has, K. By default: one more than the paper's n, or, by messages, than
/// there are flags, copies and links with a message each.
pub(super) fn flag_values(start: &Start) -> u32 {
    let cells = if Daemon::of(&ABOUT, start.settings()).is_some() { 1 } else { 3 };
    start.setting("k").parse().unwrap_or(cells * start.processes() + 1)
}

impl Inspect for Dijkstra {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn would_enter_at_once(&self) -> bool {
        self.phase == Phase::Idle && self.is_privileged()
    }

    fn is_at_start(&self, start: &Start) -> bool {
        *self == Self::new(self.me, start)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.phase {
            Phase::Requesting => vec![left_of(self.me, self.processes)],
            Phase::Idle | Phase::InCs => Vec::new(),
        }
    }

    fn variables(&self) -> Fields {
        vec![
            ("flag", self.flag.into()),
            ("left", self.copy.into()),
            ("privileged", self.is_privileged().into()),
        ]
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::CloseRing { acknowledged: false }
    }

    /// The crashed process leaves the ring. If it was the first, the next one is the first now, and
    /// the rules lead from any flags to one privilege. K stays: it is large enough for fewer.
    fn close_ring(&mut self, me: NodeId, start: &Start) {
        let was_first = self.is_first();
        self.me = me;
        self.processes = start.processes();
        if self.is_first() && !was_first && !self.owing {
            // The copy is that of the old left neighbour, and equal to our flag: it would make us
            // privileged before the message has come round.
            self.copy = (self.flag + self.k - 1) % self.k;
        }
    }

    fn pass_again(&self) -> Option<DijkstraMessage> {
        Some(Flag(self.flag))
    }
}

impl Message for DijkstraMessage {
    fn kind(&self) -> &'static str {
        "flag"
    }

    fn fields(&self) -> Fields {
        let Flag(flag) = self;
        vec![("flag", (*flag).into())]
    }
}

const ABOUT: About = About {
    name: "dijkstra",
    title: "Dijkstra 1974, K-state ring",
    kind: Kind::Mutex,
    family: "state variables",
    control: false,
    claims: &[
        Claim::MutualExclusion,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::BoundedBypass,
        Claim::Fencing,
        Claim::Convergence,
    ],
    links: Links::Any,
    structure: Structure::Ring,
    partners: Partners::Few,
    uses_stamps: false,
    options: &[
        Choice {
            key: "k",
            values: &[Variant {
                name: "auto",
                meaning: "as many values of a flag as always suffice: 3N+1 by messages, else N+1",
                drops: &[],
            }],
            other: Other::Number,
        },
        Choice {
            key: Daemon::OPTION,
            values: &[
                Variant {
                    name: "messages",
                    meaning: "flags travel to the right neighbour, which keeps a copy",
                    drops: &[],
                },
                Variant {
                    name: Daemon::Central.name(),
                    meaning: "simulate and check: flags are read directly, one moves at a time",
                    drops: &[],
                },
                Variant {
                    name: Daemon::Distributed.name(),
                    meaning: "simulate and check: read directly, any number move at once",
                    drops: &[],
                },
                Variant {
                    name: Daemon::Synchronous.name(),
                    meaning: "simulate and check: read directly, all privileged move at once",
                    drops: &[],
                },
            ],
            other: Other::Nothing,
        },
    ],
    costs: Costs {
        light: Cost::only_printed("N", "unbounded ({} per idle lap)"),
        saturated: Cost::exact("1"),
        saturated_multicasts: Cost::exact("1"),
        worst: Cost::words("unbounded"),
        client_delay: Cost::mean("N/2").table("mean {} T"),
        sync_delay: Cost::T,
        light_hints: &["the ring never rests: its messages per entry grow with the gap between \
                        requests, so no figure compares with them"],
        ..Costs::NONE
    },
    order: "ring order",
    source: "Dijkstra, CACM 17(11), 1974",
    idea: "Every process in the ring has a flag and looks at its left neighbour's. The first may \
           enter when the two are equal and then counts its own on; the others when they differ, \
           and then copy it. The difference goes round like a token, but it is not an object that \
           could be lost: whatever the flags were, with enough values they come to have just one \
           privileged process.",
    rules: &[
        "P0 is privileged when flag[0] = flag[n-1], and then adds 1 mod k.",
        "P_i is privileged when flag[i] is not flag[i-1], and then copies it.",
        "A privileged process may be in the critical section; it moves when it leaves, or at once \
         if it is not requesting.",
        "By messages: answer every message with the own flag to the right neighbour, after the \
         move or without one.",
    ],
    invariants: &[],
    known_failures: &[
        "Read directly: with k <= n-2, or with k <= n-1 when several move at once, it need not \
         settle. (k > n, as in some lecture texts, is enough, but more than is needed.)",
        "By messages copies and messages are cells of the ring too: k >= 2n-1, and more with \
         several messages under way.",
        "While it settles, several can be in the critical section. From a legitimate start any k \
         will do.",
        "If no message is left at all, nothing moves.",
    ],
};

#[cfg(test)]
mod tests;
