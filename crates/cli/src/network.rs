//! The arguments that describe a network, the same in every command that simulates.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::NodeId;
use mutua_simulator::{
    ChosenCrash, Distribution, Latency, Network, Outage, Partition, Regions, Victim,
};

use crate::{durations, exit::usage, lines, system::duration};

/// Latency and faults.
#[derive(Args, Clone, Debug)]
pub(crate) struct NetworkArguments {
    /// Latency of a message: 1ms (the default), uniform:1ms..3ms, exp:1ms, lognormal:1ms,0.5,
    /// percentiles:0=1ms/50=2ms/99=5ms/100=9ms, or file:FILE with measured latencies, one a line,
    /// or with lines such as `99 5ms` for percentiles. A number alone is seconds, here and in all
    /// times.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = latency)]
    pub(crate) latency: Option<Distribution>,

    /// Divide the processes into regions of these sizes, as in 3,3,4 of 10 processes, with the
    /// latencies between them by --wan or --matrix; --latency applies within a region.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) regions: Vec<u32>,

    /// Latency of a message between regions, written as --latency.
    #[arg(long, value_name = "TIME", requires = "regions", allow_hyphen_values = true,
          value_parser = latency)]
    pub(crate) wan: Option<Distribution>,

    /// Read latencies from a file: one line per process, or per region with --regions.
    #[arg(long, value_name = "FILE", conflicts_with = "wan")]
    pub(crate) matrix: Option<String>,

    /// Let links reorder messages. A constant latency T then varies up to 2T.
    #[arg(long)]
    pub(crate) reorder: bool,

    /// Additional delay of lazy messages: an idle token, the next read of a polled variable.
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    pub(crate) pace: u64,

    /// Share of messages that are dropped, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) loss: f64,

    /// Share of messages that are duplicated, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) duplication: f64,

    /// Partition some processes from the others for a time: 10ms..20ms:0,1.
    #[arg(long, value_name = "FROM..UNTIL:IDS", value_parser = partition)]
    pub(crate) partition: Vec<Partition>,

    /// Crash a process, and optionally restart it: 2@10ms or 2@10ms..20ms; a time without a unit
    /// is in seconds, as everywhere. `simulate` with a repair also takes a part for the id, and
    /// crashes the first process that has it from then on: coordinator; holder (in the critical
    /// section); token (has the token, in the critical section or idle); quorum-member (the lowest
    /// other process of the quorum of the process in the critical section, or else of the lowest
    /// that waits). The output names the process and the time.
    #[arg(long, value_name = "ID@FROM[..UNTIL]", value_parser = crash,
          allow_hyphen_values = true)]
    pub(crate) crash: Vec<CrashArgument>,
}

/// Reads a distribution of latencies, from a file too.
fn latency(text: &str) -> Result<Distribution, String> {
    let Some(file) = text.strip_prefix("file:") else {
        return durations::distribution(text).map_err(|error| error.to_string());
    };
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read the latencies from `{file}`: {error}"))?;
    let items: Vec<_> = lines::items(&text).map(|(_, line)| line).collect();
    durations::measured(&items).map_err(|error| format!("{file}: {error}"))
}

/// A crash of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CrashArgument {
    /// By its id.
    Of(Outage),
    /// By its part, when the time has come.
    Chosen(ChosenCrash),
}

impl NetworkArguments {
    /// The network that these arguments describe, for so many processes.
    pub(crate) fn network(&self, nodes: u32) -> Result<Network> {
        let mut network = Network::new(self.latency());
        if let Some(regions) = self.latencies(nodes)? {
            network.latency = Latency::Regions(regions);
        }
        network.fifo = !self.reorder;
        network.pace = self.pace;
        network.loss = self.loss;
        network.duplication = self.duplication;
        network.partitions.clone_from(&self.partition);
        network.outages = self.crash.iter().filter_map(CrashArgument::outage).collect();
        refuse_overlaps(&network.outages)?;
        Ok(network)
    }

    /// The crashes of processes that are chosen by their part.
    pub(crate) fn chosen_crashes(&self) -> Vec<ChosenCrash> {
        let chosen = |crash: &CrashArgument| match crash {
            CrashArgument::Of(_) => None,
            CrashArgument::Chosen(crash) => Some(*crash),
        };
        self.crash.iter().filter_map(chosen).collect()
    }

    /// Refuses crashes of processes that are chosen by their part.
    pub(crate) fn refuse_chosen_crashes(&self, why: &str) -> Result<()> {
        match self.chosen_crashes().first() {
            None => Ok(()),
            Some(crash) => Err(usage(format!(
                "--crash {}@... {why}: name the process by its id, as in 2@10ms",
                crash.victim
            ))),
        }
    }

    fn latency(&self) -> Distribution {
        self.latency.unwrap_or(Distribution::Constant(1_000_000))
    }

