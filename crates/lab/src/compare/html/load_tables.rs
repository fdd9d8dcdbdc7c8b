//! The figures behind the plots against the load, in a table for each load.

use super::{Comparison, Row, is_sound, missing, put};
use crate::{
    compare::grid::{CellLoad, Figures, Stat},
    words::number,
};

/// A column: its name, its figure, and which value is best.
type Column = (&'static str, fn(&Figures) -> Option<Stat>, Best);

/// The best value of a column, which is shaded.
#[derive(Clone, Copy, PartialEq)]
enum Best {
    Least,
    Most,
    /// No value is shaded: differences mean little.
    None,
}

const COLUMNS: [Column; 10] = [
    ("messages", |figures| figures.messages, Best::Least),
    ("multicast as one", |figures| figures.multicasts, Best::Least),
    ("bytes", |figures| figures.bytes, Best::Least),
    ("sync delay, T", |figures| figures.sync_delay, Best::Least),
    ("response, T", |figures| figures.response.mean, Best::Least),
    ("p50, T", |figures| figures.response.p50, Best::Least),
    ("p99, T", |figures| figures.response.p99, Best::Least),
    ("entries/s", |figures| figures.throughput, Best::Most),
    ("Jain", |figures| figures.jain, Best::None),
    ("most bypassed", Figures::bypass, Best::Least),
];

pub(super) fn write(page: &mut String, comparison: &Comparison, hold: &str, latency: &str) {
    let of_situation = |row: &&Row| {
        row.cell.hold == hold && row.cell.latency == latency && row.cell.nodes == comparison.at
    };
    let rows: Vec<_> = comparison.rows.iter().filter(of_situation).collect();
    let mut loads: Vec<CellLoad> = Vec::new();
    for row in &rows {
        if matches!(row.cell.load, CellLoad::Offered(_)) && !loads.contains(&row.cell.load) {
            loads.push(row.cell.load);
        }
    }
    put(
        page,
        "<p>The figures follow, with the half widths of their 95 % intervals over the seeds. \
         Shaded: the best of a column, and figures that differ from it by less than the two \
         intervals.</p>",
    );
    for load in loads {
        let rows: Vec<_> = rows.iter().copied().filter(|row| row.cell.load == load).collect();
        table(page, comparison.at, load, &rows);
    }
}

fn table(page: &mut String, nodes: u32, load: CellLoad, rows: &[&Row]) {
    let header = COLUMNS.map(|(name, ..)| format!("<th>{name}</th>")).concat();
    put(
        page,
        &format!(
            "<details><summary>The figures at a load of {} with {nodes} processes</summary>\n\
             <table><tr><th>algorithm</th>{header}</tr>",
            load.text()
        ),
    );
    for row in rows {
        let cells = match missing(row) {
            Some(why) => format!("<td class=\"text\" colspan=\"{}\">{why}</td>", COLUMNS.len()),
            None => COLUMNS.map(|column| cell(&column, row, rows)).concat(),
        };
        put(page, &format!("<tr><td>{}</td>{cells}</tr>", row.cell.algorithm));
    }
    put(page, "</table></details>");
}

fn cell((name, of, best): &Column, row: &Row, rows: &[&Row]) -> String {
    let Some(stat) = of(&row.figures) else { return "<td>-</td>".to_owned() };
    let winner = rows.iter().filter(|row| is_sound(row)).filter_map(|row| of(&row.figures));
    let winner = match best {
        Best::Least => winner.min_by(|a, b| a.mean.total_cmp(&b.mean)),
        Best::Most => winner.max_by(|a, b| a.mean.total_cmp(&b.mean)),
        Best::None => None,
    };
    let is_best = is_sound(row) && winner.is_some_and(|winner| is_alike(stat, winner));
    let class = if is_best { " class=\"best\"" } else { "" };
    let mean = if *name == "Jain" { format!("{:.4}", stat.mean) } else { number(stat.mean) };
    let width = stat.half_width.filter(|width| *width > 0.0005 * stat.mean.abs());
    let width = width.map_or_else(String::new, |width| {
        format!(" <span class=\"width\">&plusmn;{}</span>", number(width))
    });
    format!("<td{class}>{mean}{width}</td>")
}

/// Whether two differ by no more than chance explains.
fn is_alike(one: Stat, best: Stat) -> bool {
    let width = one.half_width.unwrap_or(0.0) + best.half_width.unwrap_or(0.0);
    (one.mean - best.mean).abs() <= width.max(1e-3 * best.mean.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_within_their_intervals_are_alike() {
        let stat = |mean, half_width| Stat { mean, half_width: Some(half_width) };
        assert!(is_alike(stat(10.2, 0.15), stat(10.0, 0.1)));
        assert!(!is_alike(stat(10.3, 0.15), stat(10.0, 0.1)));
        assert!(is_alike(stat(10.0, 0.0), stat(10.0, 0.0)));
    }
}
