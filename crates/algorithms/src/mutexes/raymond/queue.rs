//! Raymond's `REQUEST_Q`, in which no process stands twice.

use std::collections::VecDeque;

use crate::{NodeId, NodeSet, Renaming};

/// The processes that wait for the token to come here, we or neighbours, in the order of their
/// requests.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Queue {
    order: VecDeque<Waiting>,
    /// The indices of all in the queue, where it is too long to look through.
    indices: NodeSet,
}

/// One in the queue.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Waiting {
    node: NodeId,
    index: LocalIndex,
}

/// A number for us and for each of our neighbours: in a large tree a set of these is smaller than
/// one of ids.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct LocalIndex(NodeId);

impl LocalIndex {
    pub(super) const OURS: Self = Self(NodeId(0));

    /// That of the neighbour at this position among the neighbours, counted from 0.
    pub(super) fn of_neighbour(position: u32) -> Self {
        Self(NodeId(position + 1))
    }
}

/// A queue of so many is looked through; only the hub of a star has a longer one.
const SHORT: usize = 8;

impl Queue {
    /// Appends a process unless it is in the queue; returns whether it was appended.
    pub(super) fn push(&mut self, node: NodeId, index: LocalIndex) -> bool {
        if self.contains(index) {
            return false;
        }
        self.order.push_back(Waiting { node, index });
        if self.order.len() == SHORT + 1 {
            self.indices = self.order.iter().map(|waiting| waiting.index.0).collect();
        } else if self.is_long() {
            self.indices.insert(index.0);
        }
        true
    }

    /// Takes the head.
    pub(super) fn pop(&mut self) -> Option<NodeId> {
        let head = self.order.pop_front()?;
        if self.is_long() {
            self.indices.remove(head.index.0);
        } else {
            self.indices.clear();
        }
        Some(head.node)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.order.iter().map(|waiting| waiting.node)
    }

    /// Gives every process in it its new name, and the index that goes with that.
    pub(super) fn rename(
        &mut self,
        renaming: &Renaming,
        index_of: impl Fn(NodeId) -> Option<LocalIndex>,
    ) {
        let renamed: Vec<_> = self.iter().map(|node| renaming.of(node)).collect();
        *self = Self::default();
        for node in renamed {
            self.push(node, index_of(node).expect("a renaming keeps neighbours"));
        }
    }

    fn is_long(&self) -> bool {
        self.order.len() > SHORT
    }

    fn contains(&self, index: LocalIndex) -> bool {
        if self.is_long() {
            return self.indices.contains(index.0);
        }
        self.order.iter().any(|waiting| waiting.index == index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process 0 are we, the others our neighbours.
    fn local_index(node: NodeId) -> LocalIndex {
        node.0.checked_sub(1).map_or(LocalIndex::OURS, LocalIndex::of_neighbour)
    }

    #[test]
    fn no_process_is_in_it_twice_short_or_long() {
        let mut queue = Queue::default();
        let mut dumb: VecDeque<NodeId> = VecDeque::new();
        for step in 0..2000_u32 {
            // It grows and shrinks, through all lengths up to twice what is short.
            let node = NodeId(step.wrapping_mul(2_654_435_769) % 17);
            if step / 40 % 2 == 0 {
                let is_new = !dumb.contains(&node);
                assert_eq!(queue.push(node, local_index(node)), is_new, "{node} to {dumb:?}");
                dumb.extend(is_new.then_some(node));
            } else {
                assert_eq!(queue.pop(), dumb.pop_front());
            }
            assert!(queue.iter().eq(dumb.iter().copied()));
            assert_eq!(queue.indices.len(), if dumb.len() > SHORT { dumb.len() } else { 0 });
        }
    }

    #[test]
    fn a_queue_is_equal_to_one_with_the_same_in_it_whatever_came_and_went() {
        let mut queue = Queue::default();
        let mut other = Queue::default();
        for node in (1..20).map(NodeId) {
            queue.push(node, local_index(node));
        }
        while queue.order.len() > 3 {
            queue.pop();
        }
        for node in (17..20).map(NodeId) {
            other.push(node, local_index(node));
        }
        assert_eq!(queue, other);
    }
}