    fn latencies(&self, nodes: u32) -> Result<Option<Regions>> {
        if self.regions.is_empty() && self.matrix.is_none() {
            return Ok(None);
        }
        let sizes =
            if self.regions.is_empty() { vec![1; nodes as usize] } else { self.regions.clone() };
        let total: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        if total != u64::from(nodes) {
            return Err(usage(format!(
                "--regions add up to {total} processes: give sizes for {nodes}"
            )));
        }
        let between = match (&self.matrix, self.wan) {
            (Some(file), _) => {
                let what = if self.regions.is_empty() { "processes" } else { "regions" };
                matrix(file, sizes.len(), what)?
            }
            (None, Some(wan)) => within_and_between(sizes.len(), self.latency(), wan),
            (None, None) => return Err(usage("--regions needs --wan or --matrix")),
        };
        Regions::new(&sizes, between).map(Some).map_err(|error| usage(error.to_string()))
    }
}

fn within_and_between(count: usize, lan: Distribution, wan: Distribution) -> Vec<Distribution> {
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| from == to));
    pairs.map(|same| if same { lan } else { wan }).collect()
}

/// Reads a line of latencies for each process or region; `what` names them in errors.
fn matrix(file: &str, size: usize, what: &str) -> Result<Vec<Distribution>> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the latencies from `{file}`"))
        .map_err(|error| usage(format!("{error:#}")))?;
    let mut latencies = Vec::new();
    for (number, line) in lines::items(&text) {
        let wrong = |why: String| usage(format!("{file}:{number}: {why}"));
        let row: Result<Vec<_>, _> = line.split_whitespace().map(durations::distribution).collect();
        let row = row.map_err(|error| wrong(error.to_string()))?;
        if row.len() != size {
            return Err(wrong(format!(
                "{} latencies: give one for each of {size} {what}",
                row.len()
            )));
        }
        latencies.extend(row);
    }
    if latencies.len() != size * size {
        let rows = latencies.len() / size.max(1);
        return Err(usage(format!(
            "{file}: {rows} lines of latencies: give one for each of {size} {what}"
        )));
    }
    Ok(latencies)
}

fn partition(text: &str) -> Result<Partition, String> {
    let wrong = || format!("invalid partition `{text}`: use FROM..UNTIL:IDS, as in 10ms..20ms:0,1");
    let (times, group) = text.split_once(':').ok_or_else(wrong)?;
    let (from, until) = times.split_once("..").ok_or_else(wrong)?;
    let (from, until) = (duration(from)?, duration(until)?);
    if until <= from {
        return Err(format!("invalid partition `{text}`: it must end after it begins"));
    }
    let group: Result<Vec<u32>, _> = group.split(',').map(|id| id.trim().parse()).collect();
    Ok(Partition {
        from,
        until,
        group: group.map_err(|_| wrong())?.into_iter().map(NodeId).collect(),
    })
}

fn crash(text: &str) -> Result<CrashArgument, String> {
    let wrong = || {
        let parts = Victim::ALL.map(|victim| victim.to_string()).join(", ");
        format!(
            "invalid crash `{text}`: use ID@FROM or ID@FROM..UNTIL, as in 2@10ms; the ID is a \
             number, or one of {parts}"
        )
    };
    if text.contains(',') {
        return Err(format!(
            "invalid crash `{text}`: give --crash several times, as in --crash 2@10ms --crash \
             3@20ms"
        ));
    }
    let (node, times) = text.split_once('@').ok_or_else(wrong)?;
    let (from, until) = match times.split_once("..") {
        None => (duration(times)?, None),
        Some((from, until)) => (duration(from)?, Some(duration(until)?)),
    };
    if until.is_some_and(|until| until <= from) {
        return Err(format!("invalid crash `{text}`: the restart must follow the crash"));
    }
    let node = node.trim();
    match (node.parse(), node.parse()) {
        (Ok(id), _) => Ok(CrashArgument::Of(Outage { node: NodeId(id), from, until })),
        (Err(_), Ok(victim)) => Ok(CrashArgument::Chosen(ChosenCrash { victim, from, until })),
        (Err(_), Err(())) => Err(wrong()),
    }
}

/// Refuses a crash of a process that is down by another one.
fn refuse_overlaps(outages: &[Outage]) -> Result<()> {
    for (index, one) in outages.iter().enumerate() {
        let ends = |outage: &Outage| outage.until.unwrap_or(u64::MAX);
        let overlap = |other: &&Outage| {
            other.node == one.node && one.from < ends(other) && other.from < ends(one)
        };
        if let Some(other) = outages[..index].iter().find(overlap) {
            let (first, second) = (other.from.min(one.from), other.from.max(one.from));
            return Err(usage(format!(
                "--crash: process {} crashes at {} and is still down at {}: give the time of its \
                 restart, as in {0}@10ms..20ms, or leave one crash out",
                one.node,
                durations::show(first as f64),
                durations::show(second as f64)
            )));
        }
    }
    Ok(())
}

impl CrashArgument {
    fn outage(&self) -> Option<Outage> {
        match self {
            Self::Of(outage) => Some(*outage),
            Self::Chosen(_) => None,
        }
    }
}
