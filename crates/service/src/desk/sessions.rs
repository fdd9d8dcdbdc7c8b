//! Sessions: how they begin, how they are kept, how they end.

use std::time::Duration;

use super::{Client, Desk, Effect, Name, Outcome, SessionId, Timer, WaitId};
use crate::Moment;

pub(super) struct Session {
    pub(super) client: Client,
    pub(super) ttl: Duration,
    pub(super) good_until: Moment,
    /// Whether the end of the client's process says nothing about what it runs.
    guarded: bool,
    lease: bool,
    pub(super) waits: Vec<WaitId>,
    pub(super) inside: Vec<Name>,
}

/// What a session is opened with.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// The number that is wanted; 0: any.
    pub id: i64,
    /// The lease that is asked for.
    pub ttl: Duration,
    /// Whose it is.
    pub client: Client,
    /// Whether what the client runs may outlive the client: its death frees nothing.
    pub guarded: bool,
    /// Whether it is a lease, which whoever knows its number may renew and end, or a client's own,
    /// which nobody else may.
    pub lease: bool,
}

/// Why there is no new session. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The number that was wanted is another session's.
    #[error("lease already exists")]
    Exists,
    /// The lease is longer than any that is given.
    #[error("too large lease TTL")]
    TooLong,
}

impl Desk {
    /// Opens a session. Says which it is, and for how long it is good from now on.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        &mut self,
        now: Moment,
        opening: Opening,
    ) -> Result<(SessionId, Duration), OpenError> {
        if opening.ttl > self.settings.longest {
            return Err(OpenError::TooLong);
        }
        let id = match opening.id {
            0 => self.fresh_id(),
            id => SessionId(id),
        };
        if self.sessions.contains_key(&id) {
            return Err(OpenError::Exists);
        }
        let ttl = opening.ttl.max(self.settings.shortest);
        let session = Session {
            client: opening.client,
            ttl,
            good_until: now.after(ttl),
            guarded: opening.guarded,
            lease: opening.lease,
            waits: Vec::new(),
            inside: Vec::new(),
        };
        self.timers.insert((session.good_until, Timer::Lease(id)));
        self.sessions.insert(id, session);
        Ok((id, ttl))
    }

    /// A client comes, or comes back: its session is renewed, if it is still good, or opened. Says
    /// which it is, and for how long it is good from now on.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn come(
        &mut self,
        now: Moment,
        known: SessionId,
        opening: Opening,
    ) -> Result<(SessionId, Duration), OpenError> {
        let renewed = if self.is_lease(known) { None } else { self.renew(now, known) };
        match renewed {
            Some(ttl) => Ok((known, ttl)),
            None => self.open(now, opening),
        }
    }

    /// Renews a session. Says for how long it is good from now on; `None` if it has ended.
    pub fn renew(&mut self, now: Moment, id: SessionId) -> Option<Duration> {
        let session = self.sessions.get_mut(&id).filter(|session| now < session.good_until)?;
        session.good_until = now.after(session.ttl);
        Some(session.ttl)
    }

    /// A session's lease and how much of it is left.
    pub fn time_to_live(&self, now: Moment, id: SessionId) -> Option<(Duration, Duration)> {
        let session = self.sessions.get(&id).filter(|session| now < session.good_until)?;
        Some((session.ttl, session.good_until.since(now)))
    }

    /// All leases.
    pub fn leases(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().filter(|(_, session)| session.lease).map(|(id, _)| *id)
    }

    /// Whether there is such a lease.
    pub fn is_lease(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.lease)
    }

    /// What a session is inside.
    pub fn inside(&self, id: SessionId) -> &[Name] {
        self.sessions.get(&id).map_or(&[], |session| &session.inside)
    }

    /// A client says goodbye: whatever it ran has ended. Says whether there was such a session.
    pub fn close(&mut self, now: Moment, id: SessionId) -> bool {
        self.end(now, id)
    }

    /// The connection to a client is gone: nobody could be told that it is inside, so it waits for
    /// nothing any more. What it is inside stays until more is known.
    pub fn detach(&mut self, now: Moment, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        for wait in session.waits.clone() {
            self.give_up(now, wait, Outcome::Cancelled);
        }
        let idle = self.sessions.get(&id).is_some_and(|session| session.inside.is_empty());
        if idle {
            self.end(now, id);
        }
    }

    /// The client's process is dead. If it ran something that may outlive it, whoever ends that
    /// says goodbye, or the lease runs out.
    pub fn died(&mut self, now: Moment, id: SessionId) {
        if self.sessions.get(&id).is_some_and(|session| !session.guarded) {
            self.end(now, id);
        } else {
            self.detach(now, id);
        }
    }

    pub(super) fn is_alive(&self, now: Moment, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| now < session.good_until)
    }

    pub(super) fn look_at_lease(&mut self, now: Moment, id: SessionId) {
        match self.sessions.get(&id) {
            // It was renewed since the timer was set.
            Some(session) if now < session.good_until => {
                self.timers.insert((session.good_until, Timer::Lease(id)));
            }
            Some(_) => {
                self.end(now, id);
            }
            None => {}
        }
    }

    fn end(&mut self, now: Moment, id: SessionId) -> bool {
        let Some(session) = self.sessions.remove(&id) else { return false };
        for wait in session.waits {
            self.give_up(now, wait, Outcome::NoSession);
        }
        for name in session.inside {
            self.leave(now, &name);
        }
        self.effects.push(Effect::Ended { session: id });
        true
    }

    /// A number that tells the member, and that no session has.
    fn fresh_id(&mut self) -> SessionId {
        loop {
            let count = self.number() & 0xffff;
            let id =
                u64::from(self.settings.member & 0x7fff) << 48 | u64::from(self.seed) << 16 | count;
            let id = SessionId(id.cast_signed());
            if id.0 != 0 && !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

impl SessionId {
    /// Which member's node gave this number out, if the node chose it.
    pub fn member(self) -> u16 {
        u16::try_from(self.0.cast_unsigned() >> 48).unwrap_or(u16::MAX)
    }
}
