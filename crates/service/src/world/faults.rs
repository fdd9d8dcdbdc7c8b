//! What goes wrong.

use super::{Event, FAULTS, NAMES, USERS, World};

impl World {
    pub(super) fn fault(&mut self) {
        if self.now > FAULTS {
            return;
        }
        // In some worlds there is more of it, and it is mostly the node.
        let hard = self.seed.is_multiple_of(3);
        self.later(if hard { 1500 } else { 4000 }, Event::Fault);
        let user = usize::try_from(self.dice.below(USERS as u64)).expect("few");
        match self.dice.below(if hard { 5 } else { 8 }) {
            0 => self.node_dies(),
            1 => {
                self.node_stopped = self.node_stopped.max(self.now.after(self.dice.millis(8000)));
                self.note(format!("the node is stopped until {:?}", self.node_stopped));
            }
            2 | 3 if self.users[user].lives() => {
                let until = self.now.after(self.dice.millis(8000));
                self.users[user].stopped = self.users[user].stopped.max(until);
                self.note(format!("user {user} is stopped until {:?}", self.users[user].stopped));
            }
            4 => self.user_dies(user),
            5 => {
                let name = NAMES[usize::from(self.dice.one_in(4))];
                self.breaks_a_lock(name);
            }
            _ => {
                let of_user = |stream: &usize| self.streams[*stream].user == user;
                if let Some(stream) = (0..self.streams.len()).rev().find(of_user) {
                    self.note(format!("the connection of user {user} breaks"));
                    self.break_stream(stream);
                }
            }
        }
    }
}
