//! The choice of an algorithm for a situation: every candidate simulated and ranked, with reasons.

mod candidates;
mod crashes;
mod rank;
pub mod reasons;
mod repaired;

use mutua_simulator::{Network, Workload};

pub use self::{
    candidates::{Candidate, Excluded},
    rank::{EQUAL, Progress, RankError, Ranked, Ranking},
    repaired::DETECTION,
};

/// The criterion of a ranking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum By {
    /// The mean time from request to entry.
    Wait,
    /// The 99th percentile of the time from request to entry.
    Tail,
    /// Messages per entry.
    Messages,
    /// Messages between regions per entry.
    Far,
}

/// A situation in which every candidate is simulated.
#[derive(Clone, Debug)]
pub struct Situation {
    /// How many processes contend.
    pub nodes: u32,
    /// The sizes of the regions; empty for a single region.
    pub regions: Vec<u32>,
    /// The network.
    pub network: Network,
    /// The behaviour of the clients.
    pub workload: Workload,
    /// Whether requests must be granted in the order in which they happened (EM3).
    pub ordered: bool,
    /// Whether candidates are ranked by what the crash of a process costs, with its repair.
    pub may_fail: bool,
    /// The criterion.
    pub by: By,
    /// How many entries each run measures.
    pub entries: u64,
    /// How many runs there are of each candidate, a seed each.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
}

impl Situation {
    /// The first process of every region.
    fn hubs(&self) -> Vec<u32> {
        let mut first = 0;
        let starts = self.regions.iter().map(|size| {
            let start = first;
            first += size;
            start
        });
        starts.collect()
    }

    /// Whether processes crash, or may.
    pub fn has_crashes(&self) -> bool {
        self.may_fail || !self.network.outages.is_empty()
    }

    /// Whether crashes are repaired, so that candidates are ranked by what that costs.
    pub fn has_repairs(&self) -> bool {
        repaired::applies(self)
    }

    /// Whether some messages go from one region to another.
    pub fn has_regions(&self) -> bool {
        self.regions.len() > 1
    }
}
