//! The table of measurement beside theory.

use mutua_simulator::{Expected, Meaning};

use super::{Comparison, Row, missing, put};
use crate::{
    compare::{grid::Stat, plots::load_name},
    svg::escape,
    words::number,
};

pub(super) fn table(page: &mut String, comparison: &Comparison) {
    let several = comparison.situations.len() > 1;
    let situation = if several { "<th>hold time</th><th>latency</th>" } else { "" };
    let mut all = String::new();
    comparison.rows.iter().for_each(|row| lines(&mut all, row, several));
    let figures: Vec<_> = comparison.rows.iter().flat_map(figures).collect();
    let off = figures.iter().filter(|(_, expected, found)| is_off(expected, *found)).count();
    let met = match (figures.len(), off) {
        (0, _) => "No formula applies to these".to_owned(),
        (all, 0) => format!("All {all} figures of theory are met"),
        (all, off) => format!("{off} of {all} figures of theory are not met"),
    };
    put(
        page,
        &format!(
            "<h2>Measurement beside theory</h2>\n<p>{met}. A figure is met if the measurement \
             differs by at most 2 % or its 95 % interval over the seeds contains it, and is red \
             if not. A bound holds or does not.</p>\n<details{}><summary>All formulas</summary>\
             <table><tr><th>algorithm</th>\
             <th>N</th><th>load</th>{situation}<th>of</th>\
             <th class=\"text\">formula</th><th>theory</th>\
             <th>measured</th><th>+- 95 %</th><th>deviation</th></tr>{all}</table></details>",
            if off > 0 { " open" } else { "" },
        ),
    );
}

/// Expected and measured figures of a cell, where there are both.
fn figures(row: &Row) -> Vec<(&'static str, Expected, Stat)> {
    if missing(row).is_some() {
        return Vec::new();
    }
    let expected = row.theory();
    let figures = &row.figures;
    let both = [
        ("messages", expected.messages, figures.messages),
        ("multicast as one", expected.multicasts, figures.multicasts),
        ("client delay", expected.client_delay, figures.client_delay),
        ("sync delay", expected.sync_delay, figures.sync_delay),
    ];
    both.into_iter().filter_map(|(what, expected, found)| Some((what, expected?, found?))).collect()
}

fn lines(page: &mut String, row: &Row, several: bool) {
    let Some(load) = row.cell.theory_load() else { return };
    let (hold, latency) = (escape(&row.cell.hold), escape(&row.cell.latency));
    let situation =
        if several { format!("<td>{hold}</td><td>{latency}</td>") } else { String::new() };
    let (name, nodes, load_text) = (&row.cell.algorithm, row.cell.nodes, load_name(load));
    let head = format!("<td>{name}</td><td>{nodes}</td><td>{load_text}</td>{situation}");
    if let Some(why) = missing(row) {
        put(page, &format!("<tr>{head}<td class=\"text\" colspan=\"6\">{why}</td></tr>"));
        return;
    }
    for (what, expected, found) in figures(row) {
        put(page, &format!("<tr>{head}<td>{what}</td>{}</tr>", cells(&expected, found)));
    }
}

fn cells(expected: &Expected, found: Stat) -> String {
    let deviation = expected.deviation(found.mean);
    let (shown, class) = match expected.meaning {
        Meaning::Bound if deviation == 0.0 => ("holds".to_owned(), ""),
        Meaning::Exact | Meaning::Mean | Meaning::Bound => {
            let class = if is_off(expected, found) { " class=\"off\"" } else { "" };
            (format!("{:+.2} %", 100.0 * deviation), class)
        }
    };
    let bound = if expected.meaning == Meaning::Bound { "at most " } else { "" };
    format!(
        "<td class=\"formula\">{}</td><td>{bound}{}</td><td>{}</td><td>{}</td>\
         <td{class}>{shown}</td>",
        escape(&expected.formula),
        number(expected.value),
        number(found.mean),
        found.half_width.map_or_else(String::new, number)
    )
}

/// Whether a measurement contradicts theory: by more than 2 %, and by more than its interval.
fn is_off(expected: &Expected, found: Stat) -> bool {
    let outside = (found.mean - expected.value).abs() > found.half_width.unwrap_or(0.0);
    expected.deviation(found.mean).abs() > 0.02 && outside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_within_the_interval_is_not_off() {
        let formula = String::new();
        let expected = Expected { value: 2.88, meaning: Meaning::Mean, formula };
        let found = |mean, half_width| Stat { mean, half_width: Some(half_width) };
        assert!(!is_off(&expected, found(2.95, 0.15)));
        assert!(!is_off(&expected, found(2.89, 0.001)), "within 2 %");
        assert!(is_off(&expected, found(2.95, 0.01)));
    }
}
