//! Mutua and what people use instead, measured in one run on one machine.
//!
//! `run` is the driver. It starts this program again as contenders, nodes and the server of the
//! ping.

mod clients;
mod contender;
mod guarantees;
mod machine;
mod measure;
mod node;
mod piece;
mod servers;
mod spec;
mod statistics;
mod systems;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

/// Mutua and what people use instead, measured in one run on one machine.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Try { systems: Vec<String> },
    /// A contender; started by `run`.
    #[command(hide = true)]
    Contend { spec: String },
    /// A node of Mutua with its service; started by `run`.
    #[command(hide = true)]
    Node { spec: String },
    /// Sends back what comes; started by `run`.
    #[command(hide = true)]
    Echo { address: String },
}

fn main() -> ExitCode {
    let code = match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("side-by-side: {error:#}");
            ExitCode::FAILURE
        }
    };
    code
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Try { systems } => {
            one_thread()?.block_on(async {
                for system in systems::all() {
                    if systems.contains(&system.id) {
                        let p = piece::measure(&system, 1, &piece::Lengths::quick()).await;
                        println!("{}", serde_json::to_string_pretty(&p).unwrap());
                    }
                }
            });
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
    let _ = Duration::ZERO;
    Ok(ExitCode::SUCCESS)
}

fn one_thread() -> Result<Runtime> {
    // A task that yields lets the sockets be looked at. With tokio's default, 61 steps, a contender
    // whose lock is free for it would not hear for that long that others want it.
    Ok(Builder::new_current_thread().event_interval(1).enable_all().build()?)
}
