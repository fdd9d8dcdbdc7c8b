//! What is compared: the cells of the grid, and how one is measured.

use mutua_algorithms::{About, Kind, Setup, registry};
use mutua_simulator::{
    Distribution, Interval, Load, Network, Plan, Quantiles, Report, TheoryLoad, Who, Workload,
    simulate,
};
use serde::{Deserialize, Serialize};

use super::results::Task;
use crate::{
    durations, parallel, size,
    verdict::{self, Failure},
};

/// One system under one load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) algorithm: String,
    pub(super) nodes: u32,
    pub(super) load: CellLoad,
    pub(super) hold: String,
    pub(super) latency: String,
}

/// The load of a cell.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CellLoad {
    /// One request at a time.
    Light,
    /// Everybody always wants in.
    Saturated,
    /// Everybody rests so long that together they ask for this share of the time.
    Offered(f64),
}

impl CellLoad {
    pub(super) fn text(self) -> String {
        match self {
            Self::Light => "light".to_owned(),
            Self::Saturated => "saturated".to_owned(),
            Self::Offered(share) => format!("{share}"),
        }
    }

    pub(super) fn theory(self) -> Option<TheoryLoad> {
        match self {
            Self::Light => Some(TheoryLoad::Light),
            Self::Saturated => Some(TheoryLoad::Saturated),
            Self::Offered(_) => None,
        }
    }
}

/// How exactly a cell is measured.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Effort {
    pub(super) entries: u64,
    pub(super) runs: u64,
    pub(super) seed: u64,
    pub(super) max_events: u64,
}

/// What a cell has shown: means over its runs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Figures {
    pub(super) messages: Option<Stat>,
    pub(super) multicasts: Option<Stat>,
    pub(super) bytes: Option<Stat>,
    pub(super) client_delay: Option<Stat>,
    pub(super) sync_delay: Option<Stat>,
    pub(super) waiting: Quantities,
    pub(super) response: Quantities,
    pub(super) throughput: Option<Stat>,
    pub(super) utilisation: Option<Stat>,
    pub(super) jain: Option<Stat>,
    pub(super) max_bypass: u64,
    pub(super) violations: u64,
    pub(super) entries: u64,
    pub(super) events: u64,
    /// Whether a run was cut off before it had entries enough for a mean; there are no means then.
    pub(super) cut_off: bool,
    /// Whether a run stood still before its end; there are no means then.
    pub(super) stopped: bool,
    /// What did not hold.
    pub(super) failures: Vec<Failure>,
    /// Why there is nothing.
    pub(super) refused: Option<String>,
}

/// A mean and the half width of its 95 % interval.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Stat {
    pub(super) mean: f64,
    pub(super) half_width: Option<f64>,
}

/// A time that differs from entry to entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Quantities {
    pub(super) mean: Option<Stat>,
    pub(super) p50: Option<Stat>,
    pub(super) p90: Option<Stat>,
    pub(super) p99: Option<Stat>,
}

