//! The summary of a run as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use mutua_algorithms::{About, Claim, Structure};
use mutua_simulator::{
    Distribution, Expected, Interval, Latency, Load, Meaning, Network, Plan, Quantiles, Report,
    Sections, Violation, Who,
};

use super::outcome::{MEASURES, Outcome, RESPONSE, WAITING};
use crate::{
    durations, system,
    verdict::of_seed,
    words::{counted, number, seconds},
};

pub(super) fn summary(
    about: &About,
    plan: &Plan,
    outcome: &Outcome,
    precision: Option<f64>,
) -> String {
    let merged = outcome.merged();
    let mut text = format!(
        "{}, {}\n\n{}\n",
        about.title,
        situation(plan, about, outcome),
        table(plan, outcome)
    );
    for (name, times, measure) in [
        ("waiting time", merged.waiting_time, &WAITING),
        ("response time", merged.response_time, &RESPONSE),
    ] {
        if let Some(times) = times {
            let width = outcome.interval(measure).and_then(|interval| interval.half_width);
            line(&mut text, name, &quantiles(&times, width, plan));
        }
    }
    line_if_overloaded(&mut text, plan, outcome, &merged);
    notes(&mut text, plan, outcome, &merged, precision);
    let kinds = merged.messages_by_kind.iter().map(|(kind, count)| format!("{kind} {count:.3}"));
    line(&mut text, "messages", &kinds.collect::<Vec<_>>().join(", "));
    if merged.entries > 0 {
        let (exit, all) = (merged.messages_at_exits, merged.messages_per_entry);
        let split = format!("{:.3} to enter, {exit:.3} sent at exits", all - exit);
        line(&mut text, "", &split);
        structure_figures(&mut text, about, plan, &merged);
    }
    if plan.app_messages.is_some() {
        line(&mut text, "application", &format!("{} messages", merged.app_messages));
    }
    if !merged.sections.is_empty() {
        line(&mut text, "entries", &in_sections(&merged.sections));
    }
    let bypass = format!("{} by others", counted(merged.max_bypass, "entry"));
    line(&mut text, "max. bypass", &bypass);
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

/// The entries of each critical section, of many the first ones.
fn in_sections(entries: &[u64]) -> String {
    let shown: Vec<_> = entries.iter().take(SHOWN).map(u64::to_string).collect();
    let more = if entries.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more} in sections 0 to {}", shown.join(", "), entries.len() - 1)
}

/// So many critical sections are shown.
const SHOWN: usize = 8;

/// The figure that the structure is used for: c in c sqrt(N) of quorums, the longest wait on a
/// ring.
fn structure_figures(text: &mut String, about: &About, plan: &Plan, merged: &Report) {
    let nodes = f64::from(plan.setup.nodes);
    match about.structure {
        Structure::Quorums => {
            let c = merged.messages_per_entry / nodes.sqrt();
            line(text, "c sqrt(N)", &format!("c = {c:.3} messages per entry / sqrt(N)"));
        }
        Structure::Ring => {
            let (Some(longest), Some(waited)) = (longest_wait(plan), merged.waiting_time) else {
                return;
            };
            let words = format!(
                "{:.3} T measured; at most N T + (N-1) E = {longest:.3} T, if all enter before it",
                waited.max
            );
            line(text, "longest wait", &words);
        }
        Structure::Complete | Structure::Tree | Structure::Sets => {}
    }
}

/// The longest wait on a ring, in latencies: the token has just gone by, and every other process
/// enters before it is back. None where times vary or the idle token is slowed down.
fn longest_wait(plan: &Plan) -> Option<f64> {
    let network = &plan.network;
    let Latency::Everywhere(Distribution::Constant(latency)) = network.latency else { return None };
    let Distribution::Constant(hold) = plan.workload.hold else { return None };
    let faultless = network.loss == 0.0
        && network.duplication == 0.0
        && network.partitions.is_empty()
        && network.outages.is_empty();
    let nodes = f64::from(plan.setup.nodes);
    let fits = faultless && network.pace == 0 && latency > 0;
    fits.then(|| nodes + (nodes - 1.0) * hold as f64 / latency as f64)
}

/// That crashes are not repaired, and why a run that one of them stops may have measured nothing.
fn unrepaired(text: &mut String, plan: &Plan, merged: &Report) {
    if plan.network.outages.is_empty() {
        return;
    }
    if merged.entries == 0 && plan.warm_up != Some(0) {
        let words = "0 measured: the run stopped in its warm-up; --warm-up 0 measures those before";
        line(text, "entries", words);
    }
    line(text, "crashes", "not repaired: use --repair generic or --repair special");
}

