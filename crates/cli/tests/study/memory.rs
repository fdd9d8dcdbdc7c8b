//! Systems that do not fit into memory are refused before they are made.

use std::process::{Command, Output};

/// The command in an address space of so many KiB.
fn mutua_within(size: u32, arguments: &str) -> Output {
    let limited = format!("ulimit -v {size}; exec \"$0\" {arguments}");
    let binary = env!("CARGO_BIN_EXE_mutua");
    Command::new("sh").args(["-c", &limited, binary]).output().expect("it runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_simulation_is_refused_with_what_would_fit() {
    for run in [
        "lamport --nodes 10000000",
        "raymond --nodes 4294967295",
        "raymond --nodes 4294967295 --load saturated --matrix latencies.csv",
        "bully --nodes 10000000",
        "dijkstra --nodes 4294967295",
        "dijkstra --nodes 4294967295 --with daemon=central",
        "raymond --nodes 10000000 --repair generic --crash 3@1ms",
        "raymond --nodes 4294967295 --against naimi-trehel",
    ] {
        let output = mutua_within(8_000_000, &format!("simulate {run}"));
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{run}: {error}");
        assert!(error.contains(" of memory, and a run can have "), "{run}: {error}");
        assert!(error.contains(": give at most "), "{run}: {error}");
    }
    // What is said to fit does.
    let large = mutua_within(1_000_000, "simulate naimi-trehel --nodes 20000000 --entries 3");
    let error = stderr(&large);
    let (_, most) = error.trim_end().split_once("give at most ").expect("a number");
    let most = most.trim_end_matches(" processes");
    let run = format!("simulate naimi-trehel --nodes {most} --entries 3 --warm-up 0");
    let done = mutua_within(1_000_000, &run);
    assert!(done.status.success(), "{run}: {}", stderr(&done));
}

#[test]
fn a_comparison_in_which_nothing_fits_is_refused_before_anything_is_written() {
    let out = std::env::temp_dir().join(format!("mutua-refused-{}", std::process::id()));
    for (run, words) in [
        ("compare raymond --nodes 3,4294967295", "raymond with 4294967295 processes needs about"),
        ("compare raymond lamport --nodes 3 --at 4294967295", ": give at most "),
        ("compare bully --nodes 5000", "elections are compared with 2 to 1000 processes"),
    ] {
        let output = mutua_within(8_000_000, &format!("{run} --out {}", out.display()));
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{run}: {error}");
        assert!(error.contains(words), "{run}: {error}");
        assert!(!out.exists(), "{run}");
    }
}

#[test]
fn a_choice_among_algorithms_that_do_not_fit_is_refused() {
    for run in ["choose --nodes 4294967295", "choose --nodes 10000000 --ordered"] {
        let output = mutua_within(8_000_000, run);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(64), "{run}: {error}");
        assert!(error.contains("no algorithm fits into memory: "), "{run}: {error}");
        assert!(error.contains(": give at most "), "{run}: {error}");
    }
}

/// Plays this script, of so many processes, in an address space of so many KiB.
fn play_within(size: u32, algorithm: &str, nodes: u32, steps: &str) -> Output {
    let file =
        std::env::temp_dir().join(format!("mutua-{algorithm}-{nodes}-{}", std::process::id()));
    let text = format!("algorithm {algorithm}\nprocesses P1..P{nodes}\n{steps}");
    std::fs::write(&file, text).expect("a file");
    let output = mutua_within(size, &format!("replay {}", file.display()));
    std::fs::remove_file(file).expect("removed");
    output
}

#[test]
fn a_script_of_many_processes_is_played_if_it_fits_and_else_refused() {
    let steps = "P1 requests\ndeliver all\nP1 exits\n";
    let played = play_within(2_000_000, "central", 100_000, steps);
    assert!(played.status.success(), "{}", stderr(&played));
    let large = play_within(2_000_000, "lamport", 100_000, steps);
    let error = stderr(&large);
    assert_eq!(large.status.code(), Some(64), "{error}");
    assert!(error.contains("lamport with 100000 processes needs about"), "{error}");
    // What is said to fit does.
    let (_, most) = error.trim_end().split_once("give at most ").expect("a number");
    let most: u32 = most.trim_end_matches(" processes").parse().expect("a number");
    let done = play_within(2_000_000, "lamport", most, steps);
    assert!(most > 500 && done.status.success(), "{most}: {}", stderr(&done));
    let huge = play_within(2_000_000, "central", 4_000_000_000, steps);
    assert_eq!(huge.status.code(), Some(64));
    assert!(stderr(&huge).contains("a script has at most 1000000 processes"), "{}", stderr(&huge));
}
