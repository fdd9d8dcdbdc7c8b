//! Dijkstra's ring as the paper has it: flags that neighbours read directly, and a daemon that
//! chooses who moves.

use super::{flag_values, moved, privileged};
use crate::{NodeId, Start};

/// The flags of a whole ring.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DijkstraRing {
    k: u32,
    flags: Vec<u32>,
}

/// Who may move at once.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Daemon {
    /// One that is privileged.
    Central,
    /// Any of them, one at least.
    Distributed,
    /// All of them.
    Synchronous,
}

impl Daemon {
    /// The daemon that a start asks for; none when the flags travel by messages.
    pub fn of(start: &Start) -> Option<Self> {
        match start.setting("daemon") {
            "central" => Some(Self::Central),
            "distributed" => Some(Self::Distributed),
            "synchronous" => Some(Self::Synchronous),
            _ => None,
        }
    }

    /// Every set of processes that it may let move now.
    ///
    /// # Panics
    ///
    /// If it is distributed and 32 or more are privileged: nobody could go through their sets.
    pub fn choices(self, ring: &DijkstraRing) -> Vec<Vec<NodeId>> {
        let privileged: Vec<_> = ring.privileged().collect();
        match self {
            Self::Central => privileged.into_iter().map(|node| vec![node]).collect(),
            Self::Synchronous => vec![privileged],
            Self::Distributed => {
                assert!(privileged.len() < 32, "2^{} sets are too many", privileged.len());
                let members = |set: u32| {
                    let bit = |(place, _): &(usize, &NodeId)| set & (1 << place) != 0;
                    privileged.iter().enumerate().filter(bit).map(|(_, &node)| node).collect()
                };
                (1..1 << privileged.len()).map(members).collect()
            }
        }
    }
}

impl DijkstraRing {
    /// A ring with these flags, of `k` values each.
    ///
    /// # Panics
    ///
    /// If it has no process, or one of the flags is not below `k`, or `k` not above 1.
    pub fn new(k: u32, flags: Vec<u32>) -> Self {
        assert!(!flags.is_empty(), "a ring of nobody");
        assert!(k > 1, "a flag has at least 2 values, not {k}");
        assert!(flags.iter().all(|&flag| flag < k), "flags below {k}, not {flags:?}");
        Self { k, flags }
    }

    /// The ring as a system starts it: the holder privileged.
    pub fn at_start(start: &Start) -> Self {
        let flag = |node| u32::from(node < start.holder());
        Self::new(flag_values(start), start.all().map(flag).collect())
    }

    /// Every ring of so many processes, for exhaustive searches: `k` to the power of `processes`.
    pub fn every(processes: u32, k: u32) -> impl Iterator<Item = Self> {
        let count = u64::from(k).pow(processes);
        (0..count).map(move |mut number| {
            let digit = |_| {
                let digit = number % u64::from(k);
                number /= u64::from(k);
                u32::try_from(digit).expect("a digit is below k")
            };
            Self::new(k, (0..processes).map(digit).collect())
        })
    }

    /// How many values a flag has.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The flags.
    pub fn flags(&self) -> &[u32] {
        &self.flags
    }

    /// Whether this process is privileged.
    pub fn is_privileged(&self, node: NodeId) -> bool {
        privileged(node == NodeId(0), self.left_of(node), self.flags[node.index()])
    }

    /// Who is privileged; there is always somebody.
    pub fn privileged(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.flags.len()).map(NodeId::from).filter(|&node| self.is_privileged(node))
    }

    /// Whether just one process is privileged; it stays so for ever.
    pub fn is_legitimate(&self) -> bool {
        self.privileged().count() == 1
    }

    /// The ring after these have moved at once, each by the flags as they were. Who is not
    /// privileged does not move.
    #[must_use]
    pub fn step(&self, movers: &[NodeId]) -> Self {
        let mut after = self.clone();
        for &node in movers.iter().filter(|&&node| self.is_privileged(node)) {
            let own = self.flags[node.index()];
            after.flags[node.index()] = moved(node == NodeId(0), self.left_of(node), own, self.k);
        }
        after
    }

    fn left_of(&self, node: NodeId) -> u32 {
        let last = self.flags.len() - 1;
        self.flags[node.index().checked_sub(1).unwrap_or(last)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Whether from every start, whatever the daemon chooses, the ring comes to be legitimate: no
    /// cycle of choices among the other states.
    fn settles(processes: u32, k: u32, daemon: Daemon) -> bool {
        let mut done: BTreeMap<DijkstraRing, bool> = BTreeMap::new();
        DijkstraRing::every(processes, k).all(|ring| all_settle(ring, daemon, &mut done))
    }

    /// Depth first; a state that is met again before it is done closes a cycle.
    fn all_settle(
        ring: DijkstraRing,
        daemon: Daemon,
        done: &mut BTreeMap<DijkstraRing, bool>,
    ) -> bool {
        if ring.is_legitimate() {
            return true;
        }
        if let Some(&done) = done.get(&ring) {
            return done;
        }
        done.insert(ring.clone(), false);
        let mut choices = daemon.choices(&ring).into_iter();
        let settles = choices.all(|movers| all_settle(ring.step(&movers), daemon, done));
        done.insert(ring, settles);
        settles
    }

    #[test]
    fn one_at_a_time_settles_from_k_n_minus_1_on() {
        for n in 3..=5 {
            for k in 2..=n + 1 {
                assert_eq!(settles(n, k, Daemon::Central), k + 1 >= n, "n = {n}, k = {k}");
            }
        }
    }

    #[test]
    fn several_at_once_settle_from_k_n_on() {
        for n in 3..=5 {
            for k in 2..=n + 1 {
                for daemon in [Daemon::Distributed, Daemon::Synchronous] {
                    assert_eq!(settles(n, k, daemon), k >= n, "n = {n}, k = {k}, {daemon:?}");
                }
            }
        }
    }

    #[test]
    fn a_legitimate_ring_stays_legitimate_and_lets_everyone_in_once_per_lap() {
        for n in 2..=5u32 {
            let mut ring = DijkstraRing::new(2, vec![0; n as usize]);
            for turn in 0..3 * n {
                assert!(ring.is_legitimate());
                let who: Vec<_> = ring.privileged().collect();
                assert_eq!(who, [NodeId(turn % n)]);
                ring = ring.step(&who);
            }
        }
    }

    #[test]
    fn two_values_for_four_run_in_a_cycle_of_eight_with_three_privileges_each() {
        let mut ring = DijkstraRing::new(2, vec![0, 1, 0, 1]);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(ring.flags().iter().map(u32::to_string).collect::<String>());
            assert_eq!(ring.privileged().count(), 3);
            let all: Vec<_> = ring.privileged().collect();
            ring = ring.step(&all);
        }
        let cycle = ["0101", "0010", "1001", "0100", "1010", "1101", "0110", "1011"];
        assert_eq!(seen, cycle);
        assert_eq!(ring.flags(), [0, 1, 0, 1]);
    }

    #[test]
    fn everybody_is_privileged_in_some_ring_and_somebody_in_all() {
        assert!(DijkstraRing::every(4, 3).all(|ring| ring.privileged().count() >= 1));
        let full = DijkstraRing::every(4, 3).filter(|ring| ring.privileged().count() == 4);
        assert!(full.count() > 0);
    }
}
