//! Grants with a promise: a client that takes one is informed of its grant before the hold is
//! recorded at other members.
//!
//! Until its view lease ends, no other member grants what a node holds, whether the node is cut off
//! or crashes. So the node may promise a client the lock until then. A hold that lasts is recorded
//! soon, and is then like any other; one that is released before costs no message to any keeper.
//!
//! The client counts the promise from when it first sent its request, which is before the node
//! read it. In real time its count must end before the node's does, and the clocks of both gain or
//! lose up to rho: from the arrival of the request to the end of the view lease passes `t` on the
//! node's clock, so at least `t / (1 + rho)` in real time, and a promise of `t (1 - rho) / (1 +
//! rho)` passes on the client's in at most that. All of `t` shrinks, and not only the part before
//! the grant: a node may say by itself that it has left its view as soon as its own clock has
//! reached the end, and then nobody waits for its lease.
//!
//! If the view lease lapses before the hold is recorded, the client is notified, and the node keeps
//! the lock until it is released or the promise has ended: the notice may not arrive.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Effect, LeaseTable, Lock, Name, RequestId, SessionId, Timer, WaitId, custody::Recording,
    hold::Hold,
};
use crate::Moment;

/// A hold that lasts for so long is recorded. One that is shorter costs no message.
const RECORD_AFTER: Duration = Duration::from_millis(5);
/// A promise grows so often until the hold is recorded.
const PROLONG_AFTER: Duration = Duration::from_millis(200);
/// A lock that is lost is kept for so long after its promise has ended: its client's code needs
/// time to stop.
const GRACE: Duration = Duration::from_millis(100);
/// A shorter promise is not given: the hold is recorded first.
const SHORTEST: Duration = Duration::from_millis(100);

/// What the client of a hold without a record was promised.
#[derive(Clone, Copy)]
pub(super) struct Promise {
    /// When the last request for it arrived. The client has sent it before.
    asked: Moment,
    /// The end of the promise on this node's clock.
    until: Moment,
    /// When it is due to grow.
    grows_at: Moment,
    /// Whether the hold is being recorded.
    recording: bool,
}

impl LeaseTable {
    /// The node granted a request, and no other member grants the lock until then: see
    /// [`mutua_node::Guard::excludes_until`].
    pub(crate) fn granted_until(
        &mut self,
        now: Moment,
        request: RequestId,
        token: u64,
        until: Moment,
    ) {
        self.excludes_until = until;
        self.granted(now, request, token);
        self.excludes_until = Moment::ZERO;
    }

    /// The client of this wait takes a promise.
    pub(crate) fn allow_promise(&mut self, wait: WaitId) {
        if let Some(wait) = self.waits.get_mut(&wait) {
            wait.takes_promise = true;
        }
    }

    /// No promise is given any more, and what was promised is recorded now: the node stops.
    pub(crate) fn end_promises(&mut self) {
        self.promises_end = true;
        let names: Vec<_> = self.locks.keys().cloned().collect();
        for name in names {
            self.record_promised(&name);
        }
    }

    /// Whether a client holds a lock by a promise only.
    pub(crate) fn any_promised(&self) -> bool {
        let mut holders = self.locks.values().filter_map(|lock| lock.holder.as_ref());
        holders.any(|holder| holder.promise.is_some() && holder.is_valid())
    }

    /// Grants the lock with a promise, if the client takes one and it is long enough. Returns
    /// whether it did.
    pub(super) fn grant_with_promise(
        &mut self,
        now: Moment,
        name: &Name,
        wait: WaitId,
        grant: &Recording,
    ) -> bool {
        let waits = &self.waits[&wait];
        let takes_promise = waits.takes_promise && !self.promises_end;
        let promise = Promise {
            asked: waits.since,
            until: self.excludes_until,
            grows_at: now.after(PROLONG_AFTER),
            recording: false,
        };
        let left = self.promised(promise).saturating_sub(self.lasts(now.since(promise.asked)));
        if !takes_promise || left < SHORTEST {
            return false;
        }
        self.grant(now, wait, (grant.request, grant.token), Some(promise));
        if self.promised.is_empty() {
            self.timers.insert((now.after(RECORD_AFTER), Timer::Promises));
        }
        self.promised.insert(Name::clone(name));
        true
    }

