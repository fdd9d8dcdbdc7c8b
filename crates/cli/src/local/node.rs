//! The local node, a background process.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Result, bail};
use mutua_node::Config;
use mutua_server::{Options, ServeError, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit;

/// How long it runs without clients.
const IDLE: Duration = Duration::from_secs(60);

/// Runs this process as the user's node.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("this user's node: {error:#}");
            eprintln!("mutua: {text}");
            // The process that started it may read this: the log may be on a full disk.
            let _ = writeln!(io::stdout(), "{text}");
            ExitCode::from(match error.downcast_ref() {
                Some(ServeError::Failed { .. }) => exit::INTERNAL,
                Some(error) if error.is_taken() => exit::CONFLICT,
                Some(_) | None => exit::UNAVAILABLE,
            })
        }
    }
}

fn run(arguments: &[OsString]) -> Result<()> {
    let [_, directory, socket] = arguments else {
        bail!("{} is internal to mutua", super::ARGUMENT)
    };
    let (directory, socket) = (PathBuf::from(directory), PathBuf::from(socket));
    detach();
    crate::commands::log_to_stderr(tracing::Level::INFO, crate::commands::LogFormat::Text);
    let idle = std::env::var("MUTUA_IDLE_MS").ok().and_then(|text| text.parse().ok());
    let idle = idle.map_or(IDLE, Duration::from_millis);
    let options = Options { node: Config::alone(&directory), socket, tcp: None, idle: Some(idle) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = async {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        serve(options, stop).await.map_err(anyhow::Error::from)
    })
}

/// Leaves the session and terminal of the process that started it, and closes inherited
/// descriptors. The working directory and standard descriptors were set when it was started.
fn detach() {
    // It fails only for a session leader, which has left the session already.
    let _ = setsid();
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2) {
        // The one that the list was read through is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    raise_open_files();
}

/// Allows as many open files as this user may have: each client needs one.
pub(crate) fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
