//! The page: plots, what they say, and the figures behind them. One file, nothing loaded.

mod theory_table;

use std::fmt::Write;

use mutua_algorithms::registry;

use super::{
    Comparison,
    grid::{Cell, CellLoad, Figures, Stat},
    plots::Shown,
    results::Row,
};
use crate::plot::{escape, number};

pub(super) fn page(comparison: &Comparison, plots: &[Shown]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Mutual exclusion compared</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>Mutual exclusion compared</h1>\n"
    );
    intro(&mut page, comparison);
    for (place, (hold, latency)) in comparison.situations.iter().enumerate() {
        if comparison.mutexes.is_empty() {
            continue;
        }
        let (inside, under_way) = (escape(hold), escape(latency));
        put(
            &mut page,
            &format!(
                "<h2>{inside} inside, messages take {under_way}</h2>\n<p>{}</p>",
                findings(comparison, hold, latency)
            ),
        );
        show(&mut page, plots.iter().filter(|plot| plot.situation == Some(place)));
        loads_table(&mut page, comparison, hold, latency);
    }
    theory_table::table(&mut page, comparison);
    if !comparison.elections.is_empty() {
        put(&mut page, "<h2>Elections</h2>");
        show(&mut page, plots.iter().filter(|plot| plot.situation.is_none()));
        elections_table(&mut page, comparison);
    }
    algorithms_table(&mut page, comparison);
    page + &format!("<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1120px; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid #ddd;
  padding-top: 1.2rem; }
