//! L. Lamport, "A new solution of Dijkstra's concurrent programming problem", CACM 17(8), 1974.
//!
//! A process draws a number greater than all it sees and waits for those with smaller ones. Numbers
//! are state variables: written by their owner, read by all. Since taking the maximum is not
//! atomic, a process also waits for those that are just choosing; without that (`bakery-naive`) it
//! is unsafe.
//!
//! A state variable lives at its owner. With `registers=pull` a reader asks for it: 2(N-1)
//! messages for the maximum and 4(N-1) for the waits, and more while it waits. With
//! `registers=push` the owner sends every change to all and goes on when all have acknowledged it;
//! without that, two could each enter before the other's number arrived. Links may reorder.
//!
//! Liberties: pushed, the new number and the end of choosing are one change.

use serde::{Deserialize, Serialize};

use crate::{
    About, Choice, Claim, Costs, Fields, Inspect, Kind, Links, Message, Mutex, NodeId, NodeSet,
    Other, Outbox, Partners, Phase, SpecialRepair, Stamp, Start, StatedInvariant, Structure, Value,
    Variant,
};

/// One process of the Bakery.
pub type Bakery = BakeryWith<true>;

/// One process of the Bakery, with or without the variable `choosing`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct BakeryWith<const CHOICE: bool> {
    me: NodeId,
    processes: u32,
    step: Step,
    /// The processes that have not yet answered what this step sent to all.
    missing: NodeSet,
    own: Registers,
    /// How often we have pushed a change.
    version: u32,
    /// The others' variables as last pushed to us; nothing is kept when they are pulled.
    copies: Option<Vec<Seen>>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
struct Registers {
    choosing: bool,
    number: u64,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Seen {
    version: u32,
    registers: Registers,
}

/// Where we are in the paper's program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Step {
    Idle,
    /// `choosing := true` is on its way to all.
    Announcing,
    /// Reading all numbers.
    TakingMaximum {
        maximum: u64,
    },
    /// `number := ..., choosing := false` is on its way to all.
    Numbering,
    /// L2: until `choosing[of]` is false.
    AwaitingChoice {
        of: NodeId,
    },
    /// L3: until `number[of]` is 0 or comes after ours.
    AwaitingNumber {
        of: NodeId,
    },
    InCs,
}

/// The messages between processes.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum BakeryMessage {
    /// What is your number?
    ReadNumber,
    /// My number.
    Number(u64),
    /// Are you choosing?
    ReadChoosing,
    /// Whether I am choosing.
    Choosing(bool),
    /// My variables have changed.
    Write {
        /// How often they have.
        version: u32,
        /// `choosing` now.
        choosing: bool,
        /// `number` now.
        number: u64,
    },
    /// I have seen that change.
    Written(u32),
}

/// No process counts as far as this, but a damaged message can; there must be numbers after it.
const HIGHEST: u64 = 1 << 62;

use BakeryMessage::{Choosing, Number, ReadChoosing, ReadNumber, Write, Written};

impl<const CHOICE: bool> Mutex for BakeryWith<CHOICE> {
    type Message = BakeryMessage;

    const ABOUT: &'static About = if CHOICE { &ABOUT } else { &NAIVE };

    fn new(me: NodeId, start: &Start) -> Self {
        let registers =
            |node| Registers { choosing: false, number: u64::from(start.in_cs() == Some(node)) };
        let copy = |node| Seen { version: 0, registers: registers(node) };
        Self {
            me,
            processes: start.processes(),
            step: if start.is_in_cs(me) { Step::InCs } else { Step::Idle },
            missing: NodeSet::new(),
            own: registers(me),
            version: 0,
            copies: (start.setting("registers") == "push").then(|| start.all().map(copy).collect()),
        }
    }

