//! Adding an algorithm is one file, its row in the registry, its scripts and the regenerated
//! tables, as CONTRIBUTING has it: the program built from a copy of the workspace with these
//! simulates, checks, replays, lists, documents and runs it, and no driver was changed.

#[path = "../../xtask/src/docs.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of xtask, which writes the files too")]
mod generator;
#[path = "../../checker/tests/support/workspace_copy.rs"]
mod workspace_copy;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use workspace_copy::WorkspaceCopy;

const NAME: &str = "first-come";

/// All crates of the workspace but the one that regenerates code.
fn crates() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = fs::read_dir(crates).expect("a directory").map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().into_string().expect("a name"));
    names.filter(|name| name != "xtask").collect()
}

/// The program with the algorithm added, by the steps of CONTRIBUTING and no others.
fn build() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let crates = crates();
    let crates: Vec<_> = crates.iter().map(String::as_str).collect();
    let mut copy = WorkspaceCopy::new(temporary.join("added-algorithm"), &crates);
    // 1. Its file, and the module's lines for it.
    let source = include_str!("added_algorithm/first_come.rs");
    copy.add("crates/algorithms/src/mutexes/first_come.rs", source);
    let modules = "crates/algorithms/src/mutexes.rs";
    copy.replace(modules, "mod lamport;", "mod first_come;\nmod lamport;");
    let export = "pub use lamport::Lamport;";
    copy.replace(modules, export, &format!("pub use first_come::FirstCome;\n{export}"));
    // 2. Its row.
    let registry = "crates/algorithms/src/registry.rs";
    copy.replace(registry, "        Lamport,\n", "        Lamport,\n        FirstCome,\n");
    // 3. Its script, and the line that compiles it in.
    let script = include_str!("added_algorithm/queue.script");
    copy.add(&format!("crates/lab/scripts/{NAME}/queue.script"), script);
    let first = "examples![\n";
    let line = format!("{first}    \"{NAME}/queue\",\n");
    copy.replace("crates/lab/src/examples.rs", first, &line);
    // Under a name of its own, so that other tests keep their program. The crates of others that
    // the workspace has built are used again.
    let program = "mutua-with-first-come";
    let package = format!("[package]\nname = \"{program}\"");
    copy.replace("crates/cli/Cargo.toml", "[package]\nname = \"mutua\"", &package);
    copy.build(program, temporary.parent().expect("the target directory"))
}

/// What a command prints; it must succeed.
fn output(program: &Path, directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(directory).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {}\n{out}{err}", output.status);
    out
}

fn json(program: &Path, directory: &Path, arguments: &[&str]) -> Value {
    let text = output(program, directory, arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

/// Stops the nodes, whatever becomes of the test.
struct Down<'a>(&'a Path, &'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let down = Command::new(self.0).args(["cluster", "down"]).current_dir(self.1).output();
        down.expect("it runs");
    }
}

#[test]
fn every_command_takes_up_an_algorithm_that_is_one_file_one_row_and_its_script() {
    let program = &build();
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path();
    let json = |arguments: &[&str]| json(program, directory, arguments);

    // Tables and pages.
    let all = json(&["algorithms", "--json"]);
    let named = |about: &Value| about["name"] == NAME;
    assert!(all.as_array().is_some_and(|all| all.iter().any(named)), "{all}");
    assert!(output(program, directory, &["algorithms"]).contains(NAME));
    assert!(output(program, directory, &["algorithms", NAME]).contains("First come"));

    // Simulated, and its formulas with it.
    let simulated = json(&["simulate", NAME, "--nodes", "5", "--entries", "1000", "--json"]);
    assert_eq!(simulated["algorithm"], NAME);
    assert_eq!(simulated["theory"]["messages"]["formula"], "3(N-1)/N", "{simulated}");

    // Checked: every property that it claims, by the defaults of the command.
    let checked = json(&["check", NAME, "--nodes", "3", "--json"]);
    assert_eq!((&checked["algorithm"], &checked["complete"]), (&NAME.into(), &true.into()));

    // Replayed: every expectation of its script holds.
    assert!(output(program, directory, &["replay"]).contains("first-come/queue"));
    output(program, directory, &["replay", "first-come/queue"]);

    documented(program, directory);
    run_by_nodes(program, directory);
}

/// 4. The tables are regenerated: one document changes, and it has the algorithm's row and page.
fn documented(program: &Path, directory: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mutua = |arguments: &[&str]| Ok(output(program, directory, arguments));
    let stale = generator::stale(&root, &mutua).expect("the documents can be generated");
    let names: Vec<_> = stale.iter().filter_map(|one| one.path.file_name()).collect();
    assert_eq!(names, ["algorithms.md"], "run `{}`", generator::COMMAND);
    let text = &stale[0].text;
    assert!(text.contains(&format!("[`{NAME}`](algorithms.md#{NAME})")), "no row in {text}");
    assert!(
        text.contains(&format!("\n## {NAME}\n\n**First come, first served.**")),
        "no page in {text}"
    );
}

/// Two nodes run a lock by it, held once at each.
fn run_by_nodes(program: &Path, directory: &Path) {
    let _down = Down(program, directory);
    output(program, directory, &["cluster", "up", "2", "--algorithm", NAME]);
    for node in ["a", "b"] {
        let socket = directory.join("mutua-cluster").join(node).join("locks.sock");
        let endpoint = format!("unix:{}", socket.display());
        let program_name = program.to_str().expect("a path in UTF-8");
        let show = [program_name, "show", "--endpoint", &endpoint, "--json", "accounts"];
        let lock = ["lock", "--endpoint", &endpoint, "accounts", "--"];
        let shown = json(program, directory, &[&lock[..], &show[..]].concat());
        assert_eq!(shown["algorithm"], NAME, "{shown}");
    }
}
