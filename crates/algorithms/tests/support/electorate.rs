//! A whole system that elects, walked at random.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::{Claim, Effect, Election, Links, NodeId, Outbox, Start, Timer};

use super::{checks::Violation, dice::Dice};

/// Processes, messages under way, timers that run. Who is down hears nothing.
pub struct Electorate<'a, E: Election> {
    start: Start,
    claims: &'a [Claim],
    links: Links,
    processes: Vec<E>,
    up: Vec<bool>,
    /// Which part of the network a process is in: messages between parts are lost.
    pub part: Vec<u32>,
    under_way: Vec<(NodeId, NodeId, E::Message)>,
    timers: BTreeSet<(NodeId, Timer)>,
    out: Outbox<E::Message>,
    dice: &'a mut Dice,
}

impl<'a, E: Election> Electorate<'a, E> {
    pub fn new(start: Start, claims: &'a [Claim], links: Links, dice: &'a mut Dice) -> Self {
        Self {
            claims,
            links,
            processes: start.all().map(|me| E::new(me, &start)).collect(),
            up: start.all().map(|node| !start.is_crashed(node)).collect(),
            part: start.all().map(|_| 0).collect(),
            under_way: Vec::new(),
            timers: BTreeSet::new(),
            out: Outbox::new(),
            start,
            dice,
        }
    }

    pub fn alive(&self) -> Vec<NodeId> {
        self.start.all().filter(|node| self.up[node.index()]).collect()
    }

    pub fn any_alive(&mut self) -> NodeId {
        let alive = self.alive();
        *self.dice.pick(&alive)
    }

    pub fn coordinator(&self, node: NodeId) -> Option<NodeId> {
        self.processes[node.index()].coordinator()
    }

    /// The client of this process misses the coordinator.
    pub fn start(&mut self, node: NodeId) -> Result<(), Violation> {
        self.processes[node.index()].start(&mut self.out);
        self.take_effects(node)
    }

    pub fn crash(&mut self, node: NodeId) {
        self.up[node.index()] = false;
        self.timers.retain(|&(of, _)| of != node);
    }

    pub fn restart(&mut self, node: NodeId) -> Result<(), Violation> {
        self.up[node.index()] = true;
        self.processes[node.index()] = E::new(node, &self.start);
        self.processes[node.index()].restart(&mut self.out);
        self.take_effects(node)
    }

    /// Lets things happen until `done`, or until nothing can happen any more. A timer fires only
    /// when no message is under way: the bounds of a synchronous system hold.
    pub fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        let size = self.processes.len();
        for _ in 0..20_000 + 400 * size * size {
            if self.under_way.is_empty() && done(self) {
                return Ok(());
            }
            if !self.step()? {
                break;
            }
        }
        let known: Vec<_> = self.alive().iter().map(|&node| self.coordinator(node)).collect();
        self.demand(Claim::Termination, done(self), || format!("in the end they know {known:?}"))
    }

    /// Whether all that are up, in each part of the network, know the same one of that part.
    pub fn agree(&self) -> bool {
        let mut elected_in = BTreeMap::new();
        self.alive().into_iter().all(|node| {
            let part = self.part[node.index()];
            let known = self
                .coordinator(node)
                .filter(|elected| self.up[elected.index()] && self.part[elected.index()] == part);
            known.is_some()
                && !self.processes[node.index()].takes_part()
                && *elected_in.entry(part).or_insert(known) == known
        })
    }

    /// One delivery or, when nothing is under way, one timer; false if there is neither.
    fn step(&mut self) -> Result<bool, Violation> {
        if self.under_way.is_empty() {
            let timers: Vec<_> = self.timers.iter().copied().collect();
            if timers.is_empty() {
                return Ok(false);
            }
            let (node, timer) = *self.dice.pick(&timers);
            self.timers.remove(&(node, timer));
            self.processes[node.index()].timeout(timer, &mut self.out);
            self.take_effects(node)?;
            return Ok(true);
        }
        let (from, to, message) = self.take();
        let cut = self.part[from.index()] != self.part[to.index()];
        if self.up[to.index()] && !cut {
            self.processes[to.index()].receive(from, message, &mut self.out);
            self.take_effects(to)?;
        }
        Ok(true)
    }

    fn take(&mut self) -> (NodeId, NodeId, E::Message) {
        let drawn = self.dice.below(self.under_way.len());
        let (from, to, _) = &self.under_way[drawn];
        let place = match self.links {
            Links::Any => drawn,
            Links::Fifo => {
                let same = |(f, t, _): &(NodeId, NodeId, E::Message)| f == from && t == to;
                self.under_way.iter().position(same).expect("at least the one drawn")
            }
        };
        // The others keep their order.
        self.under_way.remove(place)
    }

    fn take_effects(&mut self, from: NodeId) -> Result<(), Violation> {
        let (under_way, timers) = (&mut self.under_way, &mut self.timers);
        let mut nonsense = None;
        let mut elected = None;
        self.out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => under_way.push((from, to, message)),
            Effect::Multicast { to, message } => {
                under_way.extend(to.iter().map(|&to| (from, to, message.clone())));
            }
            Effect::SetTimer { timer, .. } => {
                timers.insert((from, timer));
            }
            Effect::CancelTimer { timer } => {
                timers.remove(&(from, timer));
            }
            Effect::Elected { coordinator } => elected = Some(coordinator),
            Effect::Nonsense { from, why } => nonsense = Some((from, why)),
            Effect::Enter => panic!("an election lets nobody in"),
        });
        let known = self.coordinator(from);
        if let Some((sender, why)) = nonsense {
            return Err(Violation::new(None, format!("{from} calls {sender}'s message {why}")));
        }
        if elected.is_some() && elected != known {
            let what = format!("{from} has elected {elected:?} and says {known:?}");
            return Err(Violation::new(None, what));
        }
        let highest = self.alive().last().copied();
        self.demand(Claim::Agreement, known.is_none() || known == highest, || {
            format!("{from} has elected {known:?}, and {highest:?} is the highest that is up")
        })
    }

    fn demand(
        &self,
        claim: Claim,
        holds: bool,
        what: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        if holds || !self.claims.contains(&claim) {
            return Ok(());
        }
        Err(Violation::new(claim, what()))
    }
}
