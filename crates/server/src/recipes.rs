//! etcd's recipes for locks and elections, as locks of ours. Deterministic: no time, no I/O.
//!
//! The clients `etcdctl lock`, `etcdctl elect` and the libraries for Go, Python and Node use no
//! lock service. They create keys in a key-value store, compare revisions and watch keys. This
//! module keeps those keys, each of which is a holder or a waiter of one of our locks:
//!
//! - a key `X/LEASE`, with the number of its lease in hexadecimal or decimal digits, waits for the
//!   lock `X` or holds it;
//! - any other key is held by the lease that created it, or absent: its creation tries the lock of
//!   that name, without a leading `/locks/`.
//!
//! The clients decide from revisions which of them holds a lock, while here the algorithm does. So
//! a waiter is shown exactly one earlier key until it is granted the lock: its own key with the
//! suffix [`AHEAD`], which is deleted by the grant. No other client is shown that key.

mod answers;
mod calls;
mod candidates;
mod election;
mod following;
mod kept;
mod kv_service;
mod permission;
mod probe;
mod records;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
mod transactions;
mod watch_service;

pub(crate) use following::holder_changes;
pub(crate) use kept::Wanted;
pub(crate) use permission::{needs_of_range, needs_of_txn};
pub(crate) use probe::Probes;

use std::collections::BTreeMap;

use crate::{
    leases::{Name, SessionId, WaitId},
    proto::{mvccpb::KeyValue, v1::RecordedKey},
};

/// The suffix of the key that a waiter is shown in place of all clients before it.
pub(crate) const AHEAD: &[u8] = b":ahead";

/// The directory that one client puts its locks into.
const LOCKS: &[u8] = b"/locks/";

/// A key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) lease: SessionId,
    pub(crate) value: Vec<u8>,
    /// The revisions of its creation and of its last change.
    pub(crate) created: u64,
    pub(crate) changed: u64,
    pub(crate) version: i64,
    pub(crate) state: State,
    /// Whether the revision of its creation becomes the fencing token when it is granted. Only if
    /// no client has been sent the revision before.
    pub(crate) restamped: bool,
    /// The next value and its revision, while they are being recorded at other members.
    pub(crate) proposed: Option<(Vec<u8>, u64)>,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// It waits for the lock.
    Waiting(WaitId),
    /// It holds the lock, with this fencing token.
    Held(u64),
}

impl Entry {
    /// The key as clients see it.
    pub(crate) fn shown(&self, key: &[u8]) -> KeyValue {
        KeyValue {
            key: key.to_vec(),
            create_revision: self.created.cast_signed(),
            mod_revision: self.changed.cast_signed(),
            version: self.version,
            value: self.value.clone(),
            lease: self.lease.0,
        }
    }

    /// The key that its waiter is shown in place of all clients before it.
    pub(crate) fn ahead(&self, key: &[u8]) -> KeyValue {
        let before = self.created.cast_signed() - 1;
        KeyValue {
            key: [key, AHEAD].concat(),
            create_revision: before,
            mod_revision: before,
            version: 1,
            ..KeyValue::default()
        }
    }

    /// The key as other members record it.
    fn recorded(&self, key: &[u8]) -> RecordedKey {
        let (value, changed) = match &self.proposed {
            Some((value, revision)) => (value, *revision),
            None => (&self.value, self.changed),
        };
        // The fencing token becomes its revision when it is granted.
        let revision = |revision| if self.restamped { 0 } else { revision };
        RecordedKey {
            key: key.to_vec(),
            value: value.clone(),
            create_revision: revision(self.created),
            mod_revision: revision(changed),
        }
    }

    /// The fencing token, if it holds the lock.
    pub(crate) fn token(&self) -> Option<u64> {
        match self.state {
            State::Held(token) => Some(token),
            State::Waiting(_) => None,
        }
    }
}

/// The keys of this node's leases.
#[derive(Default)]
pub(crate) struct Recipes {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// The keys that wait, as they were last sent to other members, by lease.
    listed: BTreeMap<SessionId, Vec<RecordedKey>>,
}

