//! A self-stabilizing ring under a daemon: flags that neighbours read directly, from any start
//! until just one process is privileged. There are no messages, so steps are counted instead of
//! time.

use mutua_algorithms::{
    About, Claim, NodeId, Setup, StartError,
    self_stabilizing::{self, Daemon, Ring},
};
use serde::Serialize;

use crate::{Random, Violation, hash::TraceHash};

/// A ring to simulate.
#[derive(Clone, Debug)]
pub struct RingPlan {
    /// The self-stabilizing algorithm.
    pub about: &'static About,
    /// The system; its option `daemon` selects the processes that may move at once.
    pub setup: Setup,
    /// The flags at the start; drawn by the seed if none are given.
    pub flags: Option<Vec<u32>>,
    /// A ring that has not settled after so many steps counts as one that never does; by default
    /// several times what any daemon needs.
    pub max_steps: Option<u64>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The result of a run of a ring.
#[derive(Clone, Debug, Serialize)]
pub struct RingReport {
    /// The algorithm.
    pub algorithm: &'static str,
    /// How many processes there are.
    pub nodes: u32,
    /// How many values a flag has.
    pub k: u32,
    /// The seed.
    pub seed: u64,
    /// The flags at the start.
    pub flags: Vec<u32>,
    /// Steps of the daemon until the ring was legitimate; none if it never was.
    pub settling_steps: Option<u64>,
    /// Whether it settled.
    pub settled: bool,
    /// Critical sections until then: every move ends one.
    pub entries: u64,
    /// The most that were privileged at once.
    pub most_privileged: u64,
    /// The violation, if the ring did not settle.
    pub violations: Vec<Violation>,
    /// Moves of processes.
    pub events: u64,
    /// Equal for equal runs.
    pub trace_hash: String,
}

/// Runs a ring until it has settled, or for as many steps as it may take.
pub fn settle(plan: &RingPlan) -> Result<RingReport, StartError> {
    let (daemon, ring) = plan.begin()?;
    let run = Run {
        daemon,
        random: Random::new(plan.seed, 5),
        flags: ring.flags().to_vec(),
        landmark: (0, ring.clone()),
        ring,
        steps: 0,
        moves: 0,
        most_privileged: 0,
        hash: TraceHash::new(),
    };
    Ok(run.run(plan))
}

impl RingPlan {
    /// The daemon and the ring with its first flags.
    fn begin(&self) -> Result<(Daemon, Ring), StartError> {
        let begun = self_stabilizing::begin(self.about, &self.setup)?;
        let (daemon, ring) = begun.ok_or_else(|| {
            StartError::new(format!("no daemon; choose {}", Daemon::settings_listed()))
        })?;
        let flags = match &self.flags {
            Some(flags) => flags.clone(),
            None => {
                let (mut random, k) = (Random::new(self.seed, 4), ring.k());
                let mut flag = |_| u32::try_from(random.below(k.into())).expect("it is below k");
                ring.flags().iter().map(&mut flag).collect()
            }
        };
        Ok((daemon, ring.with_flags(&flags)?))
    }

    /// Any daemon needs at most about 3N^2/2 steps where it settles for sure.
    fn max_steps(&self) -> u64 {
        let nodes = u64::from(self.setup.nodes);
        self.max_steps.unwrap_or_else(|| (10 * nodes).saturating_mul(nodes).saturating_add(1000))
    }
}

struct Run {
    daemon: Daemon,
    random: Random,
    /// The flags at the start.
    flags: Vec<u32>,
    ring: Ring,
    /// A step and the ring then: to meet it again without choice is to meet it for ever.
    landmark: (u64, Ring),
    steps: u64,
    moves: u64,
    most_privileged: u64,
    hash: TraceHash,
}

impl Run {
    fn run(mut self, plan: &RingPlan) -> RingReport {
        let mut circle = None;
        loop {
            let privileged: Vec<_> = self.ring.privileged().collect();
            self.most_privileged = self.most_privileged.max(privileged.len() as u64);
            if privileged.len() == 1 || self.steps >= plan.max_steps() || circle.is_some() {
                return self.report(plan, &privileged, circle);
            }
            self.step(privileged);
            circle = self.circle();
        }
    }

