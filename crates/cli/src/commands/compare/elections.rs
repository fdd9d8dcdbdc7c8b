//! Elections in the comparison: messages and turn-around by size.

use mutua_algorithms::{About, Kind, NodeId, Setup, registry};
use mutua_simulator::{Distribution, ElectionPlan, ElectionReport, Network, elect};

/// One election.
pub(super) struct ElectionRow {
    pub(super) algorithm: &'static str,
    pub(super) nodes: u32,
    pub(super) case: Case,
    /// What it has shown, or why there is nothing.
    pub(super) report: Result<ElectionReport, String>,
}

/// Who starts, and who is down.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    fn starters(self, nodes: u32) -> Vec<NodeId> {
        match self {
            Self::LowestStarts => vec![NodeId(0)],
            Self::NextStarts => vec![NodeId(nodes - 2)],
            Self::AllStart => (0..nodes - 1).map(NodeId).collect(),
        }
    }
}

/// Holds all elections of the comparison, the highest process being down. A message to each is at
/// most N^2 of them, so large systems are left out.
pub(super) fn measure(named: &[&'static About], sizes: &[u32], seed: u64) -> Vec<ElectionRow> {
    let wanted = |about: &&&'static About| {
        about.kind == Kind::Election
            && (named.is_empty() || named.iter().any(|one| one.name == about.name))
    };
    let mut rows = Vec::new();
    for about in registry::ALGORITHMS.iter().filter(wanted) {
        for &nodes in sizes.iter().filter(|nodes| (2..=1000).contains(*nodes)) {
            rows.extend(Case::ALL.map(|case| one(about, nodes, case, seed)));
        }
    }
    rows
}

fn one(about: &'static About, nodes: u32, case: Case, seed: u64) -> ElectionRow {
    let mut setup = Setup::new(nodes);
    setup.crashed = vec![NodeId(nodes - 1)];
    let plan = ElectionPlan {
        setup,
        network: Network::new(Distribution::Constant(1_000_000)),
        starters: case.starters(nodes),
        transmission: None,
        handling: None,
        seed,
    };
    let report = match elect(about.name, &plan, None) {
        Some(report) => report.map_err(|error| error.to_string()),
        None => Err("no such algorithm".to_owned()),
    };
    ElectionRow { algorithm: about.name, nodes, case, report }
}
