//! Quorums: for every process a set of processes whose votes it needs, any two of which meet.
//!
//! Maekawa (1985) asks four things of them: every process is in its own quorum, any two
//! quorums meet, all are of one size, and every process is in as many as every other. The first two
//! make the algorithm safe, the others fair; [`Quorums::violations`] lists those that are violated.

mod check;
mod field;
mod grid;
mod majority;
mod plane;
mod tree;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Renaming, StartError, UnknownName, names::by_name};

pub use check::QuorumViolation;

/// A quorum for every process, each sorted and with the process itself in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quorums {
    of: Vec<Vec<NodeId>>,
}

/// The kinds of quorums that can be built.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
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
    /// Row and column in a square that is filled up with formal members, whose votes real processes
    /// cast.
    FilledGrid,
}

impl QuorumKind {
    /// Every kind.
    pub const ALL: &'static [Self] =
        &[Self::Grid, Self::FilledGrid, Self::Plane, Self::Majority, Self::Tree];

    /// The kind's name, as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Plane => "plane",
            Self::Majority => "majority",
            Self::Tree => "tree",
            Self::FilledGrid => "filled-grid",
        }
    }
}

impl FromStr for QuorumKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("kind of quorums", Self::ALL, Self::name, name)
    }
}

/// How many members all quorums may have together: half a gibibyte of them.
const MEMBERS_AT_MOST: u64 = 1 << 27;

impl Quorums {
    /// The quorums of this kind for so many processes.
    pub fn new(kind: QuorumKind, nodes: u32) -> Result<Self, StartError> {
        if nodes == 0 {
            return Err(StartError::new("quorums of 0 processes; give at least 1"));
        }
        let size = match kind {
            QuorumKind::Grid | QuorumKind::FilledGrid => grid::size(nodes),
            QuorumKind::Plane => plane::size(nodes)?,
            QuorumKind::Majority => majority::size(nodes),
            QuorumKind::Tree => tree::size(nodes)?,
        };
        refuse_giants(nodes, size)?;
        let mut of: Vec<Vec<NodeId>> = match kind {
            QuorumKind::Grid => all(nodes, |me| grid::quorum(me, nodes)),
            QuorumKind::FilledGrid => all(nodes, |me| grid::filled(me, nodes)),
            QuorumKind::Plane => plane::quorums(size - 1),
            QuorumKind::Majority => all(nodes, |me| majority::quorum(me, nodes)),
            QuorumKind::Tree => all(nodes, |me| tree::quorum(me, nodes)),
        };
        for quorum in &mut of {
            quorum.sort_unstable();
            // A process may cast the vote of a formal member beside its own.
            quorum.dedup();
        }
        Ok(Self { of })
    }

    /// These quorums, the first that of process 0. Members must exist; whether they are
    /// quorums at all, [`violations`](Self::violations) finds out.
    pub fn from_sets(mut sets: Vec<Vec<NodeId>>) -> Result<Self, StartError> {
        let nodes = sets.len();
        for (me, set) in sets.iter_mut().enumerate() {
            set.sort_unstable();
            set.dedup();
            if let Some(stranger) = set.iter().find(|member| member.index() >= nodes) {
                return Err(StartError::new(format!(
                    "the quorum of process {me} has process {stranger} in it, but there are \
                     {nodes} quorums, so the processes are those below {nodes}"
                )));
            }
        }
        Ok(Self { of: sets })
    }

    /// The quorum of this process, sorted.
    pub fn of(&self, node: NodeId) -> &[NodeId] {
        &self.of[node.index()]
    }

    /// Whether `member` is in the quorum of `node`; an unknown process is in none.
    pub fn contains(&self, node: NodeId, member: NodeId) -> bool {
        self.of.get(node.index()).is_some_and(|quorum| quorum.binary_search(&member).is_ok())
    }

    /// Whether every process has the same quorum under the new names.
    pub(crate) fn is_kept_by(&self, renaming: &Renaming) -> bool {
        (0..self.nodes()).map(NodeId).all(|node| {
            let (old, new) = (self.of(node), self.of(renaming.of(node)));
            old.len() == new.len()
                && old.iter().all(|&member| self.contains(renaming.of(node), renaming.of(member)))
        })
    }

    /// How many quorums there are: one per process.
    pub fn nodes(&self) -> u32 {
        NodeId::from(self.of.len()).0
    }
}

fn all<Q>(nodes: u32, quorum: impl Fn(u32) -> Q) -> Vec<Vec<NodeId>>
where
    Q: Iterator<Item = u32>,
{
    (0..nodes).map(|me| quorum(me).map(NodeId).collect()).collect()
}

fn refuse_giants(nodes: u32, size: u32) -> Result<(), StartError> {
    let members = u64::from(nodes) * u64::from(size);
    if members <= MEMBERS_AT_MOST {
        return Ok(());
    }
    Err(StartError::new(format!(
        "{nodes} quorums of {size} are {members} members in all; at most {MEMBERS_AT_MOST} are \
         kept: take fewer processes or smaller quorums"
    )))
}

/// The sizes of systems next to `nodes` for which something can be built, as words: "the nearest
/// are 7 and 13". `sizes` ascend.
fn nearest(nodes: u32, sizes: impl Iterator<Item = u64>) -> String {
    let nodes = u64::from(nodes);
    let mut below = None;
    for size in sizes {
        if size > nodes {
            let only = format!("the nearest is {size}");
            return below.map_or(only, |below| format!("the nearest are {below} and {size}"));
        }
        below = Some(size);
    }
    below.map_or_else(String::new, |below| format!("the nearest is {below}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_that_fill_the_memory_are_refused_before_they_are_built() {
        // Together 2^27 members, and one quorum more.
        assert_eq!(refuse_giants(1 << 14, 1 << 13), Ok(()));
        let refusal = refuse_giants((1 << 14) + 1, 1 << 13).unwrap_err().to_string();
        assert!(refusal.starts_with("16385 quorums of 8192 are 134225920 members"), "{refusal}");
        assert!(Quorums::new(QuorumKind::Majority, 1 << 20).is_err());
    }
}
