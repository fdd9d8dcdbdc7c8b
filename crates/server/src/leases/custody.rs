//! Clients that outlive their node: grants that are recorded at other members, and holds that are
//! taken over from a lost node, or from the last process of a single node.
//!
//! Where holds are recorded, a grant of the node goes to a waiter in two steps: the hold is
//! recorded in the name of the waiter's session, and then the waiter is informed. A waiter that
//! gives up in between leaves the grant to the next one.
//!
//! A client whose hold is taken over may never have been informed of it: its node may have lost the
//! grant while it was being recorded, others may have been granted the lock since, and the record
//! was dropped too late. So the hold is confirmed to a client that names its fencing token, and
//! reported to no other: if its client does not name it for as long as the client's lease may last,
//! the hold ends, and a request of the same session is granted anew.

use std::time::Duration;

use super::{
    Effect, Held, LeaseTable, Mode, Name, Opening, Outcome, RequestId, SessionId, Timer, WaitId,
    sessions::Session,
};
use crate::Moment;

/// A grant that has no holder yet.
pub(super) struct Recording {
    pub(super) request: RequestId,
    pub(super) token: u64,
    /// The client that only tries, if the request is its.
    pub(super) trier: Option<WaitId>,
    /// The waiter in whose name it is being recorded.
    pub(super) wait: Option<WaitId>,
}

