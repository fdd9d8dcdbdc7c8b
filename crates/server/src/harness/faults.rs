//! Crashes, pauses, broken connections and broken locks.

use super::{CLIENTS, Event, FAULTS, Harness, NAMES};

impl Harness {
    pub(super) fn fault(&mut self) {
        if self.now > FAULTS {
            return;
        }
        // With every third seed there are more faults, most of them at the node.
        let hard = self.seed.is_multiple_of(3);
        self.later(if hard { 1500 } else { 4000 }, Event::Fault);
        let client = usize::try_from(self.dice.below(CLIENTS as u64)).expect("few");
        match self.dice.below(if hard { 5 } else { 8 }) {
            0 => self.node_crashes(),
            1 => {
                self.node_stopped = self.node_stopped.max(self.now.after(self.millis(8000)));
                self.note(format!("the node is stopped until {:?}", self.node_stopped));
            }
            2 | 3 if self.clients[client].runs() => {
                let until = self.now.after(self.millis(8000));
                self.clients[client].stopped = self.clients[client].stopped.max(until);
                self.note(format!(
                    "client {client} is stopped until {:?}",
                    self.clients[client].stopped
                ));
            }
            4 => self.client_crashes(client),
            5 => {
                let name = NAMES[usize::from(self.dice.one_in(4))];
                self.break_lock(name);
            }
            _ => {
                let of_client = |stream: &usize| self.streams[*stream].client == client;
                if let Some(stream) = (0..self.streams.len()).rev().find(of_client) {
                    self.note(format!("the connection of client {client} breaks"));
                    self.break_stream(stream);
                }
            }
        }
    }
}