    /// L1: `choosing[i] := 1`.
    fn request(&mut self, _ours: Stamp, out: &mut Outbox<Self::Message>) {
        self.own.choosing = CHOICE;
        if CHOICE && self.copies.is_some() {
            self.step = Step::Announcing;
            self.push(out);
            self.missing.extend(self.others());
            self.choose_if_announced(out);
        } else {
            self.take_maximum(out);
        }
    }

    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>) {
        if from.0 >= self.processes || from == self.me {
            return out.nonsense(from, "a message from no other member");
        }
        match message {
            ReadNumber => out.send(from, Number(self.own.number)),
            ReadChoosing => out.send(from, Choosing(self.own.choosing)),
            Number(number) => self.on_number(from, number, out),
            Choosing(choosing) => self.on_choosing(from, choosing, out),
            Write { version, choosing, number } => {
                self.on_write(from, version, Registers { choosing, number }, out);
            }
            Written(version) => self.on_written(from, version, out),
        }
    }

    /// After the critical section: `number[i] := 0`.
    fn release(&mut self, out: &mut Outbox<Self::Message>) {
        self.own.number = 0;
        self.step = Step::Idle;
        self.push(out);
    }
}

impl<const CHOICE: bool> BakeryWith<CHOICE> {
    /// L1: `1 + maximum(number[1], ..., number[N])`, which is read one by one.
    fn take_maximum(&mut self, out: &mut Outbox<BakeryMessage>) {
        let mut maximum = 0;
        match &self.copies {
            None => {
                self.missing.extend(self.others());
                out.multicast(self.others(), ReadNumber);
            }
            Some(copies) => {
                let numbers = copies.iter().map(|copy| copy.registers.number);
                maximum = numbers.max().unwrap_or(0);
            }
        }
        self.step = Step::TakingMaximum { maximum };
        self.number_if_all_read(out);
    }

    /// L1: `number[i] := ..., choosing[i] := 0`.
    fn number_if_all_read(&mut self, out: &mut Outbox<BakeryMessage>) {
        let Step::TakingMaximum { maximum } = self.step else { return };
        if !self.missing.is_empty() {
            return;
        }
        self.own = Registers { choosing: false, number: maximum + 1 };
        if self.copies.is_some() {
            self.step = Step::Numbering;
            self.push(out);
            self.missing.extend(self.others());
            self.wait_if_numbered(out);
        } else {
            self.wait_for_choice(NodeId(0), out);
        }
    }

    /// L1, pushed: the maximum is taken only when all have acknowledged `choosing[i] = 1`.
    fn choose_if_announced(&mut self, out: &mut Outbox<BakeryMessage>) {
        if self.step == Step::Announcing && self.missing.is_empty() {
            self.take_maximum(out);
        }
    }

    /// L1, pushed: the waits begin only when all have acknowledged our number.
    fn wait_if_numbered(&mut self, out: &mut Outbox<BakeryMessage>) {
        if self.step == Step::Numbering && self.missing.is_empty() {
            self.wait_for_choice(NodeId(0), out);
        }
    }

    /// L2 for `of`, the next one to wait for; past the last, we enter.
    fn wait_for_choice(&mut self, of: NodeId, out: &mut Outbox<BakeryMessage>) {
        if of == self.me {
            return self.wait_for_choice(NodeId(of.0 + 1), out);
        }
        if of.0 >= self.processes {
            self.step = Step::InCs;
            return out.enter();
        }
        if !CHOICE {
            return self.wait_for_number(of, out);
        }
        self.step = Step::AwaitingChoice { of };
        match &self.copies {
            None => out.send(of, ReadChoosing),
            Some(copies) => {
                if !copies[of.index()].registers.choosing {
                    self.wait_for_number(of, out);
                }
            }
        }
    }

    /// L3 for `of`.
    fn wait_for_number(&mut self, of: NodeId, out: &mut Outbox<BakeryMessage>) {
        self.step = Step::AwaitingNumber { of };
        match &self.copies {
            None => out.send(of, ReadNumber),
            Some(copies) => {
                if self.goes_before(copies[of.index()].registers.number, of) {
                    self.wait_for_choice(NodeId(of.0 + 1), out);
                }
            }
        }
    }

