//! The report of a check, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};

use mutua_algorithms::{Claim, Fields, NodeId};
use mutua_checker::{
    Event, Happening, INVARIANT_FORMS, Report, Search, Stop, Task, Trail, Verdict, What, name_of,
};
use mutua_lab::counterexample;
use serde_json::{Value, json};

use crate::words::counted;

/// The report as one object.
pub(crate) fn json(task: &Task, report: &Report, unreduced: Option<&Report>) -> Value {
    let limited = |search: &Search| search.is_limited();
    let mut object = json!({
        "algorithm": task.name,
        "nodes": task.system.setup.nodes,
        "entries": task.system.entries,
        "scope": task.scope(),
        "states": report.searches.first().map_or(0, |search| search.states),
        "complete": !report.searches.iter().any(limited),
        "seconds": report.searches.iter().map(|search| search.seconds).sum::<f64>(),
        "properties": report
            .verdicts
            .iter()
            .map(|verdict| verdict_json(task, verdict))
            .collect::<Vec<_>>(),
        "searches": report.searches.iter().map(search_json).collect::<Vec<_>>(),
        "reductions": reductions(report),
        "goals": report.goals.iter().map(|goal| json!({
            "name": goal.name,
            "reached": goal.reached,
        })).collect::<Vec<_>>(),
    });
    if let Some(settling) = &report.settling {
        object["longest_settling"] = json!({ "steps": settling.steps, "flags": settling.flags });
    }
    if let Some(unreduced) = unreduced {
        let states = unreduced.searches.first().map_or(0, |search| search.states);
        object["states_unreduced"] = states.into();
        object["searches_unreduced"] = unreduced.searches.iter().map(search_json).collect();
    }
    object
}

/// The reductions of all searches.
fn reductions(report: &Report) -> Vec<&str> {
    let mut all = Vec::new();
    for reduction in report.searches.iter().flat_map(|search| &search.reductions) {
        if !all.contains(&reduction.as_str()) {
            all.push(reduction.as_str());
        }
    }
    all
}

fn verdict_json(task: &Task, verdict: &Verdict) -> Value {
    let trail = verdict.trail.as_ref();
    let explained = trail.map(|trail| explanation(task, &verdict.name, trail));
    let explained = explained.filter(|text| !text.is_empty());
    json!({
        "name": verdict.name,
        "claimed": verdict.claimed,
        "holds": verdict.holds,
        "steps": trail.map(|trail| trail.steps.len()),
        "counterexample": trail.map(sentences),
        "states": trail.map(|trail| {
            trail.steps.iter().map(|step| variables(&step.variables)).collect::<Vec<_>>()
        }),
        "repeats_from": trail.and_then(|trail| trail.cycle),
        "explanation": explained.map(|text| text.trim().to_owned()),
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
        "bytes_a_state": search.bytes_a_state(),
        "stopped": search.stopped.map(|stop| stop.words()),
        "covered": search.covered,
        "reductions": search.reductions,
        "behind_violations_of": search.cut,
    })
}

fn sentences(trail: &Trail) -> Vec<String> {
    trail.steps.iter().map(|step| step.sentence()).collect()
}

/// The report as text.
pub(crate) fn text(
    task: &Task,
    report: &Report,
    unreduced: Option<&Report>,
    states: bool,
) -> String {
    let mut text = format!("{}; {}\n", task.words(), task.scope());
    for (index, search) in report.searches.iter().enumerate() {
        text += &search_text(search);
        let whole = unreduced.and_then(|unreduced| unreduced.searches.get(index));
        text += &reduction_text(search, whole);
    }
    text += &goals_text(report);
    text.push('\n');
    for verdict in &report.verdicts {
        text += &verdict_text(verdict, report);
    }
    if let Some(settling) = &report.settling {
        let flags: Vec<_> = settling.flags.iter().map(u32::to_string).collect();
        let (steps, flags) = (counted(settling.steps as u64, "step"), flags.join(" "));
        text += &format!("  {:<18}  {steps}, from flags {flags}\n", "longest settling");
    }
    let whole = report.searches.first().is_some_and(|search| search.stopped.is_none());
    let never = if whole { "never reached" } else { "not reached" };
    for goal in report.goals.iter().filter(|goal| !goal.reached) {
        text += &format!("  {never:<18}  {}\n", goal.name);
    }
    let mut shown: Vec<Vec<String>> = Vec::new();
    for verdict in &report.verdicts {
        let Some(trail) = &verdict.trail else { continue };
        let steps = sentences(trail);
        if shown.contains(&steps) {
            text += &format!("\nThe same run is a counterexample to {}.\n", verdict.name);
        } else {
            // A fair cycle is not always the shortest one.
            let round = trail.cycle.is_some() && trail.flags.is_none();
            let how = if task.walks.is_some() || round { "A" } else { "A shortest" };
            let run = trail_text(trail, states);
            text += &format!("\n{how} counterexample to {}:\n{run}", verdict.name);
            text += &match task.invariants.iter().find(|one| one.name() == verdict.name) {
                Some(invariant) => format!("{}       false: {}\n", last(trail), invariant.text()),
                None => explanation(task, &verdict.name, trail),
            };
            shown.push(steps);
        }
    }
    text
}

