//! The ranking: every candidate simulated, the best first.

use mutua_algorithms::StartError;
use mutua_simulator::{Interval, Network, Plan, Report, simulate};
use serde::Serialize;

use super::{
    By, Situation,
    candidates::{self, Candidate, Excluded},
    crashes::{self, Crashes},
    repaired::{self, Costs},
};
use crate::{
    settle,
    size::TooLarge,
    verdict::{self, FEWEST_ENTRIES, Failure},
    words::{counted, number, seconds},
    workers::Workers,
};

/// Candidates within this share of the best count as equal, and messages, then bytes decide.
pub const EQUAL: f64 = 0.02;

/// How many events a run may have.
const MAX_EVENTS: u64 = 2_000_000;

/// How many events a warm-up may have that does not settle within a third of these.
const WARM_UP_EVENTS: u64 = 20_000_000;

/// All candidates, the best first, those that failed last.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// The criterion, in words.
    pub by: &'static str,
    /// The share within which a candidate counts as equal to the best.
    pub tolerance: f64,
    /// The best candidate; none if all have failed.
    pub winner: Option<String>,
    /// The candidates.
    pub ranking: Vec<Ranked>,
    /// The algorithms that do not fit.
    pub excluded: Vec<Excluded>,
}

/// A candidate and its figures: means over the runs, times in seconds; none where nothing was
/// measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ranked {
    /// Its title.
    pub candidate: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Whether it violated a property or measured too few entries, so that it cannot be chosen.
    pub failed: bool,
    /// The reasons of the failure.
    pub reasons: Vec<String>,
    /// The mean time from request to entry.
    pub wait: Option<f64>,
    /// The half width of its 95 % interval.
    pub wait_half_width: Option<f64>,
    /// The 99th percentile of the time from request to entry.
    pub wait_p99: Option<f64>,
    /// The share of requests that found the critical section free and no process waiting.
    pub found_free: Option<f64>,
    /// The mean wait of those.
    pub client_delay: Option<f64>,
    /// From an exit to the next entry.
    pub sync_delay: Option<f64>,
    /// Messages per entry.
    pub messages: Option<f64>,
    /// Messages between regions per entry.
    pub far_messages: Option<f64>,
    /// Bytes per entry.
    pub bytes: Option<f64>,
    /// Entries per second.
    pub throughput: Option<f64>,
    /// The share of the time in which a process is in the critical section.
    pub utilisation: Option<f64>,
    /// The most entries of others between a request and its entry.
    pub max_bypass: u64,
    /// How many violations there were in all runs.
    pub violations: u64,
    /// How many crashes were simulated.
    pub failures_tried: u32,
    /// How many of them were fatal: afterwards a process that was up waited for ever, or two were
    /// in the critical section.
    pub failures_fatal: u32,
    /// The 95 % interval of the share of fatal ones; none where no crash was simulated.
    pub failures_interval: Option<(f64, f64)>,
    /// How many of the crashes were fatal although they were repaired.
    pub repaired_fatal: u32,
    /// The mean time without entries that a repaired crash costs, beyond the usual time between
    /// two; none where no repair was simulated.
    pub lost_time: Option<f64>,
    /// The half width of its 95 % interval.
    pub lost_time_half_width: Option<f64>,
    /// The mean number of messages of an election and a repair.
    pub repair_messages: Option<f64>,
    /// The rule in a node's configuration that selects this candidate.
    pub locks: String,
    /// Whether crashes are clearly worse for it than for the best: 0 if not, else a number that
    /// grows with the fatal crashes or, with repairs, with the lost time.
    #[serde(skip)]
    pub risk: u32,
}

/// Why there is no ranking.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// Every algorithm is excluded.
    #[error("no algorithm fits: drop the requirement of ordered entries, or use FIFO links")]
    NoneFits,
    /// No algorithm that would fit the situation fits into memory; this is the smallest.
    #[error("no algorithm fits into memory: {0}")]
    TooLarge(TooLarge),
    /// A candidate cannot be simulated.
    #[error("{candidate}: {why}")]
    Start {
        /// The candidate.
        candidate: String,
        /// The error of its system.
        why: StartError,
    },
}

