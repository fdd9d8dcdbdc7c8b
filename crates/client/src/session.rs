//! The client's side of a session with a Mutua node. Deterministic: time is an argument, and there
//! is no I/O. It decides what to send to the node and what to report to the caller.
//!
//! `run.rs` connects it to a node, the clock and the caller.

mod members;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use members::Members;
pub(crate) use run::run;

use std::time::Duration;

use super::{Event, HoldRequest, Scope};
use crate::{
    Moment,
    proto::v1::{self, session_reply::Reply, session_request::Request},
};

/// The caller gets a note after this long without a reply.
const SILENCE: Duration = Duration::from_millis(1500);
/// A request ends as unreachable after this long without a reply or a node. A request with a limit
/// on its wait reaches that limit first.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// The gRPC code of a member that cannot serve a session now.
const UNAVAILABLE: u32 = tonic::Code::Unavailable as u32;

/// The number in [`Session::sent`] of the request that closes the session.
const CLOSE: u64 = u64::MAX;

/// The state of one session at its client.
pub struct Session {
    request: HoldRequest,
    /// 0 until the node has opened it.
    id: i64,
    /// When the lock was requested.
    since: Moment,
    fencing_token: Option<u64>,
    /// The grant is not reported yet: its lease must first be known to last for a while.
    unreported: bool,
    /// The lock was held and is lost: nothing is requested again.
    lost: bool,
    /// Whether that was while it was being released, so that it was not reported.
    lost_in_release: bool,
    releasing: bool,
    /// Whether there is a stream.
    attached: bool,
    /// Renewals without a reply: number and send time. 0 is the `Open`.
    sent: Vec<(u64, Moment)>,
    renewals: u64,
    renew_at: Moment,
    /// The lease of the last reply, counted from when its renewal was sent.
    ttl: Duration,
    valid_until: Moment,
    /// When the node last replied, and whether on this stream.
    replied_at: Moment,
    replied_here: bool,
    /// When a member last answered that it cannot serve the session now.
    unserved_at: Moment,
    /// Whether the caller has the note that the node does not answer.
    noted: bool,
    members: Members,
    effects: Vec<Effect>,
}

/// Something for the driver of a session to do.
#[derive(Debug)]
pub enum Effect {
    /// Send this to the node, on the present stream.
    Send(Request),
    /// Report this to the caller.
    Report(Event),
}

/// The next step when a stream has ended or is not needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Nothing: the last event is reported.
    Done,
    /// Connect again.
    Reconnect,
    /// Wait until the caller releases: there is nothing to connect for.
    WaitForRelease,
}

impl Session {
    /// A session that is not open yet.
    pub fn new(now: Moment, request: HoldRequest) -> Self {
        Self {
            ttl: request.ttl,
            request,
            id: 0,
            since: now,
            fencing_token: None,
            unreported: false,
            lost: false,
            lost_in_release: false,
            releasing: false,
            attached: false,
            sent: Vec::new(),
            renewals: 0,
            renew_at: now,
            valid_until: now,
            replied_at: now,
            replied_here: false,
            unserved_at: now,
            noted: false,
            members: Members::default(),
            effects: Vec::new(),
        }
    }

    /// The effects to perform, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The endpoint to connect to next; `None` for the client's own node.
    pub fn endpoint(&mut self) -> Option<String> {
        self.members.choose()
    }

    /// The lease: the lock expires this long after the last renewal.
    pub fn lease(&self) -> Duration {
        self.ttl
    }

    /// The number of the session; 0 if it is not open yet.
    pub fn id(&self) -> i64 {
        self.id
    }

    fn report(&mut self, event: Event) {
        self.effects.push(Effect::Report(event));
    }

    fn send(&mut self, request: Request) {
        self.effects.push(Effect::Send(request));
    }
}

/// Connections: attached, failed, broken.
impl Session {
    /// A stream is attached. Returns the next step if the session does not need it.
    pub fn attached(&mut self, now: Moment) -> Option<Next> {
        if self.valid_until <= now {
            // Others may have held the lock since, so it cannot be reclaimed.
            if self.has_expired(now) && !self.releasing {
                return Some(self.broken(now, "connecting took too long".to_owned()));
            }
            (self.fencing_token, self.unreported) = (None, false);
        }
        self.attached = true;
        self.replied_here = false;
        self.sent = vec![(0, now)];
        self.renew_at = now.after(self.ttl / 3);
        self.send(Request::Open(self.open()));
        if self.releasing {
            self.send(Request::Close(v1::Close {}));
        } else if let Some(fencing_token) = self.fencing_token {
            if let Some(value) = self.request.value.clone() {
                // Another node may have taken the hold over, or started anew.
                let name = self.request.name.clone();
                self.send(Request::Proclaim(v1::Proclaim { id: 0, name, fencing_token, value }));
            }
        } else {
            self.send(Request::Acquire(self.acquire(now)));
        }
        None
    }

