//! Dijkstra's ring under a daemon: does it settle, whatever the flags at the start?
//!
//! It settles if no run stays among the states that are not legitimate, that is, if there is no
//! cycle among them. Every state is a start here, so there is nothing to be reached first.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

use mutua_algorithms::{
    Claim, Mutex, NodeId, StartError,
    mutexes::{Daemon, Dijkstra, DijkstraRing},
};

use crate::{
    check::{Report, Search, Task, Verdict},
    trail::{Happening, Trail, What},
};

/// Checks the ring, if the task is about it under a daemon.
pub(crate) fn check(task: &Task) -> Result<Option<Report>, StartError> {
    if task.name != Dijkstra::ABOUT.name {
        return Ok(None);
    }
    let start = task.system.setup.start::<Dijkstra>()?;
    let Some(daemon) = Daemon::of(&start) else { return Ok(None) };
    let k = DijkstraRing::at_start(&start).k();
    Ok(Some(settles(task, start.processes(), k, daemon)))
}

fn settles(task: &Task, processes: u32, k: u32, daemon: Daemon) -> Report {
    let began = Instant::now();
    let graph = Graph::new(processes, k, daemon);
    let trail = graph.shortest_cycle().map(|cycle| graph.trail(&cycle));
    let search = Search {
        properties: vec![Claim::Convergence.name()],
        states: graph.rings.len() as u64,
        steps: graph.next.iter().map(|next| next.len() as u64).sum(),
        depth: 0,
        seconds: began.elapsed().as_secs_f64(),
        bytes: graph.bytes(),
        stopped: None,
        covered: None,
        reductions: Vec::new(),
    };
    let claims = Dijkstra::ABOUT.claims_with(&task.system.setup.settings);
    let verdict = Verdict {
        name: Claim::Convergence.name(),
        claimed: claims.contains(&Claim::Convergence),
        holds: Some(trail.is_none()),
        trail,
    };
    Report { searches: vec![search], verdicts: vec![verdict], ..Report::default() }
}

/// All rings, and between those that are not legitimate, the moves.
struct Graph {
    rings: Vec<DijkstraRing>,
    /// The successors that are not legitimate, with the movers; none where the ring is legitimate.
    next: Vec<Vec<(u32, Vec<NodeId>)>>,
}

impl Graph {
    fn new(processes: u32, k: u32, daemon: Daemon) -> Self {
        let rings: Vec<_> = DijkstraRing::every(processes, k).collect();
        let places: BTreeMap<_, _> =
            rings.iter().enumerate().map(|(place, ring)| (ring.flags(), place as u32)).collect();
        let next = rings.iter().map(|ring| {
            if ring.is_legitimate() {
                return Vec::new();
            }
            let choices = daemon.choices(ring).into_iter();
            let moves = choices.map(|movers| (ring.step(&movers), movers));
            let unsettled = moves.filter(|(after, _)| !after.is_legitimate());
            unsettled.map(|(after, movers)| (places[after.flags()], movers)).collect()
        });
        let next = next.collect();
        Self { rings, next }
    }

    fn bytes(&self) -> usize {
        let moves = self.next.iter().flatten().map(|(_, movers)| 32 + 4 * movers.len());
        self.rings.len() * 56 + moves.sum::<usize>()
    }

    /// Those from which one can go on for ever without settling: what remains when all that must
    /// settle in their next move are taken away, and again.
    fn unsettled(&self) -> Vec<bool> {
        let mut remain = vec![true; self.rings.len()];
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.rings.len()];
        let mut left: Vec<_> = self.next.iter().map(Vec::len).collect();
        for (place, next) in self.next.iter().enumerate() {
            for (after, _) in next {
                before[*after as usize].push(place as u32);
            }
        }
        let mut done: Vec<_> = (0..left.len()).filter(|&place| left[place] == 0).collect();
        while let Some(place) = done.pop() {
            remain[place] = false;
            for &earlier in &before[place] {
                left[earlier as usize] -= 1;
                if left[earlier as usize] == 0 {
                    done.push(earlier as usize);
                }
            }
        }
        remain
    }

    /// A shortest way from a ring back to itself, both ends included.
    fn shortest_cycle(&self) -> Option<Vec<u32>> {
        let remain = self.unsettled();
        let mut best: Option<Vec<u32>> = None;
        for home in (0..self.rings.len()).filter(|&place| remain[place]) {
            let limit = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
            if let Some(cycle) = self.cycle_from(home as u32, &remain, limit) {
                best = Some(cycle);
            }
        }
        best
    }

    /// A shortest cycle through this ring with fewer moves than `limit`.
    fn cycle_from(&self, home: u32, remain: &[bool], limit: usize) -> Option<Vec<u32>> {
        let mut from = BTreeMap::new();
        let mut queue = VecDeque::from([(home, 0)]);
        while let Some((place, depth)) = queue.pop_front() {
            if depth + 1 >= limit {
                return None;
            }
            for (after, _) in &self.next[place as usize] {
                if *after == home {
                    let mut cycle = vec![home, place];
                    while cycle[cycle.len() - 1] != home {
                        cycle.push(from[&cycle[cycle.len() - 1]]);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if remain[*after as usize] && !from.contains_key(after) {
                    from.insert(*after, place);
                    queue.push_back((*after, depth + 1));
                }
            }
        }
        None
    }

    fn trail(&self, cycle: &[u32]) -> Trail {
        let steps = cycle.windows(2).map(|pair| {
            let moves = &self.next[pair[0] as usize];
            let (_, movers) =
                moves.iter().find(|(after, _)| *after == pair[1]).expect("a move of the cycle");
            let what = What::Move(movers.clone());
            Happening { at: movers[0], what, enters: false, elects: None }
        });
        Trail {
            steps: steps.collect(),
            cycle: Some(0),
            flags: Some(self.rings[cycle[0] as usize].flags().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a ring settles from every start.
    fn settles(processes: u32, k: u32, daemon: Daemon) -> bool {
        Graph::new(processes, k, daemon).shortest_cycle().is_none()
    }

    #[test]
    fn the_edges_of_k_are_those_of_an_independent_search() {
        for n in 3..=6 {
            for k in 2..=n + 1 {
                assert_eq!(settles(n, k, Daemon::Central), k >= n - 1, "central, n {n}, k {k}");
                assert_eq!(settles(n, k, Daemon::Distributed), k >= n, "distributed {n} {k}");
                assert_eq!(settles(n, k, Daemon::Synchronous), k >= n, "synchronous {n} {k}");
            }
        }
    }

    #[test]
    fn all_moving_at_once_a_ring_of_four_with_two_values_goes_round_in_eight() {
        let graph = Graph::new(4, 2, Daemon::Synchronous);
        let home = graph.rings.iter().position(|ring| ring.flags() == [0, 1, 0, 1]);
        let remain = graph.unsettled();
        let cycle = graph.cycle_from(home.expect("a ring") as u32, &remain, usize::MAX);
        let flags = |&place: &u32| graph.rings[place as usize].flags().to_vec();
        let cycle: Vec<_> = cycle.expect("a cycle").iter().map(flags).collect();
        let golden = ["0101", "0010", "1001", "0100", "1010", "1101", "0110", "1011", "0101"];
        let golden = golden.map(|flags| flags.chars().filter_map(|c| c.to_digit(2)).collect());
        assert_eq!(cycle, golden as [Vec<u32>; 9]);
    }
}
