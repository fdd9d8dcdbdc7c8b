//! The fixed table of systems that `mutua check --all` goes through.
//!
//! The systems that hold are taken from the registry: every algorithm, every variant. The negative
//! controls are listed, since each needs its own system to show its violation.

mod controls;
mod repairs;
mod trees;

use std::ops::RangeInclusive;

use mutua_algorithms::{
    About, Claim, Kind, Links, NodeId, Partners, QuorumKind, Setup, Structure, registry,
    self_stabilizing::Daemon,
};

use crate::{
    check::{Reduction, Task},
    invariant::Invariant,
    limits::Limits,
    system::System,
};

/// One line of the table: one or several systems of one algorithm, of which one thing is expected.
#[derive(Clone, Debug)]
pub struct Row {
    /// The systems in words.
    pub title: String,
    /// The systems.
    pub tasks: Vec<Task>,
    /// The property that must be violated; none: all that are checked must hold.
    pub violated: Option<Claim>,
    /// Whether every system of which something was merged is searched a second time with nothing
    /// merged, and the verdicts must be the same.
    pub twice: bool,
}

impl Row {
    /// Whether anything may be merged or left out in its systems; the search reports what was.
    fn may_be_reduced(&self) -> bool {
        let is_mutex = |task: &Task| {
            registry::about(&task.name).is_some_and(|about| about.kind == Kind::Mutex)
        };
        self.violated != Some(Claim::Convergence) && self.tasks.iter().any(is_mutex)
    }

    fn holds(title: impl Into<String>, tasks: Vec<Task>) -> Self {
        Self { title: title.into(), tasks, violated: None, twice: false }
    }
}

/// The small systems: minutes on two cores.
pub fn small() -> Vec<Row> {
    let mut rows = Vec::new();
    for about in registry::ALGORITHMS.iter().filter(|about| !about.control) {
        match about.kind {
            Kind::Mutex => rows.extend(small_mutex(about)),
            Kind::Election => rows.extend(small_election(about)),
        }
        rows.extend(variants(about));
    }
    rows.extend(structures());
    for about in registry::ALGORITHMS.iter().filter(|about| about.is_self_stabilizing()) {
        rows.extend(rings(about, 3..=6));
    }
    rows.extend(registry::ALGORITHMS.iter().filter_map(|about| invariants(about)));
    rows.extend(controls::controls());
    rows.extend(repairs::controls());
    rows
}

/// The invariants that an algorithm states.
fn invariants(about: &About) -> Option<Row> {
    let task = |nodes, entries| {
        let task = plain(about, nodes, entries, &[]);
        Task { invariants: Invariant::stated(about), ..task }
    };
    let title = "invariants: 2 processes, 3 entries each; 3 processes, 1 entry each";
    (!about.invariants.is_empty()).then(|| Row::holds(title, vec![task(2, 3), task(3, 1)]))
}

/// The repairs: a crash, and the restart of the crashed process, at any point.
pub fn repairs() -> Vec<Row> {
    repairs::rows()
}

/// The limits of a system of the deep table: eight gibibytes and ten minutes for each search.
fn deep_limits() -> Limits {
    Limits { bytes: Some(8 << 30), seconds: Some(600.0), give_up: true, ..Limits::default() }
}

/// The rest: what is larger and takes longer, and the small systems a second time with nothing
/// merged.
pub fn deep() -> Vec<Row> {
    let mut rows = Vec::new();
    let mutexes = registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex);
    for about in mutexes.filter(|about| !about.control) {
        let task = |nodes, entries| plain(about, nodes, entries, &about.claims_checked(true));
        rows.push(Row::holds("3 processes, 2 entries each", vec![task(3, 2)]));
        rows.push(Row::holds("4 processes, 1 entry each", vec![task(4, 1)]));
    }
    for task in rows.iter_mut().flat_map(|row| &mut row.tasks) {
        task.limits = deep_limits();
    }
    // Repairs reduce clocks only, and a ring has no end without that.
    let is_repaired = |row: &Row| row.tasks.iter().any(|task| task.system.repair.is_some());
    let twice = small().into_iter().filter(|row| row.may_be_reduced() && !is_repaired(row));
    rows.extend(twice.map(|row| Row { twice: true, ..row }));
    rows
}

/// The properties of an algorithm that are checked by default.
trait Checked {
    fn claims_checked(&self, ordering: bool) -> Vec<Claim>;
}

impl Checked for About {
    fn claims_checked(&self, ordering: bool) -> Vec<Claim> {
        let mut claims = self.claims.to_vec();
        claims
            .retain(|&claim| claim != Claim::Convergence && (ordering || claim != Claim::Ordering));
        claims
    }
}

