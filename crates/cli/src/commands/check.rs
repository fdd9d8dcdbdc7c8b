//! `mutua check`: every interleaving of a small system.
//!
//! Exit code 0: everything that was looked at holds; 1: something does not; 2: the search ended
//! before it was decided; 70: the checker contradicts itself, which is a mistake of ours.

mod all;
mod arguments;
mod progress;
mod show;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Error, Result};
use mutua_checker::{CheckError, Reduction, Report, Task};

pub(crate) use arguments::Arguments;
use progress::Line;

use crate::exit::{Coded, INTERNAL, usage};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.all {
        return all::run(arguments);
    }
    let task = arguments.task()?;
    let mut line = Line::new();
    let report = mutua_checker::check(&task, &mut |now| line.show(now)).map_err(failed)?;
    let unreduced = if arguments.compares() {
        let task = Task { reduction: Reduction::None, ..task.clone() };
        let report = mutua_checker::check(&task, &mut |now| line.show(now));
        Some(report.map_err(failed)?)
    } else {
        None
    };
    line.clear();
    if let Some(directory) = &arguments.counterexamples {
        write_counterexamples(&task, &report, directory)?;
    }
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&show::json(&task, &report, unreduced.as_ref()))?
        );
    } else {
        print!("{}", show::text(&task, &report, unreduced.as_ref()));
    }
    if unreduced.is_some_and(|unreduced| !same(&report, &unreduced)) {
        let text = "the reductions have changed a verdict; that is a mistake in the checker: \
                    please report it with the whole command";
        return Err(Coded(INTERNAL, text.to_owned()).into());
    }
    Ok(exit_code(&report))
}

/// A system that does not start is the user's to mend; all else is a fault of ours.
fn failed(error: CheckError) -> Error {
    match error {
        CheckError::Start(error) => usage(error.to_string()),
        error => Coded(INTERNAL, error.to_string()).into(),
    }
}

/// Whether both found the same of every property, as far as both have decided it: a limit may end
/// the one before the other.
fn same(one: &Report, other: &Report) -> bool {
    if one.is_complete() && other.is_complete() {
        return found(one) == found(other);
    }
    let others = found(other);
    let differs = |&(name, holds): &(_, Option<bool>)| {
        others
            .iter()
            .any(|&(other, also)| other == name && holds.zip(also).is_some_and(|(a, b)| a != b))
    };
    !found(one).iter().any(differs)
}

fn found(report: &Report) -> Vec<(&'static str, Option<bool>)> {
    report.verdicts.iter().map(|verdict| (verdict.name, verdict.holds)).collect()
}

fn exit_code(report: &Report) -> ExitCode {
    if report.is_violated() {
        ExitCode::from(1)
    } else if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}

/// Writes every counterexample as a script that `mutua replay` plays, and as a picture.
fn write_counterexamples(task: &Task, report: &Report, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for verdict in &report.verdicts {
        let Some(trail) = &verdict.trail else { continue };
        let scripted = task.script(verdict.name, trail)?;
        let picture = mutua_trace::diagram::svg(&scripted.played.header, &scripted.played.events);
        for (ending, text) in [("script", scripted.script.text()), ("svg", picture)] {
            let path = directory.join(format!("{}.{ending}", task.file_name(verdict.name)));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_of_the_checker_is_a_fault_of_ours_and_no_verdict() {
        let error = failed(CheckError::Contradiction {
            algorithm: "central".to_owned(),
            property: "safety",
            how: "by 2 workers".to_owned(),
        });
        // As in a row of the table.
        let error = error.context("central of 3 processes");
        assert_eq!(error.downcast_ref().map(|Coded(code, _)| *code), Some(INTERNAL));
        assert!(format!("{error:#}").contains("no verdict on central"), "{error:#}");
    }
}
