//! Elections in the comparison: messages and turn-around by size.

use mutua_algorithms::{About, Kind, NodeId, Setup, registry};
use mutua_simulator::{
    Distribution, ElectionPlan, ElectionReport, ElectionTheory, Network, Violation, elect,
    election_theory,
};
use serde::{Deserialize, Serialize};

use super::{
    grid::Effort,
    results::{Measured, OnEvents, Task},
};

/// One election.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ElectionCell {
    /// The algorithm.
    pub algorithm: String,
    /// How many processes there are, the crashed one included.
    pub nodes: u32,
    /// The processes that start it.
    pub case: Case,
}

/// The figures of an election.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ElectionFigures {
    /// Messages sent.
    pub messages: Option<u64>,
    /// The same, a multicast counting as one.
    pub multicasts: Option<u64>,
    /// From the first start until all processes that are up know the coordinator, in mean
    /// latencies.
    pub turnaround: Option<f64>,
    /// The process that was elected.
    pub elected: Option<u32>,
    /// The violations, in words.
    pub violations: Vec<String>,
    /// How many events it had.
    pub events: u64,
    /// Why it was not measured, if it was not.
    pub refused: Option<String>,
}

/// An election with its figures.
pub type ElectionRow = Measured<ElectionCell, ElectionFigures>;

/// Larger elections are left out, since they may need N^2 messages.
pub const LARGEST: u32 = 1000;

/// The processes that start the election; the highest is down in every case.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// The lowest process starts: the worst case of algorithms that ask higher processes.
    LowestStarts,
    /// The second highest process starts: their best case.
    NextStarts,
    /// All processes that are up start at once.
    AllStart,
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LowestStarts, Self::NextStarts, Self::AllStart];

    /// The text in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::LowestStarts => "the lowest starts",
            Self::NextStarts => "the second highest starts",
            Self::AllStart => "all start",
        }
    }

    /// The text in plots, which is shorter.
    pub fn name(self) -> &'static str {
        match self {
            Self::LowestStarts => "lowest starts",
            Self::NextStarts => "2nd highest starts",
            Self::AllStart => "all start",
        }
    }

    fn starters(self, nodes: u32) -> Vec<NodeId> {
        match self {
            Self::LowestStarts => vec![NodeId(0)],
            Self::NextStarts => vec![NodeId(nodes - 2)],
            Self::AllStart => (0..nodes - 1).map(NodeId).collect(),
        }
    }
}

/// All elections of the comparison, the highest process being down.
pub(super) fn cells(named: &[&'static About], sizes: &[u32]) -> Vec<ElectionCell> {
    let wanted = |about: &&&'static About| {
        about.kind == Kind::Election
            && (named.is_empty() || named.iter().any(|one| one.name == about.name))
    };
    let mut cells = Vec::new();
    for about in registry::ALGORITHMS.iter().filter(wanted) {
        for &nodes in sizes.iter().filter(|nodes| (2..=LARGEST).contains(*nodes)) {
            let algorithm = about.name;
            cells.extend(Case::ALL.map(|case| {
                let algorithm = algorithm.to_owned();
                ElectionCell { algorithm, nodes, case }
            }));
        }
    }
    cells
}

impl Task for ElectionCell {
    type Figures = ElectionFigures;

    // Elections of so few processes fit into any memory.
    fn measure(&self, effort: &Effort, _: u64, _: &OnEvents<'_>) -> ElectionFigures {
        let refused = match elect(&self.algorithm, &self.plan(effort.seed), None) {
            Some(Ok(report)) => return ElectionFigures::of(&report),
            Some(Err(error)) => error.to_string(),
            None => "unknown algorithm".to_owned(),
        };
        ElectionFigures { refused: Some(refused), ..ElectionFigures::default() }
    }

    fn is_measured(figures: &ElectionFigures) -> bool {
        figures.refused.is_none()
    }

    fn title(&self) -> String {
        format!("{} of {}", self.algorithm, self.nodes)
    }
}

impl ElectionFigures {
    fn of(report: &ElectionReport) -> Self {
        let words = |one: &Violation| format!("{}: {}", one.property.name(), one.what);
        Self {
            messages: Some(report.messages),
            multicasts: Some(report.multicasts),
            turnaround: report.turnaround,
            elected: report.elected,
            violations: report.violations.iter().map(words).collect(),
            events: report.events,
            refused: None,
        }
    }
}

impl ElectionCell {
    /// The run to simulate, with the highest process down.
    fn plan(&self, seed: u64) -> ElectionPlan {
        let mut setup = Setup::new(self.nodes);
        setup.crashed = vec![NodeId(self.nodes - 1)];
        ElectionPlan {
            setup,
            network: Network::new(Distribution::Constant(1_000_000)),
            starters: self.case.starters(self.nodes),
            transmission: None,
            handling: None,
            seed,
        }
    }

    /// Its expected figures.
    pub fn theory(&self) -> ElectionTheory {
        // They do not depend on the seed.
        election_theory(&self.algorithm, &self.plan(0))
    }
}
