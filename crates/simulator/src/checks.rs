//! What must hold, looked at all the time.

use std::collections::BTreeMap;

use mutua_algorithms::{Claim, Fence, NodeId};
use serde::Serialize;

use crate::{bypass::Bypass, ordering::Ordering, world::Client};

/// How many violations of each property are described; all are counted.
const KEPT: u64 = 5;

/// A property that did not hold.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Violation {
    /// Which property.
    pub property: Claim,
    /// In the run of which seed.
    pub seed: u64,
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

/// EM1, the fence, and where they are wanted EM3 and bounded bypass, each in a constant number of
/// steps per event (EM3: in N).
#[derive(Debug)]
pub(crate) struct Checks {
    seed: u64,
    /// How many are inside.
    pub(crate) inside: u32,
    /// How many have asked and wait.
    pub(crate) waiting: u32,
    occupant: Option<NodeId>,
    last_fence: Option<Fence>,
    pub(crate) ordering: Option<Ordering>,
    pub(crate) bypass: Option<Bypass>,
    /// What counts as a violation if it does not hold.
    judged: Vec<Claim>,
    /// Of what is judged, what did not hold.
    pub(crate) violations: Findings,
    /// Of what is only looked at, what did not hold.
    pub(crate) unclaimed: Findings,
    /// Requests that were granted before one that had happened before them.
    pub(crate) overtakings: u64,
}

/// What did not hold.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The first few of each property.
    pub(crate) list: Vec<Violation>,
    pub(crate) count: u64,
    /// How often each property did not hold, by its name.
    pub(crate) by_property: BTreeMap<&'static str, u64>,
    /// How many of the list have been written to the trace.
    recorded: usize,
}

impl Findings {
    fn add(&mut self, violation: Violation) {
        self.count += 1;
        let count = self.by_property.entry(violation.property.name()).or_default();
        *count += 1;
        if *count <= KEPT {
            self.list.push(violation);
        }
    }

    /// Those that have come since the last time.
    pub(crate) fn fresh(&mut self) -> &[Violation] {
        let since = std::mem::replace(&mut self.recorded, self.list.len());
        &self.list[since..]
    }
}

impl Checks {
    pub(crate) fn new(
        seed: u64,
        judged: Vec<Claim>,
        ordering: Option<Ordering>,
        bypass: Option<Bypass>,
    ) -> Self {
        Self {
            seed,
            inside: 0,
            waiting: 0,
            occupant: None,
            last_fence: None,
            ordering,
            bypass,
            judged,
            violations: Findings::default(),
            unclaimed: Findings::default(),
            overtakings: 0,
        }
    }

    pub(crate) fn asks(&mut self, node: NodeId) {
        self.waiting += 1;
        if let Some(ordering) = &mut self.ordering {
            ordering.asks(node);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.asks(node);
        }
    }

    /// Everything that it sends to ask is under way.
    pub(crate) fn has_asked(&mut self, node: NodeId) {
        if let Some(bypass) = &mut self.bypass {
            bypass.has_asked(node);
        }
    }

    /// A message of this process is put at a place in the wheel.
    pub(crate) fn sends(&mut self, from: NodeId, place: usize) {
        if let Some(ordering) = &mut self.ordering {
            ordering.sends(from, place);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.sends(from, place);
        }
    }

    /// The message of this place arrives.
    pub(crate) fn receives(&mut self, to: NodeId, place: usize) {
        if let Some(ordering) = &mut self.ordering {
            ordering.receives(to, place);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.receives(place);
        }
    }

    /// A message of this process is lost on its way.
    pub(crate) fn loses(&mut self, from: NodeId) {
        if let Some(bypass) = &mut self.bypass {
            bypass.loses(from);
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
            let what = format!("{node} enters past {overtaken}, whose request came before");
            self.violation(Claim::Ordering, place, what);
        }
        if let Some(passed) = self.bypass.as_mut().and_then(|bypass| bypass.enters(node)) {
            let what = format!("{node} enters a second time past {passed}, whose request is known");
            self.violation(Claim::BoundedBypass, place, what);
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
        if let Some(bypass) = &mut self.bypass {
            bypass.closes(node);
        }
    }

    pub(crate) fn violation(&mut self, property: Claim, place: Place, what: String) {
        let Place { at, event, node } = place;
        let (seed, node) = (self.seed, node.0);
        let violation = Violation { property, seed, at, event, node, what };
        let is_judged = self.judged.contains(&property);
        if is_judged { &mut self.violations } else { &mut self.unclaimed }.add(violation);
    }
}
