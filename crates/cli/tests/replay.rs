//! `mutua replay` from outside: what it prints, its files, its exit codes.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mutua")).args(arguments).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A fresh file name; the test's name keeps tests apart.
fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay");
    fs::create_dir_all(&folder).expect("a folder for files");
    folder.join(name)
}

#[test]
fn the_list_has_every_algorithm_of_the_seeds() {
    let output = mutua(&["replay"]);
    assert!(output.status.success());
    let list = stdout(&output);
    for name in ["central/queue", "raymond/five-nodes", "dijkstra/cycle-of-eight"] {
        assert!(list.contains(name), "{list}");
    }
    let json: Value = serde_json::from_slice(&mutua(&["replay", "--json"]).stdout).expect("JSON");
    let algorithms: Vec<_> =
        json.as_array().expect("a list").iter().map(|one| one["algorithm"].clone()).collect();
    let known: Value =
        serde_json::from_slice(&mutua(&["algorithms", "--json"]).stdout).expect("JSON");
    for about in known.as_array().expect("a list") {
        assert!(algorithms.contains(&about["name"]), "no example of {}", about["name"]);
    }
}

#[test]
fn an_example_is_played_step_by_step() {
    let output = mutua(&["replay", "raymond/five-nodes"]);
    assert!(output.status.success());
    let played = stdout(&output);
    assert!(
        played.contains("  8  1 exits, clock 3: HOLDER=3, USING=false, ASKED=true, queue=[2]"),
        "{played}"
    );
    assert!(played.contains("entries: 5 4 2\n"), "{played}");
    assert!(played.ends_with("expectations hold\n"), "{played}");
    // The last part of a name will do where it is the only one.
    assert_eq!(stdout(&mutua(&["replay", "five-nodes"])), played);
}

#[test]
fn a_control_shows_what_goes_wrong() {
    let output = mutua(&["replay", "bakery-naive/both-read-zero"]);
    assert!(output.status.success());
    let played = stdout(&output);
    assert!(played.contains("VIOLATED at step 10 by 0: safety: 1 is inside too"), "{played}");
    let json: Value =
        serde_json::from_slice(&mutua(&["replay", "bakery-naive/both-read-zero", "--json"]).stdout)
            .expect("JSON");
    assert_eq!(json["violations"][0]["property"], "safety");
    assert_eq!(json["holds"], true);
    assert_eq!(json["trace"][0]["mutua-trace"], 1);
}

#[test]
fn trace_and_picture_are_written() {
    let (trace, picture) = (file("trace.jsonl"), file("picture.svg"));
    let [trace_name, picture_name] = [&trace, &picture].map(|path| path.to_str().expect("text"));
    let arguments = ["replay", "chain-of-three", "--trace", trace_name, "--diagram", picture_name];
    assert!(mutua(&arguments).status.success());
    let lines = fs::read_to_string(&trace).expect("the trace");
    assert!(lines.lines().count() > 20);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(fs::read_to_string(&picture).expect("the picture").starts_with("<svg"));
    // The trace can be read again, and gives the same picture.
    let again = file("again.svg");
    let again_name = again.to_str().expect("text");
    let read = mutua(&["replay", trace_name, "--diagram", again_name]);
    assert!(stdout(&read).contains("  8  P2 gets reply from P3"), "{}", stdout(&read));
    assert_eq!(fs::read(&again).expect("a picture"), fs::read(&picture).expect("a picture"));
    fs::write(&trace, lines.replacen("\"what\":\"request\"", "\"what\":\"leap\"", 1))
        .expect("a file");
    let broken = mutua(&["replay", trace_name]);
    assert_eq!(broken.status.code(), Some(64));
    assert!(stderr(&broken).contains("line 5: unknown variant `leap`"), "{}", stderr(&broken));
    let nowhere = mutua(&["replay", "chain-of-three", "--trace", "/nowhere/at/all"]);
    assert_eq!(nowhere.status.code(), Some(73));
    assert!(stderr(&nowhere).contains("cannot write the trace to /nowhere/at/all"));
}

#[test]
fn a_script_in_a_file_fails_with_1_when_it_is_not_as_it_says() {
    let path = file("wrong.script");
    let name = path.to_str().expect("text");
    let steps = "algorithm central\nprocesses A B C\nA requests\nexpect A inside\n";
    fs::write(&path, steps).expect("a file");
    let output = mutua(&["replay", name]);
    assert_eq!(output.status.code(), Some(1));
    let shown = stdout(&output);
    assert!(shown.contains("NOT SO: line 4: expected A inside; found requesting"), "{shown}");
}

#[test]
fn bad_usage_is_64_with_what_would_be_right() {
    let unknown = mutua(&["replay", "raymond/six-nodes"]);
    assert_eq!(unknown.status.code(), Some(64));
    assert!(stderr(&unknown).contains("did you mean `raymond/"), "{}", stderr(&unknown));
    let several = mutua(&["replay", "not-in-order"]);
    assert_eq!(several.status.code(), Some(64));
    assert!(stderr(&several).contains("central/not-in-order, le-lann/not-in-order"));
    let path = file("no.script");
    fs::write(&path, "algorithm central\nprocesses A B\nA jumps\n").expect("a file");
    let no_script = mutua(&["replay", path.to_str().expect("text")]);
    assert_eq!(no_script.status.code(), Some(64));
    assert!(stderr(&no_script).contains("line 3: `A jumps` is no step of a script"));
    assert_eq!(mutua(&["replay", "--trace", "x"]).status.code(), Some(64));
}

#[test]
fn a_file_is_compared_with_the_trace_below_it() {
    let script = "algorithm central\nprocesses 1 2 3\n1 requests\n---\n  0  nothing of the kind\n";
    let path = file("changed.script");
    fs::write(&path, script).expect("a script");
    let name = path.to_str().expect("a name");
    let output = mutua(&["replay", name]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stdout(&output);
    assert!(told.contains("THE TRACE DIFFERS from the one below the script, in its line 1"));
    assert!(told.contains("there: 0  nothing of the kind\n  now:   0  "), "{told}");
    let json: Value = serde_json::from_slice(&mutua(&["replay", name, "--json"]).stdout).expect("");
    assert_eq!(json["holds"], false);
    fs::write(&path, script.split("---").next().expect("the script alone")).expect("a script");
    assert_eq!(mutua(&["replay", name]).status.code(), Some(0));
}
