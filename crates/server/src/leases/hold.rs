//! Holding a lock: grant, reclaim, break and release.

use std::{ops::Range, time::Duration};

use super::{
    Effect, Held, LeaseTable, Mode, Name, Outcome, RequestId, SessionId, Timer, WaitId,
    promises::Promise,
};
use crate::Moment;

/// The fencing tokens that can be reclaimed. The numbers above leave room, so that whatever is
/// reclaimed, later tokens fit into etcd's signed numbers.
const FENCING_TOKENS: Range<u64> = 1..3 << 61;

/// A grant to a client.
pub(super) struct Hold {
    pub(super) session: SessionId,
    pub(super) fencing_token: u64,
    pub(super) since: Moment,
    pub(super) request: RequestId,
    /// Of a broken grant: when its holder's lease has expired for certain.
    pub(super) broken: Option<Moment>,
    /// Of a hold that was taken over, until its client names the fencing token: when it ends.
    pub(super) unnamed: Option<Moment>,
    /// Of a hold that was restored after a crash: until then its client can take it up in another
    /// session. It may not know the one that it reclaimed the lock with.
    pub(super) restored: Option<Moment>,
    /// Of a hold that is not recorded at other members yet.
    pub(super) promise: Option<Promise>,
}

impl Hold {
    /// Whether it is not broken.
    pub(super) fn is_valid(&self) -> bool {
        self.broken.is_none()
    }
}

impl LeaseTable {
    /// Grants the lock to a waiter.
    pub(super) fn grant(
        &mut self,
        now: Moment,
        wait: WaitId,
        (request, token): (RequestId, u64),
        promise: Option<Promise>,
    ) {
        let waited = self.waits.remove(&wait).expect("a waiter");
        let name = waited.name;
        self.record(waited.session);
        self.hold(now, waited.session, &name, request, token);
        let session = self.sessions.get_mut(&waited.session).expect("it is live");
        session.waits.retain(|&other| other != wait);
        let waits = session.waits.clone();
        let outcome = Outcome::Granted { fencing_token: token, waited: now.since(waited.since) };
        self.effects.push(Effect::Reply { wait, outcome });
        let lock = self.locks.get_mut(&name).expect("a lock that is held");
        lock.queue.retain(|&other| other != wait);
        lock.holder.as_mut().expect("just set").promise = promise;
        // The session's other requests for the same lock are granted with it.
        for other in waits {
            if self.waits.get(&other).is_some_and(|wait| wait.name == name) {
                self.asked_again(now, &name);
                self.give_up(now, other, Outcome::Already { fencing_token: token });
            }
        }
    }

    pub(super) fn hold(
        &mut self,
        now: Moment,
        id: SessionId,
        name: &Name,
        request: RequestId,
        token: u64,
    ) {
        let session = self.sessions.get_mut(&id).expect("it is live");
        session.held.push(Name::clone(name));
        let lock = self.locks.entry(Name::clone(name)).or_default();
        lock.last_fencing_token = lock.last_fencing_token.max(token);
        lock.holder = Some(Hold {
            session: id,
            fencing_token: token,
            since: now,
            request,
            broken: None,
            unnamed: None,
            restored: None,
            promise: None,
        });
        self.record_hold(name);
    }

    /// Records who holds a lock, unless other members do.
    pub(crate) fn record_hold(&mut self, name: &Name) {
        if self.settings.recorded {
            return;
        }
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let hold = holder.and_then(|holder| {
            let session = self.sessions.get(&holder.session)?;
            let until = match session.record_ends {
                true => session.valid_until,
                false => Moment::NEVER,
            };
            Some(Box::new(Held {
                fencing_token: holder.fencing_token,
                opening: self.opening_of(holder.session)?,
                since: holder.since,
                until: holder.broken.unwrap_or(Moment::NEVER).min(until),
                broken: !holder.is_valid(),
            }))
        });
        self.effects.push(Effect::RecordHold { name: Name::clone(name), hold });
    }

    /// Records the lease of a holder, which must survive a crash.
    pub(super) fn record(&mut self, session: SessionId) {
        let ttl = self.sessions[&session].ttl;
        if self.recorded < ttl || std::mem::take(&mut self.record_ends) {
            self.recorded = self.recorded.max(ttl);
            self.effects.push(Effect::Record { longest: self.recorded });
        }
    }

