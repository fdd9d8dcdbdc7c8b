//! `--against NAME`: two algorithms in the same situation, seed by seed.
//!
//! Both runs of a seed draw the same think times, hold times and latencies as far as their events
//! allow (common random numbers), so the difference varies less than either figure, and its
//! interval is over the differences of pairs.

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use mutua_algorithms::About;
use mutua_simulator::{Interval, Plan};
use serde::Serialize;

use super::{
    Arguments, Outcome,
    outcome::{MEASURES, Measure, RESPONSE, WAITING},
    run::all_seeds,
    show,
};
use crate::{exit::usage, verdict, words::counted};

/// The number of pairs, unless `--runs` gives it.
const PAIRS: u64 = 10;

/// A measure of both algorithms.
#[derive(Serialize)]
struct Pair {
    measure: &'static str,
    #[serde(skip)]
    title: &'static str,
    first: f64,
    second: f64,
    /// The first minus the second, with its 95 % interval.
    difference: Interval,
}

pub(super) fn run(
    arguments: &Arguments,
    about: &'static About,
    other: &'static About,
) -> Result<ExitCode> {
    if about.name == other.name {
        return Err(usage(format!("--against {0} compares {0} with itself", other.name)));
    }
    let runs = arguments.runs.unwrap_or(PAIRS);
    if runs < 2 {
        return Err(usage("--against compares pairs of runs: give at least 2 --runs"));
    }
    let plan = super::plan_of(arguments, about.name)?;
    let other_plan = super::plan_of(arguments, other.name)?;
    let first = all_seeds(arguments, about, &plan, runs)?;
    let second = all_seeds(arguments, other, &other_plan, runs)?;
    let pairs = pairs(&first, &second);
    if arguments.json {
        let json = serde_json::json!({
            "first": about.name,
            "second": other.name,
            "situation": show::situation(&plan, about, &first),
            "runs": runs,
            "pairs": pairs,
            "failures": failures(&first).chain(failures(&second)).collect::<Vec<_>>(),
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{}", text(about, other, &plan, &first, &second, &pairs));
    }
    let failed = first.failed_seed().or(second.failed_seed());
    Ok(if failed.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn pairs(first: &Outcome, second: &Outcome) -> Vec<Pair> {
    MEASURES
        .iter()
        .chain([&WAITING, &RESPONSE])
        .filter_map(|one| pair(one, first, second))
        .collect()
}

/// A measure that both have in every run; none if one has not.
fn pair(measure: &Measure, first: &Outcome, second: &Outcome) -> Option<Pair> {
    let values = |outcome: &Outcome| -> Option<Vec<f64>> {
        let values = outcome.reports.iter().map(measure.of);
        values.map(|value| value.filter(|value| value.is_finite())).collect()
    };
    let (ours, theirs) = (values(first)?, values(second)?);
    let differences: Vec<_> =
        ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Some(Pair {
        measure: measure.name,
        title: measure.title,
        first: mean(&ours),
        second: mean(&theirs),
        difference: Interval::of(&differences)?,
    })
}

fn failures(outcome: &Outcome) -> impl Iterator<Item = String> {
    let failures = verdict::failures(&outcome.reports);
    let name = outcome.reports[0].algorithm;
    failures.into_iter().map(move |failure| format!("{name}: {failure}"))
}

fn text(
    about: &About,
    other: &About,
    plan: &Plan,
    first: &Outcome,
    second: &Outcome,
    pairs: &[Pair],
) -> String {
    let situation = show::situation(plan, about, first);
    let mut text = format!("{} against {}, {situation}\n\n", about.title, other.title);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", about.name, other.name, "difference", "+- 95 %", ""]);
    for pair in pairs {
        let width = pair.difference.half_width;
        let clear = width.is_some_and(|width| pair.difference.mean.abs() > width);
        table.add_row([
            pair.title.to_owned(),
            show::figure(pair.first),
            show::figure(pair.second),
            show::figure(pair.difference.mean),
            width.map_or_else(String::new, show::figure),
            if clear { "differs" } else { "no clear difference" }.to_owned(),
        ]);
    }
    for column in 1..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text += &format!("{table}\n");
    let count = counted(first.reports.len() as u64, "seed");
    text += &format!("intervals       95 %, over the differences of {count}\n");
    let unsettled =
        |outcome: &Outcome| outcome.reports.iter().any(|report| report.unsettled_before.is_some());
    for (outcome, about) in [(first, about), (second, other)] {
        if outcome.reports.iter().any(|report| report.overloaded) {
            text += &format!("OVERLOADED      {}: waits grow with the run\n", about.name);
        }
        if unsettled(outcome) {
            text += &format!("NOT SETTLED     {}: no figures of a steady state\n", about.name);
        }
    }
    for failure in failures(first).chain(failures(second)) {
        text += &format!("FAILED          {failure}\n");
    }
    text
}
