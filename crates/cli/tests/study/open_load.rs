//! What `mutua simulate` leaves out or marks: formulas where they do not apply, and overload.

use std::process::Command;

use serde_json::Value;

fn text(arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let output = command.args(arguments.split(' ')).output().expect("the binary runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn links_that_reorder_have_no_formulas() {
    let run = "simulate ricart-agrawala --nodes 5 --reorder --load light --entries 50 --json";
    let found: Value = serde_json::from_str(&text(run)).expect("one JSON object");
    assert!(found["theory"]["client_delay"].is_null(), "{found}");
    assert!(found["no_theory"].as_str().is_some_and(|why| why.contains("--reorder")), "{found}");
}

#[test]
fn an_open_system_is_overloaded_by_a_few_percent_too_many() {
    let run = "simulate central --nodes 50 --entries 100000 --load";
    let output = |rate: u32| text(&format!("{run} poisson:{rate}"));
    assert!(output(349).contains("OVERLOADED"), "{}", output(349));
    assert!(!output(300).contains("OVERLOADED"), "{}", output(300));
}

fn output(arguments: &str) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let output = command.args(arguments.split(' ')).output().expect("the binary runs");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).expect("text"), output.status.code())
}

#[test]
fn an_open_system_is_overloaded_from_its_capacity_on() {
    for run in [
        "central --load bursts:20ms --entries 1000",
        "central --load bursts:20ms --entries 500 --runs 3",
        "central --load bursts:1us --entries 100",
        "ricart-agrawala --nodes 10 --load poisson:500 --entries 3000 --runs 3",
        "central --nodes 20 --load poisson:334 --entries 3000",
        "central --nodes 1 --load poisson:1100 --entries 3000",
    ] {
        let (text, code) = output(&format!("simulate {run}"));
        assert!(text.contains("OVERLOADED") && code == Some(0), "{run}: {text}");
        let found: Value = serde_json::from_str(&self::text(&format!("simulate {run} --json")))
            .expect("one JSON object");
        assert_eq!(found["overloaded"], true, "{run}");
    }
    for run in [
        "central --load bursts:31ms --entries 1000",
        "central --nodes 20 --load poisson:330 --entries 3000 --runs 3",
        "le-lann --nodes 20 --load poisson:200 --entries 3000",
        "central --nodes 20 --load saturated --entries 1000",
    ] {
        let (text, _) = output(&format!("simulate {run}"));
        assert!(!text.contains("OVERLOADED"), "{run}: {text}");
        let found: Value = serde_json::from_str(&self::text(&format!("simulate {run} --json")))
            .expect("one JSON object");
        assert_eq!(found["overloaded"], false, "{run}");
    }
}

#[test]
fn a_precision_that_was_not_reached_is_exit_code_2() {
    let run = "simulate central --load bursts:20ms --entries 300 --precision 5%";
    let (text, code) = output(run);
    assert!(text.contains("NOT REACHED") && code == Some(2), "{text}");
    let (text, code) = output("simulate central --entries 300 --precision 5%");
    assert!(text.contains("5 % reached") && code == Some(0), "{text}");
}

#[test]
fn overloaded_bursts_and_critical_arrivals_are_marked_in_a_comparison() {
    let out = std::env::temp_dir().join(format!("mutua-overloaded-{}", std::process::id()));
    let common = "compare central --nodes 10 --at 10 --entries 2000 --runs 2";
    for arrivals in ["--loads 0.2,0.5 --arrivals bursts", "--loads 0.2,0.334 --arrivals poisson"] {
        let (shown, code) = output(&format!("{common} {arrivals} --out {}", out.display()));
        assert_eq!(code, Some(0), "{shown}");
        let table = std::fs::read_to_string(out.join("observations.csv")).expect("a table");
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        let of = |load: &str| lines.iter().find(|line| line[2] == load).expect("a row")[10];
        assert_eq!(of("0.2"), "measured", "{table}");
        let high = if arrivals.contains("bursts") { "0.5" } else { "0.334" };
        assert_eq!(of(high), "overloaded", "{table}");
    }
    std::fs::remove_dir_all(out).expect("removed");
}

#[test]
fn where_no_request_finds_the_section_free_the_client_delay_is_a_dash() {
    let shown = text("simulate central --load bursts:100ms --latency exp:1ms --entries 300");
    let line = shown.lines().find(|line| line.contains("client delay")).expect("a row");
    assert!(line.contains(" -") && !line.contains('.'), "{line}");
}

#[test]
fn what_would_take_for_ever_is_refused() {
    for (run, what) in [
        ("le-lann --gap 1000h --nodes 3 --entries 100", "events"),
        ("le-lann --load think:exp:1h --latency 1us --nodes 3 --entries 100", "events"),
        ("central --runs 18446744073709551615", "100000"),
    ] {
        let (text, code) = output(&format!("simulate {run}"));
        assert!(code == Some(64) && text.contains(what), "{run}: {code:?} {text}");
    }
}
