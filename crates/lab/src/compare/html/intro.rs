//! The introduction of the page, and its findings.

use mutua_algorithms::registry;

use super::{
    super::{
        elections,
        grid::{Cell, CellLoad, Figures, Stat},
    },
    Comparison, is_sound, put,
};
use crate::{
    svg::escape,
    words::{counted, number},
};

pub(super) fn write(page: &mut String, comparison: &Comparison) {
    put(page, &format!("<p>{}</p>", how(comparison)));
    if let Some(sentence) = comparison.clients().sentence() {
        put(page, &format!("<p>{}</p>", escape(&sentence)));
    }
    let claimed = comparison.violations(false);
    if claimed > 0 {
        let names = violators(comparison, false);
        let count = counted(claimed, "violation");
        put(page, &format!("<p class=\"off\">{count} found: {names}.</p>"));
    } else {
        put(page, &format!("<p>{}</p>", properties_that_hold(comparison)));
    }
    if comparison.violations(true) > 0 {
        let names = violators(comparison, true);
        put(page, &format!("<p>Violations of the negative controls, as expected: {names}.</p>"));
    }
    without_figures(page, comparison);
}

/// How the figures were measured, and how to read the plots.
fn how(comparison: &Comparison) -> String {
    let effort = comparison.effort;
    let events: u64 = comparison.rows.iter().map(|row| row.figures.events).sum::<u64>()
        + comparison.elections.iter().map(|row| row.figures.events).sum::<u64>();
    let last = effort.seed.wrapping_add(effort.runs - 1);
    let seeds = if effort.runs == 1 {
        format!("seed {last}")
    } else {
        format!("seeds {} to {last}", effort.seed)
    };
    let what = if comparison.mutexes.is_empty() {
        let count = counted(comparison.elections.len() as u64, "election");
        format!("{count} with seed {}", effort.seed)
    } else {
        let runs = counted(effort.runs, "run");
        format!("{runs} of up to {} each with {seeds}", counted(effort.entries, "entry"))
    };
    let shapes = shapes(comparison);
    format!(
        "Every point is a simulation of the state machines that also run between real machines: \
         {what}, {} events in all. Delays are in units of T, the mean latency of a \
         message.{shapes} Click on a name to see it alone; \
         points that would cover each other are side by side, \
         and a striped line is that of several algorithms.",
        number(events as f64)
    )
}

/// The meaning of the markers; captions explain those of elections.
fn shapes(comparison: &Comparison) -> String {
    let all = [
        ("permission", "circles for permission-based algorithms"),
        ("token", "squares for token-based ones"),
        ("quorum", "triangles for quorums"),
        ("state variables", "diamonds for shared variables"),
    ];
    let is_there = |family: &str| comparison.mutexes.iter().any(|about| about.family == family);
    let there = all.iter().filter(|(family, _)| is_there(family));
    let there: Vec<_> = there.map(|(_, words)| *words).collect();
    if there.is_empty() { String::new() } else { format!(" Shapes: {}.", there.join(", ")) }
}

/// The properties that were checked and hold.
fn properties_that_hold(comparison: &Comparison) -> String {
    let mut words = Vec::new();
    let claiming = comparison.mutexes.iter().filter(|about| !about.control).count();
    if claiming > 0 {
        let runs = if claiming == comparison.mutexes.len() {
            "In all runs".to_owned()
        } else {
            "In all runs but those of the negative controls".to_owned()
        };
        words.push(format!(
            "{runs} mutual exclusion, liveness and fencing hold: at most one process is in the \
             critical section, none waits for ever, and the fencing token grows with every entry."
        ));
    }
    let held = comparison.elections.iter().filter(|row| row.figures.refused.is_none()).count();
    if held > 0 {
        let elections = counted(held as u64, "election");
        words.push(format!(
            "In all of {elections} every process that was up learnt the coordinator, and \
             where agreement is claimed none elected another process than the highest that was \
             up."
        ));
    }
    if comparison.elections.iter().any(|row| row.cell.nodes == elections::LARGEST) {
        words.push(format!("Elections of more than {} are left out.", elections::LARGEST));
    }
    words.join(" ")
}

