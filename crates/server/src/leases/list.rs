//! The state of locks, for lists.

use std::time::Duration;

use super::{Client, LeaseTable, Lock, Name, SessionId};
use crate::{Moment, lease_locks::is_reserved};

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
    /// Whether the hold was taken over from a lost node, and its client has not reclaimed it yet.
    pub(crate) custody: bool,
    /// The time until the session's lease expires unless it is renewed.
    pub(crate) left: Duration,
}

impl LeaseTable {
    /// The locks with this prefix that are held or have waiters, in order of their names.
    pub(crate) fn list(&self, now: Moment, prefix: &[u8]) -> Vec<LockState> {
        let from = self.locks.range(Name::from(prefix)..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(name, _)| !is_reserved(name))
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
        let entry = self.entry(now, holder.session, holder.fencing_token, holder.since);
        Some(Entry { custody: holder.unnamed.is_some(), ..entry })
    }

    /// The number of holds that were taken over and that their clients have not reclaimed yet.
    pub(crate) fn custodies(&self) -> usize {
        let holders = self.locks.values().filter_map(|lock| lock.holder.as_ref());
        holders.filter(|holder| holder.unnamed.is_some()).count()
    }

    /// The locks that were held when this single node crashed, and that their clients have not
    /// reclaimed yet, with their fencing tokens and the times until their leases have expired.
    pub(crate) fn awaited(&self, now: Moment) -> Vec<(Name, u64, Duration)> {
        let restored = self.locks.iter().filter_map(|(name, lock)| {
            let holder = lock.holder.as_ref().filter(|holder| holder.unnamed.is_some())?;
            let end = holder.restored.filter(|_| !is_reserved(name))?;
            Some((Name::clone(name), holder.fencing_token, end.since(now)))
        });
        restored.filter(|(.., left)| !left.is_zero()).collect()
    }

    /// The number of leases' own locks that are held, which are no client's.
    pub(crate) fn hidden(&self) -> usize {
        let held = self.locks.iter().filter(|(_, lock)| lock.holder.is_some());
        held.filter(|(name, _)| is_reserved(name)).count()
    }

    /// The number of waiters. The node has one request for all waiters of a lock, and none while
    /// its own client holds it.
    pub(crate) fn waiting(&self) -> usize {
        self.waits.values().filter(|wait| !is_reserved(&wait.name)).count()
    }

    /// The number of waiters of the lock with most of them.
    pub(crate) fn longest_queue(&self) -> usize {
        self.locks.values().map(|lock| lock.queue.len()).max().unwrap_or_default()
    }

    fn state(&self, now: Moment, name: &Name, lock: &Lock) -> LockState {
        let waits = lock.queue.iter().filter_map(|wait| self.waits.get(wait));
        let waiting = waits.map(|wait| self.entry(now, wait.session, 0, wait.since));
        LockState {
            name: Name::clone(name),
            holder: self.holder(now, name),
            waiting: waiting.collect(),
            last_fencing_token: lock.last_fencing_token,
        }
    }

    fn entry(&self, now: Moment, id: SessionId, fencing_token: u64, since: Moment) -> Entry {
        let session = self.sessions.get(&id);
        let client = session.map(|session| session.client.clone()).unwrap_or_default();
        let left = session.map(|session| session.valid_until.since(now)).unwrap_or_default();
        let elapsed = now.since(since);
        Entry { session: id, client, fencing_token, elapsed, custody: false, left }
    }
}