/// What the search has seen happen: a property that holds where nothing happens says little.
fn goals_text(report: &Report) -> String {
    let reached = report.goals.iter().filter(|goal| goal.reached).map(|goal| goal.name.as_str());
    let reached: Vec<_> = reached.collect();
    match report.goals.len() {
        0 => String::new(),
        all => format!("  reached {} of {all} goals: {}\n", reached.len(), reached.join("; ")),
    }
}

fn search_text(search: &Search) -> String {
    if search.states == 0 {
        let stopped = search.stopped.map_or(String::new(), |stop| stop.words());
        let (steps, longest) = (search.steps, search.depth);
        return format!(
            "  {stopped}; {}, the longest run {longest}, {:.2} s  ({})\n",
            counted(steps, "step"),
            search.seconds,
            search.properties.join(", ")
        );
    }
    let mut text = format!(
        "  {}, {}, depth {}, {:.2} s, {:.2} million states/s, {:.1} MiB, {:.0} bytes a state{}  \
         ({})\n",
        counted(search.states, "state"),
        counted(search.steps, "step"),
        search.depth,
        search.seconds,
        search.states as f64 / search.seconds.max(1e-9) / 1e6,
        search.bytes as f64 / f64::from(1 << 20),
        search.bytes_a_state(),
        if search.stored < search.states { " in the largest search" } else { "" },
        search.properties.join(", "),
    );
    if let Some(stop) = search.stopped {
        text += &format!("    incomplete: {}{}\n", stop.words(), covered(search));
    }
    text
}

/// The reductions, and the size without them where that was searched too.
fn reduction_text(search: &Search, whole: Option<&Search>) -> String {
    let mut text = String::new();
    if !search.reductions.is_empty() {
        text += &format!("    reductions: {}\n", search.reductions.join(", "));
    }
    if let Some(whole) = whole {
        text += &format!(
            "    without reductions: {}, {}, {:.2} s\n",
            counted(whole.states, "state"),
            counted(whole.steps, "step"),
            whole.seconds
        );
    }
    text
}

/// How far an unfinished search came.
pub(super) fn covered(search: &Search) -> String {
    match search.stopped {
        Some(Stop::States | Stop::Memory | Stop::Time | Stop::Depth) => match search.covered {
            Some(steps) => {
                format!("; every run of fewer than {} is covered", counted(steps as u64, "step"))
            }
            None => format!(
                "; searched to depth {}, where reductions may have left out runs of that length",
                search.depth
            ),
        },
        Some(Stop::Delays(_) | Stop::Found | Stop::Walked(_)) | None => String::new(),
    }
}

fn verdict_text(verdict: &Verdict, report: &Report) -> String {
    let found = match (verdict.holds, &verdict.trail) {
        (Some(true), _) => "holds".to_owned(),
        (Some(false), Some(trail)) => {
            format!("VIOLATED in {}", counted(trail.steps.len() as u64, "step"))
        }
        (Some(false), None) => "VIOLATED; a limit ended the search for a counterexample".to_owned(),
        (None, _) => match behind(verdict, report) {
            Some(violated) => format!(
                "not decided: {} {} violated, and behind that nothing is searched",
                violated.join(" and "),
                if violated.len() == 1 { "is" } else { "are" }
            ),
            None => "not decided".to_owned(),
        },
    };
    let claim = if verdict.claimed { "" } else { "  (not claimed)" };
    format!("  {:<18}  {found}{claim}\n", verdict.name)
}

