//! The arguments of `mutua check`.

use std::{fs, path::PathBuf};

use anyhow::Result;
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser},
};
use mutua_algorithms::{
    About, Claim, Kind, Links, NodeId, registry, repairs::ElectionName, self_stabilizing::Daemon,
};
use mutua_checker::{
    Detector, Faults, Invariant, Limits, MOST_PROCESSES, Reduction, Repair, System, Task, Timers,
    Walks, checkable,
};

use crate::{
    durations,
    exit::usage,
    names,
    repair::{RepairArgument, elections, repair_help},
    system::{self, SystemArguments},
};

/// The options that only the check of one system has.
const OF_ONE_SYSTEM: [&str; 28] = [
    "name",
    "nodes",
    "with",
    "topology",
    "quorums",
    "holder",
    "in_cs",
    "entries",
    "contenders",
    "links",
    "timers",
    "crashed",
    "crashes",
    "repair",
    "election",
    "detector",
    "restarts",
    "losses",
    "duplicates",
    "app_messages",
    "properties",
    "invariants",
    "stated_invariants",
    "reduction",
    "first",
    "walks",
    "states",
    "graph",
];

/// The limits of a search.
const LIMITS: [&str; 6] = ["max_states", "max_memory", "time", "depth", "delays", "threads"];

