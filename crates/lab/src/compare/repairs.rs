//! Repairs in the comparison: messages and time of the repair after one crash, by size.

use mutua_algorithms::{About, Kind, NodeId, Setup, StartError, registry, repairs::ElectionName};
use mutua_simulator::{
    ChosenCrash, Detector, Distribution, Network, Outage, Plan, RepairPlan, RepairReport, Victim,
    Workload, simulate_repaired,
};
use serde::{Deserialize, Serialize};

use super::{
    elections::LARGEST,
    grid::Effort,
    results::{Measured, OnEvents, Task},
};
use crate::size::{self, Run, TooLarge};

/// The repair of one system after the crash of one process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RepairCell {
    /// The algorithm.
    pub algorithm: String,
    /// How many processes contend.
    pub nodes: u32,
    /// The algorithm's own repair where that suffices; else a view change.
    pub special: bool,
}

/// The figures of a repair.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct RepairFigures {
    /// Messages of the election.
    pub election: Option<u64>,
    /// Other messages of the repair.
    pub repair: Option<u64>,
    /// From the first report of the crash until the last survivor went on, in latencies.
    pub time: Option<f64>,
    /// Requests of survivors that were never granted.
    pub lost: u64,
    /// The violations, in words.
    pub violations: Vec<String>,
    /// How many events the run had.
    pub events: u64,
    /// Why it was not measured, if it was not.
    pub refused: Option<String>,
}

/// A repair with its figures.
pub type RepairRow = Measured<RepairCell, RepairFigures>;

/// The latency of messages and the hold time.
const LATENCY: u64 = 1_000_000;
/// When the process crashes: after a message has visited all processes twice. Before the first
/// round ends, the process before the gap of a ring may have passed nothing to pass again.
const CRASH_AFTER_ROUNDS: u64 = 2;
/// Reports come so long after the crash.
const DETECTION: u64 = 5 * LATENCY;
/// Few entries are enough to see that the survivors go on.
const ENTRIES: u64 = 10;

