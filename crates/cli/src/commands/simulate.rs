//! `mutua simulate`: one algorithm in one situation, beside the theory.

mod against;
mod daemon;
mod election;
mod kept;
mod merge;
mod outcome;
mod recording;
mod repair;
mod replay;
mod run;
mod show;
mod unfit;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use mutua_algorithms::{About, Claim, Kind, Setup, repairs::ElectionName};
use mutua_simulator::{
    Detector, Distribution, Latency, Load, Plan, Sections, TheoryLoad, Who, Workload,
};

use self::outcome::Outcome;
use crate::{
    durations,
    exit::{INCOMPLETE, usage},
    memory, names,
    network::NetworkArguments,
    picture::PictureArguments,
    repair::{RepairArgument, detector, elections, repair_help, simulated},
    size,
    system::{self, SystemArguments},
    workload::WorkloadArguments,
};

/// Simulate an algorithm, and compare the measures with theory.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Algorithm; `mutua algorithms` lists them.
    name: String,

    #[command(flatten)]
    system: SystemArguments,

    #[command(flatten)]
    workload: WorkloadArguments,

    /// Number of critical sections: each process requests one at a time, drawn for each request
    /// uniformly, or with :zipf:S by rank, as in 8:zipf:1. Messages of one never touch another
    /// [default: 1].
    #[arg(long, value_name = "K", allow_hyphen_values = true, value_parser = sections)]
    sections: Option<Sections>,

    #[command(flatten)]
    network: NetworkArguments,

    // The help lists the algorithms with a special repair, from the registry.
    #[arg(long, value_name = "REPAIR", value_parser = simulated, help = repair_help(
        "Use --load saturated to see how waiting requests are repaired: at light load, mostly no \
         process waits. [default: none, or generic with --election, --detector or a crash by part]",
    ))]
    repair: Option<RepairArgument>,

    /// Election of the repair's leader: bully, chang-roberts or invitation [default: bully].
    #[arg(long, value_name = "NAME", value_parser = elections(), hide_possible_values = true)]
    election: Option<ElectionName>,

    /// Failure detector of the repair: perfect:DELAY reports every crash and restart, and nothing
    /// else, after this time; timeout:TIME lets every process send every other one a heartbeat each
    /// TIME/2, reports a process whose heartbeats are missing for TIME, and can be wrong [default:
    /// perfect, with 5 mean latencies].
    #[arg(long, value_name = "DETECTOR", value_parser = detector)]
    detector: Option<Detector>,

    /// Number of entries to measure [default: 10000, or all requests of a list]. Bursts are
    /// measured whole: the run goes on to the end of the last one.
    #[arg(long, value_name = "E", allow_hyphen_values = true,
          value_parser = system::positive)]
    entries: Option<u64>,

    /// Number of entries of the warm-up [default: until the system is in a steady state, at most 20
    /// million events; figures of a run that has not settled are marked]. A diagram shows the
    /// beginning of the run, with as many entries as are measured (use 0 to draw just those); with
    /// a repair, from shortly before the first crash to shortly after the first entry that follows
    /// the last repair. --steps shows another part.
    #[arg(long, value_name = "E", allow_hyphen_values = true,
          value_parser = system::whole)]
    warm_up: Option<u64>,

    /// Seed of all random numbers.
    #[arg(long, value_name = "S", default_value_t = 1, allow_hyphen_values = true,
          value_parser = system::whole)]
    seed: u64,

    /// Number of runs, with consecutive seeds from --seed on, for 95 % confidence intervals
    /// [default: 1].
    #[arg(long, value_name = "R", allow_hyphen_values = true, value_parser = system::runs)]
    runs: Option<u64>,

    /// Run further seeds until the 95 % intervals of messages per entry, waiting time and entries
    /// per second are at most this wide on either side, as in 1%, up to 50%; at least 5 runs, at
    /// most 10000.
    #[arg(long, value_name = "PERCENT", conflicts_with = "runs", value_parser = percent)]
    precision: Option<f64>,

    /// Simulate this algorithm too, with the same seeds, and print the differences with their 95 %
    /// intervals over the pairs; 10 pairs, unless --runs gives another number.
    #[arg(long, value_name = "ALGORITHM",
          conflicts_with_all = ["precision", "trace", "diagram", "shrink", "per_node"])]
    against: Option<String>,

    /// Let every process send a message of the application to another after this time, again and
    /// again: they count for the ordering of requests.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    app_messages: Option<Distribution>,

    /// Check the ordering of requests even where it is not claimed; it is then reported
    /// separately and does not count as a violation.
    #[arg(long)]
    order: bool,

    /// Check this property even where it is not claimed, and count violations: ordering or
    /// bounded-bypass; may be given several times.
    #[arg(long = "property", value_name = "NAME")]
    properties: Vec<String>,

    /// Write a trace to this file, one event per line; of several runs, that of the first seed.
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,

    #[command(flatten)]
    picture: PictureArguments,

    /// If a property is violated, shrink the run to a short one that violates it too. A trace or
    /// diagram then shows the short one.
    #[arg(long)]
    shrink: bool,

    /// With --json: include the measures of every process.
    #[arg(long, requires = "json")]
    per_node: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Elections: processes that start one, as in 0,3 or all [default: the lowest that is up].
    #[arg(long, value_name = "IDS")]
    starters: Option<String>,

    /// Elections: processes that are crashed from the start.
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = system::number)]
    crashed: Vec<u32>,

    /// Elections: maximal transmission time that processes assume [default: one that holds].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    transmission: Option<u64>,

    /// Elections: maximal processing time of a message that processes assume [default: a tenth of
    /// the mean latency].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    handling: Option<u64>,

    /// Chang-Roberts: order of ids around the ring: ascending, descending (the worst case when all
    /// start), random (by the seed), or a list such as 2,0,1.
    #[arg(long, value_name = "ORDER")]
    ring: Option<String>,

    /// Dijkstra's ring under a daemon (--with daemon=central, distributed or synchronous): the
    /// flags at the start, as in 0,1,0,1 [default: random, by the seed]. With daemon=messages the
    /// ring starts in a legitimate state.
    #[arg(long, value_name = "FLAGS", value_delimiter = ',', value_parser = system::number)]
    flags: Option<Vec<u32>>,

    /// Dijkstra's ring under a daemon: maximal number of steps until the ring is legitimate; more
    /// violate convergence [default: 1000 + 10 N^2].
    #[arg(long, value_name = "S", allow_hyphen_values = true,
          value_parser = system::whole)]
    max_steps: Option<u64>,
}