    fn step(&mut self, mut privileged: Vec<NodeId>) {
        match self.daemon {
            Daemon::Synchronous => {}
            Daemon::Central => privileged = vec![self.one_of(&privileged)],
            Daemon::Distributed => {
                let spare = self.one_of(&privileged);
                privileged.retain(|_| self.random.chance(0.5));
                if privileged.is_empty() {
                    privileged.push(spare);
                }
            }
        }
        self.ring = self.ring.step(&privileged);
        self.steps += 1;
        self.moves += privileged.len() as u64;
        for mover in privileged {
            let flag = self.ring.flags()[mover.index()];
            self.hash.add([self.steps, 6 << 32 | u64::from(mover.0), flag.into(), 0]);
        }
    }

    fn one_of(&mut self, nodes: &[NodeId]) -> NodeId {
        let index = self.random.below(nodes.len() as u64);
        nodes[usize::try_from(index).expect("it is below a length")]
    }

    /// The length of the circle in which a ring without choice goes round; landmarks ever farther
    /// apart find any (Brent).
    fn circle(&mut self) -> Option<u64> {
        if self.daemon != Daemon::Synchronous {
            return None;
        }
        if self.landmark.1 == self.ring {
            return Some(self.steps - self.landmark.0);
        }
        if self.steps.is_power_of_two() {
            self.landmark = (self.steps, self.ring.clone());
        }
        None
    }

    fn report(self, plan: &RingPlan, privileged: &[NodeId], circle: Option<u64>) -> RingReport {
        let settled = privileged.len() == 1;
        let violation = || {
            let count = privileged.len();
            let what = match circle {
                None => format!("{count} are privileged after {} steps", self.steps),
                Some(length) => {
                    format!("{count} are privileged, and the flags repeat every {length} steps")
                }
            };
            let (property, seed) = (Claim::Convergence, plan.seed);
            let (at, event, node) = (self.steps, self.moves, privileged[0].0);
            Violation { property, seed, at, event, node, what }
        };
        RingReport {
            algorithm: plan.about.name,
            nodes: plan.setup.nodes,
            k: self.ring.k(),
            seed: plan.seed,
            settling_steps: settled.then_some(self.steps),
            settled,
            entries: self.moves,
            most_privileged: self.most_privileged,
            violations: (!settled).then(violation).into_iter().collect(),
            events: self.moves,
            trace_hash: self.hash.text(),
            flags: self.flags,
        }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::registry;

    use super::*;

    fn plan(nodes: u32, daemon: &str, k: &str) -> RingPlan {
        let setup = Setup::new(nodes).with("daemon", daemon).with("k", k);
        let about = registry::about("dijkstra").expect("a self-stabilizing algorithm");
        RingPlan { about, setup, flags: None, max_steps: None, seed: 1 }
    }

    #[test]
    fn every_daemon_settles_from_any_start_with_values_enough() {
        for daemon in ["central", "distributed", "synchronous"] {
            for seed in 1..=50 {
                let report = settle(&RingPlan { seed, ..plan(7, daemon, "auto") }).unwrap();
                assert!(report.settled, "{daemon}, seed {seed}: {report:?}");
                assert_eq!(report.violations, []);
                assert!(report.settling_steps <= Some(3 * 49 / 2), "{daemon}, seed {seed}");
            }
        }
    }

    #[test]
    fn two_values_for_four_that_all_move_at_once_never_settle() {
        let flags = Some(vec![0, 1, 0, 1]);
        let report = settle(&RingPlan { flags, ..plan(4, "synchronous", "2") }).unwrap();
        assert_eq!((report.settled, report.settling_steps), (false, None));
        assert_eq!(report.violations[0].property, Claim::Convergence);
        assert!(report.violations[0].what.contains("every 8 steps"), "{:?}", report.violations);
    }

    #[test]
    fn a_legitimate_start_needs_no_step_and_a_seed_gives_the_same_run_twice() {
        let flags = Some(vec![1, 1, 0, 0]);
        assert_eq!(
            settle(&RingPlan { flags, ..plan(4, "central", "auto") }).unwrap().settling_steps,
            Some(0)
        );
        let hash =
            |seed| settle(&RingPlan { seed, ..plan(9, "distributed", "auto") }).unwrap().trace_hash;
        assert_eq!(hash(3), hash(3));
        assert_ne!(hash(3), hash(4));
    }

    #[test]
    fn flags_that_do_not_fit_are_refused() {
        let refusal = |flags: &[u32]| {
            settle(&RingPlan { flags: Some(flags.to_vec()), ..plan(3, "central", "3") })
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refusal(&[0, 1]), "2 flags for 3 processes; give one each");
        assert_eq!(refusal(&[0, 1, 3]), "a flag of 3; with k=3 they are 0 to 2");
    }
}
