//! Spanning trees.

use crate::{NodeId, StartError};

/// The shape of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Topology {
    /// One behind the other.
    Line,
    /// Process 0 in the middle.
    Star,
    /// Balanced, two children each.
    Binary,
    /// Balanced, so many children each.
    Kary(u32),
    /// These edges.
    Edges(Vec<(NodeId, NodeId)>),
}

/// A spanning tree, rooted at process 0.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tree {
    parent: Vec<NodeId>,
}

impl Tree {
    /// A tree of this shape over so many processes.
    pub fn new(_topology: &Topology, _nodes: u32) -> Result<Self, StartError> {
        Err(StartError::new("not built"))
    }
}
