//! Sanders' sets: whom a process asks before it enters, and whom it tells when it leaves.
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

use crate::{NodeId, Quorums, Setup, StartError};

/// The request set and the inform set of every process.
///
/// What is built has these properties: everyone is in its own inform set, and every inform set is
/// part of the request set. Whether the sets keep two processes apart is for
/// [`check`](Self::check) to say.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetsOf {
    /// Whom process `i` asks, sorted.
    request: Vec<Vec<NodeId>>,
    /// Whom process `i` tells, sorted.
    inform: Vec<Vec<NodeId>>,
    /// How many processes tell process `i`: the size of its status set.
    informants: Vec<u32>,
    /// How many of those whom process `i` asks can make it wait.
    arbiters: Vec<u32>,
}

/// Why sets are refused. Nothing was built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetsFault {
    /// The inform sets of these two do not meet, and they do not ask each other.
    Apart(NodeId, NodeId),
    /// This process is not in its own inform set.
    NotInOwn(NodeId),
    /// The first tells the second without having asked it.
    ToldUnasked(NodeId, NodeId),
    /// The first has the second in a set, which does not exist.
    Stranger(NodeId, NodeId),
}

impl fmt::Display for SetsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart(a, b) => write!(
                f,
                "processes {a} and {b} could be inside together: their inform sets share nobody, \
                 and they do not both ask the other"
            ),
            Self::NotInOwn(node) => {
                write!(f, "process {node} is not in its own inform set; it must be")
            }
            Self::ToldUnasked(node, told) => write!(
                f,
                "process {told} is in the inform set of process {node} but not in its request set; \
                 an inform set must be part of the request set"
            ),
            Self::Stranger(node, stranger) => write!(
                f,
                "process {stranger} is in a set of process {node}, but has no sets of its own"
            ),
        }
    }
}

impl std::error::Error for SetsFault {}

impl From<SetsFault> for StartError {
    fn from(fault: SetsFault) -> Self {
        Self::new(fault.to_string())
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
    ) -> Result<Self, SetsFault> {
        assert_eq!(request.len(), inform.len(), "a request set and an inform set per process");
        for set in request.iter_mut().chain(&mut inform) {
            set.sort_unstable();
            set.dedup();
        }
        let mut informants = vec![0; inform.len()];
        let mut sets = Self { request, inform, informants: Vec::new(), arbiters: Vec::new() };
        for node in sets.all() {
            sets.check_form(node)?;
            for told in sets.informed_by(node) {
                informants[told.index()] += 1;
            }
        }
        sets.informants = informants;
        sets.arbiters = sets.all().map(|node| sets.count_arbiters(node)).collect();
        Ok(sets)
    }

    /// Ask everyone, tell nobody else: Ricart-Agrawala.
    pub fn ricart_agrawala(nodes: u32) -> Result<Self, StartError> {
        if u64::from(nodes).pow(2) > MEMBERS_AT_MOST {
            return Err(StartError::new(format!(
                "{nodes} request sets of everyone are more than the {MEMBERS_AT_MOST} members that \
                 are kept; take fewer processes or smaller sets"
            )));
        }
        let everyone: Vec<_> = (0..nodes).map(NodeId).collect();
        let inform = (0..nodes).map(|node| vec![NodeId(node)]).collect();
        Ok(Self::new(vec![everyone; nodes as usize], inform)?)
    }

    /// Ask and tell the quorum: Maekawa.
    pub fn maekawa(quorums: &Quorums) -> Result<Self, SetsFault> {
        let sets: Vec<_> = (0..quorums.nodes()).map(|me| quorums.of(NodeId(me)).to_vec()).collect();
        Self::new(sets.clone(), sets)
    }

    /// Ask and tell the coordinator: central.
    pub fn central(nodes: u32, coordinator: NodeId) -> Result<Self, SetsFault> {
        let sets: Vec<_> = (0..nodes).map(|me| vec![NodeId(me), coordinator]).collect();
        Self::new(sets.clone(), sets)
    }

