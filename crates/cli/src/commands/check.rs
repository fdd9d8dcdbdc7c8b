//! `mutua check`: model checking of a small system.
//!
//! Exit code 0: all checked properties hold; 1: one is violated; 2: the search ended before that
//! was decided; 70: the checker contradicts itself, which is a bug.

mod all;
mod arguments;
mod progress;
mod show;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Error, Result};
use mutua_checker::{CheckError, Reduction, Report, Task};
use mutua_lab::{counterexample, diagram, state_graph};

pub(crate) use arguments::Arguments;
use progress::Line;

use crate::{
    exit::{Coded, INCOMPLETE, INTERNAL, usage},
    picture,
};

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.all {
        return all::run(arguments);
    }
    if arguments.language {
        match arguments.json {
            true => println!("{}", serde_json::to_string_pretty(&show::language_json())?),
            false => print!("{}", show::language()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.deep {
        return Err(usage("--deep applies to --all only: use mutua check --all --deep"));
    }
    let task = arguments.task()?;
    let mut line = Line::new();
    if let Some(file) = &arguments.graph {
        if arguments.compares() {
            return Err(usage("--graph draws one graph: use --reduction all or none"));
        }
        return write_graph(&task, file, &mut line);
    }
    let report = mutua_checker::check(&task, &mut line).map_err(failed)?;
    let unreduced = if arguments.compares() {
        let task = Task { reduction: Reduction::None, ..task.clone() };
        let report = mutua_checker::check(&task, &mut line);
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
        print!("{}", show::text(&task, &report, unreduced.as_ref(), arguments.states));
    }
    if unreduced.is_some_and(|unreduced| !same(&report, &unreduced)) {
        let text = "the reductions changed a verdict: this is a bug of the checker, please report \
                    it with the whole command";
        return Err(Coded(INTERNAL, text.to_owned()).into());
    }
    Ok(exit_code(&report))
}

/// Writes the graph of all states.
fn write_graph(task: &Task, file: &Path, line: &mut Line) -> Result<ExitCode> {
    let as_dot = file.extension().is_some_and(|ending| ending == "dot" || ending == "gv");
    let most = if as_dot { state_graph::MOST_WRITTEN } else { state_graph::MOST_DRAWN };
    if !as_dot {
        picture::check_svg(file)?;
    }
    let graph = mutua_checker::graph(task, most, line).map_err(failed)?;
    line.clear();
    // No property is checked, so none is part of the scope.
    let task = Task { properties: Some(Vec::new()), ..task.clone() };
    let title = format!("{}; {}", task.words(), task.scope());
    if as_dot {
        fs::write(file, state_graph::dot(&title, &graph))
            .with_context(|| format!("cannot write {}", file.display()))?;
    } else {
        picture::write_svg(file, &state_graph::svg(&title, &graph))?;
    }
    println!("{} states, {} steps: {}", graph.states.len(), graph.steps.len(), file.display());
    Ok(ExitCode::SUCCESS)
}

/// A system that cannot be checked is bad usage; every other error is a bug of the checker.
fn failed(error: CheckError) -> Error {
    if error.is_usage() {
        usage(error.to_string())
    } else {
        Coded(INTERNAL, error.to_string()).into()
    }
}

/// Whether both have the same verdict on every property that both have decided: a limit may end one
/// before the other.
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

fn found(report: &Report) -> Vec<(&str, Option<bool>)> {
    report.verdicts.iter().map(|verdict| (verdict.name.as_ref(), verdict.holds)).collect()
}

fn exit_code(report: &Report) -> ExitCode {
    if report.is_violated() {
        ExitCode::from(1)
    } else if report.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE)
    }
}

/// Writes every counterexample as a script that `mutua replay` plays, and as a picture.
fn write_counterexamples(task: &Task, report: &Report, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))?;
    for verdict in &report.verdicts {
        let Some(trail) = &verdict.trail else { continue };
        let scripted = counterexample::script(task, &verdict.name, trail)?;
        let (script, played) = (&scripted.script, &scripted.played);
        let picture = diagram::draw(&played.header, &played.events, &script.drawing(played));
        for (ending, text) in [("script", scripted.script.text()), ("svg", picture)] {
            let path = directory.join(format!("{}.{ending}", task.file_name(&verdict.name)));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_of_the_checker_is_a_bug_and_not_a_verdict() {
        let error = failed(CheckError::Contradiction {
            algorithm: "central".to_owned(),
            property: "mutual-exclusion".to_owned(),
            how: "by 2 workers".to_owned(),
        });
        // As in a row of the table.
        let error = error.context("central of 3 processes");
        assert_eq!(error.downcast_ref().map(|Coded(code, _)| *code), Some(INTERNAL));
        assert!(format!("{error:#}").contains("no verdict on central"), "{error:#}");
    }
}
