//! The page: plots, findings, and the figures behind them. One file that loads nothing.
//!
//! Written by hand with `format!`: one page, and a template engine would be a dependency for it.

mod election_table;
mod intro;
mod load_tables;
mod repair_table;
mod theory_table;

use mutua_algorithms::{About, registry};

use super::{
    Comparison, Situation,
    plots::{Shown, is_of_repairs},
    results::Row,
};
use crate::{
    svg::{self, escape},
    verdict::together,
    words::{counted, links, number},
};

pub(super) use self::intro::by_algorithm;

/// The page as one text.
pub(super) fn page(comparison: &Comparison, plots: &[Shown]) -> String {
    let title = match comparison.mutexes.is_empty() {
        true => "Elections compared",
        false => "Mutual exclusion compared",
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n"
    );
    intro::write(&mut page, comparison);
    for (place, Situation { hold, latency }) in comparison.situations.iter().enumerate() {
        if comparison.mutexes.is_empty() {
            continue;
        }
        let (hold_time, mean_latency) = (escape(hold), escape(latency));
        put(
            &mut page,
            &format!(
                "<h2>Hold time {hold_time}, latency {mean_latency}</h2>\n<p>{}</p>",
                intro::findings(comparison, hold, latency)
            ),
        );
        show(&mut page, plots.iter().filter(|plot| plot.situation == Some(place)));
        load_tables::write(&mut page, comparison, hold, latency);
    }
    if !comparison.mutexes.is_empty() {
        theory_table::table(&mut page, comparison);
    }
    if !comparison.elections.is_empty() {
        put(&mut page, "<h2>Elections</h2>");
        let none = plots.iter().filter(|plot| plot.situation.is_none());
        show(&mut page, none.filter(|plot| !is_of_repairs(plot)));
        election_table::write(&mut page, comparison);
    }
    if !comparison.repairs.is_empty() {
        put(&mut page, "<h2>Repairs after a crash</h2>");
        show(&mut page, plots.iter().filter(|plot| is_of_repairs(plot)));
        repair_table::write(&mut page, comparison);
    }
    algorithms_table(&mut page, comparison);
    page + &format!("<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// Plots keep their drawn width, so that their text stays readable: beside each other on a wide
/// screen, below each other on a narrow one.
const STYLE: &str = "
body { font: 17px/1.5 system-ui, sans-serif; color: #222; max-width: 1840px; margin: 2rem auto;
  padding: 0 1rem; }
p, figcaption { max-width: 64rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd;
  padding-top: 1.2rem; }
figure { margin: 1.2rem 0; max-width: 1080px; }
figure svg { width: 100%; height: auto; border: 1px solid #e5e5e5; }
figcaption { color: #444; font-size: .95rem; }
.plots { display: grid; gap: 0 1.4rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 860px), 1fr)); }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums;
  margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .45rem; text-align: right; border-bottom: 1px solid #eee;
  white-space: nowrap; vertical-align: top; }
