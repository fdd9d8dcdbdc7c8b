//! What must hold, looked at all the time.

use std::collections::BTreeMap;

use mutua_algorithms::{Claim, Fence, NodeId};
use serde::Serialize;

use crate::{ordering::Ordering, world::Client};

/// How many violations of each property are described; all are counted.
const KEPT: u64 = 5;

/// A property that did not hold.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Violation {
    /// Which property.
    pub property: Claim,
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// At which event of the run.
    pub event: u64,
    /// At whose step.
    pub node: u32,
    /// What was seen.
    pub what: String,
}

/// When and where something is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) event: u64,
    pub(crate) node: NodeId,
}

/// EM1, the fence, and where it is wanted EM3, each in a constant number of steps per event (EM3:
/// in N).
#[derive(Debug)]
pub(crate) struct Checks {
    /// How many are inside.
    pub(crate) inside: u32,
    /// How many have asked and wait.
    pub(crate) waiting: u32,
    occupant: Option<NodeId>,
    last_fence: Option<Fence>,
    pub(crate) ordering: Option<Ordering>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) violated: u64,
    /// How often each property was violated, by its name.
    pub(crate) violated_by: BTreeMap<&'static str, u64>,
    /// Requests that were granted before one that had happened before them.
    pub(crate) overtakings: u64,
    /// Whether these are violations, or only counted.
    ordering_is_claimed: bool,
}

impl Checks {
    pub(crate) fn new(ordering: Option<Ordering>, ordering_is_claimed: bool) -> Self {
        Self {
            inside: 0,
            waiting: 0,
            occupant: None,
            last_fence: None,
            ordering,
            violations: Vec::new(),
            violated: 0,
            violated_by: BTreeMap::new(),
            overtakings: 0,
            ordering_is_claimed,
        }
    }

    pub(crate) fn asks(&mut self, node: NodeId) {
        self.waiting += 1;
        if let Some(ordering) = &mut self.ordering {
            ordering.asks(node);
        }
    }

    pub(crate) fn enters(&mut self, place: Place, fence: Fence) {
        let node = place.node;
        self.waiting -= 1;
        self.inside += 1;
        if self.inside > 1 {
            let other = self.occupant.map_or_else(String::new, |other| format!("{other} and "));
            let count = self.inside;
            self.violation(Claim::Safety, place, format!("{count} inside: {other}{node}"));
        }
        self.occupant = Some(node);
        if let Some(last) = self.last_fence.filter(|&last| fence <= last) {
            self.violation(Claim::Fence, place, format!("fence {fence} after fence {last}"));
        }
        self.last_fence = self.last_fence.max(Some(fence));
        if let Some(overtaken) = self.ordering.as_mut().and_then(|order| order.enters(node)) {
            self.overtakings += 1;
            if self.ordering_is_claimed {
                let what = format!("{node} enters past {overtaken}, whose request came before");
                self.violation(Claim::Ordering, place, what);
            }
        }
    }

    pub(crate) fn leaves(&mut self) {
        self.inside -= 1;
        if self.inside == 0 {
            self.occupant = None;
        }
    }

    /// A process goes down, whatever its client was doing.
    pub(crate) fn crashes(&mut self, node: NodeId, client: &Client) {
        match client.phase {
            mutua_algorithms::Phase::Outside => {}
            mutua_algorithms::Phase::Requesting => self.waiting -= 1,
            mutua_algorithms::Phase::Inside => self.leaves(),
        }
        if let Some(ordering) = &mut self.ordering {
            ordering.closes(node);
        }
    }

    pub(crate) fn violation(&mut self, property: Claim, place: Place, what: String) {
        self.violated += 1;
        let count = self.violated_by.entry(property.name()).or_default();
        *count += 1;
        if *count <= KEPT {
            let Place { at, event, node } = place;
            self.violations.push(Violation { property, at, event, node: node.0, what });
        }
    }
}
