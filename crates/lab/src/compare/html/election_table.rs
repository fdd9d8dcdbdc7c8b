//! The table of elections, measurement beside theory.

use mutua_simulator::Expected;

use super::{super::elections::ElectionRow, Comparison, put};
use crate::{svg::escape, words::number};

pub(super) fn write(page: &mut String, comparison: &Comparison) {
    let all: String = comparison.elections.iter().map(line).collect();
    let met: Vec<_> = comparison.elections.iter().flat_map(met).collect();
    let off = met.iter().filter(|met| !**met).count();
    let met = match (met.len(), off) {
        (0, _) => String::new(),
        (all, 0) => format!("<p>All {all} figures of theory are met exactly.</p>"),
        (all, off) => format!("<p>{off} of {all} figures of theory are not met.</p>"),
    };
    put(
        page,
        &format!(
            "{met}\n<details{}><summary>The figures of all elections</summary><table><tr>\
             <th>algorithm</th><th>N</th><th class=\"text\">starters</th><th>messages</th>\
             <th class=\"text\">theory</th><th>turn-around, T</th><th class=\"text\">theory</th>\
             <th>elected</th><th class=\"text\">agreement, termination</th></tr>\n{all}</table>\
             </details>",
            if off > 0 { " open" } else { "" }
        ),
    );
}

/// Measured and expected figures: messages and turn-around time.
fn beside_theory(row: &ElectionRow) -> [(Option<f64>, Option<Expected>); 2] {
    let (figures, theory) = (&row.figures, row.cell.theory());
    let sent = figures.messages.map(|messages| messages as f64);
    [(sent, theory.messages), (figures.turnaround, theory.turnaround)]
}

fn is_met(found: Option<f64>, expected: &Expected) -> bool {
    found.is_some_and(|found| (found - expected.value).abs() <= 1e-6)
}

/// For each expected figure of an election, whether the measurement meets it.
fn met(row: &ElectionRow) -> Vec<bool> {
    if row.figures.refused.is_some() {
        return Vec::new();
    }
    let figures = beside_theory(row).into_iter();
    figures.filter_map(|(found, expected)| Some(is_met(found, &expected?))).collect()
}

fn line(row: &ElectionRow) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let (name, nodes, case) = (&cell.algorithm, cell.nodes, cell.case);
    let head = format!("<td>{name}</td><td>{nodes}</td><td class=\"text\">{}</td>", case.text());
    if let Some(why) = &figures.refused {
        return format!("<tr>{head}<td class=\"text\" colspan=\"6\">{}</td></tr>\n", escape(why));
    }
    let held = match figures.violations.as_slice() {
        [] => "<td class=\"text\">hold</td>".to_owned(),
        violated => format!("<td class=\"text off\">{}</td>", escape(&violated.join("; "))),
    };
    let elected = figures.elected.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let figures =
        beside_theory(row).map(|(found, expected)| beside(found, expected.as_ref())).concat();
    format!("<tr>{head}{figures}<td>{elected}</td>{held}</tr>\n")
}

/// The cells of a measured and an expected figure; red where they differ.
fn beside(found: Option<f64>, expected: Option<&Expected>) -> String {
    let is_off = expected.is_some_and(|expected| !is_met(found, expected));
    let class = if is_off { " class=\"off\"" } else { "" };
    let text = found.map_or_else(|| "-".to_owned(), number);
    let theory = match expected {
        Some(Expected { value, formula, .. }) => {
            format!("<td class=\"formula\">{} = {}</td>", escape(formula), number(*value))
        }
        None => "<td></td>".to_owned(),
    };
    format!("<td{class}>{text}</td>{theory}")
}
