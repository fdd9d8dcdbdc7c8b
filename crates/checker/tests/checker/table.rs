//! The table of small systems, row by row: what must hold holds, each negative control is violated
//! in as many steps as it ever was, and merging states changes no verdict.

use mutua_algorithms::{Claim, Links, NodeId, Setup, registry};
use mutua_checker::{
    Limits, NoClock, Reduction, Report, System, Task, check,
    table::{Row, repairs, small},
};
use mutua_lab::{Script, counterexample::script};

/// The length of a shortest counterexample for each control, in the order of the table.
const CONTROLS: &[(&str, &str, Claim, usize)] = &[
    ("bakery-naive", "without the variable `choosing`", Claim::MutualExclusion, 10),
    ("bakery-naive", "links that keep order, 3 processes", Claim::MutualExclusion, 18),
    ("bakery-naive", "pushed registers", Claim::MutualExclusion, 6),
    ("lamport", "links that reorder", Claim::MutualExclusion, 4),
    ("maekawa-basic", "2 x 2 grid, 2 contend", Claim::DeadlockFree, 8),
    ("maekawa-basic", "plane of 7, 3 contend", Claim::DeadlockFree, 12),
    ("majority", "2 of 4 contend", Claim::DeadlockFree, 10),
    ("majority", "2 of 6 contend", Claim::DeadlockFree, 16),
    ("central", "a message of the application", Claim::Ordering, 6),
    ("le-lann", "a message of the application", Claim::Ordering, 5),
    ("le-lann", "a token that arrives twice", Claim::MutualExclusion, 6),
    ("bully", "timers that run out at any time", Claim::Agreement, 2),
    ("bully", "one restarts under its old identity", Claim::Agreement, 6),
    ("sanders", "sets that do not meet", Claim::MutualExclusion, 2),
    ("ricart-agrawala", "replies without clocks", Claim::Ordering, 6),
    ("ricart-agrawala", "replies without clocks", Claim::Fencing, 7),
    ("maekawa", "2 x 2 grid, all four contend", Claim::DeadlockFree, 14),
    ("maekawa", "majorities of 5, 3 contend", Claim::DeadlockFree, 13),
    ("maekawa", "3 processes in pairs", Claim::DeadlockFree, 7),
    ("maekawa", "2 x 2 grid, all four contend", Claim::DeadlockFree, 9),
    ("maekawa", "majorities of 5, 3 contend", Claim::DeadlockFree, 9),
    ("maekawa", "3 processes in pairs", Claim::DeadlockFree, 7),
    ("dijkstra", "central daemon, n = 4, k = 2", Claim::Convergence, 8),
    ("dijkstra", "central daemon, n = 5, k = 3", Claim::Convergence, 15),
    ("dijkstra", "distributed daemon, n = 4, k = 3", Claim::Convergence, 3),
    ("dijkstra", "synchronous daemon, n = 4, k = 3", Claim::Convergence, 3),
    ("dijkstra", "synchronous daemon, n = 4, k = 2", Claim::Convergence, 8),
    ("dijkstra", "distributed daemon, n = 5, k = 4", Claim::Convergence, 4),
    (
        "suzuki-kasami",
        "repair with bully: a partition, both sides elect",
        Claim::MutualExclusion,
        4,
    ),
    (
        "suzuki-kasami",
        "repair with chang-roberts: a partition, both sides elect",
        Claim::MutualExclusion,
        4,
    ),
    (
        "central",
        "repair with bully: a slow coordinator is reported, two coordinate",
        Claim::Agreement,
        2,
    ),
    (
        "le-lann",
        "special repair: acknowledgements awaited too short, two tokens",
        Claim::Agreement,
        5,
    ),
    (
        "naimi-trehel",
        "repair with bully: messages without their view, an old token",
        Claim::MutualExclusion,
        13,
    ),
];

fn run(task: &Task, reduction: Reduction) -> Report {
    let limits = Limits { threads: 1, ..Limits::default() };
    let task = Task { reduction, limits, ..task.clone() };
    check(&task, &mut NoClock).unwrap_or_else(|error| panic!("{}: {error}", task.words()))
}

/// The properties of a report, and in how many steps each is violated.
fn verdicts(report: &Report) -> Vec<(String, Option<bool>, Option<usize>)> {
    let steps = |verdict: &mutua_checker::Verdict| verdict.trail.as_ref().map(|t| t.steps.len());
    report
        .verdicts
        .iter()
        .map(|verdict| (verdict.name.to_string(), verdict.holds, steps(verdict)))
        .collect()
}

