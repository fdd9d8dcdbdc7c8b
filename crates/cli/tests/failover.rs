//! `mutua demo failover`: the sum is right after every fault, and nothing is left behind.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A run whose directories are in `temporary`.
fn demo(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(["demo", "failover"]).args(arguments).env("TMPDIR", temporary);
    command
}

/// The processes that run with a file in this directory as an argument.
fn processes_of(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().expect("a plain path").to_owned();
    let entries = fs::read_dir("/proc").expect("processes");
    let command = |entry: std::io::Result<fs::DirEntry>| {
        let bytes = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    entries.filter_map(command).filter(|line| line.contains(&directory)).collect()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).expect("a directory").next().is_none()
}

#[test]
fn the_sum_is_right_through_all_faults() {
    let temporary = tempfile::tempdir().expect("a directory");
    let Output { status, stdout, stderr } =
        demo(temporary.path(), &["--quick", "--json"]).output().expect("runs");
    let (text, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{text}{errors}");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["sum"], result["expected_sum"], "{text}");
    assert_eq!(result["violations"], Value::Array(Vec::new()), "{text}");
    assert!(result["transfers"].as_u64() > Some(0), "{text}");
    let faults = result["faults"].as_array().expect("faults");
    let names: Vec<_> = faults.iter().filter_map(|fault| fault["fault"].as_str()).collect();
    let all = [
        "holder_killed",
        "token_killed",
        "leader_killed",
        "leader_stopped",
        "holder_cut_off",
        "holder_paused",
    ];
    assert_eq!(names, all);
    for fault in faults {
        // One view without the nodes that were struck, and one with them, at least.
        assert!(fault["view_changes"].as_u64() >= Some(2), "{fault}");
    }
    assert!(is_empty(temporary.path()), "a directory is left");
    assert_eq!(processes_of(temporary.path()), Vec::<String>::new());
}

#[test]
fn lines_tell_what_happens_where_there_is_no_terminal() {
    let temporary = tempfile::tempdir().expect("a directory");
    let arguments = ["--quick", "--only", "holder-killed"];
    let Output { status, stdout, .. } = demo(temporary.path(), &arguments).output().expect("runs");
    let text = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{text}");
    assert!(text.contains("the holder's node killed: "), "{text}");
    assert!(text.contains("all nodes are in one view again"), "{text}");
    assert!(text.contains("sum of the accounts 10000 of 10000: right"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn ctrl_c_ends_the_processes_and_removes_the_directory() {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut run = demo(temporary.path(), &[]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
    let began = Instant::now();
    while processes_of(temporary.path()).len() < 5 {
        assert!(began.elapsed() < Duration::from_secs(60), "five processes do not start");
        thread::sleep(Duration::from_millis(20));
    }
    interrupt(&run);
    assert_eq!(run.wait().expect("ended").code(), Some(130));
    assert!(is_empty(temporary.path()), "a directory is left");
    assert_eq!(processes_of(temporary.path()), Vec::<String>::new());
}

fn interrupt(child: &Child) {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, Signal::INT).expect("it runs");
}

#[test]
fn bad_usage_is_refused_before_anything_starts() {
    let temporary = tempfile::tempdir().expect("a directory");
    for arguments in [
        ["--view-lease", "100ms"],
        ["--measure", "0"],
        ["--only", "nothing"],
        ["--seconds", "soon"],
    ] {
        let Output { status, stderr, .. } =
            demo(temporary.path(), &arguments).output().expect("runs");
        let text = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(64), "{text}");
        assert!(text.contains(arguments[0]), "{text}");
    }
    assert!(is_empty(temporary.path()), "a directory is left");
}
