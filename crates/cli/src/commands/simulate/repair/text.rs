//! The lines of a run with a repair.

use std::collections::BTreeMap;

use mutua_algorithms::{About, repairs};
use mutua_simulator::{Cause, Change, Detector, RepairPlan, RepairReport, Repaired};

use crate::{durations, verdict::of_seed, words::counted};

/// So many repairs have a line of their own.
const LISTED: usize = 10;

pub(super) fn all(about: &About, plan: &RepairPlan, report: &RepairReport) -> String {
    let mut lines = vec![heading(about, plan, report), String::new()];
    lines.extend(repairs_of(plan, report));
    for (purpose, kinds) in &report.messages_by_purpose {
        let total: u64 = kinds.values().sum();
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        lines.push(format!("messages     {purpose} {total}: {}", kinds.join(", ")));
    }
    let (before, after) = (report.entries_before, report.entries_after);
    lines.push(if report.crashes == 0 {
        format!("entries      {before}, warm-up included")
    } else {
        format!("entries      {before} before the first crash, {after} after it, warm-up included")
    });
    lines.push(format!(
        "lost         {}; {}",
        counted(report.requests_lost, "request"),
        counted(report.double_entries, "double entry")
    ));
    lines.extend(checks(report));
    lines.push(format!(
        "events       {} simulated; trace hash {}",
        report.report.events, report.report.trace_hash
    ));
    lines.join("\n") + "\n"
}

fn heading(about: &About, plan: &RepairPlan, report: &RepairReport) -> String {
    let control = if about.control { " (a negative control)" } else { "" };
    // What was asked for and what there is can differ.
    let none = if plan.special && !repairs::has_special(about.name) {
        format!(" ({} has no special repair)", about.name)
    } else {
        String::new()
    };
    format!(
        "{}{control}, {}, {} repair{none}, elections by {}, {}",
        about.title,
        counted(plan.plan.setup.nodes.into(), "process"),
        report.repair,
        report.election,
        detector(plan.detector)
    )
}

fn detector(detector: Detector) -> String {
    match detector {
        Detector::Perfect(delay) => {
            format!("crashes reported after {}", durations::show_distribution(&delay))
        }
        Detector::Timeout(limit) => format!(
            "a crash suspected after a silence of {}, with a heartbeat every {}",
            durations::show(limit as f64),
            durations::show(Detector::heartbeat(limit) as f64)
        ),
    }
}

fn checks(report: &RepairReport) -> Vec<String> {
    let violations = &report.report.violations;
    if violations.is_empty() {
        let holds = "mutual exclusion, liveness of survivors and fencing hold";
        return vec![format!("checks       {holds}")];
    }
    let line = |violation: &mutua_simulator::Violation| {
        let (name, seed) = (violation.property.name(), of_seed(violation, 1));
        let at = durations::show(violation.at as f64);
        format!("VIOLATION    {name}, {seed}at {at}: {}", violation.what)
    };
    violations.iter().take(5).map(line).collect()
}

/// A line for each of the first repairs, and one for all others.
fn repairs_of(plan: &RepairPlan, report: &RepairReport) -> Vec<String> {
    let mut lines = Vec::new();
    let wanted = (plan.plan.network.outages.len() + plan.chosen.len()) as u64;
    if report.crashes < wanted {
        lines.push(format!(
            "crashes      {} of {wanted}: the run ended after {} of virtual time",
            report.crashes,
            durations::show(report.ended_at as f64)
        ));
    }
    let all = &report.repairs;
    lines.extend(all.iter().take(LISTED).enumerate().map(|(place, repaired)| {
        let is_last = all[place + 1..].iter().all(|later| later.how != "view");
        line(repaired, is_last)
    }));
    match all.len() {
        0 if report.wrong_reports > 0 => lines.push(format!(
            "repairs      none: after {} no election led to a view",
            counted(report.wrong_reports, "wrong suspicion")
        )),
        0 if report.crashes >= u64::from(plan.plan.setup.nodes) => {
            lines.push("repairs      none: no process survived".to_owned());
        }
        0 if report.crashes > 0 => {
            lines.push("repairs      none: the run ended before a crash was repaired".to_owned());
        }
        0 => lines.push("repairs      none: no crash was reported".to_owned()),
        count if count > LISTED => lines.push(others(&all[LISTED..])),
        _ => {}
    }
    lines
}

/// The repairs that have no line, by what they follow.
fn others(repairs: &[Repaired]) -> String {
    let mut causes: BTreeMap<Change, u64> = BTreeMap::new();
    for cause in repairs.iter().flat_map(|repaired| &repaired.causes) {
        *causes.entry(cause.what).or_default() += 1;
    }
    let causes: Vec<_> = causes
        .into_iter()
        .map(|(what, count)| match what {
            Change::Crash => counted(count, "crash"),
            Change::Restart => counted(count, "restart"),
            Change::Suspicion => counted(count, "wrong suspicion"),
            Change::Withdrawal => format!("{} withdrawn", counted(count, "suspicion")),
        })
        .collect();
    let views = counted(repairs.len() as u64, "further repair");
    format!("...          {views}, after {} (all with --json)", causes.join(", "))
}

/// One repair, its times since the first of its causes.
fn line(repaired: &Repaired, is_last_view: bool) -> String {
    let since = |at: u64| durations::show(at.saturating_sub(repaired.changed_at) as f64);
    let entry = match repaired.entered_at {
        Some(at) => format!("first entry after {}", since(at)),
        None if is_last_view || repaired.how != "view" => {
            "no entry until the end of the run".to_owned()
        }
        None => "no entry before a later view".to_owned(),
    };
    let stopped = repaired.stopped_for().map_or(String::new(), |time| {
        format!(" (none for {} before it)", durations::show(time as f64))
    });
    let causes: Vec<_> = repaired.causes.iter().map(cause).collect();
    let counted = if repaired.causes.len() > 1 { ", times since the first" } else { "" };
    let (first, last) = (since(repaired.suspended_at), since(repaired.resumed_at));
    let steps = match (repaired.without, repaired.leader) {
        (None, leader) => format!(
            "suspended after {first}, view of {} started by {} after {}, resumed after {last}",
            repaired.members,
            leader.map_or("none".to_owned(), |leader| leader.to_string()),
            since(repaired.started_at),
        ),
        (Some(crashed), None) => {
            let time = if first == last {
                format!("after {first}")
            } else {
                format!("the first after {first}, the last after {last}")
            };
            format!("{} go on without {crashed}, {time}", repaired.members)
        }
        (Some(crashed), Some(by)) => format!(
            "{} go on without {crashed} after {first}, its part taken over by {by} after {last}",
            repaired.members
        ),
    };
    format!("view {:<7} {}{counted}: {steps}, {entry}{stopped}", repaired.view, causes.join(", "))
}

fn cause(cause: &Cause) -> String {
    let (of, at) = (cause.of, durations::show(cause.at as f64));
    match cause.what {
        Change::Crash => format!("crash of {of} at {at}"),
        Change::Restart => format!("restart of {of} at {at}"),
        Change::Suspicion => format!("wrong suspicion of {of} at {at}"),
        Change::Withdrawal => format!("suspicion of {of} withdrawn at {at}"),
    }
}
