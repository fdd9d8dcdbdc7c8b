//! The latest snapshot: the state machine's bytes, with the last entry and the voters in it.

use std::sync::Arc;

use super::{file::Files, format};
use crate::{error::StoreError, types::SnapshotMeta};

const SNAPSHOT: &str = "snapshot";

/// A snapshot as it is kept, on disk and in memory.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) meta: SnapshotMeta,
    pub(crate) state: Arc<Vec<u8>>,
}

pub(crate) fn save(files: &mut Files, snapshot: &Snapshot) -> Result<(), StoreError> {
    let payload = postcard::to_stdvec(&(&snapshot.meta, &*snapshot.state));
    let payload = payload.expect("a snapshot can be serialized");
    files.replace(SNAPSHOT, &format::frame(&payload))
}

pub(crate) fn load(files: &mut Files) -> Result<Option<Snapshot>, StoreError> {
    let Some(bytes) = files.read(SNAPSHOT)? else { return Ok(None) };
    let payload = format::only_frame(&bytes).map_err(corrupt)?;
    let contents = postcard::from_bytes::<(SnapshotMeta, Vec<u8>)>(payload);
    let (meta, state) = contents.map_err(|_| corrupt("the contents are invalid"))?;
    Ok(Some(Snapshot { meta, state: Arc::new(state) }))
}

pub(crate) fn corrupt(reason: &'static str) -> StoreError {
    StoreError::Corrupt { file: SNAPSHOT, offset: 0, reason }
}
