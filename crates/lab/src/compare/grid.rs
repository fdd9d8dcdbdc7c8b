//! The cells of the grid and their measurement.

use mutua_algorithms::{About, Kind, Setup, StartError, registry};
use mutua_simulator::{
    Distribution, Interval, Plan, Quantiles, RegionsError, Report, Theory, TheoryLoad,
    simulate_watched, theory,
};
use serde::{Deserialize, Serialize};

use super::{
    clients::Clients,
    results::{OnEvents, Row, Task},
};
use crate::{
    durations::{self, DurationError},
    settle,
    size::{self, Run, TooLarge},
    verdict::{self, Failure},
};

/// One system under one load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// The algorithm.
    pub algorithm: String,
    /// How many processes contend.
    pub nodes: u32,
    /// The load.
    pub load: CellLoad,
    /// The hold time, a distribution as [`durations`] reads it.
    pub hold: String,
    /// The latency of messages, likewise.
    pub latency: String,
    /// The clients, and their regions.
    #[serde(default, skip_serializing_if = "Clients::is_usual")]
    pub clients: Clients,
}

/// The load of a cell.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CellLoad {
    /// One request at a time.
    Light,
    /// Every client requests again at its exit.
    Saturated,
    /// Clients think between requests, so that their hold times add up to this share of the time.
    Offered(f64),
}

impl CellLoad {
    /// The text in tables.
    pub fn text(self) -> String {
        match self {
            Self::Light => "light".to_owned(),
            Self::Saturated => "saturated".to_owned(),
            Self::Offered(share) => format!("{share}"),
        }
    }

    /// What is run, as far as it decides the memory.
    pub(super) fn run(self) -> Run {
        match self {
            Self::Light => Run::LIGHT,
            Self::Saturated | Self::Offered(_) => Run::BUSY,
        }
    }

    /// The load of the formulas, if there are any for it.
    pub fn theory(self) -> Option<TheoryLoad> {
        match self {
            Self::Light => Some(TheoryLoad::Light),
            Self::Saturated => Some(TheoryLoad::Saturated),
            Self::Offered(_) => None,
        }
    }
}

/// The effort with which a cell is measured.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Effort {
    /// How many entries a run measures.
    pub entries: u64,
    /// How many runs there are, a seed each.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// How many events a run may have, its warm-up included where that settles within a third of
    /// them.
    pub max_events: u64,
    /// How many events a warm-up may have: a run that has not settled within the first third of
    /// `max_events` is repeated with a longer warm-up, if that is estimated to be enough.
    pub warm_up_events: u64,
}

impl Default for Effort {
    /// 10,000 entries and 3 runs of at most 3 million events, or 20 million more to settle.
    fn default() -> Self {
        let (max_events, warm_up_events) = (3_000_000, 20_000_000);
        Self { entries: 10_000, runs: 3, seed: 1, max_events, warm_up_events }
    }
}

/// The figures of a cell: means over its runs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Figures {
    /// Messages per entry.
    pub messages: Option<Stat>,
    /// The same, a multicast counting as one.
    pub multicasts: Option<Stat>,
    /// Bytes per entry.
    pub bytes: Option<Stat>,
    /// From request to entry where no other process was in the critical section or waiting, in mean
    /// latencies.
    pub client_delay: Option<Stat>,
    /// From an exit to the next entry, in mean latencies.
    pub sync_delay: Option<Stat>,
    /// From request to entry, in mean latencies.
    pub waiting: Quantities,
    /// From request to exit, in mean latencies.
    pub response: Quantities,
    /// Entries per second.
    pub throughput: Option<Stat>,
    /// The share of the time in which a process is in the critical section.
    pub utilisation: Option<Stat>,
    /// Jain's index of fairness.
    pub jain: Option<Stat>,
    /// The most entries of others between a request and its entry.
    pub max_bypass: u64,
    /// How many violations there were in all runs.
    pub violations: u64,
    /// How many entries all runs have measured.
    pub entries: u64,
    /// How many events all runs had.
    pub events: u64,
    /// Whether a run was cut off before it had enough entries for a mean; there are no means then.
    pub cut_off: bool,
    /// How many events a warm-up would take until the system has settled, if that is more than it
    /// may take; there are no means then.
    pub unsettled: Option<u64>,
    /// Whether requests arrived faster than they were granted, in an open system; there are no
    /// means then.
    #[serde(default)]
    pub overloaded: bool,
    /// Whether a run deadlocked or starved a process before its end; there are no means then.
    pub stopped: bool,
    /// The properties that were violated.
    pub failures: Vec<Failure>,
    /// Why it was not measured, if it was not.
    pub refused: Option<String>,
}

/// A mean and the half width of its 95 % interval.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Stat {
    /// The mean.
    pub mean: f64,
    /// The half width; none of a single run.
    pub half_width: Option<f64>,
}

/// A time that differs from entry to entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Quantities {
    /// Its mean.
    pub mean: Option<Stat>,
    /// Half of the entries take at most this.
    pub p50: Option<Stat>,
    /// 90 % of the entries take at most this.
    pub p90: Option<Stat>,
    /// 99 % of the entries take at most this.
    pub p99: Option<Stat>,
}