/// All repairs of the comparison.
pub(super) fn cells(mutexes: &[&'static About], sizes: &[u32]) -> Vec<RepairCell> {
    let mut cells = Vec::new();
    for about in mutexes.iter().filter(|about| about.kind == Kind::Mutex && !about.control) {
        for &nodes in sizes.iter().filter(|nodes| (3..=LARGEST).contains(*nodes)) {
            let algorithm = || about.name.to_owned();
            cells.extend([false, true].map(|special| RepairCell {
                algorithm: algorithm(),
                nodes,
                special,
            }));
        }
    }
    cells
}

impl Task for RepairCell {
    type Figures = RepairFigures;

    fn measure(&self, effort: &Effort, memory: u64, watch: &OnEvents<'_>) -> RepairFigures {
        match self.simulate(effort, memory) {
            Ok(report) => {
                watch(report.report.events);
                RepairFigures::of(&report)
            }
            Err(why) => {
                RepairFigures { refused: Some(why.to_string()), ..RepairFigures::default() }
            }
        }
    }

    fn is_measured(figures: &RepairFigures) -> bool {
        figures.refused.is_none()
    }

    fn title(&self) -> String {
        format!("repair of {} of {}", self.algorithm, self.nodes)
    }
}

/// Why the repair of a system was not measured.
#[derive(Debug, thiserror::Error)]
enum RepairError {
    #[error("unknown algorithm")]
    Unknown,
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl RepairCell {
    /// `generic` or `special`.
    pub fn kind(&self) -> &'static str {
        if self.special { "special" } else { "generic" }
    }

    fn simulate(&self, effort: &Effort, memory: u64) -> Result<RepairReport, RepairError> {
        let about = registry::about(&self.algorithm).ok_or(RepairError::Unknown)?;
        let plan = self.plan(about, effort);
        size::check(about, &plan.plan.setup, Run::repaired(&plan), memory)?;
        let report = simulate_repaired(about.name, &plan, None).ok_or(RepairError::Unknown)?;
        Ok(report?)
    }

    /// One process in the middle crashes; of a coordinator and its clients, the coordinator.
    fn plan(&self, about: &About, effort: &Effort) -> RepairPlan {
        let mut network = Network::new(Distribution::Constant(LATENCY));
        let mut chosen = Vec::new();
        let from = CRASH_AFTER_ROUNDS * u64::from(self.nodes) * LATENCY;
        if about.options.iter().any(|option| option.key == "coordinator") {
            chosen.push(ChosenCrash { victim: Victim::Coordinator, from, until: None });
        } else {
            network.outages.push(Outage { node: NodeId(self.nodes / 2), from, until: None });
        }
        let hold = Distribution::Constant(LATENCY);
        let workload = Workload::light(self.nodes, LATENCY as f64, hold);
        let mut plan = Plan::new(Setup::new(self.nodes), network, workload, ENTRIES);
        plan.warm_up = Some(0);
        plan.seed = effort.seed;
        plan.max_events = effort.max_events;
        RepairPlan {
            plan,
            election: ElectionName::ChangRoberts,
            special: self.special,
            chosen,
            detector: Detector::Perfect(Distribution::Constant(DETECTION)),
            transmission: None,
            handling: None,
            gap_at: None,
        }
    }
}

impl RepairFigures {
    fn of(report: &RepairReport) -> Self {
        let sent = |purpose| report.messages_by_purpose.get(purpose).map_or(0, total);
        let total_of = |purpose| report.repairs.first().map(|_| sent(purpose));
        let words =
            |one: &mutua_simulator::Violation| format!("{}: {}", one.property.name(), one.what);
        Self {
            election: total_of("election"),
            repair: total_of("repair"),
            time: report.repairs.first().map(|repaired| {
                (repaired.resumed_at - repaired.suspended_at) as f64 / LATENCY as f64
            }),
            lost: report.requests_lost,
            violations: report.report.violations.iter().map(words).collect(),
            events: report.report.events,
            refused: None,
        }
    }

    /// All messages of the repair.
    pub fn messages(&self) -> Option<u64> {
        Some(self.election? + self.repair?)
    }
}

fn total(kinds: &std::collections::BTreeMap<&'static str, u64>) -> u64 {
    kinds.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(algorithm: &str, nodes: u32, special: bool) -> RepairFigures {
        let cell = RepairCell { algorithm: algorithm.to_owned(), nodes, special };
        let figures = cell.measure(&Effort::default(), u64::MAX, &|_| ());
        assert!(figures.refused.is_none() && figures.violations.is_empty(), "{figures:?}");
        assert_eq!(figures.lost, 0, "{algorithm}");
        figures
    }

    #[test]
    fn a_view_change_costs_messages_in_proportion_to_the_survivors() {
        for nodes in [10, 40] {
            let survivors = u64::from(nodes) - 1;
            let figures = figures("naimi-trehel", nodes, false);
            assert_eq!(figures.repair, Some(2 * (survivors - 1)), "{nodes}");
            let election = figures.election.expect("an election");
            assert!(election <= 3 * survivors, "{nodes}: {election}");
        }
    }

    /// Also where the token has passed the gap only once before the crash.
    #[test]
    fn a_ring_closes_with_one_message_in_every_size() {
        for algorithm in ["le-lann", "dijkstra"] {
            for nodes in [3, 10, 300] {
                let messages = figures(algorithm, nodes, true).messages();
                assert_eq!(messages, Some(1), "{algorithm} {nodes}");
            }
        }
    }

    #[test]
    fn a_special_repair_costs_none_or_the_square_root() {
        assert_eq!(figures("ricart-agrawala", 25, true).messages(), Some(0));
        // K is 2 sqrt(N) - 1 on a grid; the process that takes over may be one that requests.
        let messages = figures("maekawa", 100, true).messages().expect("a takeover");
        assert!((17..=18).contains(&messages), "{messages}");
    }
}
