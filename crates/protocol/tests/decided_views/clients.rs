//! Clients in the nodes' processes, and what must hold when they are granted a lock.

use std::time::Duration;

use mutua_protocol::{Answer, Moment, Refusal, Ticket};

use super::{
    external::External,
    world::{Event, NAMES, World},
};

/// One client: it requests one lock after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Counts its steps, so that a timer of an earlier step is ignored.
    step: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Thinking,
    Waiting {
        name: usize,
        ticket: Ticket,
        trying: bool,
    },
    Holding {
        name: usize,
        ticket: Ticket,
        /// Set when it was notified that it loses the lock: it stops by then.
        until: Option<Moment>,
    },
}

impl Client {
    pub(crate) fn holds(&self) -> bool {
        matches!(self.state, State::Holding { .. })
    }
}

impl World {
    pub(crate) fn start_clients(&mut self, slot: usize) {
        let clients = if self.holds_locks(slot) { self.clients } else { 0 };
        self.nodes[slot].clients = vec![Client::default(); clients];
        for client in 0..clients {
            self.think(slot, client);
        }
    }

    fn think(&mut self, slot: usize, client: usize) {
        self.nodes[slot].clients[client].state = State::Thinking;
        let most = if self.dice.one_in(4) { 900_000 } else { 150_000 };
        let wait = self.dice.micros(10, most);
        self.next_step(slot, client, wait);
    }

    fn next_step(&mut self, slot: usize, client: usize, wait: Duration) {
        let incarnation = self.nodes[slot].incarnation;
        self.nodes[slot].clients[client].step += 1;
        let step = self.nodes[slot].clients[client].step;
        self.after(wait, Event::Client { slot, incarnation, client, step });
    }

    pub(crate) fn on_client(&mut self, slot: usize, client: usize, step: u64) {
        if self.nodes[slot].clients[client].step != step {
            return;
        }
        match self.nodes[slot].clients[client].state {
            State::Thinking => self.request(slot, client),
            State::Waiting { name, ticket, .. } => {
                let lock = self.nodes[slot].locks[name];
                self.nodes[slot].tickets.remove(&ticket);
                self.call(slot, |protocol, now| protocol.cancel(now, lock, ticket));
                self.think(slot, client);
            }
            State::Holding { name, ticket, until } => {
                let lock = self.nodes[slot].locks[name];
                let ends = until.unwrap_or(Moment::NEVER);
                self.nodes[slot].tickets.remove(&ticket);
                // Before the call, which may grant the lock to the next waiter.
                self.think(slot, client);
                let early = self.local(slot) < ends;
                let released = self.call(slot, |protocol, now| protocol.release(now, lock, ticket));
                if early && released == Some(false) {
                    self.fails(format!(
                        "{slot}: client {client} held {name} and lost it unnoticed"
                    ));
                }
            }
        }
    }

    fn request(&mut self, slot: usize, client: usize) {
        let name = self.dice.below(NAMES as u64) as usize;
        let (now, lock) = (self.local(slot), self.nodes[slot].locks[name]);
        let trying = self.dice.one_in(6);
        // Called before its effects are carried out, so that they find the ticket.
        let protocol = self.nodes[slot].layer.as_mut().expect("up");
        let answer = match trying {
            true => protocol.try_acquire(now, lock, None),
            false => protocol.acquire(now, lock, None),
        };
        match answer {
            Answer::Granted { ticket, fence } => {
                self.nodes[slot].tickets.insert(ticket, client);
                self.nodes[slot].clients[client].state = State::Waiting { name, ticket, trying };
                self.on_granted(slot, ticket, fence.number());
            }
            Answer::Waiting { ticket } => {
                self.nodes[slot].tickets.insert(ticket, client);
                self.nodes[slot].clients[client].state = State::Waiting { name, ticket, trying };
                self.nodes[slot].clients[client].step += 1;
                if !self.is_calm() && self.dice.one_in(6) {
                    let patience = self.dice.micros(1, 400_000);
                    self.next_step(slot, client, patience);
                }
            }
            Answer::Refused(why) => {
                if !trying {
                    self.fails(format!("{slot}: refused: {why}"));
                }
                self.think(slot, client);
            }
        }
        self.pump(slot);
    }