/// Model-check a small system: explore every interleaving of requests, deliveries, exits, timers
/// and faults.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Algorithm; `mutua algorithms` lists them.
    name: Option<String>,

    /// Check the whole table of small systems: the claims of each algorithm, the negative controls,
    /// and the repairs after a crash.
    #[arg(long, conflicts_with_all = OF_ONE_SYSTEM)]
    pub(crate) all: bool,

    /// With --all: check larger systems, which takes longer.
    #[arg(long, requires = "all")]
    pub(crate) deep: bool,

    #[command(flatten)]
    system: SystemArguments,

    /// Number of entries of each contender; in an election, of its starts.
    #[arg(long, value_name = "R", default_value_t = 1)]
    entries: u32,

    /// Processes that contend: their number, or their ids separated by commas [default: all].
    #[arg(long, value_name = "K|IDS")]
    contenders: Option<String>,

    /// Order of messages on links [default: as the algorithm requires].
    #[arg(long, value_parser = links())]
    links: Option<Links>,

    /// When timers expire: only while no message is in transit (bounded), or at any time.
    #[arg(long, default_value = "bounded")]
    timers: TimersArgument,

    /// Elections: processes that are crashed from the start.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    crashed: Vec<u32>,

    /// Number of processes that crash.
    #[arg(long, value_name = "K", default_value_t = 0)]
    crashes: u32,

    // The help lists the algorithms with a special repair, from the registry.
    #[arg(long, value_name = "REPAIR", default_value = "none", hide_possible_values = true,
          help = repair_help("Or generic-without-views, a negative control whose messages do not \
          name their view"))]
    repair: RepairArgument,

    /// Election of the repair's leader: bully, chang-roberts or invitation [default: bully].
    #[arg(long, value_name = "NAME", value_parser = elections(), hide_possible_values = true)]
    election: Option<ElectionName>,

    /// Failure detector of the repair: perfect (every crash and no other is reported, after any
    /// delay) or timeout (a process that is up may be reported too) [default: perfect].
    #[arg(long, value_name = "DETECTOR", hide_possible_values = true)]
    detector: Option<DetectorArgument>,

    /// Elections and repairs: number of crashed processes that restart.
    #[arg(long, value_name = "K", default_value_t = 0)]
    restarts: u32,

    /// Number of messages that are dropped.
    #[arg(long, value_name = "K", default_value_t = 0)]
    losses: u32,

    /// Number of messages that are duplicated.
    #[arg(long, value_name = "K", default_value_t = 0)]
    duplicates: u32,

    /// Number of messages that the application sends, where the ordering of requests is checked.
    #[arg(long, value_name = "K", default_value_t = 1)]
    app_messages: u32,

    /// Check this property instead of the claimed ones; may be given several times:
    /// mutual-exclusion, deadlock-free, liveness, ordering, bounded-bypass, fencing,
    /// convergence, agreement or termination.
    #[arg(long = "property", value_name = "NAME")]
    properties: Vec<String>,

    /// Check instead that this formula is true in every state; may be given several times.
    /// `NAME: FORMULA` gives it a name, @FILE reads one a line. --language describes formulas.
    #[arg(long = "invariant", value_name = "FORMULA", allow_hyphen_values = true)]
    invariants: Vec<String>,

    /// Check instead the invariants that the algorithm states; `mutua algorithms NAME` lists them.
    #[arg(long = "stated-invariants")]
    stated_invariants: bool,

    /// Print the language of --invariant.
    #[arg(long, conflicts_with_all = OF_ONE_SYSTEM, conflicts_with_all = LIMITS,
          conflicts_with_all = ["all", "counterexamples"])]
    pub(crate) language: bool,

    /// Merge symmetric states and skip orders of commuting steps, where that changes no verdict
    /// (all); do not (none); or search both ways and compare (both).
    #[arg(long, default_value = "all")]
    reduction: ReductionArgument,

    /// Stop each search at its first violation.
    #[arg(long)]
    first: bool,

    /// Stop each search after this many states. The limit is checked between batches, so that some
    /// thousand states more may be searched [default: no limit].
    #[arg(long, value_name = "COUNT")]
    max_states: Option<u64>,

    /// Stop each search when the program uses this much memory: 500M or 6G [default: no
    /// limit].
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_memory: Option<u64>,

    /// Stop each search after this time, such as 10m; a number alone is seconds [default: no
    /// limit].
    #[arg(long, value_name = "TIME", value_parser = durations::seconds)]
    time: Option<f64>,

    /// Explore only states within this many steps of the start [default: no limit; of a random
    /// walk: 1000].
    #[arg(long, value_name = "STEPS")]
    depth: Option<usize>,

    /// Explore only runs with at most this many delays. Without a delay the first step of a fixed
    /// order is taken (clients by id, then links by id); taking the next one instead costs a delay
    /// [default: no limit].
    #[arg(long, value_name = "COUNT", conflicts_with = "walks")]
    delays: Option<u32>,

    /// Instead of a search, run this many random walks with priorities; for large systems.
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["reduction", "first"],
          value_parser = system::positive)]
    walks: Option<u64>,

    /// Number of changes of priorities in a random walk.
    #[arg(long, value_name = "COUNT", default_value_t = 3, requires = "walks")]
    changes: u32,

    /// Seed of the random walks.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "walks")]
    seed: u64,

    /// Number of threads, 1 to 256 [default: the number of cores].
    #[arg(long, value_name = "COUNT",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    threads: Option<usize>,

    /// Write every counterexample to this directory: a script for `mutua replay` and a diagram.
    #[arg(long = "counterexample", value_name = "DIRECTORY")]
    pub(crate) counterexamples: Option<PathBuf>,

    /// Instead of checking, write the graph of all states to this file: .dot for Graphviz, of at
    /// most 50000 states, or a picture (.svg, .png, .pdf), of at most 400.
    #[arg(long, value_name = "FILE", conflicts_with_all = LIMITS, conflicts_with_all = [
        "properties", "invariants", "stated_invariants", "walks", "counterexamples", "json",
        "states", "first", "app_messages",
    ])]
    pub(crate) graph: Option<PathBuf>,

    /// Print the variables of a process beside each step of a counterexample.
    #[arg(long)]
    pub(crate) states: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// As many workers as there are cores.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Links by their names.
