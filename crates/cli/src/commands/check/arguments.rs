//! What `mutua check` is asked.

use std::path::PathBuf;

use anyhow::Result;
use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use mutua_algorithms::{Claim, Kind, Links, NodeId};
use mutua_checker::{Faults, Limits, Reduction, System, Task, Timers, Walks, checkable};

use crate::{durations, exit::usage, names, system::SystemArguments};

/// Explore every interleaving of a small system: requests, deliveries, exits, timers, faults.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The algorithm.
    #[arg(required_unless_present = "all")]
    name: Option<String>,

    /// Go through the whole table of small systems: each algorithm, what it claims, what was
    /// found, and the negative controls.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,

    /// With --all: the larger systems, which take longer.
    #[arg(long, requires = "all")]
    pub(crate) deep: bool,

    #[command(flatten)]
    system: SystemArguments,

    /// How often each contender enters; in an election, how often each starts one.
    #[arg(long, value_name = "R", default_value_t = 1)]
    entries: u32,

    /// Who contends: a number of processes, or their ids with commas between.
    #[arg(long, value_name = "K|IDS")]
    contenders: Option<String>,

    /// What the links do; without it, what the algorithm asks for.
    #[arg(long, value_parser = links())]
    links: Option<Links>,

    /// When timers run out: only between messages, or at any time.
    #[arg(long, default_value = "bounded")]
    timers: TimersArgument,

    /// Who is down from the beginning. (Elections.)
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    crashed: Vec<u32>,

    /// How many processes crash.
    #[arg(long, value_name = "K", default_value_t = 0)]
    crashes: u32,

    /// How many come back after a crash. (Elections.)
    #[arg(long, value_name = "K", default_value_t = 0)]
    restarts: u32,

    /// How many messages are lost.
    #[arg(long, value_name = "K", default_value_t = 0)]
    losses: u32,

    /// How many messages arrive twice.
    #[arg(long, value_name = "K", default_value_t = 0)]
    duplicates: u32,

    /// How many messages the application sends, where the order of requests is looked at.
    #[arg(long, value_name = "K", default_value_t = 1)]
    tells: u32,

    /// Check this property instead of the usual ones; may be given several times.
    #[arg(long = "property", value_name = "NAME")]
    properties: Vec<String>,

    /// Merge states that cannot be told apart and leave out orders of steps that commute, where
    /// that changes no verdict; or do not; or search both ways, and compare.
    #[arg(long, default_value = "all")]
    reduction: ReductionArgument,

    /// Stop each search at its first violation.
    #[arg(long)]
    first: bool,

    /// Stop after so many states.
    #[arg(long, value_name = "COUNT")]
    max_states: Option<u64>,

    /// Stop when the program takes so many bytes; K, M and G may follow the number.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_memory: Option<u64>,

    /// Stop each search after so long: seconds, or with a unit, such as 10m.
    #[arg(long, value_name = "TIME", value_parser = durations::seconds)]
    time: Option<f64>,

    /// Look only at states within so many steps of the start.
    #[arg(long, value_name = "STEPS")]
    depth: Option<usize>,

    /// Look only at runs in which a step is put off at most so often. Without a delay the first
    /// step of a fixed order is taken (clients by their ids, then links by theirs); taking the next
    /// one instead costs one.
    #[arg(long, value_name = "COUNT", conflicts_with = "walks")]
    delays: Option<u32>,

    /// Do not search, but run so many times at random, by priorities; for systems that are too
    /// large.
    #[arg(long, value_name = "RUNS")]
    walks: Option<u64>,

    /// How often the priorities change in a random run.
    #[arg(long, value_name = "COUNT", default_value_t = 3, requires = "walks")]
    changes: u32,

    /// The seed of the random runs.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "walks")]
    seed: u64,

    /// Workers; without it, as many as there are cores.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,

    /// Write every counterexample there: as a script for `mutua replay`, and as a picture.
    #[arg(long = "counterexample", value_name = "DIRECTORY")]
    pub(crate) counterexamples: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
enum ReductionArgument {
    None,
    All,
    Both,
}

impl Arguments {
    /// The task that these arguments describe.
    pub(crate) fn task(&self) -> Result<Task> {
        let about = names::algorithm(self.name.as_deref().unwrap_or_default())?;
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
        system.tells = self.tells;
        if let Some(&node) = system.contenders.iter().flatten().find(|n| n.0 >= system.setup.nodes)
        {
            let highest = system.setup.nodes.saturating_sub(1);
            return Err(usage(format!(
                "process {node} cannot contend; the processes are 0 to {highest}"
            )));
        }
        let nobody = system.contenders.as_ref().is_some_and(Vec::is_empty) || self.entries == 0;
        if nobody && self.restarts == 0 {
            return Err(usage(
                "nobody contends, so nothing can go wrong; at least one contender and one entry",
            ));
        }
        Ok(Task {
            name: about.name.to_owned(),
            system,
            properties: self.chosen(about.kind)?,
            reduction: match self.reduction {
                ReductionArgument::None => Reduction::None,
                ReductionArgument::All | ReductionArgument::Both => Reduction::All,
            },
            limits: self.limits(Limits::default()),
            // With timers that run out at any time, messages can pile up for ever.
            first: self.first || matches!(self.timers, TimersArgument::Any),
            walks: self.walks.map(|runs| Walks {
                runs,
                steps: self.depth.unwrap_or(1000),
                changes: self.changes,
                seed: self.seed,
            }),
        })
    }

    /// Whether to search a second time with nothing merged or left out.
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

    /// How far to go, where nothing else is asked for: as far as this.
    pub(crate) fn limits(&self, usual: Limits) -> Limits {
        Limits {
            states: self.max_states.or(usual.states),
            bytes: self.max_memory.or(usual.bytes),
            seconds: self.time.or(usual.seconds),
            depth: self.depth.or(usual.depth),
            delays: self.delays.or(usual.delays),
            threads: self.threads.unwrap_or(usual.threads),
            ..usual
        }
    }

    fn chosen(&self, kind: Kind) -> Result<Option<Vec<Claim>>> {
        if self.properties.is_empty() {
            return Ok(None);
        }
        let known = checkable(kind);
        let find = |name: &String| {
            let found = known.iter().copied().find(|claim| claim.name() == name);
            found.ok_or_else(|| {
                names::unknown("property", name, known.iter().copied().map(Claim::name))
            })
        };
        self.properties.iter().map(find).collect::<Result<_>>().map(Some)
    }
}

/// `3`: processes 0, 1 and 2. `0,2`: those two.
fn parse_contenders(text: &str) -> Result<Vec<NodeId>> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some([count]) if !text.contains(',') => Ok((0..*count).map(NodeId).collect()),
        Some(ids) => Ok(ids.iter().copied().map(NodeId).collect()),
        None => Err(usage(format!(
            "contenders are a number of processes or ids such as 0,2, not `{text}`"
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
    parsed.ok_or_else(|| format!("`{text}` is no number of bytes such as 500M or 6G"))
}