/// The violated properties for which a search that met no limit has not decided this one.
fn behind<'a>(verdict: &Verdict, report: &'a Report) -> Option<&'a [&'static str]> {
    let decides = |search: &&Search| search.properties.contains(&verdict.name);
    let search = report.searches.iter().find(decides)?;
    (!search.is_limited() && !search.cut.is_empty()).then_some(search.cut.as_slice())
}

/// Why a process waits for ever at the end of a run, or in its cycle.
fn explanation(task: &Task, property: &str, trail: &Trail) -> String {
    let scripted = || counterexample::script(task, property, trail).ok();
    let losses = || scripted().map_or_else(String::new, |scripted| scripted.played.losses());
    if let Some(cycle) = trail.cycle {
        return lasso(trail, cycle, &losses());
    }
    if property == Claim::Termination.name() {
        return format!("       {} for ever for the coordinator{}\n", waiting(trail), losses());
    }
    if property == Claim::Agreement.name() {
        return match task.system.repair {
            None => disagreement(trail),
            Some(_) => two_in_charge(task, trail),
        };
    }
    // The run ends in a deadlock, if the script of it does.
    let deadlock = scripted().and_then(|scripted| scripted.played.deadlock);
    deadlock.map_or_else(String::new, |deadlock| format!("       {}\n", deadlock.sentence))
}

/// What an election has decided wrongly: the last step takes a process for the coordinator while a
/// higher one is up, or two processes know different ones.
fn disagreement(trail: &Trail) -> String {
    let (mut down, mut elected) = (BTreeSet::new(), BTreeMap::new());
    for step in &trail.steps {
        match step.what {
            What::Event(Event::Crash) => {
                down.insert(step.at);
                elected.remove(&step.at);
            }
            What::Event(Event::Restart) => {
                down.remove(&step.at);
            }
            _ => {}
        }
        elected.extend(step.elects.map(|coordinator| (step.at, coordinator)));
    }
    let takes = |(who, coordinator): (&NodeId, &NodeId)| {
        format!("{} takes {} for the coordinator", name_of(*who), name_of(*coordinator))
    };
    let last = trail.steps.last().filter(|step| step.elects.is_some()).map(|step| step.at);
    let wrong = last.and_then(|at| elected.get_key_value(&at));
    let above = |coordinator: &NodeId| {
        let mut all = (0..trail.last.len()).rev().map(NodeId::from);
        all.find(|node| node > coordinator && !down.contains(node))
    };
    match wrong.and_then(|found| Some((found, above(found.1)?))) {
        Some((found, higher)) => {
            format!("       {}, but {}, which is higher, is up\n", takes(found), name_of(higher))
        }
        None => {
            let all: Vec<_> = elected.iter().map(takes).collect();
            format!("       {}\n", all.join("; "))
        }
    }
}

/// Two processes are in charge at once, each by what it knows, or one view has two leaders: which
/// of them, as the script of the run says.
fn two_in_charge(task: &Task, trail: &Trail) -> String {
    let who = trail.steps.last().map_or_else(String::new, |step| name_of(step.at));
    let scripted = counterexample::script(task, Claim::Agreement.name(), trail).ok();
    let events = scripted.map_or_else(Vec::new, |scripted| scripted.played.events);
    let why = events.iter().rev().find_map(|event| match &event.what {
        mutua_trace::What::Violation { why, .. } => Some(why.to_string()),
        _ => None,
    });
    let why = why.unwrap_or_else(|| "another process is in charge too".to_owned());
    format!("{}       at {who}: {why}\n", last(trail))
}

/// The steps that repeat, the processes that wait for ever meanwhile, and what each process does
/// again and again.
fn lasso(trail: &Trail, cycle: usize, losses: &str) -> String {
    if trail.waiting.is_empty() {
        return String::new();
    }
    let (from, to) = (cycle + 1, trail.steps.len());
    let (who, does) = (waiting(trail), repeated(&trail.steps[cycle..]).join("; "));
    format!("       steps {from} to {to} repeat: {who} for ever; {does}{losses}\n")
}

/// `P0 waits`, or `P0 and P2 wait`.
fn waiting(trail: &Trail) -> String {
    let names: Vec<_> = trail.waiting.iter().copied().map(name_of).collect();
    format!("{} {}", listed(&names), if names.len() == 1 { "waits" } else { "wait" })
}