    /// Shortens the record to the longest lease that is still held. To be called now and then.
    pub(crate) fn shorten_record(&mut self, now: Moment) {
        if now < self.quarantine || !std::mem::take(&mut self.released) {
            return;
        }
        let holders = self.locks.values().filter_map(|lock| lock.holder.as_ref());
        let leases = holders.filter_map(|holder| Some(self.sessions.get(&holder.session)?.ttl));
        let longest = leases.max().unwrap_or_default();
        if longest < self.recorded {
            self.recorded = longest;
            self.effects.push(Effect::Record { longest });
        }
    }

    /// A client reclaims the lock that it held when its connection broke. Returns whether it holds
    /// the lock: still, if the session is the same, or again, if the node has crashed meanwhile.
    /// The latter only during the quarantine, and unless a later grant is reclaimed.
    pub(crate) fn reclaim(&mut self, now: Moment, id: SessionId, name: &[u8], token: u64) -> bool {
        if !self.is_live(now, id) {
            return false;
        }
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        if let Some(holder) = holder.filter(|holder| holder.session == id) {
            let holds = holder.fencing_token == token && holder.is_valid();
            if holds && holder.unnamed.is_some() {
                self.named(now, name);
            }
            return holds;
        }
        if holder.is_some_and(|holder| self.may_pass_on(now, holder, id, token)) {
            self.pass_on(now, name, id);
            return true;
        }
        let older = holder.map_or(0, |holder| holder.fencing_token);
        if self.settings.recorded {
            // The member that serves the client has the hold.
            return false;
        }
        if now >= self.quarantine || !FENCING_TOKENS.contains(&token) || token < older {
            return false;
        }
        let name = Name::from(name);
        if older > 0 {
            // The other client held the lock earlier, and does not any more. Or it is the same
            // client, which did not receive the reply and has opened another session.
            self.lose(now, &name, "a later holder reclaimed the lock".to_owned());
        }
        self.record(id);
        let request = self.new_request(&name, Mode::Reclaim(token));
        self.hold(now, id, &name, request, token);
        self.changed(&name);
        true
    }

    /// Whether a restored hold is that of the client of this session, as far as the node knows.
    fn may_pass_on(&self, now: Moment, holder: &Hold, id: SessionId, token: u64) -> bool {
        let is_open = holder.restored.is_some_and(|end| now < end) && holder.is_valid();
        let identity = |id| self.client_of(id).map_or("", |client| client.identity.as_str());
        let kind = |id| identity(id).split(':').next();
        // A client that connects another way is known by another identity.
        let is_client =
            identity(holder.session) == identity(id) || kind(holder.session) != kind(id);
        is_open && is_client && holder.fencing_token == token && !self.is_lease(holder.session)
    }

    /// The client of a restored hold has another session now.
    fn pass_on(&mut self, now: Moment, name: &[u8], id: SessionId) {
        let Some((name, _)) = self.locks.get_key_value(name) else { return };
        let name = Name::clone(name);
        let holder = self.locks.get_mut(&name).and_then(|lock| lock.holder.as_mut());
        let Some(holder) = holder else { return };
        let former = std::mem::replace(&mut holder.session, id);
        let fencing_token = holder.fencing_token;
        if let Some(session) = self.sessions.get_mut(&former) {
            session.held.retain(|held| *held != name);
        }
        let reason = "its client has taken the lock up in another session".to_owned();
        let lost =
            Effect::Lost { session: former, name: Name::clone(&name), fencing_token, reason };
        self.effects.push(lost);
        self.sessions.get_mut(&id).expect("it is live").held.push(Name::clone(&name));
        self.named(now, &name);
        self.record(id);
        self.record_hold(&name);
        self.changed(&name);
    }

