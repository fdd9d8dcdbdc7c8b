//! The subcommands, one a file.

mod algorithms;
mod cert;
mod check;
mod choose;
mod cluster;
mod compare;
mod config;
pub(crate) mod demo;
mod elect;
mod lab;
pub(crate) mod lock;
mod locks;
mod man;
mod node;
mod quorums;
mod replay;
mod simulate;
mod status;
mod top;

pub(crate) use locks::{block_on, plain};
pub(crate) use node::{LogFormat, log_to_stderr, read as read_config};

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::exit;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the algorithms, or describe one.
    #[command(after_help = exit::PRINT_HELP)]
    Algorithms(algorithms::Arguments),
    /// Run a command while holding a lock.
    #[command(after_help = lock::HELP, override_usage = lock::USAGE)]
    Lock(lock::Arguments),
    /// Run a command while leading an election, or observe one.
    #[command(after_help = elect::HELP, override_usage = elect::USAGE)]
    Elect(elect::Arguments),
    /// List the locks that are held or waited for, at all nodes.
    #[command(after_help = locks::LIST_HELP)]
    Ls(locks::ListArguments),
    /// Show a lock's holder and waiters, at all nodes.
    #[command(after_help = locks::LIST_HELP)]
    Show(locks::ShowArguments),
    /// Show a lock's holder and waiters whenever they change.
    #[command(after_help = locks::LIST_HELP)]
    Watch(locks::ShowArguments),
    /// Check a fencing token: exit code 0 if it is the current one, 1 if not.
    #[command(after_help = locks::VERIFY_HELP)]
    Verify(locks::VerifyArguments),
    /// Break a lock, that is, take it from its holder: exit code 1 if it is not held.
    #[command(after_help = locks::BREAK_HELP)]
    Break(locks::BreakArguments),
    /// Demonstrate what a lock prevents, and what a cluster survives.
    Demo(demo::Arguments),
    /// Print a completion script for a shell.
    #[command(after_help = exit::PRINT_HELP)]
    Completions(man::CompletionArguments),
    /// Print the manual, or the page of one command.
    #[command(after_help = exit::PRINT_HELP)]
    Man(man::ManArguments),

    /// Model-check a small system: explore every interleaving.
    #[command(after_help = exit::HELP)]
    Check(Box<check::Arguments>),
    /// Recommend an algorithm for a situation, by simulating each.
    #[command(after_help = exit::HELP)]
    Choose(Box<choose::Arguments>),

    /// Replay a worked example, a script or a trace; without a name, list the examples.
    #[command(after_help = exit::HELP)]
    Replay(replay::Arguments),

    /// Open the lab in a browser: watch algorithms, decide what happens, run and compare.
    #[command(after_help = lab::HELP)]
    Lab(lab::Arguments),
    /// Show quorums, and which of Maekawa's four properties they have.
    #[command(after_help = exit::HELP)]
    Quorums(quorums::Arguments),

    /// Compare algorithms over sizes and loads: an HTML report with plots.
    #[command(after_help = exit::HELP)]
    Compare(compare::Arguments),
    /// Simulate an algorithm, and compare the measures with theory.
    #[command(after_help = exit::HELP)]
    Simulate(Box<simulate::Arguments>),

    /// Run a node of a cluster.
    #[command(after_help = node::HELP)]
    Node(node::Arguments),
    /// Create a cluster and change its members; run a trial cluster on this machine.
    #[command(after_help = cluster::HELP)]
    Cluster(cluster::Arguments),
    /// Show a node's status: view, links, and why grants are suspended.
    #[command(after_help = status::HELP)]
    Status(status::Arguments),
    /// Watch members, locks, holders, queues and rates live.
    #[command(after_help = top::HELP)]
    Top(top::Arguments),
    /// Make and renew a private CA and certificates for mutual TLS.
    #[command(after_help = cert::HELP)]
    Cert(cert::Arguments),
    /// Check a configuration file, or print an example.
    #[command(after_help = config::HELP)]
    Config(config::Arguments),
}

impl Command {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Algorithms(arguments) => algorithms::run(&arguments),
            Self::Lock(arguments) => lock::run(&arguments),
            Self::Elect(arguments) => elect::run(&arguments),
            Self::Ls(arguments) => locks::list(&arguments),
            Self::Show(arguments) => locks::show(&arguments),
            Self::Watch(arguments) => locks::watch(&arguments),
            Self::Verify(arguments) => locks::verify(&arguments),
            Self::Break(arguments) => locks::break_grant(&arguments),
            Self::Demo(arguments) => demo::run(&arguments),
            Self::Completions(arguments) => man::completions(&arguments),
            Self::Man(arguments) => man::man(&arguments),
            Self::Check(arguments) => check::run(&arguments).map_err(exit::of_a_file),
            Self::Choose(arguments) => choose::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments).map_err(exit::of_a_file),
            Self::Lab(arguments) => lab::run(&arguments),
            Self::Quorums(arguments) => quorums::run(&arguments).map_err(exit::of_a_file),
            Self::Compare(arguments) => compare::run(&arguments).map_err(exit::of_a_file),
            Self::Simulate(arguments) => simulate::run(&arguments).map_err(exit::of_a_file),
            Self::Node(arguments) => node::run(&arguments),
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Top(arguments) => top::run(&arguments),
            Self::Cert(arguments) => cert::run(&arguments),
            Self::Config(arguments) => config::run(&arguments),
        }
    }
}