/// What each process does in these steps, as in `P1 requests, enters and exits`.
fn repeated(steps: &[Happening]) -> Vec<String> {
    let mut all: BTreeMap<NodeId, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for step in steps {
        let (does, receives) = all.entry(step.at).or_default();
        let (list, what) = match &step.what {
            What::Event(Event::Request) => (&mut *does, "requests".to_owned()),
            What::Event(Event::Release) => (&mut *does, "exits".to_owned()),
            What::Event(Event::Start) => (&mut *does, "starts an election".to_owned()),
            What::Event(Event::Timeout(timer)) => {
                (&mut *does, format!("times out ({})", timer.word()))
            }
            What::Deliver(message) if !step.down => (receives, message.kind.to_owned()),
            // The others happen so many times in a run, and reports say nothing new again.
            _ => continue,
        };
        if !list.contains(&what) {
            list.push(what);
        }
        if step.enters && !does.iter().any(|what| what == "enters") {
            does.push("enters".to_owned());
        }
    }
    let words = all.into_iter().map(|(who, (mut does, receives))| {
        if !receives.is_empty() {
            does.push(format!("receives {}", receives.join(" and ")));
        }
        format!("{} {}", name_of(who), listed(&does))
    });
    words.collect()
}

/// `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// The language of invariants as one array.
pub(crate) fn language_json() -> Value {
    let form = |&(form, meaning): &(&str, &str)| json!({ "form": form, "meaning": meaning });
    INVARIANT_FORMS.iter().map(form).collect()
}

/// The language of invariants.
pub(crate) fn language() -> String {
    let mut text = "\
A formula is judged in every state that the search reaches; where it is false, the way there is
shown. Names of variables and kinds of messages are those that `mutua replay` shows.

"
    .to_owned();
    let width = INVARIANT_FORMS.iter().map(|(form, _)| form.len()).max().unwrap_or(0);
    for (form, meaning) in INVARIANT_FORMS {
        text += &format!("  {form:<width$}  {meaning}\n");
    }
    text + "
Examples:

  mutua check raymond --nodes 4 --invariant 'forall p: size(p.queue) <= size(neighbours(p)) + 1'
  mutua check lamport --invariant 'size(messages()) = 0 -> forall p, q: p.queue = q.queue'
  mutua check naimi-trehel --stated-invariants
"
}

/// Every process at the end of a run.
fn last(trail: &Trail) -> String {
    let processes = trail.last.iter().enumerate();
    processes.map(|(at, fields)| format!("       P{at}: {}\n", variables(fields))).collect()
}

/// Named values in a line.
fn variables(fields: &Fields) -> String {
    let shown = fields.iter().map(|(name, value)| match *name {
        "phase" => value.render(&name_of),
        name => format!("{name}={}", value.render(&name_of)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The widest column of steps; the states of longer ones are not aligned.
const STEP_WIDTH: usize = 60;

fn trail_text(trail: &Trail, states: bool) -> String {
    let mut text = String::new();
    let widths = trail.steps.iter().map(|step| step.sentence().chars().count());
    let width = widths.max().unwrap_or(0).min(STEP_WIDTH);
    if let Some(flags) = &trail.flags {
        let flags: Vec<_> = flags.iter().map(u32::to_string).collect();
        text += &format!("       flags {}\n", flags.join(" "));
    }
    for (index, step) in trail.steps.iter().enumerate() {
        if trail.cycle == Some(index) {
            text += "       from here on, forever:\n";
        }
        let sentence = step.sentence();
        if states {
            let at = if step.variables.len() > 1 { name_of(step.at) + ": " } else { String::new() };
            let state = variables(&step.variables);
            text += &format!("  {:>3}  {sentence:<width$}  {at}{state}\n", index + 1);
        } else {
            text += &format!("  {:>3}  {sentence}\n", index + 1);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_repeats_names_those_that_wait_for_ever() {
        let step = |at: u32, what: What, enters: bool| Happening {
            at: NodeId(at),
            what,
            down: false,
            enters,
            elects: None,
            variables: Vec::new(),
        };
        let (request, exit) = (|| What::Event(Event::Request), || What::Event(Event::Release));
        let steps = vec![
            step(0, request(), false),
            step(1, request(), true),
            step(1, exit(), false),
            step(1, request(), true),
        ];
        let waiting = vec![NodeId(0)];
        let trail = Trail { steps, cycle: Some(2), waiting, last: Vec::new(), flags: None };
        let sentence =
            "       steps 3 to 4 repeat: P0 waits for ever; P1 exits, requests and enters\n";
        assert_eq!(lasso(&trail, 2, ""), sentence);
    }
}
