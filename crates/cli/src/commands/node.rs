//! `mutua node`: run a node of a cluster until it is told to end.

use std::{
    io::{ErrorKind, IsTerminal, stderr},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Args;
use mutua_node::{Config, StartError, TraceConfig};
use mutua_service::{Options, ServeError, serve};
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

    /// Serve clients on this Unix socket [default: locks.sock in the node's directory].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Serve clients here too, those of etcd among them: a loopback address and port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<std::net::SocketAddr>,

    /// Write what happens to a lock at this node, as a trace: `mutua replay` shows and draws it.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Which lock to trace [default: the first that is used].
    #[arg(long, value_name = "NAME", requires = "trace")]
    trace_lock: Option<String>,

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
    config.trace = arguments.trace.clone().map(|file| TraceConfig {
        file,
        lock: arguments.trace_lock.clone().map(String::into_bytes),
    });
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let socket = arguments.socket.clone().unwrap_or_else(|| config.data.join("locks.sock"));
    runtime.block_on(run_node(Options { node: config, socket, tcp: arguments.listen, idle: None }))
}

/// Reads a configuration; a bad one is exit code 78.
pub(crate) fn read(path: &std::path::Path) -> Result<Config> {
    Config::read(path).map_err(|error| Coded(CONFIG, error.to_string()).into())
}

async fn run_node(options: Options) -> Result<ExitCode> {
    let mut term = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let name = options.node.node.clone();
    let stop = async {
        tracing::info!("node {name} runs as process {}", std::process::id());
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    serve(options, stop).await.map_err(|error| match error {
        ServeError::Start(StartError::NotLoopback { .. }) | ServeError::NotLoopback(_) => {
            anyhow::Error::from(Coded(CONFIG, format!("{error} (--insecure)")))
        }
        // Something that is no socket is where the socket should be.
        ServeError::Listen { ref source, .. } if source.kind() == ErrorKind::AlreadyExists => {
            Coded(CONFIG, error.to_string()).into()
        }
        ServeError::Start(StartError::Config(_)) => Coded(CONFIG, error.to_string()).into(),
        other => other.into(),
    })?;
    Ok(ExitCode::SUCCESS)
}
