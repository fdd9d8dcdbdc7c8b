//! Options that mean nothing to what is simulated are refused: they would only seem to be taken.

use anyhow::Result;
use mutua_algorithms::About;

use super::Arguments;
use crate::exit::usage;

/// What is simulated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Run {
    /// Mutual exclusion by messages.
    Mutex,
    /// An election.
    Election,
    /// Dijkstra's ring of flags that are read directly.
    Daemon,
}

use Run::{Daemon, Election, Mutex};

/// An option, whether it was given, and what it is for.
type Fit = (&'static str, fn(&Arguments) -> bool, &'static [Run]);

const OPTIONS: [Fit; 32] = [
    ("--entries", |given| given.entries.is_some(), &[Mutex]),
    ("--warm-up", |given| given.warm_up.is_some(), &[Mutex]),
    ("--load", |given| given.workload.load.is_some(), &[Mutex]),
    ("--gap", |given| given.workload.gap.is_some(), &[Mutex]),
    ("--who", |given| given.workload.who.is_some(), &[Mutex]),
    ("--hold", |given| given.workload.hold.is_some(), &[Mutex]),
    ("--requests", |given| !given.workload.requests.is_empty(), &[Mutex]),
    ("--tells", |given| given.tells.is_some(), &[Mutex]),
    ("--order", |given| given.order, &[Mutex]),
    ("--property", |given| !given.properties.is_empty(), &[Mutex]),
    ("--shrink", |given| given.shrink, &[Mutex]),
    ("--per-node", |given| given.per_node, &[Mutex]),
    ("--inside", |given| given.system.inside, &[Mutex]),
    ("--holder", |given| given.system.holder != 0, &[Mutex]),
    ("--pace", |given| given.network.pace > 0, &[Mutex]),
    ("--trace", |given| given.trace.is_some(), &[Mutex, Election]),
    ("--diagram", |given| given.diagram.is_some(), &[Mutex, Election]),
    ("--latency", |given| given.network.latency.is_some(), &[Mutex, Election]),
    ("--regions", |given| !given.network.regions.is_empty(), &[Mutex, Election]),
    ("--matrix", |given| given.network.matrix.is_some(), &[Mutex, Election]),
    ("--reorder", |given| given.network.reorder, &[Mutex, Election]),
    ("--loss", |given| given.network.loss != 0.0, &[Mutex, Election]),
    ("--duplication", |given| given.network.duplication != 0.0, &[Mutex, Election]),
    ("--partition", |given| !given.network.partition.is_empty(), &[Mutex, Election]),
    ("--crash", |given| !given.network.crash.is_empty(), &[Mutex, Election]),
    ("--starters", |given| given.starters.is_some(), &[Election]),
    ("--crashed", |given| !given.crashed.is_empty(), &[Election]),
    ("--transmission", |given| given.transmission.is_some(), &[Election]),
    ("--handling", |given| given.handling.is_some(), &[Election]),
    ("--ring", |given| given.ring.is_some(), &[Election]),
    ("--flags", |given| given.flags.is_some(), &[Daemon]),
    ("--max-steps", |given| given.max_steps.is_some(), &[Daemon]),
];

/// Options instead of which an election has others.
const WORKLOAD: [&str; 7] =
    ["--entries", "--warm-up", "--load", "--gap", "--who", "--hold", "--requests"];

/// Refuses the first option that does not fit, and says what would.
pub(super) fn refuse(arguments: &Arguments, about: &About, run: Run) -> Result<()> {
    let unfit = OPTIONS.iter().find(|(_, given, fits)| given(arguments) && !fits.contains(&run));
    let Some((option, _, fits)) = unfit else { return Ok(()) };
    let name = about.name;
    Err(usage(match (run, fits) {
        (_, [Daemon]) => {
            format!("{option} is for dijkstra --with daemon=central, distributed or synchronous")
        }
        (Daemon, _) => format!(
            "{option} does not go with a daemon: it runs until the ring settles, without messages; \
             see daemon=messages"
        ),
        (Election, _) if WORKLOAD.contains(option) => format!(
            "{option} is not for {name}: an election takes --starters and --crashed instead"
        ),
        (Election, _) => format!(
            "{option} is not for {name}: it is about who is in a critical section, and an election \
             has none"
        ),
        (Mutex, _) => format!(
            "{option} is for elections; {name} is none (a process can be stopped by --crash \
             ID@TIME)"
        ),
    }))
}