    /// The node has refused a reclaim; `refused` has removed the holder.
    pub(super) fn reclaim_refused(&mut self, name: &Name, hold: &Hold) {
        let &Hold { session, fencing_token, .. } = hold;
        self.released = true;
        self.record_hold(name);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.held.retain(|held| held != name);
        }
        let (name, reason) = (Name::clone(name), "the node refused the reclaim".to_owned());
        self.effects.push(Effect::Lost { session, name, fencing_token, reason });
    }

    /// Releases a lock. Returns whether it was held with this fencing token.
    pub(crate) fn release(&mut self, now: Moment, name: &[u8], token: u64) -> bool {
        let Some((name, lock)) = self.locks.get_key_value(name) else { return false };
        let name = Name::clone(name);
        let Some(holder) = lock.holder.as_ref().filter(|holder| holder.fencing_token == token)
        else {
            return false;
        };
        let valid = holder.is_valid();
        if let Some(session) = self.sessions.get_mut(&holder.session) {
            session.held.retain(|held| *held != name);
        }
        self.remove_holder(now, &name);
        valid
    }

    /// Removes the holder and requests the lock for the next waiter.
    pub(super) fn remove_holder(&mut self, now: Moment, name: &Name) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if let Some(hold) = lock.holder.take() {
            self.drop_request(hold.request);
            self.released = true;
            self.record_hold(name);
        }
        self.request_for_next(now, name);
        self.changed(name);
    }

    /// Whether the lock is held with this fencing token.
    pub(crate) fn verify(&self, now: Moment, name: &[u8], token: u64) -> bool {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        holder.is_some_and(|holder| {
            holder.fencing_token == token && holder.is_valid() && self.is_live(now, holder.session)
        })
    }

    /// Revokes a lock from its holder, or only from the holder with this fencing token. It is
    /// granted again when the holder has released it, or when its lease has expired, without
    /// further renewals; returns how long that is.
    pub(crate) fn break_grant(
        &mut self,
        now: Moment,
        name: &[u8],
        token: Option<u64>,
        reason: String,
    ) -> Option<Duration> {
        let (name, _) = self.locks.get_key_value(name)?;
        let name = Name::clone(name);
        let lock = self.locks.get_mut(&name)?;
        let holder = lock.holder.as_mut()?;
        if token.is_some_and(|token| token != holder.fencing_token) {
            return None;
        }
        if let Some(until) = holder.broken {
            // Broken before: the holder has not released it yet.
            return Some(until.since(now));
        }
        let (session, fencing_token) = (holder.session, holder.fencing_token);
        let until = self.sessions.get(&session).map_or(now, |session| session.valid_until);
        holder.broken = Some(until);
        self.timers.insert((until, Timer::Broken(Name::clone(&name))));
        let lost = Effect::Lost { session, name: Name::clone(&name), fencing_token, reason };
        self.effects.push(lost);
        self.record_hold(&name);
        self.changed(&name);
        Some(until.since(now))
    }

    pub(super) fn check_broken(&mut self, now: Moment, name: &Name) {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(holder) = holder else { return };
        let ends = [holder.broken, holder.unnamed];
        if ends.into_iter().flatten().any(|until| until <= now) {
            self.release(now, name, holder.fencing_token);
        }
    }

    /// The node no longer holds the lock of this request.
    pub(crate) fn lost(&mut self, now: Moment, request: RequestId, reason: String) {
        let Some(name) = self.requests.get(&request).cloned() else { return };
        if self.lost_while_recording(now, &name, request) {
            return;
        }
        let holder = self.locks.get(&name).and_then(|lock| lock.holder.as_ref());
        let Some(holder) = holder.filter(|holder| holder.request == request) else { return };
        let session = holder.session;
        if self.keep_promise(&name, &reason) {
            return;
        }
        if self.settings.recorded {
            return self.moved(now, session);
        }
        self.lose(now, &name, reason);
    }

    /// Removes the holder and notifies it.
    fn lose(&mut self, now: Moment, name: &Name, reason: String) {
        let holder = self.locks.get(name).and_then(|lock| lock.holder.as_ref());
        let Some(&Hold { session, fencing_token, .. }) = holder else { return };
        let lost = Effect::Lost { session, name: Name::clone(name), fencing_token, reason };
        self.effects.push(lost);
        self.release(now, name, fencing_token);
    }

    pub(super) fn end_quarantine(&mut self, now: Moment) {
        self.released = true;
        self.effects.push(Effect::Join);
        let names: Vec<_> = self.locks.keys().cloned().collect();
        for name in names {
            self.request_for_next(now, &name);
        }
    }
}
