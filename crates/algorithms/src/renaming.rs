//! New names for the processes, for checkers that take systems for one that differ by names only.

use crate::{NodeId, NodeSet, Stamp};

/// A permutation of the processes: each takes the name of one of them, no two the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Renaming(Vec<NodeId>);

impl Renaming {
    /// The new name of each process, in the order of the old ones; none if that is not a
    /// permutation.
    pub fn new(names: Vec<NodeId>) -> Option<Self> {
        let taken: NodeSet =
            names.iter().copied().filter(|name| name.index() < names.len()).collect();
        (taken.len() == names.len()).then_some(Self(names))
    }

    /// The new name of a process. One that is not there keeps its name.
    pub fn of(&self, node: NodeId) -> NodeId {
        self.0.get(node.index()).copied().unwrap_or(node)
    }

    /// The same set under the new names.
    #[must_use]
    pub fn set(&self, nodes: &NodeSet) -> NodeSet {
        nodes.iter().map(|node| self.of(node)).collect()
    }

    /// The same stamp under the new names.
    #[must_use]
    pub fn stamp(&self, stamp: Stamp) -> Stamp {
        Stamp::new(stamp.time, self.of(stamp.node))
    }

    /// Gives each of these its new name.
    pub fn all<'a>(&self, nodes: impl IntoIterator<Item = &'a mut NodeId>) {
        for node in nodes {
            *node = self.of(*node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ids: &[u32]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn only_a_permutation_renames() {
        assert!(Renaming::new(nodes(&[1, 1, 0])).is_none());
        assert!(Renaming::new(nodes(&[1, 3, 0])).is_none());
        let round = Renaming::new(nodes(&[1, 2, 0])).expect("a permutation");
        let set: NodeSet = nodes(&[0, 1]).into_iter().collect();
        assert_eq!(round.set(&set), nodes(&[1, 2]).into_iter().collect());
        let mut queue = nodes(&[2, 0]);
        round.all(&mut queue);
        assert_eq!(queue, nodes(&[0, 1]));
    }
}