/// The kept report of `mutua check --all`: algorithm, system and states of its rows of this kind.
fn kept(control: bool) -> Vec<(&'static str, &'static str, u64)> {
    let report = include_str!("../../../../docs/check-all.txt");
    let rows = report.lines().skip(2).take_while(|line| !line.is_empty());
    let rows = rows.filter(|line| line.contains("negative control: ") == control);
    let rows = rows.filter(|line| control || !line.contains(REPAIR));
    let columns = |line: &'static str| {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        let (algorithm, system) = (columns.next()?, columns.next()?);
        Some((algorithm, system, columns.next()?.parse().ok()?))
    };
    rows.map(|line| columns(line).unwrap_or_else(|| panic!("not a row: {line}"))).collect()
}

/// Marks the rows of repairs in the kept report.
const REPAIR: &str = " repair";

/// Compares the rows that were checked with the kept report. There a system has its settings behind
/// the title.
fn compare_with_the_kept_report(control: bool, checked: &[(Row, u64)]) {
    let kept = kept(control);
    let how = "docs/check-all.txt is stale: write `mutua check --all` to it again";
    for ((row, states), (algorithm, system, kept)) in checked.iter().zip(&kept) {
        let name = row.tasks[0].name.as_str();
        assert!(
            name == *algorithm && system.starts_with(&row.title),
            "{how}: {name} {}",
            row.title
        );
        assert_eq!(states, kept, "{how}: {name} {}", row.title);
    }
    assert_eq!(checked.len(), kept.len(), "{how}");
}

fn states(report: &Report) -> u64 {
    report.searches.iter().map(|search| search.states).sum()
}

fn rows(control: bool) -> impl Iterator<Item = Row> {
    small().into_iter().filter(move |row| row.violated.is_some() == control)
}

#[test]
fn claims_hold_with_and_without_merging() {
    let mut checked = Vec::new();
    for row in rows(false) {
        let mut total = 0;
        for task in &row.tasks {
            let merged = run(task, Reduction::All);
            total += states(&merged);
            assert!(!merged.is_violated() && merged.is_complete(), "{} {}", task.name, row.title);
            for goal in &merged.goals {
                assert!(goal.reached, "{} {}: never {}", task.name, row.title, goal.name);
            }
            // The largest are compared by `mutua check --all --deep`.
            if merged.searches.iter().all(|search| search.states < 100_000) {
                let all = run(task, Reduction::None);
                assert_eq!(verdicts(&merged), verdicts(&all), "{} {}", task.name, row.title);
                for (merged, all) in merged.searches.iter().zip(&all.searches) {
                    assert!(merged.states <= all.states, "{} {}", task.name, row.title);
                }
            }
        }
        checked.push((row, total));
    }
    compare_with_the_kept_report(false, &checked);
}

/// The rows of repairs are those of the kept report, and every one of few states is checked again;
/// all are by `mutua check --all`.
#[test]
fn repairs_hold_as_in_the_kept_report() {
    let report = include_str!("../../../../docs/check-all.txt");
    let lines = report.lines().skip(2).take_while(|line| !line.is_empty());
    let is_repair = |line: &&str| !line.contains("negative control: ") && line.contains("repair");
    let kept: Vec<_> = lines.filter(is_repair).collect();
    let rows = repairs();
    assert_eq!(kept.len(), rows.len(), "docs/check-all.txt is stale");
    let mut again = 0;
    for (row, line) in rows.iter().zip(kept) {
        let task = &row.tasks[0];
        let title = format!("{} {}", task.name, row.title);
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        assert_eq!(columns.next(), Some(task.name.as_str()), "{title}");
        assert!(columns.next().is_some_and(|system| system.starts_with(&row.title)), "{title}");
        let kept: u64 = columns.next().and_then(|states| states.parse().ok()).expect("states");
        assert!(line.contains("holds: agreement, deadlock-free, fencing, liveness"), "{line}");
        if kept < 30_000 {
            let report = run(task, Reduction::All);
            assert!(!report.is_violated() && report.is_complete(), "{title}");
            assert_eq!(states(&report), kept, "{title}");
            again += 1;
        }
    }
    assert!(again > 5, "{again}");
}