/// The progress of a ranking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// How many candidates have been simulated.
    pub done: usize,
    /// How many candidates there are.
    pub of: usize,
}

impl Ranking {
    /// Simulates every candidate; `progress` is called before the first and after each.
    pub fn new(
        situation: &Situation,
        workers: &impl Workers,
        mut progress: impl FnMut(Progress),
    ) -> Result<Self, RankError> {
        let (candidates, excluded) = candidates::all(situation, workers.memory())?;
        let of = candidates.len();
        progress(Progress { done: 0, of });
        let mut ranking = Vec::new();
        workers.each(
            &candidates,
            |one| measure(situation, one),
            |_, ranked| {
                ranking.push(ranked?);
                progress(Progress { done: ranking.len(), of });
                Ok(())
            },
        )?;
        // Several workers finish in any order.
        ranking.sort_by(|a, b| a.candidate.cmp(&b.candidate));
        if situation.has_repairs() {
            judge_costs(&mut ranking);
        } else {
            judge_risks(&mut ranking);
        }
        order(&mut ranking, situation);
        Ok(Self {
            by: situation.by.text(),
            tolerance: EQUAL,
            winner: ranking.iter().find(|one| !one.failed).map(|one| one.candidate.clone()),
            ranking,
            excluded,
        })
    }

    /// The candidates that did not fail, the best first.
    pub fn fit(&self) -> &[Ranked] {
        let fit = self.ranking.iter().take_while(|one| !one.failed).count();
        &self.ranking[..fit]
    }

    /// The candidates that failed.
    pub fn failed(&self) -> &[Ranked] {
        &self.ranking[self.fit().len()..]
    }

    /// The first candidates, which are equal but for their messages.
    pub fn equals(&self, situation: &Situation) -> &[Ranked] {
        let fit = self.fit();
        if situation.has_repairs() {
            // Lost time and messages decide, not the criterion.
            return &fit[..fit.len().min(1)];
        }
        let best = fit.iter().filter(|one| one.risk == fit[0].risk);
        let best = best.map(|one| situation.by.of(one)).fold(f64::INFINITY, f64::min);
        let equal = |one: &&Ranked| one.risk == fit[0].risk && is_equal(situation.by.of(one), best);
        &fit[..fit.iter().take_while(equal).count()]
    }
}

/// Whether a figure counts as equal to the best.
fn is_equal(found: f64, best: f64) -> bool {
    found <= best * (1.0 + EQUAL)
}

impl By {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Wait => "mean wait",
            Self::Tail => "99th percentile of the wait",
            Self::Messages => "messages per entry",
            Self::Far => "messages between regions per entry",
        }
    }

    /// The candidate's figure for this criterion; infinite if it was not measured.
    pub fn of(self, ranked: &Ranked) -> f64 {
        let figure = match self {
            Self::Wait => ranked.wait,
            Self::Tail => ranked.wait_p99,
            Self::Messages => ranked.messages,
            Self::Far => ranked.far_messages,
        };
        figure.unwrap_or(f64::INFINITY)
    }
}

/// Candidates whose interval of fatal crashes reaches that of the safest are as safe as it.
fn judge_risks(ranking: &mut [Ranked]) {
    let fit = ranking.iter().filter(|one| !one.failed);
    let safest = fit.min_by_key(|one| one.failures_fatal).and_then(|one| one.failures_interval);
    for one in ranking {
        let is_safe = one.failures_interval.zip(safest).is_none_or(|(own, best)| own.0 <= best.1);
        one.risk = if is_safe && !one.failed { 0 } else { one.failures_fatal };
    }
}

/// Candidates whose interval of the lost time reaches that of the best are as good as it; a crash
/// that is fatal in spite of its repair is worse than any lost time.
fn judge_costs(ranking: &mut [Ranked]) {
    let interval = |one: &Ranked| {
        let (mean, width) = (one.lost_time?, one.lost_time_half_width.unwrap_or(0.0));
        Some((mean - width, mean + width))
    };
    let safe = ranking.iter().filter(|one| !one.failed && one.repaired_fatal == 0);
    let best = safe.filter_map(interval).min_by(|a, b| a.1.total_cmp(&b.1));
    for one in ranking {
        let own = interval(one);
        let is_as_good = own.zip(best).is_some_and(|(own, best)| own.0 <= best.1);
        let microseconds = one.lost_time.unwrap_or(f64::INFINITY) * 1e6;
        one.risk = match one.repaired_fatal {
            0 if is_as_good => 0,
            // Conversion saturates.
            0 => (microseconds as u32).clamp(1, u32::MAX / 2),
            fatal => u32::MAX / 2 + fatal,
        };
    }
}

