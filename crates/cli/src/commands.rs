//! The subcommands, one a file.

mod algorithms;
mod check;
mod choose;
mod cluster;
mod compare;
mod node;
mod replay;
mod simulate;
mod status;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the algorithms, or show one's page.
    Algorithms(algorithms::Arguments),

    /// Explore every interleaving of a small system.
    Check(Box<check::Arguments>),
    /// Describe a situation and be told which algorithm to take.
    Choose(Box<choose::Arguments>),

    /// Play a worked example step by step; without a name, list them.
    Replay(replay::Arguments),

    /// Compare algorithms over sizes and loads, as one page with plots.
    Compare(compare::Arguments),
    /// Simulate one algorithm and compare with theory.
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
            Self::Check(arguments) => check::run(&arguments),
            Self::Choose(arguments) => choose::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Simulate(arguments) => simulate::run(&arguments),
            Self::Node(arguments) => node::run(&arguments),
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
        }
    }
}
