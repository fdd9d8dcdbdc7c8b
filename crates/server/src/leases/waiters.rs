//! The queue of a lock.

use super::{
    Effect, LeaseTable, Mode, Name, Outcome, RequestId, SessionId, Timer, WaitId, WaitLimit,
    custody::Recording,
};
use crate::Moment;

/// A client's request that waits.
pub(super) struct Wait {
    pub(super) session: SessionId,
    pub(super) name: Name,
    pub(super) since: Moment,
    /// Whether its client takes a promise: see `promises.rs`.
    pub(super) takes_promise: bool,
}

/// A request to the node that is not granted yet: for the queue, or for a client that only tries.
pub(super) struct Pending {
    pub(super) request: RequestId,
    trier: Option<WaitId>,
}

impl LeaseTable {
    /// A session requests a lock. The outcome follows as an effect with the returned number.
    pub(crate) fn acquire(
        &mut self,
        now: Moment,
        session: SessionId,
        name: &[u8],
        limit: WaitLimit,
    ) -> WaitId {
        let wait = WaitId(self.number());
        if let Some(outcome) = self.outcome_at_once(now, session, name, limit) {
            if let Outcome::Already { .. } = outcome {
                self.asked_again(now, name);
            }
            self.effects.push(Effect::Reply { wait, outcome });
            return wait;
        }
        let name = Name::from(name);
        let waits = Wait { session, name: Name::clone(&name), since: now, takes_promise: false };
        self.waits.insert(wait, waits);
        self.sessions.get_mut(&session).expect("it is live").waits.push(wait);
        let lock = self.locks.entry(Name::clone(&name)).or_default();
        if limit == WaitLimit::Try {
            self.request(&name, Some(wait));
        } else {
            lock.queue.push_back(wait);
            self.request_for_next(now, &name);
        }
        if let WaitLimit::Until(limit) = limit {
            self.timers.insert((limit, Timer::WaitLimit(wait)));
        }
        self.changed(&name);
        wait
    }

    fn outcome_at_once(
        &self,
        now: Moment,
        session: SessionId,
        name: &[u8],
        limit: WaitLimit,
    ) -> Option<Outcome> {
        if !self.is_live(now, session) {
            return Some(Outcome::NoSession);
        }
        let lock = self.locks.get(name);
        if let Some(holder) = lock.and_then(|lock| lock.holder.as_ref())
            && holder.session == session
            && holder.is_valid()
        {
            if holder.unnamed.is_some() {
                return self.outcome_if_unnamed(session, limit);
            }
            return Some(Outcome::Already { fencing_token: holder.fencing_token });
        }
        let busy = lock.is_some() || now < self.quarantine;
        (limit == WaitLimit::Try && busy).then_some(Outcome::Busy)
    }

    /// The outcome for a session whose hold was taken over, and whose client may not be informed of
    /// it: it waits until that hold ends, which a lease's does only when it is released.
    fn outcome_if_unnamed(&self, session: SessionId, limit: WaitLimit) -> Option<Outcome> {
        if self.is_lease(session) {
            let why = "the lease holds the lock since before its node was lost: unlock it, or \
                       revoke the lease, and request it again";
            return Some(Outcome::Unavailable(why.to_owned()));
        }
        (limit == WaitLimit::Try).then_some(Outcome::Busy)
    }

    /// Cancels a wait. A request that has been granted meanwhile stays granted.
    pub(crate) fn cancel(&mut self, now: Moment, wait: WaitId) {
        self.give_up(now, wait, Outcome::Cancelled);
    }

    /// The lock of a request to the node.
    pub(crate) fn name_of_request(&self, request: RequestId) -> Option<Name> {
        self.requests.get(&request).cloned()
    }

    /// The request to the node with which a client holds a lock.
    pub(crate) fn request_of(&self, name: &[u8]) -> Option<RequestId> {
        self.locks.get(name)?.holder.as_ref().map(|holder| holder.request)
    }

    /// When the holder of a lock was granted it.
    pub(crate) fn held_since(&self, name: &[u8]) -> Option<Moment> {
        self.locks.get(name)?.holder.as_ref().map(|holder| holder.since)
    }

    /// The number of waiters ahead in the queue. Requests of the same session do not count: its
    /// client has sent one again, on another stream.
    pub(crate) fn position(&self, wait: WaitId) -> Option<usize> {
        let Wait { session, name, .. } = self.waits.get(&wait)?;
        let queue = &self.locks.get(name)?.queue;
        let at = queue.iter().position(|&other| other == wait)?;
        let is_other =
            |other: &&WaitId| self.waits.get(other).is_some_and(|wait| wait.session != *session);
        Some(queue.iter().take(at).filter(is_other).count())
    }