type SimulationResult = Result<Report, StartError>;

/// Why a cell cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Regions(#[from] RegionsError),
    #[error(transparent)]
    Duration(#[from] DurationError),
}

/// The algorithms to compare: those named, or all but the negative controls.
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

    fn measure(&self, effort: &Effort, memory: u64, watch: &OnEvents<'_>) -> Figures {
        let plan = match self.plan(effort, memory) {
            Ok(plan) => plan,
            Err(why) => {
                return Figures { refused: Some(why.to_string()), ..Figures::default() };
            }
        };
        let mut reports = Vec::new();
        for number in 0..effort.runs {
            let plan = Plan { seed: effort.seed.wrapping_add(number), ..plan.clone() };
            match self.settled(&plan, effort, memory, watch) {
                Ok(report) => reports.push(report),
                Err(error) => {
                    return Figures { refused: Some(error.to_string()), ..Figures::default() };
                }
            }
        }
        if reports.iter().any(|report| report.overloaded) {
            // Waits grow with the run: no mean of it is a result.
            return Figures { overloaded: true, ..Figures::default() };
        }
        let mut figures = Figures::of(&reports, self.enough(&plan), plan.entries);
        let settling = || self.settling_events(memory);
        figures.unsettled = figures.unsettled.map(|events| events.max(settling()));
        figures
    }

    fn is_measured(figures: &Figures) -> bool {
        figures.refused.is_none()
    }

    fn title(&self) -> String {
        format!("{} of {}", self.algorithm, self.nodes)
    }
}

impl Cell {
    /// The load of the formulas, if there are any for this cell.
    pub fn theory_load(&self) -> Option<TheoryLoad> {
        self.load.theory().filter(|_| self.clients.is_usual())
    }

    /// The formulas, where what they assume holds: constant latency, and at saturated load a hold
    /// time of at least half of it.
    pub fn theory(&self) -> Theory {
        let (hold, latency) =
            (durations::distribution(&self.hold), durations::distribution(&self.latency));
        let (Ok(hold), Ok(Distribution::Constant(latency)), Some(load)) =
            (hold, latency, self.theory_load())
        else {
            return Theory::default();
        };
        if load == TheoryLoad::Saturated && hold.mean() < latency as f64 / 2.0 {
            return Theory::default();
        }
        theory(&self.algorithm, &Setup::new(self.nodes), load)
    }

    /// How many events the warm-up takes by the formula for messages; 0 where there is none, or
    /// where the system does not fit into so many bytes.
    pub fn settling_events(&self, memory: u64) -> u64 {
        let Some(load) = self.theory_load() else { return 0 };
        let Ok(plan) = self.plan(&Effort::default(), memory) else { return 0 };
        let messages = theory(&self.algorithm, &plan.setup, load).messages;
        // Beside the messages, an entry has a request and an exit.
        let events = messages.map_or(0.0, |messages| messages.value + 2.0);
        (plan.settling() as f64 * events) as u64
    }

    /// A run that goes on until the system has settled, if that is allowed.
    fn settled(
        &self,
        plan: &Plan,
        effort: &Effort,
        memory: u64,
        watch: &OnEvents<'_>,
    ) -> SimulationResult {
        settle::play(plan, effort.warm_up_events, self.settling_events(memory), |plan| {
            let mut before = 0;
            let result = simulate_watched(&self.algorithm, plan, None, &mut |_, events| {
                watch(events - before);
                before = events;
            });
            let unknown = || Err(StartError::new("unknown algorithm"));
            let report = result.unwrap_or_else(unknown)?;
            watch(report.events - before);
            Ok(report)
        })
    }

    /// The entries that a run must have measured for a mean: some of every process.
    fn enough(&self, plan: &Plan) -> u64 {
        plan.entries.min(verdict::FEWEST_ENTRIES.max(2 * u64::from(self.nodes)))
    }

    fn plan(&self, effort: &Effort, memory: u64) -> Result<Plan, PlanError> {
        if let Some(about) = registry::about(&self.algorithm) {
            size::check(about, &Setup::new(self.nodes), self.load.run(), memory)?;
        }
        let hold = durations::distribution(&self.hold)?;
        let latency = durations::distribution(&self.latency)?;
        let network = self.clients.network(self.nodes, latency)?;
        let workload = self.clients.workload(self.nodes, self.load, &network, hold);
        let mut plan = Plan::new(Setup::new(self.nodes), network, workload, effort.entries);
        plan.max_events = effort.max_events;
        if self.load == CellLoad::Saturated {
            // Whole rounds, so that every process has its share of the entries.
            plan.entries = effort.entries.div_ceil(u64::from(self.nodes)) * u64::from(self.nodes);
        }
        Ok(plan)
    }
}

