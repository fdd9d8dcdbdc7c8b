//! The arguments that describe a network, the same in every command that simulates.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::NodeId;
use mutua_simulator::{Distribution, Latency, Network, Outage, Partition, Regions};

use crate::{durations, exit::usage, lines};

/// Latency and faults.
#[derive(Args, Clone, Debug)]
pub(crate) struct NetworkArguments {
    /// How long a message takes: 1ms (the default), uniform:1ms..3ms, exp:1ms, lognormal:1ms,0.5.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) latency: Option<Distribution>,

    /// Processes stand in regions of these sizes; --latency holds within one.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) regions: Vec<u32>,

    /// How long a message takes from one region to another.
    #[arg(long, value_name = "TIME", requires = "regions", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) wan: Option<Distribution>,

    /// A file with a line of latencies per process, or per region if there are --regions.
    #[arg(long, value_name = "FILE", conflicts_with = "wan")]
    pub(crate) matrix: Option<String>,

    /// Links may change the order of messages. A constant latency T then is anything up to 2T.
    #[arg(long)]
    pub(crate) reorder: bool,

    /// How much longer a message takes that only keeps things going: an idle token, the next read
    /// of a variable.
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true,
          value_parser = durations::nanoseconds)]
    pub(crate) pace: u64,

    /// The share of messages that are lost.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) loss: f64,

    /// The share of messages that arrive twice.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) duplication: f64,

    /// Cut some processes off for a while: 10ms..20ms:0,1.
    #[arg(long, value_name = "FROM..UNTIL:IDS", value_parser = partition)]
    pub(crate) partition: Vec<Partition>,

    /// Let a process crash, and perhaps come back: 2@10ms or 2@10ms..20ms.
    #[arg(long, value_name = "ID@FROM[..UNTIL]", value_parser = outage)]
    pub(crate) crash: Vec<Outage>,
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
        network.outages.clone_from(&self.crash);
        Ok(network)
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
            return Err(usage(format!("regions for {total} processes, but there are {nodes}")));
        }
        let between = match (&self.matrix, self.wan) {
            (Some(file), _) => {
                let what = if self.regions.is_empty() { "processes" } else { "regions" };
                matrix(file, sizes.len(), what)?
            }
            (None, Some(wan)) => within_and_between(sizes.len(), self.latency(), wan),
            (None, None) => return Err(usage("--regions need --wan or --matrix")),
        };
        Regions::new(&sizes, between).map(Some).map_err(usage)
    }
}

fn within_and_between(count: usize, lan: Distribution, wan: Distribution) -> Vec<Distribution> {
    let places = (0..count).flat_map(|from| (0..count).map(move |to| from == to));
    places.map(|same| if same { lan } else { wan }).collect()
}

/// Reads a line of latencies for each process or region, whatever `what` says.
fn matrix(file: &str, size: usize, what: &str) -> Result<Vec<Distribution>> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the latencies from `{file}`"))
        .map_err(|error| usage(format!("{error:#}")))?;
    let mut latencies = Vec::new();
    for (number, line) in lines::said(&text) {
        let wrong = |why: String| usage(format!("{file}:{number}: {why}"));
        let row: Result<Vec<_>, _> = line.split_whitespace().map(durations::distribution).collect();
        let row = row.map_err(wrong)?;
        if row.len() != size {
            return Err(wrong(format!("{} latencies, but there are {size} {what}", row.len())));
        }
        latencies.extend(row);
    }
    if latencies.len() != size * size {
        let rows = latencies.len() / size.max(1);
        return Err(usage(format!(
            "{file}: {rows} lines of latencies, but there are {size} {what}"
        )));
    }
    Ok(latencies)
}

fn partition(text: &str) -> Result<Partition, String> {
    let wrong = || format!("`{text}`: a partition is written FROM..UNTIL:IDS, as 10ms..20ms:0,1");
    let (times, group) = text.split_once(':').ok_or_else(wrong)?;
    let (from, until) = times.split_once("..").ok_or_else(wrong)?;
    let (from, until) = (durations::nanoseconds(from)?, durations::nanoseconds(until)?);
    if until <= from {
        return Err(format!("`{text}`: a partition must end after it begins"));
    }
    let group: Result<Vec<u32>, _> = group.split(',').map(|id| id.trim().parse()).collect();
    Ok(Partition {
        from,
        until,
        group: group.map_err(|_| wrong())?.into_iter().map(NodeId).collect(),
    })
}

fn outage(text: &str) -> Result<Outage, String> {
    let wrong = || format!("`{text}`: a crash is written ID@FROM or ID@FROM..UNTIL, as 2@10ms");
    let (node, times) = text.split_once('@').ok_or_else(wrong)?;
    let node = NodeId(node.trim().parse().map_err(|_| wrong())?);
    let (from, until) = match times.split_once("..") {
        None => (durations::nanoseconds(times)?, None),
        Some((from, until)) => {
            (durations::nanoseconds(from)?, Some(durations::nanoseconds(until)?))
        }
    };
    if until.is_some_and(|until| until < from) {
        return Err(format!("`{text}`: it cannot be back before it crashes"));
    }
    Ok(Outage { node, from, until })
}
