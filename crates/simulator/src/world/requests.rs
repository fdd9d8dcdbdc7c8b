//! When clients request.

use std::collections::VecDeque;

use mutua_algorithms::{Message, NodeId, Phase};

use super::{Client, Stage, World};
use crate::{Distribution, Load, event::Event};

/// A run ends when so many requests wait for the exits of their own clients: many more come than
/// are granted, and each takes memory.
pub(super) const MOST_PUT_OFF: u64 = 4_000_000;

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
        if incarnation == u32::MAX {
            self.arrival_is_no_progress();
        }
        // A request drawn for a process or written in a script is made in any incarnation, one that
        // its client planned only in the incarnation that planned it.
        let planned = incarnation == u32::MAX || incarnation == client.incarnation;
        if self.stage == Stage::Draining || client.down || !planned {
            return Due::Void;
        }
        if client.phase != Phase::Idle {
            self.backlog.entry(who).or_default().push_back(self.now);
            self.put_off += 1;
            if self.put_off == MOST_PUT_OFF {
                self.close();
            }
            return Due::PutOff;
        }
        Due::Now
    }

    /// Does not count the present event, the arrival of a request, among those without progress,
    /// unless nothing but arrivals is to come: very many may come while a message is in transit.
    pub(super) fn arrival_is_no_progress(&mut self) {
        let app_events = self.app_messages.as_ref().map_or(0, |messages| messages.waiting);
        let arrivals = usize::try_from(self.planned).unwrap_or(usize::MAX);
        let bursts = usize::from(matches!(self.clients.workload.load, Load::Bursts { .. }));
        if self.wheel.len() > arrivals.saturating_add(bursts + app_events) {
            self.idle_events = self.idle_events.saturating_sub(1);
        }
    }

    /// Whether all requests come at the same times as others.
    fn comes_with_others(&self) -> bool {
        let bursts = matches!(self.clients.workload.load, Load::Bursts { .. });
        bursts && self.clients.active().len() > 1
    }

    /// How many requests there were.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether more requests wait than are kept: no run goes on after that.
    pub(crate) fn has_piled_up(&self) -> bool {
        self.put_off >= MOST_PUT_OFF
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
        self.put_off -= u64::from(due.is_some());
        client.requested_at = due.unwrap_or(self.now);
        client.entries_before = self.checks.here.entries;
        // A request that was put off had its client's earlier one before it, and one of a burst has
        // others beside it.
        let alone = due.is_none() && !self.comes_with_others();
        let here = &self.checks.here;
        client.found_free = alone && here.in_cs == 0 && here.waiting == 0;
        self.checks.requests(process);
    }
}