fn small_mutex(about: &About) -> Vec<Row> {
    let all = about.claims_checked(true);
    let cheap = about.claims_checked(false);
    let mut rows = vec![
        Row::holds("2 processes, 3 entries each", vec![plain(about, 2, 3, &all)]),
        Row::holds("3 processes, 1 entry each", vec![plain(about, 3, 1, &all)]),
    ];
    if !is_large(about) {
        let task = plain(about, 3, 2, &cheap);
        rows.push(Row::holds("3 processes, 2 entries each", vec![task]));
    }
    let mut task = plain(about, 3, 1, &cheap);
    task.system.setup.in_cs = true;
    rows.push(Row::holds("3 processes, 1 entry each, the holder in the CS", vec![task]));
    rows
}

/// Whether 3 processes with 2 entries each take more than a few seconds, so that they belong to the
/// deep table: every process exchanges timestamps with all others, and every link keeps the order
/// of sending, so that all interleavings of the clocks are states of their own.
fn is_large(about: &About) -> bool {
    about.uses_stamps && about.partners == Partners::All && about.links == Links::Fifo
}

fn small_election(about: &About) -> Vec<Row> {
    let task = |nodes: u32, change: &dyn Fn(&mut System)| {
        let mut task = plain(about, nodes, 1, about.claims);
        change(&mut task.system);
        task
    };
    let down = |node: u32| move |system: &mut System| system.setup.crashed = vec![NodeId(node)];
    vec![
        Row::holds("2 processes, 1 start each", vec![task(2, &|_| ())]),
        Row::holds("3 processes, 1 start each", vec![task(3, &|_| ())]),
        Row::holds("3 processes, the highest down", vec![task(3, &down(2))]),
    ]
}

/// Every variant that drops no claim keeps them all.
fn variants(about: &About) -> Vec<Row> {
    let options = about.options.iter();
    let values = options.flat_map(|choice| choice.values.iter().skip(1).map(move |v| (choice, v)));
    values
        .filter(|(_, variant)| variant.drops.is_empty())
        .filter(|(choice, _)| choice.key != Daemon::OPTION)
        .map(|(choice, variant)| {
            let mut task = plain(about, 3, 1, &about.claims_checked(true));
            task.system.setup.settings.set(choice.key, variant.name);
            Row::holds("3 processes, 1 each", vec![task])
        })
        .collect()
}

/// Quorums and trees.
fn structures() -> Vec<Row> {
    let mut rows = Vec::new();
    for about in registry::ALGORITHMS.iter().filter(|about| !about.control) {
        match about.structure {
            Structure::Quorums => rows.extend(quorums(about)),
            Structure::Tree => rows.push(trees::row(about, 5)),
            Structure::Complete | Structure::Ring | Structure::Sets => {}
        }
    }
    rows
}

fn quorums(about: &About) -> Vec<Row> {
    let task = |nodes: u32, kind: QuorumKind, contenders: u32| {
        let mut task = plain(about, nodes, 1, about.claims);
        task.system.setup.quorums = kind;
        task.system.contenders = Some((0..contenders).map(NodeId).collect());
        task
    };
    vec![
        Row::holds("3 processes in pairs", vec![task(3, QuorumKind::Majority, 3)]),
        Row::holds("2 x 2 grid, all four contend", vec![task(4, QuorumKind::Grid, 4)]),
        Row::holds("plane of 7, 3 contend", vec![task(7, QuorumKind::Plane, 3)]),
        Row::holds("majorities of 5, 3 contend", vec![task(5, QuorumKind::Majority, 3)]),
    ]
}

/// A self-stabilizing ring under its daemons, at and above the least number of values that
/// suffices.
fn rings(about: &About, sizes: RangeInclusive<u32>) -> Vec<Row> {
    let mut rows = Vec::new();
    for &daemon in Daemon::ALL {
        let tasks = sizes.clone().flat_map(|n| {
            (daemon.least_k(n).max(2)..=n + 1).map(move |k| {
                let mut task = plain(about, n, 1, &[Claim::Convergence]);
                task.system.setup.settings.set(Daemon::OPTION, daemon.name());
                task.system.setup.settings.set("k", &k.to_string());
                task
            })
        });
        let (name, from, to) = (daemon.name(), sizes.start(), sizes.end());
        let enough = if daemon.least_k(*to) < *to { "n-1" } else { "n" };
        let title = format!("{name} daemon, n = {from}..{to}, k = {enough}..n+1");
        rows.push(Row::holds(title, tasks.collect()));
    }
    rows
}

/// A plain system of an algorithm, checked for these.
fn plain(about: &About, nodes: u32, entries: u32, claims: &[Claim]) -> Task {
    Task {
        name: about.name.to_owned(),
        system: System::new(Setup::new(nodes), entries),
        properties: Some(claims.to_vec()),
        reduction: Reduction::All,
        limits: Limits::default(),
        first: false,
        walks: None,
        invariants: Vec::new(),
    }
}
