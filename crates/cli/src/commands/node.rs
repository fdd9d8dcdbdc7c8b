//! `mutua node`: runs a node of a cluster until it is stopped.

use std::{
    fs,
    io::{ErrorKind, IsTerminal, stderr},
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use mutua_node::{Config, LogLevel, StartError, TraceConfig};
use mutua_server::{Options, ServeError, serve};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::{
    exit::{CONFIG, CONFLICT, Coded, DENIED, FILE, INTERNAL, UNAVAILABLE},
    local::{SYSTEM_CONFIG, config_file, notice, raise_open_files, socket_of},
    systemd,
};

/// The end of the help.
pub(crate) const HELP: &str = "\
Exit codes: 0 stopped by SIGTERM or SIGINT; 64 bad usage; 69 the system failed, so that a restart \
may help; 70 internal error, or a record cannot be written; 73 the trace or the audit log cannot \
be written; 75 another process has the socket, the address or the data directory; 77 permission \
denied; 78 bad configuration, such as an address that this machine does not have.";

/// Run a node of a cluster.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Configuration file [default: MUTUA_CONFIG, else /etc/mutua/mutua.toml]. The node of
    /// /etc/mutua/mutua.toml leaves a notice on this host: locks without configuration are then
    /// refused instead of being local.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Allow links to other machines without TLS, that is, without encryption or authentication.
    #[arg(long)]
    insecure: bool,

    /// Serve clients on this Unix socket [default: `socket` of the configuration, else locks.sock
    /// in the data directory].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Also serve clients, including etcd clients, on this address and port; off loopback only with
    /// `[tls]` in the configuration, or --insecure.
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    listen: Option<SocketAddr>,

    /// Append a JSON line for each grant, release and loss to this file.
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    /// Write a trace of a lock at this node; `mutua replay` shows and draws it.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Lock to trace [default: the first that is used].
    #[arg(long, value_name = "NAME", requires = "trace")]
    trace_lock: Option<String>,

    /// Log only warnings and errors.
    #[arg(long, short)]
    quiet: bool,

    /// Format of the log.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
}

fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "use IP:PORT, as in 127.0.0.1:2379 or [::1]:2379")
}

/// The format of a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let log = log_to_stderr(at_least(LogLevel::Info, arguments.quiet), arguments.log);
    let file = config_file(arguments.config.as_deref());
    let mut config = read(&file)?;
    log.set(at_least(config.log_level, arguments.quiet));
    config.insecure |= arguments.insecure;
    config.audit = arguments.audit.clone().or(config.audit);
    config.trace = arguments.trace.clone().map(|file| TraceConfig {
        file,
        lock: arguments.trace_lock.clone().map(String::into_bytes),
    });
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    raise_open_files();
    let socket = arguments.socket.clone().or(config.socket.clone());
    let socket = socket_of(socket, &config.data);
    runtime.block_on(async {
        if is_of_the_system(&file) {
            // Before anything is granted.
            notice::leave(&config);
        }
        if let Ok(hangups) = signal(SignalKind::hangup()) {
            tokio::spawn(follow_log_level(hangups, log, file, arguments.quiet));
        }
        run_node(Options { node: config, socket, tcp: arguments.listen, idle: None }).await
    })
}

/// Whether this file is the system's configuration, by any path.
fn is_of_the_system(file: &Path) -> bool {
    let identity = |file: &Path| fs::metadata(file).ok().map(|data| (data.dev(), data.ino()));
    let system = identity(Path::new(SYSTEM_CONFIG));
    system.is_some() && identity(file) == system
}

/// The level of the log: of the configuration, or with --quiet warnings at least.
fn at_least(level: LogLevel, quiet: bool) -> tracing::Level {
    match level {
        LogLevel::Info if !quiet => tracing::Level::INFO,
        LogLevel::Info | LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Error => tracing::Level::ERROR,
    }
}

/// Takes up the level of the log at each SIGHUP. The server around the node logs a file that cannot
/// be read.
async fn follow_log_level(mut hangups: Signal, log: Log, file: PathBuf, quiet: bool) {
    while hangups.recv().await.is_some() {
        if let Ok(config) = Config::read(&file) {
            log.set(at_least(config.log_level, quiet));
        }
    }
}

/// The log, whose level can be changed.
pub(crate) struct Log(reload::Handle<Targets, Registry>);

impl Log {
    fn set(&self, level: tracing::Level) {
        // An error means that there is no log any more.
        let _ = self.0.reload(wanted(level));
    }
}

/// The consensus engine logs each of its steps; what matters of them the node logs itself.
fn wanted(level: tracing::Level) -> Targets {
    Targets::new().with_default(level).with_target("openraft", LevelFilter::OFF)
}

/// Logs to standard error from this level on.
pub(crate) fn log_to_stderr(level: tracing::Level, format: LogFormat) -> Log {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        // A log that cannot be written, for example on a full disk, does not stop the node.
        .log_internal_errors(false);
    let (wanted, handle) = reload::Layer::new(wanted(level));
    let log = tracing_subscriber::registry();
    match format {
        LogFormat::Text => log.with(lines.with_filter(wanted)).init(),
        LogFormat::Json => {
            log.with(lines.json().flatten_event(true).with_filter(wanted)).init();
        }
    }
    Log(handle)
}

/// Reads a configuration; a bad one is exit code 78.
pub(crate) fn read(path: &Path) -> Result<Config> {
    if path == Path::new(SYSTEM_CONFIG) && !path.exists() {
        let text = format!(
            "no configuration: give --config FILE, or create {SYSTEM_CONFIG}; `mutua config new` \
             prints one"
        );
        return Err(Coded(CONFIG, text).into());
    }
    Config::read(path).map_err(|error| Coded(CONFIG, error.to_string()).into())
}

async fn run_node(options: Options) -> Result<ExitCode> {
    let mut term = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let name = options.node.node.clone();
    let stop = async {
        tracing::info!("node {name} runs as process {}", std::process::id());
        let supervisor = systemd::Notifier::of_environment();
        supervisor.ready();
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            () = supervisor.keep_alive() => {}
        }
        supervisor.stopping();
    };
    serve(options, stop).await.map_err(|error| match error {
        ServeError::Start(StartError::NotLoopback { .. }) | ServeError::NotLoopback(_) => {
            anyhow::Error::from(Coded(CONFIG, format!("{error} (--insecure)")))
        }
        // The path of the socket exists and is not a socket.
        ServeError::Listen { ref source, .. } if source.kind() == ErrorKind::AlreadyExists => {
            Coded(CONFIG, error.to_string()).into()
        }
        taken if taken.is_taken() => Coded(CONFLICT, taken.to_string()).into(),
        ServeError::Start(StartError::Config(_)) => Coded(CONFIG, error.to_string()).into(),
        ServeError::Failed { why } => Coded(INTERNAL, why).into(),
        other => Coded(code_of(&other), other.to_string()).into(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The exit code for an error of the system.
fn code_of(error: &ServeError) -> u8 {
    let kind = match error {
        ServeError::Start(StartError::Listen { error, .. }) => error.kind(),
        ServeError::Start(StartError::Trace { .. }) | ServeError::Audit { .. } => return FILE,
        ServeError::Listen { source, .. } | ServeError::Record { source, .. } => source.kind(),
        _ => return UNAVAILABLE,
    };
    match kind {
        ErrorKind::PermissionDenied => DENIED,
        // The address is not one of this machine; the directory of the socket is missing.
        ErrorKind::AddrNotAvailable | ErrorKind::NotFound | ErrorKind::NotADirectory => CONFIG,
        _ => UNAVAILABLE,
    }
}
