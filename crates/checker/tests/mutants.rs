//! Mutants: one line of an algorithm is changed for the worse, and the checker must notice.
//!
//! The change is made in a copy of the crates, which is built in a directory of its own. What is
//! shipped has no switch for it. All that touch different algorithms are built at once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A line of an algorithm, what it is changed to, and where that must be noticed.
struct Mutant {
    what: &'static str,
    file: &'static str,
    line: &'static str,
    changed: &'static str,
    /// Name, processes, entries.
    system: [&'static str; 3],
    /// A property that must be found broken.
    broken: &'static str,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "a deferred reply is dropped",
        file: "mutexes/ricart_agrawala.rs",
        line: "for waiting in self.deferred.iter() {",
        changed: "for waiting in self.deferred.iter().skip(1) {",
        system: ["ricart-agrawala", "2", "1"],
        broken: "deadlock-free",
    },
    Mutant {
        what: "ties are not broken by id",
        file: "mutexes/lamport.rs",
        line: "self.queue.partition_point(|&other| other < request);",
        changed: "self.queue.partition_point(|&other| other.time <= request.time);",
        system: ["lamport", "2", "1"],
        broken: "safety",
    },
    Mutant {
        what: "the token is duplicated",
        file: "mutexes/ricart_agrawala_token.rs",
        line: "Some(next) => out.send(next, Token(granted)),",
        changed: "Some(next) => { \
                  out.send(next, Token(granted.clone())); \
                  self.state = State::Keeping(granted) }",
        system: ["ricart-agrawala-token", "2", "1"],
        broken: "safety",
    },
    Mutant {
        what: "a stale request is not ignored",
        file: "mutexes/suzuki_kasami.rs",
        line: "if !is_newer(number, self.rn[from.index()]) {",
        changed: "if number == u32::MAX {",
        system: ["suzuki-kasami", "3", "2"],
        broken: "deadlock-free",
    },
    Mutant {
        what: "ASKED is not reset",
        file: "mutexes/raymond.rs",
        line: "self.asked = false;",
        changed: "",
        system: ["raymond", "2", "2"],
        broken: "deadlock-free",
    },
];

/// This one changes the clock of all algorithms, so it is built alone.
const CLOCK: &[Mutant] = &[Mutant {
    what: "the clock is not advanced on receipt",
    file: "process.rs",
    line: "self.time = self.time.max(sent.next());",
    changed: "let _ = sent;",
    system: ["lamport", "2", "2"],
    broken: "ordering",
}];

#[test]
fn every_mutant_is_caught() {
    for mutants in [MUTANTS, CLOCK] {
        let runner = build(mutants);
        for mutant in mutants {
            let broken = run(&runner, mutant);
            for reduction in ["none", "all"] {
                let wanted = format!("{reduction} {}", mutant.broken);
                let caught = broken.lines().any(|line| line == wanted);
                assert!(caught, "{}: {wanted} not among [{broken}]", mutant.what);
            }
        }
    }
}

/// Without any change, the same build finds nothing: it is the change that is noticed.
#[test]
fn without_a_mutation_nothing_is_broken() {
    for mutant in MUTANTS.iter().chain(CLOCK) {
        let task = mutua_checker::Task {
            name: mutant.system[0].to_owned(),
            system: mutua_checker::System::new(
                mutua_algorithms::Setup::new(mutant.system[1].parse().expect("a number")),
                mutant.system[2].parse().expect("a number"),
            ),
            properties: None,
            reduction: mutua_checker::Reduction::None,
            limits: mutua_checker::Limits::default(),
            first: true,
            walks: None,
        };
        let report = mutua_checker::check(&task, &mut |_| ()).expect("the system starts");
        assert!(!report.is_violated() && report.is_complete(), "{}", mutant.what);
    }
}

/// Builds the runner over a copy of the crates with these changes.
fn build(mutants: &[Mutant]) -> PathBuf {
    // The directory is kept from run to run, so that the second build is short.
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    copy_workspace(&workspace, &scratch);
    for mutant in mutants {
        let path = scratch.join("crates/algorithms/src").join(mutant.file);
        let text = fs::read_to_string(&path).expect("the file of a mutant");
        assert_eq!(text.matches(mutant.line).count(), 1, "{}: the line is not there", mutant.what);
        fs::write(&path, text.replace(mutant.line, mutant.changed)).expect("a file to change");
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--package", "mutant-runner"])
        .current_dir(&scratch)
        .env("CARGO_TARGET_DIR", scratch.join("target"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    scratch.join("target/debug/mutant-runner")
}

fn copy_workspace(workspace: &Path, scratch: &Path) {
    for crate_ in ["algorithms", "trace", "checker"] {
        let to = scratch.join("crates").join(crate_);
        if to.exists() {
            fs::remove_dir_all(&to).expect("the last copy goes");
        }
        copy(&workspace.join("crates").join(crate_), &to);
    }
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).expect("the manifest");
    // Small systems need no optimised build, and the crate that `cargo run` runs is not copied.
    let manifest: String = manifest
        .split_inclusive('\n')
        .filter(|l| !l.contains("opt-level") && !l.starts_with("default-members"))
        .collect();
    fs::write(scratch.join("Cargo.toml"), manifest).expect("the manifest's copy");
    fs::copy(workspace.join("Cargo.lock"), scratch.join("Cargo.lock")).expect("the lock file");
    let runner = scratch.join("crates/runner");
    fs::create_dir_all(runner.join("src")).expect("a directory");
    fs::write(runner.join("Cargo.toml"), RUNNER).expect("the runner's manifest");
    fs::write(runner.join("src/main.rs"), include_str!("mutants/runner.rs")).expect("the runner");
}

const RUNNER: &str = r#"
[package]
name = "mutant-runner"
edition.workspace = true

[dependencies]
mutua-algorithms = { workspace = true }
mutua-checker = { workspace = true }
"#;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file");
        }
    }
}

fn run(runner: &Path, mutant: &Mutant) -> String {
    let mut command = Command::new(runner);
    let done = command.args(mutant.system).arg(mutant.broken).output().expect("the runner runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}
