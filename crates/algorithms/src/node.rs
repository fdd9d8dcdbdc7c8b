//! Processes and sets of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process, numbered from zero without gaps.
///
/// Drivers that know processes by other names (a script's `P1`, a node's address) map them to these
/// numbers and keep their order, since ties between timestamps are broken by it.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The index of this process in an array with one element per process.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<usize> for NodeId {
    fn from(index: usize) -> Self {
        Self(u32::try_from(index).expect("at most 2^32 processes"))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of processes, one bit each: a broadcast algorithm keeps several of these per process.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct NodeSet {
    /// Trailing zero words are never kept, so that equal sets are equal values.
    words: Vec<u64>,
}

impl NodeSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a process; true if it is new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes a process; true if it was in the set.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_in = *bits & bit != 0;
        *bits &= !bit;
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        was_in
    }

    /// Whether the process is in the set.
    pub fn contains(&self, node: NodeId) -> bool {
        self.words.get(node.index() / 64).is_some_and(|bits| bits & (1 << (node.index() % 64)) != 0)
    }

    /// How many processes are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Takes out the highest process.
    pub fn pop(&mut self) -> Option<NodeId> {
        let bits = self.words.last()?;
        let bit = bits.ilog2() as usize;
        let node = NodeId::from((self.words.len() - 1) * 64 + bit);
        self.remove(node);
        Some(node)
    }

    /// Removes all processes and keeps the memory for the next use.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// The processes in the set, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.words.iter().enumerate().flat_map(|(word, &bits)| {
            let mut left = bits;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(NodeId::from(word * 64 + bit))
            })
        })
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, nodes: I) {
        for node in nodes {
            self.insert(node);
        }
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::new();
        set.extend(nodes);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_equal_to_another_with_the_same_members_whatever_came_and_went() {
        let mut set: NodeSet = [3, 200, 64].map(NodeId).into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 200].map(NodeId));
        assert!(set.remove(NodeId(200)));
        assert!(!set.remove(NodeId(200)));
        assert_eq!(set, [64, 3].map(NodeId).into_iter().collect());
        assert_eq!(set.len(), 2);
    }

    #[test]
    fn a_process_that_is_in_no_set_is_not_taken_out_of_it() {
        let mut set: NodeSet = [3, 64].map(NodeId).into_iter().collect();
        let before = set.clone();
        for absent in [0, 4, 63, 65, 128] {
            assert!(!set.remove(NodeId(absent)), "{absent}");
            assert_eq!(set, before);
        }
        assert!(set.remove(NodeId(3)) && set.remove(NodeId(64)) && set.is_empty());
    }
}
