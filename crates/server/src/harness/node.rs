//! The node: a lease table, and locks that are granted one at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Event, Harness};
use crate::{
    Moment,
    lease_record::Record,
    leases::{
        Effect, Held, LeaseTable, Mode, Name, Opening, Outcome, RequestId, SessionId, Settings,
        WaitId, WaitLimit,
    },
    proto::v1::{self, session_reply::Reply, session_request::Request},
};

pub(super) struct Node {
    pub(super) leases: LeaseTable,
    /// The requests that are granted, by lock, and those that are pending.
    held: BTreeMap<Name, RequestId>,
    pending: VecDeque<(RequestId, Name)>,
    /// The streams of each session, and the session of each stream.
    clients: BTreeMap<SessionId, Vec<usize>>,
    sessions: BTreeMap<usize, SessionId>,
    waiters: BTreeMap<WaitId, (u64, SessionId)>,
    wake: Moment,
}

impl Harness {
    pub(super) fn node_starts(&mut self) {
        if self.node.is_some() {
            return;
        }
        self.incarnation += 1;
        let seed = u32::try_from(self.incarnation).expect("few incarnations");
        // The file of holds may be lost or damaged: then the longest lease counts.
        if self.dice.one_in(4) {
            self.holds = None;
        }
        let (now, quarantined) = (self.now, self.quarantined);
        let left = |held: &Held| held.until.since(now).min(held.opening.ttl);
        let (unclean, holds) = match self.holds.take() {
            None => (self.disk.quarantine(now), BTreeMap::new()),
            Some(holds) => (Some(quarantined.since(now)).filter(|rest| !rest.is_zero()), holds),
        };
        let holds = holds.into_iter().map(|(name, held)| (name, left(&held), held));
        let holds: Vec<_> = holds.filter(|(_, left, _)| !left.is_zero()).collect();
        self.quarantined = unclean.map_or(Moment::ZERO, |rest| now.after(rest));
        self.disk =
            Record::of_quarantine(now, holds.iter().map(|(_, left, _)| *left).chain(unclean).max());
        self.counts.restored += u64::from(!holds.is_empty());
        self.counts.quarantines += u64::from(unclean.is_some());
        self.note(format!("the node starts; leases of {unclean:?} may be held, and {holds:?}"));
        let mut leases = LeaseTable::new(now, Settings::default(), unclean, seed);
        // They have an end from now on.
        let ends = holds.iter().map(|(name, left, held)| {
            (Name::clone(name), Held { until: now.after(*left), ..held.clone() })
        });
        self.holds = Some(ends.collect());
        for (name, left, held) in holds {
            leases.restore(now, &name, held, left);
        }
        self.node = Some(Node {
            leases,
            held: BTreeMap::new(),
            pending: VecDeque::new(),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            waiters: BTreeMap::new(),
            wake: Moment::NEVER,
        });
        self.settle();
        self.later(1000, Event::NodeShortensRecord { incarnation: self.incarnation });
    }

    pub(super) fn node_crashes(&mut self) {
        if self.node.take().is_none() {
            return;
        }
        self.note("the node crashes".to_owned());
        let streams: Vec<_> = (0..self.streams.len())
            .filter(|&stream| self.streams[stream].incarnation == self.incarnation)
            .collect();
        for stream in streams {
            self.break_stream(stream);
        }
        self.later(2000, Event::NodeStarts);
    }

    fn node_of(&mut self, incarnation: u64) -> Option<&mut Node> {
        self.node.as_mut().filter(|_| self.incarnation == incarnation)
    }

    pub(super) fn node_wakes(&mut self, incarnation: u64) {
        let now = self.now;
        if let Some(node) = self.node_of(incarnation) {
            node.wake = Moment::NEVER;
            node.leases.tick(now);
            self.settle();
        }
    }

    pub(super) fn node_shortens_record(&mut self, incarnation: u64) {
        let now = self.now;
        if let Some(node) = self.node_of(incarnation) {
            node.leases.shorten_record(now);
            self.settle();
            self.after(Duration::from_secs(1), Event::NodeShortensRecord { incarnation });
        }
    }

