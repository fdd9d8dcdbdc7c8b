//! How to see a failure again: the command that repeats it, and a short run that fails like it.

use mutua_simulator::{Load, Plan, shrink};
use serde::Serialize;

use super::Arguments;
use crate::{verdict::counted, workload};

/// A short run that fails as a longer one did.
#[derive(Serialize)]
pub(super) struct Short {
    nodes: u32,
    requests: usize,
    events: u64,
    /// How many runs it took to find it.
    tries: u64,
    violation: String,
    /// What repeats it.
    pub(super) command: String,
    #[serde(skip)]
    pub(super) plan: Plan,
}

/// Cuts a run that fails to a short one, if there is one.
pub(super) fn short(arguments: &Arguments, failed: &Plan) -> Option<Short> {
    let shrunk = shrink(&arguments.name, failed)?;
    let Load::Script(wishes) = &shrunk.plan.workload.load else { return None };
    let command = format!(
        "{} --nodes {} --requests {} --seed {}",
        command_without(&SCHEDULE),
        shrunk.plan.setup.nodes,
        workload::show_wishes(wishes),
        shrunk.plan.seed,
    );
    Some(Short {
        nodes: shrunk.plan.setup.nodes,
        requests: wishes.len(),
        events: shrunk.report.events,
        tries: shrunk.tries,
        violation: shrunk.report.violations.first()?.what.clone(),
        command,
        plan: shrunk.plan,
    })
}

/// Says how to repeat the run of this seed.
pub(super) fn tell(seed: u64) {
    eprintln!("replay: {} --seed {seed}", command_without(&SEEDS));
}

/// Says what a run was cut to.
pub(super) fn tell_short(short: Option<&Short>) {
    let Some(short) = short else {
        eprintln!("shrink: only the whole run fails like that");
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

/// The command that was given, without what does not belong to a trace: equal runs write equal
/// bytes, wherever to and whatever is printed.
pub(super) fn title() -> String {
    command_without(&["--trace", "--diagram", "--json", "--per-node", "--runs", "--shrink"])
}

const SEEDS: [&str; 3] = ["--seed", "--runs", "--shrink"];
const SCHEDULE: [&str; 14] = [
    "--seed",
    "--runs",
    "--shrink",
    "--nodes",
    "--load",
    "--gap",
    "--who",
    "--requests",
    "--entries",
    "--warm-up",
    "--trace",
    "--diagram",
    "--json",
    "--per-node",
];

/// Options that have no value.
const FLAGS: [&str; 3] = ["--shrink", "--json", "--per-node"];

fn command_without(options: &[&str]) -> String {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let kept = without(&words, options);
    let kept = kept.iter().map(|word| quoted(word));
    std::iter::once("mutua".to_owned()).chain(kept).collect::<Vec<_>>().join(" ")
}

/// The words of a command without these options and their values.
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

/// A word as a shell reads it back.
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
    fn options_are_taken_out_with_their_values() {
        let words = "simulate lamport --seed 4 --reorder --json --runs=9 --shrink --nodes 5";
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            without(&words, &SEEDS).join(" "),
            "simulate lamport --reorder --json --nodes 5"
        );
        assert_eq!(without(&words, &SCHEDULE).join(" "), "simulate lamport --reorder");
    }

    #[test]
    fn what_a_shell_would_take_apart_is_quoted() {
        assert_eq!(quoted("exp:1ms"), "exp:1ms");
        assert_eq!(quoted("my mat.txt"), "'my mat.txt'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
