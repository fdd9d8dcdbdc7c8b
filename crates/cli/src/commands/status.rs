//! `mutua status`: how a node is.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use mutua_node::{NodeStatus, ask_status};
use tokio::runtime::Builder;

use super::node;
use crate::exit::{Coded, UNAVAILABLE};

/// Say how a node is: its view, its links, what is stopped and why.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The node's configuration.
    #[arg(long, value_name = "FILE", default_value = "mutua.toml")]
    config: PathBuf,

    /// The node's directory, instead of its configuration.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    data: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let data = match &arguments.data {
        Some(data) => data.clone(),
        None => node::read(&arguments.config)?.data,
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(ask_status(&data)).map_err(|error| no_node(&data, &error))?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print!("{}", text(&status));
    }
    Ok(if status.stopped.is_some() { ExitCode::from(UNAVAILABLE) } else { ExitCode::SUCCESS })
}

/// The error for a directory in which no node answers.
pub(crate) fn no_node(data: &Path, error: &std::io::Error) -> anyhow::Error {
    Coded(UNAVAILABLE, format!("no node runs in {}: {error}", data.display())).into()
}

/// The members that are not there, as a beginning of "is back".
fn missing(status: &NodeStatus) -> Option<String> {
    let gone = status.members.iter().filter(|one| one.name != status.node && !one.up);
    let names: Vec<_> = gone.map(|one| &*one.name).collect();
    match &*names {
        [] => None,
        [one] => Some(format!("{one} is")),
        [before @ .., last] => Some(format!("{} and {last} are", before.join(", "))),
    }
}

/// The status for people.
pub(crate) fn text(status: &NodeStatus) -> String {
    let mut text = format!("node {} of cluster {}", status.node, status.cluster);
    let _ = writeln!(text, ", process {}", status.pid);
    let _ = match (status.epoch, &status.stopped) {
        (Some(epoch), None) => {
            writeln!(text, "view {epoch} of {} members: locks are granted", status.members.len())
        }
        (_, Some(why)) => {
            let _ = writeln!(text, "stopped: nothing new is granted, since {why}");
            missing(status).map_or(Ok(()), |missing| {
                writeln!(text, "whoever is inside stays inside; it goes on when {missing} back")
            })
        }
        (None, None) => writeln!(text, "in no view yet"),
    };
    for member in status.members.iter().filter(|member| member.name != status.node) {
        let state = if member.up { "connected" } else { "not connected" };
        let seconds = member.for_ms as f64 / 1000.0;
        let _ = write!(text, "  {:<12} {state} for {seconds:.1} s", member.name);
        let _ = match member.backlog {
            0 => writeln!(text),
            1 => writeln!(text, ", 1 message not acknowledged"),
            backlog => writeln!(text, ", {backlog} messages not acknowledged"),
        };
    }
    let _ = writeln!(
        text,
        "locks known {}, inside {}, waiting {}; entries {}, messages {} and {} lazy",
        status.locks, status.inside, status.waiting, status.entries, status.messages, status.lazy
    );
    text
}
