//! `mutua simulate dijkstra --with daemon=...`: the ring whose flags are read directly.

use std::process::ExitCode;

use anyhow::Result;
use mutua_algorithms::{About, self_stabilizing::Daemon};
use mutua_simulator::{Interval, RingPlan, RingReport, Violation, combined, settle};
use serde::Serialize;

use super::{Arguments, NODES, refuse_large, unfit};
use crate::{exit::usage, size, verdict::of_seed, words::counted};

/// The output of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    algorithm: &'static str,
    daemon: &'a str,
    nodes: u32,
    k: u32,
    runs: usize,
    seeds: Vec<u64>,
    /// Whether every run settled.
    settled: bool,
    settled_runs: usize,
    /// The mean over the runs that settled.
    settling_steps: Option<f64>,
    max_settling_steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_settling_steps: Option<Interval>,
    /// Entries until the ring was legitimate, the mean over all runs.
    entries: f64,
    most_privileged: u64,
    /// The flags at the start of the first run.
    flags: &'a [u32],
    violations: Vec<Violation>,
    events: u64,
    trace_hash: String,
}

/// Whether flags are read directly instead of being sent in messages.
pub(super) fn is_selected(arguments: &Arguments, about: &About) -> Result<bool> {
    let settings = arguments.system.setup(&arguments.name, NODES)?.settings;
    Ok(Daemon::of(about, &settings).is_some())
}

pub(super) fn run(arguments: &Arguments, about: &'static About) -> Result<ExitCode> {
    unfit::refuse(arguments, about, unfit::Run::Daemon)?;
    let mut setup = arguments.system.setup(&arguments.name, NODES)?;
    if let (None, Some(flags)) = (arguments.system.nodes, &arguments.flags) {
        setup.nodes = u32::try_from(flags.len())?;
    }
    refuse_large(about, &setup, size::Run::Daemon)?;
    let plan = RingPlan {
        about,
        setup,
        flags: arguments.flags.clone(),
        max_steps: arguments.max_steps,
        seed: arguments.seed,
    };
    let runs = (0..arguments.runs()).map(|number| {
        let seed = plan.seed.wrapping_add(number);
        settle(&RingPlan { seed, ..plan.clone() }).map_err(|error| usage(error.to_string()))
    });
    let reports = runs.collect::<Result<Vec<_>>>()?;
    let json = json(&plan, &reports);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        show(about, &json);
    }
    let Some(failed) = reports.iter().find(|report| !report.settled) else {
        return Ok(ExitCode::SUCCESS);
    };
    super::replay::print_command(failed.seed);
    Ok(ExitCode::FAILURE)
}

fn json<'a>(plan: &'a RingPlan, reports: &'a [RingReport]) -> Json<'a> {
    let settled: Vec<_> = reports.iter().filter_map(|report| report.settling_steps).collect();
    let steps: Vec<_> = settled.iter().map(|&steps| steps as f64).collect();
    let interval = Interval::of(&steps);
    let entries = reports.iter().map(|report| report.entries).sum::<u64>();
    let hashes = reports.iter().map(|report| report.trace_hash.as_str());
    let most_privileged = reports.iter().map(|report| report.most_privileged);
    Json {
        algorithm: reports[0].algorithm,
        daemon: plan.setup.settings.get("daemon").unwrap_or_default(),
        nodes: plan.setup.nodes,
        k: reports[0].k,
        runs: reports.len(),
        seeds: reports.iter().map(|report| report.seed).collect(),
        settled: settled.len() == reports.len(),
        settled_runs: settled.len(),
        settling_steps: interval.map(|interval| interval.mean),
        max_settling_steps: settled.iter().copied().max(),
        mean_settling_steps: interval.filter(|interval| interval.half_width.is_some()),
        entries: entries as f64 / reports.len() as f64,
        most_privileged: most_privileged.max().unwrap_or(0),
        flags: &reports[0].flags,
        violations: reports.iter().flat_map(|report| report.violations.clone()).collect(),
        events: reports.iter().map(|report| report.events).sum(),
        trace_hash: combined(hashes),
    }
}

fn show(about: &About, json: &Json<'_>) {
    let flags: Vec<_> = json.flags.iter().take(20).map(u32::to_string).collect();
    let more = if json.flags.len() > 20 { " ..." } else { "" };
    println!(
        "{}, {}, k = {}, {} daemon, {} from seed {} on\n",
        about.title,
        counted(json.nodes.into(), "process"),
        json.k,
        json.daemon,
        counted(json.runs as u64, "run"),
        json.seeds[0]
    );
    println!("start        flags {}{more} (first run)", flags.join(" "));
    let runs = counted(json.runs as u64, "run");
    println!("converged    {} of {runs}", json.settled_runs);
    if let (Some(mean), Some(max)) = (json.settling_steps, json.max_settling_steps) {
        let width = json.mean_settling_steps.and_then(|interval| interval.half_width);
        let width = width.map_or_else(String::new, |width| format!(" +- {width:.2}"));
        println!("steps        mean {mean:.2}{width}, at most {max}");
    }
    println!("entries      mean {:.2} until then", json.entries);
    println!("privileged   at most {} at a time", json.most_privileged);
    for violation in json.violations.iter().take(5) {
        let (name, seed) = (violation.property.name(), of_seed(violation, json.runs));
        println!("VIOLATION    {name}, {seed}at step {}: {}", violation.at, violation.what);
    }
    println!("events       {}, trace {}", counted(json.events, "move"), json.trace_hash);
}
