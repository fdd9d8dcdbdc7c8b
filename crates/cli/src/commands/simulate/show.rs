//! The summary of a run as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use mutua_algorithms::{About, Claim, Structure};
use mutua_simulator::{
    Distribution, Expected, Interval, Latency, Load, Meaning, Network, Plan, Quantiles, Report,
    Violation, Who,
};

use super::outcome::{MEASURES, Outcome};
use crate::{
    durations, system,
    verdict::{counted, of_seed},
};

pub(super) fn summary(about: &About, plan: &Plan, outcome: &Outcome) -> String {
    let merged = outcome.merged();
    let mut text =
        format!("{}, {}\n\n{}\n", about.title, situation(plan, about, outcome), table(outcome));
    for (name, times) in
        [("waiting time", merged.waiting_time), ("response time", merged.response_time)]
    {
        if let Some(times) = times {
            line(&mut text, name, &quantiles(&times, plan));
        }
    }
    let intervals = match outcome.reports.len() {
        1 => "from the means of up to 20 parts of the run".to_owned(),
        runs => format!("over {runs} seeds"),
    };
    line(&mut text, "intervals", &intervals);
    if let Some(wanted) = merged.unsettled_before {
        let came = merged.warm_up;
        let short = format!(
            "not settled: {came} entries came before those measured, {wanted} would be enough; \
             --warm-up {wanted} waits for them"
        );
        line(&mut text, "mind", &short);
    }
    if merged.entries > 0 && merged.entries < FEW * u64::from(plan.setup.nodes) {
        let few =
            format!("with fewer than {FEW} entries a process, Jain's index shows mostly chance");
        line(&mut text, "mind", &few);
    }
    if let Some(why) = outcome.no_theory {
        line(&mut text, "theory", &format!("silent: {why}"));
    }
    for hint in &outcome.theory.hints {
        line(&mut text, "mind", hint);
    }
    let kinds = merged.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count:.3}"));
    line(&mut text, "messages", &kinds.collect::<Vec<_>>().join(", "));
    if plan.tells.is_some() {
        line(&mut text, "application", &format!("{} messages of its own", merged.tells));
    }
    let bypass = format!("{} by others", counted(merged.max_bypass, "entry"));
    line(&mut text, "most bypassed", &bypass);
    line(&mut text, "checks", &checks(about, plan, &merged));
    let runs = outcome.reports.len();
    for violation in first_of_each(&merged.violations) {
        line(&mut text, violation.property.name(), &found(violation, runs));
    }
    for violation in first_of_each(&merged.unclaimed) {
        let found = format!("{} (not claimed)", found(violation, runs));
        line(&mut text, violation.property.name(), &found);
    }
    let events = format!(
        "{} at {:.2} million per second, trace {}",
        merged.events,
        outcome.events_per_second() / 1e6,
        merged.trace_hash
    );
    line(&mut text, "events", &events);
    text
}

/// Fewer entries a process than this say little of fairness.
const FEW: u64 = 10;

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name:<15} {value}");
}

/// The first three of every property.
fn first_of_each(violations: &[Violation]) -> impl Iterator<Item = &Violation> {
    violations.iter().enumerate().filter_map(|(place, violation)| {
        let earlier = &violations[..place];
        let same = earlier.iter().filter(|other| other.property == violation.property);
        (same.count() < 3).then_some(violation)
    })
}

fn found(violation: &Violation, runs: usize) -> String {
    let (seed, at) = (of_seed(violation, runs), durations::show(violation.at as f64));
    format!("{seed}at {at}: {}", violation.what)
}

/// What was simulated, in a line.
pub(super) fn situation(plan: &Plan, about: &About, outcome: &Outcome) -> String {
    let load = match &plan.workload.load {
        Load::Light { .. } => "light load".to_owned(),
        Load::Saturated => "saturated".to_owned(),
        Load::Think(think) => format!("{} between requests", durations::show_distribution(think)),
        Load::Bursts { every } => format!("a burst every {}", durations::show_distribution(every)),
        Load::Script(wishes) => {
            format!("{} as written", counted(wishes.len() as u64, "request"))
        }
    };
    let first = &outcome.reports[0];
    let seeds = match outcome.reports.len() {
        1 => format!("seed {}", first.seed),
        count => format!("seeds {} to {}", first.seed, first.seed.wrapping_add(count as u64 - 1)),
    };
    let entries = outcome.reports.iter().map(|report| report.entries).sum::<u64>();
    let mut parts = vec![counted(plan.setup.nodes.into(), "process")];
    parts.extend(structure(about, plan));
    parts.push(load);
    parts.extend(who(&plan.workload.who));
    parts.push(format!("{} inside", durations::show_distribution(&plan.workload.hold)));
    parts.extend(network(&plan.network));
    parts.push(counted(entries, "entry"));
    parts.push(seeds);
    parts.join(", ")
}

