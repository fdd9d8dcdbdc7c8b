//! `mutua demo`: what a lock prevents, and what a cluster survives.

mod bank;
mod failover;
mod picture;
mod teller;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

/// Demonstrate what a lock prevents, and what a cluster survives.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, Subcommand)]
enum Demo {
    /// Let several processes, each with a node, pay into one account, which is a file: once without
    /// the lock and once with it.
    #[command(after_help = bank::HELP)]
    Bank(bank::Arguments),
    /// Run a bank on five nodes, and kill, pause and cut off nodes meanwhile.
    #[command(after_help = failover::HELP)]
    Failover(failover::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.demo {
        Demo::Bank(arguments) => bank::run(arguments),
        Demo::Failover(arguments) => failover::run(arguments),
    }
}

/// Runs this process as a part of a demonstration, if its first argument says so.
pub(crate) fn part(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments.first()?.to_str()? {
        teller::ARGUMENT => Some(teller::main(arguments)),
        failover::ARGUMENT => Some(failover::main(arguments)),
        _ => None,
    }
}

/// A directory for one run, which is removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(demo: &str) -> Result<Self> {
        let number = mutua_client::now().nanos();
        let name = format!("mutua-{demo}-{}-{number}", std::process::id());
        let path = Path::new(&std::env::temp_dir()).join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
