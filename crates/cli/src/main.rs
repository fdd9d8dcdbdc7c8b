//! The `mutua` binary: one command over the algorithms, the simulator, the checker and the node.

#[macro_use]
mod out;

mod commands;
mod exit;
mod groups;
mod lines;
mod local;
mod memory;
mod names;
mod network;
mod output;
mod parallel;
mod picture;
mod repair;
mod seeds;
mod supervisor;
mod system;
mod systemd;
mod workload;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
// Shared by the commands that study algorithms.
use mutua_lab::{durations, size, verdict, words};

/// Distributed mutual exclusion: hold locks; simulate, check and draw the algorithms behind them.
#[derive(Debug, Parser)]
#[command(name = "mutua", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

/// Whether this program was started by another of its processes.
fn is_named_exe() -> bool {
    std::fs::read("/proc/self/comm").is_ok_and(|name| name == b"exe\n")
}

fn main() -> ExitCode {
    // Mutua starts itself with these arguments; parsing them would only cost time.
    let mut own: Vec<_> = std::env::args_os().skip(1).collect();
    if is_named_exe() {
        // It was started as /proc/self/exe: lists of processes would show that name.
        let _ = std::fs::write("/proc/self/comm", "mutua");
    }
    match own.first().and_then(|first| first.to_str()) {
        Some(supervisor::ARGUMENT) => return supervisor::main(&own),
        Some(local::ARGUMENT) => return local::main(&own),
        Some(commands::lock::DIE) => return commands::lock::die(&own),
        _ => {}
    }
    if let Some(code) = commands::demo::part(&own) {
        return code;
    }
    // `mutua help --help` is `mutua help`.
    if own.first().is_some_and(|first| first == "help") {
        own.retain(|word| word != "--help" && word != "-h");
    }
    // Only the help of `mutua` itself lists the commands; other commands need not pay for it.
    let is_help =
        own.first().is_none_or(|first| first == "help" || first == "-h" || first == "--help");
    // The background process of a lock has the arguments of the one that started it.
    let background = own.first().is_some_and(|first| first == commands::lock::BACKGROUND);
    let words = std::iter::once("mutua".into()).chain(own.into_iter().skip(background.into()));
    let command =
        if is_help { groups::grouped(Arguments::command()) } else { Arguments::command() };
    let parsed = command.try_get_matches_from(words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return exit::of_parse_error(&error),
    };
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => exit::of_error(&error),
    }
}