/// Sorts the best first. Of candidates equal to the best, those that send less come first; all
/// others are in the order of the criterion.
fn order(ranking: &mut [Ranked], situation: &Situation) {
    let class = |one: &Ranked| (one.failed, one.risk);
    if situation.has_repairs() {
        let messages = |one: &Ranked| one.repair_messages.unwrap_or(f64::INFINITY);
        let by = |one: &Ranked| situation.by.of(one);
        ranking.sort_by(|a, b| {
            let cost = class(a).cmp(&class(b)).then(messages(a).total_cmp(&messages(b)));
            cost.then(by(a).total_cmp(&by(b)))
        });
        return;
    }
    // The figures of a failed candidate cannot be compared: these stay in the order of names.
    let of = |one: &Ranked| if one.failed { f64::INFINITY } else { situation.by.of(one) };
    ranking.sort_by(|a, b| class(a).cmp(&class(b)).then(of(a).total_cmp(&of(b))));
    let Some((best, first)) = ranking.first().map(|best| (of(best), class(best))) else { return };
    let equal = |one: &&Ranked| !one.failed && class(one) == first && is_equal(of(one), best);
    let equals = ranking.iter().take_while(equal).count();
    let cost = |figure: Option<f64>| figure.unwrap_or(f64::INFINITY);
    ranking[..equals].sort_by(|a, b| {
        let messages = cost(a.messages).total_cmp(&cost(b.messages));
        messages.then(cost(a.bytes).total_cmp(&cost(b.bytes)))
    });
}

fn measure(situation: &Situation, candidate: &Candidate) -> Result<Ranked, RankError> {
    let mut reports = Vec::new();
    // Crashes are simulated apart, many of them: the figures are those without.
    let network = Network { outages: Vec::new(), ..situation.network.clone() };
    for number in 0..situation.runs {
        let mut plan = Plan::new(
            candidate.setup.clone(),
            network.clone(),
            situation.workload.clone(),
            situation.entries,
        );
        plan.seed = situation.seed.wrapping_add(number);
        plan.max_events = MAX_EVENTS;
        let name = candidate.about.name;
        let report = settle::play(&plan, WARM_UP_EVENTS, 0, |plan| {
            simulate(name, plan).expect("a candidate is in the registry")
        });
        reports.push(report.map_err(|why| start_error(candidate, why))?);
    }
    let mut ranked = Ranked::new(candidate, &reports, situation.entries);
    if situation.has_crashes() && !ranked.failed {
        ranked.crashes(situation, crashes::of(situation, candidate, &ranked)?);
    }
    if situation.has_repairs() && !ranked.failed {
        ranked.repairs(repaired::of(situation, candidate, &ranked)?);
    }
    Ok(ranked)
}

pub(super) fn play(candidate: &Candidate, plan: &Plan) -> Result<Report, RankError> {
    let report = simulate(candidate.about.name, plan).expect("a candidate is in the registry");
    report.map_err(|why| start_error(candidate, why))
}

pub(super) fn start_error(candidate: &Candidate, why: StartError) -> RankError {
    RankError::Start { candidate: candidate.title(), why }
}

