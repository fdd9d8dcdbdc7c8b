//! What a search has met.

use std::collections::BTreeSet;

use mutua_algorithms::NodeId;

use crate::symmetry::Symmetry;

/// The events that have happened anywhere in a search, so that a model in which too little can
/// happen is noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The processes that have entered, or have elected a coordinator.
    pub(crate) entered: BTreeSet<NodeId>,
    /// Every kind of message that has arrived, with its receiver.
    pub(crate) arrived: BTreeSet<(&'static str, NodeId)>,
    /// Pairs of kinds: a message, and one that was sent when it arrived.
    pub(crate) answered: BTreeSet<(&'static str, &'static str)>,
}

impl Seen {
    /// An event at one process has happened at all that could have its name.
    pub(crate) fn rename(&self, symmetries: &[Symmetry]) -> Self {
        let mut all = self.clone();
        for Symmetry { renaming, .. } in symmetries {
            all.entered.extend(self.entered.iter().map(|&node| renaming.of(node)));
            let arrived = self.arrived.iter().map(|&(kind, node)| (kind, renaming.of(node)));
            all.arrived.extend(arrived);
        }
        all
    }
}