    /// How long a promise lasts on its client's clock, from when the client sent its request.
    fn promised(&self, promise: Promise) -> Duration {
        let drift = u64::from(self.settings.drift).min(999_999);
        let nanos = promise.until.since(promise.asked).as_nanos();
        let nanos = nanos * u128::from(1_000_000 - drift) / u128::from(1_000_000 + drift);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The promise for a hold, from when its client sent its request; `None` if it is recorded.
    pub(crate) fn promise_of(&self, name: &[u8], token: u64) -> Option<Duration> {
        let holder = self.locks.get(name)?.holder.as_ref()?;
        let promise = holder.promise.filter(|_| holder.fencing_token == token)?;
        Some(self.promised(promise))
    }

    /// The client of a hold is informed of it by another request than it was granted by, which
    /// arrived by now at the latest.
    pub(super) fn asked_again(&mut self, now: Moment, name: &[u8]) {
        if let Some(promise) = promise_mut(&mut self.locks, name) {
            promise.asked = now;
        }
    }

    /// Records the holds that have lasted, and has the driver prolong the promises of those that
    /// are not recorded yet. One timer serves all: most holds have ended when it is due.
    pub(super) fn check_promises(&mut self, now: Moment) {
        let mut next = Moment::NEVER;
        for name in std::mem::take(&mut self.promised) {
            let Some((since, promise)) = self.promise_at(&name) else { continue };
            let record_at = since.after(RECORD_AFTER);
            if record_at <= now {
                self.record_promised(&name);
            } else {
                next = next.min(record_at);
            }
            if promise.grows_at <= now {
                self.prolong_soon(now, &name);
                next = next.min(now.after(PROLONG_AFTER));
            } else {
                next = next.min(promise.grows_at);
            }
            self.promised.insert(name);
        }
        if !self.promised.is_empty() {
            self.timers.insert((next, Timer::Promises));
        }
    }

    fn prolong_soon(&mut self, now: Moment, name: &Name) {
        let Some(holder) = self.locks.get_mut(name).and_then(|lock| lock.holder.as_mut()) else {
            return;
        };
        if let Some(promise) = &mut holder.promise {
            promise.grows_at = now.after(PROLONG_AFTER);
            self.effects.push(Effect::Prolong { request: holder.request });
        }
    }

    /// The promise for a lock, and since when it is held.
    fn promise_at(&self, name: &Name) -> Option<(Moment, Promise)> {
        let holder = self.locks.get(name)?.holder.as_ref().filter(|holder| holder.is_valid())?;
        Some((holder.since, holder.promise?))
    }

    /// Records a hold that was promised.
    fn record_promised(&mut self, name: &Name) {
        let holder = self.locks.get_mut(name).and_then(|lock| lock.holder.as_mut());
        let Some(holder) = holder.filter(|holder| holder.is_valid()) else { return };
        if let Some(promise) = &mut holder.promise
            && !std::mem::replace(&mut promise.recording, true)
        {
            let (request, session) = (holder.request, holder.session);
            self.effects.push(Effect::Keep { request, session });
        }
    }

    /// No other member grants the lock of this request until then: the promise grows with it.
    pub(crate) fn prolong(&mut self, request: RequestId, until: Moment) {
        let Some(name) = self.requests.get(&request).cloned() else { return };
        let holder = self.locks.get_mut(&name).and_then(|lock| lock.holder.as_mut());
        let Some(holder) = holder.filter(|holder| holder.is_valid()) else { return };
        let Some(promise) = &mut holder.promise else { return };
        if promise.until < until {
            promise.until = until;
            let (session, fencing_token) = (holder.session, holder.fencing_token);
            self.promised_effect(session, &name, fencing_token);
        }
    }

    /// The hold of this request is recorded: it lasts as its session does. Returns whether it had
    /// been promised.
    pub(super) fn promise_recorded(
        &mut self,
        name: &Name,
        request: RequestId,
        session: SessionId,
    ) -> bool {
        let holder = self.locks.get_mut(name).and_then(|lock| lock.holder.as_mut());
        let is_this = |holder: &&mut Hold| {
            (holder.request, holder.session) == (request, session) && holder.is_valid()
        };
        let Some(holder) = holder.filter(is_this) else { return false };
        let fencing_token = holder.fencing_token;
        if holder.promise.take().is_some() {
            self.promised_effect(session, name, fencing_token);
        }
        true
    }

    fn promised_effect(&mut self, session: SessionId, name: &Name, fencing_token: u64) {
        let name = Name::clone(name);
        self.effects.push(Effect::Promised { session, name, fencing_token });
    }

    /// The node no longer holds a lock that it has promised: its client is notified, and may hold
    /// it until the promise ends. Returns whether it was promised.
    pub(super) fn keep_promise(&mut self, name: &Name, reason: &str) -> bool {
        let holder = self.locks.get_mut(name).and_then(|lock| lock.holder.as_mut());
        let Some(holder) = holder else { return false };
        let Some(promise) = holder.promise else { return false };
        if holder.is_valid() {
            let free_at = promise.until.after(GRACE);
            holder.broken = Some(free_at);
            let (session, fencing_token) = (holder.session, holder.fencing_token);
            self.timers.insert((free_at, Timer::Broken(Name::clone(name))));
            let (name, reason) = (Name::clone(name), reason.to_owned());
            self.effects.push(Effect::Lost {
                session,
                name: Name::clone(&name),
                fencing_token,
                reason,
            });
            self.changed(&name);
        }
        true
    }
}

fn promise_mut<'a>(locks: &'a mut BTreeMap<Name, Lock>, name: &[u8]) -> Option<&'a mut Promise> {
    locks.get_mut(name)?.holder.as_mut()?.promise.as_mut()
}
