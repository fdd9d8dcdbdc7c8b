//! The lines of a run with a repair.

use std::collections::BTreeMap;

use mutua_algorithms::{About, repairs};
use mutua_simulator::{Cause, Change, Detector, HitCrash, RepairPlan, RepairReport, Repaired};

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
        let holds = "mutual exclusion, agreement, liveness of survivors and fencing hold";
        return vec![format!("checks       {holds}")];
    }
    let line = |violation: &mutua_simulator::Violation| {
        let (name, seed) = (violation.property.name(), of_seed(violation, 1));
        let at = durations::show(violation.at as f64);
        format!("VIOLATION    {name}, {seed}at {at}: {}", violation.what)
    };
    violations.iter().take(5).map(line).collect()
}

/// The lines of each of the first repairs, and one for all others.
fn repairs_of(plan: &RepairPlan, report: &RepairReport) -> Vec<String> {
    let mut lines = missing_crashes(plan, report);
    let all = &report.repairs;
    lines.extend(all.iter().take(LISTED).enumerate().map(|(place, repaired)| {
        let is_last = all[place + 1..].iter().all(|later| later.how != "view");
        line(repaired, is_last, &report.hit)
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

/// A line for each crash that was asked for and did not happen.
fn missing_crashes(plan: &RepairPlan, report: &RepairReport) -> Vec<String> {
    let end = durations::show(report.ended_at as f64);
    let is_late = |from: u64| from > report.ended_at;
    let too_late = || format!("the run ended before, after {end} of virtual time");
    let by_id = plan.plan.network.outages.iter().filter(|outage| is_late(outage.from));
    let by_id = by_id.map(|outage| (outage.node.to_string(), outage.from, too_late()));
    let by_part = report.hit.iter().filter(|hit| hit.process.is_none()).map(|hit| {
        let part = if hit.part == "token" { "had the token".to_owned() } else { was(&hit.part) };
        let why = match is_late(hit.from) {
            true => too_late(),
            false => format!("no process {part} until the run ended, after {end} of virtual time"),
        };
        (hit.part.clone(), hit.from, why)
    });
    let line = |(of, from, why): (String, u64, String)| {
        format!("no crash     {of}@{}: {why}", durations::show(from as f64))
    };
    let mut lines: Vec<_> = by_id.chain(by_part).map(line).collect();
    let wanted = (plan.plan.network.outages.len() + plan.chosen.len()) as u64;
    let others = wanted.saturating_sub(report.crashes + lines.len() as u64);
    if others > 0 {
        let crashes = counted(others, "crash");
        lines.push(format!("no crash     {crashes} by id: the process was down already"));
    }
    lines
}

fn was(part: &str) -> String {
    match part {
        "holder" => "was in the critical section".to_owned(),
        part => format!("was {part}"),
    }
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

/// The lines of one repair, its times since the first of its causes.
fn line(repaired: &Repaired, is_last_view: bool, hit: &[HitCrash]) -> String {
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
    let causes: Vec<_> = repaired.causes.iter().map(|one| cause(one, hit)).collect();
    let since_first = if repaired.causes.len() > 1 { ", times since the first" } else { "" };
    let (first, last) = (since(repaired.suspended_at), since(repaired.resumed_at));
    let members = counted(repaired.members.into(), "process");
    let go = if repaired.members == 1 { "goes" } else { "go" };
    let steps = match (repaired.without, repaired.leader) {
        (None, leader) => format!(
            "suspended after {first}, view of {members} started by {} after {}, resumed after \
             {last}",
            leader.map_or("none".to_owned(), name),
            since(repaired.started_at),
        ),
        (Some(crashed), None) => {
            let time = if first == last {
                format!("after {first}")
            } else {
                format!("the first after {first}, the last after {last}")
            };
            format!("{members} {go} on without {}, {time}", name(crashed))
        }
        (Some(crashed), Some(by)) => format!(
            "{members} {go} on without {} after {first}, its part taken over by {} after {last}",
            name(crashed),
            name(by)
        ),
    };
    // In lines of their own, which fit a terminal and a slide.
    let indented = " ".repeat(13);
    format!(
        "view {:<7} {}{since_first}\n{indented}{steps}\n{indented}{entry}{stopped}",
        repaired.view,
        causes.join(", ")
    )
}

/// A process as pictures name it: a number alone would look like a count.
fn name(process: u32) -> String {
    format!("P{process}")
}

fn cause(cause: &Cause, hit: &[HitCrash]) -> String {
    let (of, at) = (name(cause.of), durations::show(cause.at as f64));
    match cause.what {
        Change::Crash => {
            let its = |hit: &&HitCrash| (hit.process, hit.at) == (Some(cause.of), Some(cause.at));
            format!("crash of {of}{} at {at}", hit.iter().find(its).map_or(String::new(), part))
        }
        Change::Restart => format!("restart of {of} at {at}"),
        Change::Suspicion => format!("wrong suspicion of {of} at {at}"),
        Change::Withdrawal => format!("suspicion of {of} withdrawn at {at}"),
    }
}

/// The part by which a process was chosen, and since when one with it was awaited.
fn part(hit: &HitCrash) -> String {
    let since = match hit.at {
        Some(at) if at > hit.from => {
            format!(", the first from {} on", durations::show(hit.from as f64))
        }
        Some(_) | None => String::new(),
    };
    format!(" ({}{since})", hit.part)
}
