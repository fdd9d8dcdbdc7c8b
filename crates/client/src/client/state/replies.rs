//! Replies of the node.

use super::{Effect, Name, Next, Phase, State, requests::Limit};
use crate::{
    AcquireError, Holder, Moment, Scope,
    proto::v1::{self, session_reply::Reply},
};

impl State {
    /// A reply arrived. Returns the next step if it is the last one.
    pub(crate) fn received(&mut self, now: Moment, reply: Reply) -> Option<Next> {
        (self.replied_at, self.replied_here) = (now, true);
        // Callers have been informed by now, so no reply makes the lease valid again.
        self.check_lease(now);
        match reply {
            Reply::Opened(opened) => return self.opened(now, opened),
            Reply::Waiting(_) => {}
            Reply::Granted(granted) => self.granted(now, granted),
            Reply::Refused(refused) => self.refused(now, refused),
            Reply::Renewed(renewed) => {
                self.lease.acknowledged(renewed.number, renewed.ttl_ms);
                // The stream keeps the order: the node has read what was sent before.
                self.confirm(|release| {
                    release.asked.is_none() && release.renewals < renewed.number
                });
                self.report_grants(now);
            }
            Reply::Promised(promised) => self.promised(now, &promised),
            Reply::Lost(lost) => self.lost(now, lost),
            Reply::Released(released) => self.released(released),
            Reply::Proclaimed(proclaimed) => self.proclaimed(proclaimed),
            Reply::Peers(peers) => self.members.learn(peers.endpoints),
            Reply::Moved(moved) => {
                self.members.prefer(moved.endpoints);
                return Some(self.broken(now, &format!("{} serves the session", moved.node)));
            }
            Reply::Failed(failed) => return Some(self.broken(now, &failed.text)),
            Reply::Closed(_) => {
                self.lose_all("the node closed the session");
                self.request_unreported_again();
                self.confirm(|_| true);
                self.forget_cancelled(now);
                return Some(self.broken(now, "the node closed the session"));
            }
        }
        None
    }

    fn opened(&mut self, now: Moment, opened: v1::Opened) -> Option<Next> {
        let scope = Scope::new(opened.scope(), opened.cluster.clone());
        if self.settings.cluster.is_some() && scope.cluster() != self.settings.cluster.as_deref() {
            let wanted = self.settings.cluster.as_deref().unwrap_or_default();
            let why = format!("{} serves {scope}, not cluster {wanted}", opened.node);
            return Some(self.broken(now, &why));
        }
        self.session = opened.session;
        for v1::Reclaim { name, fencing_token, .. } in opened.refused {
            let lost = v1::Lost { name, fencing_token, reason: REFUSED.to_owned() };
            self.lost(now, lost);
        }
        self.lease.acknowledged(0, opened.ttl_ms);
        self.report_grants(now);
        None
    }

    fn granted(&mut self, now: Moment, granted: v1::Granted) {
        let (id, token) = (granted.id, granted.fencing_token);
        match self.requests.get(&id).map(|request| request.phase) {
            Some(Phase::Sent) => {
                self.note_promise(id, &granted);
                self.set(id, Phase::Granted { token });
                self.report_grant(now, id);
                if self.requests.get(&id).map(|one| one.phase) == Some(Phase::Granted { token })
                    && !self.lease.lasts(now)
                {
                    // The lease does not last: reported when a renewal is acknowledged.
                    self.renew(now);
                }
            }
            Some(Phase::Cancelled) => {
                self.set(id, Phase::Lost { token });
                self.release(now, id, false);
            }
            // A request that was sent on two streams is granted twice, with one fencing token.
            // Any other grant has no caller.
            Some(_) | None if !self.has(&granted.name, token) => {
                self.send_release(&Name::from(granted.name), token, None);
            }
            Some(_) | None => {}
        }
    }

    /// Whether a request has this grant.
    fn has(&self, name: &[u8], token: u64) -> bool {
        let first = self.names.get(name).and_then(|queue| queue.front());
        let phase = first.and_then(|id| self.requests.get(id)).map(|request| request.phase);
        let own = match phase {
            Some(Phase::Granted { token } | Phase::Held { token } | Phase::Lost { token }) => {
                Some(token)
            }
            Some(Phase::Queued | Phase::Sent | Phase::Cancelled) | None => None,
        };
        own == Some(token) || self.unconfirmed.get(name).is_some_and(|one| one.token == token)
    }

    pub(super) fn report_grant(&mut self, now: Moment, id: u64) {
        let is_promised = self.is_promised(now, id);
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Phase::Granted { token } = request.phase else { return };
        if is_promised && self.lease.lasts(now) {
            let until = request.until;
            request.phase = Phase::Held { token };
            self.held += 1;
            // The grant shows that an earlier release has arrived.
            if !self.unconfirmed.is_empty() {
                let name = Name::clone(&request.name);
                self.unconfirmed.remove(&name);
            }
            self.effects.push(Effect::Granted { id, fencing_token: token, until });
        }
    }

    fn report_grants(&mut self, now: Moment) {
        let granted = |phase| matches!(phase, Phase::Granted { .. });
        let unreported = self.requests.iter().filter(|(_, one)| granted(one.phase));
        for id in unreported.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.report_grant(now, id);
        }
    }

    fn refused(&mut self, now: Moment, refused: v1::Refused) {
        let id = refused.id;
        let Some(request) = self.requests.get(&id) else { return };
        match request.phase {
            // Its wait was cancelled with another stream of this session.
            Phase::Sent
                if refused.reason() == v1::Reason::Timeout && request.limit == Limit::Never =>
            {
                self.send_acquire(now, id);
            }
            Phase::Sent => self.fail(now, id, error(refused)),
            Phase::Cancelled => self.remove(now, id),
            // A request that was sent on two streams is granted once and refused once.
            Phase::Queued | Phase::Granted { .. } | Phase::Held { .. } | Phase::Lost { .. } => {}
        }
    }

    fn lost(&mut self, now: Moment, lost: v1::Lost) {
        let first = self.names.get(&*lost.name).and_then(|queue| queue.front().copied());
        let Some(id) = first else { return };
        match self.requests.get(&id).map(|request| request.phase) {
            Some(Phase::Held { token }) if token == lost.fencing_token => {
                self.held -= 1;
                self.set(id, Phase::Lost { token });
                self.effects.push(Effect::Lost { id, why: lost.reason });
            }
            Some(Phase::Granted { token }) if token == lost.fencing_token => {
                self.set(id, Phase::Sent);
                self.send_acquire(now, id);
            }
            Some(_) | None => {}
        }
    }

    fn released(&mut self, released: v1::Released) {
        let v1::Released { name, fencing_token, held } = released;
        let current = self.unconfirmed.get(&*name).filter(|one| one.token == fencing_token);
        if let Some(id) = current.and_then(|release| release.asked) {
            self.unconfirmed.remove(&*name);
            self.effects.push(Effect::Released { id, held });
        }
    }
}

pub(super) const REFUSED: &str = "the next node refused the reclaim";

fn error(refused: v1::Refused) -> AcquireError {
    let reason = refused.reason();
    let v1::Refused { text, holder, .. } = refused;
    let holder = || holder.map(|entry| Box::new(Holder::from(entry)));
    match reason {
        v1::Reason::Busy => AcquireError::Busy { holder: holder() },
        v1::Reason::Timeout => AcquireError::TimedOut { holder: holder() },
        v1::Reason::Invalid => AcquireError::Invalid(text),
        v1::Reason::Denied => AcquireError::Denied(text),
        v1::Reason::Unavailable | v1::Reason::Unknown => AcquireError::Unavailable(text),
    }
}
