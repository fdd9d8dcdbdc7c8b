//! The vote: the term, the voter that got this voter's vote in it, and whether that one leads.

use super::{file::Files, format};
use crate::{error::StoreError, types::Vote};

const VOTE: &str = "vote";

pub(crate) fn save(files: &mut Files, vote: &Vote) -> Result<(), StoreError> {
    let payload = postcard::to_stdvec(vote).expect("a vote can be serialized");
    files.replace(VOTE, &format::frame(&payload))
}

pub(crate) fn load(files: &mut Files) -> Result<Option<Vote>, StoreError> {
    let Some(bytes) = files.read(VOTE)? else { return Ok(None) };
    let payload = format::only_frame(&bytes).map_err(corrupt)?;
    let vote = postcard::from_bytes(payload).map_err(|_| corrupt("the contents are invalid"))?;
    Ok(Some(vote))
}

pub(crate) fn corrupt(reason: &'static str) -> StoreError {
    StoreError::Corrupt { file: VOTE, offset: 0, reason }
}
