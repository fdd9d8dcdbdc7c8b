//! `mutua simulate`: one algorithm in one situation, beside what theory says.

mod daemon;
mod election;
mod merge;
mod outcome;
mod recording;
mod replay;
mod run;
mod show;
mod unfit;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use mutua_algorithms::{About, Claim, Kind};
use mutua_simulator::{Distribution, Latency, Load, Plan, TheoryLoad, Who, Workload};

use self::outcome::Outcome;
use crate::{
    durations,
    exit::usage,
    names,
    network::NetworkArguments,
    size,
    system::{self, SystemArguments},
    workload::WorkloadArguments,
};

/// Simulate one algorithm and compare with theory.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The algorithm; `mutua algorithms` lists them.
    name: String,

    #[command(flatten)]
    system: SystemArguments,

    #[command(flatten)]
    workload: WorkloadArguments,

    #[command(flatten)]
    network: NetworkArguments,

    /// How many entries to measure; by default 10000, or all that are written down.
    #[arg(long, value_name = "E", allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: Option<u64>,

    /// How many entries to let pass first; by default enough for the system to settle, or as many
    /// as 20 million events bring. A picture shows them too: give 0 to see what is measured.
    #[arg(long, value_name = "E", allow_hyphen_values = true,
          value_parser = system::whole)]
    warm_up: Option<u64>,

    /// Where all randomness comes from.
    #[arg(long, value_name = "S", default_value_t = 1, allow_hyphen_values = true,
          value_parser = system::whole)]
    seed: u64,

    /// Repeat with so many seeds, from --seed on, and give 95 % confidence intervals.
    #[arg(long, value_name = "R", default_value_t = 1, allow_hyphen_values = true,
          value_parser = system::positive)]
    runs: u64,

    /// Let every process tell another one something, so long after the last time: messages of the
    /// application, of which the order of requests (EM3) speaks too.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    tells: Option<Distribution>,

    /// Look for requests that are granted out of order (EM3), even where it is not claimed; what is
    /// found is then listed apart and is no violation.
    #[arg(long)]
    order: bool,

    /// Judge this property too, claimed or not: ordering, bounded-bypass. May be given several
    /// times.
    #[arg(long = "property", value_name = "NAME")]
    properties: Vec<String>,

    /// Write what happens to this file, an event a line; of several runs, that of the first seed.
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,

    /// Draw what happens from the beginning on as a space-time picture, an SVG file.
    #[arg(long, value_name = "FILE")]
    diagram: Option<String>,

    /// If something is violated: cut the run to a short one that violates the same. A trace or a
    /// picture is then of the short one.
    #[arg(long)]
    shrink: bool,

    /// With --json: the figures of every process too.
    #[arg(long, requires = "json")]
    per_node: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Elections: who starts one, as 0,3 or all; by default process 0, or the lowest that is up.
    #[arg(long, value_name = "IDS")]
    starters: Option<String>,

    /// Elections: who is down from the beginning.
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = system::number)]
    crashed: Vec<u32>,

    /// Elections: the longest transmission that processes reckon with; by default one that holds.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    transmission: Option<u64>,

    /// Elections: the longest handling of a message that processes reckon with.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    handling: Option<u64>,

    /// Chang-Roberts: how ids stand round the ring: ascending, descending (the worst case when all
    /// start), random (by the seed), or a list as 2,0,1.
    #[arg(long, value_name = "ORDER")]
    ring: Option<String>,

    /// Dijkstra's ring under a daemon (--with daemon=central, distributed or synchronous): the
    /// flags at the start, as 0,1,0,1; drawn by the seed if none are given. By messages the ring
    /// starts legitimate.
    #[arg(long, value_name = "FLAGS", value_delimiter = ',', value_parser = system::number)]
    flags: Option<Vec<u32>>,

    /// Dijkstra's ring under a daemon: not settled after so many steps is a violation of
    /// convergence; by default after 1000 + 10 N^2.
    #[arg(long, value_name = "S", allow_hyphen_values = true,
          value_parser = system::whole)]
    max_steps: Option<u64>,
}

/// So many processes, if nobody says how many.
const NODES: u32 = 10;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let about = names::algorithm(&arguments.name)?;
    match about.kind {
        Kind::Mutex if daemon::is_asked_for(arguments, about)? => daemon::run(arguments, about),
        Kind::Mutex => mutex(arguments, about),
        Kind::Election => election::run(arguments, about),
    }
}

