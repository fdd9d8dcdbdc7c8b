//! Crashes that are repaired: the time and the messages that each costs.
//!
//! The runs are those of [`super::crashes`], the same processes and times, with the algorithm's own
//! repair where that suffices and else with an election and a view change.

use mutua_algorithms::{Claim, repairs::ElectionName};
use mutua_simulator::{
    Detector, Distribution, Interval, RepairPlan, RepairReport, simulate_repaired,
};

use super::{
    Situation,
    candidates::Candidate,
    crashes,
    rank::{RankError, Ranked, start_error},
};

/// Crashes are reported after so many mean latencies.
pub const DETECTION: f64 = 5.0;

/// What the crashes cost that were simulated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// How many of them were fatal all the same.
    pub(super) fatal: u32,
    /// The time without entries beyond the usual one, in seconds.
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
pub(super) fn of(
    situation: &Situation,
    candidate: &Candidate,
    usual: &Ranked,
) -> Result<Costs, RankError> {
    let usual_gap = 1.0 / usual.throughput.filter(|rate| *rate > 0.0).unwrap_or(1.0);
    let (mut fatal, mut lost, mut messages) = (0, Vec::new(), Vec::new());
    for plan in crashes::trials(situation, candidate, usual) {
        let latency = plan.network.mean_latency();
        let entries = plan.entries;
        let plan = RepairPlan {
            plan,
            election: ElectionName::default(),
            special: true,
            chosen: Vec::new(),
            detector: Detector::Perfect(Distribution::Constant((DETECTION * latency) as u64)),
            transmission: None,
            handling: None,
        };
        let report = simulate_repaired(candidate.about.name, &plan, None);
        let report = report.expect("a candidate is in the registry");
        let report = report.map_err(|why| start_error(candidate, why))?;
        let two_in_cs =
            report.report.violations.iter().any(|one| one.property == Claim::MutualExclusion);
        if two_in_cs || report.report.entries < entries {
            fatal += 1;
        } else {
            let stopped = report.repairs.first().and_then(|repaired| repaired.stopped_for());
            lost.push(stopped.map_or(0.0, |time| (time as f64 / 1e9 - usual_gap).max(0.0)));
            messages.push(sent(&report) as f64);
        }
    }
    let mean = Interval::of(&messages).map(|found| found.mean);
    Ok(Costs { fatal, lost: Interval::of(&lost), messages: mean })
}

fn sent(report: &RepairReport) -> u64 {
    let of = |purpose| report.messages_by_purpose.get(purpose);
    ["election", "repair"].into_iter().filter_map(of).flat_map(|kinds| kinds.values()).sum()
}