impl Arguments {
    fn runs(&self) -> u64 {
        self.runs.unwrap_or(1)
    }
}

/// The default number of processes.
const NODES: u32 = 10;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let about = names::algorithm(&arguments.name)?;
    match about.kind {
        Kind::Mutex if daemon::is_selected(arguments, about)? => daemon::run(arguments, about),
        Kind::Mutex if repair::is_selected(arguments) && arguments.workload.is_open() => {
            Err(usage("--load poisson is not supported with a repair: use think:TIME"))
        }
        Kind::Mutex if repair::is_selected(arguments) && arguments.precision.is_some() => {
            Err(usage("--precision is not supported with a repair"))
        }
        Kind::Mutex if repair::is_selected(arguments) && arguments.against.is_some() => {
            Err(usage("--against is not supported with a repair"))
        }
        Kind::Mutex if repair::is_selected(arguments) => repair::run(arguments, about),
        Kind::Mutex => mutex(arguments, about),
        Kind::Election => election::run(arguments, about),
    }
}

fn mutex(arguments: &Arguments, about: &'static About) -> Result<ExitCode> {
    unfit::refuse(arguments, about, unfit::Run::Mutex)?;
    repair::refuse_without(arguments)?;
    if let Some(other) = &arguments.against {
        let other = names::algorithm(other)?;
        if other.kind != Kind::Mutex {
            return Err(usage(format!(
                "--against {}: not a mutual exclusion algorithm",
                other.name
            )));
        }
        return against::run(arguments, about, other);
    }
    let plan = plan(arguments)?;
    let outcome = run::all_seeds(arguments, about, &plan, arguments.runs())?;
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
        print!("{}", show::summary(about, &plan, &outcome, arguments.precision));
    }
    let Some(failed) = failed else {
        let reached = arguments.precision.is_none_or(|precision| outcome.is_within(precision));
        return Ok(if reached { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) });
    };
    replay::print_command(failed.seed);
    if arguments.shrink {
        replay::print_short(short.as_ref());
    }
    Ok(ExitCode::FAILURE)
}

/// Refuses a system that does not fit into the memory that the machine has available.
fn refuse_large(about: &About, setup: &Setup, run: size::Run) -> Result<()> {
    size::check(about, setup, run, memory::available()).map_err(|large| usage(large.to_string()))
}

fn plan(arguments: &Arguments) -> Result<Plan> {
    plan_of(arguments, &arguments.name)
}

