//! Opening the log store at start: what is there is checked, never repaired by guessing.

use serde::{Deserialize, Serialize};

use super::{
    file::{Disk, Files},
    format,
    log::{LOG, Log},
    snapshot::{self, Snapshot},
    vote,
};
use crate::{config::Origin, error::StoreError, interface::VoterId, types::Vote};

const IDENTITY: &str = "identity";
const FORMAT: u16 = 1;

/// Whose files these are. Written last when the store is created, so that a store with an identity
/// has a log.
#[derive(Serialize, Deserialize)]
struct Identity {
    format: u16,
    voter: VoterId,
}

/// A store that was read.
pub(crate) struct Opened {
    pub(crate) files: Files,
    pub(crate) log: Log,
    pub(crate) vote: Option<Vote>,
    pub(crate) snapshot: Option<Snapshot>,
}

/// Open a voter's store, or create it where that is allowed.
pub(crate) fn open(
    disk: Box<dyn Disk>,
    voter: VoterId,
    origin: Origin,
) -> Result<Opened, StoreError> {
    let mut files = Files::new(disk);
    match files.read(IDENTITY)? {
        Some(bytes) => check_identity(&bytes, voter)?,
        None if origin == Origin::Existing => return Err(StoreError::Wiped(voter)),
        None => create(&mut files, voter)?,
    }
    let Some(bytes) = files.read(LOG)? else { return Err(corrupt(LOG, "the file is missing")) };
    let (log, torn) = Log::decode(&bytes)?;
    if let Some(at) = torn {
        let removed = bytes.len() - at;
        tracing::warn!(%voter, at, removed, "removed an append to the log that did not finish");
    }
    let vote = vote::load(&mut files)?;
    let snapshot = snapshot::load(&mut files)?;
    check(&log, vote.as_ref(), snapshot.as_ref())?;
    rewrite(&mut files, &log, vote.as_ref(), snapshot.as_ref())?;
    Ok(Opened { files, log, vote, snapshot })
}

fn check_identity(bytes: &[u8], expected: VoterId) -> Result<(), StoreError> {
    let payload = format::only_frame(bytes).map_err(|reason| corrupt(IDENTITY, reason))?;
    let identity = postcard::from_bytes::<Identity>(payload);
    let identity = identity.map_err(|_| corrupt(IDENTITY, "the contents are invalid"))?;
    if identity.format != FORMAT {
        let reason = "the format is unknown: it was written by another version";
        return Err(corrupt(IDENTITY, reason));
    }
    match identity.voter {
        found if found == expected => Ok(()),
        found => Err(StoreError::WrongVoter { found, expected }),
    }
}

fn create(files: &mut Files, voter: VoterId) -> Result<(), StoreError> {
    if vote::load(files)?.is_some() || snapshot::load(files)?.is_some() {
        return Err(corrupt(IDENTITY, "the file is missing"));
    }
    files.replace(LOG, &Log::default().encode())?;
    let identity = postcard::to_stdvec(&Identity { format: FORMAT, voter });
    files.replace(IDENTITY, &format::frame(&identity.expect("a number can be serialized")))
}

/// Compare the files with one another: each of them was durable before the next was written.
fn check(log: &Log, vote: Option<&Vote>, snapshot: Option<&Snapshot>) -> Result<(), StoreError> {
    // A leader's term is voted for before its entries are written.
    let written = log.last().map(|id| id.leader_id).filter(|leader| leader.term > 0);
    if written > vote.map(|vote| vote.leader_id) {
        return Err(vote::corrupt("the vote is older than the log"));
    }
    // Entries are purged only when a snapshot has them.
    if log.purged > snapshot.and_then(|snapshot| snapshot.meta.last_log_id) {
        return Err(snapshot::corrupt("the snapshot is older than the log's first entry"));
    }
    Ok(())
}

/// Write again what was read. It may be in memory only: left by a process that was killed between
/// a write and its fsync, or by one whose fsync failed, after which the pages count as clean and
/// another fsync of them would succeed and mean nothing. From here on this voter answers on the
/// strength of what was read, so it has to be durable.
fn rewrite(
    files: &mut Files,
    log: &Log,
    vote: Option<&Vote>,
    snapshot: Option<&Snapshot>,
) -> Result<(), StoreError> {
    if let Some(vote) = vote {
        vote::save(files, vote)?;
    }
    if let Some(snapshot) = snapshot {
        snapshot::save(files, snapshot)?;
    }
    files.replace(LOG, &log.encode())
}

fn corrupt(file: &'static str, reason: &'static str) -> StoreError {
    StoreError::Corrupt { file, offset: 0, reason }
}
