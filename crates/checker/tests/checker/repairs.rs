//! The repairs over every interleaving of a crash at any point.

use mutua_algorithms::{Claim, NodeId, Setup, repairs::ElectionName};
use mutua_checker::{
    Detector, Faults, Limits, NoClock, Reduction, Repair, Report, System, Task, Timers, check,
};
use mutua_lab::counterexample::script;

fn run(name: &str, repair: Repair, restarts: u32, first: bool) -> Report {
    run_with(name, repair, restarts, first, Timers::Bounded)
}

fn run_with(name: &str, repair: Repair, restarts: u32, first: bool, timers: Timers) -> Report {
    let task = task(name, repair, restarts, first, timers);
    check(&task, &mut NoClock).expect("a system that can be checked")
}

fn task(name: &str, repair: Repair, restarts: u32, first: bool, timers: Timers) -> Task {
    let faults = Faults { crashes: 1, restarts, ..Faults::default() };
    let mut setup = Setup::new(3);
    if name == "central" {
        // With a dedicated coordinator there would be four processes.
        setup = setup.with("coordinator", "member");
    }
    Task {
        name: name.to_owned(),
        system: System { faults, timers, repair: Some(repair), ..System::new(setup, 1) },
        properties: None,
        reduction: Reduction::All,
        limits: Limits::default(),
        first,
        walks: None,
        invariants: Vec::new(),
    }
}

fn verdicts(report: &Report) -> Vec<(String, Option<bool>)> {
    report.verdicts.iter().map(|verdict| (verdict.name.to_string(), verdict.holds)).collect()
}

fn assert_survives(name: &str, election: ElectionName, restarts: u32) {
    assert_survives_with(name, Repair { election, ..Repair::default() }, restarts);
}

fn assert_survives_with(name: &str, repair: Repair, restarts: u32) {
    let election = repair.election;
    let report = run(name, repair, restarts, true);
    let held = verdicts(&report).iter().all(|&(_, holds)| holds == Some(true));
    let trail = report.verdicts.iter().find_map(|verdict| verdict.trail.as_ref());
    let steps: Vec<_> = trail
        .into_iter()
        .flat_map(|trail| trail.steps.iter().map(|step| step.sentence()))
        .collect();
    assert!(held, "{name}, {}: {:?}\n{}", election.name(), verdicts(&report), steps.join("\n"));
    assert_eq!(report.verdicts.len(), 5);
}

#[test]
fn a_crash_at_any_point_is_survived_with_bully() {
    for name in ["naimi-trehel", "raymond"] {
        assert_survives(name, ElectionName::Bully, 0);
    }
}

#[test]
fn a_crash_at_any_point_is_survived_on_a_ring() {
    for name in ["neilsen-mizuno", "central"] {
        assert_survives(name, ElectionName::ChangRoberts, 0);
    }
}

#[test]
fn a_crash_at_any_point_is_survived_with_invitations() {
    assert_survives("naimi-trehel", ElectionName::Invitation, 0);
}

#[test]
fn a_crash_at_any_point_is_survived_by_special_repairs() {
    for name in ["ricart-agrawala", "central", "maekawa"] {
        assert_survives_with(name, Repair { special: true, ..Repair::default() }, 0);
    }
}

/// On a ring the token goes round while the restarted process elects, so the search ends only if
/// the clocks of every view that no process enters any more are shifted.
#[test]
fn a_restart_on_a_ring_is_survived() {
    for name in ["le-lann", "dijkstra"] {
        let repair = Repair { election: ElectionName::ChangRoberts, ..Repair::default() };
        let mut task = task(name, repair, 1, true, Timers::Bounded);
        task.system.contenders = Some(vec![NodeId(0)]);
        let report = check(&task, &mut NoClock).expect("a system that can be checked");
        assert!(report.is_complete() && !report.is_violated(), "{name}: {:?}", verdicts(&report));
    }
}

