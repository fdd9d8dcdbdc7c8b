//! Sanders' sets: whom a process asks before it enters, and whom it tells when it leaves.

use crate::NodeId;

/// The request set and the inform set of every process, each sorted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SetsOf {
    /// Whom process `i` asks.
    pub request: Vec<Vec<NodeId>>,
    /// Whom process `i` tells.
    pub inform: Vec<Vec<NodeId>>,
}
