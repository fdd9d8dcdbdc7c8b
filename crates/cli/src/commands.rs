//! The subcommands, one a file.

mod algorithms;
mod replay;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the algorithms, or show one's page.
    Algorithms(algorithms::Arguments),
    /// Play a worked example step by step; without a name, list them.
    Replay(replay::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Algorithms(arguments) => algorithms::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
        }
    }
}