    /// No connection could be made.
    pub fn unreachable(&mut self, now: Moment, why: String) -> Next {
        if self.id == 0 && self.members.is_empty() {
            self.report(Event::Unreachable(why));
            return Next::Done;
        }
        self.broken(now, why)
    }

    /// The stream has ended, or could not be attached.
    pub fn broken(&mut self, now: Moment, why: String) -> Next {
        self.attached = false;
        self.members.failed();
        if std::mem::take(&mut self.replied_here) {
            // The node was connected until now, though it may have sent nothing for a while.
            self.replied_at = now;
        }
        if self.releasing {
            return self.release_elsewhere(now);
        }
        if self.has_expired(now) {
            self.lose(format!("the lease expired: {why}"));
        }
        if self.lost {
            return Next::WaitForRelease;
        }
        let answered_at = self.replied_at.max(self.unserved_at);
        if self.fencing_token.is_none() && now.since(answered_at) > UNREACHABLE_AFTER {
            self.report(Event::Unreachable(why));
            return Next::Done;
        }
        self.note_if_silent(now, &why);
        Next::Reconnect
    }

    /// A member answers, but cannot serve the session now: it is cut off, or another one will serve
    /// it soon. A waiter goes on trying for as long as it may wait.
    pub fn unserved(&mut self, now: Moment, why: String) -> Next {
        self.unserved_at = now;
        let may_wait = self.request.wait.is_none_or(|wait| now < self.since.after(wait));
        if self.fencing_token.is_none() && !self.lost && !self.releasing && !may_wait {
            self.report(Event::Unreachable(why));
            return Next::Done;
        }
        if !self.noted && now.since(self.replied_at) >= SILENCE {
            self.noted = true;
            self.report(Event::Note(format!("this client is not served at present: {why}")));
        }
        self.broken(now, why)
    }

    /// The node is lost before it has confirmed the release. It may not have received it, so the
    /// lock is released where it is served next, or else is free when the lease expires.
    fn release_elsewhere(&mut self, now: Moment) -> Next {
        if self.fencing_token.is_some() && now < self.valid_until {
            return Next::Reconnect;
        }
        self.report(Event::Released);
        Next::Done
    }

    fn open(&self) -> v1::Open {
        let reclaim = |fencing_token| v1::Reclaim {
            name: self.request.name.clone(),
            fencing_token,
            promised: false,
        };
        v1::Open {
            session: self.id,
            ttl_ms: u64::try_from(self.request.ttl.as_millis()).unwrap_or(u64::MAX),
            client: Some(self.request.client.clone()),
            supervised: self.request.supervised,
            reclaims: self.fencing_token.map(reclaim).into_iter().collect(),
            close_only: false,
        }
    }

    fn acquire(&self, now: Moment) -> v1::Acquire {
        // After a reconnection, part of the wait is over.
        let rest = |wait: Duration| match wait.is_zero() {
            true => 0,
            false => wait.saturating_sub(now.since(self.since)).as_millis().max(1),
        };
        let wait_ms =
            self.request.wait.map(rest).map(|rest| u64::try_from(rest).unwrap_or(u64::MAX));
        let (name, value) = (self.request.name.clone(), self.request.value.clone());
        v1::Acquire { id: 1, name, wait_ms, watch: true, value, promise: false }
    }
}

/// The caller's release, and time.
impl Session {
    /// Releases the lock, or cancels the wait.
    pub fn release(&mut self, now: Moment) -> Option<Next> {
        self.releasing = true;
        if self.attached {
            self.send(Request::Close(v1::Close {}));
            // A reply is due, as to a renewal.
            self.sent.push((CLOSE, now));
            return None;
        }
        if self.fencing_token.is_some() {
            // Sent on the next stream.
            return None;
        }
        self.report(Event::Released);
        Some(Next::Done)
    }

