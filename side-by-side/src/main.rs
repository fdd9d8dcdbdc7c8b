//! Mutua and what people use instead, measured in one run on one machine.
//!
//! `run` is the driver. It starts this program again as contenders, nodes and the server of the
//! ping.

mod clients;
mod contender;
mod drive;
mod guarantees;
mod halves;
mod machine;
mod measure;
mod meta;
mod node;
mod piece;
mod report;
mod servers;
mod spec;
mod statistics;
mod systems;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
};

/// Mutua and what people use instead, measured in one run on one machine.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(drive::Options),
    /// Name all systems.
    List,
    /// Write the report of results again.
    Report {
        /// Where the results are.
        #[arg(default_value = "out")]
        directory: PathBuf,
    },
    /// Keep a report in the repository, with the small table that the README includes.
    Keep {
        /// Where the results are.
        #[arg(default_value = "out")]
        directory: PathBuf,
    },
    /// Write the kept report again from its kept figures, after its texts have changed.
    Rewrite,
    /// Measure the simulator and the checker only, and print JSON.
    Halves {
        /// One short round.
        #[arg(long)]
        quick: bool,
    },
    /// A contender; started by `run`.
    #[command(hide = true)]
    Contend {
        spec: String,
    },
    /// A node of Mutua with its service; started by `run`.
    #[command(hide = true)]
    Node {
        spec: String,
    },
    /// Sends back what comes; started by `run`.
    #[command(hide = true)]
    Echo {
        address: String,
    },
}

/// Bad usage, in the words of sysexits.h; as `mutua` has it.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("side-by-side: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Run(options) => {
            if let Some(name) = options.unknown() {
                eprintln!("side-by-side: unknown system `{name}`: `list` names them");
                return Ok(ExitCode::from(USAGE));
            }
            return one_thread()?.block_on(drive_until_signal(&options));
        }
        Command::List => {
            for system in systems::all() {
                println!("{:<30} {}", system.id, system.title);
            }
        }
        Command::Report { directory } => report::write(&directory)?,
        Command::Keep { directory } => report::keep(&directory)?,
        Command::Rewrite => report::rewrite()?,
        Command::Halves { quick } => {
            println!("{}", serde_json::to_string_pretty(&halves::measure(quick))?);
        }
        Command::Contend { spec } => {
            let spec = serde_json::from_str(&spec).context("no specification")?;
            one_thread()?.block_on(contender::run(&spec))?;
        }
        Command::Node { spec } => {
            let spec = serde_json::from_str(&spec).context("no specification")?;
            // As the command line does it.
            Builder::new_multi_thread().enable_all().build()?.block_on(node::run(spec))?;
        }
        Command::Echo { address } => one_thread()?.block_on(clients::Ping::serve(&address))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the driver; a signal ends everything that it has started with it, since dropping does
/// that.
async fn drive_until_signal(options: &drive::Options) -> Result<ExitCode> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::select! {
        result = drive::run(options) => result.map(|complete| match complete {
            true => ExitCode::SUCCESS,
            // The code of `mutua` for something that was not completed.
            false => ExitCode::from(2),
        }),
        _ = term.recv() => ended_by_signal(143),
        _ = int.recv() => ended_by_signal(130),
    }
}

fn ended_by_signal(code: u8) -> Result<ExitCode> {
    eprintln!("\nended; run the same with --resume to go on");
    Ok(ExitCode::from(code))
}

fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
