//! `mutua check` as a script sees it: exit codes, the shape of its JSON, limits, counterexamples.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split_whitespace()).output().expect("mutua runs")
}

fn code(arguments: &str) -> Option<i32> {
    mutua(arguments).status.code()
}

fn json(arguments: &str) -> Value {
    let done = mutua(&format!("{arguments} --json"));
    serde_json::from_slice(&done.stdout).expect("one object")
}

fn text(arguments: &str) -> String {
    String::from_utf8(mutua(arguments).stdout).expect("text")
}

fn property<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["properties"].as_array().expect("a list");
    all.iter().find(|property| property["name"] == name).expect("the property")
}

/// A directory of its own for a test.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn exit_codes_say_held_violated_unfinished_or_misused() {
    assert_eq!(code("check ricart-agrawala --nodes 2 --entries 2"), Some(0));
    assert_eq!(code("check maekawa-basic --nodes 4"), Some(1));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --max-states 1000"), Some(2));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --time 10ms"), Some(2));
    assert_eq!(code("check lamport --time -1s"), Some(64));
    assert_eq!(code("check lamport --time soon"), Some(64));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --time 0.01"), Some(2));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --max-memory 1M"), Some(2));
    assert_eq!(code("check lamport --nodes 2 --depth 3"), Some(2));
    assert_eq!(code("check lamport --nodes 2 --walks 10"), Some(2));
    assert_eq!(code("check nonsense"), Some(64));
    assert_eq!(code("check lamport --property nonsense"), Some(64));
    assert_eq!(code("check lamport --nodes 2 --losses 1000"), Some(64));
}

#[test]
fn the_object_for_scripts_has_its_shape() {
    let report = json("check lamport --nodes 2 --entries 1 --links any --reduction none");
    assert_eq!(report["complete"], true);
    assert!(report["states"].as_u64() > Some(10) && report["seconds"].is_f64());
    let safety = property(&report, "safety");
    assert_eq!((&safety["holds"], &safety["steps"]), (&Value::Bool(false), &4.into()));
    let report = json("check ricart-agrawala --nodes 3 --reduction none");
    assert_eq!((&report["states"], &report["complete"]), (&5562.into(), &Value::Bool(true)));
    let liveness = property(&report, "liveness");
    assert_eq!((&liveness["holds"], &liveness["steps"]), (&Value::Bool(true), &Value::Null));
    let report = json("check lamport --nodes 3 --entries 2 --max-states 1000");
    assert_eq!(report["complete"], false);
    assert_eq!(property(&report, "safety")["holds"], Value::Null);
}

#[test]
fn merging_visits_fewer_states_and_finds_the_same() {
    let system = "check lamport --nodes 2 --entries 3";
    let (all, none) = (json(system), json(&format!("{system} --reduction none")));
    assert!(all["states"].as_u64() < none["states"].as_u64());
    let found = |report: &Value| -> Vec<(Value, Value)> {
        let properties = report["properties"].as_array().expect("a list");
        properties.iter().map(|one| (one["name"].clone(), one["holds"].clone())).collect()
    };
    assert_eq!(found(&all), found(&none));
}

#[test]
fn both_ways_are_compared_and_told() {
    let report = json("check central --nodes 3 --reduction both");
    assert!(report["states"].as_u64() < report["states_unreduced"].as_u64(), "{report}");
    assert_eq!(report["states_unreduced"], 218);
    let merged = report["reductions"].as_array().expect("a list");
    assert!(merged.iter().any(|how| how == "symmetry (6 renamings)"), "{merged:?}");
    let told = text("check lamport --nodes 2 --reduction both");
    assert!(told.contains("merged: shifts of all clocks, orders of steps that commute"), "{told}");
    assert!(told.contains("with nothing merged: 74 states"), "{told}");
}

#[test]
fn a_limit_says_what_was_covered() {
    let told = text("check lamport --nodes 3 --entries 2 --max-states 20000 --reduction none");
    assert!(told.contains("the limit of states was reached; every run of fewer than"), "{told}");
    // Where orders of steps are left out, depth is no measure of runs; so --depth leaves out none.
    let told = text("check lamport --nodes 3 --entries 2 --max-states 20000");
    assert!(told.contains("only some order of its steps"), "{told}");
    let within = "check maekawa --nodes 4 --with corrections=no-failed --property deadlock-free";
    let report = json(&format!("{within} --depth 15"));
    assert_eq!(property(&report, "deadlock-free")["steps"], 14);
    let told = text("check maekawa --nodes 4 --delays 2");
    assert!(told.contains("only runs with at most 2 delays"), "{told}");
    assert!(told.contains("not decided"), "{told}");
    let told = text("check lamport --nodes 5 --walks 50 --property safety");
    assert!(told.contains("50 random runs, which prove nothing"), "{told}");
}

#[test]
fn few_delays_suffice_for_a_deadlock() {
    let report = json("check maekawa-basic --nodes 4 --delays 4");
    assert_eq!(property(&report, "deadlock-free")["holds"], false);
    assert_eq!(report["complete"], false);
}

#[test]
fn the_entries_of_an_election_are_its_starts() {
    let once = json("check bully --nodes 2 --entries 1");
    let twice = json("check bully --nodes 2 --entries 2");
    assert!(once["states"].as_u64() < twice["states"].as_u64());
    assert_eq!(property(&once, "agreement")["holds"], true);
    assert_eq!(property(&json("check bully --nodes 3 --timers any"), "agreement")["holds"], false);
}

#[test]
fn what_does_not_happen_is_told() {
    assert_eq!(code("check lamport --nodes 2 --contenders 0"), Some(64));
    assert_eq!(code("check lamport --nodes 2 --entries 0"), Some(64));
    let told = text("check lamport --nodes 2 --depth 2");
    assert!(told.contains("not seen            process 0 enters"), "{told}");
    let report = json("check maekawa --nodes 4");
    let goals = report["goals"].as_array().expect("a list");
    let named = |name: &str| goals.iter().any(|goal| goal["name"] == name);
    assert!(named("a inquire is answered by a relinquish"), "{goals:?}");
}

#[test]
fn a_counterexample_is_replayed_and_drawn() {
    let directory = directory("counterexample");
    let path = directory.to_str().expect("a path in letters");
    assert_eq!(code(&format!("check maekawa-basic --nodes 4 --counterexample {path}")), Some(1));
    let script = directory.join("maekawa-basic-4-deadlock-free.script");
    let replayed = mutua(&format!("replay {}", script.display()));
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stdout));
    let picture = fs::read_to_string(directory.join("maekawa-basic-4-deadlock-free.svg"));
    assert!(picture.expect("a picture").starts_with("<svg"));
}