impl Figures {
    fn of(reports: &[Report], enough: u64, wanted: u64) -> Self {
        let stopped = reports.iter().any(|one| one.entries < wanted && verdict::stopped(one));
        let cut_off = !stopped && reports.iter().any(|report| report.entries < enough);
        let settling = reports.iter().filter_map(|report| report.settling_events).max();
        let unsettled = settling.filter(|_| !stopped && !cut_off);
        // A few entries mostly reflect the start of the run, so they are not shown as a
        // measurement, and neither are those of a system that has not settled.
        let used = if cut_off || stopped || unsettled.is_some() { &[] } else { reports };
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
            unsettled,
            overloaded: false,
            stopped,
            failures: verdict::failures(reports),
            refused: None,
        }
    }
}

impl Row {
    /// The formulas of a cell that was measured. Those of one that does not fit into memory would
    /// not fit either: some are evaluated on a tree of all processes.
    pub(super) fn theory(&self) -> Theory {
        if self.figures.refused.is_some() { Theory::default() } else { self.cell.theory() }
    }
}

impl Figures {
    /// The worst bypass; none where the runs were too short for means.
    pub fn bypass(&self) -> Option<Stat> {
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

    const MEMORY: u64 = 4 << 30;

    fn cell(algorithm: &str, nodes: u32) -> Cell {
        let (hold, latency) = ("1ms".to_owned(), "1ms".to_owned());
        let (algorithm, clients) = (algorithm.to_owned(), Clients::default());
        Cell { algorithm, nodes, load: CellLoad::Saturated, hold, latency, clients }
    }

    #[test]
    fn a_cell_that_was_cut_off_has_no_means() {
        let effort = Effort {
            entries: 1000,
            runs: 2,
            max_events: 50_000,
            warm_up_events: 10_000,
            ..Effort::default()
        };
        let cut = cell("bakery", 30).measure(&effort, MEMORY, &|_| ());
        assert!(cut.cut_off && cut.entries < 2 * 100 && cut.events > 0, "{cut:?}");
        assert!(cut.messages.is_none() && cut.sync_delay.is_none() && cut.jain.is_none());
        let whole = cell("le-lann", 30).measure(&effort, MEMORY, &|_| ());
        assert!(!whole.cut_off && whole.messages.is_some(), "{whole:?}");
    }

    #[test]
    fn a_cell_that_deadlocked_has_no_means_and_was_not_cut_off() {
        let effort = Effort { entries: 500, runs: 2, max_events: 3_000_000, ..Effort::default() };
        let stuck = cell("maekawa-basic", 10).measure(&effort, MEMORY, &|_| ());
        assert!(stuck.stopped && !stuck.cut_off && stuck.messages.is_none(), "{stuck:?}");
        assert!(stuck.failures.iter().any(|one| one.what.contains("deadlock")), "{stuck:?}");
    }

    #[test]
    fn a_cell_that_does_not_fit_into_memory_is_left_out_with_a_note() {
        let effort = Effort { entries: 10, runs: 1, max_events: 50_000, ..Effort::default() };
        let refused = cell("lamport", 100_000).measure(&effort, MEMORY, &|_| ());
        assert!(refused.bypass().is_none() && refused.jain.is_none(), "{refused:?}");
        let refused = refused.refused.expect("a reason");
        assert!(refused.contains(" GiB: give at most "), "{refused}");
        assert!(cell("raymond", 1000).measure(&effort, MEMORY, &|_| ()).refused.is_none());
    }

    #[test]
    fn a_short_run_that_was_requested_is_not_cut_off() {
        let effort = Effort { entries: 10, runs: 1, max_events: 50_000, ..Effort::default() };
        assert!(!cell("central", 5).measure(&effort, MEMORY, &|_| ()).cut_off);
    }

    #[test]
    fn a_cell_that_has_not_settled_has_no_means_and_says_what_they_would_cost() {
        let mut light = cell("naimi-trehel", 300);
        light.load = CellLoad::Light;
        let effort = Effort {
            entries: 600,
            runs: 2,
            max_events: 15_000,
            warm_up_events: 20_000,
            ..Effort::default()
        };
        let unsettled = light.measure(&effort, MEMORY, &|_| ());
        assert!(unsettled.messages.is_none() && unsettled.bypass().is_none(), "{unsettled:?}");
        assert!(!unsettled.cut_off && !unsettled.stopped, "{unsettled:?}");
        // 10 N entries of H(N-1) messages, a request and an exit.
        let needed = unsettled.unsettled.expect("a cost");
        assert!((20_000..40_000).contains(&needed), "{needed}");
        // With that allowed, the run goes on until it has settled.
        let watched = std::sync::atomic::AtomicU64::new(0);
        let watch = |events| {
            watched.fetch_add(events, std::sync::atomic::Ordering::Relaxed);
        };
        let settled =
            light.measure(&Effort { warm_up_events: 2 * needed, ..effort }, MEMORY, &watch);
        assert_eq!(settled.unsettled, None);
        let harmonic: f64 = (1..300).map(|k| 1.0 / f64::from(k)).sum();
        let messages = settled.messages.expect("a mean").mean;
        assert!((messages / harmonic - 1.0).abs() < 0.05, "{messages} {harmonic}");
        assert!(watched.into_inner() > settled.events, "the first runs count too");
    }
}
