//! Tasks that are refused, since a part of them would have no effect or nothing could be said.

use mutua_algorithms::{Claim, NodeId, Setup};
use mutua_checker::{
    CheckError, Faults, Limits, NoClock, Reduction, Repair, System, Task, Timers, Walks, check,
};

/// What is added to a task.
type Change<'a> = dyn Fn(&mut Task) + 'a;

fn task(name: &str) -> Task {
    Task {
        name: name.to_owned(),
        system: System::new(Setup::new(3), 1),
        properties: None,
        reduction: Reduction::All,
        limits: Limits::default(),
        first: false,
        walks: None,
        invariants: Vec::new(),
    }
}

/// A ring under a daemon, changed.
fn ring(change: impl Fn(&mut Task)) -> Task {
    let mut ring = task("dijkstra");
    ring.system.setup.settings.set("daemon", "central");
    change(&mut ring);
    ring
}

fn refusal(task: &Task) -> String {
    let error = check(task, &mut NoClock).expect_err("it is refused");
    assert!(error.is_usage(), "{error}");
    error.to_string()
}

#[test]
fn under_a_daemon_what_the_search_does_not_look_at_is_refused() {
    let limits = || Limits::default();
    let walks = Walks { runs: 1, steps: 1, changes: 1, seed: 1 };
    let unread: [(&str, &Change<'_>); 13] = [
        ("other properties", &|task| task.properties = Some(vec![Claim::Liveness])),
        ("numbers of entries", &|task| task.system.entries = 2),
        ("contenders", &|task| task.system.contenders = Some(vec![NodeId(0)])),
        ("timers", &|task| task.system.timers = Timers::Any),
        ("losses", &|task| task.system.faults = Faults { losses: 1, ..Faults::default() }),
        ("messages of the app", &|task| task.system.app_messages = 0),
        ("repairs", &|task| task.system.repair = Some(Repair::default())),
        ("holders", &|task| task.system.setup.holder = NodeId(1)),
        ("limits of states", &|task| task.limits = Limits { states: Some(1), ..limits() }),
        ("limits of memory", &|task| task.limits = Limits { bytes: Some(1), ..limits() }),
        ("limits of depth", &|task| task.limits = Limits { depth: Some(1), ..limits() }),
        ("delays", &|task| task.limits = Limits { delays: Some(1), ..limits() }),
        ("random walks", &|task| task.walks = Some(walks)),
    ];
    for (what, change) in unread {
        let why = refusal(&ring(change));
        assert!(why.starts_with(what) && why.contains("daemon=messages"), "{what}: {why}");
    }
    let whole = ring(|task| task.properties = Some(vec![Claim::Convergence]));
    let report = check(&whole, &mut NoClock).expect("a ring that can be searched");
    assert_eq!(report.verdicts[0].holds, Some(true));
}

#[test]
fn what_would_have_no_effect_on_processes_is_refused() {
    let changed = |name: &str, change: &Change<'_>| {
        let mut task = task(name);
        change(&mut task);
        task
    };
    let unread: [(&str, &str, &Change<'_>); 5] = [
        ("lamport", "crashed from", &|task| task.system.setup.crashed = vec![NodeId(0)]),
        ("lamport", "timers", &|task| task.system.timers = Timers::Any),
        ("bully", "holders", &|task| task.system.setup.in_cs = true),
        ("bully", "repairs", &|task| task.system.repair = Some(Repair::default())),
        ("raymond", "messages of the app", &|task| task.system.app_messages = 2),
    ];
    for (name, what, change) in unread {
        let why = refusal(&changed(name, change));
        assert!(why.contains(what) && why.contains("do not apply"), "{why}");
    }
}

#[test]
fn a_property_that_no_search_judges_is_refused_and_does_not_seem_to_hold() {
    for (name, claim) in [
        ("lamport", Claim::Agreement),
        ("dijkstra", Claim::Convergence),
        ("bully", Claim::MutualExclusion),
    ] {
        let why = refusal(&Task { properties: Some(vec![claim]), ..task(name) });
        assert!(why.contains(claim.name()) && why.contains("use one of"), "{why}");
    }
}

#[test]
fn a_system_is_refused_by_its_size_before_it_is_made() {
    for mut large in [task("lamport"), ring(|_| ())] {
        large.system.setup.nodes = u32::MAX;
        let error = check(&large, &mut NoClock).expect_err("it is refused");
        assert!(matches!(error, CheckError::TooManyProcesses { most: 15, .. }), "{error}");
    }
    // The dedicated coordinator is the sixteenth.
    let mut coordinated = task("central");
    coordinated.system.setup.nodes = 15;
    assert!(refusal(&coordinated).starts_with("16 processes"));
}
