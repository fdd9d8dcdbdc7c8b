//! The log: all entries that are not purged, in memory, and their file.
//!
//! The file is a header frame, then a frame for each append. Removing entries, at the end or at
//! the beginning, replaces the file as a whole: that is rare, and the log is short.

use std::{
    collections::VecDeque,
    ops::{Bound, RangeBounds},
};

use serde::{Deserialize, Serialize};

use super::format::{self, Found};
use crate::{
    error::StoreError,
    types::{Entry, LogId},
};

pub(crate) const LOG: &str = "log";
const FORMAT: u16 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    format: u16,
    purged: Option<LogId>,
}

/// The entries behind the last purged one, without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) purged: Option<LogId>,
    pub(crate) entries: VecDeque<Entry>,
}

impl Log {
    pub(crate) fn is_empty(&self) -> bool {
        self.purged.is_none() && self.entries.is_empty()
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// The index of the first entry that is there, or will be.
    fn first_index(&self) -> u64 {
        self.purged.map_or(0, |id| id.index + 1)
    }

    pub(crate) fn range(&self, range: impl RangeBounds<u64>) -> Vec<Entry> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let skipped = start.saturating_sub(self.first_index()) as usize;
        let entries = self.entries.iter().skip(skipped);
        entries.take_while(|entry| range.contains(&entry.log_id.index)).cloned().collect()
    }

    /// The same without the entries from `since` on.
    pub(crate) fn truncated(&self, since: u64) -> Log {
        let kept = since.saturating_sub(self.first_index()) as usize;
        Log { purged: self.purged, entries: self.entries.iter().take(kept).cloned().collect() }
    }

    /// The same without the entries up to `upto`, which may lie behind the last one.
    pub(crate) fn purged(&self, upto: LogId) -> Log {
        let removed = (upto.index + 1).saturating_sub(self.first_index()) as usize;
        let purged = self.purged.max(Some(upto));
        Log { purged, entries: self.entries.iter().skip(removed).cloned().collect() }
    }

    /// The whole file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = format::frame(&encode(&Header { format: FORMAT, purged: self.purged }));
        if !self.entries.is_empty() {
            format::write_frame(&encode(&self.entries), &mut bytes);
        }
        bytes
    }

    /// Read the file. Returns the log and, if the last append did not finish, where it began.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Log, Option<usize>), StoreError> {
        // The header is written with the file, atomically.
        let (header, mut at) = match format::read_frame(bytes, 0) {
            Found::Frame(payload, end) => (decode::<Header>(payload, 0)?, end),
            Found::Corrupt(reason) => return Err(corrupt(0, reason)),
            Found::End | Found::Torn => return Err(corrupt(0, "the header is incomplete")),
        };
        if header.format != FORMAT {
            return Err(corrupt(0, "the format is unknown: it was written by another version"));
        }
        let mut log = Log { purged: header.purged, entries: VecDeque::new() };
        loop {
            match format::read_frame(bytes, at) {
                Found::Frame(payload, end) => {
                    for entry in decode::<Vec<Entry>>(payload, at)? {
                        log.check_next(&entry, at)?;
                        log.entries.push_back(entry);
                    }
                    at = end;
                }
                Found::End => return Ok((log, None)),
                Found::Torn => return Ok((log, Some(at))),
                Found::Corrupt(reason) => return Err(corrupt(at, reason)),
            }
        }
    }

    fn check_next(&self, entry: &Entry, at: usize) -> Result<(), StoreError> {
        let last = self.last();
        let follows = entry.log_id.index == last.map_or(0, |id| id.index + 1);
        if follows && last <= Some(entry.log_id) {
            Ok(())
        } else {
            Err(corrupt(at, "the entries are out of order"))
        }
    }
}

/// The frame of an append.
pub(crate) fn append_frame(entries: &[Entry]) -> Vec<u8> {
    format::frame(&encode(&entries))
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("the log's types can be serialized")
}

fn decode<'a, T: Deserialize<'a>>(payload: &'a [u8], at: usize) -> Result<T, StoreError> {
    postcard::from_bytes(payload).map_err(|_| corrupt(at, "the frame's contents are invalid"))
}

fn corrupt(offset: usize, reason: &'static str) -> StoreError {
    StoreError::Corrupt { file: LOG, offset, reason }
}