figure { margin: 1.2rem 0; } figure svg { width: 100%; height: auto; border: 1px solid #e5e5e5; }
figcaption { color: #555; font-size: .92rem; max-width: 55rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(520px, 1fr)); gap: 0 1.4rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums;
  margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
th { background: #f7f7f7; } td:first-child, th:first-child { text-align: left; }
td.text { text-align: left; white-space: normal; min-width: 9rem; }
td.formula { text-align: left; white-space: normal; max-width: 13rem; } .cut { color: #8a6d00; }
.off { color: #b00020; font-weight: 600; } .best { background: #e8f5e9; }
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

fn intro(page: &mut String, comparison: &Comparison) {
    let effort = comparison.effort;
    let events: u64 = comparison.rows.iter().map(|row| row.figures.events).sum();
    put(
        page,
        &format!(
            "<p>Every point is a simulation of the state machines that also run between real \
         machines: {} runs of up to {} entries each with seeds {} to {}, {} events in all. \
         Delays are in units of T, the mean latency of a message. Circles ask for \
         permission, squares pass a \
         token, triangles collect votes, diamonds read variables. Click on a name to see it \
         alone; points that would lie \
         on each other stand side by side, and a line in stripes is the line of several.</p>",
            effort.runs,
            effort.entries,
            effort.seed,
            effort.seed + effort.runs - 1,
            number(events as f64)
        ),
    );
    put(page, &match comparison.violations(false) {
        0 => "<p>In all of them at most one process was inside at a time, nobody waited for ever, \
              and the fence grew with every entry.</p>"
            .to_owned(),
        count => format!(
            "<p class=\"off\">{count} violations were found: {}.</p>",
            violators(comparison, false)
        ),
    });
    if comparison.violations(true) > 0 {
        let names = violators(comparison, true);
        put(page, &format!("<p>The negative controls failed, as they should: {names}.</p>"));
    }
    cut_off(page, comparison);
}

/// Who violated something, and how often.
fn violators(comparison: &Comparison, controls: bool) -> String {
    let names = registry::ALGORITHMS.iter().filter(|about| about.control == controls);
    let counted = names.map(|about| {
        let rows = comparison.rows.iter().filter(|row| row.cell.algorithm == about.name);
        let of_elections = comparison.elections.iter().filter(|row| row.algorithm == about.name);
        let of_elections = of_elections.filter_map(|row| row.report.as_ref().ok());
        let count = rows.map(|row| row.figures.violations).sum::<u64>()
            + of_elections.map(|report| report.violations.len() as u64).sum::<u64>();
        (about.name, count)
    });
    let found = counted.filter(|(_, count)| *count > 0);
    found.map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
}

/// What needs more events than a run may have is said, not shown as measured.
fn cut_off(page: &mut String, comparison: &Comparison) {
    let cut = comparison.rows.iter().filter(|row| row.figures.cut_off);
    let cells: Vec<_> = cut
        .map(|row| {
            let Cell { algorithm, nodes, load, .. } = &row.cell;
            format!("{algorithm} with {nodes} processes at load {}", load.text())
        })
        .collect();
    if !cells.is_empty() {
        let events = number(comparison.effort.max_events as f64);
        put(
            page,
            &format!(
                "<p class=\"cut\">Cut off after {events} events a run, with too few entries for a \
                 mean, and so in no plot: {}.</p>",
                escape(&cells.join("; "))
            ),
        );
    }
}

/// The answer in words: who needs least at low and at high load.
fn findings(comparison: &Comparison, hold: &str, latency: &str) -> String {
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .filter(|row| row.cell.hold == hold && row.cell.latency == latency)
        .collect();
    let least = |load: CellLoad, nodes: u32, of: fn(&Figures) -> Option<Stat>| {
        let fitting = rows.iter().filter(|row| row.cell.load == load && row.cell.nodes == nodes);
        let known = fitting.filter_map(|row| Some((of(&row.figures)?.mean, &row.cell.algorithm)));
        let mut known: Vec<_> = known.collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = known.first()?.0;
        let names: Vec<_> = known
            .iter()
            .take_while(|(value, _)| *value <= first * 1.001)
            .map(|(_, name)| name.as_str())
            .collect();
        Some((names.join(", "), first))
    };
    let nodes = rows.iter().map(|row| row.cell.nodes).max().unwrap_or(0);
    let mut words = Vec::new();
    if let Some((names, value)) = least(CellLoad::Light, nodes, |figures| figures.messages) {
        let value = number(value);
        words.push(format!(
            "Fewest messages with {nodes} processes and one request at a time: {names} ({value} \
             per entry)."
        ));
    }
    if let Some((names, value)) = least(CellLoad::Saturated, nodes, |figures| figures.messages) {
        let value = number(value);
        words.push(format!("Fewest when everybody always wants in: {names} ({value})."));
    }
    let loads = rows.iter().filter_map(|row| match row.cell.load {
        CellLoad::Offered(share) => Some(share),
        CellLoad::Light | CellLoad::Saturated => None,
    });
    let (low, high) = loads.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    for load in [low, high] {
        let found = least(CellLoad::Offered(load), comparison.at, |figures| figures.waiting);
        if let Some((names, value)) = found {
            let value = number(value);
            let at = comparison.at;
            words.push(format!(
                "Shortest wait with {at} processes at a load of {load}: {names} ({value} T)."
            ));
        }
    }
    escape(&words.join(" "))
}

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

/// A column: its name, how to read it off, and whether less is better.
type Column = (&'static str, fn(&Figures) -> Option<f64>, bool);

const COLUMNS: [Column; 9] = [
    ("messages", |figures| mean(figures.messages), true),
    ("multicast as one", |figures| mean(figures.multicasts), true),
    ("bytes", |figures| mean(figures.bytes), true),
    ("sync delay, T", |figures| mean(figures.sync_delay), true),
    ("waiting, T", |figures| mean(figures.waiting), true),
    ("p99, T", |figures| mean(figures.waiting_p99), true),
    ("entries/s", |figures| mean(figures.throughput), false),
    ("Jain", |figures| mean(figures.jain), false),
    ("most bypassed", |figures| figures.jain.map(|_| figures.max_bypass as f64), true),
];

fn mean(stat: Option<Stat>) -> Option<f64> {
    stat.map(|stat| stat.mean)
}

fn loads_table(page: &mut String, comparison: &Comparison, hold: &str, latency: &str) {
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
    for load in loads {
        let rows: Vec<_> = rows.iter().filter(|row| row.cell.load == load).collect();
        put(
            page,
            &format!(
                "<details><summary>The figures at a load of {} with {} processes</summary>\n\
             <table><tr><th>algorithm</th>{}</tr>",
                load.text(),
                comparison.at,
                COLUMNS.map(|(name, ..)| format!("<th>{name}</th>")).concat()
            ),
        );
        for row in &rows {
            let cells = match nothing(row) {
                Some(why) => format!("<td class=\"text\" colspan=\"9\">{why}</td>"),
                None => COLUMNS.map(|column| cell(&column, row, &rows)).concat(),
            };
            put(page, &format!("<tr><td>{}</td>{cells}</tr>", row.cell.algorithm));
        }
        put(page, "</table></details>");
    }
}

/// Why a cell has no figures, if it has none.
fn nothing(row: &Row) -> Option<String> {
    let figures = &row.figures;
    let cut = || {
        let entries = figures.entries;
        format!("<span class=\"cut\">cut off after {entries} entries</span>")
    };
    figures.refused.as_deref().map(escape).or_else(|| figures.cut_off.then(cut))
}

fn cell((_, of, less_is_better): &Column, row: &Row, rows: &[&&Row]) -> String {
    let Some(value) = of(&row.figures) else { return "<td>-</td>".to_owned() };
    let all = rows.iter().filter_map(|row| of(&row.figures));
    let best = if *less_is_better { all.fold(f64::MAX, f64::min) } else { all.fold(0.0, f64::max) };
    let class = if (value - best).abs() <= best.abs() * 1e-3 { " class=\"best\"" } else { "" };
    format!("<td{class}>{}</td>", number(value))
}

fn elections_table(page: &mut String, comparison: &Comparison) {
    put(
        page,
        "<details><summary>The figures</summary><table><tr><th>algorithm</th><th>N</th>\
         <th>case</th><th>messages</th><th>turn-around, T</th><th>elected</th></tr>",
    );
    for row in &comparison.elections {
        let figures = match &row.report {
            Ok(report) => format!(
                "<td>{}</td><td>{}</td><td>{}</td>",
                report.messages,
                report.turnaround.map_or_else(|| "-".to_owned(), number),
                report.elected.map_or_else(|| "-".to_owned(), |node| node.to_string())
            ),
            Err(why) => format!("<td class=\"text\" colspan=\"3\">{}</td>", escape(why)),
        };
        let (name, nodes, case) = (row.algorithm, row.nodes, row.case.text());
        put(page, &format!("<tr><td>{name}</td><td>{nodes}</td><td>{case}</td>{figures}</tr>"));
    }
    put(page, "</table></details>");
}

fn algorithms_table(page: &mut String, comparison: &Comparison) {
    put(
        page,
        "<h2>The algorithms</h2>\n<table><tr><th>name</th><th>family</th><th>light</th>\
         <th>saturated</th><th>worst</th><th>links</th><th>order of entry</th><th>source</th></tr>",
    );
    let elections = registry::ALGORITHMS
        .iter()
        .filter(|about| comparison.elections.iter().any(|row| row.algorithm == about.name));
    for about in comparison.mutexes.iter().chain(elections) {
        let text = |text: &str| format!("<td class=\"text\">{}</td>", escape(text));
        let links = format!("{:?}", about.links).to_lowercase();
        put(
            page,
            &format!(
                "<tr><td>{}</td>{}{}{}{}{}{}{}</tr>",
                about.name,
                text(about.family),
                text(about.costs.light),
                text(about.costs.saturated),
                text(about.costs.worst),
                text(&links),
                text(about.order),
                text(about.source)
            ),
        );
    }
    put(page, "</table>");
}

fn put(page: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{text}");
}
