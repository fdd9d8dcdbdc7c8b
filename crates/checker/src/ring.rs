//! A self-stabilizing ring under a daemon: does it settle, whatever the flags at the start?
//!
//! [`Convergence`] searches the states; this is its report and its counterexample.

use mutua_algorithms::{
    About, Claim, StartError, Value, registry,
    self_stabilizing::{self, Convergence, Cycle, Daemon, Ring},
};

use crate::{
    check::{Report, Search, Task, Verdict},
    host::{Host, Watch},
    trail::{Happening, Trail, What},
};

/// Checks the ring, if the task is about one under a daemon.
pub(crate) fn check(task: &Task, host: &mut dyn Host) -> Result<Option<Report>, StartError> {
    let Some(about) = registry::about(&task.name) else { return Ok(None) };
    let Some((daemon, ring)) = self_stabilizing::begin(about, &task.system.setup)? else {
        return Ok(None);
    };
    let (nodes, k) = (task.system.setup.nodes, ring.k());
    let bytes = Convergence::estimate(nodes, k, daemon);
    if bytes > MOST_BYTES {
        return Err(StartError::new(format!(
            "a ring of {nodes} with K = {k} has {k}^{nodes} states, for which this search needs \
             about {:.0} GiB, more than {:.0}: use fewer processes",
            bytes / GIB,
            MOST_BYTES / GIB
        )));
    }
    Ok(Some(settles(about, task, host, k, daemon)))
}

/// A search of more is not begun.
const MOST_BYTES: f64 = 8.0 * GIB;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

fn settles(about: &About, task: &Task, host: &mut dyn Host, k: u32, daemon: Daemon) -> Report {
    let mut watch = Watch::start(host, &task.limits);
    let graph = Convergence::new(task.system.setup.nodes, k, daemon);
    let trail = graph.shortest_cycle().map(|cycle| trail(k, cycle));
    let search = Search {
        properties: vec![Claim::Convergence.name().into()],
        states: graph.states() as u64,
        steps: graph.moves() as u64,
        depth: 0,
        seconds: watch.seconds(),
        bytes: graph.bytes(),
        ..Search::default()
    };
    let claims = about.claims_with(&task.system.setup.settings);
    let verdict = Verdict {
        name: Claim::Convergence.name().into(),
        claimed: claims.contains(&Claim::Convergence),
        holds: Some(trail.is_none()),
        trail,
    };
    let settling = graph.longest_settling();
    Report { searches: vec![search], verdicts: vec![verdict], settling, ..Report::default() }
}

/// The counterexample: a run that goes round.
fn trail(k: u32, cycle: Cycle) -> Trail {
    let mut ring = Ring::new(k, cycle.flags.clone());
    let steps = cycle.moves.into_iter().map(|movers| {
        let at = movers[0];
        ring = ring.step(&movers);
        let variables = vec![("flags", Value::list(ring.flags().iter().copied()))];
        let what = What::Move(movers);
        Happening { at, what, down: false, enters: false, elects: None, variables }
    });
    let (steps, flags) = (steps.collect(), Some(cycle.flags));
    Trail { steps, cycle: Some(0), waiting: Vec::new(), last: Vec::new(), flags }
}
