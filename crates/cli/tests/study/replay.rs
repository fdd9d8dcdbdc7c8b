//! `mutua replay`, as a user runs it: its output, its files, its exit codes.

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
    let violated = "VIOLATED at step 10 by 0: mutual-exclusion: 1 is in the critical section too";
    assert!(played.contains(violated), "{played}");
    let json: Value =
        serde_json::from_slice(&mutua(&["replay", "bakery-naive/both-read-zero", "--json"]).stdout)
            .expect("JSON");
    assert_eq!(json["violations"][0]["property"], "mutual-exclusion");
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
    // But for the sentence of the script, which is not in the trace, and the room for it.
    let shapes = |path| {
        let svg = fs::read_to_string(path).expect("a picture");
        ["<polygon", "<circle", "class=\"in-cs\""].map(|shape| svg.matches(shape).count())
    };
    assert_eq!(shapes(&again), shapes(&picture));
    assert!(fs::read_to_string(&picture).expect("a picture").contains("whatever the delays"));
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
    let steps = "algorithm central\nprocesses A B C\nA requests\nexpect A in_cs\n";
    fs::write(&path, steps).expect("a file");
    let output = mutua(&["replay", name]);
    assert_eq!(output.status.code(), Some(1));
    let shown = stdout(&output);
    assert!(shown.contains("FAILED: line 4: expected A in_cs; found requesting"), "{shown}");
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
    assert!(stderr(&no_script).contains("line 3: unknown step `A jumps`"));
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
    let printed = stdout(&output);
    assert!(
        printed.contains("THE TRACE DIFFERS from the one recorded in the script, in its line 1")
    );
    assert!(printed.contains("recorded: 0  nothing of the kind\n  now:      0  "), "{printed}");
    let json: Value = serde_json::from_slice(&mutua(&["replay", name, "--json"]).stdout).expect("");
    assert_eq!(json["holds"], false);
    fs::write(&path, script.split("---").next().expect("the script alone")).expect("a script");
    assert_eq!(mutua(&["replay", name]).status.code(), Some(0));
}

#[test]
fn the_language_is_printed_and_its_examples_are_lines_of_scripts() {
    let text = stdout(&mutua(&["replay", "--language"]));
    for line in ["  A requests\n", "  deliver [KIND][#N] A -> B\n", "  expect deadlock\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let sections: Vec<Value> =
        serde_json::from_str(&stdout(&mutua(&["replay", "--language", "--json"]))).expect("JSON");
    assert_eq!(sections.len(), 3);
    assert_eq!(mutua(&["replay", "--language", "chain-of-three"]).status.code(), Some(64));
}

#[test]
fn a_built_in_script_is_printed_and_can_be_played_from_a_file() {
    let source = stdout(&mutua(&["replay", "chain-of-three", "--source"]));
    assert!(
        source.contains("algorithm ricart-agrawala\n") && !source.contains("\n---"),
        "{source}"
    );
    let own = file("own.script");
    fs::write(&own, source).expect("a file");
    let played = mutua(&["replay", own.to_str().expect("text")]);
    assert!(played.status.success(), "{}", stderr(&played));
}

#[test]
fn the_steps_that_are_possible_at_the_end_are_listed() {
    let own = file("possible.script");
    fs::write(&own, "algorithm central\nprocesses A B C\nB requests\n").expect("a file");
    let name = own.to_str().expect("text");
    let text = stdout(&mutua(&["replay", name, "--possible"]));
    let (_, next) = text.split_once("possible next:\n").expect("a list");
    // C only coordinates.
    assert!(next.starts_with("  A requests\n  deliver request B -> C\n  crash A\n"), "{next}");
    let json: Value =
        serde_json::from_str(&stdout(&mutua(&["replay", name, "--possible", "--json"])))
            .expect("JSON");
    assert_eq!(json["possible"][0], "A requests");
}

#[test]
fn a_misspelt_step_is_answered_with_the_nearest_one() {
    let own = file("misspelt.script");
    fs::write(&own, "algorithm central\nprocesses A B\nA request\n").expect("a file");
    let wrong = mutua(&["replay", own.to_str().expect("text")]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(
        stderr(&wrong).contains("line 3: unknown step `A request`: did you mean `A requests`?")
    );
}

#[test]
fn a_deadlock_is_explained() {
    let text = stdout(&mutua(&["replay", "plane-deadlock"]));
    let sentence = "deadlock: 1 waits for 2, which waits for 3, which waits for 1 (at 4)";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn a_script_or_a_trace_comes_from_a_pipe() {
    let played = stdout(&mutua(&["replay", "chain-of-three"]));
    let (_, steps) = played.split_once("\n\n").expect("a head");
    let binary = env!("CARGO_BIN_EXE_mutua");
    let piped = |command: &str| {
        let output = Command::new("sh").args(["-c", command, binary]).output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        stdout(&output)
    };
    for name in ["-", "/dev/stdin"] {
        let script = piped(&format!("$0 replay chain-of-three --source | $0 replay {name}"));
        assert!(script.contains(steps), "{name}: {script}");
        let trace = file("piped.jsonl");
        let trace = trace.display();
        let run = format!("$0 replay chain-of-three --trace {trace} > /dev/null; cat {trace}");
        let trace = piped(&format!("({run}) | $0 replay {name}"));
        assert!(trace.contains("P2 requests, clock 1"), "{name}: {trace}");
    }
    let directory = mutua(&["replay", "/"]);
    assert_eq!(directory.status.code(), Some(64));
    assert!(stderr(&directory).contains("is a directory"), "{}", stderr(&directory));
}

#[test]
fn options_without_effect_are_refused() {
    let trace = file("options.jsonl");
    let trace = trace.to_str().expect("text");
    assert!(mutua(&["replay", "chain-of-three", "--trace", trace]).status.success());
    let other = file("other.jsonl");
    fs::copy(trace, &other).expect("a copy");
    let other = other.to_str().expect("text");
    for arguments in [
        &["chain-of-three", "--steps", "1..2"] as &[&str],
        &["chain-of-three", "--source", "--json"],
        &["chain-of-three", other, "--source"],
        &["chain-of-three", other],
        &["--diagram", "x.svg"],
        &["--language", "--diagram", "x.svg"],
        &[trace, "--json"],
        &[trace, "--possible"],
        &[trace, other, "--possible"],
        &[trace, trace],
    ] {
        let output = mutua(&[&["replay"], arguments].concat());
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn sets_of_a_script_are_taken_without_an_option() {
    let script = file("own-sets.script");
    let head = "algorithm sanders\nprocesses A B\n";
    let sets = "request_set A: A B\nrequest_set B: A B\ninform_set A: A\ninform_set B: B\n";
    let play = |with: &str| {
        fs::write(&script, format!("{head}{with}{sets}A requests\nB requests\n")).expect("a file");
        mutua(&["replay", script.to_str().expect("a name")])
    };
    let played = play("");
    assert!(stdout(&played).contains("sets=own"), "{}", stdout(&played));
    let refused = play("with sets=maekawa\n");
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("leave it out, or the lines"), "{}", stderr(&refused));
    for page in [["algorithms", "sanders"], ["replay", "--language"]] {
        let text = stdout(&mutua(&page));
        assert!(text.contains("imply sets=own"), "{text}");
    }
}
