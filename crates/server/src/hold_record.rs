//! The record of each lock that a client of a single node holds. It survives a crash of the node's
//! process, so that the next one waits for the names that were held, and for no others.
//!
//! As the longest lease (`lease_record.rs`), a hold is written before its client is informed, and
//! not forced to disk: the kernel keeps what a killed process has written. A record that is not
//! removed yet costs a wait for one name. One that is missing could cost mutual exclusion, so a
//! file that is not readable to its last byte says nothing: then the longest lease is waited for,
//! for all names.
//!
//! The file is a header and slots of a few sizes. A hold is written into a free slot of its size,
//! with its length and a checksum, in one call; one byte frees the slot. So the file is as large as
//! the most holds at a time, and a hold is two small writes.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use mutua_client::proto::v1;
use prost::Message;

use crate::{
    Moment,
    lease_record::WIDTH,
    leases::{Held, Name, Opening},
    recorded,
};

/// The bytes before the first slot.
const HEADER: u64 = 128;
/// The bytes of a slot before its hold: its mark, its size, whether it is in use, the length and
/// the checksum of the hold.
const SLOT: usize = 24;
const MARK: [u8; 4] = *b"hold";
const FREE: u8 = 0;
const USED: u8 = 1;
/// The offset of the byte that says whether a slot is in use.
const STATE: u64 = 5;
/// Slots have 256 bytes, twice as many, and so on.
const SMALLEST: usize = 256;
const SIZES: usize = 16;

/// A hold as it is recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HoldRecord {
    pub(crate) name: Name,
    pub(crate) fencing_token: u64,
    /// The session of its client.
    pub(crate) opening: Opening,
    /// When its lease expires; `Moment::NEVER` while its client renews it.
    pub(crate) until: Moment,
    /// When it was granted, in milliseconds of the calendar.
    pub(crate) granted_ms: u64,
    /// Whether it is broken: its client has not released it yet.
    pub(crate) broken: bool,
}

impl HoldRecord {
    pub(crate) fn new(now: Moment, name: &Name, held: Held) -> Self {
        let Held { fencing_token, opening, since, until, broken } = held;
        let granted_ms = recorded::granted_ms(now, since);
        Self { name: Name::clone(name), fencing_token, opening, until, granted_ms, broken }
    }

    /// The hold, seen by a node that starts now.
    pub(crate) fn held(self, now: Moment) -> Held {
        let Self { fencing_token, opening, until, granted_ms, broken, .. } = self;
        Held { fencing_token, opening, since: recorded::since(now, granted_ms), until, broken }
    }

    /// How long its client may still hold the lock, seen by a node that starts now.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        self.until.since(now).min(self.opening.ttl)
    }
}

/// A hold with the key of etcd's recipes that it is for.
pub(crate) type Recorded = (HoldRecord, Option<v1::RecordedKey>);

/// The file of holds.
pub(super) struct HoldRecords {
    file: File,
    slots: HashMap<Name, Slot>,
    free: [Vec<u64>; SIZES],
    end: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    offset: u64,
    size: u8,
}

fn path(directory: &Path) -> PathBuf {
    directory.join("holds")
}

fn header(boot: &str, generation: u64) -> Vec<u8> {
    let text = format!("mutua holds 1 {boot:WIDTH$} {generation:020}\n");
    let mut bytes = text.into_bytes();
    bytes.resize(HEADER as usize, b' ');
    bytes
}

impl HoldRecords {
    /// The holds in the file of this boot and generation; `None` if there is no such file, or any
    /// part of it is not as it was written.
    pub(super) fn read(directory: &Path, boot: &str, generation: u64) -> Option<Vec<Recorded>> {
        let bytes = fs::read(path(directory)).ok()?;
        let (first, mut rest) = bytes.split_at_checked(HEADER as usize)?;
        if first != header(boot, generation) {
            return None;
        }
        let mut holds = Vec::new();
        while !rest.is_empty() {
            let (slot, body) = rest.split_at_checked(SLOT)?;
            let size = SMALLEST << (usize::from(slot[4]) & (SIZES - 1));
            let is_slot = slot[..4] == MARK && usize::from(slot[4]) < SIZES;
            if !is_slot || slot[STATE as usize] > USED {
                return None;
            }
            if slot[STATE as usize] == USED {
                let length = u32::from_le_bytes(slot[8..12].try_into().ok()?) as usize;
                let body = body.get(..length).filter(|_| length + SLOT <= size)?;
                let checksum = u64::from_le_bytes(slot[16..24].try_into().ok()?);
                if mutua_protocol::digest(body) != checksum {
                    return None;
                }
                holds.push(decode(body)?);
            }
            // The last slot may end before its size.
            rest = rest.get(size..).unwrap_or_default();
        }
        Some(holds)
    }

