//! `mutua compare`: algorithms over a grid of sizes and loads, as an HTML report.

mod results;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::About;
use mutua_lab::{
    Workers,
    compare::{
        Apart, Arrivals, Cell, Clients, Comparison, Effort, Grid, LARGEST_ELECTION, PAGE,
        Requesters, Situation, is_file_of_comparison,
    },
};

use crate::{
    durations, exit::usage, names, parallel::AllCores, seeds::SeedArguments, system, words::number,
};

/// Compare algorithms over sizes and loads: an HTML report with plots.
///
/// Exit code 1: an algorithm violated a property that it claims; violations of negative controls
/// are only noted in the report.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Algorithms [default: all but the negative controls].
    names: Vec<String>,

    /// Numbers of processes for the plots against N.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "3,5,10,31,100,300",
        allow_hyphen_values = true,
        value_parser = system::count
    )]
    nodes: Vec<u32>,

    /// Number of processes for the plots against the load.
    #[arg(long, value_name = "N", default_value_t = 20, allow_hyphen_values = true,
          value_parser = system::count)]
    at: u32,

    /// Offered loads: the utilisation of the critical section if no process had to wait.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "0.05,0.1,0.2,0.4,0.6,0.8,1,1.5,3",
        allow_hyphen_values = true,
        value_parser = offered
    )]
    loads: Vec<f64>,

    /// Hold times, as in 1ms,10ms or lognormal:1ms,0.5,exp:2ms; each has its own plots.
    #[arg(long, value_name = "LIST", default_value = "1ms", allow_hyphen_values = true)]
    hold: Vec<String>,

    /// Latencies, a list like that of --hold; each has its own plots.
    #[arg(long, value_name = "LIST", default_value = "1ms", allow_hyphen_values = true)]
    latency: Vec<String>,

    /// How requests come at an offered load: think (each client requests again after a think time),
    /// poisson (at random, however many wait), or bursts (all clients at once).
    #[arg(long, value_name = "HOW", default_value = "think", value_parser = arrivals)]
    arrivals: Arrivals,

    /// Processes that request: all, hot:K (only the first K), or zipf:S (by rank; without saturated
    /// systems, since some request less often).
    #[arg(long, value_name = "WHO", default_value = "all", value_parser = requesters)]
    requesters: Requesters,

    /// Divide the processes into this number of regions of about equal size; --latency applies
    /// within a region.
    #[arg(long, value_name = "COUNT", requires = "wan", allow_hyphen_values = true,
          value_parser = system::count)]
    regions: Option<u32>,

    /// Latency of a message between regions.
    #[arg(long, value_name = "TIME", requires = "regions", value_parser = wan)]
    wan: Option<String>,

    /// Number of entries that each run measures, if --max-events allows it.
    #[arg(long, value_name = "E", default_value_t = 10_000, allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: u64,

    #[command(flatten)]
    seeds: SeedArguments,

    /// Maximal number of events of a run. A cell with too few samples by then is not plotted, and
    /// is marked as cut off in the tables.
    #[arg(long, value_name = "E", default_value_t = 3_000_000, allow_hyphen_values = true,
          value_parser = system::positive)]
    max_events: u64,

    /// Maximal number of events of a warm-up. A run that has not settled within a third of
    /// --max-events goes on, if the estimate is within this bound; otherwise its cell has no
    /// figures, and the report says how many events it needs.
    #[arg(long, value_name = "E", default_value_t = 20_000_000, allow_hyphen_values = true,
          value_parser = system::positive)]
    warm_up_events: u64,

    /// Directory for report.html, results.csv (a row for each system), observations.csv (one for
    /// each observation), elections.csv, repairs.csv (repairs after a crash), the plots, and the
    /// results so far, which are used again. Plots of an earlier comparison that are not in this
    /// one are removed.
    #[arg(long, value_name = "DIR", default_value = "mutua-report")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let named: Vec<_> =
        arguments.names.iter().map(|name| names::algorithm(name)).collect::<Result<_>>()?;
    let comparison = compare(arguments, named)?;
    write(&comparison, &arguments.out)?;
    if let Some(unsettled) = comparison.unsettled() {
        eprintln!("{unsettled}.");
    }
    Ok(if comparison.violations(false) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads how requests come.
fn arrivals(text: &str) -> Result<Arrivals, String> {
    let found = Arrivals::ALL.into_iter().find(|arrivals| arrivals.text() == text);
    found.ok_or_else(|| "use think, poisson or bursts".to_owned())
}

/// Reads which processes request.
fn requesters(text: &str) -> Result<Requesters, String> {
    let found = match text.split_once(':').unwrap_or((text, "")) {
        ("all", "") => Some(Requesters::All),
        ("hot", count) => count.parse().ok().filter(|&count| count > 0).map(Requesters::Hot),
        ("zipf", exponent) => {
            let valid = |exponent: &f64| (0.0..=10.0).contains(exponent);
            exponent.parse().ok().filter(valid).map(Requesters::Zipf)
        }
        _ => None,
    };
    found.ok_or_else(|| "use all, hot:K or zipf:S, with an exponent S of 0 to 10".to_owned())
}

/// Reads the latency between regions.
fn wan(text: &str) -> Result<String, String> {
    durations::distribution(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Reads an offered load.
fn offered(text: &str) -> Result<f64, String> {
    let load = text.trim().parse::<f64>().ok().filter(|load| *load > 0.0 && load.is_finite());
    load.ok_or_else(|| "give a number above 0, such as 0.5".to_owned())
}

fn compare(arguments: &Arguments, named: Vec<&'static About>) -> Result<Comparison> {
    refuse_few(arguments)?;
    let grid = Grid {
        named,
        sizes: arguments.nodes.clone(),
        at: arguments.at,
        loads: arguments.loads.clone(),
        situations: situations(arguments)?,
        clients: clients(arguments)?,
    };
    refuse_large(&grid)?;
    let out = &arguments.out;
    fs::create_dir_all(out).with_context(|| format!("cannot create `{}`", out.display()))?;
    let effort = Effort {
        entries: arguments.entries,
        runs: arguments.seeds.runs,
        seed: arguments.seeds.seed,
        max_events: arguments.max_events,
        warm_up_events: arguments.warm_up_events,
    };
    announce(&grid.cells(), effort);
    Ok(Comparison {
        rows: results::all(&grid.cells(), effort, &out.join("results.jsonl"))?,
        elections: results::all(&grid.elections(), effort, &out.join("elections.jsonl"))?,
        repairs: results::all(&grid.repairs(), effort, &out.join("repairs.jsonl"))?,
        mutexes: grid.mutexes(),
        situations: grid.situations,
        at: grid.at,
        effort,
    })
}

/// Refuses systems of which none can be measured.
fn refuse_large(grid: &Grid) -> Result<()> {
    if let Some(large) = grid.too_large(AllCores.memory()) {
        return Err(usage(large.to_string()));
    }
    if grid.cells().is_empty() && grid.elections().is_empty() {
        return Err(usage(format!(
            "--nodes: elections are compared with 2 to {LARGEST_ELECTION} processes"
        )));
    }
    Ok(())
}

/// Refuses more requesting processes than the smallest system has.
fn refuse_few(arguments: &Arguments) -> Result<()> {
    let sizes = arguments.nodes.iter().copied().chain([arguments.at]);
    let fewest = sizes.min().unwrap_or(arguments.at);
    match arguments.requesters {
        Requesters::Hot(count) if count > fewest => Err(usage(format!(
            "--requesters hot:{count}: a system of {fewest} processes has no {count}; give at most \
             {fewest}, or larger --nodes and --at"
        ))),
        Requesters::All | Requesters::Hot(_) | Requesters::Zipf(_) => Ok(()),
    }
}

/// Announces the cost of the longest warm-up, if that is more than a usual run.
fn announce(cells: &[Cell], effort: Effort) {
    let memory = AllCores.memory();
    let settling = |cell| (cell, Cell::settling_events(cell, memory));
    let longest = cells.iter().map(settling).max_by_key(|&(_, events)| events);
    let Some((cell, events)) = longest else { return };
    if events > effort.max_events / 3 {
        let within = match events <= effort.warm_up_events {
            true => "the run goes on until then",
            false => "more than --warm-up-events allows, so it will have no figures",
        };
        eprintln!(
            "settling takes up to about {} events a run ({} processes of {}): {within}",
            number(events as f64),
            cell.nodes,
            cell.algorithm
        );
    }
}

/// The clients and their regions.
fn clients(arguments: &Arguments) -> Result<Clients> {
    let &Arguments { arrivals, requesters, .. } = arguments;
    if arrivals == Arrivals::Bursts && matches!(requesters, Requesters::Zipf(_)) {
        return Err(usage(
            "--requesters zipf needs --arrivals think or poisson: in a burst all processes request",
        ));
    }
    let smallest = arguments.nodes.iter().chain([&arguments.at]).min().copied().unwrap_or(0);
    if let Some(count) = arguments.regions.filter(|&count| count > smallest) {
        return Err(usage(format!(
            "--regions {count}: the smallest system has {smallest} processes: give at most as many"
        )));
    }
    let apart = arguments.regions.zip(arguments.wan.clone());
    let regions = apart.map(|(count, wan)| Apart { count, wan });
    Ok(Clients { arrivals, requesters, regions })
}

/// Every hold time with every latency.
fn situations(arguments: &Arguments) -> Result<Vec<Situation>> {
    let holds = all_of(&arguments.hold)?;
    let latencies = all_of(&arguments.latency)?;
    let with_each = |hold: &String| {
        let hold = hold.clone();
        latencies.clone().into_iter().map(move |latency| Situation { hold: hold.clone(), latency })
    };
    Ok(holds.iter().flat_map(with_each).collect())
}

fn all_of(lists: &[String]) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for list in lists {
        for one in durations::distributions(list).map_err(|error| usage(error.to_string()))? {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    Ok(all)
}

fn write(comparison: &Comparison, out: &Path) -> Result<()> {
    let files = comparison.files();
    remove_old(out, &files).with_context(|| format!("cannot clear `{}`", out.display()))?;
    for (name, text) in files {
        let file = out.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    println!("{}", out.join(PAGE).display());
    Ok(())
}

/// Removes the files of an earlier comparison that this one does not write: they would be taken for
/// a part of it. The results themselves and other files stay.
fn remove_old(out: &Path, files: &[(String, String)]) -> io::Result<()> {
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_file_of_comparison(&name) && !files.iter().any(|(file, _)| *file == name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