impl LeaseTable {
    /// How long a session lasts on this node's clock, so that it lasts as long on its client's.
    pub(super) fn lasts(&self, ttl: Duration) -> Duration {
        let drift = u64::from(self.settings.drift);
        let nanos = ttl.as_nanos() * u128::from(1_000_000 + drift);
        let nanos = nanos.div_ceil(u128::from(1_000_000 - drift.min(999_999)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Gives a grant to the first waiter whose session is live, or back to the node.
    pub(super) fn grant_to_next(&mut self, now: Moment, name: &Name, grant: Recording) {
        let Recording { request, token, trier, .. } = grant;
        let Some(wait) = self.next_live(now, name, trier) else {
            self.drop_request(request);
            return self.request_for_next(now, name);
        };
        if !self.settings.recorded {
            return self.grant(now, wait, (request, token), None);
        }
        if self.grant_with_promise(now, name, wait, &grant) {
            return;
        }
        let session = self.waits[&wait].session;
        let lock = self.locks.get_mut(name).expect("a lock with a waiter is kept");
        lock.recording = Some(Recording { wait: Some(wait), ..grant });
        self.effects.push(Effect::Keep { request, session });
    }

    /// A waiter has given up: a grant that is being recorded for it goes to the next one.
    pub(super) fn record_for_next(&mut self, now: Moment, name: &Name, gone: WaitId) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        if let Some(grant) = lock.recording.take_if(|one| one.wait == Some(gone)) {
            self.grant_to_next(now, name, Recording { trier: None, wait: None, ..grant });
        }
    }

    /// The hold of this request is recorded as this session's.
    pub(crate) fn recorded(&mut self, now: Moment, request: RequestId, session: SessionId) {
        let Some(name) = self.requests.get(&request).cloned() else { return };
        if self.promise_recorded(&name, request, session) {
            return;
        }
        let waits = &self.waits;
        let is_this = |grant: &mut Recording| {
            let wait = grant.wait.and_then(|wait| waits.get(&wait));
            grant.request == request && wait.is_some_and(|wait| wait.session == session)
        };
        let lock = self.locks.get_mut(&name).expect("a requested lock is kept");
        let Some(grant) = lock.recording.take_if(is_this) else { return };
        let wait = grant.wait.expect("just seen");
        if self.is_live(now, session) {
            self.grant(now, wait, (request, grant.token), None);
        } else {
            self.grant_to_next(now, &name, grant);
        }
        self.changed(&name);
    }

    /// The node has lost a grant that was being recorded: its waiters go on waiting. Returns
    /// whether it was one.
    pub(super) fn lost_while_recording(
        &mut self,
        now: Moment,
        name: &Name,
        request: RequestId,
    ) -> bool {
        let Some(lock) = self.locks.get_mut(name) else { return false };
        let Some(grant) = lock.recording.take_if(|grant| grant.request == request) else {
            return false;
        };
        self.drop_request(request);
        if let Some(trier) = grant.trier {
            let why = "the node has lost its view lease".to_owned();
            self.give_up(now, trier, Outcome::Unavailable(why));
        }
        self.request_for_next(now, name);
        self.changed(name);
        true
    }

    /// This node holds a lock for a client of a lost node, in the session that the client has.
    /// Returns the request that stands for the hold.
    pub(crate) fn custody(
        &mut self,
        now: Moment,
        opening: Opening,
        name: &Name,
        token: u64,
        since: Moment,
    ) -> RequestId {
        let id = SessionId(opening.id);
        let valid_until = now.after(self.lasts(opening.ttl));
        self.take_over(id, opening, valid_until);
        let request = RequestId(self.number());
        self.requests.insert(request, Name::clone(name));
        self.record(id);
        self.hold(since, id, name, request, token);
        self.hold_until_named(id, name, valid_until);
        self.changed(name);
        request
    }

    /// After a crash of this single node: a client held this lock, and may still hold it for so
    /// long. The node is asked to hold it.
    pub(crate) fn restore(&mut self, now: Moment, name: &Name, held: Held, left: Duration) {
        let Held { fencing_token, opening, since, broken, .. } = held;
        let (id, valid_until) = (SessionId(opening.id), now.after(left));
        self.recorded = self.recorded.max(opening.ttl);
        self.record_ends = true;
        self.take_over(id, opening, valid_until);
        self.sessions.get_mut(&id).expect("just added").record_ends = true;
        let request = self.new_request(name, Mode::Reclaim(fencing_token));
        self.hold(since, id, name, request, fencing_token);
        self.hold_until_named(id, name, valid_until);
        let lock = self.locks.get_mut(name).expect("it is held");
        let holder = lock.holder.as_mut().expect("just set");
        holder.restored = Some(valid_until);
        holder.broken = broken.then_some(valid_until);
        if broken {
            self.timers.insert((valid_until, Timer::Broken(Name::clone(name))));
            self.record_hold(name);
        }
        self.changed(name);
    }

    /// The session of a client whose hold is taken over.
    fn take_over(&mut self, id: SessionId, opening: Opening, valid_until: Moment) {
        let session = self.sessions.entry(id).or_insert_with(|| Session {
            client: opening.client,
            ttl: opening.ttl,
            valid_until,
            supervised: opening.supervised,
            lease: opening.lease,
            waits: Vec::new(),
            held: Vec::new(),
            record_ends: false,
        });
        session.valid_until = session.valid_until.max(valid_until);
        self.timers.insert((session.valid_until, Timer::Lease(id)));
    }

    /// A hold that was taken over ends then, unless its client names it.
    fn hold_until_named(&mut self, id: SessionId, name: &Name, valid_until: Moment) {
        let unnamed = match self.is_lease(id) {
            // Its clients name no token, and one of them may have been informed.
            true => Moment::NEVER,
            false => {
                self.timers.insert((valid_until, Timer::Broken(Name::clone(name))));
                valid_until
            }
        };
        let lock = self.locks.get_mut(name).expect("it is held");
        lock.holder.as_mut().expect("just set").unnamed = Some(unnamed);
    }

    /// The client of a hold that was taken over names its fencing token: it was informed.
    pub(super) fn named(&mut self, now: Moment, name: &[u8]) {
        let Some(holder) = self.locks.get_mut(name).and_then(|lock| lock.holder.as_mut()) else {
            return;
        };
        holder.unnamed = None;
        let (id, fencing_token) = (holder.session, holder.fencing_token);
        // A request that the client sent before it was informed may have arrived late.
        let waits = self.sessions.get(&id).map(|session| session.waits.clone());
        for wait in waits.unwrap_or_default() {
            if self.waits.get(&wait).is_some_and(|wait| *wait.name == *name) {
                self.give_up(now, wait, Outcome::Already { fencing_token });
            }
        }
    }

    /// Another member serves this session from now on: nothing is released.
    pub(super) fn moved(&mut self, now: Moment, id: SessionId) {
        self.effects.push(Effect::Moved { session: id });
        let Some(session) = self.sessions.remove(&id) else { return };
        for wait in session.waits {
            self.give_up(now, wait, Outcome::Cancelled);
        }
        for name in session.held {
            // What was promised is kept: its client need not hear of this in time.
            if !self.keep_promise(&name, "another member serves the session") {
                self.remove_holder(now, &name);
            }
        }
    }

    /// Whether this node serves the session.
    pub(crate) fn serves(&self, now: Moment, id: SessionId) -> bool {
        self.is_live(now, id)
    }

    /// What other members record of a session.
    pub(crate) fn opening_of(&self, id: SessionId) -> Option<Opening> {
        let session = self.sessions.get(&id)?;
        Some(Opening {
            id: id.0,
            ttl: session.ttl,
            client: session.client.clone(),
            supervised: session.supervised,
            lease: session.lease,
        })
    }
}