    /// L3: `number[j] = 0`, or `(number[i], i) < (number[j], j)`.
    fn goes_before(&self, number: u64, of: NodeId) -> bool {
        number == 0 || (self.own.number, self.me) < (number, of)
    }

    // Registers that are pulled.

    /// A read of `number[from]` has ended: for the maximum of L1, or for L3, which reads again
    /// until we go before it.
    fn on_number(&mut self, from: NodeId, number: u64, out: &mut Outbox<BakeryMessage>) {
        match &mut self.step {
            Step::TakingMaximum { maximum } if self.missing.contains(from) => {
                *maximum = (*maximum).max(number.min(HIGHEST));
                self.missing.remove(from);
                self.number_if_all_read(out);
            }
            Step::AwaitingNumber { of } if *of == from && self.copies.is_none() => {
                if self.goes_before(number, from) {
                    self.wait_for_choice(NodeId(from.0 + 1), out);
                } else {
                    out.send_lazily(from, ReadNumber);
                }
            }
            _ => out.nonsense(from, "an unrequested number"),
        }
    }

    /// L2: a read of `choosing[from]` has ended; it is read again while it is true.
    fn on_choosing(&mut self, from: NodeId, choosing: bool, out: &mut Outbox<BakeryMessage>) {
        if self.step != (Step::AwaitingChoice { of: from }) || self.copies.is_some() {
            out.nonsense(from, "an unrequested answer");
        } else if choosing {
            out.send_lazily(from, ReadChoosing);
        } else {
            self.wait_for_number(from, out);
        }
    }

    // Registers that are pushed.

    /// An assignment to `choosing[i]` or `number[i]`: every process gets the new values.
    fn push(&mut self, out: &mut Outbox<BakeryMessage>) {
        let Some(copies) = &mut self.copies else { return };
        self.version += 1;
        copies[self.me.index()].registers = self.own.clone();
        let Registers { choosing, number } = self.own;
        out.multicast(self.others(), Write { version: self.version, choosing, number });
    }

    /// The sender's assignment has arrived here; L2 or L3 may have waited for it.
    fn on_write(
        &mut self,
        from: NodeId,
        version: u32,
        registers: Registers,
        out: &mut Outbox<BakeryMessage>,
    ) {
        let Some(copies) = &mut self.copies else {
            return out.nonsense(from, "a variable pushed that is pulled here");
        };
        if registers.number > HIGHEST {
            return out.nonsense(from, "a number that no process can have drawn");
        }
        // A change that an overtaking one has replaced is acknowledged all the same.
        if version > copies[from.index()].version {
            copies[from.index()] = Seen { version, registers };
        }
        out.send(from, Written(version));
        match self.step {
            Step::AwaitingChoice { of } => self.wait_for_choice(of, out),
            Step::AwaitingNumber { of } => self.wait_for_number(of, out),
            Step::Idle
            | Step::Announcing
            | Step::TakingMaximum { .. }
            | Step::Numbering
            | Step::InCs => {}
        }
    }

    /// Our assignment has arrived at one more process; L1 goes on when it has arrived at all.
    fn on_written(&mut self, from: NodeId, version: u32, out: &mut Outbox<BakeryMessage>) {
        if self.copies.is_none() || version > self.version {
            return out.nonsense(from, "an acknowledgement of nothing");
        }
        // An older change is our exit, and no step waits for that to be acknowledged.
        if version < self.version {
            return;
        }
        if matches!(self.step, Step::Announcing | Step::Numbering) {
            self.missing.remove(from);
            self.choose_if_announced(out);
            self.wait_if_numbered(out);
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + use<CHOICE> {
        let me = self.me;
        (0..self.processes).map(NodeId).filter(move |&node| node != me)
    }
}

impl Step {
    fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Announcing => "announcing",
            Self::TakingMaximum { .. } => "taking the maximum",
            Self::Numbering => "numbering",
            Self::AwaitingChoice { .. } => "waiting for a choice",
            Self::AwaitingNumber { .. } => "waiting for a number",
            Self::InCs => "in_cs",
        }
    }
}