    /// Makes a file of another generation, with these holds, in the place of the last one.
    ///
    /// # Errors
    ///
    /// If it cannot be written. The last one may be in its place then, or this one.
    pub(super) fn create(
        directory: &Path,
        boot: &str,
        generation: u64,
        holds: &[Recorded],
    ) -> io::Result<Self> {
        let new = directory.join("holds.new");
        let mut options = File::options();
        options.create(true).read(true).write(true).truncate(true).mode(0o600);
        let file = options.open(&new)?;
        file.write_all_at(&header(boot, generation), 0)?;
        let (slots, free) = (HashMap::new(), [const { Vec::new() }; SIZES]);
        let mut records = Self { file, slots, free, end: HEADER };
        for (hold, key) in holds {
            records.write(hold, key.clone())?;
        }
        fs::rename(&new, path(directory))?;
        Ok(records)
    }

    /// Records a hold, in the place of the last one of its name.
    ///
    /// # Errors
    ///
    /// If it cannot be written: its client must not be informed then.
    pub(super) fn write(
        &mut self,
        hold: &HoldRecord,
        key: Option<v1::RecordedKey>,
    ) -> io::Result<()> {
        let body = encode(hold, key);
        let fits = |size: &u8| SLOT + body.len() <= SMALLEST << size;
        let size = (0..SIZES as u8).find(fits).ok_or(io::ErrorKind::FileTooLarge)?;
        if let Some(slot) = self.slots.get(&hold.name).filter(|slot| slot.size != size) {
            self.file.write_all_at(&[FREE], slot.offset + STATE)?;
            self.forget(&hold.name);
        }
        let slot = match self.slots.get(&hold.name) {
            Some(slot) => *slot,
            None => self.take(size),
        };
        let mut bytes = vec![0; SLOT];
        bytes[..4].copy_from_slice(&MARK);
        (bytes[4], bytes[STATE as usize]) = (size, USED);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&mutua_protocol::digest(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        self.file.write_all_at(&bytes, slot.offset)?;
        self.slots.insert(Name::clone(&hold.name), slot);
        Ok(())
    }

    /// Removes the hold of a name.
    ///
    /// # Errors
    ///
    /// If it cannot be written: the name is waited for after a crash.
    pub(super) fn remove(&mut self, name: &Name) -> io::Result<()> {
        let Some(slot) = self.slots.get(name) else { return Ok(()) };
        self.file.write_all_at(&[FREE], slot.offset + STATE)?;
        self.forget(name);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) {
        self.file = file;
    }

    fn forget(&mut self, name: &Name) {
        if let Some(slot) = self.slots.remove(name) {
            self.free[usize::from(slot.size)].push(slot.offset);
        }
    }

    fn take(&mut self, size: u8) -> Slot {
        let offset = self.free[usize::from(size)].pop().unwrap_or_else(|| {
            let offset = self.end;
            self.end += (SMALLEST << size) as u64;
            offset
        });
        Slot { offset, size }
    }
}

/// The numbers of a hold, the length of its name, the name, and the client as other members would
/// record it.
fn encode(hold: &HoldRecord, key: Option<v1::RecordedKey>) -> Vec<u8> {
    let HoldRecord { name, fencing_token, opening, until, granted_ms, broken } = hold;
    let ttl = opening.ttl.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX);
    let numbers = [*fencing_token, opening.id.cast_unsigned(), ttl, until.nanos()];
    let mut bytes = Vec::with_capacity(SMALLEST);
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(name);
    let client = recorded::recorded_value(opening, key, *granted_ms);
    let client = v1::Recorded { broken: *broken, ..client };
    client.encode(&mut bytes).expect("a vector grows");
    bytes
}

fn decode(bytes: &[u8]) -> Option<Recorded> {
    let (numbers, rest) = bytes.split_at_checked(32)?;
    let number = |index: usize| -> Option<u64> {
        Some(u64::from_le_bytes(numbers.get(8 * index..8 * index + 8)?.try_into().ok()?))
    };
    let (length, rest) = rest.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (name, client) = rest.split_at_checked(length)?;
    let value = v1::Recorded::decode(client).ok()?;
    let (granted_ms, broken, key) = (value.granted_ms, value.broken, value.key.clone());
    let ttl = Duration::from_millis(number(2)?);
    let hold = HoldRecord {
        name: Name::from(name),
        fencing_token: number(0)?,
        opening: recorded::recorded_opening(value, number(1)?.cast_signed(), ttl),
        until: Moment::from_nanos(number(3)?),
        granted_ms,
        broken,
    };
    Some((hold, key))
}

#[cfg(test)]
mod tests;
