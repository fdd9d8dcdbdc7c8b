//! Whether a ring always settles, by a search of all its states.
//!
//! It settles if no run stays among the states that are not legitimate, that is, if there is no
//! cycle among them. Every state is a start here, so none has to be reached first.

use std::collections::{BTreeMap, VecDeque};

use super::{Daemon, Ring};
use crate::NodeId;

/// All states of a ring and, between those that are not legitimate, the moves of a daemon.
#[derive(Clone, Debug)]
pub struct Convergence {
    rings: Vec<Ring>,
    /// The successors that are not legitimate, with the movers; none where the ring is legitimate.
    next: Vec<Vec<(u32, Vec<NodeId>)>>,
}

/// The longest run until the ring is legitimate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settling {
    /// The flags at its start.
    pub flags: Vec<u32>,
    /// Its steps, the one that makes the ring legitimate included.
    pub steps: usize,
}

/// A run that never settles: from these flags these moves lead back to the same flags.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cycle {
    /// The flags at the start of the cycle.
    pub flags: Vec<u32>,
    /// The processes that move at once, step by step.
    pub moves: Vec<Vec<NodeId>>,
}

impl Convergence {
    /// The bytes of memory that a search needs, about: each state, and the moves from it. Half the
    /// processes are privileged in the mean.
    pub fn estimate(processes: u32, k: u32, daemon: Daemon) -> f64 {
        let n = f64::from(processes);
        let moves = match daemon {
            Daemon::Central => n / 2.0,
            Daemon::Synchronous => 1.0,
            Daemon::Distributed => 1.5_f64.powf(n),
        };
        f64::from(k).powf(n) * (180.0 + 56.0 * moves)
    }

    /// The states of a ring of so many processes with flags of `k` values: `k` to the power of
    /// `processes`.
    pub fn new(processes: u32, k: u32, daemon: Daemon) -> Self {
        let rings: Vec<_> = Ring::every(processes, k).collect();
        let numbers: BTreeMap<_, _> =
            rings.iter().zip(0_u32..).map(|(ring, number)| (ring.flags(), number)).collect();
        let next = rings.iter().map(|ring| {
            if ring.is_legitimate() {
                return Vec::new();
            }
            let choices = daemon.choices(ring).into_iter();
            let moves = choices.map(|movers| (ring.step(&movers), movers));
            let unsettled = moves.filter(|(after, _)| !after.is_legitimate());
            unsettled.map(|(after, movers)| (numbers[after.flags()], movers)).collect()
        });
        let next = next.collect();
        Self { rings, next }
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.rings.len()
    }

    /// The number of moves between states that are not legitimate.
    pub fn moves(&self) -> usize {
        self.next.iter().map(Vec::len).sum()
    }

    /// The memory that states and moves take, about.
    pub fn bytes(&self) -> usize {
        let moves = self.next.iter().flatten().map(|(_, movers)| 32 + 4 * movers.len());
        self.rings.len() * 56 + moves.sum::<usize>()
    }

    /// A shortest cycle of states that are not legitimate; none if the ring always settles.
    pub fn shortest_cycle(&self) -> Option<Cycle> {
        let remain = self.unsettled();
        let mut best: Option<Vec<u32>> = None;
        for home in (0..self.rings.len()).filter(|&ring| remain[ring]) {
            let limit = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
            if let Some(cycle) = self.cycle_from(home as u32, &remain, limit) {
                best = Some(cycle);
            }
        }
        best.map(|states| self.cycle(&states))
    }

    /// The longest run until the ring is legitimate, from the worst flags and by the worst choices
    /// of the daemon; none if some run never settles.
    pub fn longest_settling(&self) -> Option<Settling> {
        let (remain, steps) = self.settle();
        if remain.contains(&true) {
            return None;
        }
        let (ring, &steps) = steps.iter().enumerate().rev().max_by_key(|&(_, steps)| steps)?;
        Some(Settling { flags: self.rings[ring].flags().to_vec(), steps })
    }

    /// The states from which a run can go on for ever without settling: those that remain when all
    /// that must settle in their next move are taken away, again and again.
    fn unsettled(&self) -> Vec<bool> {
        self.settle().0
    }

