//! Invariants of one's own, and those that the algorithms state.

use mutua_algorithms::{Setup, Topology, registry};
use mutua_checker::{
    CheckError, Faults, Invariant, Limits, NoClock, Reduction, Report, System, Task, check,
};

fn task(name: &str, nodes: u32, formulas: &[&str]) -> Task {
    let invariant = |text: &&str| Invariant::named(text, "invariant").expect("a formula");
    Task {
        name: name.to_owned(),
        system: System::new(Setup::new(nodes), 1),
        properties: Some(Vec::new()),
        reduction: Reduction::All,
        limits: Limits::default(),
        first: false,
        walks: None,
        invariants: formulas.iter().map(invariant).collect(),
    }
}

fn run(task: &Task) -> Report {
    check(task, &mut NoClock).expect("a system that can be searched")
}

fn holds(name: &str, nodes: u32, formula: &str) -> Option<bool> {
    run(&task(name, nodes, &[formula])).verdicts[0].holds
}

/// A control: a token that arrives twice.
#[test]
fn a_second_token_violates_the_stated_invariant() {
    let about = registry::about("le-lann").expect("an algorithm");
    let mut task = Task { invariants: Invariant::stated(about), ..task("le-lann", 2, &[]) };
    assert!(!run(&task).is_violated());
    task.system.faults = Faults { duplicates: 1, ..Faults::default() };
    let report = run(&task);
    let token = report.verdicts.iter().find(|verdict| verdict.name == "one-token");
    let trail = token.and_then(|verdict| verdict.trail.as_ref()).expect("a counterexample");
    assert_eq!(trail.steps.len(), 1, "the duplicate itself");
    assert_eq!(trail.last.len(), 2);
}

/// A control: each formula is wrong in one place, and the way there is a shortest one.
#[test]
fn wrong_invariants_are_violated() {
    let cases = [
        ("raymond", 3, "forall p: size(p.queue) <= size(neighbours(p))", 4),
        ("raymond", 3, "count(p: p.HOLDER = p) = 1", 2),
        ("lamport", 2, "forall p, q: p.queue = q.queue", 1),
        ("lamport", 2, "forall p, q: p.clock <= q.clock", 1),
        ("naimi-trehel", 3, "exists r: forall p: reaches(p, father, r)", 1),
        ("suzuki-kasami", 2, "forall p: p.phase = in_cs -> p.RN[p] = 0", 3),
        ("ricart-agrawala", 2, "forall p: p.request = none or p.request.node = P0", 1),
        ("central", 2, "forall m in messages(request): m.to = P0", 1),
    ];
    for (name, nodes, formula, steps) in cases {
        let report = run(&task(name, nodes, &[formula]));
        let trail = report.verdicts[0].trail.as_ref().unwrap_or_else(|| panic!("{formula}"));
        assert_eq!(trail.steps.len(), steps, "{name}: {formula}");
    }
}

#[test]
fn a_queue_of_raymonds_tree_is_bounded_on_every_shape() {
    for topology in [Topology::Line, Topology::Star, Topology::Kary(2)] {
        let mut task = task("raymond", 4, &["forall p: size(p.queue) <= size(neighbours(p)) + 1"]);
        task.system.setup.topology = topology;
        assert_eq!(run(&task).verdicts[0].holds, Some(true));
    }
}

#[test]
fn reductions_and_workers_do_not_change_a_verdict() {
    let formulas = ["forall p, q: p.request = none or q.request = none or p = q", "true"];
    let mut whole = task("ricart-agrawala", 3, &formulas);
    whole.reduction = Reduction::None;
    let mut merged = task("ricart-agrawala", 3, &formulas);
    merged.limits.threads = 2;
    let verdicts = |report: &Report| -> Vec<_> {
        let steps =
            |verdict: &mutua_checker::Verdict| verdict.trail.as_ref().map(|t| t.steps.len());
        report.verdicts.iter().map(|verdict| (verdict.holds, steps(verdict))).collect()
    };
    assert_eq!(verdicts(&run(&whole)), verdicts(&run(&merged)));
}

#[test]
fn a_premise_that_is_never_true_and_a_kind_that_is_never_sent_are_goals_missed() {
    // A coordinator denies requests only with an option.
    let report = run(&task("central", 2, &["a: size(messages(denied)) > 0 -> false"]));
    assert_eq!(report.verdicts[0].holds, Some(true));
    let missed: Vec<_> = report.goals.iter().filter(|goal| !goal.reached).collect();
    assert_eq!(missed.len(), 2, "{missed:?}");
}

#[test]
fn what_cannot_be_judged_is_an_error_with_the_reason() {
    let reason = |name, formula| match check(&task(name, 2, &[formula]), &mut NoClock) {
        Err(error @ CheckError::Unjudged { .. }) => {
            assert!(error.is_usage());
            error.to_string()
        }
        other => panic!("{formula}: {other:?}"),
    };
    assert!(reason("raymond", "forall p: p.HOLDR = p").contains("there are ASKED, HOLDER"));
    assert!(reason("lamport", "forall p: p.clock < 5").contains("a clock reading and a number"));
    assert!(reason("lamport", "forall p: p.clock = 0").contains("compared with"));
    assert!(reason("central", "forall p: size(neighbours(p)) > 0").contains("no tree"));
    assert!(reason("central", "forall p: P9.phase = idle").contains("the last one is P2"));
    assert!(reason("central", "1").contains("true or false is needed"));
    for formula in ["size(messages(relpy)) = 0", "forall m in messages(): m.kind != \"relpy\""] {
        let reason = reason("central", formula);
        assert!(reason.contains("`relpy`: the nearest one is `reply`, of denied, "), "{reason}");
    }
}

#[test]
fn formulas_that_cannot_be_read_say_where() {
    let nested = "(".repeat(200);
    for (text, column, what) in [
        ("forall p: p.queue =", 20, "a value is missing before the end"),
        ("forall p p.token", 10, "`:` is missing"),
        ("q.token", 1, "`q` is not known"),
        ("sise(P0.queue) = 1", 1, "no function `sise`"),
        ("true true", 6, "not expected here"),
        ("P0.step = 'x", 11, "has no end"),
        ("99999999999999999999 = 1", 1, "not a number"),
        ("a & b", 3, "has no meaning"),
        (nested.as_str(), 65, "nested"),
    ] {
        let error = Invariant::new("x", text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.what.contains(what), "{text}: {error}");
    }
    assert_eq!(Invariant::named("a: b", "x").expect_err("no b").column, 4);
}

#[test]
fn logic_binds_as_documented() {
    for formula in [
        "false -> false -> false",
        "not false and true",
        "false and false or true",
        "not (false or true) -> false",
        "3 - 1 - 1 = 1",
        "count(p: p = P0) = 1 and processes() = 3",
        "exists p: forall q: p = P0",
        "P0 in neighbours(P1) or P1 in neighbours(P0)",
        "first(neighbours(P0)) in neighbours(P0)",
    ] {
        assert_eq!(holds("raymond", 3, formula), Some(true), "{formula}");
    }
    assert_eq!(holds("raymond", 3, "true -> false or false"), Some(false));
}
