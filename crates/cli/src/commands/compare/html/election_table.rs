//! The elections beside theory.

use mutua_simulator::Expected;

use super::{super::elections::ElectionRow, Comparison, put};
use crate::plot::{escape, number};

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
             <th>algorithm</th><th>N</th><th class=\"text\">who starts</th><th>messages</th>\
             <th class=\"text\">theory</th><th>turn-around, T</th><th class=\"text\">theory</th>\
             <th>elected</th><th class=\"text\">E1, E2</th></tr>\n{all}</table></details>",
            if off > 0 { " open" } else { "" }
        ),
    );
}

/// What was measured, and what theory says of it: messages, and how long it took.
fn beside_theory(row: &ElectionRow) -> [(Option<f64>, Option<Expected>); 2] {
    let (figures, theory) = (&row.figures, row.cell.theory());
    let sent = figures.messages.map(|messages| messages as f64);
    [(sent, theory.messages), (figures.turnaround, theory.turnaround)]
}

fn is_met(found: Option<f64>, said: &Expected) -> bool {
    found.is_some_and(|found| (found - said.value).abs() <= 1e-6)
}

/// Of each figure that theory has of an election, whether it is met.
fn met(row: &ElectionRow) -> Vec<bool> {
    if row.figures.refused.is_some() {
        return Vec::new();
    }
    let figures = beside_theory(row).into_iter();
    figures.filter_map(|(found, said)| Some(is_met(found, &said?))).collect()
}

fn line(row: &ElectionRow) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let (name, nodes, case) = (&cell.algorithm, cell.nodes, cell.case);
    let head = format!("<td>{name}</td><td>{nodes}</td><td class=\"text\">{}</td>", case.text());
    if let Some(why) = &figures.refused {
        return format!("<tr>{head}<td class=\"text\" colspan=\"6\">{}</td></tr>\n", escape(why));
    }
    let held = match figures.violations.as_slice() {
        [] => "<td class=\"text\">held</td>".to_owned(),
        broken => format!("<td class=\"text off\">{}</td>", escape(&broken.join("; "))),
    };
    let elected = figures.elected.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let figures = beside_theory(row).map(|(found, said)| beside(found, said.as_ref())).concat();
    format!("<tr>{head}{figures}<td>{elected}</td>{held}</tr>\n")
}

/// What was measured, and beside it what theory says; red where they differ.
fn beside(found: Option<f64>, said: Option<&Expected>) -> String {
    let is_off = said.is_some_and(|said| !is_met(found, said));
    let class = if is_off { " class=\"off\"" } else { "" };
    let text = found.map_or_else(|| "-".to_owned(), number);
    let theory = match said {
        Some(Expected { value, formula, .. }) => {
            format!("<td class=\"formula\">{} = {}</td>", escape(formula), number(*value))
        }
        None => "<td></td>".to_owned(),
    };
    format!("<td{class}>{text}</td>{theory}")
}
