//! `mutua replay`: replays worked examples, other scripts, and traces.

mod show;
mod words;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_algorithms::{Setup, registry};
use mutua_lab::{EXAMPLES, Example, Script, diagram::Drawing, script, size};
use mutua_trace::{Event, Header, Reader, Unit, Writer, describe};

use crate::{exit::usage, memory, names, picture::PictureArguments};

/// Replay a worked example, a script or a trace; without a name, list the examples.
///
/// Exit code 0: all expectations of the script hold; 1: one does not.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of an example, or a file: a script, such as a counterexample of `mutua check`, or a
    /// trace; - is standard input.
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,

    /// Further traces of the same run: those of the other nodes of a cluster on this machine.
    #[arg(value_name = "FILE", requires = "name")]
    more: Vec<String>,

    /// Write the trace to this file as JSON lines.
    #[arg(long, value_name = "FILE", requires = "name")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    picture: PictureArguments,

    /// Write the remarks of the script below the diagram, each with its steps.
    #[arg(long, requires = "diagram")]
    captions: bool,

    /// Print the script itself instead of replaying it, for a script of one's own to begin with.
    #[arg(long, requires = "name",
          conflicts_with_all = ["trace", "diagram", "possible", "json", "more"])]
    source: bool,

    /// List the steps that can be taken after the last one.
    #[arg(long, requires = "name", conflicts_with = "more")]
    possible: bool,

    /// Print the language of scripts: every line with its meaning and an example.
    #[arg(long, conflicts_with_all = ["name", "source", "possible", "diagram"])]
    language: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.language {
        print!("{}", if arguments.json { words::language_json()? } else { words::language() });
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &arguments.name else {
        if arguments.picture.diagram.is_some() {
            return Err(usage(
                "--diagram needs a script or a trace: `mutua replay` lists examples",
            ));
        }
        let list = if arguments.json { show::list_json()? } else { show::list() };
        print!("{list}");
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.source {
        print!("{}", source(name)?);
        return Ok(ExitCode::SUCCESS);
    }
    let (header, events) = match find(name)? {
        Found::Script(script) if arguments.more.is_empty() => return play(&script, arguments),
        Found::Script(_) => return Err(not_a_trace(name)),
        Found::Trace(header, events) => (header, events),
    };
    let without = [
        ("--captions", arguments.captions, "no remarks"),
        ("--possible", arguments.possible, "no next step"),
        ("--json", arguments.json, "no lines of a script: its own lines are JSON"),
    ];
    if let Some((option, _, what)) = without.into_iter().find(|&(_, given, _)| given) {
        let text = format!("{name} is a trace, which has {what}: {option} needs a script");
        return Err(usage(text));
    }
    let (header, events) = match arguments.more.as_slice() {
        [] => (header, events),
        more => merge(name, (header, events), more)?,
    };
    write_files(arguments, &header, &events, Drawing::default())?;
    print!("{}", of_trace(&header, &events));
    Ok(ExitCode::SUCCESS)
}

/// The events of a trace, with the unit of their times.
fn of_trace(header: &Header, events: &[Event]) -> String {
    let unit = match header.unit {
        Unit::Step => String::new(),
        Unit::Nanoseconds => "times in nanoseconds\n".to_owned(),
        Unit::Microseconds => "times in microseconds\n".to_owned(),
        Unit::Milliseconds => "times in milliseconds\n".to_owned(),
    };
    unit + &describe::trace(header, events)
}

fn play(script: &Script, arguments: &Arguments) -> Result<ExitCode> {
    arguments.picture.check(Unit::Step)?;
    if let Some(about) = registry::about(&script.system.algorithm) {
        let nodes = u32::try_from(script.system.processes.len()).unwrap_or(u32::MAX);
        let setup = Setup { nodes, ..script.system.setup.clone() };
        size::check(about, &setup, size::Run::script(script), memory::available())
            .map_err(|large| usage(format!("{}: {large}", script.name)))?;
    }
    let played = script.play().map_err(|error| usage(format!("{}: {error}", script.name)))?;
    let drawing = Drawing { captions: arguments.captions, ..script.drawing(&played) };
    write_files(arguments, &played.header, &played.events, drawing)?;
    let cannot = |error| usage(format!("{}: {error}", script.name));
    let possible = match arguments.possible {
        true => Some(script.possible().map_err(cannot)?),
        false => None,
    };
    let shown = if arguments.json {
        show::play_json(script, &played, possible.as_deref())?
    } else {
        let next = possible.as_deref().map(show::possible).unwrap_or_default();
        show::play(script, &played) + &next
    };
    print!("{shown}");
    let holds = played.failures().is_empty() && show::difference(script, &played).is_none();
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was found by a name.
enum Found {
    Script(Box<Script>),
    Trace(Header, Vec<Event>),
}

/// The example or the file of this name.
fn find(name: &str) -> Result<Found> {
    match example(name)? {
        Some(example) => {
            let script = example.script();
            let script = script.with_context(|| format!("invalid script {}", example.name))?;
            Ok(Found::Script(Box::new(script)))
        }
        None => read(name),
    }
}

/// The text of the script of this name, without its trace.
fn source(name: &str) -> Result<String> {
    let text = match example(name)? {
        Some(example) => example.text.to_owned(),
        None => read_text(name)?,
    };
    if text.starts_with('{') {
        return Err(usage(format!("{name} is a trace, not a script: --source needs a script")));
    }
    Ok(script::without_observed(&text).to_owned())
}

/// The example of this name; none if it is a file instead.
fn example(name: &str) -> Result<Option<&'static Example>> {
    let named =
        |example: &&Example| example.name == name || example.name.rsplit('/').next() == Some(name);
    let found: Vec<_> = EXAMPLES.iter().filter(named).collect();
    match found.as_slice() {
        [example] => Ok(Some(example)),
        [] if is_readable(name) => Ok(None),
        [] if Path::new(name).is_dir() => {
            Err(usage(format!("{name} is a directory: give a script or a trace")))
        }
        [] if Path::new(name).extension().is_some() || name.starts_with(['/', '.']) => {
            Err(usage(format!("no such file: {name}; `mutua replay` lists the examples")))
        }
        [] => Err(names::unknown("example or file", name, EXAMPLES.iter().map(|one| one.name))),
        several => {
            let several: Vec<_> = several.iter().map(|example| example.name).collect();
            Err(usage(format!("ambiguous name `{name}`: use one of {}", several.join(", "))))
        }
    }
}

/// Whether this names standard input, or a file or pipe.
fn is_readable(name: &str) -> bool {
    name == STDIN || fs::metadata(name).is_ok_and(|found| !found.is_dir())
}

/// The name of standard input.
const STDIN: &str = "-";

/// Merges the traces of several nodes, each of which wrote its own events.
fn merge(
    first: &str,
    (header, mut events): (Header, Vec<Event>),
    more: &[String],
) -> Result<(Header, Vec<Event>)> {
    let place = |path: &str| fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mut seen = BTreeSet::from([place(first)]);
    for path in more {
        if !seen.insert(place(path)) {
            return Err(usage(format!("{path} is given twice: its events would count twice")));
        }
        let Found::Trace(other, others) = read(path)? else { return Err(not_a_trace(path)) };
        if other != header {
            return Err(usage(format!("{path} is of another run than {first}")));
        }
        events.extend(others);
    }
    events.sort_by_key(|event| event.at);
    // A node counts from the start of its machine; here time starts with the run.
    let first = events.first().map_or(0, |event| event.at);
    for event in &mut events {
        event.at -= first;
    }
    Ok((header, events))
}

fn not_a_trace(path: &str) -> anyhow::Error {
    usage(format!("{path} is not a trace: only traces can be merged"))
}

/// Reads a script or a trace; a trace begins with a JSON object.
fn read(path: &str) -> Result<Found> {
    let text = read_text(path)?;
    if text.starts_with('{') {
        let trace = Reader::new(text.as_bytes()).and_then(Reader::read_all);
        let (header, events) = trace.map_err(|error| usage(format!("{path}, {error}")))?;
        return Ok(Found::Trace(header, events));
    }
    let script = Script::parse(path, &text);
    Ok(Found::Script(Box::new(script.map_err(|error| usage(format!("{path}, {error}")))?)))
}

fn read_text(path: &str) -> Result<String> {
    let text = match path {
        STDIN => io::read_to_string(io::stdin()),
        path => fs::read_to_string(path),
    };
    text.map_err(|error| usage(format!("cannot read {path}: {error}")))
}

fn write_files(
    arguments: &Arguments,
    header: &Header,
    events: &[Event],
    drawing: Drawing,
) -> Result<()> {
    if let Some(path) = &arguments.trace {
        let cannot = || format!("cannot write the trace to {}", path.display());
        write_trace(path, header, events).with_context(cannot)?;
    }
    arguments.picture.write(header, events, drawing)
}

fn write_trace(path: &Path, header: &Header, events: &[Event]) -> Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut writer = Writer::new(file, header.clone())?;
    for event in events {
        writer.write(event)?;
    }
    writer.finish()?;
    Ok(())
}
