//! Reproducing a violation: the command that repeats the run, and a short run with the same one.

use mutua_simulator::{Load, Plan, shrink};
use serde::Serialize;

use super::Arguments;
use crate::{words::counted, workload};

/// A short run with the same violation as a longer one.
#[derive(Serialize)]
pub(super) struct Short {
    nodes: u32,
    requests: usize,
    events: u64,
    /// The number of runs that were tried.
    tries: u64,
    violation: String,
    /// The command that repeats it.
    pub(super) command: String,
    #[serde(skip)]
    pub(super) plan: Plan,
}

/// Shrinks a run with a violation, if possible.
pub(super) fn short(arguments: &Arguments, failed: &Plan) -> Option<Short> {
    let shrunk = shrink(&arguments.name, failed)?;
    let Load::Script(requests) = &shrunk.plan.workload.load else { return None };
    let command = format!(
        "{} --nodes {} --requests {} --seed {}",
        command_without(&SCHEDULE),
        shrunk.plan.setup.nodes,
        workload::show_requests(requests),
        shrunk.plan.seed,
    );
    Some(Short {
        nodes: shrunk.plan.setup.nodes,
        requests: requests.len(),
        events: shrunk.report.events,
        tries: shrunk.tries,
        violation: shrunk.report.violations.first()?.what.clone(),
        command,
        plan: shrunk.plan,
    })
}

/// Prints the command that repeats the run of this seed.
pub(super) fn print_command(seed: u64) {
    eprintln!("replay: {} --seed {seed}", command_without(&SEEDS));
}

/// Prints the result of shrinking.
pub(super) fn print_short(short: Option<&Short>) {
    let Some(short) = short else {
        eprintln!("shrink: found no shorter run with the same violation");
        return;
    };
    let Short { violation, command, .. } = short;
    eprintln!(
        "shrunk to {} of {}, {} ({} tried): {violation}",
        counted(short.requests as u64, "request"),
        counted(short.nodes.into(), "process"),
        counted(short.events, "event"),
        counted(short.tries, "run"),
    );
    eprintln!("replay: {command}");
}

/// The command line without the options that do not belong to a trace: equal runs write equal
/// bytes, to any file and with any output.
pub(super) fn title() -> String {
    let others = ["--trace", "--json", "--per-node", "--runs", "--precision", "--shrink"];
    command_without(&[&others, &PICTURE[..]].concat())
}

/// The options of diagrams.
const PICTURE: [&str; 6] =
    ["--diagram", "--steps", "--width", "--scale", "--linear", "--variables"];

const SEEDS: [&str; 5] = ["--seed", "--runs", "--precision", "--against", "--shrink"];
const SCHEDULE: [&str; 20] = [
    "--seed",
    "--runs",
    "--precision",
    "--shrink",
    "--nodes",
    "--load",
    "--gap",
    "--requesters",
    "--requests",
    "--entries",
    "--warm-up",
    "--trace",
    "--diagram",
    "--steps",
    "--width",
    "--scale",
    "--linear",
    "--variables",
    "--json",
    "--per-node",
];

/// Options without a value.
const FLAGS: [&str; 4] = ["--shrink", "--json", "--per-node", "--linear"];

fn command_without(options: &[&str]) -> String {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let kept = without(&words, options);
    let kept = kept.iter().map(|word| quoted(word));
    std::iter::once("mutua".to_owned()).chain(kept).collect::<Vec<_>>().join(" ")
}

/// A command line without these options and their values.
fn without(words: &[String], options: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let (name, has_value) =
            word.split_once('=').map_or((word.as_str(), false), |(n, _)| (n, true));
        if !options.contains(&name) {
            kept.push(word.clone());
        } else if !has_value && !FLAGS.contains(&name) {
            words.next();
        }
    }
    kept
}

/// A word, quoted for a shell if needed.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+.,:/@%^".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_removed_with_their_values() {
        let words = "simulate lamport --seed 4 --reorder --json --runs=9 --shrink --nodes 5";
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            without(&words, &SEEDS).join(" "),
            "simulate lamport --reorder --json --nodes 5"
        );
        assert_eq!(without(&words, &SCHEDULE).join(" "), "simulate lamport --reorder");
    }

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        assert_eq!(quoted("exp:1ms"), "exp:1ms");
        assert_eq!(quoted("my mat.txt"), "'my mat.txt'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
