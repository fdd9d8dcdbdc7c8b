//! Finding the user's node, or starting it.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use mutua_service::client::connect;
use tonic::transport::Channel;

use super::{ARGUMENT, Place};

/// How long a node may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the node at this place, which is started if there is none.
pub(crate) async fn connect_or_start(place: &Place) -> Result<Channel, String> {
    let endpoint = place.endpoint();
    let begun = Instant::now();
    let mut starter: Option<(File, Child)> = None;
    loop {
        // The common case costs nothing but this.
        let why = match connect(&endpoint).await {
            Ok(channel) => return Ok(channel),
            Err(why) => why,
        };
        if begun.elapsed() > PATIENCE {
            let log = place.directory.join("log");
            return Err(format!("no node: {why}; {} may say more", log.display()));
        }
        if let Some(kept) = place.is_kept() {
            return Err(format!("{kept} ({why})"));
        }
        let running =
            starter.as_mut().is_some_and(|(_, child)| matches!(child.try_wait(), Ok(None)));
        if !running {
            // A child that ended is let go of before the next is started.
            drop(starter.take());
            starter = start(place).map_err(|error| format!("{error:#}"))?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts a node, unless somebody else is just doing so: of many that find none, one starts it.
fn start(place: &Place) -> anyhow::Result<Option<(File, Child)>> {
    place.prepare()?;
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let turn = options.open(place.directory.join("starting"))?;
    if turn.try_lock().is_err() {
        return Ok(None);
    }
    let log = options.open(place.directory.join("log"))?;
    let child = Command::new(std::env::current_exe()?)
        .arg(ARGUMENT)
        .arg(&place.directory)
        .arg(&place.socket)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    Ok(Some((turn, child)))
}
