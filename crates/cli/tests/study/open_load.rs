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
