//! Clients that outlive their node: processes of their own, which hold a lock with a lease. They
//! reclaim it when the node has restarted, or stop when their lease expires.

use std::time::Duration;

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::Ticket;

use super::{Event, World};

/// How long a lease lasts after the crash of its node.
const LEASE: Duration = Duration::from_millis(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    fence: u64,
    /// Set once it has reclaimed.
    ticket: Option<Ticket>,
}

impl World {
    /// A node crashes, and the clients that hold its locks do not.
    pub(super) fn outlive(&mut self, node: usize) {
        let held = self.held.iter().filter(|(_, (holder, ..))| *holder == node);
        let fence = |&name: &usize| Survivor { fence: self.fences[&name], ticket: None };
        let survivors = held.map(|(name, _)| (*name, fence(name))).collect();
        self.nodes[node].survivors = survivors;
        self.note(format!("{node}: {} clients live on", self.nodes[node].survivors.len()));
    }

    /// The node has restarted: they reclaim in time, or too late.
    pub(super) fn start_survivors(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation;
        if self.nodes[node].survivors.is_empty() {
            return;
        }
        for name in self.nodes[node].survivors.keys().copied().collect::<Vec<_>>() {
            let wait = self.dice.micros(0, 80_000);
            self.after(wait, Event::Survivor { node, incarnation, name });
        }
        self.after(LEASE, Event::EndReclaims { node, incarnation });
    }

    pub(super) fn on_survivor(&mut self, node: usize, name: usize) {
        let Some(survivor) = self.nodes[node].survivors.get(&name).copied() else { return };
        let (now, lock, incarnation) =
            (self.now, self.nodes[node].locks[name], self.nodes[node].incarnation);
        if let Some(ticket) = survivor.ticket {
            self.nodes[node].survivors.remove(&name);
            assert_eq!(self.held.remove(&name), Some((node, incarnation, ticket)));
            assert!(self.call(node, |protocol| protocol.release(now, lock, ticket)));
            return;
        }
        let fence = FencingToken(Time::from_number(survivor.fence));
        let ticket = self.call(node, |protocol| protocol.reclaim(now, lock, fence, None));
        let ticket = ticket.expect("in time");
        self.note(format!("{node}: {name} is reclaimed with fencing token {fence}"));
        self.nodes[node].survivors.insert(name, Survivor { ticket: Some(ticket), ..survivor });
        self.held.insert(name, (node, incarnation, ticket));
        let wait = self.dice.micros(0, 200_000);
        self.after(wait, Event::Survivor { node, incarnation, name });
    }

    /// A client that has not reclaimed by now has stopped: its lease has expired.
    pub(super) fn end_reclaims(&mut self, node: usize) {
        let late = |(name, one): (&usize, &Survivor)| one.ticket.is_none().then_some(*name);
        let late: Vec<_> = self.nodes[node].survivors.iter().filter_map(late).collect();
        for name in late {
            self.nodes[node].survivors.remove(&name);
            self.held.remove(&name);
        }
        self.call(node, |protocol| protocol.join());
    }
}
