//! Crashes of processes: how often one is fatal to the others.
//!
//! A crash is fatal if afterwards a process that is up waits for ever, or two are in the critical
//! section at once. Whether it is depends on the phase in which it meets the process, so many
//! crashes are simulated of every candidate.

use mutua_algorithms::{Claim, NodeId};
use mutua_simulator::{Outage, Plan, Random};

use super::{
    Situation,
    candidates::Candidate,
    rank::{RankError, Ranked, play},
};
use crate::verdict;

/// How many crashes are simulated of every candidate.
const TRIALS: u32 = 100;

/// A run with a crash has at least so many entries, and this many of every process.
const FEWEST: u64 = 50;
const OF_EACH: u64 = 4;

/// How many events a run with a crash may have.
const MAX_EVENTS: u64 = 20_000_000;

/// How many crashes were simulated, and how many were fatal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Crashes {
    pub(super) tried: u32,
    pub(super) fatal: u32,
}

impl Crashes {
    /// The 95 % interval of the share of fatal ones (Wilson, JASA 22, 1927).
    pub(super) fn interval(self) -> (f64, f64) {
        const Z: f64 = 1.96;
        let (n, share) = (f64::from(self.tried), f64::from(self.fatal) / f64::from(self.tried));
        let middle = share + Z * Z / (2.0 * n);
        let width = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let bound = |value: f64| (value / (1.0 + Z * Z / n)).clamp(0.0, 1.0);
        // Rounding must not leave the share itself out.
        (bound(middle - width).min(share), bound(middle + width).max(share))
    }
}

/// Simulates the crashes of the situation with many seeds. If it has none, each run has one crash,
/// of a process and at a time drawn for it, the same for every candidate. `usual` has the
/// candidate's figures without crashes.
pub(super) fn of(
    situation: &Situation,
    candidate: &Candidate,
    usual: &Ranked,
) -> Result<Crashes, RankError> {
    let mut fatal = 0;
    for plan in trials(situation, candidate, usual) {
        let report = play(candidate, &plan)?;
        let unsafe_after =
            report.violations.iter().any(|one| one.property == Claim::MutualExclusion);
        let stopped = verdict::stopped(&report) || report.entries < plan.entries;
        fatal += u32::from(unsafe_after || stopped);
    }
    Ok(Crashes { tried: TRIALS, fatal })
}

/// The runs, each with its crashes.
pub(super) fn trials(
    situation: &Situation,
    candidate: &Candidate,
    usual: &Ranked,
) -> impl Iterator<Item = Plan> {
    let dedicated = candidate.setup.settings.get("coordinator") == Some("dedicated");
    let processes = situation.nodes + u32::from(dedicated);
    let mut random = Random::new(situation.seed, 9);
    (0..TRIALS).map(move |number| {
        let (process, time) = (random.unit(), random.unit());
        let mut plan = plan(situation, candidate, usual);
        plan.seed = situation.seed.wrapping_add(u64::from(number));
        if plan.network.outages.is_empty() {
            let node = NodeId((process * f64::from(processes)) as u32);
            // In the first half, so that a stop of the others is seen.
            let from = (time * time_of(plan.entries, usual) / 2.0) as u64;
            plan.network.outages.push(Outage { node, from, until: None });
        }
        plan
    })
}

/// A run that is long enough to see what a crash does.
fn plan(situation: &Situation, candidate: &Candidate, usual: &Ranked) -> Plan {
    let network = situation.network.clone();
    let last = network.outages.iter().map(|outage| outage.until.unwrap_or(outage.from)).max();
    let before = last.unwrap_or(0) as f64 / time_of(1, usual).max(1.0);
    let after = FEWEST.max(OF_EACH * u64::from(situation.nodes));
    let events = usual.messages.unwrap_or(0.0) + 3.0;
    let most = (MAX_EVENTS as f64 / 4.0 / events) as u64;
    let entries = (before.ceil() as u64).saturating_add(after).min(most).max(1);
    let workload = situation.workload.clone();
    let mut plan = Plan::new(candidate.setup.clone(), network, workload, entries);
    plan.warm_up = Some(0);
    // Enough for the run without a crash; after a fatal one messages may go round for ever.
    plan.max_events = (4.0 * entries as f64 * events) as u64 + 200_000;
    plan
}

/// The mean time of so many entries without a crash, in nanoseconds.
fn time_of(entries: u64, usual: &Ranked) -> f64 {
    let throughput = usual.throughput.filter(|throughput| *throughput > 0.0).unwrap_or(1.0);
    entries as f64 / throughput * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        let near = |fatal, low: f64, high: f64| {
            let found = Crashes { tried: 50, fatal }.interval();
            assert!((found.0 - low).abs() < 0.001 && (found.1 - high).abs() < 0.001, "{found:?}");
        };
        near(21, 0.294, 0.558);
        near(0, 0.0, 0.071);
        near(50, 0.929, 1.0);
    }
}
