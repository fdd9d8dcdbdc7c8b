//! The summary of a run as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use mutua_algorithms::{About, Claim};
use mutua_simulator::{Expected, Interval, Load, Meaning, Plan, Quantiles, Report, Violation};

use super::outcome::{MEASURES, Outcome};
use crate::durations;

pub(super) fn summary(about: &About, plan: &Plan, outcome: &Outcome) -> String {
    let merged = outcome.merged();
    let mut text = format!("{}, {}\n\n{}\n", about.title, situation(plan, outcome), table(outcome));
    for (name, times) in
        [("waiting time", merged.waiting_time), ("response time", merged.response_time)]
    {
        if let Some(times) = times {
            line(&mut text, name, &quantiles(&times));
        }
    }
    let intervals = match outcome.reports.len() {
        1 => "from the means of up to 20 parts of the run".to_owned(),
        runs => format!("over {runs} seeds"),
    };
    line(&mut text, "intervals", &intervals);
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
    line(&mut text, "most bypassed", &format!("{} entries by others", merged.max_bypass));
    line(&mut text, "checks", &checks(about, plan, &merged));
    for violation in first_of_each(&merged.violations) {
        line(&mut text, violation.property.name(), &found(violation));
    }
    for violation in first_of_each(&merged.unclaimed) {
        let found = format!("{} (not claimed)", found(violation));
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

fn found(violation: &Violation) -> String {
    format!("at {}: {}", durations::show(violation.at as f64), violation.what)
}

fn situation(plan: &Plan, outcome: &Outcome) -> String {
    let load = match &plan.workload.load {
        Load::Light { .. } => "light load".to_owned(),
        Load::Saturated => "saturated".to_owned(),
        Load::Think(think) => format!("{} between requests", durations::show_distribution(think)),
        Load::Bursts { every } => format!("a burst every {}", durations::show_distribution(every)),
        Load::Script(wishes) => format!("{} requests as written", wishes.len()),
    };
    let first = &outcome.reports[0];
    let seeds = match outcome.reports.len() {
        1 => format!("seed {}", first.seed),
        count => format!("seeds {} to {}", first.seed, first.seed + count as u64 - 1),
    };
    format!(
        "{} processes, {load}, {} inside, T = {}, {} entries, {seeds}",
        plan.setup.nodes,
        durations::show_distribution(&plan.workload.hold),
        durations::show(plan.network.mean_latency()),
        outcome.reports.iter().map(|report| report.entries).sum::<u64>(),
    )
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

fn quantiles(times: &Quantiles) -> String {
    let Quantiles { mean, p50, p90, p99, max } = times;
    format!("mean {mean:.3} T, p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, max {max:.3}")
}

fn checks(about: &About, plan: &Plan, merged: &Report) -> String {
    let ordering = match merged.overtakings {
        None => "order (EM3) not looked at".to_owned(),
        Some(0) => "order (EM3) kept".to_owned(),
        Some(count) => format!("order (EM3) broken {count} times"),
    };
    let state = match merged.violation_count {
        0 => {
            let bounded = about.claims.contains(&Claim::BoundedBypass)
                || plan.judged.contains(&Claim::BoundedBypass);
            let bounded = if bounded { ", nobody is passed twice by one" } else { "" };
            format!("one inside at a time, nobody waits for ever, the fence grows{bounded}")
        }
        count => {
            let kinds = merged.violations_by_property.iter();
            let kinds: Vec<_> = kinds.map(|(name, count)| format!("{name} {count}")).collect();
            format!("{count} VIOLATIONS ({})", kinds.join(", "))
        }
    };
    let claims = about.claims_with(&plan.setup.settings);
    let claimed = if claims.contains(&Claim::Ordering) { "claimed" } else { "not claimed" };
    let nonsense = match merged.nonsense {
        0 => String::new(),
        count => format!("; {count} messages made no sense"),
    };
    format!("{state}; {ordering} ({claimed}){nonsense}")
}
