//! Mutants: one line of an algorithm is changed for the worse, and the checker must find it.
//!
//! The change is made in a copy of the crates, which is built in a directory of its own. What is
//! shipped has no switch for it. All mutants that change different algorithms are built at once.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use mutua_algorithms::Setup;
use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};

use crate::workspace_copy::WorkspaceCopy;

/// A line of an algorithm, its change, and the system in which the checker must find it.
#[derive(Debug)]
struct Mutant {
    what: &'static str,
    file: &'static str,
    line: &'static str,
    changed: &'static str,
    /// Name, processes, entries.
    system: [&'static str; 3],
    violated: &'static str,
}

/// Those in different algorithms, and those that change all algorithms and are built alone.
fn mutants() -> (Vec<Mutant>, Vec<Mutant>) {
    let paragraphs = include_str!("mutants/mutants.txt").split("\n\n").skip(1);
    paragraphs.map(mutant).partition(|mutant| mutant.file.starts_with("mutexes/"))
}

fn mutant(paragraph: &'static str) -> Mutant {
    let lines: Vec<_> = paragraph.lines().collect();
    let [what, file, line, changed, expected] = lines[..] else { panic!("{paragraph}") };
    let words: Vec<_> = expected.split(' ').collect();
    let [name, processes, entries, violated] = words[..] else { panic!("{paragraph}") };
    let (line, changed) = (line.strip_prefix("- "), changed.strip_prefix('+'));
    Mutant {
        what,
        file,
        line: line.expect("a line that is changed"),
        changed: changed.expect("the changed line").trim(),
        system: [name, processes, entries],
        violated,
    }
}

#[test]
fn every_mutant_is_caught() {
    let (together, alone) = mutants();
    assert_eq!((together.len(), alone.len()), (5, 1));
    for mutants in [together, alone] {
        let runner = build(&mutants);
        for mutant in &mutants {
            let violated = run(&runner, mutant);
            for reduction in ["none", "all"] {
                let wanted = format!("{reduction} {}", mutant.violated);
                let caught = violated.lines().any(|line| line == wanted);
                assert!(caught, "{}: {wanted} not among [{violated}]", mutant.what);
            }
        }
    }
}

/// Without any change, the same systems violate nothing: it is the change that is found.
#[test]
fn without_a_mutation_nothing_is_violated() {
    let (together, alone) = mutants();
    for Mutant { what, system: [name, processes, entries], .. } in together.iter().chain(&alone) {
        let setup = Setup::new(processes.parse().expect("a number"));
        let task = Task {
            name: (*name).to_owned(),
            system: System::new(setup, entries.parse().expect("a number")),
            properties: None,
            reduction: Reduction::None,
            limits: Limits::default(),
            first: true,
            walks: None,
            invariants: Vec::new(),
        };
        let report = check(&task, &mut NoClock).expect("the system starts");
        assert!(!report.is_violated() && report.is_complete(), "{what}");
    }
}

/// Builds the runner over a copy of the crates with these changes.
fn build(mutants: &[Mutant]) -> PathBuf {
    // The directory is kept from run to run, so that the second build is short.
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let mut copy = WorkspaceCopy::new(scratch.clone(), &["algorithms", "checker"]);
    for name in ["algorithms", "checker"] {
        // Their tests are not built, and need crates that are not copied.
        copy.change(&format!("crates/{name}/Cargo.toml"), without_tests);
    }
    copy.add("crates/runner/Cargo.toml", RUNNER);
    copy.add("crates/runner/src/main.rs", include_str!("mutants/runner.rs"));
    for mutant in mutants {
        let file = format!("crates/algorithms/src/{}", mutant.file);
        copy.replace(&file, mutant.line, mutant.changed);
    }
    copy.build("mutant-runner", &scratch.join("target"))
}

/// The manifest without its `[dev-dependencies]`.
fn without_tests(manifest: &str) -> String {
    let mut kept = true;
    let lines = manifest.split_inclusive('\n').filter(|line| {
        if line.starts_with('[') {
            kept = !line.starts_with("[dev-dependencies]");
        }
        kept
    });
    lines.collect()
}

const RUNNER: &str = r#"
[package]
name = "mutant-runner"
edition.workspace = true

[dependencies]
mutua-algorithms = { workspace = true }
mutua-checker = { workspace = true }
"#;

fn run(runner: &Path, mutant: &Mutant) -> String {
    let mut command = Command::new(runner);
    let done = command.args(mutant.system).arg(mutant.violated).output().expect("the runner runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}
