//! The ranking: every candidate simulated, the best first.

use anyhow::Result;
use indicatif::ProgressBar;
use mutua_algorithms::{Claim, NodeId};
use mutua_simulator::{Distribution, Interval, Outage, Plan, Report, Workload, simulate};
use serde::Serialize;

use super::{
    By, Situation,
    candidates::{Candidate, Excluded},
};
use crate::{
    exit::usage,
    parallel,
    plot::number,
    verdict::{self, FEWEST_ENTRIES, Failure, counted},
};

/// Whoever is off the best by at most this share is taken to be as good, and messages, then bytes
/// decide.
pub(super) const EQUAL: f64 = 0.02;

/// How many events a run may have.
const MAX_EVENTS: u64 = 2_000_000;

/// So many processes at most are let fail, one at a time.
const FAILURES: u32 = 12;

/// All candidates, the best first, those that failed last.
#[derive(Serialize)]
pub(super) struct Ranking {
    pub(super) by: &'static str,
    /// Within which share of the best one is as good.
    pub(super) tolerance: f64,
    /// None if all have failed.
    pub(super) winner: Option<String>,
    pub(super) ranking: Vec<Ranked>,
    pub(super) excluded: Vec<Excluded>,
}

/// A candidate and its figures: means over the runs, times in seconds. There are none of what was
/// not measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Ranked {
    pub(super) candidate: String,
    pub(super) algorithm: &'static str,
    /// Whether it broke a promise or did not get far enough; it is not to be taken then.
    pub(super) failed: bool,
    /// Why, in words.
    pub(super) reasons: Vec<String>,
    pub(super) wait: Option<f64>,
    pub(super) wait_half_width: Option<f64>,
    pub(super) wait_p99: Option<f64>,
    /// Which share of the requests found nobody inside or waiting.
    pub(super) found_free: Option<f64>,
    /// The wait of those.
    pub(super) client_delay: Option<f64>,
    pub(super) sync_delay: Option<f64>,
    pub(super) messages: Option<f64>,
    pub(super) far_messages: Option<f64>,
    pub(super) bytes: Option<f64>,
    pub(super) throughput: Option<f64>,
    pub(super) utilisation: Option<f64>,
    pub(super) max_bypass: u64,
    pub(super) violations: u64,
    /// Of how many processes the loss of one was tried, and how often that stopped others.
    pub(super) failures_tried: u32,
    pub(super) failures_fatal: u32,
}

impl Ranking {
    pub(super) fn new(
        situation: &Situation,
        candidates: Vec<Candidate>,
        excluded: Vec<Excluded>,
    ) -> Result<Self> {
        let bar = ProgressBar::new(candidates.len() as u64);
        let mut ranking = Vec::new();
        parallel::each(
            &candidates,
            |one| measure(situation, one),
            |_, ranked| {
                bar.inc(1);
                ranking.push(ranked.map_err(usage)?);
                Ok(())
            },
        )?;
        bar.finish_and_clear();
        // Threads get ready in any order.
        ranking.sort_by(|a, b| a.candidate.cmp(&b.candidate));
        order(&mut ranking, situation);
        Ok(Self {
            by: situation.by.text(),
            tolerance: EQUAL,
            winner: ranking.iter().find(|one| !one.failed).map(|one| one.candidate.clone()),
            ranking,
            excluded,
        })
    }

    /// Those that may be taken, the best first.
    pub(super) fn fit(&self) -> &[Ranked] {
        let fit = self.ranking.iter().take_while(|one| !one.failed).count();
        &self.ranking[..fit]
    }

    /// Those that failed.
    pub(super) fn failed(&self) -> &[Ranked] {
        &self.ranking[self.fit().len()..]
    }

    /// The first ones, which are as good as each other but for their messages.
    pub(super) fn equals(&self, situation: &Situation) -> &[Ranked] {
        let fit = self.fit();
        let best = fit.iter().filter(|one| one.fatal(situation) == fit[0].fatal(situation));
        let best = best.map(|one| situation.by.of(one)).fold(f64::INFINITY, f64::min);
        let equal = |one: &&Ranked| {
            one.fatal(situation) == fit[0].fatal(situation) && is_equal(situation.by.of(one), best)
        };
        &fit[..fit.iter().take_while(equal).count()]
    }
}

