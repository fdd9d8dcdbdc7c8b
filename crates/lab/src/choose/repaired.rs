//! Crashes that are repaired: the time and the messages that each costs.
//!
//! The runs are those of [`super::crashes`], the same processes and times, with the algorithm's own
//! repair where that suffices and else with an election and a view change.

use mutua_algorithms::{Claim, repairs::ElectionName};
use mutua_simulator::{
    Detector, Distribution, Interval, RepairPlan, RepairReport, Repaired, simulate_repaired,
};

use super::{
    Situation,
    candidates::Candidate,
    crashes,
    rank::{RankError, Ranked, start_error},
};
use crate::size::Run;

/// Crashes are reported after so many mean latencies.
pub const DETECTION: f64 = 5.0;

/// The election of the repairs, the default one.
const ELECTION: ElectionName = ElectionName::Bully;

/// What is run, as far as it decides the memory.
pub(super) const RUN: Run = Run::Repaired { election: ELECTION, heartbeats: false };

/// What the crashes cost that were simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// How many of them were fatal all the same.
    pub(super) fatal: u32,
    /// The time without entries beyond that of the same run without the crash, in seconds.
    pub(super) lost: Option<Interval>,
    /// The messages of the election and the repair.
    pub(super) messages: Option<f64>,
}

/// Whether the links are as repairs need them: every message arrives once, in order.
pub(super) fn applies(situation: &Situation) -> bool {
    let network = &situation.network;
    let reliable = network.loss == 0.0 && network.duplication == 0.0;
    situation.may_fail && reliable && network.fifo && network.partitions.is_empty()
}

/// Simulates the crashes with their repair. `usual` has the candidate's figures without crashes.
///
/// Entries do not come at equal times, and a moment lies rather in a long gap between two than in a
/// short one. So what a crash costs is not its gap less the mean one, but less the gap around the
/// same moment in the same run without the crash.
pub(super) fn of(
    situation: &Situation,
    candidate: &Candidate,
    usual: &Ranked,
) -> Result<Costs, RankError> {
    let (mut fatal, mut lost, mut messages) = (0, Vec::new(), Vec::new());
    for plan in crashes::trials(situation, candidate, usual) {
        let latency = plan.network.mean_latency();
        let entries = plan.entries;
        let plan = RepairPlan {
            plan,
            election: ELECTION,
            special: true,
            chosen: Vec::new(),
            detector: Detector::Perfect(Distribution::Constant((DETECTION * latency) as u64)),
            transmission: None,
            handling: None,
            gap_at: None,
        };
        let report = play(candidate, &plan)?;
        let two_in_cs =
            report.report.violations.iter().any(|one| one.property == Claim::MutualExclusion);
        if two_in_cs || report.report.entries < entries {
            fatal += 1;
        } else {
            lost.push(match report.repairs.first() {
                Some(repaired) => lost_in(candidate, plan, repaired)?,
                None => 0.0,
            });
            messages.push(sent(&report) as f64);
        }
    }
    let mean = Interval::of(&messages).map(|found| found.mean);
    Ok(Costs { fatal, lost: Interval::of(&lost), messages: mean })
}

fn play(candidate: &Candidate, plan: &RepairPlan) -> Result<RepairReport, RankError> {
    let report = simulate_repaired(candidate.about.name, plan, None);
    let report = report.expect("a candidate is in the registry");
    report.map_err(|why| start_error(candidate, why))
}

/// The seconds without entries around a repair, beyond those around the same moment in the run
/// without the crash.
fn lost_in(
    candidate: &Candidate,
    mut plan: RepairPlan,
    repaired: &Repaired,
) -> Result<f64, RankError> {
    let Some(stopped) = repaired.stopped_for() else { return Ok(0.0) };
    plan.plan.network.outages.clear();
    plan.gap_at = Some(repaired.started_at);
    let usual = play(candidate, &plan)?.gap.unwrap_or(0);
    Ok((stopped as f64 - usual as f64) / 1e9)
}

fn sent(report: &RepairReport) -> u64 {
    let of = |purpose| report.messages_by_purpose.get(purpose);
    ["election", "repair"].into_iter().filter_map(of).flat_map(|kinds| kinds.values()).sum()
}
