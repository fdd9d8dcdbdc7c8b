//! When clients request.

use std::collections::VecDeque;

use mutua_algorithms::{Message, NodeId, Phase};

use super::{Client, Stage, World};
use crate::{Distribution, Load, event::Event};

/// What becomes of a request at the time for which it was planned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Due {
    /// The process requests.
    Now,
    /// An earlier request of the same client is not over: this one follows it.
    PutOff,
    /// The process is down or has restarted since, or the run ends.
    Void,
}

impl<M: Message> World<M> {
    pub(super) fn plan_request(&mut self, at: u64, node: NodeId, incarnation: u32) {
        self.planned += 1;
        self.wheel.push(at, Event::Request { node, incarnation });
    }

    /// Plans the next request of an open system.
    pub(super) fn plan_arrival(&mut self) {
        let Load::Poisson { gap } = self.clients.workload.load else { return };
        let at = self.now + self.clients.gap(Distribution::Exponential { mean: gap });
        let node = self.clients.draw();
        self.plan_request(at, node, u32::MAX);
    }

    pub(super) fn is_light(&self) -> bool {
        matches!(self.clients.workload.load, Load::Light { .. })
    }

    pub(super) fn plan_next_light(&mut self, exited_at: u64) {
        let Load::Light { gap } = self.clients.workload.load else { return };
        let at = (exited_at + self.clients.gap(gap)).max(self.now);
        let node = self.clients.draw();
        self.plan_request(at, node, u32::MAX);
    }

    /// At light load one request follows another. If the process that was to make the next one is
    /// down, or crashed before its exit, another one makes it, unless all clients' processes are
    /// down.
    pub(crate) fn keep_light(&mut self, is_down: impl Fn(NodeId) -> bool) {
        let idle = !self.checks.is_waited_for() && !self.checks.is_held();
        let none_follows = self.planned == 0 && self.next_after.is_none();
        if !(self.is_light() && idle && none_follows) {
            return;
        }
        if self.clients.active().any(|who| !is_down(NodeId(who))) {
            self.next_after = Some(self.now);
        }
    }

    /// A planned request is due.
    pub(crate) fn request_is_due(&mut self, who: NodeId, incarnation: u32, client: &Client) -> Due {
        self.planned -= 1;
        if incarnation == u32::MAX && self.stage != Stage::Draining {
            self.plan_arrival();
        }
        // A request drawn for a process or written in a script is made in any incarnation, one that
        // its client planned only in the incarnation that planned it.
        let planned = incarnation == u32::MAX || incarnation == client.incarnation;
        if self.stage == Stage::Draining || client.down || !planned {
            return Due::Void;
        }
        if client.phase != Phase::Idle {
            self.backlog.entry(who).or_default().push_back(self.now);
            return Due::PutOff;
        }
        Due::Now
    }

    /// Plans the next request of a process that has restarted.
    pub(crate) fn plan_after_restart(&mut self, who: NodeId, client: &mut Client) {
        match self.is_light() {
            // It is up itself.
            true => self.keep_light(|_| false),
            false => self.plan_after_exit(who, client),
        }
    }

    // Requests, entries and exits.

    /// A process requests; `place` is its place in the critical section that it requests.
    pub(crate) fn make_request(&mut self, process: NodeId, place: NodeId, client: &mut Client) {
        self.measures.event([self.now, 1 << 32 | u64::from(place.0), 0, 0]);
        self.requests += 1;
        self.idle_events = 0;
        if self.is_light() && self.is_warm(self.requests - 1) {
            self.open();
        }
        if self.is_light() {
            self.end_of_batch();
        }
        client.phase = Phase::Requesting;
        // A request that had to be put off has waited since it came.
        let due = self.backlog.get_mut(&process).and_then(VecDeque::pop_front);
        client.requested_at = due.unwrap_or(self.now);
        client.entries_before = self.checks.here.entries;
        client.found_free = self.checks.here.in_cs == 0 && self.checks.here.waiting == 0;
        self.checks.requests(process);
    }
}
