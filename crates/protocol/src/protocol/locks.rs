//! The processes of the locks' algorithms: made, called, their messages sent, lazy ones paced.
//!
//! A lazy message waits a little, so that a token that no client wants costs next to nothing:
//! longer and longer while nothing else happens to its lock, and hardly at all while a client wants
//! it. On such a lock no process sends a request, so a node whose client begins to wait nudges the
//! others.

use std::time::Duration;

use mutua_algorithms::{Links, Phase, Time};
use mutua_trace::What;

use super::{Protocol, Timer, ViewState};
use crate::{
    Level, LockId, Moment,
    machine::{Malformed, Post},
    view::View,
    wire::Message,
};

/// How long a nudge is in force.
const WANTED: Duration = Duration::from_secs(1);

/// With a clock this far into its epoch the node leaves the view, for the next epoch.
const CLOCK_FULL: u64 = Time::COUNTS / 2;

/// No clock reaches this before the next epoch begins.
pub(crate) const CLOCK_BROKEN: u64 = Time::COUNTS - (1 << 30);

impl Protocol {
    /// Brings a lock forward as far as possible without a message: the process requests if a client
    /// waits; a process in the critical section grants the lock to the next waiter, or exits if
    /// none waits.
    pub(super) fn settle(&mut self, now: Moment, lock: LockId) {
        while self.may_grant(now) {
            let entry = self.table.entry(lock);
            if entry.holder.is_some() || entry.frozen.is_some() {
                return;
            }
            let has_waiters = !entry.waiting.is_empty();
            let Some(machine) = &mut entry.machine else {
                if !has_waiters {
                    return;
                }
                self.ensure_machine(now, lock);
                continue;
            };
            match (machine.phase(), has_waiters) {
                (Phase::InCs, true) => return self.grant_next(now, lock),
                (Phase::InCs, false) => {
                    entry.run = 0;
                    entry.fence = None;
                    machine.release(&mut self.posts);
                    self.trace_input(now, lock, What::Exit);
                    return self.dispatch(now, lock);
                }
                (Phase::Idle, true) => {
                    entry.fence = machine.request(&mut self.posts);
                    let fence = entry.fence;
                    let entered = fence.is_some();
                    self.trace_request(now, lock, fence);
                    self.dispatch(now, lock);
                    if !entered {
                        return self.nudge_if_slow(now, lock);
                    }
                }
                (Phase::Requesting, _) | (Phase::Idle, false) => return,
            }
        }
    }

    /// Makes this node's process of the lock, unless it exists.
    pub(super) fn ensure_machine(&mut self, now: Moment, lock: LockId) {
        let ViewState::In(view) = &mut self.view_state else {
            unreachable!("a process is made in a view");
        };
        let entry = self.table.entry(lock);
        if entry.machine.is_some() {
            return;
        }
        let rule = self.config.plan.rule(entry.rule);
        let start = view.start(entry.rule, rule, &entry.name);
        let me = view.node(self.config.me).expect("a node is a member of the view it is in");
        let mut machine = rule.make(me, &start);
        machine.raise_time(view.first_time(&entry.name, self.floor));
        machine.begin(&mut self.posts);
        entry.machine = Some(machine);
        entry.used = now;
        entry.slowness = 0;
        let in_cs = entry.phase() == Phase::InCs;
        self.trace_start(now, lock, in_cs);
        self.dispatch(now, lock);
    }

    /// Handles a message of the lock's algorithm.
    pub(super) fn on_lock_message(
        &mut self,
        now: Moment,
        from: crate::Member,
        lock: LockId,
        sent: Time,
        body: &[u8],
    ) {
        self.ensure_machine(now, lock);
        let ViewState::In(view) = &self.view_state else { unreachable!("a message of this view") };
        if sent.epoch() != view.epoch || sent.count() > CLOCK_BROKEN {
            let text = format!("{} sent a clock of {}; ignored", self.name(from), sent.number());
            return self.log(Level::Warning, text);
        }
        let Some(node) = view.node(from) else { return };
        let entry = self.table.entry(lock);
        entry.used = now;
        let machine = entry.machine.as_mut().expect("just made");
        match machine.receive(node, sent, body, &mut self.posts) {
            Ok(fence) => {
                entry.fence = fence.or(entry.fence);
                self.trace_receive(now, lock, from, (sent, body), fence);
            }
            Err(Malformed) => {
                let from = self.name(from);
                let text = format!("{from} sent a message that the lock's algorithm cannot read");
                self.log(Level::Warning, text);
            }
        }
        for (node, why) in std::mem::take(&mut self.posts.nonsense) {
            self.log(Level::Warning, format!("process {node} sent {why}; nothing was changed"));
        }
        let full = self.table.entry(lock).machine.as_ref().expect("made").time().count();
        self.dispatch(now, lock);
        self.settle(now, lock);
        if full > CLOCK_FULL {
            self.end_view("a clock is nearly full, the next epoch is due");
        }
    }

