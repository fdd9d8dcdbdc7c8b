//! `mutua cluster`, `mutua node` and `mutua status`, as a user calls them.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_mutua"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program runs");
    let text = [stdout, stderr].concat();
    (status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Ends the nodes, whatever becomes of the test.
struct Down<'a>(&'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        mutua(self.0, &["cluster", "down"]);
    }
}

#[test]
fn a_cluster_comes_up_says_how_it_is_and_goes_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let _down = Down(directory);
    let (code, text) = mutua(directory, &["cluster", "up", "3", "--algorithm", "suzuki-kasami"]);
    assert_eq!(code, 0, "{text}");
    let view = view(&text);
    let granted = format!("(epoch {view}), 3 members: locks are granted");
    assert_eq!(text.matches(&granted).count(), 3, "{text}");
    let (code, text) = mutua(directory, &["cluster", "up", "3"]);
    assert_eq!(code, 75, "{text}");
    assert!(text.contains("nodes already run"), "{text}");
    let (code, text) = mutua(directory, &["status", "--data", "mutua-cluster/b", "--json"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("\"node\": \"b\""), "{text}");
    assert_eq!(mutua(directory, &["cluster", "down"]), (0, "3 nodes stopped\n".to_owned()));
    let (code, text) = mutua(directory, &["cluster", "status"]);
    assert_eq!(code, 69, "{text}");
    assert_eq!(text.matches("does not run").count(), 3, "{text}");
    // Later views have later epochs.
    let (code, text) = mutua(directory, &["cluster", "up", "3", "--algorithm", "suzuki-kasami"]);
    assert_eq!(code, 0, "{text}");
    assert!(self::view(&text) > view, "{text}");
    assert!(text.contains("3 members: locks are granted"), "{text}");
    assert_eq!(mutua(directory, &["cluster", "down"]), (0, "3 nodes stopped\n".to_owned()));
    // Another cluster takes its place only if the user says so.
    let (code, text) = mutua(directory, &["cluster", "up", "2"]);
    assert!(code == 75 && text.contains("a cluster of 3 nodes"), "{code} {text}");
    let (code, text) = mutua(directory, &["cluster", "up", "2", "--new"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("2 members: locks are granted"), "{text}");
}

#[test]
fn a_node_of_a_trial_cluster_is_killed_and_started_again_by_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let _down = Down(directory);
    let (code, text) = mutua(directory, &["cluster", "up", "3"]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = mutua(directory, &["cluster", "kill", "d"]);
    assert!(code == 64 && text.contains("use one of a, b, c"), "{code} {text}");
    let killed = mutua(directory, &["cluster", "kill", "c"]);
    assert_eq!(killed, (0, "node c was killed\n".to_owned()));
    assert_eq!(mutua(directory, &["cluster", "kill", "c"]).0, 69);
    let (code, text) = mutua(directory, &["cluster", "start", "b"]);
    assert!(code == 75 && text.contains("runs already"), "{code} {text}");
    let (code, text) = mutua(directory, &["cluster", "start", "c"]);
    assert!(code == 0 && text.starts_with("node c of cluster trial"), "{code} {text}");
}

#[test]
fn a_node_that_is_stopped_by_a_signal_is_not_said_to_be_down_and_goes_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let _down = Down(directory);
    let (code, text) = mutua(directory, &["cluster", "up", "3"]);
    assert_eq!(code, 0, "{text}");
    let (_, text) = mutua(directory, &["status", "--data", "mutua-cluster/b", "--json"]);
    let status: Value = serde_json::from_str(&text).expect("JSON");
    let pid = status["pid"].as_u64().expect("a process").to_string();
    let stop = Command::new("kill").args(["-STOP", &pid]).status().expect("run");
    assert!(stop.success());
    let stopped = format!("its process {pid} is stopped");
    let (code, text) = mutua(directory, &["status", "--data", "mutua-cluster/b"]);
    assert_eq!(code, 69, "{text}");
    assert!(text.contains(&stopped), "{text}");
    let (code, text) = mutua(directory, &["cluster", "status"]);
    assert_eq!(code, 69, "{text}");
    assert!(text.contains("node b does not answer") && text.contains(&stopped), "{text}");
    assert!(!text.contains("does not run"), "{text}");
    let (code, text) = mutua(directory, &["cluster", "up", "3"]);
    assert_eq!(code, 75, "{text}");
    assert_eq!(mutua(directory, &["cluster", "down"]), (0, "3 nodes stopped\n".to_owned()));
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} runs");
}

