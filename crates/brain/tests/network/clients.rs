//! Clients that come, wait, give up, are inside and leave; and what must hold when they do.

use mutua_brain::{Answer, Refusal, Ticket};

use super::{Event, World};

/// One client: it wants one lock after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Counts its steps, so that a timer of an earlier one is recognised.
    step: u64,
    pub(crate) state: State,
    /// How often it got in since the faults stopped.
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
    Inside {
        name: usize,
        ticket: Ticket,
    },
}

impl World {
    pub(super) fn start_clients(&mut self, node: usize) {
        let clients = self.scene.clients;
        self.places[node].clients = vec![Client::default(); clients];
        for client in 0..clients {
            self.think(node, client);
        }
    }

    fn calm(&self) -> bool {
        self.now > self.scene.faults_until
    }

    fn think(&mut self, node: usize, client: usize) {
        self.places[node].clients[client].state = State::Thinking;
        let wait = if self.dice.one_in(8) {
            self.dice.micros(300_000, 1_500_000)
        } else {
            self.dice.micros(10, 30_000)
        };
        self.next_step(node, client, wait);
    }

    fn next_step(&mut self, node: usize, client: usize, wait: std::time::Duration) {
        let life = self.places[node].life;
        self.places[node].clients[client].step += 1;
        let step = self.places[node].clients[client].step;
        self.after(wait, Event::Client { node, life, client, step });
    }

    pub(super) fn on_client(&mut self, node: usize, client: usize, step: u64) {
        if self.places[node].clients[client].step != step {
            return;
        }
        match self.places[node].clients[client].state {
            State::Thinking if self.resting => self.think(node, client),
            State::Thinking => self.want(node, client),
            State::Waiting { name, ticket, .. } => {
                let (now, lock) = (self.now, self.places[node].locks[name]);
                self.places[node].tickets.remove(&ticket);
                assert!(self.call(node, |brain| brain.cancel(now, lock, ticket)));
                self.note(format!("{node}: {client} gives up {name}"));
                self.think(node, client);
            }
            State::Inside { name, ticket } => {
                let (now, lock) = (self.now, self.places[node].locks[name]);
                // Before the call, which may let the next one in.
                assert_eq!(self.inside.remove(&name).map(|(at, ..)| at), Some(node));
                self.places[node].tickets.remove(&ticket);
                assert!(self.call(node, |brain| brain.release(now, lock, ticket)));
                self.think(node, client);
            }
        }
    }

    fn want(&mut self, node: usize, client: usize) {
        let name = self.dice.below(self.scene.names as u64) as usize;
        let (now, lock) = (self.now, self.places[node].locks[name]);
        let trying = self.dice.one_in(6);
        // Taken before its effects are done, so that they find the ticket.
        let brain = self.places[node].brain.as_mut().expect("up");
        let answer = match trying {
            true => brain.try_acquire(now, lock, None),
            false => brain.acquire(now, lock, None),
        };
        match answer {
            Answer::Granted { ticket, fence } => {
                self.places[node].tickets.insert(ticket, client);
                self.places[node].clients[client].state = State::Waiting { name, ticket, trying };
                self.on_granted(node, ticket, fence.number());
            }
            Answer::Waiting { ticket } => {
                self.places[node].tickets.insert(ticket, client);
                self.places[node].clients[client].state = State::Waiting { name, ticket, trying };
                self.places[node].clients[client].step += 1;
                // While faults happen some lose their patience.
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
        let Some(&client) = self.places[node].tickets.get(&ticket) else {
            return self.granted.push((node, ticket));
        };
        let State::Waiting { name, ticket: waiting, .. } = self.places[node].clients[client].state
        else {
            panic!("node {node} let client {client} in, who did not wait");
        };
        assert_eq!(waiting, ticket);
        let life = self.places[node].life;
        if let Some((other, ..)) = self.inside.insert(name, (node, life, ticket)) {
            panic!("nodes {other} and {node} are both inside lock {name}");
        }
        let last = self.fences.insert(name, fence);
        assert!(last.is_none_or(|last| last < fence), "fence {fence} after {last:?}");
        self.entries += 1;
        self.note(format!("{node}: {client} is inside {name} with fence {fence}"));
        let calm = self.calm();
        let one = &mut self.places[node].clients[client];
        one.state = State::Inside { name, ticket };
        one.entries += u64::from(calm);
        let wait = if self.dice.one_in(10) {
            self.dice.micros(100, 200_000)
        } else {
            self.dice.micros(1, 4000)
        };
        self.next_step(node, client, wait);
    }

    pub(super) fn on_refused(&mut self, node: usize, ticket: Ticket, why: &Refusal) {
        let Some(client) = self.places[node].tickets.remove(&ticket) else {
            return self.refused.push((node, ticket, why.clone()));
        };
        let state = self.places[node].clients[client].state;
        assert!(matches!(state, State::Waiting { trying: true, .. }), "{state:?}: {why}");
        self.think(node, client);
    }

    /// Whether every client has got in since the faults stopped.
    pub(crate) fn everybody_got_in(&self) -> bool {
        let all_up = self.places.iter().all(|place| place.brain.is_some());
        let got_in = |place: &super::Place| place.clients.iter().all(|client| client.entries > 1);
        all_up && self.places.iter().all(got_in)
    }
}
