//! Runs that go on until the system is in a steady state: figures of another one are no result.

use mutua_algorithms::StartError;
use mutua_simulator::{Plan, Report};

/// Plays a run. If its warm-up was cut short and the estimate of a whole one is at most `allowed`
/// events, it is played again with a longer one, up to these; if that is not enough, the report
/// says that the system has not settled. `estimate` is a lower bound from elsewhere.
pub(crate) fn play(
    plan: &Plan,
    allowed: u64,
    estimate: u64,
    play: impl Fn(&Plan) -> Result<Report, StartError>,
) -> Result<Report, StartError> {
    let mut report = play(plan)?;
    let mut tried = 0;
    while let Some(needed) = report.settling_events.map(|events| events.max(estimate)) {
        if needed > allowed || tried >= allowed {
            break;
        }
        // The estimate may be short: the entries of a tree cost more once it has settled.
        tried = needed.saturating_add(needed / 4).max(2 * tried).min(allowed);
        let mut longer = plan.clone();
        longer.warm_up_events = Some(tried);
        longer.max_events = (plan.max_events - plan.max_events / 3).saturating_add(tried);
        report = play(&longer)?;
    }
    Ok(report)
}
