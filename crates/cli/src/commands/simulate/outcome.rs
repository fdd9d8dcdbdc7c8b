//! The runs of all seeds together.

use std::{collections::BTreeMap, time::Duration};

use mutua_algorithms::About;
use mutua_simulator::{Expected, Interval, Plan, Report, Theory, TheoryLoad, theory};
use serde::Serialize;

use super::{merge::merged, replay::Short};

/// The reports of all seeds, with the theory.
pub(super) struct Outcome {
    pub(super) theory: Theory,
    /// Why there is no theory for this situation, if so.
    pub(super) no_theory: Option<&'static str>,
    pub(super) reports: Vec<Report>,
    time: Duration,
}

/// A measure: its name, its value in a report, and its value in theory.
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
        title: "utilisation of the CS",
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

/// Waiting and response time have percentiles too, and are shown apart.
pub(super) const WAITING: Measure = Measure {
    name: "waiting_time",
    title: "waiting time, T",
    of: |report| report.waiting_time.map(|times| times.mean),
    expected: |_| None,
};
pub(super) const RESPONSE: Measure = Measure {
    name: "response_time",
    title: "response time, T",
    of: |report| report.response_time.map(|times| times.mean),
    expected: |_| None,
};

/// The output of `--json`: the first run's report, with means over all runs where they exist.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    #[serde(flatten)]
    report: Report,
    /// The situation in a sentence.
    situation: String,
    runs: usize,
    /// The seeds of the runs; `trace_hash` is over the hashes of all of them, in this order.
    seeds: Vec<u64>,
    events_per_second: f64,
    theory: &'a Theory,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_theory: Option<&'static str>,
    /// `seeds`, or for a single run `batch means`.
    interval_method: &'static str,
    /// Means with 95 % confidence intervals.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    intervals: BTreeMap<&'static str, Interval>,
    /// Of several runs, the values of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    per_seed: Vec<BTreeMap<&'static str, f64>>,
    /// With `--shrink`, if a property is violated: a short run that violates it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    shrunk: Option<&'a Short>,
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

    /// A measure over all seeds; of a single run, with the interval from batch means.
    pub(super) fn interval(&self, measure: &Measure) -> Option<Interval> {
        let samples: Vec<_> = self.reports.iter().filter_map(measure.of).collect();
        let mut interval = Interval::of(&samples)?;
        if let [single] = self.reports.as_slice() {
            interval.half_width = single.half_widths.get(measure.name).copied();
        }
        Some(interval)
    }

    /// Whether further runs make no figure right: means of an overloaded system grow with the run,
    /// and those of one that has not settled are of its beginning.
    pub(super) fn has_no_steady_state(&self) -> bool {
        let unsettled = |report: &Report| report.overloaded || report.unsettled_before.is_some();
        self.reports.iter().any(unsettled)
    }

    /// Whether the intervals of the main measures are at most this wide, as a share of their means.
    pub(super) fn is_within(&self, precision: f64) -> bool {
        if self.has_no_steady_state() {
            return false;
        }
        let main = ["messages_per_entry", "throughput"];
        let main = MEASURES.iter().filter(|measure| main.contains(&measure.name));
        main.chain([&WAITING]).all(|measure| {
            let interval = self.interval(measure);
            // A measure that has no value, since there was no entry, gets none by further runs.
            interval.is_none_or(|found| {
                found.half_width.is_some_and(|width| width <= precision * found.mean.abs())
            })
        })
    }

    /// The values of all measures in each run.
    fn per_seed(&self) -> Vec<BTreeMap<&'static str, f64>> {
        let measures = || MEASURES.iter().chain([&WAITING, &RESPONSE]);
        let values = |report: &Report| {
            let values = measures().filter_map(|one| Some((one.name, (one.of)(report)?)));
            std::iter::once(("seed", report.seed as f64)).chain(values).collect()
        };
        self.reports.iter().map(values).collect()
    }

    pub(super) fn events(&self) -> u64 {
        self.reports.iter().map(|report| report.events).sum()
    }

    pub(super) fn events_per_second(&self) -> f64 {
        self.events() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// All runs as one report.
    pub(super) fn merged(&self) -> Report {
        merged(&self.reports)
    }

    /// The method of the intervals.
    pub(super) fn interval_method(&self) -> &'static str {
        if self.reports.len() > 1 { "seeds" } else { "batch means" }
    }

    pub(super) fn json<'a>(
        &'a self,
        per_node: bool,
        situation: String,
        shrunk: Option<&'a Short>,
    ) -> Json<'a> {
        let mut report = self.merged();
        if !per_node {
            report.per_node.clear();
        }
        let known = |measure: &Measure| {
            let interval = self.interval(measure)?;
            interval.half_width.map(|_| (measure.name, interval))
        };
        Json {
            report,
            situation,
            shrunk,
            runs: self.reports.len(),
            per_seed: if self.reports.len() > 1 { self.per_seed() } else { Vec::new() },
            seeds: self.reports.iter().map(|report| report.seed).collect(),
            events_per_second: self.events_per_second(),
            theory: &self.theory,
            no_theory: self.no_theory,
            interval_method: self.interval_method(),
            intervals: MEASURES.iter().chain([&WAITING, &RESPONSE]).filter_map(known).collect(),
        }
    }
}