/// How far the figures can be relied on.
fn notes(
    text: &mut String,
    plan: &Plan,
    outcome: &Outcome,
    merged: &Report,
    precision: Option<f64>,
) {
    let intervals = match outcome.reports.len() {
        1 => of_one_run(&outcome.reports[0]),
        runs => format!("95 %, over {runs} seeds"),
    };
    line(text, "intervals", &intervals);
    unrepaired(text, plan, merged);
    if let Some(precision) = precision {
        let reached = if outcome.is_within(precision) { "reached" } else { "NOT REACHED" };
        let runs = counted(outcome.reports.len() as u64, "run");
        let words = format!("{} % {reached} with {runs}", number(100.0 * precision));
        line(text, "precision", &words);
    }
    line_if_unsettled(text, merged, outcome.events_per_second());
    let settling = plan.settling().max(merged.settles_after);
    let is_short = plan.warm_up.is_some_and(|given| given < settling);
    if merged.unsettled_before.is_none() && !merged.overloaded && is_short {
        let short = format!(
            "a steady state takes a warm-up of about {settling} entries: with a shorter one these \
             figures may be those of the beginning"
        );
        line(text, "note", &short);
    }
    if merged.entries > 0 && merged.entries < FEW * u64::from(plan.setup.nodes) {
        let few =
            format!("with fewer than {FEW} entries per process, Jain's index is mostly noise");
        line(text, "note", &few);
    }
    if let Some(why) = outcome.no_theory {
        line(text, "theory", &format!("none: {why}"));
    }
    for hint in &outcome.theory.hints {
        line(text, "note", hint);
    }
}

/// The method of the intervals of a single run.
fn of_one_run(report: &Report) -> String {
    let correlated = report.shortest_batch;
    if report.overloaded || correlated == u64::MAX {
        return "none: no mean of this run is that of a steady state".to_owned();
    }
    if correlated > 0 && report.entries > 0 && !report.half_widths.contains_key("waiting_time") {
        let entries = number(correlated.saturating_mul(5) as f64);
        return format!(
            "none: at this load the waits of about {} successive entries depend on each other; use \
             --entries {entries} or more, or --runs 10",
            number(correlated as f64)
        );
    }
    "95 %, from batch means of up to 20 batches of the run".to_owned()
}

/// Marks figures that are not those of a steady state, with the cost of better ones.
fn line_if_unsettled(text: &mut String, merged: &Report, events_per_second: f64) {
    let Some(wanted) = merged.unsettled_before else { return };
    let came = merged.warm_up;
    let events = merged.settling_events.unwrap_or(0) as f64;
    let time = seconds(events / events_per_second.max(1.0));
    let short = format!(
        "these figures are not those of a steady state: the warm-up was cut short after {came} \
         entries, but {wanted} are needed; use --warm-up {wanted}, which takes at least {} events \
         (about {time} at this rate)",
        number(events)
    );
    line(text, "NOT SETTLED", &short);
}

/// The number of entries per process below which fairness is mostly noise.
const FEW: u64 = 10;

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name:<15} {value}");
}

/// The first three of every property.
fn first_of_each(violations: &[Violation]) -> impl Iterator<Item = &Violation> {
    violations.iter().enumerate().filter_map(|(index, violation)| {
        let earlier = &violations[..index];
        let same = earlier.iter().filter(|other| other.property == violation.property);
        (same.count() < 3).then_some(violation)
    })
}

fn found(violation: &Violation, runs: usize) -> String {
    let (seed, at) = (of_seed(violation, runs), durations::show(violation.at as f64));
    format!("{seed}at {at}: {}", violation.what)
}

/// The situation in a sentence.
pub(super) fn situation(plan: &Plan, about: &About, outcome: &Outcome) -> String {
    let load = match &plan.workload.load {
        Load::Light { .. } => "light load".to_owned(),
        Load::Saturated => "saturated load".to_owned(),
        Load::Think(think) => format!("think time {}", durations::show_distribution(think)),
        Load::Poisson { gap } => {
            format!("{} requests per second at random", number(1e9 / *gap as f64))
        }
        Load::Bursts { every } => format!("a burst every {}", durations::show_distribution(every)),
        Load::Script(requests) => format!("{} as given", counted(requests.len() as u64, "request")),
    };
    let first = &outcome.reports[0];
    let seeds = match outcome.reports.len() {
        1 => format!("seed {}", first.seed),
        count => format!("seeds {} to {}", first.seed, first.seed.wrapping_add(count as u64 - 1)),
    };
    let entries = outcome.reports.iter().map(|report| report.entries).sum::<u64>();
    let mut parts = vec![counted(plan.setup.nodes.into(), "process")];
    parts.extend(structure(about, plan));
    parts.extend(sections(plan.sections));
    parts.push(load);
    parts.extend(requesters(&plan.workload.who));
    parts.push(format!("hold time {}", durations::show_distribution(&plan.workload.hold)));
    parts.extend(network(&plan.network));
    parts.push(counted(entries, "entry"));
    parts.push(seeds);
    parts.join(", ")
}

/// The settings and the structure.
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

fn sections(Sections { count, exponent }: Sections) -> Option<String> {
    let drawn = match exponent {
        0.0 => String::new(),
        exponent => format!(" drawn by Zipf's law with exponent {exponent}"),
    };
    (count > 1).then(|| format!("{count} critical sections{drawn}"))
}

fn requesters(requesters: &Who) -> Option<String> {
    match requesters {
        Who::All => None,
        Who::Hot(count) => Some(format!("only the first {count} request")),
        Who::Zipf(exponent) => Some(format!("requests by Zipf's law with exponent {exponent}")),
        Who::One(node) => Some(format!("only process {node} requests")),
    }
}

