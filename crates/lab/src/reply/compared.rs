//! Figures of one algorithm over several sizes, measured beside theory.

use mutua_algorithms::{Kind, registry};
use mutua_simulator::Theory;
use serde::{Deserialize, Serialize};

use super::bounds::Refused;
use crate::{
    compare::{Cell, CellLoad, Clients, Effort, Task},
    durations,
};

/// The most processes of a compared system.
const MOST_NODES: u32 = 128;
/// The most sizes of a query.
const MOST_SIZES: usize = 12;

/// One algorithm over several sizes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompareQuery {
    /// The algorithm.
    pub algorithm: String,
    /// How many processes contend.
    pub sizes: Vec<u32>,
    /// `light`, `saturated`, or `offered:SHARE`: hold times add up to this share of the time.
    pub load: String,
    /// The hold time.
    pub hold: String,
    /// The latency.
    pub latency: String,
    /// The seed.
    pub seed: u64,
}

/// Figures over sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The algorithm.
    pub algorithm: String,
    /// A point for each size.
    pub points: Vec<Point>,
}

/// One size.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// How many processes contend.
    pub nodes: u32,
    /// Messages per entry.
    pub messages: Option<f64>,
    /// From an exit to the next entry, in mean latencies.
    pub sync_delay: Option<f64>,
    /// From request to entry where no other process was in the critical section, likewise.
    pub client_delay: Option<f64>,
    /// Entries per second.
    pub throughput: Option<f64>,
    /// Messages per entry in theory.
    pub messages_theory: Option<f64>,
    /// The formula of it.
    pub formula: Option<String>,
    /// The delay from exit to entry in theory.
    pub sync_theory: Option<f64>,
}

pub(super) fn compare(query: &CompareQuery) -> Result<Compared, Refused> {
    registry::about(&query.algorithm)
        .filter(|about| about.kind == Kind::Mutex)
        .ok_or_else(|| Refused::Unknown { what: "algorithm", name: query.algorithm.clone() })?;
    let wrong =
        |what, given: String, right: &str| Refused::Figure { what, given, right: right.to_owned() };
    if query.sizes.is_empty() || query.sizes.len() > MOST_SIZES {
        let right = format!("1 to {MOST_SIZES} sizes");
        return Err(wrong("number of sizes", query.sizes.len().to_string(), &right));
    }
    if let Some(size) = query.sizes.iter().find(|&&size| size == 0 || size > MOST_NODES) {
        return Err(wrong("size", size.to_string(), &format!("1 to {MOST_NODES} processes")));
    }
    let load = match query.load.as_str() {
        "light" => CellLoad::Light,
        "saturated" => CellLoad::Saturated,
        other => {
            let share = other.strip_prefix("offered:").and_then(|share| share.parse().ok());
            let share = share.filter(|share| (0.01..=0.99).contains(share));
            let right = "light, saturated or offered:0.01 to offered:0.99";
            CellLoad::Offered(share.ok_or_else(|| wrong("load", other.to_owned(), right))?)
        }
    };
    for time in [&query.hold, &query.latency] {
        durations::distribution(time)
            .map_err(|error| wrong("duration", time.clone(), &error.to_string()))?;
    }
    let effort = Effort {
        entries: 400,
        runs: 1,
        seed: query.seed,
        max_events: 200_000,
        warm_up_events: 200_000,
    };
    let point = |&nodes: &u32| {
        let cell = Cell {
            algorithm: query.algorithm.clone(),
            nodes,
            load,
            hold: query.hold.clone(),
            latency: query.latency.clone(),
            clients: Clients::default(),
        };
        let figures = cell.measure(&effort, u64::MAX, &|_| ());
        let Theory { messages, sync_delay, .. } = cell.theory();
        Point {
            nodes,
            messages: figures.messages.as_ref().map(|stat| stat.mean),
            sync_delay: figures.sync_delay.as_ref().map(|stat| stat.mean),
            client_delay: figures.client_delay.as_ref().map(|stat| stat.mean),
            throughput: figures.throughput.as_ref().map(|stat| stat.mean),
            messages_theory: messages.as_ref().map(|expected| expected.value),
            formula: messages.map(|expected| expected.formula),
            sync_theory: sync_delay.map(|expected| expected.value),
        }
    };
    Ok(Compared {
        algorithm: query.algorithm.clone(),
        points: query.sizes.iter().map(point).collect(),
    })
}