    /// The sets that a setup asks for by name, or those that it brings.
    pub(crate) fn of_setup(setup: &Setup, name: &str) -> Result<Self, StartError> {
        let sets = match name {
            "ricart-agrawala" => Self::ricart_agrawala(setup.nodes)?,
            "maekawa" => Self::maekawa(&Quorums::new(setup.quorums, setup.nodes)?)?,
            "central" => Self::central(setup.nodes, setup.coordinator)?,
            file => setup.sets.clone().ok_or_else(|| {
                StartError::new(format!(
                    "the sets are those of the file `{file}`, which is not read"
                ))
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

    /// Whom this process asks, sorted.
    pub fn request(&self, node: NodeId) -> &[NodeId] {
        &self.request[node.index()]
    }

    /// Whom this process tells, sorted.
    pub fn inform(&self, node: NodeId) -> &[NodeId] {
        &self.inform[node.index()]
    }

    /// Whether `node` asks `other`; nobody outside the system asks anybody.
    pub fn asks(&self, node: NodeId, other: NodeId) -> bool {
        self.request.get(node.index()).is_some_and(|set| set.binary_search(&other).is_ok())
    }

    /// Whether `node` tells `other`; nobody outside the system tells anybody.
    pub fn tells(&self, node: NodeId, other: NodeId) -> bool {
        self.inform.get(node.index()).is_some_and(|set| set.binary_search(&other).is_ok())
    }

    /// Whether the sets keep any two processes apart, which is so if their inform sets meet or each
    /// asks the other; if not, the first two that they do not.
    pub fn check(&self) -> Result<(), SetsFault> {
        let mut pairs = self.all().flat_map(|a| (0..a.0).map(move |b| (NodeId(b), a)));
        let apart = pairs.find(|&(a, b)| {
            let ask_each_other = self.asks(a, b) && self.asks(b, a);
            !ask_each_other && !self.inform(a).iter().any(|&told| self.tells(b, told))
        });
        apart.map_or(Ok(()), |(a, b)| Err(SetsFault::Apart(a, b)))
    }

    /// Whether anybody but `arbiter` could make `node` wait.
    pub(crate) fn can_wait_for_others(&self, node: NodeId, arbiter: NodeId) -> bool {
        let one = u32::from(self.asks(node, arbiter) && self.can_delay(arbiter, node));
        self.arbiters[node.index()] > one
    }

    /// Whether anybody but `arbiter` and `node` itself keeps account of `node`.
    pub(crate) fn is_counted_by_others(&self, node: NodeId, arbiter: NodeId) -> bool {
        let known = 1 + usize::from(arbiter != node && self.tells(node, arbiter));
        self.inform(node).len() > known
    }

    fn count_arbiters(&self, node: NodeId) -> u32 {
        let arbiters = self.request(node).iter().filter(|&&asked| self.can_delay(asked, node));
        NodeId::from(arbiters.count()).0
    }

    /// Whether somebody other than `node` tells `arbiter`, so that it may have to keep `node`
    /// waiting.
    fn can_delay(&self, arbiter: NodeId, node: NodeId) -> bool {
        self.informants[arbiter.index()] > u32::from(self.tells(node, arbiter))
    }

    fn check_form(&self, node: NodeId) -> Result<(), SetsFault> {
        let members = self.request(node).iter().chain(self.inform(node));
        if let Some(&stranger) = members.max().filter(|member| member.0 >= self.nodes()) {
            return Err(SetsFault::Stranger(node, stranger));
        }
        if !self.tells(node, node) {
            return Err(SetsFault::NotInOwn(node));
        }
        let unasked = self.informed_by(node).find(|&told| !self.asks(node, told));
        unasked.map_or(Ok(()), |told| Err(SetsFault::ToldUnasked(node, told)))
    }

    fn informed_by(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.inform(node).iter().copied()
    }

    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes()).map(NodeId)
    }
}
