//! Sanders' sets: the processes of which a process requests permission before it enters, and those
//! that it informs when it leaves.
//!
//! As a text file, one line per process, in any order, `#` beginning a comment:
//!
//! ```text
//! # process: request SET inform SET
//! 0: request 0 1 2 inform 0 1
//! 1: request 0 1   inform 0 1
//! 2: request 0 2   inform 0 2
//! ```

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Quorums, Setup, StartError};

pub use parse::{LineError, ParseSetsError};

/// The request set and the inform set of every process.
///
/// Every process is in its own inform set, and every inform set is part of the request set. Whether
/// the sets exclude any two processes, [`check`](Self::check) finds out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SetsOf {
    /// The request set of process `i`, sorted.
    request: Vec<Vec<NodeId>>,
    /// The inform set of process `i`, sorted.
    inform: Vec<Vec<NodeId>>,
    /// How many processes inform process `i`: the size of its status set.
    informants: Vec<u32>,
    /// How many arbiters in the request set of process `i` can make it wait.
    arbiters: Vec<u32>,
}

/// Why sets are refused. Nothing was built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetsError {
    /// The inform sets of these two do not meet, and they are not in each other's request sets.
    Apart(NodeId, NodeId),
    /// This process is not in its own inform set.
    NotInOwn(NodeId),
    /// The first informs the second, which is not in its request set.
    NotRequested(NodeId, NodeId),
    /// The first has the second, an unknown process, in a set.
    Stranger(NodeId, NodeId),
}

impl fmt::Display for SetsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart(a, b) => write!(
                f,
                "processes {a} and {b} could be in the critical section together: their inform \
                 sets have no process in common, and they are not in each other's request sets"
            ),
            Self::NotInOwn(node) => {
                write!(f, "process {node} is not in its own inform set; it must be")
            }
            Self::NotRequested(node, other) => write!(
                f,
                "process {other} is in the inform set of process {node} but not in its request \
                 set; an inform set must be part of the request set"
            ),
            Self::Stranger(node, stranger) => write!(
                f,
                "process {stranger} is in a set of process {node}, but has no sets of its own"
            ),
        }
    }
}

impl std::error::Error for SetsError {}

impl From<SetsError> for StartError {
    fn from(error: SetsError) -> Self {
        Self::new(error.to_string())
    }
}

/// How many members all request sets may have together.
const MEMBERS_AT_MOST: u64 = 1 << 27;

impl SetsOf {
    /// These request and inform sets, the first of each being those of process 0.
    ///
    /// # Panics
    ///
    /// If there are not as many of the one as of the other.
    pub fn new(
        mut request: Vec<Vec<NodeId>>,
        mut inform: Vec<Vec<NodeId>>,
    ) -> Result<Self, SetsError> {
        assert_eq!(request.len(), inform.len(), "a request set and an inform set per process");
        for set in request.iter_mut().chain(&mut inform) {
            set.sort_unstable();
            set.dedup();
        }
        let mut informants = vec![0; inform.len()];
        let mut sets = Self { request, inform, informants: Vec::new(), arbiters: Vec::new() };
        for node in sets.all() {
            sets.check_form(node)?;
            for informed in sets.informed_by(node) {
                informants[informed.index()] += 1;
            }
        }
        sets.informants = informants;
        sets.arbiters = sets.all().map(|node| sets.count_arbiters(node)).collect();
        Ok(sets)
    }

    /// Every process requests of all and informs itself only: Ricart-Agrawala.
    pub fn ricart_agrawala(nodes: u32) -> Result<Self, StartError> {
        if u64::from(nodes).pow(2) > MEMBERS_AT_MOST {
            return Err(StartError::new(format!(
                "{nodes} request sets of all processes are more than the {MEMBERS_AT_MOST} members \
                 that are kept; take fewer processes or smaller sets"
            )));
        }
        let everyone: Vec<_> = (0..nodes).map(NodeId).collect();
        let inform = (0..nodes).map(|node| vec![NodeId(node)]).collect();
        Ok(Self::new(vec![everyone; nodes as usize], inform)?)
    }

    /// Every process requests of its quorum and informs it: Maekawa.
    pub fn maekawa(quorums: &Quorums) -> Result<Self, SetsError> {
        let sets: Vec<_> = (0..quorums.nodes()).map(|me| quorums.of(NodeId(me)).to_vec()).collect();
        Self::new(sets.clone(), sets)
    }

