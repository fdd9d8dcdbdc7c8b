//! Sessions: opened, resumed, renewed and ended.

use std::time::Duration;

use super::{Client, Effect, LeaseTable, Name, Outcome, SessionId, Timer, WaitId};
use crate::{Moment, lease_locks::is_reserved};

pub(super) struct Session {
    pub(super) client: Client,
    pub(super) ttl: Duration,
    pub(super) valid_until: Moment,
    /// Whether the client's command may outlive the client's process.
    pub(super) supervised: bool,
    pub(super) lease: bool,
    pub(super) waits: Vec<WaitId>,
    pub(super) held: Vec<Name>,
    /// Whether its holds are recorded with their end: it was restored after a crash, and its client
    /// has not renewed it.
    pub(super) record_ends: bool,
}

/// A request for a session.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Opening {
    /// The requested number; 0: any.
    pub(crate) id: i64,
    /// The requested lease.
    pub(crate) ttl: Duration,
    /// The client, as it describes itself.
    pub(crate) client: Client,
    /// Whether the client's command may outlive the client's process: the end of that process then
    /// releases nothing.
    pub(crate) supervised: bool,
    /// Whether it is a lease, which every client that knows its number may renew and end, or a
    /// session that belongs to one client.
    pub(crate) lease: bool,
}

/// Why no session was opened. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OpenError {
    /// Another session has the requested number.
    #[error("lease already exists")]
    Exists,
    /// The requested lease is too long.
    #[error("too large lease TTL")]
    TooLong,
}

impl LeaseTable {
    /// Opens a session. Returns its number and its lease, which begins now.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub(crate) fn open(
        &mut self,
        now: Moment,
        opening: Opening,
    ) -> Result<(SessionId, Duration), OpenError> {
        if opening.ttl > super::LONGEST_LEASE {
            return Err(OpenError::TooLong);
        }
        let id = match opening.id {
            0 => self.fresh_id(),
            id => SessionId(id),
        };
        if self.sessions.contains_key(&id) {
            return Err(OpenError::Exists);
        }
        let ttl = opening.ttl.min(self.settings.longest).max(self.settings.shortest);
        let session = Session {
            client: opening.client,
            ttl,
            valid_until: now.after(self.lasts(ttl)),
            supervised: opening.supervised,
            lease: opening.lease,
            waits: Vec::new(),
            held: Vec::new(),
            record_ends: false,
        };
        self.timers.insert((session.valid_until, Timer::Lease(id)));
        self.sessions.insert(id, session);
        Ok((id, ttl))
    }

    /// A client attaches: its session is renewed, if it has not ended, or a new one is opened.
    /// Returns the session's number and its lease, which begins now.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub(crate) fn attach(
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

    /// Renews a session. Returns its lease, which begins now; `None` if the session has ended.
    pub(crate) fn renew(&mut self, now: Moment, id: SessionId) -> Option<Duration> {
        let ttl = self.sessions.get(&id).filter(|session| now < session.valid_until)?.ttl;
        let valid_until = now.after(self.lasts(ttl));
        let session = self.sessions.get_mut(&id)?;
        self.effects.push(Effect::Renewed { left: session.valid_until.since(now) });
        session.valid_until = valid_until;
        if std::mem::take(&mut session.record_ends) {
            self.record(id);
            for name in self.sessions[&id].held.clone() {
                self.record_hold(&name);
            }
        }
        Some(ttl)
    }

    /// A session's lease, and the time until it expires.
    pub(crate) fn time_to_live(&self, now: Moment, id: SessionId) -> Option<(Duration, Duration)> {
        let session = self.sessions.get(&id).filter(|session| now < session.valid_until)?;
        Some((session.ttl, session.valid_until.since(now)))
    }

    /// The numbers of all leases.
    pub(crate) fn leases(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().filter(|(_, session)| session.lease).map(|(id, _)| *id)
    }

    /// The client of a session.
    pub(crate) fn client_of(&self, id: SessionId) -> Option<&Client> {
        self.sessions.get(&id).map(|session| &session.client)
    }

    /// Whether this is the number of a lease.
    pub(crate) fn is_lease(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.lease)
    }

    /// The locks that a session holds for its client.
    pub(crate) fn held(&self, id: SessionId) -> impl Iterator<Item = &Name> {
        let held = self.sessions.get(&id).into_iter().flat_map(|session| &session.held);
        held.filter(|name| !is_reserved(name))
    }

    /// Closes a session: its client's command has ended. Returns whether there was such a session.
    pub(crate) fn close(&mut self, now: Moment, id: SessionId) -> bool {
        self.end(now, id)
    }

    /// The connection to a client is lost. Its waits are cancelled, since a grant could not be
    /// sent. It keeps the locks that it holds, until its process ends or its lease expires.
    pub(crate) fn detach(&mut self, now: Moment, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        for wait in session.waits.clone() {
            self.give_up(now, wait, Outcome::Cancelled);
        }
        let idle = self.sessions.get(&id).is_some_and(|session| session.held.is_empty());
        if idle {
            self.end(now, id);
        }
    }

    /// The client's process has ended. If its command may outlive it, the supervisor closes the
    /// session, or the lease expires.
    pub(crate) fn client_ended(&mut self, now: Moment, id: SessionId) {
        if self.sessions.get(&id).is_some_and(|session| !session.supervised) {
            self.end(now, id);
        } else {
            self.detach(now, id);
        }
    }

    pub(super) fn is_live(&self, now: Moment, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| now < session.valid_until)
    }

    pub(super) fn check_lease(&mut self, now: Moment, id: SessionId) {
        match self.sessions.get(&id) {
            // Renewed since the timer was set.
            Some(session) if now < session.valid_until => {
                self.timers.insert((session.valid_until, Timer::Lease(id)));
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
        for name in session.held {
            self.remove_holder(now, &name);
        }
        self.effects.push(Effect::Ended { session: id });
        true
    }

    /// A number that contains the member's index, and that no session has.
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
    /// The index of the member whose node chose this number, if a node did.
    pub(crate) fn member(self) -> u16 {
        u16::try_from(self.0.cast_unsigned() >> 48).unwrap_or(u16::MAX)
    }
}