/// What of the system is not as always.
fn structure(about: &About, plan: &Plan) -> Vec<String> {
    let setup = &plan.setup;
    let mut parts: Vec<_> =
        setup.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    match about.structure {
        Structure::Tree => parts.push(format!("tree {}", system::show_topology(&setup.topology))),
        Structure::Quorums => parts.push(format!("quorums {}", setup.quorums.name())),
        Structure::Complete | Structure::Ring | Structure::Sets => {}
    }
    parts
}

fn who(who: &Who) -> Option<String> {
    match who {
        Who::All => None,
        Who::Hot(count) => Some(format!("only the first {count} ask")),
        Who::Zipf(exponent) => Some(format!("asking by Zipf's law of exponent {exponent}")),
        Who::One(node) => Some(format!("only process {node} asks")),
    }
}

fn network(network: &Network) -> Vec<String> {
    let mean = durations::show(network.mean_latency());
    let mut parts = vec![match &network.latency {
        Latency::Everywhere(Distribution::Constant(_)) => format!("T = {mean}"),
        Latency::Everywhere(latency) => {
            format!("latency {}, T = {mean}", durations::show_distribution(latency))
        }
        Latency::Regions(_) => format!("latencies by place, T = {mean} on average"),
    }];
    if !network.fifo {
        parts.push("links reorder".to_owned());
    }
    for (share, what) in [(network.loss, "lost"), (network.duplication, "twice")] {
        if share > 0.0 {
            parts.push(format!("{:.3} % {what}", 100.0 * share));
        }
    }
    for (count, what) in [(network.partitions.len(), "partition"), (network.outages.len(), "crash")]
    {
        if count > 0 {
            parts.push(counted(count as u64, what));
        }
    }
    parts
}

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "measured", "+- 95 %", "theory", "", "deviation"]);
    for measure in &MEASURES {
        let Some(found) = outcome.interval(measure) else {
            if outcome.reports.iter().all(|report| report.entries == 0) {
                table.add_row([measure.title, "-"]);
            }
            continue;
        };
        let expected = (measure.expected)(&outcome.theory);
        let mut row = vec![measure.title.to_owned(), figure(found.mean), half_width(&found)];
        row.extend(theory(expected, found.mean));
        table.add_row(row);
    }
    for column in [1, 2, 3, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn theory(expected: Option<&Expected>, measured: f64) -> [String; 3] {
    let Some(expected) = expected else { return Default::default() };
    let sign = match expected.meaning {
        Meaning::Exact | Meaning::Mean => "",
        Meaning::Bound => "<= ",
    };
    let deviation = match expected.meaning {
        Meaning::Bound if measured <= expected.value => "within".to_owned(),
        Meaning::Exact | Meaning::Mean | Meaning::Bound => {
            let percent = 100.0 * expected.deviation(measured);
            // What rounds to zero has no sign worth showing.
            format!("{:+.2} %", if percent.abs() < 0.005 { 0.0 } else { percent })
        }
    };
    [format!("{sign}{}", figure(expected.value)), expected.formula.clone(), deviation]
}

fn half_width(interval: &Interval) -> String {
    interval.half_width.map_or_else(String::new, figure)
}

fn figure(value: f64) -> String {
    // What rounds to zero is shown without a sign.
    let value = if value.abs() < 5e-5 { 0.0 } else { value };
    if value.abs() >= 1000.0 { format!("{value:.1}") } else { format!("{value:.4}") }
}

fn quantiles(times: &Quantiles, plan: &Plan) -> String {
    let Quantiles { mean, p50, p90, p99, max } = times;
    // Without a latency there is no unit but the nanosecond.
    let unit = if plan.network.mean_latency() > 0.0 { "T" } else { "ns" };
    format!("mean {mean:.3} {unit}, p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, max {max:.3}")
}

fn checks(about: &About, plan: &Plan, merged: &Report) -> String {
    let ordering = match merged.overtakings {
        None => "order (EM3) not looked at".to_owned(),
        Some(0) => "order (EM3) kept".to_owned(),
        Some(count) => format!("order (EM3) broken {}", counted(count, "time")),
    };
    let claims = about.claims_with(&plan.setup.settings);
    let state = match merged.violation_count {
        0 => {
            let bounded = claims.contains(&Claim::BoundedBypass)
                || plan.judged.contains(&Claim::BoundedBypass);
            let bounded = if bounded { ", nobody is passed twice by one" } else { "" };
            format!("one inside at a time, nobody waits for ever, the fence grows{bounded}")
        }
        count => {
            let kinds = merged.violations_by_property.iter();
            let kinds: Vec<_> = kinds.map(|(name, count)| format!("{name} {count}")).collect();
            format!("{} ({})", counted(count, "violation").to_uppercase(), kinds.join(", "))
        }
    };
    let claimed = if claims.contains(&Claim::Ordering) {
        "claimed"
    } else if about.claims.contains(&Claim::Ordering) {
        "claimed by the algorithm, given up by this variant"
    } else {
        "not claimed"
    };
    let nonsense = match merged.nonsense {
        0 => String::new(),
        count => format!("; {} made no sense", counted(count, "message")),
    };
    format!("{state}; {ordering} ({claimed}){nonsense}")
}
