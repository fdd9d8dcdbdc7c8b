//! `mutua node`: run a node of a cluster until it is told to end.

use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_node::{Config, Node, StartError};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::exit::{CONFIG, Coded};

/// Run a node of a cluster.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Its configuration.
    #[arg(long, value_name = "FILE", default_value = "mutua.toml")]
    config: PathBuf,

    /// Listen and speak off this machine, with nothing secret or proven on the links.
    #[arg(long)]
    insecure: bool,

    /// Say only what is not as it should be.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let level = if arguments.quiet { tracing::Level::WARN } else { tracing::Level::INFO };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .init();
    let mut config = read(&arguments.config)?;
    config.insecure |= arguments.insecure;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

/// Reads a configuration; a bad one is exit code 78.
pub(crate) fn read(path: &std::path::Path) -> Result<Config> {
    Config::read(path).map_err(|error| Coded(CONFIG, error.to_string()).into())
}

async fn serve(config: Config) -> Result<ExitCode> {
    let name = config.node.clone();
    let node = Node::start(config).await.map_err(|error| match error {
        StartError::NotLoopback { .. } => {
            anyhow::Error::from(Coded(CONFIG, format!("{error} (--insecure)")))
        }
        StartError::Config(_) => Coded(CONFIG, error.to_string()).into(),
        other => other.into(),
    })?;
    tracing::info!("node {name} runs as process {}", std::process::id());
    let mut term = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        () = node.asked_to_stop() => {}
    }
    node.stop().await;
    Ok(ExitCode::SUCCESS)
}
