//! `mutua simulate --repair generic|special`: crashes, their repair and its cost.

mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};
use mutua_algorithms::About;
use mutua_simulator::{Detector, Distribution, RepairPlan, RepairReport, simulate_repaired};

use super::{
    Arguments,
    recording::{Recording, Shown},
    refuse_large, replay, unfit,
};
use crate::{exit::usage, repair::RepairArgument, size};

/// Whether a run with a repair is wanted.
pub(super) fn is_selected(arguments: &Arguments) -> bool {
    argument(arguments) != RepairArgument::None
}

/// The repair: as given, or the generic one if an option is given that needs one.
fn argument(arguments: &Arguments) -> RepairArgument {
    let implied = arguments.election.is_some()
        || arguments.detector.is_some()
        || !arguments.network.chosen_crashes().is_empty();
    let usual = if implied { RepairArgument::Generic } else { RepairArgument::None };
    arguments.repair.unwrap_or(usual)
}

/// Refuses the options of a repair in a run with `--repair none`.
pub(super) fn refuse_without(arguments: &Arguments) -> Result<()> {
    arguments.network.refuse_chosen_crashes("does not go with --repair none")?;
    for (option, given) in
        [("--election", arguments.election.is_some()), ("--detector", arguments.detector.is_some())]
    {
        if given {
            return Err(usage(format!(
                "{option} does not go with --repair none: leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Reports of a crash come after this many mean latencies, if no detector is given.
const DETECTION: f64 = 5.0;

pub(super) fn run(arguments: &Arguments, about: &'static About) -> Result<ExitCode> {
    unfit::refuse(arguments, about, unfit::Run::Mutex)?;
    refuse(arguments)?;
    let plan = super::plan(arguments)?;
    let usual = Distribution::Constant((DETECTION * plan.network.mean_latency()) as u64);
    let usual = Detector::Perfect(usual);
    let plan = RepairPlan {
        plan,
        election: arguments.election.unwrap_or_default(),
        special: argument(arguments) == RepairArgument::Special,
        chosen: arguments.network.chosen_crashes(),
        detector: arguments.detector.unwrap_or(usual),
        transmission: None,
        handling: None,
        gap_at: None,
    };
    refuse_large(about, &plan.plan.setup, size::Run::repaired(&plan))?;
    let recording = Recording::new(arguments, replay::title(), Shown::Repair)?;
    let report = match &recording {
        None => simulate_repaired(about.name, &plan, None),
        Some(recording) => {
            let make = |name, start: &_| recording.recorder(name, start);
            simulate_repaired(about.name, &plan, Some(&make))
        }
    };
    let report = report.context("unknown mutual exclusion algorithm")?;
    let report = report.map_err(|error| usage(error.to_string()))?;
    if let Some(recording) = recording {
        if let Some(times) = around_the_repairs(&plan, &report) {
            recording.show_only(times);
            recording.show_trees_of(&plan.plan.setup);
        }
        recording.finish()?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", text::all(about, &plan, &report));
    }
    if report.report.violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    replay::print_command(plan.plan.seed);
    Ok(ExitCode::FAILURE)
}

/// The times that a diagram shows, the first and the last: from shortly before the first crash, or
/// before the partition that looks like one, to the first entry after the last repair, or to the
/// first violation; none without a repair.
fn around_the_repairs(plan: &RepairPlan, report: &RepairReport) -> Option<(u64, u64)> {
    let (first, last) = (report.repairs.first()?, report.repairs.last()?);
    let margin = (SHOWN_AROUND * plan.plan.network.mean_latency()) as u64;
    let repaired = last.entered_at.unwrap_or(last.resumed_at).max(last.resumed_at);
    let violated = report.report.violations.first().map(|violation| violation.at);
    let end = violated.unwrap_or(repaired);
    let begin = first.changed_at.min(end);
    let cuts = plan.plan.network.partitions.iter();
    let cuts = cuts.filter(|cut| (cut.from..=cut.until).contains(&begin)).map(|cut| cut.from);
    let begin = cuts.max().unwrap_or(begin);
    Some((begin.saturating_sub(margin), end + margin))
}

/// A diagram shows so many mean latencies before the first crash and after the last repair.
const SHOWN_AROUND: f64 = 3.0;

/// Refuses what a run with a repair does not have.
fn refuse(arguments: &Arguments) -> Result<()> {
    if argument(arguments) == RepairArgument::GenericWithoutViews {
        return Err(usage(
            "generic-without-views is a negative control of `mutua check`: use --repair generic",
        ));
    }
    let network = &arguments.network;
    // Timeouts see a partition; a perfect detector reports crashes only.
    let may_be_wrong = matches!(arguments.detector, Some(Detector::Timeout(_)));
    let given = [
        ("--runs", arguments.runs() > 1),
        ("--sections", arguments.sections.is_some()),
        ("--shrink", arguments.shrink),
        ("--app-messages", arguments.app_messages.is_some()),
        ("--order", arguments.order),
        ("--property", !arguments.properties.is_empty()),
        ("--per-node", arguments.per_node),
        ("--loss", network.loss != 0.0),
        ("--duplication", network.duplication != 0.0),
        ("--partition", !network.partition.is_empty() && !may_be_wrong),
        ("--reorder", network.reorder),
    ];
    match given.into_iter().find(|&(_, given)| given) {
        None => Ok(()),
        Some(("--partition", _)) => Err(usage(
            "--partition does not go with --detector perfect, which reports crashes only: use \
             --detector timeout:TIME",
        )),
        Some((option @ ("--loss" | "--duplication" | "--reorder"), _)) => Err(usage(format!(
            "{option} does not go with a repair, which needs reliable links: leave {option} out"
        ))),
        Some((option, _)) => Err(usage(format!(
            "{option} does not go with a repair: leave it out, or use --repair none"
        ))),
    }
}
