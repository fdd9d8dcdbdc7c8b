//! The elections beside theory.

use super::{super::elections::ElectionRow, Comparison, put};
use crate::{
    commands::compare::elections::{messages, turnaround},
    plot::{escape, number},
};

pub(super) fn write(page: &mut String, comparison: &Comparison) {
    let all: String = comparison.elections.iter().map(line).collect();
    let (figures, off) = (all.matches("class=\"formula\"").count(), all.matches(OFF).count());
    let met = match (figures, off) {
        (0, _) => String::new(),
        (_, 0) => format!("<p>All {figures} figures of theory are met exactly.</p>"),
        _ => format!("<p>{off} of {figures} figures of theory are not met.</p>"),
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

const OFF: &str = " class=\"off\"";

fn line(row: &ElectionRow) -> String {
    let (cell, figures) = (&row.cell, &row.figures);
    let (name, nodes, case) = (&cell.algorithm, cell.nodes, cell.case);
    let head = format!("<td>{name}</td><td>{nodes}</td><td class=\"text\">{}</td>", case.text());
    if let Some(why) = &figures.refused {
        return format!("<tr>{head}<td class=\"text\" colspan=\"6\">{}</td></tr>\n", escape(why));
    }
    let n = f64::from(nodes);
    let sent = figures.messages.map(|messages| messages as f64);
    let held = match figures.violations.as_slice() {
        [] => "<td class=\"text\">held</td>".to_owned(),
        broken => format!("<td class=\"text off\">{}</td>", escape(&broken.join("; "))),
    };
    let elected = figures.elected.map_or_else(|| "-".to_owned(), |node| node.to_string());
    format!(
        "<tr>{head}{}{}<td>{elected}</td>{held}</tr>\n",
        beside(sent, messages(name, case, n)),
        beside(figures.turnaround, turnaround(name, case, n))
    )
}

/// What was measured, and beside it what theory says; red where they differ.
fn beside(found: Option<f64>, said: Option<(f64, &str)>) -> String {
    let is_off = |(value, _): (f64, &str)| found.is_none_or(|found| (found - value).abs() > 1e-6);
    let class = if said.is_some_and(is_off) { OFF } else { "" };
    let text = found.map_or_else(|| "-".to_owned(), number);
    let theory = match said {
        Some((value, formula)) => {
            format!("<td class=\"formula\">{formula} = {}</td>", number(value))
        }
        None => "<td></td>".to_owned(),
    };
    format!("<td{class}>{text}</td>{theory}")
}
