//! The crashes and restarts that a process knows of.

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// How often each process has crashed or restarted, as far as one process knows: an even number
/// means up, an odd one down. Knowledge only grows, and two processes join theirs by the greater
/// number of each process, whatever the order of the reports.
///
/// Only processes that have crashed take space, so that a message can carry it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Changes {
    processes: u32,
    /// The processes with a change, lowest first, and their numbers of changes.
    counts: Vec<(NodeId, u32)>,
}

impl Changes {
    /// No crash of these processes is known.
    pub fn none(processes: u32) -> Self {
        Self { processes, counts: Vec::new() }
    }

    /// How many crashes and restarts of this process are known; none of an unknown process.
    pub fn of(&self, node: NodeId) -> Option<u32> {
        let count = match self.find(node) {
            Ok(index) => self.counts[index].1,
            Err(_) => 0,
        };
        (node.0 < self.processes).then_some(count)
    }

    /// Whether this process is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.of(node).is_some_and(|count| count.is_multiple_of(2))
    }

    /// The processes that are up, lowest first: the members of the view.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.processes).map(NodeId).filter(|&node| self.is_up(node))
    }

    /// The number of the view of these members: the number of all crashes and restarts. Views that
    /// come into being one after the other know of more and more changes, so their numbers grow.
    pub fn view(&self) -> u32 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }

    /// Whether both are about the same processes.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.processes == other.processes && other.counts.iter().all(|(node, _)| self.knows(*node))
    }

    /// Whether everything in `other` is known here.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.counts.iter().all(|&(node, theirs)| self.of(node) >= Some(theirs))
    }

    /// Adds all that is known there.
    pub(crate) fn join(&mut self, other: &Self) {
        for &(node, theirs) in &other.counts {
            self.raise(node, theirs);
        }
    }

    /// Adds that a process has crashed and restarted so often; true if that is new.
    pub(crate) fn raise(&mut self, node: NodeId, count: u32) -> bool {
        match self.find(node) {
            Ok(index) if self.counts[index].1 < count => self.counts[index].1 = count,
            Err(index) if self.knows(node) && count > 0 => self.counts.insert(index, (node, count)),
            Ok(_) | Err(_) => return false,
        }
        true
    }

    /// The processes that have crashed or restarted, with their numbers of changes.
    pub fn counts(&self) -> &[(NodeId, u32)] {
        &self.counts
    }

    /// The processes that are down.
    pub(crate) fn crashed(&self) -> Vec<NodeId> {
        let nodes = self.counts.iter().map(|&(node, _)| node);
        nodes.filter(|&node| !self.is_up(node)).collect()
    }

    fn find(&self, node: NodeId) -> Result<usize, usize> {
        self.counts.binary_search_by_key(&node, |&(node, _)| node)
    }

    fn knows(&self, node: NodeId) -> bool {
        node.0 < self.processes
    }
}
