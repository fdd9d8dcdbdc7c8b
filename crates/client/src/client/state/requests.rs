//! Requests for locks, from the caller's side: acquire, cancel, release.

use std::time::Duration;

use super::{Effect, Name, State};
use crate::{
    AcquireError, Moment,
    proto::v1::{self, session_request},
};

/// A node replies this much after the limit of a wait at the latest; then the wait ends here.
const REPLY: Duration = Duration::from_millis(250);

/// How long a request waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wait {
    /// Not at all.
    Try,
    /// At most this long.
    For(Duration),
    /// Without a limit.
    Forever,
}

impl Wait {
    /// At most this long.
    pub(crate) fn within(limit: Duration) -> Self {
        if limit.is_zero() { Self::Try } else { Self::For(limit) }
    }
}

/// The limit of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Limit {
    Try,
    At(Moment),
    Never,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: Name,
    /// The value of a candidate.
    pub(super) value: Option<Vec<u8>>,
    pub(super) limit: Limit,
    pub(super) phase: Phase,
    /// When it was first sent on any stream: the node may have granted it since.
    pub(super) first_sent: Option<Moment>,
    /// Of a grant: how long it is promised; never its end, if it is recorded.
    pub(super) until: Moment,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Behind another request of this client for the same name.
    Queued,
    /// At the node, or to be sent on the next stream.
    Sent,
    /// At the node, and no longer wanted.
    Cancelled,
    /// Granted, but not reported: the lease must first be known to last for a while.
    Granted { token: u64 },
    /// Granted and reported.
    Held { token: u64 },
    /// No longer held; its guard still exists.
    Lost { token: u64 },
}

/// A release that the node may not have received.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    pub(super) token: u64,
    /// The request whose caller waits for the reply.
    pub(super) asked: Option<u64>,
    /// The last renewal that was sent before.
    pub(super) renewals: u64,
}

