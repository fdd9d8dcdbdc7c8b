//! `mutua check --all`: the whole table of systems.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use mutua_checker::{
    Reduction, Report, Task,
    table::{Row, deep, repairs, small},
};
use serde_json::{Value, json};

use super::{Arguments, failed, progress::Line, write_counterexamples};
use crate::{out, words::counted};

/// Checks all rows. Exit code 0: every row is as expected, the negative controls included.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let rows = match arguments.deep {
        true => deep(),
        false => small().into_iter().chain(repairs()).collect(),
    };
    let mut lines = Vec::new();
    if !arguments.json {
        println!("{}", columns("algorithm", "system", "states", "seconds", "found"));
        let dashes = |count| "-".repeat(count);
        let (name, system, states, time) = (dashes(21), dashes(67), dashes(11), dashes(7));
        println!("{}", columns(&name, &system, &states, &time, &dashes(5)));
    }
    for row in rows {
        let Some(line) = check_row(row, arguments)? else { continue };
        if !arguments.json {
            println!("{}", line.text());
            // A reader of a pipe sees each row as soon as it is checked.
            out::flush();
        }
        lines.push(line);
    }
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    let (wrong, open) = (count(Found::Unexpected), count(Found::Undecided));
    if arguments.json {
        let rows: Vec<_> = lines.iter().map(Checked::json).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let states: u64 = lines.iter().map(|line| line.states).sum();
        // The time of the whole command: searches that are repeated for a counterexample, and the
        // search for cycles, are in no search's own time.
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "\n{} rows, {states} states, {seconds:.0} s: {} as expected, {wrong} unexpected, \
             {open} not decided",
            lines.len(),
            count(Found::AsExpected)
        );
    }
    Ok(ExitCode::from(match (wrong, open) {
        (0, 0) => 0,
        (0, _) => 2,
        (_, _) => 1,
    }))
}

