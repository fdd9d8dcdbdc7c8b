//! The report of a run.

use std::collections::BTreeMap;

use mutua_algorithms::Message;
use serde::Serialize;

use crate::{
    Histogram, Load, Plan, Quantiles, Violation,
    saturation::Saturation,
    shares,
    world::{Client, World},
};

/// The measures of a run. Delays are in units of the mean latency. If there were no entries,
/// figures per entry are not a number, and null in JSON.
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
    /// How many entries the warm-up had.
    pub warm_up: u64,
    /// How many entries the warm-up should have had for the system to settle, if it was cut short.
    /// The figures are then not those of a steady state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled_before: Option<u64>,
    /// Whether requests come as fast as they can be granted, or faster, however many wait: waits
    /// then grow with the length of the run.
    pub overloaded: bool,
    /// The requests per second that come however many wait; none in a closed system.
    #[serde(skip)]
    pub offered: Option<f64>,
    /// The entries that a warm-up of an open system needs at its load; 0 of a closed one.
    #[serde(skip)]
    pub settles_after: u64,
    /// The entries over which a mean of waits must be taken to be nearly independent of the next.
    #[serde(skip)]
    pub shortest_batch: u64,
    /// How many events such a warm-up would have, estimated from this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settling_events: Option<u64>,
    /// Messages per entry, a multicast counted once per receiver.
    pub messages_per_entry: f64,
    /// Messages per entry, a multicast counted once.
    pub multicasts_per_entry: f64,
    /// Of the messages per entry, those that a process sent when its client exited; the others were
    /// sent so that a process could enter.
    pub messages_at_exits: f64,
    /// Messages per entry from one region to another.
    pub far_messages_per_entry: f64,
    /// Messages per entry by kind.
    pub messages_by_kind: BTreeMap<&'static str, f64>,
    /// Bytes per entry: messages and clocks as nodes encode them, without frames.
    pub bytes_per_entry: f64,
    /// From request to entry where no other process was in the critical section or waiting; the
    /// mean.
    pub client_delay: Option<f64>,
    /// From one exit to the next entry where a process waited; the mean.
    pub sync_delay: Option<f64>,
    /// From request to entry.
    pub waiting_time: Option<Quantiles>,
    /// From request to exit.
    pub response_time: Option<Quantiles>,
    /// Entries per second of virtual time.
    pub throughput: f64,
    /// The share of the time in which a process was in the critical section.
    pub utilisation: f64,
    /// Jain's index of fairness over the entries of the requesting processes: 1 if all had the same
    /// number.
    pub jain: f64,
    /// The most entries by others between a request and its own entry.
    pub max_bypass: u64,
    /// The measured entries of each critical section, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<u64>,
    /// Messages of the application.
    pub app_messages: u64,
    /// Requests granted before a request that happened before them; none where ordering was not
    /// checked.
    pub overtakings: Option<u64>,
    /// Messages that their receivers reported as invalid.
    pub nonsense: u64,
    /// Messages that were dropped.
    pub lost: u64,
    /// Violations, the first few of each property.
    pub violations: Vec<Violation>,
    /// How many violations there were.
    pub violation_count: u64,
    /// How many violations there were of each property.
    pub violations_by_property: BTreeMap<&'static str, u64>,
    /// Violations of properties that were checked but are neither claimed nor judged; the first few
    /// of each property.
    pub unclaimed: Vec<Violation>,
    /// How many of these there were of each property.
    pub unclaimed_by_property: BTreeMap<&'static str, u64>,
    /// Deliveries, requests and exits, those of the warm-up and the drain included.
    pub events: u64,
    /// The mean latency, in seconds: the unit of the delays.
    pub mean_latency: f64,
    /// The virtual time that was measured, in seconds.
    pub virtual_seconds: f64,
    /// A hash of all events: equal for equal runs.
    pub trace_hash: String,
    /// The figures of every process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_node: Vec<NodeReport>,
    /// How many entries were of a request that found the critical section free, with no process
    /// waiting, and that was not overtaken.
    #[serde(skip)]
    pub found_free: u64,
    /// From request to entry, in nanoseconds, to be merged with those of other runs.
    #[serde(skip)]
    pub waiting: Histogram,
    /// From request to exit, in nanoseconds.
    #[serde(skip)]
    pub response: Histogram,
    /// Half widths of the 95 % confidence intervals of this run alone, by batch means and by the
    /// names of the measures; empty for a short run.
    #[serde(skip)]
    pub half_widths: BTreeMap<&'static str, f64>,
}

/// The measures of one process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NodeReport {
    /// The process.
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
        let unsettled_before = world.unsettled_before();
        let events_per_entry = measures.events as f64 / measures.entries_in_all.max(1) as f64;
        Self {
            algorithm,
            nodes: plan.setup.nodes,
            seed: plan.seed,
            entries: measures.entries,
            warm_up: measures.entries_before,
            unsettled_before,
            overloaded: world.is_overloaded(),
            offered: plan.workload.load.rate(active.len() as u64).map(|rate| rate * 1e9),
            settles_after: world.saturation.as_ref().map_or(0, Saturation::warm_up),
            shortest_batch: world.shortest_batch(),
            settling_events: unsettled_before
                .map(|entries| (entries as f64 * events_per_entry) as u64),
            messages_per_entry: measures.messages as f64 / entries,
            multicasts_per_entry: measures.multicasts as f64 / entries,
            messages_at_exits: measures.at_exits as f64 / entries,
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
            utilisation: measures.time_in_cs as f64 / 1e9 / positive(time),
            jain: jain(&clients[active.start as usize..active.end as usize]),
            max_bypass: measures.max_bypass,
            sections: world.checks.measured(),
            overtakings: world.checks.here.ordering.as_ref().map(|_| world.checks.overtakings),
            nonsense: measures.nonsense,
            lost: measures.lost,
            app_messages: measures.app_messages,
            violations: world.checks.violations.list.clone(),
            violation_count: world.checks.violations.count,
            violations_by_property: world.checks.violations.by_property.clone(),
            unclaimed: world.checks.unclaimed.list.clone(),
            unclaimed_by_property: world.checks.unclaimed.by_property.clone(),
            events: measures.events,
            mean_latency: plan.network.mean_latency() / 1e9,
            virtual_seconds: time,
            trace_hash: measures.hash.text(),
            per_node: of_all(clients, unit),
            found_free: measures.client_delay.count(),
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
    let mut half_widths = world.batches.half_widths(unit, world.shortest_batch());
    if let Some(saturation) = &world.saturation {
        let least = saturation.least_half_width(world.measures.entries) / unit;
        for name in ["waiting_time", "response_time"] {
            half_widths.entry(name).and_modify(|width| *width = width.max(least));
        }
    }
    half_widths.retain(|&name, _| name != "client_delay" || !always_contended);
    half_widths
}

fn of_all(clients: &[&Client], unit: f64) -> Vec<NodeReport> {
    (0..).zip(clients).map(|(node, client)| of_node(node, client, unit)).collect()
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

fn jain(clients: &[&Client]) -> f64 {
    shares::jain(clients.iter().map(|client| client.entries as f64))
}

/// The value, or 1 if it cannot be divided by.
fn positive(value: f64) -> f64 {
    if value > 0.0 { value } else { 1.0 }
}