impl<const CHOICE: bool> Inspect for BakeryWith<CHOICE> {
    fn draws_ticket(_start: &Start) -> bool {
        true
    }

    /// All can see the number: a process that reads it from now on draws a greater one.
    fn has_ticket(&self) -> bool {
        match self.step {
            Step::AwaitingChoice { .. } | Step::AwaitingNumber { .. } | Step::InCs => true,
            Step::Idle | Step::Announcing | Step::TakingMaximum { .. } | Step::Numbering => false,
        }
    }

    fn phase(&self) -> Phase {
        match self.step {
            Step::Idle => Phase::Idle,
            Step::InCs => Phase::InCs,
            Step::Announcing
            | Step::TakingMaximum { .. }
            | Step::Numbering
            | Step::AwaitingChoice { .. }
            | Step::AwaitingNumber { .. } => Phase::Requesting,
        }
    }

    fn would_enter_at_once(&self) -> bool {
        self.processes == 1 && self.step == Step::Idle
    }

    fn is_at_start(&self, _start: &Start) -> bool {
        let idle = |copy: &Seen| copy.registers == Registers::default();
        self.step == Step::Idle && self.copies.iter().flatten().all(idle)
    }

    fn waits_for(&self) -> Vec<NodeId> {
        match self.step {
            Step::Announcing | Step::TakingMaximum { .. } | Step::Numbering => {
                self.missing.iter().collect()
            }
            Step::AwaitingChoice { of } | Step::AwaitingNumber { of } => vec![of],
            Step::Idle | Step::InCs => Vec::new(),
        }
    }

    fn special_repair(_start: &Start) -> SpecialRepair {
        SpecialRepair::TakeOut
    }

    /// A crashed process counts as out of the critical section, its choosing as false.
    fn go_without(&mut self, crashed: NodeId, out: &mut Outbox<<Self as Mutex>::Message>) {
        if let Some(copies) = &mut self.copies {
            copies[crashed.index()].registers = Registers::default();
        }
        self.missing.remove(crashed);
        match self.step {
            Step::Announcing => self.choose_if_announced(out),
            Step::TakingMaximum { .. } => self.number_if_all_read(out),
            Step::Numbering => self.wait_if_numbered(out),
            Step::AwaitingChoice { of } | Step::AwaitingNumber { of } if of == crashed => {
                self.wait_for_choice(NodeId(of.0 + 1), out);
            }
            Step::Idle | Step::AwaitingChoice { .. } | Step::AwaitingNumber { .. } | Step::InCs => {
            }
        }
    }

    fn variables(&self) -> Fields {
        let mut fields = vec![("number", self.own.number.into())];
        if CHOICE {
            fields.push(("choosing", self.own.choosing.into()));
        }
        let waits = self.waits_for();
        fields.push(("step", self.step.word().into()));
        fields.push(("of", Value::list(waits)));
        fields
    }
}

impl Message for BakeryMessage {
    fn kind(&self) -> &'static str {
        match self {
            ReadNumber => "read-number",
            Number(_) => "number",
            ReadChoosing => "read-choosing",
            Choosing(_) => "choosing",
            Write { .. } => "write",
            Written(_) => "written",
        }
    }

    fn fields(&self) -> Fields {
        match self {
            ReadNumber | ReadChoosing | Written(_) => Fields::new(),
            Number(number) => vec![("number", (*number).into())],
            Choosing(choosing) => vec![("choosing", (*choosing).into())],
            Write { choosing, number, .. } => {
                vec![("choosing", (*choosing).into()), ("number", (*number).into())]
            }
        }
    }
}

use crate::{Cost, CostsWith};

