//! A task: its algorithm, and the properties that are checked of it.

use mutua_algorithms::{About, Claim, Kind, NodeId, registry};

use super::Task;
use crate::{
    evidence::CheckError,
    ghost::Ghost,
    model::{Build, MOST_PROCESSES, Model},
    system::Timers,
};

impl Task {
    /// The algorithm, if it is known and the system is small enough to be explored. Nothing of a
    /// system is made before: any number of processes may be given.
    pub(crate) fn algorithm(&self) -> Result<&'static About, CheckError> {
        let about = registry::about(&self.name)
            .ok_or_else(|| CheckError::UnknownAlgorithm { name: self.name.clone() })?;
        let (setup, most) = (&self.system.setup, MOST_PROCESSES);
        let contenders = setup.nodes as usize;
        let processes =
            if contenders > most { contenders } else { setup.processes(about) as usize };
        if processes > most {
            return Err(CheckError::TooManyProcesses { processes, most });
        }
        let (entries, most) = (self.system.entries, u8::MAX.into());
        if entries > most {
            return Err(CheckError::TooManyEntries { entries, most });
        }
        Ok(about)
    }

    /// How many processes there are, a dedicated coordinator included.
    pub fn processes(&self) -> Result<usize, CheckError> {
        self.algorithm()?;
        let build = Build::plain(Ghost::None);
        Ok(Model::new(&self.name, &self.system, build)?.processes)
    }
}

/// All that can be checked of an algorithm of this kind, but for a self-stabilizing ring under a
/// daemon.
pub fn checkable(kind: Kind) -> &'static [Claim] {
    match kind {
        Kind::Mutex => &[
            Claim::MutualExclusion,
            Claim::DeadlockFree,
            Claim::Liveness,
            Claim::Fencing,
            Claim::Ordering,
            Claim::BoundedBypass,
        ],
        Kind::Election => &[Claim::Agreement, Claim::Termination],
    }
}

/// The properties of an algorithm with a repair: one leader in each view beside the algorithm's.
const REPAIRED: [Claim; 5] = [
    Claim::MutualExclusion,
    Claim::DeadlockFree,
    Claim::Liveness,
    Claim::Agreement,
    Claim::Fencing,
];

/// The properties that are checked by default.
pub(crate) fn properties(task: &Task, about: &About) -> Vec<Claim> {
    if let Some(properties) = &task.properties {
        return properties.clone();
    }
    if task.system.repair.is_some() {
        return REPAIRED.to_vec();
    }
    let expected: &[Claim] = match about.kind {
        Kind::Mutex => {
            &[Claim::MutualExclusion, Claim::DeadlockFree, Claim::Liveness, Claim::Fencing]
        }
        Kind::Election => &[Claim::Agreement, Claim::Termination],
    };
    let mut wanted = if about.control { expected.to_vec() } else { Vec::new() };
    let expected = wanted.clone();
    wanted.extend(about.claims.iter().filter(|&claim| !expected.contains(claim)));
    // Convergence is a matter of the ring under a daemon, not of processes and messages.
    wanted.retain(|&claim| claim != Claim::Convergence);
    wanted
}

/// Refuses a property that no search judges.
pub(super) fn refuse_unchecked(task: &Task, about: &About) -> Result<(), CheckError> {
    let mut known = checkable(about.kind).to_vec();
    known.extend(task.system.repair.map(|_| Claim::Agreement));
    match task.properties.iter().flatten().find(|claim| !known.contains(claim)) {
        None => Ok(()),
        Some(claim) => {
            let known: Vec<_> = known.into_iter().map(Claim::name).collect();
            let (property, known) = (claim.name(), known.join(", "));
            Err(CheckError::NotChecked { property, known })
        }
    }
}

/// Refuses what would have no effect on a system of processes and messages.
pub(super) fn refuse_unread(task: &Task, about: &About) -> Result<(), CheckError> {
    let Task { system, .. } = task;
    let setup = &system.setup;
    let is_mutex = about.kind == Kind::Mutex;
    let is_repaired = system.repair.is_some();
    let ordering = properties(task, about).contains(&Claim::Ordering);
    let unread = [
        (
            "processes that are crashed from the start",
            "to mutual exclusion: let a number of processes crash instead",
            is_mutex && !setup.crashed.is_empty(),
        ),
        (
            "timers",
            "to mutual exclusion without a repair: leave them out",
            is_mutex && !is_repaired && system.timers != Timers::Bounded,
        ),
        (
            "holders",
            "to an election: leave them out",
            !is_mutex && (setup.in_cs || setup.holder != NodeId(0)),
        ),
        ("repairs", "to an election: leave them out", !is_mutex && is_repaired),
        (
            "messages of the application",
            "where the order of requests is not checked: leave them out, or check ordering",
            system.app_messages != 1 && !ordering,
        ),
    ];
    match unread.into_iter().find(|&(.., given)| given) {
        None => Ok(()),
        Some((what, here, _)) => Err(CheckError::Unread { what, here }),
    }
}