th { background: #f7f7f7; } td:first-child, th:first-child { text-align: left; }
th.text, td.text { text-align: left; white-space: normal; }
td.formula { text-align: left; white-space: normal; max-width: 13rem; } .cut { color: #8a6d00; }
.off { color: #b00020; font-weight: 600; } .best { background: #d7efd9; }
.width { color: #666; }
svg .series { cursor: pointer; } svg.chosen .series { opacity: .12; }
svg.chosen .series.on { opacity: 1; }
details summary { cursor: pointer; color: #1f5fa8; }
@media print { figure { break-inside: avoid; } }
";

/// A click on a name shows that algorithm alone, in all plots; another click shows all again.
const SCRIPT: &str = "
let chosen = new Set();
document.addEventListener('click', event => {
  const series = event.target.closest('.series');
  if (!series) return;
  const name = series.dataset.name;
  chosen.has(name) ? chosen.delete(name) : chosen.add(name);
  for (const svg of document.querySelectorAll('figure svg')) {
    const known = [...svg.querySelectorAll('.series')];
    const any = known.some(one => chosen.has(one.dataset.name));
    svg.classList.toggle('chosen', any);
    known.forEach(one => one.classList.toggle('on', chosen.has(one.dataset.name)));
  }
});
";

fn show<'a>(page: &mut String, plots: impl Iterator<Item = &'a Shown>) {
    put(page, "<div class=\"plots\">");
    for shown in plots {
        let caption = escape(&shown.caption);
        put(
            page,
            &format!("<figure>{}<figcaption>{caption}</figcaption></figure>", shown.plot.svg()),
        );
    }
    put(page, "</div>");
}

/// Why a cell has no figures, if it has none.
fn missing(row: &Row) -> Option<String> {
    let figures = &row.figures;
    let stopped = || {
        let (entries, why) = (counted(figures.entries, "entry"), together(&figures.failures));
        format!("<span class=\"off\">stopped after {entries}: {}</span>", escape(&why))
    };
    let cut = || {
        let entries = counted(figures.entries, "entry");
        format!("<span class=\"cut\">cut off after {entries}</span>")
    };
    let unsettled = |events| {
        let events = number(events as f64);
        format!("<span class=\"cut\">not settled: needs about {events} events a run</span>")
    };
    let overloaded = || {
        "<span class=\"off\">overloaded: requests arrive faster than they are granted</span>"
            .to_owned()
    };
    let refused = figures.refused.as_deref().map(escape);
    let missing = refused.or_else(|| figures.stopped.then(stopped));
    let missing = missing.or_else(|| figures.overloaded.then(overloaded));
    missing.or_else(|| figures.cut_off.then(cut)).or_else(|| figures.unsettled.map(unsettled))
}

/// Whether the figures are those of a correct algorithm: the costs of a run with violations say
/// little.
fn is_sound(row: &Row) -> bool {
    let is_control = registry::about(&row.cell.algorithm).is_some_and(|about| about.control);
    row.figures.failures.is_empty() && !is_control
}

fn algorithms_table(page: &mut String, comparison: &Comparison) {
    put(page, "<h2>The algorithms</h2>");
    if !comparison.mutexes.is_empty() {
        put(page, "<p>Light, saturated and worst are messages per entry, as formulas in N.</p>");
        let columns =
            ["family", "light", "saturated", "worst", "links", "order of entry", "source"];
        let cells = |about: &About| {
            let (costs, links) = (&about.costs, links(about));
            let figures = [costs.light, costs.saturated, costs.worst].map(|cost| cost.to_string());
            let rest = [links, about.order, about.source].map(str::to_owned);
            [about.family.to_owned()].into_iter().chain(figures).chain(rest).collect()
        };
        table(page, &columns, &comparison.mutexes, cells);
    }
    let elects = |about: &&&'static About| {
        comparison.elections.iter().any(|row| row.cell.algorithm == about.name)
    };
    let elections: Vec<_> = registry::ALGORITHMS.iter().filter(elects).copied().collect();
    if !elections.is_empty() {
        put(page, "<p>Costs of elections are messages per election.</p>");
        let columns = ["best", "all start", "worst", "links", "source"];
        let cells = |about: &About| {
            let costs = &about.costs;
            let figures = [costs.light, costs.saturated, costs.worst].map(|cost| cost.to_string());
            figures.into_iter().chain([links(about), about.source].map(str::to_owned)).collect()
        };
        table(page, &columns, &elections, cells);
    }
}

fn table(
    page: &mut String,
    columns: &[&str],
    all: &[&'static About],
    cells: impl Fn(&About) -> Vec<String>,
) {
    let header = columns.iter().map(|name| format!("<th class=\"text\">{name}</th>"));
    put(page, &format!("<table><tr><th>name</th>{}</tr>", header.collect::<String>()));
    for about in all {
        let cells = cells(about).into_iter();
        let cells = cells.map(|text| format!("<td class=\"text\">{}</td>", escape(&text)));
        put(page, &format!("<tr><td>{}</td>{}</tr>", about.name, cells.collect::<String>()));
    }
    put(page, "</table>");
}

fn put(page: &mut String, text: &str) {
    svg::put(page, text);
}
