//! Refuses options that do not apply to the simulated algorithm, instead of ignoring them.

use anyhow::Result;
use mutua_algorithms::{About, registry, self_stabilizing};

use super::Arguments;
use crate::{exit::usage, names};

/// The kind of simulation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Run {
    /// Mutual exclusion by messages.
    Mutex,
    /// An election.
    Election,
    /// Dijkstra's ring under a daemon.
    Daemon,
}

use Run::{Daemon, Election, Mutex};

/// An option, whether it was given, and the kinds of simulation that it applies to.
type Fit = (&'static str, fn(&Arguments) -> bool, &'static [Run]);

const OPTIONS: [Fit; 38] = [
    ("--entries", |given| given.entries.is_some(), &[Mutex]),
    ("--warm-up", |given| given.warm_up.is_some(), &[Mutex]),
    ("--load", |given| given.workload.load.is_some(), &[Mutex]),
    ("--gap", |given| given.workload.gap.is_some(), &[Mutex]),
    ("--requesters", |given| given.workload.requesters.is_some(), &[Mutex]),
    ("--hold", |given| given.workload.hold.is_some(), &[Mutex]),
    ("--requests", |given| !given.workload.requests.is_empty(), &[Mutex]),
    ("--sections", |given| given.sections.is_some(), &[Mutex]),
    ("--against", |given| given.against.is_some(), &[Mutex]),
    ("--precision", |given| given.precision.is_some(), &[Mutex]),
    ("--app-messages", |given| given.app_messages.is_some(), &[Mutex]),
    ("--order", |given| given.order, &[Mutex]),
    ("--property", |given| !given.properties.is_empty(), &[Mutex]),
    ("--shrink", |given| given.shrink, &[Mutex]),
    ("--per-node", |given| given.per_node, &[Mutex]),
    ("--in-cs", |given| given.system.in_cs, &[Mutex]),
    ("--holder", |given| given.system.holder != 0, &[Mutex]),
    ("--pace", |given| given.network.pace > 0, &[Mutex]),
    ("--trace", |given| given.trace.is_some(), &[Mutex, Election]),
    ("--diagram", |given| given.picture.diagram.is_some(), &[Mutex, Election]),
    ("--latency", |given| given.network.latency.is_some(), &[Mutex, Election]),
    ("--regions", |given| !given.network.regions.is_empty(), &[Mutex, Election]),
    ("--matrix", |given| given.network.matrix.is_some(), &[Mutex, Election]),
    ("--reorder", |given| given.network.reorder, &[Mutex, Election]),
    ("--loss", |given| given.network.loss != 0.0, &[Mutex, Election]),
    ("--duplication", |given| given.network.duplication != 0.0, &[Mutex, Election]),
    ("--partition", |given| !given.network.partition.is_empty(), &[Mutex, Election]),
    ("--crash", |given| !given.network.crash.is_empty(), &[Mutex, Election]),
    ("--repair", |given| given.repair.is_some(), &[Mutex]),
    ("--election", |given| given.election.is_some(), &[Mutex]),
    ("--detector", |given| given.detector.is_some(), &[Mutex]),
    ("--starters", |given| given.starters.is_some(), &[Election]),
    ("--crashed", |given| !given.crashed.is_empty(), &[Election]),
    ("--transmission", |given| given.transmission.is_some(), &[Election]),
    ("--handling", |given| given.handling.is_some(), &[Election]),
    ("--ring", |given| given.ring.is_some(), &[Election]),
    ("--flags", |given| given.flags.is_some(), &[Daemon]),
    ("--max-steps", |given| given.max_steps.is_some(), &[Daemon]),
];

/// Options of a workload, which an election replaces by others.
const WORKLOAD: [&str; 7] =
    ["--entries", "--warm-up", "--load", "--gap", "--requesters", "--hold", "--requests"];

/// Refuses the first option that does not apply, and tells which one does.
pub(super) fn refuse(arguments: &Arguments, about: &About, run: Run) -> Result<()> {
    let unfit = OPTIONS.iter().find(|(_, given, fits)| given(arguments) && !fits.contains(&run));
    let Some((option, _, fits)) = unfit else { return Ok(()) };
    let name = about.name;
    Err(usage(match (run, fits) {
        (_, [Daemon]) => {
            let names = names::list(registry::ALGORITHMS, About::is_self_stabilizing);
            let daemons = self_stabilizing::Daemon::settings_listed();
            format!("{option} applies to {names} --with {daemons}")
        }
        (Daemon, _) => format!(
            "{option} does not apply to a daemon, which runs without messages until the ring is \
             legitimate: use daemon=messages"
        ),
        (Election, _) if WORKLOAD.contains(option) => format!(
            "{option} does not apply to {name}: an election takes --starters and --crashed instead"
        ),
        (Election, _) => {
            format!("{option} does not apply to {name}: an election has no critical section")
        }
        (Mutex, _) => format!(
            "{option} applies to elections, not to {name}; use --crash ID@TIME to crash a process"
        ),
    }))
}
