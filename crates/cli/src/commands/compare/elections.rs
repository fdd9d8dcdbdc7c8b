//! Elections in the comparison: messages and turn-around by size.

use mutua_algorithms::{About, Kind, NodeId, Setup, registry};
use mutua_simulator::{
    Distribution, ElectionPlan, ElectionReport, ElectionTheory, Network, Violation, elect,
    election_theory,
};
use serde::{Deserialize, Serialize};

use super::{
    grid::Effort,
    results::{Measured, Task},
};

/// One election.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ElectionCell {
    pub(super) algorithm: String,
    pub(super) nodes: u32,
    pub(super) case: Case,
}

/// What it has shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct ElectionFigures {
    pub(super) messages: Option<u64>,
    pub(super) multicasts: Option<u64>,
    /// In mean latencies.
    pub(super) turnaround: Option<f64>,
    pub(super) elected: Option<u32>,
    /// What did not hold, in words.
    pub(super) violations: Vec<String>,
    pub(super) events: u64,
    /// Why there is nothing.
    pub(super) refused: Option<String>,
}

pub(super) type ElectionRow = Measured<ElectionCell, ElectionFigures>;

/// Larger elections are left out: a message to each is up to N^2 of them.
pub(super) const LARGEST: u32 = 1000;

/// Who starts, and who is down.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Case {
    /// The lowest notices that the highest is gone: the bully's worst.
    LowestStarts,
    /// The second highest notices that the highest is gone: the bully's best.
    NextStarts,
    /// All notice it at once.
    AllStart,
}

impl Case {
    pub(super) const ALL: [Self; 3] = [Self::LowestStarts, Self::NextStarts, Self::AllStart];

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::LowestStarts => "the lowest starts",
            Self::NextStarts => "the second highest starts",
            Self::AllStart => "all start",
        }
    }

    /// The same, short enough for a plot.
    pub(super) fn name(self) -> &'static str {
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

    fn measure(&self, effort: &Effort) -> ElectionFigures {
        let refused = match elect(&self.algorithm, &self.plan(effort.seed), None) {
            Some(Ok(report)) => return ElectionFigures::of(&report),
            Some(Err(error)) => error.to_string(),
            None => "no such algorithm".to_owned(),
        };
        ElectionFigures { refused: Some(refused), ..ElectionFigures::default() }
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
    /// The highest process is down.
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

    /// What theory says of it.
    pub(super) fn theory(&self) -> ElectionTheory {
        // It speaks of all seeds alike.
        election_theory(&self.algorithm, &self.plan(0))
    }
}
