//! The subcommands, one a file.

mod algorithms;
mod check;
mod choose;
mod compare;
mod replay;
mod simulate;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::exit;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the algorithms, or show one's page.
    Algorithms(algorithms::Arguments),

    /// Explore every interleaving of a small system.
    #[command(after_help = exit::HELP)]
    Check(Box<check::Arguments>),
    /// Describe a situation and be told which algorithm to take.
    #[command(after_help = exit::HELP)]
    Choose(Box<choose::Arguments>),

    /// Play a worked example step by step; without a name, list them.
    #[command(after_help = exit::HELP)]
    Replay(replay::Arguments),

    /// Compare algorithms over sizes and loads, as one page with plots.
    #[command(after_help = exit::HELP)]
    Compare(compare::Arguments),
    /// Simulate one algorithm and compare with theory.
    #[command(after_help = exit::HELP)]
    Simulate(Box<simulate::Arguments>),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Algorithms(arguments) => algorithms::run(&arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Choose(arguments) => choose::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Simulate(arguments) => simulate::run(&arguments),
        }
    }
}
