//! The state of locks, for lists.

use std::time::Duration;

use super::{Client, LeaseTable, Lock, Name, SessionId};
use crate::Moment;

/// A lock as a lease table knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LockState {
    /// The lock's name.
    pub(crate) name: Name,
    /// The client that holds it.
    pub(crate) holder: Option<Entry>,
    /// The waiters, in order.
    pub(crate) waiting: Vec<Entry>,
    /// The greatest fencing token that was granted.
    pub(crate) last_fencing_token: u64,
}

/// A holder or a waiter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// Its session.
    pub(crate) session: SessionId,
    /// The client, as it describes itself.
    pub(crate) client: Client,
    /// The grant's fencing token; 0 for a waiter.
    pub(crate) fencing_token: u64,
    /// The time since the grant, or since the request.
    pub(crate) elapsed: Duration,
}

impl LeaseTable {
    /// The locks with this prefix that are held or have waiters, in order of their names.
    pub(crate) fn list(&self, now: Moment, prefix: &[u8]) -> Vec<LockState> {
        let from = self.locks.range(Name::from(prefix)..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, lock)| self.state(now, name, lock))
            .collect()
    }

    /// The state of one lock.
    pub(crate) fn show(&self, now: Moment, name: &[u8]) -> LockState {
        match self.locks.get_key_value(name) {
            Some((name, lock)) => self.state(now, name, lock),
            None => self.state(now, &Name::from(name), &Lock::default()),
        }
    }

    /// The holder of a lock.
    pub(crate) fn holder(&self, now: Moment, name: &[u8]) -> Option<Entry> {
        let holder = self.locks.get(name)?.holder.as_ref()?;
        Some(self.entry(holder.session, holder.fencing_token, now.since(holder.since)))
    }

    fn state(&self, now: Moment, name: &Name, lock: &Lock) -> LockState {
        let waits = lock.queue.iter().filter_map(|wait| self.waits.get(wait));
        let waiting = waits.map(|wait| self.entry(wait.session, 0, now.since(wait.since)));
        LockState {
            name: Name::clone(name),
            holder: self.holder(now, name),
            waiting: waiting.collect(),
            last_fencing_token: lock.last_fencing_token,
        }
    }

    fn entry(&self, session: SessionId, fencing_token: u64, elapsed: Duration) -> Entry {
        let client = self.sessions.get(&session).map(|session| session.client.clone());
        Entry { session, client: client.unwrap_or_default(), fencing_token, elapsed }
    }
}