/// The run of the algorithm of this name.
fn plan_of(arguments: &Arguments, name: &str) -> Result<Plan> {
    let about = names::algorithm(name)?;
    let setup = arguments.system.setup(name, NODES)?;
    if setup.nodes == 0 {
        return Err(usage("--nodes must be at least 1"));
    }
    // Latencies of every process take memory too.
    refuse_large(about, &setup, size::Run::LIGHT)?;
    let network = arguments.network.network(setup.nodes)?;
    let workload = arguments.workload.workload(setup.nodes, network.mean_latency())?;
    let entries = arguments.entries.unwrap_or(match &workload.load {
        Load::Script(requests) => requests.len() as u64,
        Load::Light { .. }
        | Load::Saturated
        | Load::Think(_)
        | Load::Poisson { .. }
        | Load::Bursts { .. } => 10_000,
    });
    let mut plan = Plan::new(setup, network, workload, entries);
    plan.warm_up = arguments.warm_up;
    plan.seed = arguments.seed;
    plan.ordering = arguments.order.then_some(true);
    plan.app_messages = arguments.app_messages;
    plan.judged = judged(arguments)?;
    plan.sections = arguments.sections.unwrap_or(Sections::ONE);
    if plan.sections.count > 1 && arguments.shrink {
        return Err(usage("--shrink does not go with several critical sections: leave it out"));
    }
    refuse_large(about, &plan.setup, size::Run::of(&plan))?;
    Ok(plan)
}

/// Reads a number of critical sections, such as 8 or 8:zipf:1.
fn sections(text: &str) -> Result<Sections, String> {
    let (count, law) = text.split_once(':').unwrap_or((text, ""));
    let exponent = match law.split_once(':').unwrap_or((law, "")) {
        ("" | "uniform", "") => Some(0.0),
        ("zipf", exponent) => exponent.parse().ok(),
        _ => None,
    };
    let count = count.parse().ok().filter(|&count| count > 0);
    let parsed = count.zip(exponent).map(|(count, exponent)| Sections { count, exponent });
    parsed.ok_or_else(|| "give a number of sections, or 8:zipf:1 to draw them by rank".to_owned())
}

/// Reads a share such as 1%.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let valid = |percent: &f64| *percent > 0.0 && *percent <= 50.0;
    let share = number.filter(valid).map(|percent| percent / 100.0);
    share.ok_or_else(|| "give a percentage above 0 and up to 50, as in 1%".to_owned())
}

/// The properties that are checked only where claimed or requested; the others always are.
const JUDGED: [Claim; 2] = [Claim::Ordering, Claim::BoundedBypass];

fn judged(arguments: &Arguments) -> Result<Vec<Claim>> {
    let find = |name: &String| {
        let found = JUDGED.into_iter().find(|claim| claim.name() == name);
        found.ok_or_else(|| names::unknown("property", name, JUDGED.map(Claim::name)))
    };
    arguments.properties.iter().map(find).collect()
}

/// The load for which there is a theory, or why there is none.
fn theory_load(plan: &Plan) -> Result<TheoryLoad, &'static str> {
    let faultless = plan.network.loss == 0.0
        && plan.network.duplication == 0.0
        && plan.network.partitions.is_empty()
        && plan.network.outages.is_empty();
    let load = match plan.workload.load {
        Load::Light { .. } => TheoryLoad::Light,
        Load::Saturated => TheoryLoad::Saturated,
        Load::Think(_) | Load::Poisson { .. } | Load::Bursts { .. } | Load::Script(_) => {
            return Err("it covers light and saturated load only");
        }
    };
    let latency = plan.network.mean_latency();
    let steady = matches!(plan.network.latency, Latency::Everywhere(Distribution::Constant(_)));
    let short = plan.workload.hold.mean() < latency / 2.0;
    let usual = Workload::light(plan.setup.nodes, latency, plan.workload.hold).load;
    if plan.sections.count > 1 {
        Err("it covers one critical section only")
    } else if !faultless {
        Err("it covers networks and processes without faults only")
    } else if plan.workload.who != Who::All {
        Err("it assumes that all processes request alike")
    } else if latency == 0.0 {
        Err("delays are multiples of the latency, which is 0")
    } else if !steady {
        Err("it assumes a constant latency, the same on all links")
    } else if !plan.network.fifo {
        Err("it assumes links that keep the order of messages (--reorder varies the latencies)")
    } else if plan.network.pace > 0 {
        Err("it assumes that lazy messages have no additional delay (--pace)")
    } else if mean_gap(&plan.workload.load) < mean_gap(&usual) {
        Err("at light load it assumes a gap of at least 10 N times the latency")
    } else if load == TheoryLoad::Saturated && short {
        Err("at saturated load it assumes a hold time of at least T/2")
    } else {
        Ok(load)
    }
}

/// The mean gap between an exit and the next request at light load.
fn mean_gap(load: &Load) -> f64 {
    match load {
        Load::Light { gap } => gap.mean(),
        Load::Saturated
        | Load::Think(_)
        | Load::Poisson { .. }
        | Load::Bursts { .. }
        | Load::Script(_) => f64::INFINITY,
    }
}
