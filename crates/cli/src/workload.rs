//! The arguments that describe a workload.

use std::fs;

use anyhow::Result;
use clap::Args;
use mutua_algorithms::NodeId;
use mutua_simulator::{Distribution, Load, ScriptedRequest, Who, Workload};

use crate::{durations, exit::usage, lines, system::duration};

/// Requesters, arrival of requests, and hold time.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkloadArguments {
    /// Arrival of requests: light (one at a time; the default), saturated (again at once after an
    /// exit), think:TIME (again after a think time), poisson:RATE (so many requests per second at
    /// random, however many wait), bursts:TIME (all at once, periodically), script:FILE (one line
    /// `TIME ID [HOLD]` per request).
    #[arg(long, value_name = "LOAD")]
    pub(crate) load: Option<String>,

    /// Gap from an exit to the next request at light load [default: 10 N times the mean latency].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) gap: Option<Distribution>,

    /// Processes that request: all (the default), hot:K (the first K), zipf:S (by rank) or one:ID.
    #[arg(long, value_name = "PROCESSES", value_parser = requesters)]
    pub(crate) requesters: Option<Who>,

    /// Hold time: time in the critical section, written as --latency [default: 1ms].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = durations::distribution)]
    pub(crate) hold: Option<Distribution>,

    /// Simulate these requests instead of a load: ID@TIME or ID@TIME+HOLD, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = request,
          conflicts_with = "load")]
    pub(crate) requests: Vec<ScriptedRequest>,
}

impl WorkloadArguments {
    /// Whether requests arrive whatever the clients do.
    pub(crate) fn is_open(&self) -> bool {
        self.load.as_deref().is_some_and(|load| load.starts_with("poisson"))
    }

    /// The workload that these arguments describe.
    pub(crate) fn workload(&self, nodes: u32, mean_latency: f64) -> Result<Workload> {
        let hold = self.hold.unwrap_or(Distribution::Constant(1_000_000));
        let load = match self.requests.as_slice() {
            [] => self.load(nodes, mean_latency, hold)?,
            requests => Load::Script(requests.to_vec()),
        };
        let is_script = matches!(load, Load::Script(_));
        if self.requesters.is_some() && is_script {
            return Err(usage("--requesters does not apply to a list of requests"));
        }
        if self.gap.is_some() && !matches!(load, Load::Light { .. }) {
            return Err(usage("--gap applies to light load only"));
        }
        Ok(Workload { load, who: self.requesters.unwrap_or(Who::All), hold })
    }

    fn load(&self, nodes: u32, mean_latency: f64, hold: Distribution) -> Result<Load> {
        let time =
            |text: &str| durations::distribution(text).map_err(|error| usage(error.to_string()));
        let load = self.load.as_deref().unwrap_or("light");
        match load.split_once(':').unwrap_or((load, "")) {
            ("light", "") => {
                let usual = Workload::light(nodes, mean_latency, hold).load;
                Ok(self.gap.map_or(usual, |gap| Load::Light { gap }))
            }
            ("saturated", "") => Ok(Load::Saturated),
            (kind @ ("think" | "bursts"), "") => {
                Err(usage(format!("--load {kind} needs a time: {kind}:10ms or {kind}:exp:10ms")))
            }
            ("poisson", "") => Err(usage("--load poisson needs requests per second: poisson:100")),
            ("poisson", rate) => poisson(rate),
            ("script", "") => Err(usage("--load script needs a file: script:requests.txt")),
            ("think", think) => Ok(Load::Think(time(think)?)),
            ("bursts", every) => Ok(Load::Bursts { every: time(every)? }),
            ("script", file) => Ok(Load::Script(script(file)?)),
            _ => Err(crate::names::unknown(
                "load",
                load,
                ["light", "saturated", "think:TIME", "poisson:RATE", "bursts:TIME", "script:FILE"],
            )),
        }
    }
}

/// Requests per second of all clients together.
fn poisson(rate: &str) -> Result<Load> {
    let valid = |rate: &f64| *rate > 1e-9 && *rate <= 1e9;
    match rate.parse().ok().filter(valid) {
        Some(rate) => Ok(Load::Poisson { gap: (1e9 / rate).round() as u64 }),
        None => Err(usage(format!(
            "invalid arrival rate `{rate}`: give requests per second, as in poisson:100"
        ))),
    }
}

fn requesters(text: &str) -> Result<Who, String> {
    let wrong = |right: &str| format!("invalid requesters `{text}`: use {right}");
    match text.split_once(':').unwrap_or((text, "")) {
        ("all", "") => Ok(Who::All),
        ("hot", count) => {
            count.parse().map(Who::Hot).map_err(|_| wrong("hot:K for the first K processes"))
        }
        ("zipf", exponent) => {
            exponent.parse().map(Who::Zipf).map_err(|_| wrong("zipf:S with the exponent S"))
        }
        ("one", id) => {
            let id = id.parse().map(NodeId);
            id.map(Who::One).map_err(|_| wrong("one:ID for a single process"))
        }
        _ => Err(wrong("all, hot:K, zipf:S or one:ID")),
    }
}

fn request(text: &str) -> Result<ScriptedRequest, String> {
    let wrong = || format!("invalid request `{text}`: use ID@TIME or ID@TIME+HOLD");
    let (node, time) = text.split_once('@').ok_or_else(wrong)?;
    let node = NodeId(node.trim().parse().map_err(|_| wrong())?);
    let (at, hold) = match time.split_once('+') {
        None => (time, None),
        Some((at, hold)) => (at, Some(duration(hold)?)),
    };
    Ok(ScriptedRequest { at: duration(at)?, node, hold })
}

/// Requests as they are given to `--requests`.
pub(crate) fn show_requests(requests: &[ScriptedRequest]) -> String {
    let show = |request: &ScriptedRequest| {
        let hold = request.hold.map_or_else(String::new, |hold| format!("+{hold}ns"));
        format!("{}@{}ns{hold}", request.node, request.at)
    };
    requests.iter().map(show).collect::<Vec<_>>().join(",")
}

fn script(file: &str) -> Result<Vec<ScriptedRequest>> {
    let text = fs::read_to_string(file)
        .map_err(|error| usage(format!("cannot read the requests from `{file}`: {error}")))?;
    let mut requests = Vec::new();
    for (number, line) in lines::items(&text) {
        let words: Vec<_> = line.split_whitespace().collect();
        let read = match words.as_slice() {
            [at, node] => request(&format!("{node}@{at}")).ok(),
            [at, node, hold] => request(&format!("{node}@{at}+{hold}")).ok(),
            _ => None,
        };
        requests.push(read.ok_or_else(|| {
            usage(format!(
                "{file}:{number}: invalid request `{line}`: use `TIME ID [HOLD]`, as in `5ms 2`"
            ))
        })?);
    }
    if requests.is_empty() {
        return Err(usage(format!(
            "{file}: no requests: give one line `TIME ID [HOLD]` per request"
        )));
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_they_are_shown() {
        let text = "0@5ns,3@1000ns+20ns";
        let requests: Vec<_> = text.split(',').map(|one| request(one).unwrap()).collect();
        assert_eq!(show_requests(&requests), text);
        assert!(request("3").is_err() && request("x@1ms").is_err() && request("1@-1ms").is_err());
    }
}
