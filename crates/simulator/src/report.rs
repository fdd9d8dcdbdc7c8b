//! What a run has shown.

use std::collections::BTreeMap;

use mutua_algorithms::Message;
use serde::Serialize;

use crate::{
    Histogram, Load, Plan, Quantiles, Violation,
    world::{Client, World},
};

/// The measures of a run. Delays are in units of the mean latency. Without entries, what is counted
/// per entry is not a number, and null in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The algorithm.
    pub algorithm: &'static str,
    /// How many processes contend.
    pub nodes: u32,
    /// The seed.
    pub seed: u64,
    /// How many entries were measured.
    pub entries: u64,
    /// How many entries came before them.
    pub warm_up: u64,
    /// How many should have come before them for the system to settle, if they were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled_before: Option<u64>,
    /// Messages per entry, a multicast counted once per receiver.
    pub messages_per_entry: f64,
    /// Messages per entry, a multicast counted once.
    pub multicasts_per_entry: f64,
    /// Messages per entry from one region to another.
    pub far_messages_per_entry: f64,
    /// Messages per entry by kind.
    pub messages_by_kind: BTreeMap<&'static str, f64>,
    /// Bytes per entry: messages and clocks as nodes encode them, without frames.
    pub bytes_per_entry: f64,
    /// From request to entry where nobody was inside or waiting; the mean.
    pub client_delay: Option<f64>,
    /// From one exit to the next entry where somebody waited; the mean.
    pub sync_delay: Option<f64>,
    /// From request to entry.
    pub waiting_time: Option<Quantiles>,
    /// From request to exit.
    pub response_time: Option<Quantiles>,
    /// Entries per second of virtual time.
    pub throughput: f64,
    /// The share of time in which somebody was inside.
    pub utilisation: f64,
    /// Jain's index of fairness over the entries of those who ask: 1 if all had the same number.
    pub jain: f64,
    /// The most entries by others between a request and its own entry.
    pub max_bypass: u64,
    /// Messages of the application.
    pub tells: u64,
    /// Requests that were granted before one that had happened before them, where that is looked
    /// at.
    pub overtakings: Option<u64>,
    /// Messages that made no sense to their receiver.
    pub nonsense: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// What did not hold, the first few of each property.
    pub violations: Vec<Violation>,
    /// How much did not hold.
    pub violation_count: u64,
    /// How often each property did not hold.
    pub violations_by_property: BTreeMap<&'static str, u64>,
    /// What was looked at and did not hold, but is neither claimed nor judged; the first few of
    /// each property.
    pub unclaimed: Vec<Violation>,
    /// How often each of these did not hold.
    pub unclaimed_by_property: BTreeMap<&'static str, u64>,
    /// Deliveries, requests, leaves and timers fired, those before and after the measured time
    /// included.
    pub events: u64,
    /// The mean latency, in seconds: the unit of the delays.
    pub mean_latency: f64,
    /// How long the measured time was, in seconds of virtual time.
    pub virtual_seconds: f64,
    /// Equal for equal runs.
    pub trace_hash: String,
    /// The figures of every process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_node: Vec<NodeReport>,
    /// From request to entry, in nanoseconds: to be taken together with those of other runs.
    #[serde(skip)]
    pub waiting: Histogram,
    /// From request to exit, in nanoseconds.
    #[serde(skip)]
    pub response: Histogram,
    /// How sure one can be of this run alone, by the names of the measures: half widths of 95 %
    /// intervals by batch means. None of a short run.
    #[serde(skip)]
    pub half_widths: BTreeMap<&'static str, f64>,
}

/// What a run has shown of one process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NodeReport {
    /// Which one.
    pub node: u32,
    /// How often it entered.
    pub entries: u64,
    /// From request to entry; the mean.
    pub waiting_time: Option<f64>,
    /// How many messages it sent.
    pub sent: u64,
    /// How many messages it received.
    pub received: u64,
}

impl Report {
    pub(crate) fn new<M: Message>(
        algorithm: &'static str,
        plan: &Plan,
        world: &World<M>,
        clients: &[&Client],
    ) -> Self {
        let measures = &world.measures;
        let unit = positive(plan.network.mean_latency());
        let entries = if measures.entries > 0 { measures.entries as f64 } else { f64::NAN };
        let closed_at = if measures.open { world.now } else { measures.closed_at };
        let time = (closed_at - measures.opened_at) as f64 / 1e9;
        let always_contended = matches!(plan.workload.load, Load::Saturated);
        let active = world.clients.active();
        Self {
            algorithm,
            nodes: plan.setup.nodes,
            seed: plan.seed,
            entries: measures.entries,
            warm_up: measures.entries_before,
            unsettled_before: Some(world.length.warm_up)
                .filter(|&wanted| measures.entries_before < wanted && measures.entries > 0),
            messages_per_entry: measures.messages as f64 / entries,
            multicasts_per_entry: measures.multicasts as f64 / entries,
            far_messages_per_entry: measures.far as f64 / entries,
            messages_by_kind: measures
                .kinds
                .iter()
                .filter(|_| measures.entries > 0)
                .map(|kind| (kind.name, kind.count as f64 / entries))
                .collect(),
            bytes_per_entry: measures.bytes() / entries,
            client_delay: measures.client_delay.mean(unit).filter(|_| !always_contended),
            sync_delay: measures.sync_delay.mean(unit),
            waiting_time: measures.waiting.quantiles(unit),
            response_time: measures.response.quantiles(unit),
            throughput: measures.entries as f64 / positive(time),
            utilisation: measures.time_inside as f64 / 1e9 / positive(time),
            jain: jain(clients[active.start as usize..active.end as usize].iter()),
            max_bypass: measures.max_bypass,
            overtakings: world.checks.ordering.as_ref().map(|_| world.checks.overtakings),
            nonsense: measures.nonsense,
            lost: measures.lost,
            tells: measures.tells,
            violations: world.checks.violations.list.clone(),
            violation_count: world.checks.violations.count,
            violations_by_property: world.checks.violations.by_property.clone(),
            unclaimed: world.checks.unclaimed.list.clone(),
            unclaimed_by_property: world.checks.unclaimed.by_property.clone(),
            events: measures.events,
            mean_latency: plan.network.mean_latency() / 1e9,
            virtual_seconds: time,
            trace_hash: measures.hash.text(),
            per_node: (0..)
                .zip(clients)
                .map(|(node, client)| of_node(node, client, unit))
                .collect(),
            waiting: measures.waiting.clone(),
            response: measures.response.clone(),
            half_widths: half_widths(world, unit, always_contended),
        }
    }
}

fn half_widths<M: Message>(
    world: &World<M>,
    unit: f64,
    always_contended: bool,
) -> BTreeMap<&'static str, f64> {
    let mut half_widths = world.batches.half_widths(unit);
    half_widths.retain(|&name, _| name != "client_delay" || !always_contended);
    half_widths
}

fn of_node(node: u32, client: &Client, unit: f64) -> NodeReport {
    NodeReport {
        node,
        entries: client.entries,
        waiting_time: (client.entries > 0)
            .then(|| client.waited as f64 / client.entries as f64 / unit),
        sent: client.sent,
        received: client.received,
    }
}

fn jain<'a, 'b: 'a>(clients: impl Iterator<Item = &'a &'b Client>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for client in clients {
        let entries = client.entries as f64;
        count += 1.0;
        sum += entries;
        squares += entries * entries;
    }
    if squares == 0.0 { f64::NAN } else { sum * sum / (count * squares) }
}

/// What can be divided by.
fn positive(value: f64) -> f64 {
    if value > 0.0 { value } else { 1.0 }
}
