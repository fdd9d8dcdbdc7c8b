//! The table of repairs.

use super::{super::repairs::RepairRow, Comparison, put};
use crate::{svg::escape, words::number};

pub(super) fn write(page: &mut String, comparison: &Comparison) {
    let all: String = comparison.repairs.iter().map(line).collect();
    put(
        page,
        &format!(
            "<p>One process crashes at light load and never restarts; the crash is reported after \
             5 T, and elections are Chang and Roberts'. Times are from the first report until the \
             last survivor goes on.</p>\n<details><summary>The figures of all repairs</summary>\
             <table><tr><th>algorithm</th><th>N</th><th class=\"text\">repair</th>\
             <th>election</th><th>other messages</th><th>time, T</th><th>requests lost</th>\
             <th class=\"text\">properties</th></tr>\n{all}</table></details>"
        ),
    );
}

fn line(row: &RepairRow) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let (name, nodes, kind) = (&cell.algorithm, cell.nodes, cell.kind());
    let head = format!("<td>{name}</td><td>{nodes}</td><td class=\"text\">{kind}</td>");
    if let Some(why) = &figures.refused {
        return format!("<tr>{head}<td class=\"text\" colspan=\"5\">{}</td></tr>\n", escape(why));
    }
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let time = figures.time.map_or_else(|| "-".to_owned(), number);
    let held = match figures.violations.as_slice() {
        [] => "<td class=\"text\">hold</td>".to_owned(),
        violated => format!("<td class=\"text off\">{}</td>", escape(&violated.join("; "))),
    };
    let (election, repair) = (count(figures.election), count(figures.repair));
    let lost = figures.lost;
    format!(
        "<tr>{head}<td>{election}</td><td>{repair}</td><td>{time}</td><td>{lost}</td>{held}</tr>\n"
    )
}
