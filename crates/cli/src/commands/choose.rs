//! `mutua choose`: which algorithm to take, by simulating the situation with each.

mod candidates;
mod rank;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use mutua_simulator::{Distribution, Load, Network, Who, Workload};

use self::{candidates::Candidate, rank::Ranking};
use crate::{durations, exit::usage, network::NetworkArguments, seeds::SeedArguments, system};

/// Describe a situation and be told which algorithm to take.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// How many processes contend.
    #[arg(long, value_name = "N", default_value_t = 10, allow_hyphen_values = true,
          value_parser = system::count)]
    nodes: u32,

    #[command(flatten)]
    network: NetworkArguments,

    /// How long a client rests between leaving and asking again.
    #[arg(long, value_name = "TIME", default_value = "exp:100ms", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    rest: Distribution,

    /// How long a client stays inside.
    #[arg(long, value_name = "TIME", default_value = "1ms", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    hold: Distribution,

    /// Only the first K ask.
    #[arg(long, value_name = "K", allow_hyphen_values = true, value_parser = system::number)]
    hot: Option<u32>,

    /// Requests must be granted in the order in which they happened (EM3).
    #[arg(long)]
    ordered: bool,

    /// A process may fail: rank those first that go on without most of them.
    #[arg(long)]
    may_fail: bool,

    /// What counts most.
    #[arg(long, value_enum, default_value_t = By::Wait)]
    by: By,

    /// How many entries each run measures.
    #[arg(long, value_name = "E", default_value_t = 4000, allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: u64,

    #[command(flatten)]
    seeds: SeedArguments,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a ranking goes by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum By {
    /// The mean time from request to entry.
    Wait,
    /// The time from request to entry that one in a hundred exceeds.
    Tail,
    /// Messages per entry.
    Messages,
    /// Messages between regions per entry.
    Far,
}

/// What is simulated with every candidate.
struct Situation {
    nodes: u32,
    /// The sizes of the regions; one of all if there are none.
    regions: Vec<u32>,
    network: Network,
    workload: Workload,
    ordered: bool,
    may_fail: bool,
    by: By,
    entries: u64,
    runs: u64,
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let situation = Situation::new(arguments)?;
    let (candidates, excluded) = candidates::all(&situation);
    if candidates.is_empty() {
        return Err(usage("no algorithm fits; ask for less than --ordered on links that reorder"));
    }
    let ranking = Ranking::new(&situation, candidates, excluded)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&ranking)?);
    } else {
        print!("{}", words::all(&situation, &ranking));
    }
    Ok(ExitCode::SUCCESS)
}

impl Situation {
    fn new(arguments: &Arguments) -> Result<Self> {
        let nodes = arguments.nodes;
        let network = arguments.network.network(nodes)?;
        let who = arguments.hot.map_or(Who::All, Who::Hot);
        let workload = Workload { load: Load::Think(arguments.rest), who, hold: arguments.hold };
        if let Some(fault) = network.fault(nodes).or_else(|| workload.fault(nodes)) {
            return Err(usage(fault));
        }
        let regions = &arguments.network.regions;
        Ok(Self {
            nodes,
            regions: if regions.is_empty() { vec![nodes] } else { regions.clone() },
            network,
            workload,
            ordered: arguments.ordered,
            may_fail: arguments.may_fail,
            by: arguments.by,
            entries: arguments.entries,
            runs: arguments.seeds.runs,
            seed: arguments.seeds.seed,
        })
    }

    /// The first process of every region.
    fn hubs(&self) -> Vec<u32> {
        let mut first = 0;
        let starts = self.regions.iter().map(|size| {
            let start = first;
            first += size;
            start
        });
        starts.collect()
    }

    fn has_regions(&self) -> bool {
        self.regions.len() > 1
    }
}

impl Candidate {
    /// The command that shows this candidate alone.
    fn title(&self) -> String {
        match self.variant.as_str() {
            "" => self.about.name.to_owned(),
            variant => format!("{} ({variant})", self.about.name),
        }
    }
}
