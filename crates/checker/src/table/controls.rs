//! The negative controls: each system must violate its property.

use mutua_algorithms::{Claim, Links, NodeId, QuorumKind, SetsOf, registry};

use super::{Row, plain};
use crate::{
    check::Task,
    system::{Faults, System, Timers},
};

/// One row for each.
pub(super) fn controls() -> Vec<Row> {
    let mut rows = vec![
        control(
            "bakery-naive",
            2,
            Claim::MutualExclusion,
            "without the variable `choosing`",
            |_| (),
        ),
        control(
            "bakery-naive",
            3,
            Claim::MutualExclusion,
            "links that keep order, 3 processes",
            |system| {
                system.links = Some(Links::Fifo);
            },
        ),
        control("bakery-naive", 2, Claim::MutualExclusion, "pushed registers", |system| {
            system.setup.settings.set("registers", "push");
        }),
        control("lamport", 2, Claim::MutualExclusion, "links that reorder", |system| {
            system.links = Some(Links::Any);
        }),
        control("maekawa-basic", 4, Claim::DeadlockFree, "2 x 2 grid, 2 contend", |system| {
            system.contenders = Some(vec![NodeId(0), NodeId(3)]);
        }),
        control("maekawa-basic", 7, Claim::DeadlockFree, "plane of 7, 3 contend", |system| {
            system.setup.quorums = QuorumKind::Plane;
            contend(system, 3);
        }),
        control("majority", 4, Claim::DeadlockFree, "2 of 4 contend", |system| contend(system, 2)),
        control("majority", 6, Claim::DeadlockFree, "2 of 6 contend", |system| contend(system, 2)),
        control("central", 2, Claim::Ordering, "a message of the application", |_| ()),
        control("le-lann", 3, Claim::Ordering, "a message of the application", |_| ()),
        control("le-lann", 2, Claim::MutualExclusion, "a token that arrives twice", |system| {
            system.faults = Faults { duplicates: 1, ..Faults::default() };
        }),
        control("bully", 3, Claim::Agreement, "timers that run out at any time", |system| {
            system.timers = Timers::Any;
        }),
        control("bully", 3, Claim::Agreement, "one restarts under its old identity", |system| {
            system.faults = Faults { crashes: 1, restarts: 1, ..Faults::default() };
        }),
        control("sanders", 2, Claim::MutualExclusion, "sets that do not meet", |system| {
            system.setup.settings.set("check", "off");
            system.setup.settings.set("sets", "apart");
            let alone = |node| vec![NodeId(node)];
            system.setup.sets =
                SetsOf::new(vec![alone(0), alone(1)], vec![alone(0), alone(1)]).ok();
        }),
    ];
    for property in [Claim::Ordering, Claim::Fencing] {
        rows.push(control("ricart-agrawala", 2, property, "replies without clocks", |system| {
            system.setup.settings.set("replies", "plain");
        }));
    }
    rows.extend(maekawa());
    rows.extend(dijkstra());
    rows
}

/// Maekawa without each of the literature's corrections.
fn maekawa() -> Vec<Row> {
    let without = |corrections: &'static str, nodes, quorums, contenders, title: &str| {
        control("maekawa", nodes, Claim::DeadlockFree, title, move |system| {
            system.setup.settings.set("corrections", corrections);
            system.setup.quorums = quorums;
            contend(system, contenders);
        })
    };
    vec![
        without("no-failed", 4, QuorumKind::Grid, 4, "2 x 2 grid, all four contend"),
        without("no-failed", 5, QuorumKind::Majority, 3, "majorities of 5, 3 contend"),
        without("no-late-answer", 3, QuorumKind::Majority, 3, "3 processes in pairs"),
        without("no-late-answer", 4, QuorumKind::Grid, 4, "2 x 2 grid, all four contend"),
        without("no-late-answer", 5, QuorumKind::Majority, 3, "majorities of 5, 3 contend"),
        without("off", 3, QuorumKind::Majority, 3, "3 processes in pairs"),
    ]
}

/// Dijkstra's ring with one value too few, under each daemon.
fn dijkstra() -> Vec<Row> {
    let ring = |daemon: &'static str, nodes, k: u32| {
        let title = format!("{daemon} daemon, n = {nodes}, k = {k}");
        control("dijkstra", nodes, Claim::Convergence, &title, move |system| {
            system.setup.settings.set("daemon", daemon);
            system.setup.settings.set("k", &k.to_string());
        })
    };
    vec![
        ring("central", 4, 2),
        ring("central", 5, 3),
        ring("distributed", 4, 3),
        ring("synchronous", 4, 3),
        ring("synchronous", 4, 2),
        ring("distributed", 5, 4),
    ]
}

fn contend(system: &mut System, count: u32) {
    system.contenders = Some((0..count).map(NodeId).collect());
}

pub(super) fn control(
    name: &str,
    nodes: u32,
    violated: Claim,
    title: &str,
    change: impl FnOnce(&mut System),
) -> Row {
    let about = registry::about(name).expect("a control is in the registry");
    let mut task: Task = plain(about, nodes, 1, &[violated]);
    task.first = true;
    change(&mut task.system);
    Row { violated: Some(violated), ..Row::holds(title, vec![task]) }
}