/// Whether a figure is as good as the best.
fn is_equal(found: f64, best: f64) -> bool {
    found <= best * (1.0 + EQUAL)
}

impl By {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Wait => "mean wait",
            Self::Tail => "wait that 1 in 100 exceeds",
            Self::Messages => "messages per entry",
            Self::Far => "messages between regions per entry",
        }
    }

    /// What counts of one; more than everything else if it is not known.
    pub(super) fn of(self, ranked: &Ranked) -> f64 {
        let figure = match self {
            Self::Wait => ranked.wait,
            Self::Tail => ranked.wait_p99,
            Self::Messages => ranked.messages,
            Self::Far => ranked.far_messages,
        };
        figure.unwrap_or(f64::INFINITY)
    }
}

/// The best first. Of those that are as good as the best, those that send less go first; all others
/// stand in the order of what counts.
fn order(ranking: &mut [Ranked], situation: &Situation) {
    let class = |one: &Ranked| (one.failed, one.fatal(situation));
    // What one measured until it failed is nothing to compare; they stay in the order of names.
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

fn measure(situation: &Situation, candidate: &Candidate) -> Result<Ranked, String> {
    let mut reports = Vec::new();
    for number in 0..situation.runs {
        let mut plan = Plan::new(
            candidate.setup.clone(),
            situation.network.clone(),
            situation.workload.clone(),
            situation.entries,
        );
        plan.seed = situation.seed.wrapping_add(number);
        plan.max_events = MAX_EVENTS;
        reports.push(play(candidate, &plan)?);
    }
    let mut ranked = Ranked::new(candidate, &reports, situation.entries);
    if situation.may_fail {
        (ranked.failures_tried, ranked.failures_fatal) = failures(situation, candidate)?;
    }
    Ok(ranked)
}

fn play(candidate: &Candidate, plan: &Plan) -> Result<Report, String> {
    let report = simulate(candidate.about.name, plan).ok_or("no such algorithm")?;
    report.map_err(|error| format!("{}: {error}", candidate.title()))
}

/// Lets one process after the other be gone from the beginning, and looks whether all others still
/// get in. A dedicated coordinator is one of those that may be gone.
fn failures(situation: &Situation, candidate: &Candidate) -> Result<(u32, u32), String> {
    let dedicated = candidate.setup.settings.get("coordinator") == Some("dedicated");
    let processes = situation.nodes + u32::from(dedicated);
    let tried = processes.min(FAILURES);
    let mut fatal = 0;
    for number in 0..tried {
        // Spread over all, the last one included.
        let node = number * (processes - 1) / tried.saturating_sub(1).max(1);
        let mut network = situation.network.clone();
        network.outages.push(Outage { node: NodeId(node), from: 0, until: None });
        let workload = Workload::saturated(Distribution::Constant(1_000_000));
        let entries = 4 * u64::from(situation.nodes);
        let mut plan = Plan::new(candidate.setup.clone(), network, workload, entries);
        plan.warm_up = Some(0);
        plan.max_events = 1_000_000;
        let report = play(candidate, &plan)?;
        let stopped = |claim| matches!(claim, Claim::DeadlockFree | Claim::Liveness);
        fatal += u32::from(report.violations.iter().any(|one| stopped(one.property)));
    }
    Ok((tried, fatal))
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
            failures_tried: 0,
            failures_fatal: 0,
        }
    }

    /// How many single failures stop the others, where that counts.
    fn fatal(&self, situation: &Situation) -> u32 {
        if situation.may_fail { self.failures_fatal } else { 0 }
    }
}

/// Why a candidate is not to be taken; nothing if it may be.
fn reasons(reports: &[Report], wanted: u64) -> Vec<String> {
    let broken = verdict::failures(reports);
    let least = reports.iter().map(|report| report.entries).min().unwrap_or(0);
    if !broken.is_empty() || least >= wanted.min(FEWEST_ENTRIES) {
        return broken.iter().map(Failure::to_string).collect();
    }
    let events = number(MAX_EVENTS as f64);
    vec![format!("after {events} events a run had measured only {}", counted(least, "entry"))]
}
