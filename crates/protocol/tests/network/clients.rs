//! Clients that request, wait, cancel, hold and release; and what must hold when they do.

use mutua_protocol::{Answer, Refusal, Ticket};

use super::{Event, World};

/// One client: it requests one lock after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Counts its steps, so that a timer of an earlier step is ignored.
    step: u64,
    pub(crate) state: State,
    /// The number of grants since the faults stopped.
    pub(crate) entries: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum State {
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
    },
}

impl World {
    pub(super) fn start_clients(&mut self, node: usize) {
        let clients = self.scene.clients;
        self.nodes[node].clients = vec![Client::default(); clients];
        for client in 0..clients {
            self.think(node, client);
        }
    }

    fn calm(&self) -> bool {
        self.now > self.scene.faults_until
    }

    fn think(&mut self, node: usize, client: usize) {
        self.nodes[node].clients[client].state = State::Thinking;
        let wait = if self.dice.one_in(8) {
            self.dice.micros(300_000, 1_500_000)
        } else {
            self.dice.micros(10, 30_000)
        };
        self.next_step(node, client, wait);
    }

    fn next_step(&mut self, node: usize, client: usize, wait: std::time::Duration) {
        let incarnation = self.nodes[node].incarnation;
        self.nodes[node].clients[client].step += 1;
        let step = self.nodes[node].clients[client].step;
        self.after(wait, Event::Client { node, incarnation, client, step });
    }

    pub(super) fn on_client(&mut self, node: usize, client: usize, step: u64) {
        if self.nodes[node].clients[client].step != step {
            return;
        }
        match self.nodes[node].clients[client].state {
            State::Thinking if self.resting => self.think(node, client),
            State::Thinking => self.request(node, client),
            State::Waiting { name, ticket, .. } => {
                let (now, lock) = (self.now, self.nodes[node].locks[name]);
                self.nodes[node].tickets.remove(&ticket);
                assert!(self.call(node, |protocol| protocol.cancel(now, lock, ticket)));
                self.note(format!("{node}: {client} cancels {name}"));
                self.think(node, client);
            }
            State::Holding { name, ticket } => {
                let (now, lock) = (self.now, self.nodes[node].locks[name]);
                // Before the call, which may grant the lock to the next waiter.
                assert_eq!(self.held.remove(&name).map(|(at, ..)| at), Some(node));
                self.nodes[node].tickets.remove(&ticket);
                assert!(self.call(node, |protocol| protocol.release(now, lock, ticket)));
                self.think(node, client);
            }
        }
    }

    fn request(&mut self, node: usize, client: usize) {
        let name = self.dice.below(self.scene.names as u64) as usize;
        let (now, lock) = (self.now, self.nodes[node].locks[name]);
        let trying = self.dice.one_in(6);
        // Called before its effects are carried out, so that they find the ticket.
        let protocol = self.nodes[node].protocol.as_mut().expect("up");
        let answer = match trying {
            true => protocol.try_acquire(now, lock, None),
            false => protocol.acquire(now, lock, None),
        };
        match answer {
            Answer::Granted { ticket, fence } => {
                self.nodes[node].tickets.insert(ticket, client);
                self.nodes[node].clients[client].state = State::Waiting { name, ticket, trying };
                self.on_granted(node, ticket, fence.number());
            }
            Answer::Waiting { ticket } => {
                self.nodes[node].tickets.insert(ticket, client);
                self.nodes[node].clients[client].state = State::Waiting { name, ticket, trying };
                self.nodes[node].clients[client].step += 1;
                // While faults happen some clients cancel.
                if !self.calm() && self.dice.one_in(4) {
                    let patience = self.dice.micros(1, 40_000);
                    self.next_step(node, client, patience);
                }
            }
            Answer::Refused(why) => {
                assert!(trying, "{node}: {why}");
                self.think(node, client);
            }
        }
        self.call(node, |_| ());
    }

    pub(super) fn on_granted(&mut self, node: usize, ticket: Ticket, fence: u64) {
        let Some(&client) = self.nodes[node].tickets.get(&ticket) else {
            return self.granted.push((node, ticket));
        };
        let State::Waiting { name, ticket: waiting, .. } = self.nodes[node].clients[client].state
        else {
            panic!("node {node} granted a lock to client {client}, which did not wait");
        };
        assert_eq!(waiting, ticket);
        let incarnation = self.nodes[node].incarnation;
        if let Some((other, ..)) = self.held.insert(name, (node, incarnation, ticket)) {
            panic!("nodes {other} and {node} both hold lock {name}");
        }
        let last = self.fences.insert(name, fence);
        assert!(last.is_none_or(|last| last < fence), "fencing token {fence} after {last:?}");
        self.entries += 1;
        self.note(format!("{node}: {client} holds {name} with fencing token {fence}"));
        let calm = self.calm();
        let one = &mut self.nodes[node].clients[client];
        one.state = State::Holding { name, ticket };
        one.entries += u64::from(calm);
        let wait = if self.dice.one_in(10) {
            self.dice.micros(100, 200_000)
        } else {
            self.dice.micros(1, 4000)
        };
        self.next_step(node, client, wait);
    }

    pub(super) fn on_refused(&mut self, node: usize, ticket: Ticket, why: &Refusal) {
        let Some(client) = self.nodes[node].tickets.remove(&ticket) else {
            return self.refused.push((node, ticket, why.clone()));
        };
        let state = self.nodes[node].clients[client].state;
        assert!(matches!(state, State::Waiting { trying: true, .. }), "{state:?}: {why}");
        self.think(node, client);
    }

    /// Whether every client was granted a lock since the faults stopped.
    pub(crate) fn all_were_served(&self) -> bool {
        let all_up = self.nodes.iter().all(|slot| slot.protocol.is_some());
        let served = |slot: &super::NodeSlot| slot.clients.iter().all(|client| client.entries > 1);
        all_up && self.nodes.iter().all(served)
    }
}