    /// Grants a pending request whose lock is free.
    pub(super) fn node_grants(&mut self, incarnation: u64) {
        let (now, fencing_token) = (self.now, self.fencing_token + 1);
        let Some(node) = self.node_of(incarnation) else { return };
        let free = |(_, name): &(RequestId, Name)| !node.held.contains_key(name);
        let Some(index) = node.pending.iter().position(free) else { return };
        let (request, name) = node.pending.remove(index).expect("just seen");
        node.held.insert(name, request);
        node.leases.granted(now, request, fencing_token);
        self.fencing_token = fencing_token;
        self.settle();
    }

    pub(super) fn node_receives(&mut self, stream: usize, request: Option<Request>) {
        let now = self.now;
        let incarnation = self.streams[stream].incarnation;
        let cut = self.streams[stream].cut[0];
        let Some(node) = self.node_of(incarnation) else { return };
        let session = node.sessions.get(&stream).copied();
        match (request, session) {
            (None, Some(session)) => {
                node.sessions.remove(&stream);
                let streams = node.clients.get_mut(&session);
                let last = streams.is_some_and(|streams| {
                    streams.retain(|other| *other != stream);
                    streams.is_empty()
                });
                if last {
                    node.clients.remove(&session);
                    node.leases.detach(now, session);
                }
            }
            (Some(_), _) if cut => {}
            (Some(Request::Open(open)), None) => return self.node_opens(stream, open),
            (Some(Request::Acquire(v1::Acquire { id, name, wait_ms, .. })), Some(session)) => {
                let limit = WaitLimit::from_millis(now, wait_ms);
                let wait = node.leases.acquire(now, session, &name, limit);
                node.waiters.insert(wait, (id, session));
            }
            (Some(Request::Renew(v1::Renew { number })), Some(session)) => {
                let ttl_ms = millis(node.leases.renew(now, session).unwrap_or_default());
                let renewed = Reply::Renewed(v1::Renewed { number, ttl_ms });
                self.send(session, renewed);
            }
            (Some(Request::Close(_)), Some(session)) => drop(node.leases.close(now, session)),
            (other, _) => drop(other),
        }
        self.settle();
    }

    fn node_opens(&mut self, stream: usize, open: v1::Open) {
        let now = self.now;
        let node = self.node.as_mut().expect("it receives");
        let opening = Opening {
            ttl: Duration::from_millis(open.ttl_ms),
            supervised: open.supervised,
            ..Opening::default()
        };
        let attached = node.leases.attach(now, SessionId(open.session), opening);
        let (session, ttl) = attached.expect("a lease in the limits");
        let reclaims = open.reclaims.len() as u64;
        let (reclaimed, mut refused): (Vec<_>, Vec<_>) =
            open.reclaims.into_iter().partition(|v1::Reclaim { name, fencing_token, .. }| {
                node.leases.reclaim(now, session, name, *fencing_token)
            });
        self.settle();
        let node = self.node.as_mut().expect("it receives");
        let is_lost = |lock: &v1::Reclaim| !node.leases.verify(now, &lock.name, lock.fencing_token);
        refused.extend(reclaimed.into_iter().filter(is_lost));
        let (session_number, ttl_ms) = (session.0, millis(ttl));
        let opened = v1::Opened { session: session_number, ttl_ms, refused, ..Default::default() };
        node.clients.entry(session).or_default().push(stream);
        node.sessions.insert(stream, session);
        self.counts.reclaims += reclaims;
        self.counts.refused_reclaims += opened.refused.len() as u64;
        self.send_to_client(stream, Some(Reply::Opened(opened)));
        self.settle();
    }

    pub(super) fn supervisor_closes(&mut self, session: i64) {
        let now = self.now;
        if let Some(node) = &mut self.node {
            node.leases.close(now, SessionId(session));
            self.settle();
        }
    }

    pub(super) fn break_lock(&mut self, name: &[u8]) {
        let now = self.now;
        let Some(node) = &mut self.node else { return };
        if let Some(rest) = node.leases.break_grant(now, name, None, "broken".to_owned()) {
            self.note(format!("{} is broken, others wait {rest:?}", name.escape_ascii()));
            self.counts.breaks += 1;
            self.settle();
        }
    }

