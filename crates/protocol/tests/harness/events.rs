//! What the worlds of `decided_views` and `view_layer` share: events in simulated time, notes, and
//! the first failure. Compiled into both; each has a type `World` with these fields.

use std::time::Duration;

use mutua_protocol::views::{DirectoryEntry, MemberId, Role};

use super::{World, world::Event};

pub(crate) const SECOND: u64 = 1_000_000_000;

impl World {
    pub(crate) fn is_calm(&self) -> bool {
        self.now >= self.calm_at
    }

    pub(crate) fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait.as_nanos() as u64, event);
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((at.max(self.now), self.numbers), event);
    }

    /// Keeps a line if somebody reads it.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.verbose {
            self.notes.push(format!("{:>9.4} {}", self.now as f64 / 1e9, text()));
        }
    }

    /// Only the first failure counts.
    pub(crate) fn fails(&mut self, why: String) {
        if self.failure.is_none() {
            self.note(|| format!("FAILS: {why}"));
            self.failure = Some(why);
        }
    }

    pub(crate) fn slot_of(&self, id: MemberId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    pub(crate) fn is_paused(&self, slot: usize) -> bool {
        self.nodes[slot].paused_until > self.now
    }

    /// Nothing gets from the first to the second.
    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|&count| count > 0)
    }
}

pub(crate) fn entry(role: Role) -> DirectoryEntry {
    DirectoryEntry { name: String::new(), address: String::new(), role }
}
