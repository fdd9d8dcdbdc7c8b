//! The runs of all seeds together.

use std::{collections::BTreeMap, time::Duration};

use mutua_algorithms::About;
use mutua_simulator::{
    Expected, Interval, Plan, Quantiles, Report, Theory, TheoryLoad, combined, theory,
};
use serde::Serialize;

/// What all seeds together have shown.
pub(super) struct Outcome {
    pub(super) theory: Theory,
    /// Why theory says nothing of this situation, if so.
    pub(super) no_theory: Option<&'static str>,
    pub(super) reports: Vec<Report>,
    time: Duration,
}

/// A measure, what theory says of it, and how to read it off a report.
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) of: fn(&Report) -> Option<f64>,
    pub(super) expected: fn(&Theory) -> Option<&Expected>,
}

/// The measures of which several seeds give a mean.
pub(super) const MEASURES: [Measure; 8] = [
    Measure {
        name: "messages_per_entry",
        title: "messages per entry",
        of: |report| Some(report.messages_per_entry),
        expected: |theory| theory.messages.as_ref(),
    },
    Measure {
        name: "multicasts_per_entry",
        title: "- a multicast counted once",
        of: |report| Some(report.multicasts_per_entry),
        expected: |theory| theory.multicasts.as_ref(),
    },
    Measure {
        name: "bytes_per_entry",
        title: "bytes per entry",
        of: |report| Some(report.bytes_per_entry),
        expected: |_| None,
    },
    Measure {
        name: "client_delay",
        title: "client delay, T",
        of: |report| report.client_delay,
        expected: |theory| theory.client_delay.as_ref(),
    },
    Measure {
        name: "sync_delay",
        title: "synchronization delay, T",
        of: |report| report.sync_delay,
        expected: |theory| theory.sync_delay.as_ref(),
    },
    Measure {
        name: "throughput",
        title: "entries per second",
        of: |report| Some(report.throughput),
        expected: |_| None,
    },
    Measure {
        name: "utilisation",
        title: "share of time inside",
        of: |report| Some(report.utilisation),
        expected: |_| None,
    },
    Measure {
        name: "jain",
        title: "fairness (Jain's index)",
        of: |report| Some(report.jain),
        expected: |_| None,
    },
];

/// What `--json` prints: the first run's figures, those with a mean replaced by it.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    #[serde(flatten)]
    report: Report,
    runs: usize,
    /// The seeds of the runs; `trace_hash` is over the hashes of all of them, in this order.
    seeds: Vec<u64>,
    events_per_second: f64,
    theory: &'a Theory,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_theory: Option<&'static str>,
    /// Means with 95 % confidence intervals, over several seeds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    intervals: BTreeMap<&'static str, Interval>,
}

impl Outcome {
    pub(super) fn new(about: &About, plan: &Plan, load: Result<TheoryLoad, &'static str>) -> Self {
        let no_theory = load.err();
        let theory = load.map(|load| theory(about.name, &plan.setup, load)).unwrap_or_default();
        Self { theory, no_theory, reports: Vec::new(), time: Duration::ZERO }
    }

    pub(super) fn add(&mut self, report: Report, time: Duration) {
        self.reports.push(report);
        self.time += time;
    }

    /// The first seed with a violation.
    pub(super) fn failed_seed(&self) -> Option<u64> {
        let failed = self.reports.iter().find(|report| report.violation_count > 0);
        failed.map(|report| report.seed)
    }

    /// A measure over all seeds.
    pub(super) fn interval(&self, measure: &Measure) -> Option<Interval> {
        let samples: Vec<_> = self.reports.iter().filter_map(measure.of).collect();
        Interval::of(&samples)
    }

    pub(super) fn events(&self) -> u64 {
        self.reports.iter().map(|report| report.events).sum()
    }

    pub(super) fn events_per_second(&self) -> f64 {
        self.events() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// All runs as one report: means, the worst bypass, every violation.
    pub(super) fn merged(&self) -> Report {
        let mut merged = self.reports[0].clone();
        let mean = |of: fn(&Report) -> Option<f64>| {
            let samples: Vec<_> = self.reports.iter().filter_map(of).collect();
            Interval::of(&samples).map(|interval| interval.mean)
        };
        // Without a single entry there is no figure; JSON shows null.
        let mean_of = |of| mean(of).unwrap_or(f64::NAN);
        merged.messages_per_entry = mean_of(|report| Some(report.messages_per_entry));
        merged.multicasts_per_entry = mean_of(|report| Some(report.multicasts_per_entry));
        merged.bytes_per_entry = mean_of(|report| Some(report.bytes_per_entry));
        merged.client_delay = mean(|report| report.client_delay);
        merged.sync_delay = mean(|report| report.sync_delay);
        merged.throughput = mean_of(|report| Some(report.throughput));
        merged.utilisation = mean_of(|report| Some(report.utilisation));
        merged.jain = mean_of(|report| Some(report.jain));
        merged.waiting_time = self.mean_quantiles(|report| report.waiting_time);
        merged.response_time = self.mean_quantiles(|report| report.response_time);
        let reports = || self.reports.iter();
        merged.entries = reports().map(|report| report.entries).sum();
        merged.max_bypass = reports().map(|report| report.max_bypass).max().unwrap_or(0);
        merged.violations = reports().flat_map(|report| report.violations.clone()).collect();
        merged.violation_count = reports().map(|report| report.violation_count).sum();
        merged.violations_by_property = BTreeMap::new();
        for (property, count) in reports().flat_map(|report| &report.violations_by_property) {
            *merged.violations_by_property.entry(property).or_default() += count;
        }
        merged.trace_hash = combined(reports().map(|report| report.trace_hash.as_str()));
        merged.events = self.events();
        merged
    }

    /// Quantiles over all runs: the mean of each, the longest of all.
    fn mean_quantiles(&self, of: impl Fn(&Report) -> Option<Quantiles>) -> Option<Quantiles> {
        let all: Vec<_> = self.reports.iter().filter_map(of).collect();
        let mean =
            |figure: fn(&Quantiles) -> f64| all.iter().map(figure).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Quantiles {
            mean: mean(|times| times.mean),
            p50: mean(|times| times.p50),
            p90: mean(|times| times.p90),
            p99: mean(|times| times.p99),
            max: all.iter().map(|times| times.max).fold(0.0, f64::max),
        })
    }

    pub(super) fn json(&self, per_node: bool) -> Json<'_> {
        let mut report = self.merged();
        if !per_node {
            report.per_node.clear();
        }
        let several = self.reports.len() > 1;
        let intervals = MEASURES.iter().filter(|_| several);
        Json {
            report,
            runs: self.reports.len(),
            seeds: self.reports.iter().map(|report| report.seed).collect(),
            events_per_second: self.events_per_second(),
            theory: &self.theory,
            no_theory: self.no_theory,
            intervals: intervals
                .filter_map(|measure| Some((measure.name, self.interval(measure)?)))
                .collect(),
        }
    }
}