    /// When to call [`tick`](Self::tick) at the latest.
    pub fn wake_at(&self) -> Moment {
        let mut at = self.give_up_at().min(self.held_until());
        if self.attached {
            at = at.min(self.renew_at).min(self.leave_at());
        }
        if !self.noted {
            at = at.min(self.silent_since().after(SILENCE));
        }
        at
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) -> Option<Next> {
        if self.has_expired(now) {
            if self.releasing {
                return Some(self.unconfirmed());
            }
            if !self.attached {
                return Some(self.broken(now, "the node does not answer".to_owned()));
            }
            self.lose("the lease expired".to_owned());
        }
        if self.attached && now >= self.renew_at {
            self.renew(now);
        }
        if self.attached && self.leave_at() <= now {
            return Some(self.broken(now, "the node does not answer".to_owned()));
        }
        self.note_if_silent(now, "it may have crashed, be paused or be slow");
        if self.give_up_at() <= now {
            self.report(Event::Unreachable("the node does not answer".to_owned()));
            return Some(Next::Done);
        }
        None
    }

    /// When a request with a limit on its wait ends without a reply.
    fn give_up_at(&self) -> Moment {
        match self.request.wait {
            Some(wait) if self.fencing_token.is_none() && !self.lost && !self.releasing => {
                self.since.after(wait).after(UNREACHABLE_AFTER)
            }
            _ => Moment::NEVER,
        }
    }

    /// Since when a reply is due.
    fn silent_since(&self) -> Moment {
        match self.attached {
            true => self.sent.first().map_or(Moment::NEVER, |(_, sent)| *sent),
            false => self.replied_at,
        }
    }

    /// When a silent node is left for another member. A waiter is more patient: it loses its
    /// position.
    fn leave_at(&self) -> Moment {
        let patience = if self.fencing_token.is_some() { SILENCE } else { SILENCE * 2 };
        match self.members.is_empty() {
            true => Moment::NEVER,
            false => self.silent_since().after(patience),
        }
    }

    fn is_silent(&self, now: Moment) -> bool {
        self.silent_since().after(SILENCE) <= now
    }

    /// Notes once that the node does not answer, with the first cause.
    fn note_if_silent(&mut self, now: Moment, why: &str) {
        if !self.noted && self.is_silent(now) {
            self.noted = true;
            self.report(Event::Note(format!("the node does not answer: {why}")));
        }
    }

    fn renew(&mut self, now: Moment) {
        self.renewals += 1;
        self.sent.push((self.renewals, now));
        self.renew_at = now.after(self.ttl / 3);
        self.send(Request::Renew(v1::Renew { number: self.renewals }));
    }
}

/// Replies of the node.
impl Session {
    /// A reply arrived. Returns the next step if it is the last one.
    pub fn received(&mut self, now: Moment, reply: Reply) -> Option<Next> {
        if let Reply::Failed(failed) = reply {
            return Some(match failed.code == UNAVAILABLE {
                true => self.unserved(now, failed.text),
                false => self.broken(now, failed.text),
            });
        }
        (self.replied_at, self.replied_here) = (now, true);
        if self.has_expired(now) {
            // The command has been ended by now, so no reply makes the lease valid again.
            self.lose("the lease expired".to_owned());
        }
        match reply {
            Reply::Opened(opened) => return self.opened(now, opened),
            Reply::Waiting(waiting) => self.report(Event::Waiting(waiting)),
            Reply::Granted(granted) => self.granted(now, granted.fencing_token),
            // A request that was sent on two streams is granted once and refused once.
            Reply::Refused(_) if self.fencing_token.is_some() => {}
            Reply::Refused(refused) => self.report(Event::Refused(refused)),
            Reply::Renewed(renewed) => {
                self.acknowledged(now, renewed.number, renewed.ttl_ms);
            }
            Reply::Lost(lost) if self.fencing_token == Some(lost.fencing_token) => {
                return self.lose_or_request_again(now, lost.reason);
            }
            // This client takes no promise.
            Reply::Promised(_) => {}
            Reply::Lost(_) | Reply::Released(_) | Reply::Proclaimed(_) => {}
            Reply::Peers(peers) => self.members.learn(peers.endpoints),
            Reply::Moved(moved) => {
                self.members.prefer(moved.endpoints);
                return Some(self.broken(now, format!("{} serves the session", moved.node)));
            }
            Reply::Closed(_) => return Some(self.closed(now)),
            Reply::Failed(_) => {}
        }
        None
    }