impl Recipes {
    /// A key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, key: Vec<u8>, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.entries.remove(key)
    }

    /// The keys of a lock.
    fn of<'a, 'b>(
        &'a self,
        name: &'b [u8],
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Entry)> + use<'a, 'b> {
        self.entries.iter().filter(move |(_, entry)| *entry.name == *name)
    }

    /// The key that holds a lock.
    pub(crate) fn holder(&self, name: &[u8]) -> Option<(&Vec<u8>, &Entry)> {
        self.of(name).find(|(_, entry)| entry.token().is_some())
    }

    /// The key of a lock that was created at this revision.
    pub(crate) fn created_at(&self, name: &[u8], revision: u64) -> Option<(&Vec<u8>, &Entry)> {
        self.of(name).find(|(_, entry)| entry.created == revision)
    }

    /// A waiter is granted the lock. Returns whether its key is still there.
    pub(crate) fn granted(&mut self, key: &[u8], token: u64) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.state = State::Held(token);
        if std::mem::take(&mut entry.restamped) {
            (entry.created, entry.changed) = (token, token);
        }
        true
    }

    /// The value of the key that holds a lock with this fencing token; `None` without one.
    pub(crate) fn value(&self, name: &[u8], token: u64) -> Option<Vec<u8>> {
        let (_, entry) = self.holder(name)?;
        let is_candidate = entry.token() == Some(token) && !entry.value.is_empty();
        is_candidate.then(|| entry.value.clone())
    }

    /// Gives a key another value.
    pub(crate) fn put(&mut self, key: &[u8], value: Vec<u8>, revision: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            (entry.value, entry.changed) = (value, revision);
            entry.version += 1;
        }
    }

    /// The lock is now held by this session with this fencing token, or by none here: the key of a
    /// former holder ends.
    pub(crate) fn settle(&mut self, name: &[u8], holder: Option<(SessionId, u64)>) {
        if self.entries.is_empty() {
            return;
        }
        self.entries.retain(|_, entry| {
            let ended = |token| holder != Some((entry.lease, token));
            *entry.name != *name || !entry.token().is_some_and(ended)
        });
    }

    /// Gives the key of a holder another value as soon as it is recorded.
    pub(crate) fn propose(&mut self, key: &[u8], value: Vec<u8>, revision: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.proposed = Some((value, revision));
        }
    }

    /// The proposed value of a lock's holder is recorded. Returns whether there is one.
    pub(crate) fn take_proposed(&mut self, name: &[u8]) -> bool {
        let proposed = |(_, entry): (&Vec<u8>, &mut Entry)| {
            let is_it = *entry.name == *name && entry.token().is_some();
            if !is_it {
                return false;
            }
            let Some((value, revision)) = entry.proposed.take() else { return false };
            (entry.value, entry.changed) = (value, revision);
            entry.version += 1;
            true
        };
        self.entries.iter_mut().any(proposed)
    }

    /// What other members record of the key with which a session holds a lock.
    pub(crate) fn recorded(&self, name: &[u8], lease: SessionId) -> Option<RecordedKey> {
        let (key, entry) = self.of(name).find(|(_, entry)| entry.lease == lease)?;
        Some(entry.recorded(key))
    }

    /// The keys of a lease that wait, in order of creation.
    pub(crate) fn waiting_of(&self, lease: SessionId) -> Vec<RecordedKey> {
        let waits = |(_, entry): &(&Vec<u8>, &Entry)| {
            entry.lease == lease && matches!(entry.state, State::Waiting(_))
        };
        let mut waiting: Vec<_> = self.entries.iter().filter(waits).collect();
        waiting.sort_by_key(|(_, entry)| entry.created);
        waiting.into_iter().map(|(key, entry)| entry.recorded(key)).collect()
    }

    /// The keys of a lease that wait, as they were last sent to other members.
    pub(crate) fn listed(&self, lease: SessionId) -> &[RecordedKey] {
        self.listed.get(&lease).map_or(&[], Vec::as_slice)
    }

    /// These keys of a lease wait, as other members are to record.
    pub(crate) fn list(&mut self, lease: SessionId, waiting: Vec<RecordedKey>) {
        match waiting.is_empty() {
            true => drop(self.listed.remove(&lease)),
            false => drop(self.listed.insert(lease, waiting)),
        }
    }

    /// This node holds a lock for a client of a lost node, which created this key.
    pub(crate) fn restore(&mut self, key: RecordedKey, name: &Name, lease: SessionId, token: u64) {
        let revision = |revision| if revision == 0 { token } else { revision };
        let entry = Entry {
            name: Name::clone(name),
            lease,
            value: key.value,
            created: revision(key.create_revision),
            changed: revision(key.mod_revision),
            version: 1,
            state: State::Held(token),
            restamped: false,
            proposed: None,
        };
        self.entries.insert(key.key, entry);
    }
}

/// The lock that a key of this lease waits for, if it is the key of a waiter.
pub(crate) fn queue_of(key: &[u8], lease: SessionId) -> Option<&[u8]> {
    let hexadecimal = crate::etcd::key(b"", lease);
    let decimal = format!("/{}", lease.0);
    key.strip_suffix(&*hexadecimal).or_else(|| key.strip_suffix(decimal.as_bytes()))
}

/// The lock of a key that is not one of a waiter.
pub(crate) fn bare_name(key: &[u8]) -> &[u8] {
    key.strip_prefix(LOCKS).filter(|name| !name.is_empty()).unwrap_or(key)
}

/// Members whose numbers differ modulo this choose different revisions. It does not follow the
/// number of members, which changes while revisions of before are in use.
pub(crate) const CHOOSERS: u64 = 64;

/// A revision above all that this node has sent, which no other member chooses. Two waiters of one
/// lock, at different nodes, then never have the same.
pub(crate) fn next_revision(last: u64, member: u64) -> u64 {
    let next = last + 1;
    next + (member % CHOOSERS + CHOOSERS - next % CHOOSERS) % CHOOSERS
}