/// The algorithms to compare: those named, or all that are not kept to be found broken.
pub(super) fn mutexes(names: &[&'static About]) -> Vec<&'static About> {
    let all = registry::ALGORITHMS.iter().copied();
    all.filter(|about| about.kind == Kind::Mutex)
        .filter(|about| match names {
            [] => !about.control,
            names => names.iter().any(|one| one.name == about.name),
        })
        .collect()
}

impl Task for Cell {
    type Figures = Figures;

    fn measure(&self, effort: &Effort) -> Figures {
        let plan = match self.plan(effort) {
            Ok(plan) => plan,
            Err(why) => return Figures { refused: Some(why), ..Figures::default() },
        };
        let mut reports = Vec::new();
        for number in 0..effort.runs {
            let plan = Plan { seed: effort.seed.wrapping_add(number), ..plan.clone() };
            match simulate(&self.algorithm, &plan) {
                Some(Ok(report)) => reports.push(report),
                Some(Err(error)) => {
                    return Figures { refused: Some(error.to_string()), ..Figures::default() };
                }
                None => {
                    let refused = Some("no such algorithm".to_owned());
                    return Figures { refused, ..Figures::default() };
                }
            }
        }
        Figures::of(&reports, self.enough(&plan), plan.entries)
    }

    fn title(&self) -> String {
        format!("{} of {}", self.algorithm, self.nodes)
    }
}

impl Cell {
    /// So many entries a run must have measured to say anything: some for everybody.
    fn enough(&self, plan: &Plan) -> u64 {
        plan.entries.min(verdict::FEWEST_ENTRIES.max(2 * u64::from(self.nodes)))
    }

    fn plan(&self, effort: &Effort) -> Result<Plan, String> {
        let fits = |about| size::refusal(about, &Setup::new(self.nodes), parallel::workers());
        if let Some(why) = registry::about(&self.algorithm).and_then(fits) {
            return Err(why);
        }
        let hold = durations::distribution(&self.hold)?;
        let latency = durations::distribution(&self.latency)?;
        let workload = match self.load {
            CellLoad::Light => Workload::light(self.nodes, latency.mean(), hold),
            CellLoad::Saturated => Workload::saturated(hold),
            CellLoad::Offered(share) => {
                let mean = hold.mean() * f64::from(self.nodes) / share;
                let think = Distribution::Exponential { mean: mean as u64 };
                Workload { load: Load::Think(think), who: Who::All, hold }
            }
        };
        let setup = Setup::new(self.nodes);
        let mut plan = Plan::new(setup, Network::new(latency), workload, effort.entries);
        plan.max_events = effort.max_events;
        if self.load == CellLoad::Saturated {
            // Whole rounds, so that everyone's entries come in their proportion.
            plan.entries = effort.entries.div_ceil(u64::from(self.nodes)) * u64::from(self.nodes);
        }
        Ok(plan)
    }
}

impl Figures {
    fn of(reports: &[Report], enough: u64, wanted: u64) -> Self {
        let stopped = reports.iter().any(|one| one.entries < wanted && verdict::stopped(one));
        let cut_off = !stopped && reports.iter().any(|report| report.entries < enough);
        // What so few entries show is mostly how the run began, so it is not shown as measured.
        let used = if cut_off || stopped { &[] } else { reports };
        let stat = |of: fn(&Report) -> Option<f64>| stat(used, of);
        Self {
            messages: stat(|report| Some(report.messages_per_entry)),
            multicasts: stat(|report| Some(report.multicasts_per_entry)),
            bytes: stat(|report| Some(report.bytes_per_entry)),
            client_delay: stat(|report| report.client_delay),
            sync_delay: stat(|report| report.sync_delay),
            waiting: Quantities::of(used, |report| report.waiting_time),
            response: Quantities::of(used, |report| report.response_time),
            throughput: stat(|report| Some(report.throughput)),
            utilisation: stat(|report| Some(report.utilisation)),
            jain: stat(|report| Some(report.jain)),
            max_bypass: used.iter().map(|report| report.max_bypass).max().unwrap_or(0),
            violations: reports.iter().map(|report| report.violation_count).sum(),
            entries: reports.iter().map(|report| report.entries).sum(),
            events: reports.iter().map(|report| report.events).sum(),
            cut_off,
            stopped,
            failures: verdict::failures(reports),
            refused: None,
        }
    }
}

impl Figures {
    /// The worst bypass, where the runs were long enough to show any.
    pub(super) fn bypass(&self) -> Option<Stat> {
        self.jain.map(|_| Stat { mean: self.max_bypass as f64, half_width: None })
    }
}

impl Quantities {
    fn of(reports: &[Report], times: fn(&Report) -> Option<Quantiles>) -> Self {
        let all = |of: fn(Quantiles) -> f64| stat(reports, |report| times(report).map(of));
        Self {
            mean: all(|times| times.mean),
            p50: all(|times| times.p50),
            p90: all(|times| times.p90),
            p99: all(|times| times.p99),
        }
    }
}

fn stat(reports: &[Report], of: impl Fn(&Report) -> Option<f64>) -> Option<Stat> {
    let samples: Vec<_> = reports.iter().filter_map(of).collect();
    Interval::of(&samples).map(|found| Stat { mean: found.mean, half_width: found.half_width })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(algorithm: &str, nodes: u32) -> Cell {
        let (hold, latency) = ("1ms".to_owned(), "1ms".to_owned());
        Cell { algorithm: algorithm.to_owned(), nodes, load: CellLoad::Saturated, hold, latency }
    }

    #[test]
    fn a_cell_that_was_cut_off_has_no_means() {
        let effort = Effort { entries: 1000, runs: 2, seed: 1, max_events: 50_000 };
        let cut = cell("bakery", 30).measure(&effort);
        assert!(cut.cut_off && cut.entries < 2 * 100 && cut.events > 0, "{cut:?}");
        assert!(cut.messages.is_none() && cut.sync_delay.is_none() && cut.jain.is_none());
        let whole = cell("le-lann", 30).measure(&effort);
        assert!(!whole.cut_off && whole.messages.is_some(), "{whole:?}");
    }

    #[test]
    fn a_cell_that_stood_still_has_no_means_and_was_not_cut_off() {
        let effort = Effort { entries: 500, runs: 2, seed: 1, max_events: 3_000_000 };
        let stuck = cell("maekawa-basic", 10).measure(&effort);
        assert!(stuck.stopped && !stuck.cut_off && stuck.messages.is_none(), "{stuck:?}");
        assert!(stuck.failures.iter().any(|one| one.what.contains("deadlock")), "{stuck:?}");
    }

    #[test]
    fn a_cell_that_does_not_fit_into_memory_is_left_out_with_a_note() {
        let effort = Effort { entries: 10, runs: 1, seed: 1, max_events: 50_000 };
        let refused = cell("lamport", 100_000).measure(&effort);
        assert!(refused.bypass().is_none() && refused.jain.is_none(), "{refused:?}");
        let refused = refused.refused.expect("a reason");
        assert!(refused.contains("give fewer nodes"), "{refused}");
        assert!(cell("raymond", 1000).measure(&effort).refused.is_none());
    }

    #[test]
    fn a_short_run_that_was_asked_for_is_whole() {
        let effort = Effort { entries: 10, runs: 1, seed: 1, max_events: 50_000 };
        assert!(!cell("central", 5).measure(&effort).cut_off);
    }
}