fn network(network: &Network) -> Vec<String> {
    let mean = durations::show(network.mean_latency());
    let mut parts = vec![match &network.latency {
        Latency::Everywhere(Distribution::Constant(_)) => format!("T = {mean}"),
        Latency::Everywhere(latency) => {
            format!("latency {}, T = {mean}", durations::show_distribution(latency))
        }
        Latency::Regions(_) => format!("latencies by region, mean T = {mean}"),
    }];
    if !network.fifo {
        parts.push("links reorder".to_owned());
    }
    for (share, what) in [(network.loss, "dropped"), (network.duplication, "duplicated")] {
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

fn table(plan: &Plan, outcome: &Outcome) -> Table {
    // Where every process always waits, the client delay has no meaning.
    let always_waits = matches!(plan.workload.load, Load::Saturated);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let any = |is: fn(&Report) -> bool| outcome.reports.iter().any(is);
    let measured = if any(|report| report.overloaded) {
        "OVERLOADED"
    } else if any(|report| report.unsettled_before.is_some()) {
        "NOT SETTLED"
    } else {
        "measured"
    };
    table.set_header(["", measured, "+- 95 %", "theory", "", "deviation"]);
    for measure in &MEASURES {
        let Some(found) = outcome.interval(measure) else {
            let no_entries = outcome.reports.iter().all(|report| report.entries == 0);
            if no_entries || (measure.name == "client_delay" && !always_waits) {
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
            // A value that rounds to zero is shown as +0.00.
            format!("{:+.2} %", if percent.abs() < 0.005 { 0.0 } else { percent })
        }
    };
    [format!("{sign}{}", figure(expected.value)), expected.formula.clone(), deviation]
}

fn half_width(interval: &Interval) -> String {
    interval.half_width.map_or_else(String::new, figure)
}

pub(super) fn figure(value: f64) -> String {
    // A value that rounds to zero is shown without a sign.
    let value = if value.abs() < 5e-5 { 0.0 } else { value };
    if value.abs() >= 1000.0 { format!("{value:.1}") } else { format!("{value:.4}") }
}

/// Marks waits that grow for as long as the run goes on.
fn line_if_overloaded(text: &mut String, plan: &Plan, outcome: &Outcome, merged: &Report) {
    let Some(offered) = merged.offered.filter(|_| merged.overloaded) else { return };
    let grow = format!(
        "requests come ({} per second) at least as fast as they can be granted ({}): waits grow \
         with the length of the run",
        number(offered),
        number(merged.throughput)
    );
    let wanted = plan.entries.saturating_mul(outcome.reports.len() as u64);
    let ended = match merged.entries < wanted {
        true => "; ended early, since millions of requests waited",
        false => "",
    };
    line(text, "OVERLOADED", &(grow + ended));
}

fn quantiles(times: &Quantiles, half_width: Option<f64>, plan: &Plan) -> String {
    let Quantiles { mean, p50, p90, p99, max, error } = times;
    // Without a latency the unit is the nanosecond.
    let unit = if plan.network.mean_latency() > 0.0 { "T" } else { "ns" };
    let within = match error {
        0.0 => String::new(),
        error => format!(" (percentiles within {:.1} %)", 100.0 * error),
    };
    let width = half_width.map_or_else(String::new, |width| format!(" +- {width:.3}"));
    let percentiles = format!("p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, max {max:.3}{within}");
    format!("mean {mean:.3}{width} {unit}, {percentiles}")
}

fn checks(about: &About, plan: &Plan, merged: &Report) -> String {
    let ordering = match merged.overtakings {
        None => "ordering not checked".to_owned(),
        Some(0) => "ordering holds".to_owned(),
        Some(count) => format!("ordering violated {}", counted(count, "time")),
    };
    let claims = about.claims_with(&plan.setup.settings);
    let state = match merged.violation_count {
        0 => {
            let bounded = claims.contains(&Claim::BoundedBypass)
                || plan.judged.contains(&Claim::BoundedBypass);
            let bounded = if bounded { ", bounded bypass" } else { "" };
            format!("mutual exclusion, liveness, fencing{bounded} hold")
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
        "claimed by the algorithm, not by this variant"
    } else {
        "not claimed"
    };
    let nonsense = match merged.nonsense {
        0 => String::new(),
        count => format!("; {} ignored as invalid", counted(count, "message")),
    };
    format!("{state}; {ordering} ({claimed}){nonsense}")
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::Setup;
    use mutua_simulator::Workload;

    use super::*;

    #[test]
    fn the_longest_wait_on_a_ring_is_known_where_times_are_constant() {
        let plan = |hold| {
            let network = Network::new(Distribution::Constant(1_000_000));
            Plan::new(Setup::new(10), network, Workload::saturated(hold), 10)
        };
        assert_eq!(longest_wait(&plan(Distribution::Constant(2_000_000))), Some(28.0));
        let varying = Distribution::Uniform { low: 1, high: 5 };
        assert_eq!(longest_wait(&plan(varying)), None);
    }
}