impl Ranked {
    fn new(candidate: &Candidate, reports: &[Report], wanted: u64) -> Self {
        let interval = |of: &dyn Fn(&Report) -> Option<f64>| {
            let samples: Vec<_> = reports.iter().filter_map(of).collect();
            Interval::of(&samples)
        };
        let mean = |of: &dyn Fn(&Report) -> Option<f64>| interval(of).map(|found| found.mean);
        let figure = |of: fn(&Report) -> f64| mean(&|report| Some(of(report)));
        let seconds = |times: Option<f64>, report: &Report| times.map(|t| t * report.mean_latency);
        let wait = interval(&|report| seconds(report.waiting_time.map(|times| times.mean), report));
        let reasons = reasons(reports, wanted);
        Self {
            candidate: candidate.title(),
            algorithm: candidate.about.name,
            failed: !reasons.is_empty(),
            reasons,
            wait: wait.map(|found| found.mean),
            wait_half_width: wait.and_then(|found| found.half_width),
            wait_p99: mean(&|report| seconds(report.waiting_time.map(|times| times.p99), report)),
            found_free: figure(|report| report.found_free as f64 / report.entries as f64),
            client_delay: mean(&|report| seconds(report.client_delay, report)),
            sync_delay: mean(&|report| seconds(report.sync_delay, report)),
            messages: figure(|report| report.messages_per_entry),
            far_messages: figure(|report| report.far_messages_per_entry),
            bytes: figure(|report| report.bytes_per_entry),
            throughput: figure(|report| report.throughput),
            utilisation: figure(|report| report.utilisation),
            max_bypass: reports.iter().map(|report| report.max_bypass).max().unwrap_or(0),
            violations: reports.iter().map(|report| report.violation_count).sum(),
            locks: candidate.rule(),
            ..Self::default()
        }
    }

    /// Adds the crashes that were simulated. A candidate fails if a crash that the situation names
    /// was ever fatal.
    fn crashes(&mut self, situation: &Situation, crashes: Crashes) {
        (self.failures_tried, self.failures_fatal) = (crashes.tried, crashes.fatal);
        self.failures_interval = Some(crashes.interval());
        let repaired = situation.has_repairs();
        if !situation.network.outages.is_empty() && crashes.fatal > 0 && !repaired {
            self.failed = true;
            self.reasons.push(self.fatal_crashes());
        }
    }

    /// Adds what the crashes cost with their repair.
    fn repairs(&mut self, costs: Costs) {
        self.repaired_fatal = costs.fatal;
        self.lost_time = costs.lost.map(|lost| lost.mean);
        self.lost_time_half_width = costs.lost.and_then(|lost| lost.half_width);
        self.repair_messages = costs.messages;
    }

    /// What a repaired crash costs, in words; none where no repair was simulated.
    pub fn cost_of_crash(&self) -> Option<String> {
        let (lost, messages) = (self.lost_time?, self.repair_messages?);
        let width = self
            .lost_time_half_width
            .map_or_else(String::new, |width| format!(" +-{}", seconds(width)));
        Some(format!(
            "a crash with its repair costs {}{width} and {} {}",
            seconds(lost),
            number(messages),
            if messages == 1.0 { "message" } else { "messages" }
        ))
    }

    /// How many crashes were fatal, with the interval of their share.
    pub fn fatal_crashes(&self) -> String {
        let (low, high) = self.failures_interval.unwrap_or((0.0, 1.0));
        format!(
            "{} of {} crashes are fatal ({:.0} to {:.0} %)",
            self.failures_fatal,
            self.failures_tried,
            100.0 * low,
            100.0 * high
        )
    }
}

/// Why a candidate failed; empty if it did not.
fn reasons(reports: &[Report], wanted: u64) -> Vec<String> {
    let violated = verdict::failures(reports);
    let settling = reports.iter().filter_map(|report| report.settling_events).max();
    if let Some(settling) = settling.filter(|_| violated.is_empty()) {
        let (events, allowed) = (number(settling as f64), number(WARM_UP_EVENTS as f64));
        return vec![if settling > WARM_UP_EVENTS {
            format!(
                "a run settles after about {events} events, more than the {allowed} of a warm-up"
            )
        } else {
            format!("a run had not settled after the {allowed} events of a warm-up")
        }];
    }
    let least = reports.iter().map(|report| report.entries).min().unwrap_or(0);
    if !violated.is_empty() || least >= wanted.min(FEWEST_ENTRIES) {
        return violated.iter().map(Failure::to_string).collect();
    }
    let events = number(MAX_EVENTS as f64);
    vec![format!("after {events} events a run had measured only {}", counted(least, "entry"))]
}
