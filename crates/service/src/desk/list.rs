//! What a desk tells about its locks.

use std::time::Duration;

use super::{Client, Desk, Lock, Name, SessionId};
use crate::Moment;

/// A lock as a desk knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LockState {
    /// Its name.
    pub name: Name,
    /// Who is inside.
    pub holder: Option<Standing>,
    /// Who waits, in order.
    pub line: Vec<Standing>,
    /// The last fence that was given out.
    pub last_fence: u64,
}

/// Somebody inside or in line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Its session.
    pub session: SessionId,
    /// Who it is.
    pub client: Client,
    /// Its fence; 0 while it waits.
    pub fence: u64,
    /// For how long.
    pub waited: Duration,
}

impl Desk {
    /// The locks whose names start so that somebody is inside or waits for, in order of their
    /// names.
    pub fn list(&self, now: Moment, prefix: &[u8]) -> Vec<LockState> {
        let from = self.locks.range(Name::from(prefix)..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, lock)| self.state(now, name, lock))
            .collect()
    }

    /// One lock.
    pub fn show(&self, now: Moment, name: &[u8]) -> LockState {
        match self.locks.get_key_value(name) {
            Some((name, lock)) => self.state(now, name, lock),
            None => self.state(now, &Name::from(name), &Lock::default()),
        }
    }

    /// Who is inside a lock.
    pub fn holder(&self, now: Moment, name: &[u8]) -> Option<Standing> {
        let holder = self.locks.get(name)?.holder.as_ref()?;
        Some(self.standing(holder.session, holder.fence, now.since(holder.since)))
    }

    fn state(&self, now: Moment, name: &Name, lock: &Lock) -> LockState {
        let line = lock.line.iter().filter_map(|wait| self.waits.get(wait));
        LockState {
            name: Name::clone(name),
            holder: self.holder(now, name),
            line: line.map(|wait| self.standing(wait.session, 0, now.since(wait.since))).collect(),
            last_fence: lock.last_fence,
        }
    }

    fn standing(&self, session: SessionId, fence: u64, waited: Duration) -> Standing {
        let client = self.sessions.get(&session).map(|session| session.client.clone());
        Standing { session, client: client.unwrap_or_default(), fence, waited }
    }
}
