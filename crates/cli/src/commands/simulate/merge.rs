//! Merges the reports of several runs.

use std::collections::BTreeMap;

use mutua_simulator::{Histogram, Interval, NodeReport, Quantiles, Report, combined};

/// Means over the runs, quantiles of all their times together, the worst bypass, every violation.
/// There is at least one run.
pub(super) fn merged(reports: &[Report]) -> Report {
    let mut merged = reports[0].clone();
    if reports.len() == 1 {
        return merged;
    }
    let mean = |of: fn(&Report) -> Option<f64>| {
        let samples: Vec<_> = reports.iter().filter_map(of).collect();
        Interval::of(&samples).map(|interval| interval.mean)
    };
    // Without an entry the measure is undefined; JSON shows null.
    let mean_of = |of| mean(of).unwrap_or(f64::NAN);
    merged.unsettled_before = reports.iter().filter_map(|report| report.unsettled_before).max();
    merged.overloaded = reports.iter().any(|report| report.overloaded);
    merged.settles_after =
        reports.iter().map(|report| report.settles_after).max().unwrap_or_default();
    merged.settling_events = reports.iter().filter_map(|report| report.settling_events).max();
    merged.messages_per_entry = mean_of(|report| Some(report.messages_per_entry));
    merged.multicasts_per_entry = mean_of(|report| Some(report.multicasts_per_entry));
    merged.messages_at_exits = mean_of(|report| Some(report.messages_at_exits));
    merged.far_messages_per_entry = mean_of(|report| Some(report.far_messages_per_entry));
    merged.bytes_per_entry = mean_of(|report| Some(report.bytes_per_entry));
    merged.client_delay = mean(|report| report.client_delay);
    merged.sync_delay = mean(|report| report.sync_delay);
    merged.throughput = mean_of(|report| Some(report.throughput));
    merged.utilisation = mean_of(|report| Some(report.utilisation));
    merged.jain = mean_of(|report| Some(report.jain));
    merged.messages_by_kind = by_kind(reports);
    merged.waiting_time = quantiles(reports, |report| &report.waiting);
    merged.response_time = quantiles(reports, |report| &report.response);
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    merged.entries = sum(|report| report.entries);
    merged.events = sum(|report| report.events);
    merged.nonsense = sum(|report| report.nonsense);
    merged.lost = sum(|report| report.lost);
    merged.app_messages = sum(|report| report.app_messages);
    for (section, entries) in merged.sections.iter_mut().enumerate() {
        *entries = reports.iter().filter_map(|report| report.sections.get(section)).sum();
    }
    merged.violation_count = sum(|report| report.violation_count);
    merged.overtakings =
        merged.overtakings.map(|_| sum(|report| report.overtakings.unwrap_or_default()));
    merged.max_bypass = reports.iter().map(|report| report.max_bypass).max().unwrap_or(0);
    merged.virtual_seconds = reports.iter().map(|report| report.virtual_seconds).sum();
    merged.violations = all(reports, |report| &report.violations);
    merged.unclaimed = all(reports, |report| &report.unclaimed);
    merged.violations_by_property = counts(reports, |report| &report.violations_by_property);
    merged.unclaimed_by_property = counts(reports, |report| &report.unclaimed_by_property);
    merged.per_node = per_node(reports);
    merged.trace_hash = combined(reports.iter().map(|report| report.trace_hash.as_str()));
    merged
}

fn all<T: Clone>(reports: &[Report], of: fn(&Report) -> &Vec<T>) -> Vec<T> {
    reports.iter().flat_map(of).cloned().collect()
}

type Counts = BTreeMap<&'static str, u64>;

fn counts(reports: &[Report], of: fn(&Report) -> &Counts) -> Counts {
    let mut counts = Counts::new();
    for (property, count) in reports.iter().flat_map(of) {
        *counts.entry(property).or_default() += count;
    }
    counts
}

/// A kind that does not occur in a run counts as 0 there.
fn by_kind(reports: &[Report]) -> BTreeMap<&'static str, f64> {
    let with_entries: Vec<_> = reports.iter().filter(|report| report.entries > 0).collect();
    let mut means = BTreeMap::new();
    for (kind, count) in with_entries.iter().flat_map(|report| &report.messages_by_kind) {
        *means.entry(*kind).or_default() += count / with_entries.len() as f64;
    }
    means
}

/// Quantiles of all times together: a mean of quantiles is not a quantile.
fn quantiles(reports: &[Report], of: fn(&Report) -> &Histogram) -> Option<Quantiles> {
    let mut all = Histogram::default();
    reports.iter().for_each(|report| all.merge(of(report)));
    let unit = reports[0].mean_latency * 1e9;
    all.quantiles(if unit > 0.0 { unit } else { 1.0 })
}

fn per_node(reports: &[Report]) -> Vec<NodeReport> {
    let mut nodes = reports[0].per_node.clone();
    for (index, node) in nodes.iter_mut().enumerate() {
        let runs: Vec<_> = reports.iter().filter_map(|report| report.per_node.get(index)).collect();
        let sum = |of: fn(&NodeReport) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        node.entries = sum(|run| run.entries);
        node.sent = sum(|run| run.sent);
        node.received = sum(|run| run.received);
        let waited =
            runs.iter().filter_map(|run| Some(run.waiting_time? * run.entries as f64)).sum::<f64>();
        node.waiting_time = (node.entries > 0).then(|| waited / node.entries as f64);
    }
    nodes
}