    /// Sends a reply on all streams of a session.
    fn send(&mut self, session: SessionId, reply: Reply) {
        let node = self.node.as_ref().expect("it sends");
        for stream in node.clients.get(&session).cloned().unwrap_or_default() {
            if !self.streams[stream].broken {
                self.send_to_client(stream, Some(reply.clone()));
            }
        }
    }

    /// Performs the effects of the lease table.
    fn settle(&mut self) {
        while let Some(node) = &mut self.node {
            let effects = node.leases.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.perform(effect);
            }
        }
        let Some(node) = &mut self.node else { return };
        let wake = node.leases.wake_at();
        if wake < node.wake {
            node.wake = wake;
            let wait = wake.since(self.now);
            self.after(wait, Event::NodeWakes { incarnation: self.incarnation });
        }
    }

    fn perform(&mut self, effect: Effect) {
        let incarnation = self.incarnation;
        if !matches!(effect, Effect::Changed { .. } | Effect::Renewed { .. }) {
            self.note(format!("  effect {effect:?}"));
        }
        let node = self.node.as_mut().expect("its effect");
        match effect {
            Effect::Keep { .. } | Effect::Moved { .. } => panic!("a lone node records nothing"),
            Effect::Prolong { .. } | Effect::Promised { .. } => {
                panic!("a lone node promises nothing")
            }
            Effect::Request { request, name, mode } => self.node_is_requested(request, name, mode),
            Effect::Drop { request } => {
                node.held.retain(|_, held| *held != request);
                node.pending.retain(|pending| pending.0 != request);
                self.later(5, Event::NodeGrants { incarnation });
            }
            Effect::Reply { wait, outcome } => self.node_replies(wait, outcome),
            Effect::Lost { session, name, fencing_token, reason } => {
                let lost = v1::Lost { name: name.to_vec(), fencing_token, reason };
                self.send(session, Reply::Lost(lost));
            }
            Effect::Ended { session } => {
                self.send(session, Reply::Closed(v1::Closed {}));
                self.node.as_mut().expect("its effect").clients.remove(&session);
            }
            Effect::Record { longest } => self.disk = Record { longest, until: Moment::ZERO },
            Effect::RecordHold { name, hold } => self.node_records(name, hold),
            Effect::Join | Effect::Changed { .. } | Effect::Renewed { .. } => {}
        }
    }

    /// A hold is recorded, unless the disk is full: then none counts.
    fn node_records(&mut self, name: Name, hold: Option<Box<Held>>) {
        if self.dice.one_in(500) {
            self.holds = None;
        }
        let Some(holds) = &mut self.holds else { return };
        match hold {
            Some(held) => drop(holds.insert(name, *held)),
            None => drop(holds.remove(&name)),
        }
    }

    fn node_is_requested(&mut self, request: RequestId, name: Name, mode: Mode) {
        let (now, incarnation, next) = (self.now, self.incarnation, self.fencing_token + 1);
        let node = self.node.as_mut().expect("its effect");
        let free = !node.held.contains_key(&name) && !node.pending.iter().any(|one| one.1 == name);
        match mode {
            Mode::Try if !free => node.leases.refused(now, request, None),
            Mode::Try | Mode::Reclaim(_) if free => {
                node.held.insert(name, request);
                node.leases.granted(now, request, next);
                self.fencing_token = next;
            }
            Mode::Try | Mode::Wait | Mode::Reclaim(_) => {
                node.pending.push_back((request, name));
                self.later(5, Event::NodeGrants { incarnation });
            }
        }
    }

    fn node_replies(&mut self, wait: WaitId, outcome: Outcome) {
        let node = self.node.as_mut().expect("its effect");
        let Some((id, session)) = node.waiters.remove(&wait) else { return };
        let reply = match outcome {
            Outcome::Granted { fencing_token, .. } | Outcome::Already { fencing_token } => {
                Reply::Granted(v1::Granted { id, fencing_token, ..Default::default() })
            }
            Outcome::NoSession => return,
            _ => Reply::Refused(v1::Refused { id, ..Default::default() }),
        };
        self.send(session, reply);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("short")
}