    /// The states from which a run can go on for ever, and of the others the steps of the longest
    /// run until the ring is legitimate.
    fn settle(&self) -> (Vec<bool>, Vec<usize>) {
        let mut remain = vec![true; self.rings.len()];
        let legitimate = self.rings.iter().map(Ring::is_legitimate);
        let mut steps: Vec<_> = legitimate.map(|legitimate| usize::from(!legitimate)).collect();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.rings.len()];
        let mut left: Vec<_> = self.next.iter().map(Vec::len).collect();
        for (ring, next) in self.next.iter().enumerate() {
            for (after, _) in next {
                before[*after as usize].push(ring as u32);
            }
        }
        let mut done: Vec<_> = (0..left.len()).filter(|&ring| left[ring] == 0).collect();
        while let Some(ring) = done.pop() {
            remain[ring] = false;
            for &earlier in &before[ring] {
                left[earlier as usize] -= 1;
                steps[earlier as usize] = steps[earlier as usize].max(steps[ring] + 1);
                if left[earlier as usize] == 0 {
                    done.push(earlier as usize);
                }
            }
        }
        (remain, steps)
    }

    /// A shortest cycle through this state with fewer moves than `limit`, both ends included.
    fn cycle_from(&self, home: u32, remain: &[bool], limit: usize) -> Option<Vec<u32>> {
        let mut from = BTreeMap::new();
        let mut queue = VecDeque::from([(home, 0)]);
        while let Some((ring, depth)) = queue.pop_front() {
            if depth + 1 >= limit {
                return None;
            }
            for (after, _) in &self.next[ring as usize] {
                if *after == home {
                    let mut cycle = vec![home, ring];
                    while cycle[cycle.len() - 1] != home {
                        cycle.push(from[&cycle[cycle.len() - 1]]);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if remain[*after as usize] && !from.contains_key(after) {
                    from.insert(*after, ring);
                    queue.push_back((*after, depth + 1));
                }
            }
        }
        None
    }

    fn cycle(&self, states: &[u32]) -> Cycle {
        let moves = states.windows(2).map(|pair| {
            let mut moves = self.next[pair[0] as usize].iter();
            let (_, movers) =
                moves.find(|(after, _)| *after == pair[1]).expect("a move of the cycle");
            movers.clone()
        });
        Cycle { flags: self.rings[states[0] as usize].flags().to_vec(), moves: moves.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of the daemons find the same by a search of their own.
    #[test]
    fn a_ring_has_no_cycle_from_the_least_k_on() {
        for n in 3..=6 {
            for k in 2..=n + 1 {
                for &daemon in Daemon::ALL {
                    let settles = Convergence::new(n, k, daemon).shortest_cycle().is_none();
                    assert_eq!(settles, k >= daemon.least_k(n), "{daemon:?}, n = {n}, k = {k}");
                }
            }
        }
    }

    /// Every run is tried, with nothing remembered.
    fn longest(ring: &Ring, daemon: Daemon) -> usize {
        if ring.is_legitimate() {
            return 0;
        }
        let choices = daemon.choices(ring).into_iter();
        choices.map(|movers| 1 + longest(&ring.step(&movers), daemon)).max().unwrap_or(0)
    }

    #[test]
    fn the_longest_settling_is_that_of_all_runs() {
        for (n, k, daemon) in [
            (3, 3, Daemon::Central),
            (3, 3, Daemon::Distributed),
            (4, 4, Daemon::Synchronous),
            (4, 3, Daemon::Central),
        ] {
            let settling = Convergence::new(n, k, daemon).longest_settling().expect("it settles");
            let all = Ring::every(n, k).map(|ring| longest(&ring, daemon)).max();
            assert_eq!(Some(settling.steps), all, "{daemon:?}, n = {n}, k = {k}");
            assert_eq!(longest(&Ring::new(k, settling.flags), daemon), settling.steps);
        }
        assert_eq!(Convergence::new(4, 2, Daemon::Central).longest_settling(), None);
    }

    #[test]
    fn a_cycle_leads_back_to_its_flags_and_is_never_legitimate() {
        let cycle =
            Convergence::new(5, 3, Daemon::Central).shortest_cycle().expect("k is too small");
        let mut ring = Ring::new(3, cycle.flags.clone());
        for movers in &cycle.moves {
            assert!(!ring.is_legitimate());
            assert_eq!(Daemon::Central.allow(&ring, movers), Ok(()));
            ring = ring.step(movers);
        }
        assert_eq!(ring.flags(), cycle.flags);
    }

    #[test]
    fn four_processes_with_two_values_that_all_move_at_once_go_round_in_eight() {
        let graph = Convergence::new(4, 2, Daemon::Synchronous);
        let home = graph.rings.iter().position(|ring| ring.flags() == [0, 1, 0, 1]);
        let remain = graph.unsettled();
        let cycle = graph.cycle_from(home.expect("a ring") as u32, &remain, usize::MAX);
        let flags = |&ring: &u32| graph.rings[ring as usize].flags().to_vec();
        let cycle: Vec<_> = cycle.expect("a cycle").iter().map(flags).collect();
        let golden = ["0101", "0010", "1001", "0100", "1010", "1101", "0110", "1011", "0101"];
        let golden = golden.map(|flags| flags.chars().filter_map(|c| c.to_digit(2)).collect());
        assert_eq!(cycle, golden as [Vec<u32>; 9]);
    }
}