impl State {
    /// Requests a lock. The outcome follows as an effect with the returned number.
    pub(crate) fn acquire(
        &mut self,
        now: Moment,
        name: &Name,
        wait: Wait,
        value: Option<Vec<u8>>,
    ) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        if self.closing {
            self.effects.push(Effect::Failed { id, error: AcquireError::Closed });
            return id;
        }
        if !self.attached && !self.is_busy() {
            // The first request without a node: its patience begins now.
            self.replied_at = self.replied_at.max(now);
        }
        let queue = self.names.entry(Name::clone(name)).or_default();
        if wait == Wait::Try && !queue.is_empty() {
            let error = AcquireError::Busy { holder: None };
            self.effects.push(Effect::Failed { id, error });
            return id;
        }
        let limit = match wait {
            Wait::Try => Limit::Try,
            Wait::For(limit) => Limit::At(now.after(limit)),
            Wait::Forever => Limit::Never,
        };
        queue.push_back(id);
        let first = queue.len() == 1;
        let (name, phase) = (Name::clone(name), Phase::Queued);
        let (first_sent, until) = (None, Moment::NEVER);
        self.requests.insert(id, Request { name, value, limit, phase, first_sent, until });
        if let Limit::At(limit) = limit {
            self.limits.insert((limit, id));
        }
        if first {
            self.send_acquire(now, id);
        }
        id
    }

    /// The caller no longer wants the lock, or does not know yet that it has it.
    pub(crate) fn abandon(&mut self, now: Moment, id: u64) {
        match self.requests.get(&id).map(|request| request.phase) {
            Some(Phase::Queued) => self.remove(now, id),
            Some(Phase::Sent) => self.cancel(now, id),
            Some(Phase::Granted { .. } | Phase::Held { .. } | Phase::Lost { .. }) => {
                self.release(now, id, false);
            }
            Some(Phase::Cancelled) | None => {}
        }
    }

    fn cancel(&mut self, now: Moment, id: u64) {
        if self.requests.get(&id).is_none_or(|request| request.first_sent.is_none()) {
            return self.remove(now, id);
        }
        // The grant may be on its way: the name is free when the node has replied.
        self.set(id, Phase::Cancelled);
        if self.attached {
            self.send(session_request::Request::Cancel(v1::Cancel { id }));
        }
    }

    /// Releases a lock. With `reply` the effect [`Effect::Released`] follows.
    pub(crate) fn release(&mut self, now: Moment, id: u64, reply: bool) {
        let Some(request) = self.requests.get(&id) else {
            if reply {
                self.effects.push(Effect::Released { id, held: false });
            }
            return;
        };
        let name = Name::clone(&request.name);
        match request.phase {
            Phase::Held { token } => {
                self.held -= 1;
                self.send_release(&name, token, reply.then_some(id));
            }
            Phase::Granted { token } | Phase::Lost { token } => {
                self.send_release(&name, token, reply.then_some(id));
            }
            Phase::Queued | Phase::Sent | Phase::Cancelled => {}
        }
        self.remove(now, id);
    }

    /// Releases a grant at the node. It is sent again on the next stream unless the node has
    /// replied to something that was sent later.
    pub(super) fn send_release(&mut self, name: &Name, token: u64, asked: Option<u64>) {
        let renewals = self.lease.renewals();
        let old =
            self.unconfirmed.insert(Name::clone(name), Unconfirmed { token, asked, renewals });
        if let Some(id) = old.and_then(|old| old.asked) {
            self.effects.push(Effect::Released { id, held: true });
        }
        self.send_release_now(name, token, asked.is_none());
    }

    fn send_release_now(&mut self, name: &Name, token: u64, quiet: bool) {
        if self.attached {
            let release = v1::Release { name: name.to_vec(), fencing_token: token, quiet };
            self.send(session_request::Request::Release(release));
        }
    }

    /// Sends the releases again that the node may not have received.
    pub(super) fn release_again(&mut self) {
        let renewals = self.lease.renewals();
        let again = self.unconfirmed.iter_mut().map(|(name, release)| {
            release.renewals = renewals;
            (Name::clone(name), release.token, release.asked.is_none())
        });
        for (name, token, quiet) in again.collect::<Vec<_>>() {
            self.send_release_now(&name, token, quiet);
        }
    }

    /// The node has received these releases, or the session has ended.
    pub(super) fn confirm(&mut self, which: impl Fn(&Unconfirmed) -> bool) {
        let effects = &mut self.effects;
        self.unconfirmed.retain(|_, release| {
            let done = which(release);
            if let Some(id) = release.asked.filter(|_| done) {
                effects.push(Effect::Released { id, held: false });
            }
            !done
        });
    }

    /// Sends the request, unless it is granted.
    pub(super) fn send_acquire(&mut self, now: Moment, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let limit = match request.phase {
            Phase::Queued | Phase::Sent => {
                request.phase = Phase::Sent;
                request.limit
            }
            // If it was granted on a stream that has ended, it is granted again, and released.
            Phase::Cancelled => Limit::Try,
            Phase::Granted { .. } | Phase::Held { .. } | Phase::Lost { .. } => return,
        };
        if self.attached {
            request.first_sent.get_or_insert(now);
        }
        let wait_ms = match limit {
            Limit::Try => Some(0),
            Limit::At(limit) => {
                Some(u64::try_from(limit.since(now).as_millis()).unwrap_or(u64::MAX).max(1))
            }
            Limit::Never => None,
        };
        let (name, value) = (request.name.to_vec(), request.value.clone());
        let promise = self.settings.promises && value.is_none();
        let acquire = v1::Acquire { id, name, wait_ms, watch: false, value, promise };
        if self.attached {
            self.send(session_request::Request::Acquire(acquire));
        }
    }

    pub(super) fn set(&mut self, id: u64, phase: Phase) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.phase = phase;
        }
    }

    /// Removes a request; the next one for the same name is sent.
    pub(super) fn remove(&mut self, now: Moment, id: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        if let Limit::At(limit) = request.limit {
            self.limits.remove(&(limit, id));
            self.limits.remove(&(limit.after(REPLY), id));
        }
        if request.until < Moment::NEVER {
            self.promises.remove(&(request.until, id));
        }
        let Some(queue) = self.names.get_mut(&request.name) else { return };
        let was_first = queue.front() == Some(&id);
        queue.retain(|&other| other != id);
        match queue.front().copied() {
            None => drop(self.names.remove(&request.name)),
            Some(next) if was_first => self.send_acquire(now, next),
            Some(_) => {}
        }
    }

    /// Removes a request that waits, and reports the error.
    pub(super) fn fail(&mut self, now: Moment, id: u64, error: AcquireError) {
        self.effects.push(Effect::Failed { id, error });
        self.remove(now, id);
    }

    /// A wait has reached its limit.
    pub(super) fn limit_reached(&mut self, now: Moment, id: u64) {
        let Some(request) = self.requests.get(&id) else { return };
        let Limit::At(limit) = request.limit else { return };
        match request.phase {
            Phase::Queued => self.fail(now, id, AcquireError::TimedOut { holder: None }),
            // The node replies with the holder.
            Phase::Sent if self.attached && now < limit.after(REPLY) => {
                self.limits.insert((limit.after(REPLY), id));
            }
            Phase::Sent => {
                let error = match self.attached {
                    true => AcquireError::TimedOut { holder: None },
                    false => AcquireError::Unreachable("no node answers".to_owned()),
                };
                self.effects.push(Effect::Failed { id, error });
                self.cancel(now, id);
            }
            Phase::Cancelled | Phase::Granted { .. } | Phase::Held { .. } | Phase::Lost { .. } => {}
        }
    }

    /// Fails all requests that wait.
    pub(super) fn fail_waiting(&mut self, now: Moment, error: impl Fn(&Name) -> AcquireError) {
        let waits = |phase| matches!(phase, Phase::Queued | Phase::Sent | Phase::Granted { .. });
        let waiting = self.requests.iter().filter(|(_, one)| waits(one.phase));
        // The last ones first, so that no request is sent because the one before it is gone.
        let waiting: Vec<_> = waiting.rev().map(|(id, one)| (*id, error(&one.name))).collect();
        for (id, error) in waiting {
            self.effects.push(Effect::Failed { id, error });
            self.abandon(now, id);
        }
    }

    /// The session has ended, and with it the requests that were cancelled.
    pub(super) fn forget_cancelled(&mut self, now: Moment) {
        let cancelled = self.requests.iter().filter(|(_, one)| one.phase == Phase::Cancelled);
        for id in cancelled.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(now, id);
        }
    }

    /// All locks are lost. Their guards still exist, so nothing is released.
    pub(super) fn lose_all(&mut self, why: &str) {
        for (&id, request) in &mut self.requests {
            if let Phase::Held { token } = request.phase {
                request.phase = Phase::Lost { token };
                self.effects.push(Effect::Lost { id, why: why.to_owned() });
            }
        }
        self.held = 0;
    }

    /// Grants that were not reported are lost: their callers have only waited.
    pub(super) fn request_unreported_again(&mut self) {
        for request in self.requests.values_mut() {
            if let Phase::Granted { .. } = request.phase {
                request.phase = Phase::Sent;
            }
        }
    }
}
