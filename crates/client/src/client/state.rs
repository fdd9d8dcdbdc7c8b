//! A session with many locks, at its client. Deterministic: time is an argument, and there is no
//! I/O.
//!
//! A node grants a lock to a session, not to a task: what a session holds it is granted again at
//! once. So requests for one name are queued here, and only the first of them is at the node.
//!
//! Connections are in this file, requests and their outcomes in `state/requests.rs`, replies in
//! `state/replies.rs`, grants that are not recorded yet in `state/promises.rs`, values of leaders
//! in `state/proclaims.rs`, the lease in `state/lease.rs`.

mod lease;
mod proclaims;
mod promises;
mod replies;
mod requests;
#[cfg(test)]
mod tests;

pub(crate) use requests::Wait;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use lease::Lease;
use requests::{Phase, Request, Unconfirmed};

use super::AcquireError;
use crate::{
    Moment,
    proto::v1::{self, session_request},
    session::Members,
};

/// A lock's name: any bytes.
pub(crate) type Name = Arc<[u8]>;

/// A node that does not reply for this long is left for another member.
const SILENCE: Duration = Duration::from_millis(1500);

/// What a session needs to know at its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The requested lease.
    pub(crate) ttl: Duration,
    /// The client, as other clients see it.
    pub(crate) client: v1::Client,
    /// Requests fail after this long without a node.
    pub(crate) patience: Duration,
    /// The cluster that the nodes must be members of.
    pub(crate) cluster: Option<String>,
    /// Whether locks are granted with a promise, before their holds are recorded.
    pub(crate) promises: bool,
}

/// Something for the driver of a session to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send this to the node, on the present stream.
    Send(session_request::Request),
    /// The lock of this request is held.
    /// Without a later effect it is held until this moment.
    Granted { id: u64, fencing_token: u64, until: Moment },
    /// The lock of this request is held until this moment at least.
    Prolonged { id: u64, until: Moment },
    /// The request has failed and is not queued any more.
    Failed { id: u64, error: AcquireError },
    /// The lock of this request is no longer held.
    Lost { id: u64, why: String },
    /// A release that wanted a reply is done; `held` is false if the node cannot confirm it.
    Released { id: u64, held: bool },
    /// A proclamation is done; `held` is false if the node cannot confirm it.
    Proclaimed { id: u64, held: bool },
}

/// The next step when a stream has ended or is not needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Nothing: the session is closed.
    Done,
    /// Connect again.
    Reconnect,
    /// Wait until there is something to connect for.
    Idle,
}

/// A session's state at its client.
pub(crate) struct State {
    settings: Settings,
    /// 0 until a node has opened it.
    session: i64,
    lease: Lease,
    requests: BTreeMap<u64, Request>,
    /// The requests for each name; the first one is at the node.
    names: HashMap<Name, VecDeque<u64>>,
    /// The limits of waits.
    limits: BTreeSet<(Moment, u64)>,
    /// When the promises of granted requests end.
    promises: BTreeSet<(Moment, u64)>,
    /// Releases that the node may not have received.
    unconfirmed: HashMap<Name, Unconfirmed>,
    /// Proclamations without a reply, by their numbers, and the requests of their leaders.
    proclamations: BTreeMap<u64, u64>,
    last_id: u64,
    /// The number of locks that are reported as held.
    held: usize,
    attached: bool,
    closing: bool,
    /// When the node last replied, or the first request without a node began, and whether on this
    /// stream.
    replied_at: Moment,
    replied_here: bool,
    members: Members,
    effects: Vec<Effect>,
}

impl State {
    /// A session that is not open yet. `others` are endpoints to try beside the first one.
    pub(crate) fn new(now: Moment, settings: Settings, others: Vec<String>) -> Self {
        let mut members = Members::default();
        members.learn(others);
        Self {
            lease: Lease::new(now, settings.ttl),
            settings,
            session: 0,
            requests: BTreeMap::new(),
            names: HashMap::new(),
            limits: BTreeSet::new(),
            promises: BTreeSet::new(),
            unconfirmed: HashMap::new(),
            proclamations: BTreeMap::new(),
            last_id: 0,
            held: 0,
            attached: false,
            closing: false,
            replied_at: now,
            replied_here: false,
            members,
            effects: Vec::new(),
        }
    }

    /// The effects to perform, in order. The driver empties them.
    pub(crate) fn effects(&mut self) -> &mut Vec<Effect> {
        if !self.proclamations.is_empty() {
            self.end_proclamations();
        }
        &mut self.effects
    }

    /// The endpoint to connect to next; `None` for the first one.
    pub(crate) fn endpoint(&mut self) -> Option<String> {
        self.members.choose()
    }

    /// The endpoints of the other members, as far as they are known.
    pub(crate) fn members(&self) -> Vec<String> {
        self.members.known().to_vec()
    }

    /// The number of the session; 0 if it is not open yet.
    pub(crate) fn session(&self) -> i64 {
        self.session
    }

    /// The lease: locks expire this long after the last renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.lease.ttl()
    }

    /// Until when held locks count as held, as far as is known now.
    pub(crate) fn good_until(&self) -> Moment {
        self.lease.good_until()
    }

    /// Whether a lock is reported as held.
    pub(crate) fn holds(&self) -> bool {
        self.held > 0
    }

    /// Whether a connection is needed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.requests.is_empty() || !self.unconfirmed.is_empty()
    }

    /// Whether the client has closed the session.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    fn send(&mut self, request: session_request::Request) {
        self.effects.push(Effect::Send(request));
    }
}

