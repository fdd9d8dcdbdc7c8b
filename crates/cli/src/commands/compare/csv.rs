//! All results as comma-separated values, for other programs.

use super::{grid::Stat, results::Row};

const HEADER: &str = "algorithm,nodes,load,hold,latency,entries,messages_per_entry,\
    messages_half_width,multicasts_per_entry,bytes_per_entry,client_delay,sync_delay,waiting_time,\
    waiting_time_p99,throughput,utilisation,jain,max_bypass,violations,events,refused";

pub(super) fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(line);
    std::iter::once(HEADER.to_owned()).chain(lines).map(|line| line + "\n").collect()
}

fn line(row: &Row) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let mean = |stat: Option<Stat>| stat.map_or_else(String::new, |stat| stat.mean.to_string());
    let width = figures.messages.and_then(|stat| stat.half_width);
    [
        cell.algorithm.clone(),
        cell.nodes.to_string(),
        cell.load.text(),
        quoted(&cell.hold),
        quoted(&cell.latency),
        figures.entries.to_string(),
        mean(figures.messages),
        width.map_or_else(String::new, |width| width.to_string()),
        mean(figures.multicasts),
        mean(figures.bytes),
        mean(figures.client_delay),
        mean(figures.sync_delay),
        mean(figures.waiting),
        mean(figures.waiting_p99),
        mean(figures.throughput),
        mean(figures.utilisation),
        mean(figures.jain),
        figures.max_bypass.to_string(),
        figures.violations.to_string(),
        figures.events.to_string(),
        quoted(figures.refused.as_deref().unwrap_or("")),
    ]
    .join(",")
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
