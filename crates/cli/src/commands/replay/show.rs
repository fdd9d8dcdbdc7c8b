//! The output of `mutua replay`.

use anyhow::{Context, Result};
use mutua_algorithms::registry;
use mutua_lab::{
    EXAMPLES, SOURCES, Script,
    script::{Outcome, Played, Repair},
};
use mutua_trace::{What, Writer, describe};
use serde_json::{Value, json};

/// All examples, with their sources and what they show.
pub(super) fn list() -> String {
    let mut text = String::new();
    let mut algorithm = String::new();
    for script in EXAMPLES.iter().filter_map(|example| example.script().ok()) {
        if script.system.algorithm != algorithm {
            algorithm.clone_from(&script.system.algorithm);
            text += &format!("{algorithm}\n");
        }
        text += &format!("  {}  [{}]\n", script.name, script.source);
        text += &wrapped(&script.shows, "      ");
    }
    text.push('\n');
    for (short, title) in SOURCES {
        text += &format!("{short}: {title}\n");
    }
    text + "\nReplay one: mutua replay NAME\n"
}

/// Text wrapped into lines of at most 92 columns.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() + word.len() > 92 && line.trim() != "" {
            lines += &format!("{}\n", line.trim_end());
            line = indent.to_owned();
        }
        line += &format!("{word} ");
    }
    lines + &format!("{}\n", line.trim_end())
}

