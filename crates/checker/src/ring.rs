//! A self-stabilizing ring under a daemon: does it settle, whatever the flags at the start?
//!
//! [`Convergence`] searches the states; this is its report and its counterexample.

use mutua_algorithms::{
    About, Claim, NodeId, StartError, Value, registry,
    self_stabilizing::{self, Convergence, Cycle, Daemon, Ring},
};

use crate::{
    check::{Report, Search, Task, Verdict},
    evidence::CheckError,
    host::{Host, Watch},
    system::Timers,
    trail::{Happening, Trail, What},
};

impl Task {
    /// Whether it is about a ring under a daemon, of which only convergence is checked.
    pub fn has_daemon(&self) -> bool {
        let about = registry::about(&self.name);
        about.is_some_and(|about| Daemon::of(about, &self.system.setup.settings).is_some())
    }

    /// What it asks for that the search of a ring does not look at, which has flags and moves only.
    fn unread_under_a_daemon(&self) -> Option<&'static str> {
        let Self { system, limits, .. } = self;
        let (setup, faults) = (&system.setup, system.faults);
        let other = |claim: &Claim| *claim != Claim::Convergence;
        let unread = [
            ("other properties", self.properties.iter().flatten().any(other)),
            ("invariants", !self.invariants.is_empty()),
            ("numbers of entries", system.entries != 1),
            ("contenders", system.contenders.is_some()),
            ("orders of links", system.links.is_some()),
            ("timers", system.timers != Timers::Bounded),
            ("crashes", faults.crashes > 0 || !setup.crashed.is_empty()),
            ("restarts", faults.restarts > 0),
            ("losses", faults.losses > 0),
            ("duplicates", faults.duplicates > 0),
            ("messages of the application", system.app_messages != 1),
            ("repairs", system.repair.is_some()),
            ("holders", setup.in_cs || setup.holder != NodeId(0)),
            ("limits of states", limits.states.is_some()),
            ("limits of memory", limits.bytes.is_some()),
            ("limits of time", limits.seconds.is_some()),
            ("limits of depth", limits.depth.is_some()),
            ("delays", limits.delays.is_some()),
            ("random walks", self.walks.is_some()),
        ];
        unread.into_iter().find(|(_, given)| *given).map(|(what, _)| what)
    }
}

/// Checks the ring, if the task is about one under a daemon.
pub(crate) fn check(task: &Task, host: &mut dyn Host) -> Result<Option<Report>, CheckError> {
    let Some(about) = registry::about(&task.name) else { return Ok(None) };
    if task.has_daemon()
        && let Some(what) = task.unread_under_a_daemon()
    {
        return Err(CheckError::Unread { what, here: HERE });
    }
    let Some((daemon, ring)) = self_stabilizing::begin(about, &task.system.setup)? else {
        return Ok(None);
    };
    let (nodes, k) = (task.system.setup.nodes, ring.k());
    let bytes = Convergence::estimate(nodes, k, daemon);
    if bytes > MOST_BYTES {
        let why = format!(
            "a ring of {nodes} with K = {k} has {k}^{nodes} states, for which this search needs \
             about {:.0} GiB, more than {:.0}: use fewer processes",
            bytes / GIB,
            MOST_BYTES / GIB
        );
        return Err(StartError::new(why).into());
    }
    Ok(Some(settles(about, task, host, k, daemon)))
}

/// The system in which other parts of a task have no effect.
const HERE: &str = "under a daemon, where only convergence is checked: leave them out, or use \
                    --with daemon=messages";

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
        stored: graph.states() as u64,
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