fn mutex(arguments: &Arguments, about: &'static About) -> Result<ExitCode> {
    unfit::refuse(arguments, about, unfit::Run::Mutex)?;
    size::check(about, &arguments.system.setup(&arguments.name, NODES)?)?;
    let plan = plan(arguments)?;
    let outcome = run::all_seeds(arguments, about, &plan)?;
    let failed = outcome.failed_seed().map(|seed| Plan { seed, ..plan.clone() });
    let short = match &failed {
        Some(failed) if arguments.shrink => replay::short(arguments, failed),
        Some(_) | None => None,
    };
    if arguments.shrink {
        let shown = short.as_ref().map_or(failed.as_ref().unwrap_or(&plan), |short| &short.plan);
        run::record(arguments, about, shown, short.as_ref())?;
    }
    if arguments.json {
        let situation = show::situation(&plan, about, &outcome);
        let json = outcome.json(arguments.per_node, situation, short.as_ref());
        println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print!("{}", show::summary(about, &plan, &outcome));
    }
    let Some(failed) = failed else { return Ok(ExitCode::SUCCESS) };
    replay::tell(failed.seed);
    if arguments.shrink {
        replay::tell_short(short.as_ref());
    }
    Ok(ExitCode::FAILURE)
}

fn plan(arguments: &Arguments) -> Result<Plan> {
    let setup = arguments.system.setup(&arguments.name, NODES)?;
    if setup.nodes == 0 {
        return Err(usage("a system of 0 processes; give at least 1"));
    }
    let network = arguments.network.network(setup.nodes)?;
    let workload = arguments.workload.workload(setup.nodes, network.mean_latency())?;
    let entries = arguments.entries.unwrap_or(match &workload.load {
        Load::Script(wishes) => wishes.len() as u64,
        Load::Light { .. } | Load::Saturated | Load::Think(_) | Load::Bursts { .. } => 10_000,
    });
    let mut plan = Plan::new(setup, network, workload, entries);
    plan.warm_up = arguments.warm_up;
    plan.seed = arguments.seed;
    plan.ordering = arguments.order.then_some(true);
    plan.tells = arguments.tells;
    plan.judged = judged(arguments)?;
    Ok(plan)
}

/// What is judged although not every algorithm claims it; the rest always is.
const JUDGED: [Claim; 2] = [Claim::Ordering, Claim::BoundedBypass];

fn judged(arguments: &Arguments) -> Result<Vec<Claim>> {
    let find = |name: &String| {
        let found = JUDGED.into_iter().find(|claim| claim.name() == name);
        found.ok_or_else(|| names::unknown("property to choose", name, JUDGED.map(Claim::name)))
    };
    arguments.properties.iter().map(find).collect()
}

/// The load of which theory speaks, or why it speaks of none.
fn theory_load(plan: &Plan) -> Result<TheoryLoad, &'static str> {
    let faultless = plan.network.loss == 0.0
        && plan.network.duplication == 0.0
        && plan.network.partitions.is_empty()
        && plan.network.outages.is_empty();
    let load = match plan.workload.load {
        Load::Light { .. } => TheoryLoad::Light,
        Load::Saturated => TheoryLoad::Saturated,
        Load::Think(_) | Load::Bursts { .. } | Load::Script(_) => {
            return Err("it speaks of light and saturated load only");
        }
    };
    let latency = plan.network.mean_latency();
    let steady = matches!(plan.network.latency, Latency::Everywhere(Distribution::Constant(_)));
    let short = plan.workload.hold.mean() < latency / 2.0;
    let usual = Workload::light(plan.setup.nodes, latency, plan.workload.hold).load;
    if !faultless {
        Err("it speaks of networks and processes without faults")
    } else if plan.workload.who != Who::All {
        Err("it lets all processes ask alike")
    } else if latency == 0.0 {
        Err("delays are in units of the latency, which is 0")
    } else if !steady {
        Err("it needs a constant latency, the same everywhere")
    } else if plan.network.pace > 0 {
        Err("it lets tokens and reads go on at once, without a pace")
    } else if mean_gap(&plan.workload.load) < mean_gap(&usual) {
        Err("at light load it needs a gap of 10 N times the latency, so that all comes to rest")
    } else if load == TheoryLoad::Saturated && short {
        Err("saturated, it needs a stay inside of at least T/2")
    } else {
        Ok(load)
    }
}

/// How long nobody asks at light load, on average.
fn mean_gap(load: &Load) -> f64 {
    match load {
        Load::Light { gap } => gap.mean(),
        Load::Saturated | Load::Think(_) | Load::Bursts { .. } | Load::Script(_) => f64::INFINITY,
    }
}