#[test]
fn every_control_is_found_by_a_shortest_run() {
    let (mut pinned, mut checked) = (CONTROLS.iter(), Vec::new());
    for row in rows(true) {
        let [task] = row.tasks.as_slice() else { panic!("{}: one system a control", row.title) };
        let violated = row.violated.expect("a negative control violates a property");
        let Some((name, title, property, length)) = pinned.next() else {
            panic!("{} {} is not pinned", task.name, row.title)
        };
        assert_eq!((*name, *title, *property), (task.name.as_str(), row.title.as_str(), violated));
        for reduction in [Reduction::All, Reduction::None] {
            let report = run(task, reduction);
            if reduction == Reduction::All {
                checked.push((row.clone(), states(&report)));
            }
            let verdict = &report.verdicts[0];
            let steps = verdict.trail.as_ref().map_or(0, |trail| trail.steps.len());
            assert_eq!((verdict.name.as_ref(), verdict.holds), (violated.name(), Some(false)));
            assert_eq!(steps, *length, "{} {}, {reduction:?}", task.name, row.title);
        }
    }
    assert_eq!(pinned.next(), None);
    compare_with_the_kept_report(true, &checked);
}

#[test]
fn every_counterexample_plays_on_the_real_machines() {
    for row in rows(true) {
        let task = &row.tasks[0];
        let report = run(task, Reduction::None);
        for verdict in &report.verdicts {
            let Some(trail) = &verdict.trail else { continue };
            let scripted = script(task, &verdict.name, trail).expect("the system starts");
            let failures = scripted.played.failures();
            assert!(failures.is_empty(), "{} {}: {failures:?}", task.name, row.title);
            // The written script is read again and plays alike.
            let text = scripted.script.text();
            let again = Script::parse("again", &text)
                .unwrap_or_else(|error| panic!("{} {}: {error}\n{text}", task.name, row.title));
            let played = again.play().expect("the system starts");
            assert_eq!(played.failures(), Vec::<String>::new(), "{} {}", task.name, row.title);
            assert_eq!(played.events.len(), scripted.played.events.len());
        }
    }
}

#[test]
fn every_control_of_the_registry_has_its_row() {
    let rows: Vec<_> = rows(true).collect();
    for about in registry::ALGORITHMS {
        let of_it = || rows.iter().filter(|row| row.tasks[0].name == about.name);
        assert!(!about.control || of_it().next().is_some(), "{}", about.name);
        for choice in about.options {
            for variant in choice.values.iter().filter(|variant| !variant.drops.is_empty()) {
                let shows = |row: &Row| {
                    row.tasks[0].system.setup.settings.get(choice.key) == Some(variant.name)
                };
                let shown = of_it().any(shows);
                assert!(shown, "{} {}={}", about.name, choice.key, variant.name);
            }
        }
    }
}

/// Pushed and acknowledged over links that keep order, a number comes before the acknowledgement
/// that lets the other one go on, so the Bakery does without `choosing` there. Not a control.
#[test]
fn without_choosing_the_bakery_is_safe_where_numbers_are_pushed_in_order() {
    for (nodes, entries) in [(2, 3), (3, 1)] {
        let mut system = System::new(Setup::new(nodes), entries);
        system.setup.settings.set("registers", "push");
        system.links = Some(Links::Fifo);
        let task = Task {
            name: "bakery-naive".to_owned(),
            system,
            properties: Some(vec![Claim::MutualExclusion, Claim::DeadlockFree]),
            reduction: Reduction::None,
            limits: Limits::default(),
            first: false,
            walks: None,
            invariants: Vec::new(),
        };
        let report = run(&task, Reduction::None);
        assert!(report.is_complete() && !report.is_violated(), "{nodes} x {entries}");
    }
}

/// On the 2 x 2 grid the missing FAILED shows with three that contend, if the lowest one only
/// votes, and with no other three.
#[test]
fn a_missing_failed_shows_with_three_of_four_if_the_lowest_only_votes() {
    for left_out in 0..4 {
        let mut system = System::new(Setup::new(4), 1);
        system.setup.settings.set("corrections", "no-failed");
        system.contenders = Some((0..4).filter(|&node| node != left_out).map(NodeId).collect());
        let task = Task {
            name: "maekawa".to_owned(),
            system,
            properties: Some(vec![Claim::DeadlockFree]),
            reduction: Reduction::None,
            limits: Limits::default(),
            first: true,
            walks: None,
            invariants: Vec::new(),
        };
        let report = run(&task, Reduction::None);
        assert_eq!(report.verdicts[0].holds, Some(left_out != 0), "without {left_out}");
    }
}
