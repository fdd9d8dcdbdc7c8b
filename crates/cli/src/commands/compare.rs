//! `mutua compare`: algorithms over a grid of sizes and loads, as one page with plots.

mod csv;
mod elections;
mod grid;
mod html;
mod plots;
mod results;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::{About, Kind, registry};

use self::{
    grid::{Cell, CellLoad, Effort},
    results::Row,
};
use crate::{durations, exit::usage, names, seeds::SeedArguments, system};

/// Compare algorithms over sizes and loads, as one page with plots.
///
/// The exit code is 1 if a property was violated that the algorithm claims; what the negative
/// controls violate is noted on the page.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The algorithms; all but the negative controls, if none is named.
    names: Vec<String>,

    /// How many processes, for the plots against N.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "3,5,10,31,100,300",
        allow_hyphen_values = true,
        value_parser = system::count
    )]
    nodes: Vec<u32>,

    /// How many processes, for the plots against the load.
    #[arg(long, value_name = "N", default_value_t = 20, allow_hyphen_values = true,
          value_parser = system::count)]
    at: u32,

    /// Offered loads: how much of the time all together would spend inside if nobody had to wait.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.05,0.1,0.2,0.4,0.6,0.8,1,1.5,3",
        allow_hyphen_values = true,
        value_parser = offered
    )]
    loads: Vec<f64>,

    /// How long clients stay inside, as 1ms,10ms or lognormal:1ms,0.5,exp:2ms; each gets its plots.
    #[arg(long, value_name = "LIST", default_value = "1ms", allow_hyphen_values = true)]
    hold: Vec<String>,

    /// How long a message takes, a list like that of --hold; each gets its plots.
    #[arg(long, value_name = "LIST", default_value = "1ms", allow_hyphen_values = true)]
    latency: Vec<String>,

    /// How many entries each run measures, if --max-events allow it.
    #[arg(long, value_name = "E", default_value_t = 10_000, allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: u64,

    #[command(flatten)]
    seeds: SeedArguments,

    /// How many events a run may have. What it has not measured enough by then is not plotted, and
    /// marked as cut off in the tables.
    #[arg(long, value_name = "E", default_value_t = 3_000_000, allow_hyphen_values = true,
          value_parser = system::positive)]
    max_events: u64,

    /// The directory for report.html, results.csv, elections.csv, the plots, and what is known from
    /// before. Plots of an earlier comparison that are not in this one are removed.
    #[arg(long, value_name = "DIR", default_value = "mutua-report")]
    out: PathBuf,
}

/// Everything that the page shows.
struct Comparison {
    mutexes: Vec<&'static About>,
    rows: Vec<Row>,
    elections: Vec<elections::ElectionRow>,
    /// One set of plots for each time inside and latency.
    situations: Vec<(String, String)>,
    at: u32,
    effort: Effort,
}

impl Comparison {
    /// How many violations there were, by the negative controls or by all others.
    fn violations(&self, by_controls: bool) -> u64 {
        let of = |about: &&&About| about.control == by_controls;
        registry::ALGORITHMS.iter().filter(of).map(|about| self.violations_of(about.name)).sum()
    }

    fn violations_of(&self, name: &str) -> u64 {
        let rows = self.rows.iter().filter(|row| row.cell.algorithm == name);
        let elections = self.elections.iter().filter(|row| row.cell.algorithm == name);
        rows.map(|row| row.figures.violations).sum::<u64>()
            + elections.map(|row| row.figures.violations.len() as u64).sum::<u64>()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let named: Vec<_> =
        arguments.names.iter().map(|name| names::algorithm(name)).collect::<Result<_>>()?;
    let comparison = compare(arguments, &named)?;
    write(&comparison, &arguments.out)?;
    Ok(if comparison.violations(false) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads an offered load.
fn offered(text: &str) -> Result<f64, String> {
    let load = text.trim().parse::<f64>().ok().filter(|load| *load > 0.0 && load.is_finite());
    load.ok_or_else(|| "an offered load is a number above 0, such as 0.5".to_owned())
}

fn compare(arguments: &Arguments, named: &[&'static About]) -> Result<Comparison> {
    let situations = situations(arguments)?;
    let out = &arguments.out;
    fs::create_dir_all(out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let effort = Effort {
        entries: arguments.entries,
        runs: arguments.seeds.runs,
        seed: arguments.seeds.seed,
        max_events: arguments.max_events,
    };
    let mutexes = match named.iter().any(|about| about.kind == Kind::Election) {
        true if named.iter().all(|about| about.kind == Kind::Election) => Vec::new(),
        true | false => grid::mutexes(named),
    };
    let cells = cells(arguments, &mutexes, &situations);
    let elections = elections::cells(named, &arguments.nodes);
    Ok(Comparison {
        rows: results::all(&cells, effort, &out.join("results.jsonl"))?,
        elections: results::all(&elections, effort, &out.join("elections.jsonl"))?,
        mutexes,
        situations,
        at: arguments.at,
        effort,
    })
}

/// Every time inside with every latency.
fn situations(arguments: &Arguments) -> Result<Vec<(String, String)>> {
    let holds = all_of(&arguments.hold)?;
    let latencies = all_of(&arguments.latency)?;
    let with_each = |hold: &String| {
        let hold = hold.clone();
        latencies.clone().into_iter().map(move |latency| (hold.clone(), latency))
    };
    Ok(holds.iter().flat_map(with_each).collect())
}

fn all_of(lists: &[String]) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for list in lists {
        for one in durations::distributions(list).map_err(usage)? {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    Ok(all)
}

fn cells(
    arguments: &Arguments,
    mutexes: &[&'static About],
    situations: &[(String, String)],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (hold, latency) in situations {
        for about in mutexes {
            let mut add = |nodes, load| {
                let (hold, latency) = (hold.clone(), latency.clone());
                let algorithm = about.name.to_owned();
                cells.push(Cell { algorithm, nodes, load, hold, latency });
            };
            for &nodes in &arguments.nodes {
                add(nodes, CellLoad::Light);
                add(nodes, CellLoad::Saturated);
            }
            arguments.loads.iter().for_each(|&load| add(arguments.at, CellLoad::Offered(load)));
        }
    }
    cells
}

fn write(comparison: &Comparison, out: &Path) -> Result<()> {
    let plots = plots::all(comparison);
    let mut files = vec![("report.html".to_owned(), html::page(comparison, &plots))];
    if !comparison.mutexes.is_empty() {
        files.push(("results.csv".to_owned(), csv::table(&comparison.rows)));
    }
    if !comparison.elections.is_empty() {
        files.push(("elections.csv".to_owned(), csv::elections(&comparison.elections)));
    }
    files.extend(plots.iter().map(|plot| (format!("{}.svg", plot.file), plot.plot.svg())));
    remove_old(out, &files).with_context(|| format!("cannot clear `{}`", out.display()))?;
    for (name, text) in files {
        let file = out.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    println!("{}", out.join("report.html").display());
    Ok(())
}

/// Removes what an earlier comparison has written into the directory and this one does not: it
/// would be taken for a part of this one. The results themselves stay, and what others put there.
fn remove_old(out: &Path, files: &[(String, String)]) -> io::Result<()> {
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_ours = plots::is_plot(&name) || ["results.csv", "elections.csv"].contains(&&*name);
        if is_ours && !files.iter().any(|(file, _)| *file == name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
