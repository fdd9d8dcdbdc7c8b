//! The node in the background.

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
use mutua_service::{Options, ServeError, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit;

/// How long it stays when nobody needs it.
const IDLE: Duration = Duration::from_secs(60);

/// Runs this process as the user's node.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("the node of this user: {error:#}");
            eprintln!("mutua: {text}");
            // Whoever started it may listen: the log may be where there is no room for it.
            let _ = writeln!(io::stdout(), "{text}");
            let taken = error.downcast_ref().is_some_and(ServeError::is_taken);
            ExitCode::from(if taken { exit::CONFLICT } else { exit::UNAVAILABLE })
        }
    }
}

fn run(arguments: &[OsString]) -> Result<()> {
    let [_, directory, socket] = arguments else { bail!("this is for mutua's own use") };
    let (directory, socket) = (PathBuf::from(directory), PathBuf::from(socket));
    detach();
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

/// Leaves whoever started it: its session and terminal, and whatever it had open. Its working
/// directory and standard descriptors were chosen when it was started.
fn detach() {
    // It fails only for a leader, who has left already.
    let _ = setsid();
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2) {
        // The one that the list was read through is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