/// A register is read from all by one multicast, from one by a message; each is answered. Pushed,
/// every change is one multicast that all acknowledge.
const PULL: Costs = Costs {
    light: Cost::exact("6(N-1)"),
    light_multicasts: Cost::exact("5N-4"),
    saturated: Cost::only_printed("6(N-1)", "{} and polling"),
    worst: Cost::words("unbounded"),
    client_delay: Cost::exact("2+4(N-1)").table("({})T"),
    sync_delay: Cost::words("by polling"),
    saturated_hints: &[
        "every waiting process polls, so messages per entry depend on --hold and --pace",
    ],
    ..Costs::NONE
};

const NAIVE_PULL: Costs = Costs {
    light: Cost::exact("4(N-1)"),
    light_multicasts: Cost::exact("3N-2"),
    saturated: Cost::only_printed("4(N-1)", "{} and polling"),
    client_delay: Cost::exact("2+2(N-1)").table("({})T"),
    ..PULL
};

const OPTIONS: &[Choice] = &[Choice {
    key: "registers",
    values: &[
        Variant { name: "pull", meaning: "a reader asks the owner", drops: &[] },
        Variant { name: "push", meaning: "the owner sends every change to all", drops: &[] },
    ],
    other: Other::Nothing,
}];

const ABOUT: About = About {
    name: "bakery",
    title: "Bakery, Lamport 1974",
    kind: Kind::Mutex,
    family: "state variables",
    control: false,
    claims: &[
        Claim::MutualExclusion,
        Claim::DeadlockFree,
        Claim::Liveness,
        Claim::Fencing,
        Claim::BoundedBypass,
    ],
    links: Links::Any,
    structure: Structure::Complete,
    partners: Partners::All,
    uses_stamps: false,
    options: OPTIONS,
    costs: Costs {
        variants: &[CostsWith::new(
            &[("registers", "push")],
            Costs {
                light_multicasts: Cost::exact("3N"),
                client_delay: Cost::exact("4").table("{}T"),
                ..PULL
            },
        )],
        ..PULL
    },
    order: "ticket (number, id)",
    source: "Lamport, CACM 17(8), 1974",
    idea: "As in a bakery: draw a number greater than all you see, and wait for every process with \
           a smaller one. Two may draw the same number; then the lower id goes first. While a \
           process is drawing, wait until its number can be seen.",
    rules: &[
        "To enter: choosing := true; number := 1 + the maximum of all numbers; choosing := false.",
        "Then for each j: wait until choosing[j] is false; wait until number[j] is 0 or \
         (number[j], j) comes after ours.",
        "To leave: number := 0.",
    ],
    invariants: &[StatedInvariant {
        name: "least-number",
        formula: "forall p, q: p != q and p.phase = in_cs and q.phase = requesting and \
                     q.number > 0 and not q.choosing -> p.number <= q.number",
        meaning: "the number in the critical section is the least that is drawn",
    }],
    known_failures: &["A process that crashes while choosing blocks all, until it counts as idle."],
};

const NAIVE: About = About {
    name: "bakery-naive",
    title: "Bakery without choice",
    control: true,
    claims: &[],
    costs: Costs {
        variants: &[CostsWith::new(
            &[("registers", "push")],
            Costs {
                light_multicasts: Cost::exact("2N"),
                client_delay: Cost::exact("2").table("{}T"),
                ..NAIVE_PULL
            },
        )],
        ..NAIVE_PULL
    },
    source: "folklore",
    idea: "The Bakery without the variable choosing. Taking the maximum is not atomic: two read \
           the same numbers, one enters before the other has written its own.",
    rules: &[
        "To enter: number := 1 + the maximum of all numbers.",
        "Then for each j: wait until number[j] is 0 or (number[j], j) comes after ours.",
        "To leave: number := 0.",
    ],
    invariants: &[],
    known_failures: &[
        "Two in the critical section: it needs the smaller id to write its number late. With two \
         processes that takes links that reorder, with three it happens on links that keep order \
         too.",
        "Pushed over links that keep order it does not show: a number arrives before the \
         acknowledgement that lets the other one go on.",
    ],
    ..ABOUT
};
