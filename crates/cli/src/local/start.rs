//! Connecting to the user's node, or starting it.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::Result;
use mutua_client::{ConnectError, connect};
use tonic::transport::Channel;

use super::{ARGUMENT, Endpoint};
use crate::exit;

/// How long a node may take to serve.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between attempts to connect, and before a node that exited is started again.
const LOOK: Duration = Duration::from_millis(5);
const AGAIN: Duration = Duration::from_millis(100);

/// A node that this process has started, and the file lock that lets one process start it.
struct Started {
    _lock: File,
    child: Child,
}

/// Connects to the node at this endpoint, and starts it if it does not run.
pub(crate) async fn connect_or_start(node: &Endpoint) -> Result<Channel> {
    let endpoint = node.endpoint();
    let begun = Instant::now();
    let mut started: Option<Started> = None;
    loop {
        // The usual case: one attempt succeeds.
        let why = match connect(&endpoint).await {
            Ok(channel) => return Ok(channel),
            Err(ConnectError::Unreachable(why)) => why,
            Err(for_good) => return Err(exit::not_connected(&for_good)),
        };
        if begun.elapsed() > PATIENCE {
            let log = node.directory.join("log");
            let text = format!("no node: {why}; see {}", log.display());
            return Err(exit::unavailable(text));
        }
        if let Some(kept) = node.is_kept() {
            return Err(exit::unavailable(format!("{kept} ({why})")));
        }
        tokio::time::sleep(match &mut started {
            None => {
                started = start(node)?;
                LOOK
            }
            Some(process) => match process.child.try_wait()? {
                None => LOOK,
                Some(status) => {
                    process.check_restart(status)?;
                    // Its file lock is released before the next node is started.
                    started = None;
                    AGAIN
                }
            },
        })
        .await;
    }
}

/// Starts a node, unless another process is just doing so.
fn start(node: &Endpoint) -> Result<Option<Started>> {
    node.prepare()?;
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let open = |name: &str| {
        let path = node.directory.join(name);
        let failed = |error| exit::unavailable(format!("{}: {error}", path.display()));
        options.open(&path).map_err(failed)
    };
    let lock = open("starting")?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    // This very program, even if its file was replaced meanwhile.
    let child = Command::new("/proc/self/exe")
        .arg0("mutua")
        .arg(ARGUMENT)
        .arg(&node.directory)
        .arg(&node.socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open("log")?)
        .spawn()
        .map_err(|error| exit::unavailable(format!("cannot start the node: {error}")))?;
    Ok(Some(Started { _lock: lock, child }))
}

impl Started {
    /// Allows a restart only if the node exited with 75 (socket in use), was stopped or was killed.
    /// After any other exit the next node would fail in the same way.
    fn check_restart(&mut self, status: ExitStatus) -> Result<()> {
        match status.code() {
            None | Some(0) => return Ok(()),
            Some(code) if code == i32::from(exit::CONFLICT) => return Ok(()),
            Some(_) => {}
        }
        let mut words = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            // It has exited, so this does not block.
            let _ = stdout.read_to_string(&mut words);
        }
        let words = match words.trim() {
            "" => format!("this user's node exited with {status}"),
            words => words.to_owned(),
        };
        Err(exit::unavailable(words))
    }
}