    /// Sends the messages of the lock's process, or keeps lazy ones for later.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Moment, lock: LockId) {
        // Entering again where the token is sends nothing.
        if !self.posts.list.is_empty() {
            self.dispatch_some(now, lock);
        }
    }

    fn dispatch_some(&mut self, now: Moment, lock: LockId) {
        let mut posts = std::mem::take(&mut self.posts.list);
        for post in posts.drain(..) {
            if post.lazy {
                self.send_later(now, lock, post);
            } else {
                self.table.entry(lock).slowness = 0;
                self.send_lazies_before(now, lock, &post);
                self.send_post(now, lock, &post);
            }
        }
        // Its memory is used again.
        self.posts.list = posts;
    }

    fn send_later(&mut self, now: Moment, lock: LockId, post: Post) {
        let limits = &self.config.limits;
        let entry = self.table.entry(lock);
        let wanted = entry.is_wanted() || now < entry.wanted_until;
        let wait = if wanted {
            limits.pace_wanted
        } else {
            let slowed = limits.pace_idle.saturating_mul(1 << entry.slowness.min(10));
            entry.slowness += 1;
            slowed.min(limits.pace_rest)
        };
        entry.lazies.push(post);
        self.set_timer(now.after(wait), Timer::Lazy(lock));
    }

    /// Where order matters, lazy messages to a receiver go before this one. Elsewhere they keep
    /// their pace: polling faster gains nothing.
    fn send_lazies_before(&mut self, now: Moment, lock: LockId, post: &Post) {
        let to = post.to.as_slice();
        let entry = self.table.entry(lock);
        if self.config.plan.rule(entry.rule).about.links == Links::Any {
            return;
        }
        let due = |lazy: &mut Post| lazy.to.as_slice().iter().any(|node| to.contains(node));
        let due: Vec<_> = entry.lazies.extract_if(.., due).collect();
        for lazy in due {
            self.send_post(now, lock, &lazy);
        }
    }

    /// Sends the lock's lazy messages, which are due.
    pub(super) fn send_lazies(&mut self, now: Moment, lock: LockId) {
        // Also while the view lease has lapsed: what moves by itself goes on to the others.
        if !self.is_in_view() || self.table.get(lock).is_none() {
            return;
        }
        let entry = self.table.entry(lock);
        if entry.frozen.is_none() {
            for lazy in std::mem::take(&mut entry.lazies) {
                self.send_post(now, lock, &lazy);
            }
        }
    }

    fn send_post(&mut self, now: Moment, lock: LockId, post: &Post) {
        let ViewState::In(View { epoch, members, .. }) = &self.view_state else {
            unreachable!("a process sends in a view only");
        };
        let entry = self.table.entry(lock);
        let sent = entry.machine.as_ref().expect("a process that sends").time();
        let to = post.to.as_slice();
        let count = if post.lazy { &mut entry.counts.lazy } else { &mut entry.counts.messages };
        *count += to.len() as u64;
        let algorithm = self.config.plan.rule(entry.rule).about.name;
        self.counted.sent(algorithm, post.kind, to.len());
        for node in to {
            let peer = members[node.index()];
            let (name, body) = (&*entry.name, &*post.message);
            let link = self.links[peer.index()].as_mut().expect("no process sends to itself");
            link.send(Message::Lock { epoch: *epoch, name, sent, body });
            self.ready.insert(peer);
        }
        for &node in to {
            self.trace_send(now, lock, node, &post.message, post.lazy);
        }
    }

    /// Nudges the other members if a client here waits for a lock that moves by itself, unless it
    /// moves fast already.
    pub(super) fn nudge_if_slow(&mut self, now: Moment, lock: LockId) {
        let entry = self.table.entry(lock);
        if !self.config.plan.rule(entry.rule).moves_by_itself || now < entry.wanted_until {
            return;
        }
        entry.wanted_until = now.after(WANTED);
        let name = std::sync::Arc::clone(&entry.name);
        let ViewState::In(view) = &self.view_state else { return };
        let epoch = view.epoch;
        for peer in self.others() {
            self.link(peer).send(Message::Nudge { epoch, name: &name });
            self.ready.insert(peer);
        }
        self.send_lazies(now, lock);
        self.set_timer(now.after(WANTED), Timer::Nudge(lock));
    }

    pub(super) fn nudge_again(&mut self, now: Moment, lock: LockId) {
        let waits = |entry: &crate::table::Entry| !entry.waiting.is_empty();
        if self.is_in_view() && self.table.get(lock).is_some_and(waits) {
            self.nudge_if_slow(now, lock);
        }
    }

    pub(super) fn on_nudge(&mut self, now: Moment, lock: LockId) {
        self.ensure_machine(now, lock);
        let entry = self.table.entry(lock);
        entry.wanted_until = now.after(WANTED);
        entry.slowness = 0;
        self.send_lazies(now, lock);
    }
}
