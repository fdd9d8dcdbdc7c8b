//! `mutua simulate` of an election.

use std::process::ExitCode;

use anyhow::{Context, Result};
use mutua_algorithms::{About, Kind, NodeId, Setup, Structure, registry};
use mutua_simulator::{
    ElectionPlan, ElectionReport, Expected, Interval, Random, combined, elect, election_theory,
};
use serde::Serialize;

use super::{
    Arguments, NODES,
    recording::{Recording, Shown},
    refuse_large, replay, unfit,
};
use crate::{durations, exit::usage, names, size, verdict::of_seed, words::counted};

/// The output of `--json`: the first run, with means over several runs of messages and turn-around.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    report: ElectionReport,
    runs: usize,
    /// The seeds of the runs; `trace_hash` is over the hashes of all of them, in this order.
    seeds: Vec<u64>,
    /// The theoretical number of messages, if known.
    theory: Option<Expected>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_messages: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_turnaround: Option<Interval>,
}

pub(super) fn run(arguments: &Arguments, about: &'static About) -> Result<ExitCode> {
    unfit::refuse(arguments, about, unfit::Run::Election)?;
    refuse_large(about, &arguments.system.setup(&arguments.name, NODES)?, size::Run::BUSY)?;
    let plan = plan(arguments)?;
    let mut reports = Vec::new();
    for number in 0..arguments.runs() {
        let mut plan = ElectionPlan { seed: plan.seed.wrapping_add(number), ..plan.clone() };
        plan.setup.ring = ring(arguments, about, &plan)?;
        let recording = if number == 0 {
            Recording::new(arguments, replay::title(), Shown::Whole)?
        } else {
            None
        };
        let report = match &recording {
            None => elect(about.name, &plan, None),
            Some(recording) => {
                elect(about.name, &plan, Some(&|name, start| recording.recorder(name, start)))
            }
        };
        let report = report.context("unknown election")?;
        reports.push(report.map_err(|error| usage(error.to_string()))?);
        recording.map_or(Ok(()), Recording::finish)?;
    }
    let theory = theory(arguments, about, &plan)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&json(&reports, theory))?);
    } else {
        show(about, &plan, &reports, theory.as_ref());
    }
    let failed = reports.iter().find(|report| !report.violations.is_empty());
    let Some(failed) = failed else { return Ok(ExitCode::SUCCESS) };
    replay::print_command(failed.seed);
    Ok(ExitCode::FAILURE)
}

fn plan(arguments: &Arguments) -> Result<ElectionPlan> {
    let mut setup = arguments.system.setup(&arguments.name, NODES)?;
    setup.crashed = arguments.crashed.iter().copied().map(NodeId).collect();
    Ok(ElectionPlan {
        network: {
            arguments.network.refuse_chosen_crashes("does not apply to an election")?;
            arguments.network.network(setup.nodes)?
        },
        starters: starters(arguments.starters.as_deref(), &setup)?,
        transmission: arguments.transmission,
        handling: arguments.handling,
        seed: arguments.seed,
        setup,
    })
}

/// The order of the ids around the ring, if one is given.
fn ring(arguments: &Arguments, about: &About, plan: &ElectionPlan) -> Result<Option<Vec<NodeId>>> {
    let Some(text) = &arguments.ring else { return Ok(None) };
    if about.structure != Structure::Ring {
        let is_ring =
            |about: &About| about.kind == Kind::Election && about.structure == Structure::Ring;
        let names = names::list(registry::ALGORITHMS, is_ring);
        return Err(usage(format!("{} uses no ring; --ring applies to {names}", about.name)));
    }
    let mut order: Vec<_> = (0..plan.setup.nodes).map(NodeId).collect();
    match text.as_str() {
        "ascending" => {}
        "descending" => order.reverse(),
        "random" => Random::new(plan.seed, 6).shuffle(&mut order),
        list => order = ids("--ring", "ascending, descending, random or ids such as 2,0,1", list)?,
    }
    Ok(Some(order))
}

fn starters(text: Option<&str>, setup: &Setup) -> Result<Vec<NodeId>> {
    let up = |node: &NodeId| !setup.crashed.contains(node);
    let mut all_up = (0..setup.nodes).map(NodeId).filter(up);
    match text {
        None => Ok(all_up.next().into_iter().collect()),
        Some("all") => Ok(all_up.collect()),
        Some(list) => ids("--starters", "ids such as 0,3 or all", list),
    }
}

/// Parses the ids of an option.
fn ids(option: &str, allowed: &str, list: &str) -> Result<Vec<NodeId>> {
    let id = |id: &str| id.trim().parse().map(NodeId);
    let wrong = |_| usage(format!("invalid {option} `{list}`: use {allowed}"));
    let mut ids: Vec<_> = list.split(',').map(id).collect::<Result<_, _>>().map_err(wrong)?;
    ids.sort();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(usage(format!("duplicate process {} in {option}", twice[0].0))),
        None => Ok(ids),
    }
}

