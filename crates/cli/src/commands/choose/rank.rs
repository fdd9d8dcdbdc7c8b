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
use crate::{exit::usage, parallel};

/// Candidates whose figures differ by less are taken to be equal, and messages, then bytes decide.
const EQUAL: f64 = 0.02;

/// So many processes at most are let fail, one at a time.
const FAILURES: u32 = 12;

/// All candidates, the best first.
#[derive(Serialize)]
pub(super) struct Ranking {
    pub(super) by: &'static str,
    pub(super) winner: String,
    pub(super) ranking: Vec<Ranked>,
    pub(super) excluded: Vec<Excluded>,
}

/// A candidate and its figures: means over the runs, times in seconds.
#[derive(Clone, Serialize)]
pub(super) struct Ranked {
    pub(super) candidate: String,
    pub(super) algorithm: &'static str,
    pub(super) wait: f64,
    pub(super) wait_half_width: Option<f64>,
    pub(super) wait_p99: f64,
    /// The wait of those who found nobody inside or waiting.
    pub(super) client_delay: Option<f64>,
    pub(super) sync_delay: Option<f64>,
    pub(super) messages: f64,
    pub(super) far_messages: f64,
    pub(super) bytes: f64,
    pub(super) throughput: f64,
    pub(super) utilisation: f64,
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
            winner: ranking[0].candidate.clone(),
            ranking,
            excluded,
        })
    }
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

    pub(super) fn of(self, ranked: &Ranked) -> f64 {
        match self {
            Self::Wait => ranked.wait,
            Self::Tail => ranked.wait_p99,
            Self::Messages => ranked.messages,
            Self::Far => ranked.far_messages,
        }
    }
}

/// The best first: whoever is nearly as good as the best of those left and sends fewer messages
/// goes before it.
fn order(ranking: &mut [Ranked], situation: &Situation) {
    let fatal = |one: &Ranked| if situation.may_fail { one.failures_fatal } else { 0 };
    let broken = |one: &Ranked| one.violations > 0;
    for place in 0..ranking.len() {
        let rest = &ranking[place..];
        let class = |one: &Ranked| (broken(one), fatal(one));
        let Some(best_class) = rest.iter().map(class).min() else { return };
        let of_class = || rest.iter().enumerate().filter(|(_, one)| class(one) == best_class);
        let best = of_class().map(|(_, one)| situation.by.of(one)).fold(f64::MAX, f64::min);
        let near = of_class().filter(|(_, one)| situation.by.of(one) <= best * (1.0 + EQUAL));
        let cost = |one: &Ranked| (one.messages, one.bytes);
        let chosen = near.min_by(|a, b| {
            let ((messages, bytes), (others, their_bytes)) = (cost(a.1), cost(b.1));
            messages.total_cmp(&others).then(bytes.total_cmp(&their_bytes))
        });
        if let Some((offset, _)) = chosen {
            ranking[place..=place + offset].rotate_right(1);
        }
    }
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
        plan.seed = situation.seed + number;
        plan.max_events = 2_000_000;
        reports.push(play(candidate, &plan)?);
    }
    let mut ranked = Ranked::new(candidate, &reports);
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
    fn new(candidate: &Candidate, reports: &[Report]) -> Self {
        let interval = |of: &dyn Fn(&Report) -> Option<f64>| {
            let samples: Vec<_> = reports.iter().filter_map(of).collect();
            Interval::of(&samples)
        };
        let mean = |of: &dyn Fn(&Report) -> Option<f64>| interval(of).map(|found| found.mean);
        let figure = |of: fn(&Report) -> f64| mean(&|report| Some(of(report))).unwrap_or(0.0);
        let seconds = |times: Option<f64>, report: &Report| times.map(|t| t * report.mean_latency);
        let wait = interval(&|report| seconds(report.waiting_time.map(|times| times.mean), report));
        Self {
            candidate: candidate.title(),
            algorithm: candidate.about.name,
            wait: wait.map_or(f64::MAX, |found| found.mean),
            wait_half_width: wait.and_then(|found| found.half_width),
            wait_p99: mean(&|report| seconds(report.waiting_time.map(|times| times.p99), report))
                .unwrap_or(f64::MAX),
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
}
