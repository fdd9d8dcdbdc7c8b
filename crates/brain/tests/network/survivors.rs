//! Clients that outlive their node: processes of their own, inside with a lease. They claim what
//! they are inside when the node is back, or leave it when their lease runs out.

use std::time::Duration;

use mutua_algorithms::{Fence, Time};
use mutua_brain::Ticket;

use super::{Event, World};

/// How long a lease lasts after its node's end.
const LEASE: Duration = Duration::from_millis(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    fence: u64,
    /// Once it has claimed.
    ticket: Option<Ticket>,
}

impl World {
    /// A node dies, and those inside do not.
    pub(super) fn outlive(&mut self, node: usize) {
        let inside = self.inside.iter().filter(|(_, (holder, ..))| *holder == node);
        let fence = |&name: &usize| Survivor { fence: self.fences[&name], ticket: None };
        let survivors = inside.map(|(name, _)| (*name, fence(name))).collect();
        self.places[node].survivors = survivors;
        self.note(format!("{node}: {} live on", self.places[node].survivors.len()));
    }

    /// The node is back: they come in their time, or too late.
    pub(super) fn start_survivors(&mut self, node: usize) {
        let life = self.places[node].life;
        if self.places[node].survivors.is_empty() {
            return;
        }
        for name in self.places[node].survivors.keys().copied().collect::<Vec<_>>() {
            let wait = self.dice.micros(0, 80_000);
            self.after(wait, Event::Survivor { node, life, name });
        }
        self.after(LEASE, Event::EndClaims { node, life });
    }

    pub(super) fn on_survivor(&mut self, node: usize, name: usize) {
        let Some(survivor) = self.places[node].survivors.get(&name).copied() else { return };
        let (now, lock, life) = (self.now, self.places[node].locks[name], self.places[node].life);
        if let Some(ticket) = survivor.ticket {
            self.places[node].survivors.remove(&name);
            assert_eq!(self.inside.remove(&name), Some((node, life, ticket)));
            assert!(self.call(node, |brain| brain.release(now, lock, ticket)));
            return;
        }
        let fence = Fence(Time::from_number(survivor.fence));
        let ticket = self.call(node, |brain| brain.claim(now, lock, fence, None));
        let ticket = ticket.expect("it is in time");
        self.note(format!("{node}: {name} is claimed with fence {fence}"));
        self.places[node].survivors.insert(name, Survivor { ticket: Some(ticket), ..survivor });
        self.inside.insert(name, (node, life, ticket));
        let wait = self.dice.micros(0, 200_000);
        self.after(wait, Event::Survivor { node, life, name });
    }

    /// Whoever has not come by now does not think any more that it is inside.
    pub(super) fn end_claims(&mut self, node: usize) {
        let late = |(name, one): (&usize, &Survivor)| one.ticket.is_none().then_some(*name);
        let late: Vec<_> = self.places[node].survivors.iter().filter_map(late).collect();
        for name in late {
            self.places[node].survivors.remove(&name);
            self.inside.remove(&name);
        }
        self.call(node, |brain| brain.join());
    }
}
