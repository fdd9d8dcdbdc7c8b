//! The subcommands, one a file.

mod algorithms;
mod check;
mod choose;
mod cluster;
mod compare;
pub(crate) mod demo;
pub(crate) mod lock;
mod locks;
mod node;
mod papers;
mod replay;
mod simulate;
mod status;

pub(crate) use locks::block_on;
pub(crate) use node::read as read_config;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::exit;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the algorithms, or show one's page.
    Algorithms(algorithms::Arguments),
    /// Run a command while holding a lock. Without a command it prints the token and holds the
    /// lock until a signal or the end of its standard input.
    #[command(after_help = lock::HELP, override_usage = lock::USAGE)]
    Lock(lock::Arguments),
    /// List the locks that somebody is inside or waits for, at all nodes.
    #[command(after_help = locks::HELP)]
    Ls(locks::ListArguments),
    /// Show who is inside a lock and who waits, at all nodes.
    #[command(after_help = locks::HELP)]
    Show(locks::ShowArguments),
    /// Show a lock whenever it changes.
    #[command(after_help = locks::HELP)]
    Watch(locks::ShowArguments),
    /// Whether a token is the lock's current one: exit code 0 if it is, 1 if not.
    #[command(after_help = locks::HELP)]
    Verify(locks::VerifyArguments),
    /// Take a lock away from whoever is inside: exit code 1 if nobody is.
    #[command(after_help = locks::HELP)]
    Break(locks::BreakArguments),
    /// Show what a lock is for.
    Demo(demo::Arguments),
    /// Print a completion script for a shell.
    Completions(papers::CompletionArguments),
    /// Print the manual, or the page of one command.
    Man(papers::ManArguments),

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

    /// Run a node of a cluster.
    Node(node::Arguments),
    /// Start nodes on this machine to try things, and end them.
    Cluster(cluster::Arguments),
    /// Say how a node is: its view, its links, what is stopped and why.
    Status(status::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Algorithms(arguments) => algorithms::run(&arguments),
            Self::Lock(arguments) => lock::run(&arguments),
            Self::Ls(arguments) => locks::list(&arguments),
            Self::Show(arguments) => locks::show(&arguments),
            Self::Watch(arguments) => locks::watch(&arguments),
            Self::Verify(arguments) => locks::verify(&arguments),
            Self::Break(arguments) => locks::break_grant(&arguments),
            Self::Demo(arguments) => demo::run(&arguments),
            Self::Completions(arguments) => papers::completions(&arguments),
            Self::Man(arguments) => papers::man(&arguments),
            Self::Check(arguments) => check::run(&arguments).map_err(exit::of_a_file),
            Self::Choose(arguments) => choose::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments).map_err(exit::of_a_file),
            Self::Compare(arguments) => compare::run(&arguments).map_err(exit::of_a_file),
            Self::Simulate(arguments) => simulate::run(&arguments).map_err(exit::of_a_file),
            Self::Node(arguments) => node::run(&arguments),
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
        }
    }
}