fn links() -> impl TypedValueParser<Value = Links> {
    let names = Links::ALL.iter().map(|links| links.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Links>())
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TimersArgument {
    Bounded,
    Any,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DetectorArgument {
    Perfect,
    Timeout,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReductionArgument {
    None,
    All,
    Both,
}

impl Arguments {
    /// The task that these arguments describe.
    pub(crate) fn task(&self) -> Result<Task> {
        let Some(name) = &self.name else {
            return Err(usage(
                "no algorithm: give its name (`mutua algorithms` lists them), or --all for the \
                 whole table",
            ));
        };
        let about = names::algorithm(name)?;
        let mut setup = self.system.setup(about.name, 3)?;
        setup.crashed = self.crashed.iter().copied().map(NodeId).collect();
        let mut system = System::new(setup, self.entries);
        system.contenders = self.contenders.as_deref().map(parse_contenders).transpose()?;
        system.links = self.links;
        system.timers = match self.timers {
            TimersArgument::Bounded => Timers::Bounded,
            TimersArgument::Any => Timers::Any,
        };
        system.faults = self.faults();
        system.app_messages = self.app_messages;
        system.repair = self.repair(about)?;
        self.check_contenders(&system)?;
        if self.restarts > 0 && self.crashes == 0 && self.crashed.is_empty() {
            return Err(usage(
                "--restarts needs --crashes K: no process crashes, so none restarts",
            ));
        }
        let none = system.contenders.as_ref().is_some_and(Vec::is_empty) || self.entries == 0;
        if none && self.restarts == 0 {
            return Err(usage("no process contends: give at least one contender and one entry"));
        }
        let invariants = self.judged(about)?;
        // As with --property, only what is asked for is checked.
        let nothing_else = (!invariants.is_empty()).then(Vec::new);
        Ok(Task {
            name: about.name.to_owned(),
            properties: self.chosen(about, &system)?.or(nothing_else),
            system,
            invariants,
            reduction: match self.reduction {
                ReductionArgument::None => Reduction::None,
                ReductionArgument::All | ReductionArgument::Both => Reduction::All,
            },
            limits: self.limits(Limits::default()),
            // With timers that expire at any time, messages can pile up without bound.
            first: self.first || matches!(self.timers, TimersArgument::Any),
            walks: self.walks.map(|runs| Walks {
                runs,
                steps: self.depth.unwrap_or(1000),
                changes: self.changes,
                seed: self.seed,
            }),
        })
    }

    /// Refuses ids that no process has, and one that is given twice.
    fn check_contenders(&self, system: &System) -> Result<()> {
        if let Some(&node) = system.contenders.iter().flatten().find(|n| n.0 >= system.setup.nodes)
        {
            let nodes = system.setup.nodes;
            let text = self.contenders.as_deref().unwrap_or_default();
            return Err(usage(match text.contains(',') {
                true => format!("unknown contender {node}: give ids from 0 to {}", nodes - 1),
                false => format!("{text} contenders, but {nodes} processes: give at most {nodes}"),
            }));
        }
        if let Some(ids) = &system.contenders
            && let Some(twice) = ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id))
        {
            return Err(usage(format!("contender {} is given twice", twice.1)));
        }
        Ok(())
    }

    /// The invariants that are asked for.
    fn judged(&self, about: &About) -> Result<Vec<Invariant>> {
        let mut invariants = Vec::new();
        if self.stated_invariants {
            if about.invariants.is_empty() {
                let name = about.name;
                return Err(usage(format!(
                    "{name} states no invariants: give --invariant FORMULA"
                )));
            }
            invariants = Invariant::stated(about);
        }
        for given in &self.invariants {
            let texts = match given.strip_prefix('@') {
                None => vec![given.clone()],
                Some(file) => {
                    let text = fs::read_to_string(file)
                        .map_err(|error| usage(format!("cannot read {file}: {error}")))?;
                    let lines = text.lines().map(str::trim);
                    let formulas = lines.filter(|it| !it.is_empty() && !it.starts_with('#'));
                    let formulas: Vec<_> = formulas.map(str::to_owned).collect();
                    if formulas.is_empty() {
                        // Otherwise only the claimed properties would be checked.
                        return Err(usage(format!("{file} has no formula: write one per line")));
                    }
                    formulas
                }
            };
            for text in texts {
                let number = format!("invariant {}", invariants.len() + 1);
                let read = Invariant::named(&text, &number);
                invariants.push(read.map_err(|error| usage(format!("`{text}`, {error}")))?);
            }
        }
        Ok(invariants)
    }

    /// The repair, or why there cannot be one like this.
    fn repair(&self, about: &About) -> Result<Option<Repair>> {
        if self.repair == RepairArgument::None {
            return match (self.election, self.detector) {
                (Some(_), _) => Err(usage("--election needs a repair: add --repair generic")),
                (None, Some(_)) => Err(usage("--detector needs a repair: add --repair generic")),
                (None, None) => Ok(None),
            };
        }
        if about.kind == Kind::Election {
            let names = registry::names_of(|about| about.kind == Kind::Mutex);
            let name = about.name;
            return Err(usage(format!("--repair does not apply to {name}; it applies to {names}")));
        }
        for (option, given) in
            [("--losses", self.losses > 0), ("--duplicates", self.duplicates > 0)]
        {
            if given {
                return Err(usage(format!(
                    "{option} does not go with --repair: a repair is checked with --crashes K and \
                     --restarts K"
                )));
            }
        }
        Ok(Some(Repair {
            special: self.repair == RepairArgument::Special,
            election: self.election.unwrap_or_default(),
            detector: match self.detector {
                None | Some(DetectorArgument::Perfect) => Detector::Perfect,
                Some(DetectorArgument::Timeout) => Detector::Timeout,
            },
            without_views: self.repair == RepairArgument::GenericWithoutViews,
        }))
    }

    /// Whether to search a second time without reductions.
    pub(crate) fn compares(&self) -> bool {
        matches!(self.reduction, ReductionArgument::Both)
    }

    fn faults(&self) -> Faults {
        Faults {
            crashes: self.crashes,
            restarts: self.restarts,
            losses: self.losses,
            duplicates: self.duplicates,
        }
    }

    /// The limits; `usual` where no option is given.
    pub(crate) fn limits(&self, usual: Limits) -> Limits {
        Limits {
            states: self.max_states.or(usual.states),
            bytes: self.max_memory.or(usual.bytes),
            seconds: self.time.or(usual.seconds),
            depth: self.depth.or(usual.depth),
            delays: self.delays.or(usual.delays),
            threads: self.threads.unwrap_or_else(cores),
            ..usual
        }
    }

    fn chosen(&self, about: &About, system: &System) -> Result<Option<Vec<Claim>>> {
        if self.properties.is_empty() {
            return Ok(None);
        }
        let mut known = checkable(about.kind).to_vec();
        if Daemon::of(about, &system.setup.settings).is_some() {
            known.push(Claim::Convergence);
        }
        if self.repair != RepairArgument::None {
            known.push(Claim::Agreement);
        }
        let find = |name: &String| {
            let found = known.iter().copied().find(|claim| claim.name() == name);
            found.ok_or_else(|| {
                names::unknown("property", name, known.iter().copied().map(Claim::name))
            })
        };
        self.properties.iter().map(find).collect::<Result<_>>().map(Some)
    }
}

/// `3`: processes 0, 1 and 2. `0,2`: those two. Of more processes than can be searched the first
/// will do for the refusal.
fn parse_contenders(text: &str) -> Result<Vec<NodeId>> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some([count]) if !text.contains(',') => {
            Ok((0..*count).take(MOST_PROCESSES + 1).map(NodeId).collect())
        }
        Some(ids) => Ok(ids.iter().copied().map(NodeId).collect()),
        None => Err(usage(format!(
            "invalid contenders `{text}`: give a number of processes, or ids such as 0,2"
        ))),
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, factor) = match text
        .trim_end_matches(['B', 'b', 'i'])
        .split_at_checked(text.trim_end_matches(['B', 'b', 'i']).len().saturating_sub(1))
    {
        Some((number, "K" | "k")) => (number, 1 << 10),
        Some((number, "M" | "m")) => (number, 1 << 20),
        Some((number, "G" | "g")) => (number, 1 << 30),
        _ => (text, 1),
    };
    let parsed = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    parsed.ok_or_else(|| format!("invalid number of bytes `{text}`: use for example 500M or 6G"))
}
