//! `mutua replay`: the worked examples, and any other script, step by step.

mod show;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_trace::{EXAMPLES, Script, Writer, diagram, script::Played};

use crate::{exit::usage, names};

/// Play a worked example step by step; without a name, list them.
///
/// The exit code is 0 if everything is as the script expects, 1 if not.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// An example's name, or a file with a script, such as a counterexample of `mutua check`.
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,

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
        print(&list)?;
        return Ok(ExitCode::SUCCESS);
    };
    let script = find(name)?;
    let played = script.play().map_err(|error| usage(format!("{}: {error}", script.name)))?;
    if let Some(path) = &arguments.trace {
        write_trace(path, &played)?;
    }
    if let Some(path) = &arguments.diagram {
        fs::write(path, diagram::svg(&played.header, &played.events))
            .with_context(|| format!("cannot write the picture to {}", path.display()))?;
    }
    let shown = if arguments.json {
        show::play_json(&script, &played)?
    } else {
        show::play(&script, &played)
    };
    print(&shown)?;
    let holds = played.failures().is_empty() && show::difference(&script, &played).is_none();
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The example or the file of this name.
fn find(name: &str) -> Result<Script> {
    let named = |example: &&mutua_trace::Example| {
        example.name == name || example.name.rsplit('/').next() == Some(name)
    };
    let found: Vec<_> = EXAMPLES.iter().filter(named).collect();
    match found.as_slice() {
        [example] => {
            let script = example.script();
            script.with_context(|| format!("the example {} is no script", example.name))
        }
        [] if Path::new(name).is_file() => read(name),
        [] => Err(names::unknown("example or file", name, EXAMPLES.iter().map(|one| one.name))),
        several => {
            let several: Vec<_> = several.iter().map(|example| example.name).collect();
            Err(usage(format!("`{name}` could be any of {}", several.join(", "))))
        }
    }
}

fn read(path: &str) -> Result<Script> {
    let text =
        fs::read_to_string(path).map_err(|error| usage(format!("cannot read {path}: {error}")))?;
    Script::parse(path, &text).map_err(|error| usage(format!("{path}, {error}")))
}

fn write_trace(path: &Path, played: &Played) -> Result<()> {
    let cannot = || format!("cannot write the trace to {}", path.display());
    let file = BufWriter::new(File::create(path).with_context(cannot)?);
    let mut writer = Writer::new(file, played.header.clone()).with_context(cannot)?;
    for event in &played.events {
        writer.write(event).with_context(cannot)?;
    }
    writer.finish().with_context(cannot)?;
    Ok(())
}

/// Prints to a terminal that may be gone: `mutua replay | head` is no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
