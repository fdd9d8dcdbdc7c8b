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
    Ok(Some(settles(about, task, host, ring.k(), daemon)))
}

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
        stopped: None,
        covered: None,
        reductions: Vec::new(),
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
    Trail { steps, cycle: Some(0), last: Vec::new(), flags }
}
