//! Quorums: for every process a set of processes whose votes it needs, any two of which meet.

use crate::{NodeId, StartError};

/// A quorum for every process, each sorted and with the process itself in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quorums {
    of: Vec<Vec<NodeId>>,
}

/// Which quorums to build.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum QuorumKind {
    /// Row and column in a square.
    #[default]
    Grid,
    /// The lines of a projective plane.
    Plane,
    /// Any majority.
    Majority,
    /// Paths in a binary tree.
    Tree,
}

/// Which property of quorums is broken, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuorumFault {
    /// The quorums of these two share nobody.
    Disjoint(NodeId, NodeId),
    /// This one is not in its own quorum.
    NotInOwn(NodeId),
    /// The quorums of these two differ in size.
    Size(NodeId, NodeId),
    /// These two are in different numbers of quorums.
    Duty(NodeId, NodeId),
}

impl Quorums {
    /// The quorums of this kind for so many processes.
    pub fn new(kind: QuorumKind, nodes: u32) -> Result<Self, StartError> {
        match kind {
            QuorumKind::Grid => Ok(Self::grid(nodes)),
            QuorumKind::Plane | QuorumKind::Majority | QuorumKind::Tree => {
                Err(StartError::new("not built"))
            }
        }
    }

    /// The quorum of this process, sorted.
    pub fn of(&self, node: NodeId) -> &[NodeId] {
        &self.of[node.index()]
    }

    /// Whether `member` is in the quorum of `node`; nobody outside the system is in any.
    pub fn contains(&self, node: NodeId, member: NodeId) -> bool {
        self.of.get(node.index()).is_some_and(|quorum| quorum.binary_search(&member).is_ok())
    }

    /// Rows of a square, the last one perhaps short: S0's formal members, who would only ever
    /// agree, are left out.
    fn grid(nodes: u32) -> Self {
        let side = (1..).find(|side| side * side >= nodes).expect("some square is large enough");
        let of = (0..nodes)
            .map(|me| {
                (0..nodes)
                    .filter(|other| other / side == me / side || other % side == me % side)
                    .map(NodeId)
                    .collect()
            })
            .collect();
        Self { of }
    }
}
