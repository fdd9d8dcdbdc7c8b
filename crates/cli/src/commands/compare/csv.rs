//! All results as comma-separated values, for other programs.

use mutua_simulator::Expected;

use super::{
    elections::ElectionRow,
    grid::{Figures, Stat},
    results::Row,
};
use crate::verdict::together;

/// A mean by its name in the first line; its interval's half width comes after it.
type Mean = (&'static str, fn(&Figures) -> Option<Stat>);

const MEANS: [Mean; 16] = [
    ("messages_per_entry", |figures| figures.messages),
    ("multicasts_per_entry", |figures| figures.multicasts),
    ("bytes_per_entry", |figures| figures.bytes),
    ("client_delay", |figures| figures.client_delay),
    ("sync_delay", |figures| figures.sync_delay),
    ("waiting_time", |figures| figures.waiting.mean),
    ("waiting_time_p50", |figures| figures.waiting.p50),
    ("waiting_time_p90", |figures| figures.waiting.p90),
    ("waiting_time_p99", |figures| figures.waiting.p99),
    ("response_time", |figures| figures.response.mean),
    ("response_time_p50", |figures| figures.response.p50),
    ("response_time_p90", |figures| figures.response.p90),
    ("response_time_p99", |figures| figures.response.p99),
    ("throughput", |figures| figures.throughput),
    ("utilisation", |figures| figures.utilisation),
    ("jain", |figures| figures.jain),
];

const BEFORE: [&str; 6] = ["algorithm", "nodes", "load", "hold", "latency", "entries"];
const AFTER: [&str; 6] = ["max_bypass", "violations", "events", "failures", "cut_off", "refused"];

pub(super) fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(line);
    std::iter::once(header()).chain(lines).map(|line| line + "\n").collect()
}

fn header() -> String {
    let means = MEANS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("{name}_95")]);
    let before = BEFORE.map(str::to_owned).into_iter();
    before.chain(means).chain(AFTER.map(str::to_owned)).collect::<Vec<_>>().join(",")
}

fn line(row: &Row) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let mut fields = vec![
        cell.algorithm.clone(),
        cell.nodes.to_string(),
        cell.load.text(),
        quoted(&cell.hold),
        quoted(&cell.latency),
        figures.entries.to_string(),
    ];
    for (_, of) in MEANS {
        let stat = of(figures);
        fields.push(text(stat.map(|stat| stat.mean)));
        fields.push(text(stat.and_then(|stat| stat.half_width)));
    }
    fields.extend([
        text(figures.bypass().map(|stat| stat.mean)),
        figures.violations.to_string(),
        figures.events.to_string(),
        quoted(&together(&figures.failures)),
        if figures.cut_off { "cut off" } else { "" }.to_owned(),
        quoted(figures.refused.as_deref().unwrap_or("")),
    ]);
    fields.join(",")
}

const ELECTION: [&str; 12] = [
    "algorithm",
    "nodes",
    "starters",
    "messages",
    "messages_theory",
    "multicasts",
    "turnaround",
    "turnaround_theory",
    "elected",
    "events",
    "violations",
    "refused",
];

/// All elections. The highest process is down in each, and one that has no theory has none here.
pub(super) fn elections(rows: &[ElectionRow]) -> String {
    let lines = rows.iter().map(|row| {
        let (cell, figures, theory) = (&row.cell, &row.figures, row.cell.theory());
        let said = |expected: Option<Expected>| text(expected.map(|expected| expected.value));
        let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        [
            cell.algorithm.clone(),
            cell.nodes.to_string(),
            cell.case.text().to_owned(),
            count(figures.messages),
            said(theory.messages),
            count(figures.multicasts),
            text(figures.turnaround),
            said(theory.turnaround),
            count(figures.elected.map(u64::from)),
            figures.events.to_string(),
            quoted(&figures.violations.join("; ")),
            quoted(figures.refused.as_deref().unwrap_or("")),
        ]
        .join(",")
    });
    std::iter::once(ELECTION.join(",")).chain(lines).map(|line| line + "\n").collect()
}

fn text(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
