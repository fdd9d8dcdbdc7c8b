//! `mutua choose`: recommends an algorithm, by simulating the situation with each.

mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use mutua_lab::choose::{self, RankError, Ranking, Situation};
use mutua_simulator::{Distribution, Load, Who, Workload};

use crate::{
    durations, exit::usage, network::NetworkArguments, parallel::AllCores, seeds::SeedArguments,
    system,
};

/// Recommend an algorithm for a situation, by simulating each.
///
/// Exit code 1: every candidate failed in the simulation.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Number of processes that contend.
    #[arg(long, value_name = "N", default_value_t = 10, allow_hyphen_values = true,
          value_parser = system::count)]
    nodes: u32,

    #[command(flatten)]
    network: NetworkArguments,

    /// Think time: from the exit of a client to its next request, written as --latency.
    #[arg(long, value_name = "TIME", default_value = "exp:100ms", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    think: Distribution,

    /// Hold time: time of a client in the critical section, written as --latency.
    #[arg(long, value_name = "TIME", default_value = "1ms", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    hold: Distribution,

    /// Let only the first K processes request.
    #[arg(long, value_name = "K", allow_hyphen_values = true, value_parser = system::number)]
    hot: Option<u32>,

    /// Require that requests are granted in the order of happens-before.
    #[arg(long)]
    ordered: bool,

    /// Rank by what the crash of a process costs with its repair: the time without entries, then
    /// messages. 100 crashes of each are simulated, of processes and at times that are drawn. Where
    /// messages are dropped, duplicated or reordered, crashes are not repaired, and those come
    /// first to which a crash is fatal least often.
    #[arg(long)]
    may_fail: bool,

    /// Measure to rank by.
    #[arg(long, value_enum, default_value_t = By::Wait)]
    by: By,

    /// Number of entries that each run measures.
    #[arg(long, value_name = "E", default_value_t = 4000, allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: u64,

    #[command(flatten)]
    seeds: SeedArguments,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The measure of a ranking.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum By {
    /// Mean time from request to entry.
    Wait,
    /// 99th percentile of the time from request to entry.
    Tail,
    /// Messages per entry.
    Messages,
    /// Messages between regions per entry.
    Far,
}

impl By {
    fn of_ranking(self) -> choose::By {
        match self {
            Self::Wait => choose::By::Wait,
            Self::Tail => choose::By::Tail,
            Self::Messages => choose::By::Messages,
            Self::Far => choose::By::Far,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let situation = situation(arguments)?;
    let bar = ProgressBar::new(0);
    let ranking = Ranking::new(&situation, &AllCores, |progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
    });
    bar.finish_and_clear();
    let ranking = ranking.map_err(|error| match error {
        RankError::NoneFits => usage("no algorithm fits: omit --ordered or --reorder"),
        error => usage(error.to_string()),
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&ranking)?);
    } else {
        print!("{}", words::all(&situation, &ranking));
    }
    Ok(if ranking.winner.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn situation(arguments: &Arguments) -> Result<Situation> {
    let nodes = arguments.nodes;
    arguments.network.refuse_chosen_crashes("is not for `choose`")?;
    let network = arguments.network.network(nodes)?;
    let who = arguments.hot.map_or(Who::All, Who::Hot);
    let workload = Workload { load: Load::Think(arguments.think), who, hold: arguments.hold };
    if let Some(fault) = network.fault(nodes).or_else(|| workload.fault(nodes)) {
        return Err(usage(fault));
    }
    let regions = &arguments.network.regions;
    if arguments.by == By::Far && regions.len() < 2 {
        return Err(usage("--by far counts messages between regions: give them with --regions"));
    }
    Ok(Situation {
        nodes,
        regions: if regions.is_empty() { vec![nodes] } else { regions.clone() },
        network,
        workload,
        ordered: arguments.ordered,
        may_fail: arguments.may_fail,
        by: arguments.by.of_ranking(),
        entries: arguments.entries,
        runs: arguments.seeds.runs,
        seed: arguments.seeds.seed,
    })
}
