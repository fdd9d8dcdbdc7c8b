//! The arguments that describe what the clients do.

use std::fs;

use anyhow::Result;
use clap::Args;
use mutua_algorithms::NodeId;
use mutua_simulator::{Distribution, Load, Who, Wish, Workload};

use crate::{durations, exit::usage, lines};

/// Who asks, when, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkloadArguments {
    /// When clients ask: light (one at a time; the default), saturated (again at once), think:TIME
    /// (again after a while), bursts:TIME (all at once, so often), script:FILE (a line `TIME ID
    /// [HOLD]` each).
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<String>,

    /// At light load: the gap after an exit; by default 10 N times the mean latency.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) gap: Option<Distribution>,

    /// Who asks: all (the default), hot:K (the first K), zipf:S (by rank), one:ID.
    #[arg(long, value_name = "WHO", value_parser = who)]
    pub(crate) who: Option<Who>,

    /// How long a client stays inside: a time as that of --latency, by default 1ms.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) hold: Option<Distribution>,

    /// Single requests instead of a load: ID@TIME or ID@TIME+HOLD, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = wish,
          conflicts_with = "load")]
    pub(crate) requests: Vec<Wish>,
}

impl WorkloadArguments {
    /// The workload that these arguments describe.
    pub(crate) fn workload(&self, nodes: u32, mean_latency: f64) -> Result<Workload> {
        let hold = self.hold.unwrap_or(Distribution::Constant(1_000_000));
        let load = match self.requests.as_slice() {
            [] => self.load(nodes, mean_latency, hold)?,
            requests => Load::Script(requests.to_vec()),
        };
        let is_written = matches!(load, Load::Script(_));
        if self.who.is_some() && is_written {
            return Err(usage("--who means nothing where every request is written down"));
        }
        if self.gap.is_some() && !matches!(load, Load::Light { .. }) {
            return Err(usage("--gap is for light load, where one asks at a time"));
        }
        Ok(Workload { load, who: self.who.unwrap_or(Who::All), hold })
    }

    fn load(&self, nodes: u32, mean_latency: f64, hold: Distribution) -> Result<Load> {
        let time = |text: &str| durations::distribution(text).map_err(usage);
        let load = self.load.as_deref().unwrap_or("light");
        match load.split_once(':').unwrap_or((load, "")) {
            ("light", "") => {
                let usual = Workload::light(nodes, mean_latency, hold).load;
                Ok(self.gap.map_or(usual, |gap| Load::Light { gap }))
            }
            ("saturated", "") => Ok(Load::Saturated),
            (kind @ ("think" | "bursts"), "") => {
                Err(usage(format!("--load {kind} needs a time, as {kind}:10ms or {kind}:exp:10ms")))
            }
            ("script", "") => Err(usage("--load script needs a file, as script:requests.txt")),
            ("think", think) => Ok(Load::Think(time(think)?)),
            ("bursts", every) => Ok(Load::Bursts { every: time(every)? }),
            ("script", file) => Ok(Load::Script(script(file)?)),
            _ => Err(crate::names::unknown(
                "load",
                load,
                ["light", "saturated", "think:TIME", "bursts:TIME", "script:FILE"],
            )),
        }
    }
}

fn who(text: &str) -> Result<Who, String> {
    let wrong = |what: &str| format!("`{text}`: {what}");
    match text.split_once(':').unwrap_or((text, "")) {
        ("all", "") => Ok(Who::All),
        ("hot", count) => {
            count.parse().map(Who::Hot).map_err(|_| wrong("a hot subset is written hot:K"))
        }
        ("zipf", exponent) => {
            exponent.parse().map(Who::Zipf).map_err(|_| wrong("a Zipf law is written zipf:S"))
        }
        ("one", id) => {
            let id = id.parse().map(NodeId);
            id.map(Who::One).map_err(|_| wrong("a single process is written one:ID"))
        }
        _ => Err(wrong("write all, hot:K, zipf:S or one:ID")),
    }
}

fn wish(text: &str) -> Result<Wish, String> {
    let wrong = || format!("`{text}`: a request is written ID@TIME or ID@TIME+HOLD");
    let (node, time) = text.split_once('@').ok_or_else(wrong)?;
    let node = NodeId(node.trim().parse().map_err(|_| wrong())?);
    let (at, hold) = match time.split_once('+') {
        None => (time, None),
        Some((at, hold)) => (at, Some(durations::nanoseconds(hold)?)),
    };
    Ok(Wish { at: durations::nanoseconds(at)?, node, hold })
}

/// Requests as they are written after `--requests`.
pub(crate) fn show_wishes(wishes: &[Wish]) -> String {
    let show = |wish: &Wish| {
        let hold = wish.hold.map_or_else(String::new, |hold| format!("+{hold}ns"));
        format!("{}@{}ns{hold}", wish.node, wish.at)
    };
    wishes.iter().map(show).collect::<Vec<_>>().join(",")
}

fn script(file: &str) -> Result<Vec<Wish>> {
    let text = fs::read_to_string(file)
        .map_err(|error| usage(format!("cannot read the requests from `{file}`: {error}")))?;
    let mut wishes = Vec::new();
    for (number, line) in lines::said(&text) {
        let words: Vec<_> = line.split_whitespace().collect();
        let read = match words.as_slice() {
            [at, node] => wish(&format!("{node}@{at}")).ok(),
            [at, node, hold] => wish(&format!("{node}@{at}+{hold}")).ok(),
            _ => None,
        };
        wishes.push(read.ok_or_else(|| {
            usage(format!(
                "{file}:{number}: a request is a line `TIME ID [HOLD]`, as `5ms 2`; `{line}` is not"
            ))
        })?);
    }
    if wishes.is_empty() {
        return Err(usage(format!("{file}: no requests; give a line `TIME ID [HOLD]` each")));
    }
    Ok(wishes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_shown() {
        let text = "0@5ns,3@1000ns+20ns";
        let wishes: Vec<_> = text.split(',').map(|one| wish(one).unwrap()).collect();
        assert_eq!(show_wishes(&wishes), text);
        assert!(wish("3").is_err() && wish("x@1ms").is_err() && wish("1@-1ms").is_err());
    }
}
