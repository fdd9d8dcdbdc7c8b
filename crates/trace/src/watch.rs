//! The variables of a machine that an event has changed.

use mutua_algorithms::{Fields, NodeId};

use crate::{Header, Values};

/// The variables of every process as they were last seen.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    last: Vec<Fields>,
}

impl Watch {
    /// No process has been looked at yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The values of `now` that differ from the last ones, rendered; the first time, all of them.
    pub fn changes(&mut self, who: NodeId, now: Fields, header: &Header) -> Values {
        if self.last.len() <= who.index() {
            self.last.resize_with(who.index() + 1, Fields::new);
        }
        let last = &mut self.last[who.index()];
        let changed = now.iter().filter(|variable| !last.contains(variable)).cloned().collect();
        *last = now;
        Values::render(&changed, &|node| header.name_for(who, node))
    }

    /// Drops what is known of a process that has lost its memory.
    pub fn forget(&mut self, who: NodeId) {
        if let Some(last) = self.last.get_mut(who.index()) {
            last.clear();
        }
    }
}
