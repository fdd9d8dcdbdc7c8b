//! An election cluster walked at random.

use std::collections::BTreeMap;

use mutua_algorithms::{Claim, Election, Links, NodeId, Start, split_mix::Dice};
use mutua_lab::ElectionCluster;

use super::violation::Violation;

/// Processes, messages under way and timers that run. A process that is down receives nothing.
pub(crate) struct Electorate<'a, E: Election> {
    start: Start,
    claims: &'a [Claim],
    cluster: ElectionCluster<E>,
    /// The part of the network that each process is in: messages between parts are lost.
    pub(crate) part: Vec<u32>,
    /// How many decisions of the cluster have been looked at.
    judged: usize,
    dice: &'a mut Dice,
}

impl<'a, E: Election> Electorate<'a, E> {
    pub(crate) fn new(start: Start, claims: &'a [Claim], links: Links, dice: &'a mut Dice) -> Self {
        Self {
            claims,
            cluster: ElectionCluster::unrecorded(start.clone(), links),
            part: start.all().map(|_| 0).collect(),
            judged: 0,
            start,
            dice,
        }
    }

    pub(crate) fn up(&self) -> Vec<NodeId> {
        self.start.all().filter(|&node| self.cluster.is_up(node)).collect()
    }

    pub(crate) fn any_alive(&mut self) -> NodeId {
        let up = self.up();
        *self.dice.pick(&up)
    }

    pub(crate) fn coordinator(&self, node: NodeId) -> Option<NodeId> {
        self.cluster.process(node).and_then(E::coordinator)
    }

    /// The client of this process misses the coordinator.
    pub(crate) fn start(&mut self, node: NodeId) -> Result<(), Violation> {
        self.cluster.start(node).expect("it is up");
        self.judge(node)
    }

    pub(crate) fn crash(&mut self, node: NodeId) {
        self.cluster.crash(node).expect("it is up");
    }

    pub(crate) fn restart(&mut self, node: NodeId) -> Result<(), Violation> {
        self.cluster.restart(node).expect("it is down");
        self.judge(node)
    }

    /// Lets things happen until `done`, or until nothing can happen any more. A timer fires only
    /// when no message is under way: the bounds of a synchronous system hold.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        let size = self.part.len();
        for _ in 0..20_000 + 400 * size * size {
            if self.cluster.in_flight_count() == 0 && done(self) {
                return Ok(());
            }
            if !self.step()? {
                break;
            }
        }
        let known: Vec<_> = self.up().iter().map(|&node| self.coordinator(node)).collect();
        self.demand(Claim::Termination, done(self), || format!("in the end they know {known:?}"))
    }

    /// Whether all that are up, in each part of the network, know the same one of that part.
    pub(crate) fn agree(&self) -> bool {
        let mut elected_in = BTreeMap::new();
        self.cluster.up().all(|(node, process)| {
            let part = self.part[node.index()];
            let known = process.coordinator().filter(|&elected| {
                self.cluster.is_up(elected) && self.part[elected.index()] == part
            });
            known.is_some()
                && !process.takes_part()
                && *elected_in.entry(part).or_insert(known) == known
        })
    }

    /// One delivery or, when nothing is under way, one timer; false if there is neither.
    fn step(&mut self) -> Result<bool, Violation> {
        let count = self.cluster.in_flight_count();
        if count == 0 {
            let timers: Vec<_> = self.cluster.timers().collect();
            if timers.is_empty() {
                return Ok(false);
            }
            let (node, timer) = *self.dice.pick(&timers);
            self.cluster.timeout(node, timer).expect("it is set");
            self.judge(node)?;
            return Ok(true);
        }
        let index = self.dice.index(count);
        let (from, to, _) =
            self.cluster.in_flight().nth(index).expect("an index below their number");
        if self.part[from.index()] != self.part[to.index()] {
            self.cluster.lose_nth(index);
        } else {
            self.cluster.deliver_nth(index);
            self.judge(to)?;
        }
        Ok(true)
    }

    /// Looks at what the last event, at this process, has led to.
    fn judge(&mut self, node: NodeId) -> Result<(), Violation> {
        if !self.cluster.is_up(node) {
            return Ok(());
        }
        if let Some(nonsense) = self.cluster.nonsense().first() {
            return Err(Violation::new(None, format!("invalid message: {nonsense:?}")));
        }
        let known = self.coordinator(node);
        let decisions = &self.cluster.elected()[self.judged..];
        self.judged = self.cluster.elected().len();
        if let Some(&(_, elected)) = decisions.last()
            && Some(elected) != known
        {
            let what = format!("{node} has elected {elected} and reports {known:?}");
            return Err(Violation::new(None, what));
        }
        let highest = self.up().last().copied();
        self.demand(Claim::Agreement, known.is_none() || known == highest, || {
            format!("{node} has elected {known:?}, and {highest:?} is the highest that is up")
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