    fn opened(&mut self, now: Moment, opened: v1::Opened) -> Option<Next> {
        self.id = opened.session;
        if !opened.refused.is_empty() && self.fencing_token.is_some() {
            self.sent.clear();
            let why = "the next node refused the reclaim";
            return self.lose_or_request_again(now, why.to_owned());
        }
        self.acknowledged(now, 0, opened.ttl_ms);
        let granted = Duration::from_millis(opened.ttl_ms);
        if granted < self.request.ttl {
            let (wanted, granted) = (self.request.ttl.as_secs(), granted.as_secs());
            let text = format!("the lease is {granted} s, not {wanted} s: the node allows no more");
            self.report(Event::Note(text));
            self.request.ttl = self.ttl;
        }
        let scope = Scope::new(opened.scope(), opened.cluster);
        let (session, version, ttl) = (self.id, opened.version, self.ttl);
        let suspended_for = Duration::from_millis(opened.quarantine_ms);
        self.report(Event::Opened { session, version, scope, ttl, suspended_for });
        if opened.quarantine_ms > 0 && self.fencing_token.is_none() {
            self.report(Event::Note(format!(
                "the node did not stop cleanly; grants are suspended for {} ms",
                opened.quarantine_ms
            )));
        }
        None
    }

    fn granted(&mut self, now: Moment, fencing_token: u64) {
        if self.lost || self.releasing || self.fencing_token == Some(fencing_token) {
            // The request was sent twice, or is cancelled.
            return;
        }
        (self.fencing_token, self.unreported) = (Some(fencing_token), true);
        self.report_grant(now);
        if self.unreported {
            self.renew(now);
        }
    }

    /// Reports a grant if its lease lasts for a while. A client that was stopped may read the
    /// grant, and replies to older renewals, long after they were sent.
    fn report_grant(&mut self, now: Moment) {
        let lasts = self.valid_until.since(now) >= self.ttl / 2;
        let due = self.unreported && lasts && !self.releasing;
        if let Some(fencing_token) = self.fencing_token.filter(|_| due) {
            self.unreported = false;
            self.report(Event::ValidUntil(self.valid_until));
            let waited = now.since(self.since);
            self.report(Event::Granted { fencing_token, waited });
        }
    }

    /// The lease counts from when the renewal was sent, not from when the reply arrived.
    fn acknowledged(&mut self, now: Moment, number: u64, ttl_ms: u64) {
        let Some(index) = self.sent.iter().position(|sent| sent.0 == number) else { return };
        let (_, sent) = self.sent.remove(index);
        // After a pause the node may reply to one renewal after the other.
        self.noted &= self.is_silent(now);
        if ttl_ms == 0 {
            // The session has ended; the next reply closes it.
            return;
        }
        // The latest reply counts, though it may end sooner than the request or an earlier reply.
        self.ttl = Duration::from_millis(ttl_ms);
        self.valid_until = sent.after(self.ttl);
        self.renew_at = self.renew_at.min(sent.after(self.ttl / 3));
        match (self.fencing_token, self.unreported) {
            (Some(_), true) => self.report_grant(now),
            (Some(_), false) => self.report(Event::ValidUntil(self.valid_until)),
            (None, _) => {}
        }
    }

    /// The lock is free again because its lease has expired, and not because it was released.
    fn unconfirmed(&mut self) -> Next {
        let text = "the lease expired before a node confirmed the release";
        self.report(Event::Unreachable(text.to_owned()));
        Next::Done
    }

    /// The session has ended. A waiter that could not renew in time requests the lock again.
    fn closed(&mut self, now: Moment) -> Next {
        let why = "the node closed the session".to_owned();
        if self.lost_in_release {
            return self.unconfirmed();
        }
        if self.releasing {
            self.report(Event::Released);
            return Next::Done;
        }
        if self.fencing_token.is_some() {
            let next = self.lose_or_request_again(now, why.clone());
            return next.unwrap_or_else(|| self.broken(now, why));
        }
        if !self.lost {
            let text = "the session expired; waiting again, at the end of the queue";
            self.report(Event::Note(text.to_owned()));
        }
        self.broken(now, why)
    }
}

/// Holding the lock, and losing it.
impl Session {
    /// Until when the caller holds the lock, as far as it was reported.
    fn held_until(&self) -> Moment {
        if self.fencing_token.is_some() && !self.unreported {
            self.valid_until
        } else {
            Moment::NEVER
        }
    }

    fn has_expired(&self, now: Moment) -> bool {
        self.held_until() <= now
    }

    fn lose(&mut self, why: String) {
        self.fencing_token = None;
        self.lost = true;
        match self.releasing {
            true => self.lost_in_release = true,
            false => self.report(Event::Lost(why)),
        }
    }

    /// The lock is no longer held. A reported grant is reported as lost; otherwise the caller has
    /// only waited, and the lock is requested again.
    fn lose_or_request_again(&mut self, now: Moment, why: String) -> Option<Next> {
        if std::mem::take(&mut self.unreported) {
            self.fencing_token = None;
            return Some(self.broken(now, why));
        }
        self.lose(why);
        None
    }
}