fn intervals(reports: &[ElectionReport]) -> (Option<Interval>, Option<Interval>) {
    let messages: Vec<_> = reports.iter().map(|report| report.messages as f64).collect();
    let turnarounds: Vec<_> = reports.iter().filter_map(|report| report.turnaround).collect();
    (Interval::of(&messages), Interval::of(&turnarounds))
}

/// The theoretical number of messages, if every run has the same ring.
fn theory(arguments: &Arguments, about: &About, plan: &ElectionPlan) -> Result<Option<Expected>> {
    if arguments.ring.as_deref() == Some("random") {
        return Ok(None);
    }
    let mut plan = plan.clone();
    plan.setup.ring = ring(arguments, about, &plan)?;
    Ok(election_theory(about.name, &plan).messages)
}

/// The costs of an election by the number of starters.
fn in_general(about: &About) -> String {
    let costs = &about.costs;
    if costs.saturated.is_none() {
        format!("{}; worst case {}", costs.light, costs.worst)
    } else {
        format!("one starts: {}; all start: {}", costs.light, costs.saturated)
    }
}

fn json(reports: &[ElectionReport], theory: Option<Expected>) -> Json {
    let (messages, turnaround) = intervals(reports);
    let several = reports.len() > 1;
    let mut report = reports[0].clone();
    report.trace_hash = combined(reports.iter().map(|report| report.trace_hash.as_str()));
    report.violations = reports.iter().flat_map(|report| report.violations.clone()).collect();
    Json {
        report,
        runs: reports.len(),
        seeds: reports.iter().map(|report| report.seed).collect(),
        theory,
        mean_messages: messages.filter(|_| several),
        mean_turnaround: turnaround.filter(|_| several),
    }
}

/// The processes that are down from the start, and the crashes during the run.
fn crashes(plan: &ElectionPlan, list: &impl Fn(&[NodeId]) -> String) -> String {
    let at = |time: u64| durations::show(time as f64);
    let during = plan.network.outages.iter().map(|outage| match outage.until {
        None => format!("{} at {}", outage.node, at(outage.from)),
        Some(until) => format!("{} from {} to {}", outage.node, at(outage.from), at(until)),
    });
    let crashed = Some(&plan.setup.crashed).filter(|nodes| !nodes.is_empty());
    let from_the_start = crashed.map(|nodes| list(nodes));
    let all: Vec<_> = from_the_start.into_iter().chain(during).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn show(about: &About, plan: &ElectionPlan, reports: &[ElectionReport], theory: Option<&Expected>) {
    let list = |nodes: &[NodeId]| {
        let names: Vec<_> = nodes.iter().take(12).map(NodeId::to_string).collect();
        let more = if nodes.len() > 12 { ", ..." } else { "" };
        if names.is_empty() { "none".to_owned() } else { names.join(", ") + more }
    };
    println!(
        "{}, {}, started by {}, crashed: {}\n",
        about.title,
        counted(plan.setup.nodes.into(), "process"),
        list(&plan.starters),
        crashes(plan, &list)
    );
    let (messages, turnaround) = intervals(reports);
    let mean = |interval: Option<Interval>| match interval {
        None => "-".to_owned(),
        Some(Interval { mean, half_width: None }) => format!("{mean:.2}"),
        Some(Interval { mean, half_width: Some(width) }) => format!("{mean:.2} +- {width:.2}"),
    };
    let theory = match (theory, messages) {
        (Some(Expected { value, formula, .. }), Some(Interval { mean, .. })) => {
            let deviation = 100.0 * (mean / value - 1.0);
            format!("theory: {value} = {formula}; deviation {deviation:+.2} %")
        }
        _ => format!("in general: {}", in_general(about)),
    };
    println!("messages     {} ({theory})", mean(messages));
    println!("turn-around  {} T", mean(turnaround));
    let first = &reports[0];
    let elected = first.elected.map_or_else(|| "no agreement".to_owned(), |node| node.to_string());
    let kinds = first.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count}"));
    let crashed = match first.elected_is_down {
        true => ", which has crashed since; no process has started another election",
        false => "",
    };
    println!("elected      {elected}{crashed}");
    println!("by kind      {}", kinds.collect::<Vec<_>>().join(", "));
    let violations: Vec<_> = reports.iter().flat_map(|report| &report.violations).collect();
    match violations.as_slice() {
        [] => println!("checks       agreement and termination hold"),
        violations => {
            for violation in violations.iter().take(5) {
                let (name, seed) = (violation.property.name(), of_seed(violation, reports.len()));
                let at = durations::show(violation.at as f64);
                println!("VIOLATION    {name}, {seed}at {at}: {}", violation.what);
            }
        }
    }
    println!("events       {}, trace {}", first.events, first.trace_hash);
}