    /// The clients that hold this lock as far as they can know.
    fn believers(&self, name: usize) -> Vec<(usize, usize)> {
        let mut believers = Vec::new();
        for (slot, node) in self.nodes.iter().enumerate() {
            let Some(protocol) = &node.layer else { continue };
            for (client, one) in node.clients.iter().enumerate() {
                let State::Holding { name: held, ticket, until } = one.state else { continue };
                let lease = || protocol.holds_until(node.locks[name], ticket);
                if held == name
                    && until.or_else(lease).is_some_and(|until| self.local(slot) < until)
                {
                    believers.push((slot, client));
                }
            }
        }
        believers
    }

    /// A client holds a lock from now on: no other does, and its fencing token is the greatest.
    pub(crate) fn check_entry(&mut self, name: usize, fence: u64, client: &str) {
        if let Some((other, one)) = self.believers(name).first() {
            return self.fails(format!("{other}: {one} and {client} both hold lock {name}"));
        }
        let outside = |one: &&External| one.believes(self.now, name).is_some();
        if let Some(other) = self.externals.iter().find(outside) {
            return self.fails(format!("{other:?} and {client} both hold lock {name}"));
        }
        let last = std::mem::replace(&mut self.fences[name], fence);
        if last >= fence {
            self.fails(format!("{client}: fencing token {fence} after {last}"));
        }
    }

    pub(crate) fn on_granted(&mut self, slot: usize, ticket: Ticket, fence: u64) {
        let now = self.local(slot);
        let good_until = self.nodes[slot].layer.as_ref().expect("up").good_until();
        if now >= good_until {
            return self.fails(format!("{slot} grants after its lease has lapsed"));
        }
        if self.nodes[slot].served.contains_key(&ticket) {
            return self.inform(slot, ticket);
        }
        let Some(&client) = self.nodes[slot].tickets.get(&ticket) else {
            if self.clients > 0 {
                return self.fails(format!("{slot} grants to a client that has gone: {ticket:?}"));
            }
            return self.granted.push((slot, ticket));
        };
        let State::Waiting { name, .. } = self.nodes[slot].clients[client].state else {
            return self.fails(format!("{slot}: client {client} did not wait"));
        };
        self.note(|| format!("{slot}: {client} holds {name} with fencing token {fence}"));
        self.counts.grants += 1;
        self.check_entry(name, fence, &format!("{slot}: {client}"));
        if self.is_calm() {
            self.served.insert((slot, client));
        }
        self.nodes[slot].clients[client].state = State::Holding { name, ticket, until: None };
        let most = if self.dice.one_in(10) { 3_000_000 } else { 40_000 };
        let wait = self.dice.micros(1, most);
        self.next_step(slot, client, wait);
    }

    pub(crate) fn on_refused(&mut self, slot: usize, ticket: Ticket, why: &Refusal) {
        let Some(client) = self.nodes[slot].tickets.remove(&ticket) else { return };
        let state = self.nodes[slot].clients[client].state;
        if !matches!(state, State::Waiting { trying: true, .. }) {
            self.fails(format!("{slot}: {state:?}: {why}"));
        }
        self.think(slot, client);
    }

    /// A holder is notified that it loses its lock. Some stop at once, some at the last moment, and
    /// some never release.
    pub(crate) fn on_lost(&mut self, slot: usize, ticket: Ticket) {
        self.counts.lost += 1;
        if self.nodes[slot].served.contains_key(&ticket) {
            return self.on_lost_for(slot, ticket);
        }
        let Some(&client) = self.nodes[slot].tickets.get(&ticket) else { return };
        let State::Holding { name, .. } = self.nodes[slot].clients[client].state else { return };
        let protocol = self.nodes[slot].layer.as_ref().expect("up");
        let now = self.local(slot);
        let until = protocol.holds_until(self.nodes[slot].locks[name], ticket).unwrap_or(now);
        self.note(|| format!("{slot}: {client} loses {name}"));
        self.nodes[slot].clients[client].state =
            State::Holding { name, ticket, until: Some(until) };
        let left = until.since(now).as_micros() as u64;
        let wait = match self.dice.below(3) {
            0 => self.dice.micros(1, left.max(2)),
            1 => Duration::from_micros(left * 105 / 100 + 10),
            _ => Duration::from_secs(4),
        };
        self.next_step(slot, client, wait);
    }
}
