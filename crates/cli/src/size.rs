//! Whether a system fits into memory, before any of it is made.

use anyhow::Result;
use mutua_algorithms::{About, Partners, QuorumKind, Setup};

use crate::exit::usage;

/// Process, client and their places in the queue of events, generously.
const PER_PROCESS: f64 = 600.0;
/// What a process keeps of another one, and the message that is under way between the two.
const PER_PAIR: f64 = 64.0;
const LIMIT: f64 = 8.0 * GIB;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Refuses a system that is estimated not to fit.
pub(crate) fn check(about: &About, setup: &Setup) -> Result<()> {
    refusal(about, setup, 1).map_or(Ok(()), |why| Err(usage(why)))
}

/// Why a system does not fit where so many are simulated side by side, if so.
pub(crate) fn refusal(about: &About, setup: &Setup, at_once: usize) -> Option<String> {
    let (estimate, limit) = (estimate(about, setup), LIMIT / at_once as f64);
    (estimate > limit).then(|| {
        format!(
            "{} with {} processes would take about {:.0} GiB, the limit is {:.0} GiB; give fewer \
             nodes",
            about.name,
            setup.nodes,
            estimate / GIB,
            limit / GIB,
        )
    })
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
