//! What a check has found, for people and for programs.

use mutua_checker::{Report, Search, Stop, Task, Trail, Verdict};
use serde_json::{Value, json};

/// The report as one object.
pub(crate) fn json(task: &Task, report: &Report, unreduced: Option<&Report>) -> Value {
    let limited = |search: &Search| search.is_limited();
    let mut object = json!({
        "algorithm": task.name,
        "nodes": task.system.setup.nodes,
        "entries": task.system.entries,
        "states": report.searches.first().map_or(0, |search| search.states),
        "complete": !report.searches.iter().any(limited),
        "seconds": report.searches.iter().map(|search| search.seconds).sum::<f64>(),
        "properties": report.verdicts.iter().map(verdict_json).collect::<Vec<_>>(),
        "searches": report.searches.iter().map(search_json).collect::<Vec<_>>(),
        "reductions": reductions(report),
        "goals": report.goals.iter().map(|goal| json!({
            "name": goal.name,
            "reached": goal.reached,
        })).collect::<Vec<_>>(),
    });
    if let Some(unreduced) = unreduced {
        let states = unreduced.searches.first().map_or(0, |search| search.states);
        object["states_unreduced"] = states.into();
        object["searches_unreduced"] = unreduced.searches.iter().map(search_json).collect();
    }
    object
}

/// What was merged or left out in any of the searches.
fn reductions(report: &Report) -> Vec<&str> {
    let mut all = Vec::new();
    for reduction in report.searches.iter().flat_map(|search| &search.reductions) {
        if !all.contains(&reduction.as_str()) {
            all.push(reduction.as_str());
        }
    }
    all
}

fn verdict_json(verdict: &Verdict) -> Value {
    let trail = verdict.trail.as_ref();
    json!({
        "name": verdict.name,
        "claimed": verdict.claimed,
        "holds": verdict.holds,
        "steps": trail.map(|trail| trail.steps.len()),
        "counterexample": trail.map(sentences),
        "repeats_from": trail.and_then(|trail| trail.cycle),
    })
}

fn search_json(search: &Search) -> Value {
    json!({
        "properties": search.properties,
        "states": search.states,
        "steps": search.steps,
        "depth": search.depth,
        "seconds": search.seconds,
        "states_per_second": search.states as f64 / search.seconds.max(1e-9),
        "bytes": search.bytes,
        "stopped": search.stopped.map(|stop| stop.words()),
        "covered": search.covered,
        "reductions": search.reductions,
    })
}

fn sentences(trail: &Trail) -> Vec<String> {
    trail.steps.iter().map(|step| step.sentence()).collect()
}

/// The report as text.
pub(crate) fn text(task: &Task, report: &Report, unreduced: Option<&Report>) -> String {
    let mut text = format!("{}\n", task.words());
    for (place, search) in report.searches.iter().enumerate() {
        text += &search_text(search);
        let whole = unreduced.and_then(|unreduced| unreduced.searches.get(place));
        text += &reduction_text(search, whole);
    }
    text.push('\n');
    for verdict in &report.verdicts {
        text += &verdict_text(verdict);
    }
    let whole = report.searches.first().is_some_and(|search| search.stopped.is_none());
    let never = if whole { "never happens" } else { "not seen" };
    for goal in report.goals.iter().filter(|goal| !goal.reached) {
        text += &format!("  {never:<18}  {}\n", goal.name);
    }
    let mut told: Vec<Vec<String>> = Vec::new();
    for verdict in &report.verdicts {
        let Some(trail) = &verdict.trail else { continue };
        let steps = sentences(trail);
        if told.contains(&steps) {
            text += &format!("\nThe same run breaks {}.\n", verdict.name);
        } else {
            // A circle in which all that must happen happens is not the shortest there is.
            let round = trail.cycle.is_some() && trail.flags.is_none();
            let how = if task.walks.is_some() || round { "A run" } else { "A shortest run" };
            text += &format!("\n{how} that breaks {}:\n{}", verdict.name, trail_text(trail));
            told.push(steps);
        }
    }
    text
}

fn search_text(search: &Search) -> String {
    if search.states == 0 {
        let stopped = search.stopped.map_or(String::new(), |stop| stop.words());
        let (steps, longest) = (search.steps, search.depth);
        return format!(
            "  {stopped}; {steps} steps, the longest run {longest}, {:.2} s  ({})\n",
            search.seconds,
            search.properties.join(", ")
        );
    }
    let mut text = format!(
        "  {} states, {} steps, depth {}, {:.2} s, {:.2} million states/s, {:.1} MiB, {:.0} bytes \
         a state  ({})\n",
        search.states,
        search.steps,
        search.depth,
        search.seconds,
        search.states as f64 / search.seconds.max(1e-9) / 1e6,
        search.bytes as f64 / f64::from(1 << 20),
        search.bytes as f64 / search.states.max(1) as f64,
        search.properties.join(", "),
    );
    if let Some(stop) = search.stopped {
        text += &format!("    not all: {}{}\n", stop.words(), covered(search));
    }
    text
}

/// What was merged and left out, and of how much, where that was searched too.
fn reduction_text(search: &Search, whole: Option<&Search>) -> String {
    let mut text = String::new();
    if !search.reductions.is_empty() {
        text += &format!("    merged: {}\n", search.reductions.join(", "));
    }
    if let Some(whole) = whole {
        text += &format!(
            "    with nothing merged: {} states, {} steps, {:.2} s\n",
            whole.states, whole.steps, whole.seconds
        );
    }
    text
}

/// How far a search came that was not finished.
pub(super) fn covered(search: &Search) -> String {
    match search.stopped {
        Some(Stop::States | Stop::Memory | Stop::Time | Stop::Depth) => match search.covered {
            Some(steps) => format!("; every run of fewer than {steps} steps is covered"),
            None => format!(
                "; {} steps deep, but of each run of that length only some order of its steps is \
                 covered, and that may be longer",
                search.depth
            ),
        },
        Some(Stop::Delays(_) | Stop::Found | Stop::Walked(_)) | None => String::new(),
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    let found = match (verdict.holds, &verdict.trail) {
        (Some(true), _) => "holds".to_owned(),
        (Some(false), Some(trail)) => format!("VIOLATED in {} steps", trail.steps.len()),
        (Some(false), None) => "VIOLATED; the limits ended the search for a run".to_owned(),
        (None, _) => "not decided".to_owned(),
    };
    let claim = if verdict.claimed { "" } else { "  (not claimed)" };
    format!("  {:<18}  {found}{claim}\n", verdict.name)
}

fn trail_text(trail: &Trail) -> String {
    let mut text = String::new();
    if let Some(flags) = &trail.flags {
        let flags: Vec<_> = flags.iter().map(u32::to_string).collect();
        text += &format!("       flags {}\n", flags.join(" "));
    }
    for (place, step) in trail.steps.iter().enumerate() {
        if trail.cycle == Some(place) {
            text += "       from here on, for ever:\n";
        }
        text += &format!("  {:>3}  {}\n", place + 1, step.sentence());
    }
    text
}