#[test]
fn the_traces_of_all_nodes_together_are_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let _down = Down(directory);
    let (code, text) = mutua(directory, &["cluster", "up", "2", "--trace", "demo"]);
    assert_eq!(code, 0, "{text}");
    for node in ["a", "b", "a"] {
        let socket = directory.join("mutua-cluster").join(node).join("locks.sock");
        let endpoint = format!("unix:{}", socket.display());
        let lock = ["lock", "--endpoint", &endpoint, "demo", "--", "sleep", "0.1"];
        let (code, text) = mutua(directory, &lock);
        assert_eq!(code, 0, "{text}");
    }
    assert_eq!(mutua(directory, &["cluster", "down"]).0, 0);
    let stays = stays(&directory.join("mutua-cluster/a.trace"));
    assert_eq!(stays.len(), 2);
    assert!(stays.iter().all(|&nanos| nanos >= 100_000_000), "{stays:?}");
    let traces = ["mutua-cluster/a.trace", "mutua-cluster/b.trace"];
    let (code, text) = mutua(directory, &["replay", traces[0], traces[1], "--diagram", "demo.svg"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("enters, fencing token").count(), 3, "{text}");
    assert!(text.contains("a gets token from b") && text.contains("b gets token from a"), "{text}");
    let svg = fs::read_to_string(directory.join("demo.svg")).expect("a picture");
    assert!(svg.contains("lock demo"));
}

/// The epoch of the first view in a text.
fn view(text: &str) -> u32 {
    let printed = text.split("(epoch ").nth(1).and_then(|rest| rest.split(')').next());
    printed.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no view in {text}"))
}

/// How long each stay of a trace was, in nanoseconds.
fn stays(trace: &Path) -> Vec<u64> {
    let text = fs::read_to_string(trace).expect("a trace");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut entered = 0;
    let stay = |event: Value| {
        let at = event["at"].as_u64().unwrap_or_default();
        match event["what"].as_str() {
            Some("enter") => {
                entered = at;
                None
            }
            Some("exit") => Some(at - entered),
            _ => None,
        }
    };
    lines.filter_map(stay).collect()
}

#[test]
fn what_cannot_be_is_refused_with_the_place_and_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let (code, text) = mutua(directory, &["cluster", "up", "2", "--algorithm", "bakery-naive"]);
    assert_eq!(code, 64, "{text}");
    assert!(text.contains("bakery-naive is a negative control"), "{text}");
    let (code, text) = mutua(directory, &["node"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("no configuration: give --config FILE"), "{text}");
    let nowhere = directory.join("nothing.sock");
    let mut status = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let done = status.arg("status").env("MUTUA_SOCKET", &nowhere).output().expect("mutua runs");
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(69), "{text}");
    let expected = format!("no node answers at unix:{}", nowhere.display());
    assert!(text.contains(&expected) && text.contains("--endpoint, --socket"), "{text}");
    let config = "cluster = \"c\"\nnode = \"x\"\n[[members]]\nname = \"a\"\naddress = \"h:1\"\n";
    fs::write(directory.join("mutua.toml"), config).expect("written");
    let (code, text) = mutua(directory, &["node", "--config", "mutua.toml"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("mutua.toml:2: `x` is none of the members: a"), "{text}");
    let two = "[[members]]\nname = \"b\"\naddress = \"0.0.0.0:0\"\n";
    let config = config.replace("\"x\"", "\"b\"") + two;
    fs::write(directory.join("mutua.toml"), config).expect("written");
    let (code, text) = mutua(directory, &["node", "--config", "mutua.toml"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("can be reached from other machines"), "{text}");
}
