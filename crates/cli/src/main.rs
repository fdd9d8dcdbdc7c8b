//! The `mutua` binary: one command over the algorithms, the simulator, the checker and the node.

#[macro_use]
mod out;

mod commands;
mod durations;
mod exit;
mod guard;
mod lines;
mod local;
mod names;
mod network;
mod parallel;
mod plot;
mod seeds;
mod size;
mod system;
mod verdict;
mod workload;

use std::process::ExitCode;

use clap::Parser;

/// Distributed mutual exclusion: simulate it, prove it, draw it, use it.
#[derive(Debug, Parser)]
#[command(name = "mutua", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    // Mutua starts itself for these; a parser would only cost time.
    let own: Vec<_> = std::env::args_os().skip(1).collect();
    match own.first().and_then(|first| first.to_str()) {
        Some(guard::ARGUMENT) => return guard::main(&own),
        Some(local::ARGUMENT) => return local::main(&own),
        Some(commands::lock::DIE) => return commands::lock::die(&own),
        Some(commands::demo::ARGUMENT) => return commands::demo::main(&own),
        _ => {}
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::of_parse_error(&error),
    };
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => exit::of_error(&error),
    }
}
