//! Runs that go on until the system is in a steady state: figures of another one are no result.

use mutua_algorithms::StartError;
use mutua_simulator::{Plan, Report};

/// Plays a run. If its warm-up was cut short and the estimate of a whole one is at most `allowed`
/// events, it is played again with a longer one; if not, or if that was not enough, the report says
/// that the system has not settled. `estimate` is a lower bound from elsewhere.
pub(crate) fn play(
    plan: &Plan,
    allowed: u64,
    estimate: u64,
    play: impl Fn(&Plan) -> Result<Report, StartError>,
) -> Result<Report, StartError> {
    let report = play(plan)?;
    match report.settling_events.map(|events| events.max(estimate)) {
        Some(needed) if needed <= allowed => {
            let mut plan = plan.clone();
            // The estimate may be short: the entries of a tree cost more once it has settled.
            let warm_up = needed.saturating_add(needed / 4).min(allowed);
            plan.warm_up_events = Some(warm_up);
            plan.max_events = (plan.max_events - plan.max_events / 3).saturating_add(warm_up);
            play(&plan)
        }
        Some(_) | None => Ok(report),
    }
}