    /// The node granted a request.
    pub(crate) fn granted(&mut self, now: Moment, request: RequestId, token: u64) {
        let Some(name) = self.requests.get(&request).cloned() else {
            // It was dropped before the grant arrived.
            return;
        };
        let lock = self.locks.get_mut(&name).expect("a requested lock is kept");
        if lock.holder.as_ref().is_some_and(|holder| holder.request == request) {
            // The lock was reclaimed: its holder keeps the fencing token that it had before.
            lock.last_fencing_token = lock.last_fencing_token.max(token);
            return;
        }
        lock.last_fencing_token = token;
        let pending = lock.pending.take().expect("a request is pending");
        self.grant_to_next(
            now,
            &name,
            Recording { request, token, trier: pending.trier, wait: None },
        );
        self.changed(&name);
    }

    /// The node refused a request, because the lock is held elsewhere (`None`), or for this reason.
    pub(crate) fn refused(&mut self, now: Moment, request: RequestId, why: Option<String>) {
        let Some(name) = self.requests.remove(&request) else { return };
        let lock = self.locks.get_mut(&name).expect("a requested lock is kept");
        if let Some(hold) = lock.holder.take_if(|holder| holder.request == request) {
            self.reclaim_refused(&name, &hold);
        }
        let lock = self.locks.get_mut(&name).expect("just seen");
        let outcome = why.map_or(Outcome::Busy, Outcome::Unavailable);
        let mut refused = Vec::new();
        if let Some(pending) = lock.pending.take_if(|pending| pending.request == request) {
            match pending.trier {
                Some(trier) => refused.push(trier),
                None => refused.extend(lock.queue.iter()),
            }
        }
        for wait in refused {
            self.give_up(now, wait, outcome.clone());
        }
        self.request_for_next(now, &name);
        self.changed(&name);
    }

    /// Removes a waiter from the queue and sends it the outcome.
    pub(super) fn give_up(&mut self, now: Moment, wait: WaitId, outcome: Outcome) {
        let Some(Wait { session, name, .. }) = self.waits.remove(&wait) else { return };
        if let Some(session) = self.sessions.get_mut(&session) {
            session.waits.retain(|&other| other != wait);
        }
        let lock = self.locks.get_mut(&name).expect("a lock with a waiter is kept");
        lock.queue.retain(|&other| other != wait);
        let unwanted = |pending: &mut Pending| match pending.trier {
            Some(trier) => trier == wait,
            None => lock.queue.is_empty(),
        };
        if let Some(pending) = lock.pending.take_if(unwanted) {
            self.drop_request(pending.request);
            self.request_for_next(now, &name);
        }
        self.record_for_next(now, &name, wait);
        self.effects.push(Effect::Reply { wait, outcome });
        self.changed(&name);
    }

    /// Requests the lock for the first waiter, unless the lock is held or a request is pending.
    pub(super) fn request_for_next(&mut self, now: Moment, name: &Name) {
        let Some(lock) = self.locks.get(name) else { return };
        let requested = lock.pending.is_some() || lock.recording.is_some();
        let idle = lock.holder.is_none() && !requested;
        if idle && !lock.queue.is_empty() && self.quarantine <= now {
            self.request(name, None);
        }
    }

    fn request(&mut self, name: &Name, trier: Option<WaitId>) {
        let mode = if trier.is_some() { Mode::Try } else { Mode::Wait };
        let request = self.new_request(name, mode);
        let lock = self.locks.get_mut(name).expect("a requested lock is kept");
        lock.pending = Some(Pending { request, trier });
    }

    pub(super) fn new_request(&mut self, name: &Name, mode: Mode) -> RequestId {
        let request = RequestId(self.number());
        self.requests.insert(request, Name::clone(name));
        self.effects.push(Effect::Request { request, name: Name::clone(name), mode });
        request
    }

    pub(super) fn drop_request(&mut self, request: RequestId) {
        if self.requests.remove(&request).is_some() {
            self.effects.push(Effect::Drop { request });
        }
    }

    /// The first waiter whose session is live: a lease may have expired unnoticed.
    pub(super) fn next_live(
        &mut self,
        now: Moment,
        name: &Name,
        trier: Option<WaitId>,
    ) -> Option<WaitId> {
        let lock = &self.locks[name];
        let candidates: Vec<_> = match trier {
            Some(trier) => vec![trier],
            None => lock.queue.iter().copied().collect(),
        };
        for wait in candidates {
            let live = self.waits.get(&wait).map(|waits| self.is_live(now, waits.session));
            match live {
                Some(true) => return Some(wait),
                Some(false) => self.give_up(now, wait, Outcome::NoSession),
                None => {}
            }
        }
        None
    }
}