/// Connections: attached, broken, closed.
impl State {
    /// A stream is attached.
    pub(crate) fn attached(&mut self, now: Moment) {
        if self.lease.has_expired(now) {
            // Others may have held the locks since, so they cannot be reclaimed.
            self.lose_all("the lease expired: no node answered in time");
            self.request_unreported_again();
        }
        self.attached = true;
        self.replied_here = false;
        self.lease.opening(now);
        let open = self.open();
        self.send(session_request::Request::Open(open));
        if self.closing {
            return self.send(session_request::Request::Close(v1::Close {}));
        }
        self.release_again();
        let first = self.names.values().filter_map(|queue| queue.front().copied());
        let first: BTreeSet<u64> = first.collect();
        for id in first {
            self.proclaim_again(id);
            self.send_acquire(now, id);
        }
    }

    /// The stream has ended, or there is no connection.
    pub(crate) fn broken(&mut self, now: Moment, why: &str) -> Next {
        self.attached = false;
        self.members.failed();
        if std::mem::take(&mut self.replied_here) {
            // The node was connected until now, though it may have sent nothing for a while.
            self.replied_at = now;
        }
        if self.closing {
            let unreleased = !self.unconfirmed.is_empty() && !self.lease.has_expired(now);
            return if unreleased { Next::Reconnect } else { Next::Done };
        }
        self.check_lease(now);
        if now.since(self.replied_at) >= self.settings.patience {
            self.fail_waiting(now, |_| AcquireError::Unreachable(why.to_owned()));
        }
        if self.is_busy() { Next::Reconnect } else { Next::Idle }
    }

    /// The client closes the session: its locks are released.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        if self.attached {
            self.send(session_request::Request::Close(v1::Close {}));
        }
    }

    /// The driver has ended, and with it the session.
    pub(crate) fn end(&mut self, now: Moment) {
        (self.closing, self.attached) = (true, false);
        self.lose_all("the client was closed");
        self.fail_waiting(now, |_| AcquireError::Closed);
        self.forget_cancelled(now);
        self.confirm(|_| true);
    }

    fn open(&self) -> v1::Open {
        let reclaim = |request: &Request| match request.phase {
            Phase::Granted { token } | Phase::Held { token } => {
                let promised = request.until < Moment::NEVER;
                Some(v1::Reclaim { name: request.name.to_vec(), fencing_token: token, promised })
            }
            Phase::Queued | Phase::Sent | Phase::Cancelled | Phase::Lost { .. } => None,
        };
        // The lost node may not have received these releases. The next one must serve the holds to
        // release them.
        let released = self.unconfirmed.iter().map(|(name, release)| v1::Reclaim {
            name: name.to_vec(),
            fencing_token: release.token,
            promised: false,
        });
        v1::Open {
            session: self.session,
            ttl_ms: u64::try_from(self.settings.ttl.as_millis()).unwrap_or(u64::MAX),
            client: Some(self.settings.client.clone()),
            supervised: false,
            reclaims: self.requests.values().filter_map(reclaim).chain(released).collect(),
            close_only: false,
        }
    }
}

/// Time.
impl State {
    /// When to call [`tick`](Self::tick) at the latest.
    pub(crate) fn wake_at(&self) -> Moment {
        let mut at = self.limits.first().map_or(Moment::NEVER, |(limit, _)| *limit);
        if self.holds() {
            at = at.min(self.lease.good_until());
        }
        if let Some((until, _)) = self.promises.first() {
            at = at.min(*until);
        }
        if self.attached {
            at = at.min(self.lease.renew_at()).min(self.leave_at());
        } else if !self.requests.is_empty() {
            at = at.min(self.replied_at.after(self.settings.patience));
        }
        at
    }

    /// Time has passed. Returns the next step if the stream is given up.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Next> {
        self.check_lease(now);
        if self.attached && now >= self.lease.renew_at() {
            self.renew(now);
        }
        while let Some(&(limit, id)) = self.limits.first()
            && limit <= now
        {
            self.limits.pop_first();
            self.limit_reached(now, id);
        }
        if self.attached && self.leave_at() <= now {
            return Some(self.broken(now, "the node does not answer"));
        }
        let silent = now.since(self.replied_at) >= self.settings.patience;
        if !self.attached && silent {
            let why = "no node answers";
            self.fail_waiting(now, |_| AcquireError::Unreachable(why.to_owned()));
        }
        None
    }

    /// When a silent node is left for another member.
    fn leave_at(&self) -> Moment {
        let since = self.lease.unanswered_since().filter(|_| !self.members.is_empty());
        since.map_or(Moment::NEVER, |since| since.after(SILENCE))
    }

    fn renew(&mut self, now: Moment) {
        let number = self.lease.renew(now);
        self.send(session_request::Request::Renew(v1::Renew { number }));
    }

    fn check_lease(&mut self, now: Moment) {
        if self.holds() && self.lease.good_until() <= now {
            self.lose_all("the lease was not renewed in time");
        }
        self.check_promises(now);
        if self.lease.has_expired(now) && !self.attached {
            // The session has ended, and with it everything that it held.
            self.confirm(|_| true);
            self.forget_cancelled(now);
        }
    }
}
