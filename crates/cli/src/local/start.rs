//! Finding the user's node, or starting it.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::Result;
use mutua_service::client::{ConnectError, connect};
use tonic::transport::Channel;

use super::{ARGUMENT, Place};
use crate::exit;

/// How long a node may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look for it, and to start one again that did not stay.
const LOOK: Duration = Duration::from_millis(5);
const AGAIN: Duration = Duration::from_millis(100);

/// A node that this process has started, and its turn to do so.
struct Started {
    _turn: File,
    child: Child,
}

/// A connection to the node at this place, which is started if there is none.
pub(crate) async fn connect_or_start(place: &Place) -> Result<Channel> {
    let endpoint = place.endpoint();
    let begun = Instant::now();
    let mut started: Option<Started> = None;
    loop {
        // The common case costs nothing but this.
        let why = match connect(&endpoint).await {
            Ok(channel) => return Ok(channel),
            Err(ConnectError::Unreachable(why)) => why,
            Err(for_good) => return Err(exit::not_connected(&for_good)),
        };
        if begun.elapsed() > PATIENCE {
            let log = place.directory.join("log");
            let text = format!("no node: {why}; {} may say more", log.display());
            return Err(exit::unavailable(text));
        }
        if let Some(kept) = place.is_kept() {
            return Err(exit::unavailable(format!("{kept} ({why})")));
        }
        tokio::time::sleep(match &mut started {
            None => {
                started = start(place)?;
                LOOK
            }
            Some(node) => match node.child.try_wait()? {
                None => LOOK,
                Some(status) => {
                    node.must_have_been_beaten(status)?;
                    // A child that ended is let go of before the next is started.
                    started = None;
                    AGAIN
                }
            },
        })
        .await;
    }
}

/// Starts a node, unless somebody else is just doing so: of many that find none, one starts it.
fn start(place: &Place) -> Result<Option<Started>> {
    place.prepare()?;
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let open = |name: &str| {
        let path = place.directory.join(name);
        let failed = |error| exit::unavailable(format!("{}: {error}", path.display()));
        options.open(&path).map_err(failed)
    };
    let turn = open("starting")?;
    if turn.try_lock().is_err() {
        return Ok(None);
    }
    // This very program, though its file may have been replaced since.
    let child = Command::new("/proc/self/exe")
        .arg0("mutua")
        .arg(ARGUMENT)
        .arg(&place.directory)
        .arg(&place.socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open("log")?)
        .spawn()
        .map_err(|error| exit::unavailable(format!("the node cannot be started: {error}")))?;
    Ok(Some(Started { _turn: turn, child }))
}

impl Started {
    /// A node that ended may be started again if another had its place, or it was told to end. If
    /// not, the next would end in the same way.
    fn must_have_been_beaten(&mut self, status: ExitStatus) -> Result<()> {
        match status.code() {
            None | Some(0) => return Ok(()),
            Some(code) if code == i32::from(exit::CONFLICT) => return Ok(()),
            Some(_) => {}
        }
        let mut words = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            // It has ended, so this does not wait.
            let _ = stdout.read_to_string(&mut words);
        }
        let words = match words.trim() {
            "" => format!("the node of this user ended with {status}"),
            words => words.to_owned(),
        };
        Err(exit::unavailable(words))
    }
}
