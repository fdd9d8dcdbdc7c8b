//! The results as comma-separated values, for other programs.

use mutua_simulator::{Expected, Meaning, Theory};

use super::{
    clients::Clients,
    elections::ElectionRow,
    grid::{Cell, CellLoad, Figures, Stat},
    repairs::RepairRow,
    results::Row,
};
use crate::{durations, verdict::together};

/// The column of a mean; the column of its interval's half width follows it.
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
const AFTER: [&str; 12] = [
    "max_bypass",
    "violations",
    "events",
    "failures",
    "unsettled_events",
    "cut_off",
    "refused",
    "overloaded",
    "arrivals",
    "requesters",
    "regions",
    "wan",
];

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
        figures.unsettled.map_or_else(String::new, |events| events.to_string()),
        if figures.cut_off { "cut off" } else { "" }.to_owned(),
        quoted(figures.refused.as_deref().unwrap_or("")),
        if figures.overloaded { "overloaded" } else { "" }.to_owned(),
    ]);
    let wan = cell.clients.regions.as_ref().map_or("", |regions| regions.wan.as_str());
    fields.extend(clients(cell));
    fields.push(quoted(wan));
    fields.join(",")
}

/// How requests come, which clients request, and the number of regions.
fn clients(cell: &Cell) -> [String; 3] {
    let Clients { arrivals, requesters, regions } = &cell.clients;
    let regions = regions.as_ref().map_or(1, |regions| regions.count);
    [arrivals.text().to_owned(), requesters.text(), regions.to_string()]
}

/// The columns of the table with one observation a row.
const OBSERVATION: [&str; 18] = [
    "algorithm",
    "nodes",
    "load",
    "offered_load",
    "hold_seconds",
    "latency_seconds",
    "measure",
    "value",
    "half_width_95",
    "theory",
    "status",
    "hold",
    "latency",
    "theory_is",
    "arrivals",
    "requesters",
    "regions",
    "wan_seconds",
];

/// One observation a row, with numbers only where numbers belong: the offered load of light load is
/// 0, that of saturated load infinite. A cell without figures has one row that gives the reason.
pub(super) fn observations(rows: &[Row]) -> String {
    let lines = rows.iter().flat_map(observations_of);
    std::iter::once(OBSERVATION.join(",")).chain(lines).map(|line| line + "\n").collect()
}

fn observations_of(row: &Row) -> Vec<String> {
    let (cell, figures) = (&row.cell, &row.figures);
    let seconds = |time: &str| durations::distribution(time).ok().map(|time| time.mean() / 1e9);
    let offered = match cell.load {
        CellLoad::Light => 0.0,
        CellLoad::Saturated => f64::INFINITY,
        CellLoad::Offered(share) => share,
    };
    let key = [
        cell.algorithm.clone(),
        cell.nodes.to_string(),
        cell.load.text(),
        offered.to_string(),
        text(seconds(&cell.hold)),
        text(seconds(&cell.latency)),
    ]
    .join(",");
    let wan = cell.clients.regions.as_ref().and_then(|regions| seconds(&regions.wan));
    let situation = [quoted(&cell.hold), quoted(&cell.latency)].join(",");
    let end = format!("{},{}", clients(cell).join(","), text(wan));
    let theory = row.theory();
    let measured = MEANS.iter().filter_map(|(name, of)| Some((*name, of(figures)?)));
    let lines: Vec<_> = measured
        .map(|(name, stat)| {
            let (value, width) = (text(Some(stat.mean)), text(stat.half_width));
            let expected = expected(&theory, name);
            let meaning = expected.map_or("", |expected| meaning(expected.meaning));
            let expected = text(expected.map(|expected| expected.value));
            format!("{key},{name},{value},{width},{expected},measured,{situation},{meaning},{end}")
        })
        .collect();
    match lines.is_empty() {
        true => vec![format!("{key},,,,,{},{situation},,{end}", status(figures))],
        false => lines,
    }
}

/// What a figure of theory is: a measurement may stay below a bound.
fn meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Exact => "exact",
        Meaning::Mean => "mean",
        Meaning::Bound => "at most",
    }
}

/// Why a cell has no figures.
fn status(figures: &Figures) -> &'static str {
    if figures.refused.is_some() {
        "refused"
    } else if figures.overloaded {
        "overloaded"
    } else if figures.unsettled.is_some() {
        "not settled"
    } else if figures.cut_off {
        "cut off"
    } else {
        "failed"
    }
}

fn expected<'a>(theory: &'a Theory, measure: &str) -> Option<&'a Expected> {
    match measure {
        "messages_per_entry" => theory.messages.as_ref(),
        "multicasts_per_entry" => theory.multicasts.as_ref(),
        "client_delay" => theory.client_delay.as_ref(),
        "sync_delay" => theory.sync_delay.as_ref(),
        _ => None,
    }
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

/// All elections, each with the highest process down; columns of theory are empty where there is no
/// formula.
pub(super) fn elections(rows: &[ElectionRow]) -> String {
    let lines = rows.iter().map(|row| {
        let (cell, figures, theory) = (&row.cell, &row.figures, row.cell.theory());
        let theory_of = |expected: Option<Expected>| text(expected.map(|expected| expected.value));
        let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        [
            cell.algorithm.clone(),
            cell.nodes.to_string(),
            cell.case.text().to_owned(),
            count(figures.messages),
            theory_of(theory.messages),
            count(figures.multicasts),
            text(figures.turnaround),
            theory_of(theory.turnaround),
            count(figures.elected.map(u64::from)),
            figures.events.to_string(),
            quoted(&figures.violations.join("; ")),
            quoted(figures.refused.as_deref().unwrap_or("")),
        ]
        .join(",")
    });
    std::iter::once(ELECTION.join(",")).chain(lines).map(|line| line + "\n").collect()
}

const REPAIR: [&str; 8] = [
    "algorithm",
    "nodes",
    "repair",
    "election_messages",
    "repair_messages",
    "time",
    "requests_lost",
    "violations",
];

/// All repairs; a row without figures has the reason in the last column.
pub(super) fn repairs(rows: &[RepairRow]) -> String {
    let lines = rows.iter().map(|row| {
        let (cell, figures) = (&row.cell, &row.figures);
        let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let wrong = figures.refused.clone().unwrap_or_else(|| figures.violations.join("; "));
        [
            cell.algorithm.clone(),
            cell.nodes.to_string(),
            cell.kind().to_owned(),
            count(figures.election),
            count(figures.repair),
            text(figures.time),
            figures.lost.to_string(),
            quoted(&wrong),
        ]
        .join(",")
    });
    std::iter::once(REPAIR.join(",")).chain(lines).map(|line| line + "\n").collect()
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
