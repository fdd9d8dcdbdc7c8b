//! `mutua replay`: the worked examples, and any other script, step by step.

mod show;

use std::{
    fs::{self, File},
    io::BufWriter,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_trace::{EXAMPLES, Event, Header, Reader, Script, Writer, describe, diagram};

use crate::{exit::usage, names};

/// Play a worked example step by step; without a name, list them.
///
/// The exit code is 0 if everything is as the script expects, 1 if not.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// An example's name, or a file: a script, such as a counterexample of `mutua check`, or a
    /// trace that any command has written.
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,

    /// More traces of the same run, those of the other nodes of a cluster on this machine.
    #[arg(value_name = "FILE", requires = "name")]
    more: Vec<String>,

    /// Write the trace as JSON lines.
    #[arg(long, value_name = "FILE", requires = "name")]
    trace: Option<PathBuf>,

    /// Draw a space-time picture.
    #[arg(long, value_name = "FILE.svg", requires = "name")]
    diagram: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(name) = &arguments.name else {
        let list = if arguments.json { show::list_json()? } else { show::list() };
        print!("{list}");
        return Ok(ExitCode::SUCCESS);
    };
    match find(name)? {
        _ if !arguments.more.is_empty() => {
            let (header, events) = together(name, &arguments.more)?;
            write_files(arguments, &header, &events)?;
            print!("{}", describe::trace(&header, &events));
            Ok(ExitCode::SUCCESS)
        }
        Found::Script(script) => play(&script, arguments),
        Found::Trace(header, events) => {
            write_files(arguments, &header, &events)?;
            print!("{}", describe::trace(&header, &events));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn play(script: &Script, arguments: &Arguments) -> Result<ExitCode> {
    let played = script.play().map_err(|error| usage(format!("{}: {error}", script.name)))?;
    write_files(arguments, &played.header, &played.events)?;
    let shown = if arguments.json {
        show::play_json(script, &played)?
    } else {
        show::play(script, &played)
    };
    print!("{shown}");
    let holds = played.failures().is_empty() && show::difference(script, &played).is_none();
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a name stands for.
enum Found {
    Script(Box<Script>),
    Trace(Header, Vec<Event>),
}

/// The example or the file of this name.
fn find(name: &str) -> Result<Found> {
    let named = |example: &&mutua_trace::Example| {
        example.name == name || example.name.rsplit('/').next() == Some(name)
    };
    let found: Vec<_> = EXAMPLES.iter().filter(named).collect();
    match found.as_slice() {
        [example] => {
            let script = example.script();
            let script = script.with_context(|| format!("{} is no script", example.name))?;
            Ok(Found::Script(Box::new(script)))
        }
        [] if Path::new(name).is_file() => read(name),
        [] => Err(names::unknown("example or file", name, EXAMPLES.iter().map(|one| one.name))),
        several => {
            let several: Vec<_> = several.iter().map(|example| example.name).collect();
            Err(usage(format!("`{name}` could be any of {}", several.join(", "))))
        }
    }
}

/// Traces of nodes put together: each has written down its own part.
fn together(first: &str, more: &[String]) -> Result<(Header, Vec<Event>)> {
    let mut whole: Option<(Header, Vec<Event>)> = None;
    for path in [first].into_iter().chain(more.iter().map(String::as_str)) {
        let Found::Trace(header, events) = read(path)? else {
            return Err(usage(format!("{path} is no trace; only traces can be put together")));
        };
        match &mut whole {
            None => whole = Some((header, events)),
            Some((known, _)) if *known != header => {
                return Err(usage(format!("{path} is of another run than {first}")));
            }
            Some((_, all)) => all.extend(events),
        }
    }
    let (header, mut events) = whole.context("no trace")?;
    events.sort_by_key(|event| event.at);
    // A node counts from when its machine started; here the run is what counts.
    let first = events.first().map_or(0, |event| event.at);
    for event in &mut events {
        event.at -= first;
    }
    Ok((header, events))
}

/// A script, or a trace that somebody has written; a trace begins with a JSON object.
fn read(path: &str) -> Result<Found> {
    let text =
        fs::read_to_string(path).map_err(|error| usage(format!("cannot read {path}: {error}")))?;
    if text.starts_with('{') {
        let trace = Reader::new(text.as_bytes()).and_then(Reader::read_all);
        let (header, events) = trace.map_err(|error| usage(format!("{path}, {error}")))?;
        return Ok(Found::Trace(header, events));
    }
    let script = Script::parse(path, &text);
    Ok(Found::Script(Box::new(script.map_err(|error| usage(format!("{path}, {error}")))?)))
}

fn write_files(arguments: &Arguments, header: &Header, events: &[Event]) -> Result<()> {
    if let Some(path) = &arguments.trace {
        let cannot = || format!("cannot write the trace to {}", path.display());
        write_trace(path, header, events).with_context(cannot)?;
    }
    if let Some(path) = &arguments.diagram {
        let cannot = || format!("cannot write the picture to {}", path.display());
        fs::write(path, diagram::svg(header, events)).with_context(cannot)?;
    }
    Ok(())
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