#[test]
fn shifts_of_the_clocks_of_a_view_change_no_verdict() {
    for (name, without_views) in [("raymond", false), ("lamport", false), ("naimi-trehel", true)] {
        let election = ElectionName::ChangRoberts;
        let repair = Repair { election, without_views, ..Repair::default() };
        let mut merged = task(name, repair, 1, false, Timers::Bounded);
        merged.system.contenders = Some(vec![NodeId(1)]);
        let whole = Task { reduction: Reduction::None, ..merged.clone() };
        let run = |task: &Task| check(task, &mut NoClock).expect("a system that can be checked");
        let (merged, whole) = (run(&merged), run(&whole));
        assert_eq!(verdicts(&merged), verdicts(&whole), "{name}");
        assert!(merged.is_complete(), "{name}");
        assert!(merged.searches[0].states < whole.searches[0].states, "{name}");
    }
}

/// As far as the search goes: the message that goes round on links that reorder makes many states.
/// A resent message that arrives rounds later is met after 8,922 states.
#[test]
fn a_message_that_is_passed_again_and_arrives_late_is_not_taken() {
    let repair = Repair { special: true, ..Repair::default() };
    let limits = Limits { states: Some(20_000), ..Limits::default() };
    let task = Task { limits, ..task("dijkstra", repair, 0, true, Timers::Bounded) };
    let report = check(&task, &mut NoClock).expect("a system that can be checked");
    let exclusion = report.verdicts.iter().find(|verdict| verdict.name == "mutual-exclusion");
    assert_eq!(exclusion.expect("it is checked").holds, None);
}

#[test]
fn an_acknowledgement_that_is_waited_for_too_short_makes_two_tokens() {
    let repair = Repair { special: true, ..Repair::default() };
    let report = run_with("le-lann", repair, 0, true, Timers::Any);
    let exclusion = report.verdicts.iter().find(|verdict| verdict.name == "mutual-exclusion");
    assert_eq!(exclusion.expect("it is checked").holds, Some(false));
}

#[test]
fn without_view_numbers_an_old_token_comes_back() {
    let repair = Repair { without_views: true, ..Repair::default() };
    let mut task = task("naimi-trehel", repair, 0, true, Timers::Bounded);
    // With three processes and one entry of each there is no such run.
    task.system.setup.nodes = 4;
    task.system.contenders = Some(vec![NodeId(1), NodeId(2)]);
    let report = check(&task, &mut NoClock).expect("a system that can be checked");
    let exclusion = report.verdicts.iter().find(|verdict| verdict.name == "mutual-exclusion");
    let exclusion = exclusion.expect("it is checked");
    assert_eq!((exclusion.holds, exclusion.claimed), (Some(false), false));
    let trail = exclusion.trail.as_ref().expect("a shortest counterexample");
    let scripted = script(&task, &exclusion.name, trail).expect("the system starts");
    assert_eq!(scripted.played.failures(), Vec::<String>::new());
    assert!(scripted.script.text().contains("expect mutual-exclusion violated"));
}

/// The order of pending requests, by their clocks, decides who is the holder of the next view: a
/// search that left the clocks out found runs that no system has.
#[test]
fn counterexamples_of_repairs_play_on_the_real_machines() {
    let wrong = Repair { detector: Detector::Timeout, ..Repair::default() };
    for name in ["naimi-trehel", "suzuki-kasami", "central"] {
        let properties = Some(vec![Claim::MutualExclusion]);
        let task = Task { properties, ..task(name, wrong, 0, true, Timers::Bounded) };
        let report = check(&task, &mut NoClock).expect("a system that can be checked");
        let found = report.verdicts.iter().find(|verdict| verdict.name == "mutual-exclusion");
        let trail = found.and_then(|found| found.trail.as_ref()).expect("two processes enter");
        let scripted = script(&task, "mutual-exclusion", trail).expect("the system starts");
        let failures = scripted.played.failures();
        assert!(failures.is_empty(), "{name}: {failures:?}\n{}", scripted.script.text());
        assert!(scripted.script.text().contains("expect mutual-exclusion violated"), "{name}");
    }
}

#[test]
fn a_detector_that_is_wrong_lets_two_processes_enter() {
    let repair = Repair { detector: Detector::Timeout, ..Repair::default() };
    let properties = Some(vec![Claim::MutualExclusion]);
    let task = Task { properties, ..task("naimi-trehel", repair, 0, true, Timers::Bounded) };
    let report = check(&task, &mut NoClock).expect("a system that can be checked");
    let exclusion = report.verdicts.iter().find(|verdict| verdict.name == "mutual-exclusion");
    assert_eq!(exclusion.expect("it is checked").holds, Some(false));
}
