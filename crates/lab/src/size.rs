//! Estimates whether a system fits into memory before it is built.

use mutua_algorithms::{About, Partners, QuorumKind, Setup};

/// The bytes of a process, its client and their events, generously.
const PER_PROCESS: f64 = 600.0;
/// The bytes that a process keeps about another one, and of a message between the two.
const PER_PAIR: f64 = 64.0;
const LIMIT: f64 = 8.0 * GIB;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A system whose estimated size exceeds the limit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{algorithm} with {nodes} processes needs about {:.0} GiB, the limit is {:.0} GiB: give \
     fewer nodes",
    estimate / GIB,
    limit / GIB
)]
pub struct TooLarge {
    /// The algorithm.
    pub algorithm: &'static str,
    /// How many processes contend.
    pub nodes: u32,
    /// The bytes that it needs, about.
    pub estimate: f64,
    /// The bytes that it may use.
    pub limit: f64,
}

/// Refuses a system that is estimated not to fit where `at_once` such systems are simulated at the
/// same time.
pub fn check(about: &About, setup: &Setup, at_once: usize) -> Result<(), TooLarge> {
    let (estimate, limit) = (estimate(about, setup), LIMIT / at_once as f64);
    if estimate <= limit {
        return Ok(());
    }
    Err(TooLarge { algorithm: about.name, nodes: setup.nodes, estimate, limit })
}

fn estimate(about: &About, setup: &Setup) -> f64 {
    let nodes = f64::from(setup.nodes);
    let partners = match about.partners {
        Partners::Few => 0.0,
        Partners::Quorum if setup.quorums != QuorumKind::Majority => 2.0 * nodes.sqrt(),
        Partners::Quorum | Partners::All => nodes,
    };
    nodes * (PER_PROCESS + PER_PAIR * partners)
}