/// The algorithms with violations, how many, and of which property.
fn violators(comparison: &Comparison, controls: bool) -> String {
    let names = registry::ALGORITHMS.iter().filter(|about| about.control == controls);
    let found = names.filter(|about| comparison.violations_of(about.name) > 0);
    let words = |name: &str| {
        let of_runs = comparison.rows.iter().filter(|row| row.cell.algorithm == name);
        // The number of runs stands in each cell.
        let of_runs = of_runs.flat_map(|row| &row.figures.failures).map(|one| &one.what);
        let of_elections = comparison.elections.iter().filter(|row| row.cell.algorithm == name);
        let of_elections = of_elections.flat_map(|row| &row.figures.violations);
        let what = of_runs.chain(of_elections).next().map_or("", String::as_str);
        format!("{name}, where {what} ({})", counted(comparison.violations_of(name), "violation"))
    };
    let found: Vec<_> = found.map(|about| words(about.name)).collect();
    escape(&found.join("; "))
}

/// Lists the cells without figures: runs that stopped, or needed more events than a run may have.
fn without_figures(page: &mut String, comparison: &Comparison) {
    let cells = |wanted: fn(&Figures) -> bool| {
        let rows = comparison.rows.iter().filter(|row| wanted(&row.figures));
        escape(&by_algorithm(&rows.map(|row| &row.cell).collect::<Vec<_>>()))
    };
    let stopped = cells(|figures| figures.stopped);
    if !stopped.is_empty() {
        let text = format!("Stopped before the end, and so in no plot: {stopped}.");
        put(page, &format!("<p class=\"off\">{text}</p>"));
    }
    let overloaded = cells(|figures| figures.overloaded);
    if !overloaded.is_empty() {
        let text = format!(
            "Requests arrive faster than they are granted, so that waits grow with the run, and \
             there are no figures: {overloaded}."
        );
        put(page, &format!("<p class=\"off\">{text}</p>"));
    }
    if let Some(unsettled) = comparison.unsettled() {
        put(page, &format!("<p class=\"off\">{}.</p>", escape(&unsettled)));
    }
    let cut = cells(|figures| figures.cut_off);
    if !cut.is_empty() {
        let events = number(comparison.effort.max_events as f64);
        put(
            page,
            &format!(
                "<p class=\"cut\">Cut off after {events} events a run, with too few entries for a \
                 mean, and so in no plot: {cut}.</p>"
            ),
        );
    }
}

/// Cells by algorithm, load and number of processes, in few words.
pub(in crate::compare) fn by_algorithm(cells: &[&Cell]) -> String {
    let load = |cell: &Cell| match cell.load {
        CellLoad::Light | CellLoad::Saturated => cell.load.text(),
        CellLoad::Offered(share) => format!("at a load of {share}"),
    };
    let mut parts: Vec<(&str, String, Vec<String>)> = Vec::new();
    for cell in cells {
        let (name, load, nodes) = (cell.algorithm.as_str(), load(cell), cell.nodes.to_string());
        match parts.iter_mut().find(|part| part.0 == name && part.1 == load) {
            Some((_, _, all)) if all.contains(&nodes) => {}
            Some((_, _, all)) => all.push(nodes),
            None => parts.push((name, load, vec![nodes])),
        }
    }
    let words = parts
        .iter()
        .map(|(name, load, nodes)| format!("{name} {load} with {} processes", nodes.join(", ")));
    words.collect::<Vec<_>>().join("; ")
}

/// The findings: the algorithms with the lowest cost at low and at high load.
pub(super) fn findings(comparison: &Comparison, hold: &str, latency: &str) -> String {
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .filter(|row| row.cell.hold == hold && row.cell.latency == latency)
        .filter(|row| is_sound(row))
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
        words.push(format!("Fewest in a saturated system: {names} ({value})."));
    }
    let loads = rows.iter().filter_map(|row| match row.cell.load {
        CellLoad::Offered(share) => Some(share),
        CellLoad::Light | CellLoad::Saturated => None,
    });
    let (low, high) = loads.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    let loads = if low < high { vec![low, high] } else { vec![low] };
    for load in loads {
        let found = least(CellLoad::Offered(load), comparison.at, |figures| figures.response.mean);
        if let Some((names, value)) = found {
            let value = number(value);
            let at = comparison.at;
            words.push(format!(
                "Shortest response with {at} processes at a load of {load}: {names} ({value} T)."
            ));
        }
    }
    escape(&words.join(" "))
}