/// One line of the table, its columns aligned.
fn columns(algorithm: &str, system: &str, states: &str, seconds: &str, found: &str) -> String {
    format!("{algorithm:<21}  {system:<67}  {states:>11}  {seconds:>7}  {found}")
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Found {
    AsExpected,
    Unexpected,
    /// A limit ended the search before it was decided.
    Undecided,
}

/// A row that was checked.
struct Checked {
    row: Row,
    states: u64,
    /// Wall-clock time.
    seconds: f64,
    verdict: Found,
    words: String,
}

/// Checks a row; none if it compares reductions and none applied.
fn check_row(row: Row, arguments: &Arguments) -> Result<Option<Checked>> {
    let began = Instant::now();
    let mut line = Line::new();
    let mut reports = Vec::new();
    let mut unmerged = Vec::new();
    for task in &row.tasks {
        let mut task = task.clone();
        // One search decides whether a ring settles, and has a bound of its own.
        if !task.has_daemon() {
            task.limits = arguments.limits(task.limits);
        }
        let mut check = |task: &Task| {
            mutua_checker::check(task, &mut line)
                .map_err(|error| failed(error).context(task.words()))
        };
        let report = check(&task)?;
        if let Some(directory) = &arguments.counterexamples {
            write_counterexamples(&task, &report, directory)?;
        }
        if row.twice && report.searches.iter().all(|search| search.reductions.is_empty()) {
            continue;
        }
        reports.push(report);
        if row.twice {
            task.reduction = Reduction::None;
            unmerged.push(check(&task)?);
        }
    }
    line.clear();
    let seconds = began.elapsed().as_secs_f64();
    if reports.is_empty() {
        return Ok(None);
    }
    let searches = || reports.iter().chain(&unmerged).flat_map(|report| &report.searches);
    let states = searches().map(|search| search.states).sum();
    let (verdict, words) = if row.twice {
        let verdict =
            if same(&reports, &unmerged) { judge(&row, &reports) } else { Found::Unexpected };
        (verdict, compared(&reports, &unmerged))
    } else {
        (judge(&row, &reports), words(&row, &reports))
    };
    Ok(Some(Checked { row, states, seconds, verdict, words }))
}

/// Whether both have the same verdicts on all properties.
fn same(merged: &[Report], unmerged: &[Report]) -> bool {
    merged.iter().zip(unmerged).all(|(merged, unmerged)| super::same(merged, unmerged))
}

fn compared(merged: &[Report], unmerged: &[Report]) -> String {
    let states = |reports: &[Report]| -> u64 {
        reports.iter().flat_map(|report| &report.searches).map(|search| search.states).sum()
    };
    let found = if same(merged, unmerged) { "same verdicts" } else { "OTHER VERDICTS" };
    let mut how: Vec<&str> = Vec::new();
    for reduction in merged.iter().flat_map(|report| &report.searches).flat_map(|s| &s.reductions) {
        let word = reduction.split([' ', '(']).next().unwrap_or_default();
        if !how.contains(&word) {
            how.push(word);
        }
    }
    let (all, left) = (states(unmerged), states(merged));
    format!("{found} with {all} states merged to {left} ({})", how.join(", "))
}

fn judge(row: &Row, reports: &[Report]) -> Found {
    let vacuous = reports.iter().flat_map(|report| &report.goals).any(|goal| !goal.reached);
    match row.violated {
        Some(_) if reports.iter().all(Report::is_violated) => Found::AsExpected,
        None if reports.iter().any(Report::is_violated) => Found::Unexpected,
        None if vacuous => Found::Unexpected,
        _ if !reports.iter().all(Report::is_complete) => Found::Undecided,
        Some(_) => Found::Unexpected,
        None => Found::AsExpected,
    }
}

fn words(row: &Row, reports: &[Report]) -> String {
    let verdicts = || reports.iter().flat_map(|report| &report.verdicts);
    let violated = verdicts().find(|verdict| verdict.holds == Some(false));
    match (violated, row.violated) {
        (Some(verdict), expected) => {
            let steps = verdict.trail.as_ref().map_or(0, |trail| trail.steps.len());
            let control = if expected.is_some() { "negative control: " } else { "" };
            format!("{control}{} violated in {steps} steps", verdict.name)
        }
        (None, Some(claim)) => format!("{} not violated", claim.name()),
        (None, None) => {
            let names = |held: bool| {
                let mut names: Vec<_> = verdicts()
                    .filter(|verdict| verdict.holds.is_some() == held)
                    .map(|verdict| verdict.name.as_ref())
                    .collect();
                names.sort_unstable();
                names.dedup();
                names.join(", ")
            };
            let open = names(false);
            let held = names(true);
            let held = if held.is_empty() { held } else { format!("holds: {held}") };
            match (held.is_empty(), open.is_empty()) {
                (_, true) => held,
                (true, false) => format!("not decided: {open}{}", covered(reports)),
                (false, false) => format!("{held}; not decided: {open}{}", covered(reports)),
            }
        }
    }
}

/// How far the unfinished searches came.
fn covered(reports: &[Report]) -> String {
    let searches = reports.iter().flat_map(|report| &report.searches);
    let words = searches.filter(|search| search.is_limited()).map(|search| {
        format!(
            " ({}: {} at {} and {} MiB{})",
            search.properties.join(", "),
            search.stopped.map_or_else(String::new, |stop| stop.words()),
            counted(search.states, "state"),
            search.bytes >> 20,
            super::show::covered(search)
        )
    });
    words.collect()
}

impl Checked {
    fn system(&self) -> String {
        let mut words = self.row.title.clone();
        if let [task] = self.row.tasks.as_slice() {
            for (key, value) in task.system.setup.settings.iter() {
                if !["daemon", "k"].contains(&key) {
                    words += &format!(", {key}={value}");
                }
            }
        }
        words
    }

    fn text(&self) -> String {
        let mark = match self.verdict {
            Found::AsExpected => "",
            Found::Unexpected => "NOT AS EXPECTED: ",
            Found::Undecided => "unfinished: ",
        };
        let found = format!("{mark}{}", self.words);
        let (states, seconds) = (self.states.to_string(), format!("{:.1}", self.seconds));
        columns(&self.row.tasks[0].name, &self.system(), &states, &seconds, &found)
    }

    fn json(&self) -> Value {
        json!({
            "algorithm": self.row.tasks[0].name,
            "system": self.system(),
            "systems": self.row.tasks.len(),
            "states": self.states,
            "seconds": self.seconds,
            "control": self.row.violated.map(|claim| claim.name()),
            "as_expected": self.verdict == Found::AsExpected,
            "complete": self.verdict != Found::Undecided,
            "found": self.words,
        })
    }
}