    /// Every process requests of the coordinator and informs it: central.
    pub fn central(nodes: u32, coordinator: NodeId) -> Result<Self, SetsError> {
        let sets: Vec<_> = (0..nodes).map(|me| vec![NodeId(me), coordinator]).collect();
        Self::new(sets.clone(), sets)
    }

    /// The sets that a setup names, or those that it brings.
    pub(crate) fn of_setup(setup: &Setup, name: &str) -> Result<Self, StartError> {
        let sets = match name {
            "ricart-agrawala" => Self::ricart_agrawala(setup.nodes)?,
            "maekawa" => Self::maekawa(&Quorums::new(setup.quorums, setup.nodes)?)?,
            "central" => Self::central(setup.nodes, setup.coordinator)?,
            file => setup.sets.clone().ok_or_else(|| {
                StartError::new(format!("the sets of the file `{file}` are missing"))
            })?,
        };
        if sets.nodes() == setup.nodes {
            return Ok(sets);
        }
        Err(StartError::new(format!(
            "`{name}` has the sets of {} processes, the system has {}",
            sets.nodes(),
            setup.nodes
        )))
    }

    /// How many processes there are.
    pub fn nodes(&self) -> u32 {
        NodeId::from(self.request.len()).0
    }

    /// The request set of this process, sorted.
    pub fn request(&self, node: NodeId) -> &[NodeId] {
        &self.request[node.index()]
    }

    /// The inform set of this process, sorted.
    pub fn inform(&self, node: NodeId) -> &[NodeId] {
        &self.inform[node.index()]
    }

    /// Whether `other` is in the request set of `node`; an unknown process has an empty one.
    pub fn requests(&self, node: NodeId, other: NodeId) -> bool {
        self.request.get(node.index()).is_some_and(|set| set.binary_search(&other).is_ok())
    }

    /// Whether `other` is in the inform set of `node`; an unknown process has an empty one.
    pub fn informs(&self, node: NodeId, other: NodeId) -> bool {
        self.inform.get(node.index()).is_some_and(|set| set.binary_search(&other).is_ok())
    }

    /// Whether the sets exclude any two processes (Sanders' condition): their inform sets meet, or
    /// each is in the request set of the other. The error names the first two for which that fails.
    pub fn check(&self) -> Result<(), SetsError> {
        let mut pairs = self.all().flat_map(|a| (0..a.0).map(move |b| (NodeId(b), a)));
        let apart = pairs.find(|&(a, b)| {
            let request_each_other = self.requests(a, b) && self.requests(b, a);
            !request_each_other && !self.inform(a).iter().any(|&common| self.informs(b, common))
        });
        apart.map_or(Ok(()), |(a, b)| Err(SetsError::Apart(a, b)))
    }

    /// Whether an arbiter other than `arbiter` could make `node` wait.
    pub(crate) fn can_wait_for_others(&self, node: NodeId, arbiter: NodeId) -> bool {
        let one = u32::from(self.requests(node, arbiter) && self.can_delay(arbiter, node));
        self.arbiters[node.index()] > one
    }

    /// Whether a process other than `arbiter` and `node` itself keeps account of `node`.
    pub(crate) fn is_counted_by_others(&self, node: NodeId, arbiter: NodeId) -> bool {
        let known = 1 + usize::from(arbiter != node && self.informs(node, arbiter));
        self.inform(node).len() > known
    }

    fn count_arbiters(&self, node: NodeId) -> u32 {
        let arbiters = self.request(node).iter().filter(|&&arbiter| self.can_delay(arbiter, node));
        NodeId::from(arbiters.count()).0
    }

    /// Whether a process other than `node` informs `arbiter`, so that it may have to keep `node`
    /// waiting.
    fn can_delay(&self, arbiter: NodeId, node: NodeId) -> bool {
        self.informants[arbiter.index()] > u32::from(self.informs(node, arbiter))
    }

    fn check_form(&self, node: NodeId) -> Result<(), SetsError> {
        let members = self.request(node).iter().chain(self.inform(node));
        if let Some(&stranger) = members.max().filter(|member| member.0 >= self.nodes()) {
            return Err(SetsError::Stranger(node, stranger));
        }
        if !self.informs(node, node) {
            return Err(SetsError::NotInOwn(node));
        }
        let unrequested = self.informed_by(node).find(|&other| !self.requests(node, other));
        unrequested.map_or(Ok(()), |other| Err(SetsError::NotRequested(node, other)))
    }

    fn informed_by(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.inform(node).iter().copied()
    }

    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes()).map(NodeId)
    }
}