/// The same as JSON.
pub(super) fn list_json() -> Result<String> {
    let mut list = Vec::new();
    for example in EXAMPLES {
        let script = example.script()?;
        list.push(json!({
            "name": script.name,
            "algorithm": script.system.algorithm,
            "source": script.source,
            "shows": script.shows,
        }));
    }
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// A script that was replayed, step by step.
pub(super) fn play(script: &Script, played: &Played) -> String {
    let mut text = head(script, played);
    let begin = played.events.iter().take_while(|event| event.at == 0).count();
    text += &describe::trace(&played.header, &played.events[..begin]);
    let mut in_comment = false;
    for moment in &played.moments {
        text += &match &moment.outcome {
            // A comment of several lines is one paragraph.
            Outcome::Comment if in_comment => format!("{}\n", moment.text),
            Outcome::Comment => format!("\n{}\n", moment.text),
            Outcome::Done(events) => {
                describe::these(&played.header, &played.events[events.clone()])
            }
            Outcome::Held => format!("     ok  {}\n", expectation(&moment.text)),
            Outcome::Failed(_) => format!("     FAILED  {}\n", expectation(&moment.text)),
        };
        in_comment = moment.outcome == Outcome::Comment;
    }
    text += &summary(played);
    text + &difference(script, played).unwrap_or_default()
}

/// The first difference between the trace and the one recorded in the script, if there is one.
pub(super) fn difference(script: &Script, played: &Played) -> Option<String> {
    let (before, now) = (script.observed.as_deref()?, played.observed());
    let (before, now): (Vec<_>, Vec<_>) = (before.lines().collect(), now.lines().collect());
    let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
    if same == before.len().max(now.len()) {
        return None;
    }
    let line = |lines: &[&str]| lines.get(same).map_or("(nothing)", |line| line.trim()).to_owned();
    Some(format!(
        "THE TRACE DIFFERS from the one recorded in the script, in its line {}:\n  recorded: {}\n  \
         now:      {}\n",
        same + 1,
        line(&before),
        line(&now)
    ))
}

fn head(script: &Script, played: &Played) -> String {
    let algorithm = &script.system.algorithm;
    let title = registry::about(algorithm).map_or(algorithm.as_str(), |about| about.title);
    let mut text = format!("{}\n{title}", script.name);
    if !played.header.settings.is_empty() {
        text += &format!(", {}", played.header.settings);
    }
    if let Some(Repair { kind, election }) = script.system.repair {
        text += &format!(", {} repair, elections by {}", kind.name(), election.name());
    }
    text.push('\n');
    for (label, words) in [("source", &script.source), ("shows", &script.shows)] {
        if !words.is_empty() {
            text += &wrapped(&format!("{label}: {words}"), "");
        }
    }
    text += &key(script, played);
    text + "\n"
}

/// The properties as the texts number them.
const PROPERTIES: &[(&str, &str)] = &[
    ("EM1", "mutual exclusion"),
    ("EM2", "liveness: every request is granted"),
    ("EM3", "ordering: requests are granted in the order of happens-before"),
];

/// What the short names stand for that the script uses.
fn key(script: &Script, played: &Played) -> String {
    let comments = played.moments.iter().filter(|moment| moment.outcome == Outcome::Comment);
    let texts = [&script.source, &script.shows].into_iter();
    let texts: Vec<_> = texts.chain(comments.map(|moment| &moment.text)).collect();
    let is_used = |short: &str| {
        let mut words = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        words.any(|word| word == short)
    };
    let used = SOURCES.iter().chain(PROPERTIES).filter(|(short, _)| is_used(short));
    used.map(|(short, meaning)| format!("{short}: {meaning}\n")).collect()
}

fn expectation(line: &str) -> &str {
    line.strip_prefix("expect ").unwrap_or(line)
}

fn summary(played: &Played) -> String {
    let mut text = String::from("\n");
    let entries = entries(played);
    if !entries.is_empty() {
        text += &format!("entries: {}\n", entries.join(" "));
    }
    text += &format!("messages: {}\n", sent(played));
    for (at, process, property, why) in violations(played) {
        text += &format!("VIOLATED at step {at} by {process}: {property}: {why}\n");
    }
    if let Some(deadlock) = &played.deadlock {
        text += &format!("{}\n", deadlock.sentence);
    }
    let failures = played.failures();
    let held = played.moments.iter().filter(|moment| moment.outcome == Outcome::Held).count();
    if failures.is_empty() {
        return text
            + &match held {
                0 => "the script has no expectations\n".to_owned(),
                1 => "its expectation holds\n".to_owned(),
                held => format!("all {held} expectations hold\n"),
            };
    }
    for failure in &failures {
        text += &format!("FAILED: {failure}\n");
    }
    text
}

/// The steps that can be taken at the end.
pub(super) fn possible(steps: &[String]) -> String {
    let lines: String = steps.iter().map(|step| format!("  {step}\n")).collect();
    match lines.is_empty() {
        true => "possible next: nothing\n".to_owned(),
        false => format!("possible next:\n{lines}"),
    }
}

/// The same as JSON.
pub(super) fn play_json(
    script: &Script,
    played: &Played,
    possible: Option<&[String]>,
) -> Result<String> {
    let violations: Vec<_> = violations(played)
        .into_iter()
        .map(|(at, process, property, why)| {
            json!({"step": at, "process": process, "property": property, "reason": why})
        })
        .collect();
    let failures = played.failures();
    let difference = difference(script, played);
    let mut object = json!({
        "name": script.name,
        "algorithm": script.system.algorithm,
        "source": script.source,
        "shows": script.shows,
        "holds": failures.is_empty() && difference.is_none(),
        "difference": difference,
        "failures": failures,
        "entries": entries(played),
        "messages": sent(played),
        "violations": violations,
        "deadlock": played.deadlock.as_ref().map(|deadlock| &deadlock.sentence),
        "trace": trace_json(played)?,
    });
    if let Some(possible) = possible {
        object["possible"] = json!(possible);
    }
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

/// The lines of the trace as a list, the header first.
fn trace_json(played: &Played) -> Result<Vec<Value>> {
    let mut writer = Writer::new(Vec::new(), played.header.clone())?;
    for event in &played.events {
        writer.write(event)?;
    }
    let lines = String::from_utf8(writer.finish()?).context("a trace is text")?;
    lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn entries(played: &Played) -> Vec<String> {
    let entered =
        |event: &&mutua_trace::Event| matches!(event.what, What::Enter { .. } | What::Move);
    played.events.iter().filter(entered).map(|event| played.header.name(event.who)).collect()
}

fn sent(played: &Played) -> usize {
    let counts = played.events.iter().map(|event| match &event.what {
        What::Send { .. } => 1,
        What::Multicast { to, .. } => to.len(),
        _ => 0,
    });
    counts.sum()
}

fn violations(played: &Played) -> Vec<(u64, String, &str, &str)> {
    let found = played.events.iter().filter_map(|event| match &event.what {
        What::Violation { property, why } => {
            Some((event.at, played.header.name(event.who), property.as_ref(), why.as_ref()))
        }
        _ => None,
    });
    found.collect()
}
