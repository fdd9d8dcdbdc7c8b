//! The properties, checked at every event of a run.

use std::collections::BTreeMap;

use mutua_algorithms::{
    Claim, FencingToken, NodeId,
    properties::{Bypass, Fencing, Ordering},
};
use serde::Serialize;

use crate::world::Client;

/// How many violations of each property are described; all are counted.
const KEPT: u64 = 5;

/// A property that did not hold.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Violation {
    /// The property.
    pub property: Claim,
    /// The seed of the run.
    pub seed: u64,
    /// The virtual time, in nanoseconds.
    pub at: u64,
    /// The number of the event in the run.
    pub event: u64,
    /// The process whose step violated it.
    pub node: u32,
    /// The evidence, as a sentence without its end.
    pub what: String,
}

/// The time and the process of a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) event: u64,
    pub(crate) node: NodeId,
}

/// The checks of mutual exclusion (EM1) and fencing, and where they are wanted of ordering (EM3)
/// and bounded bypass. Each takes a constant number of steps per event; ordering takes N.
#[derive(Debug)]
pub(crate) struct Checks {
    seed: u64,
    /// How many processes are in the critical section.
    pub(crate) in_cs: u32,
    /// How many processes are waiting.
    pub(crate) waiting: u32,
    last_entered: Option<NodeId>,
    fencing: Fencing,
    pub(crate) ordering: Option<Ordering>,
    pub(crate) bypass: Option<Bypass>,
    /// The properties of which a violation counts.
    judged: Vec<Claim>,
    /// Violations of judged properties.
    pub(crate) violations: Findings,
    /// Violations of properties that are checked but neither claimed nor judged.
    pub(crate) unclaimed: Findings,
    /// Requests granted before a request that happened before them.
    pub(crate) overtakings: u64,
}

/// Violations found in a run.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The first few of each property.
    pub(crate) list: Vec<Violation>,
    pub(crate) count: u64,
    /// How often each property was violated, by its name.
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

    /// The violations found since the last call.
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
            in_cs: 0,
            waiting: 0,
            last_entered: None,
            fencing: Fencing::default(),
            ordering,
            bypass,
            judged,
            violations: Findings::default(),
            unclaimed: Findings::default(),
            overtakings: 0,
        }
    }

    pub(crate) fn requests(&mut self, node: NodeId) {
        self.waiting += 1;
        if let Some(ordering) = &mut self.ordering {
            ordering.request(node);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.request(node);
        }
    }

    /// Everything that a process sends to request is in transit.
    pub(crate) fn has_requested(&mut self, node: NodeId) {
        if let Some(bypass) = &mut self.bypass {
            bypass.requested(node);
        }
    }

    /// A message of this process is put into a slot of the wheel.
    pub(crate) fn sends(&mut self, from: NodeId, slot: usize) {
        if let Some(ordering) = &mut self.ordering {
            ordering.send(from, slot);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.send(from, slot);
        }
    }

    /// The message of this slot arrives.
    pub(crate) fn receives(&mut self, to: NodeId, slot: usize) {
        if let Some(ordering) = &mut self.ordering {
            ordering.receive(to, slot);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.receive(slot);
        }
    }

    /// A message of this process is dropped.
    pub(crate) fn drops(&mut self, from: NodeId) {
        if let Some(bypass) = &mut self.bypass {
            bypass.lose(from);
        }
    }

    pub(crate) fn enters(&mut self, place: Place, fence: FencingToken) {
        let node = place.node;
        self.waiting -= 1;
        self.in_cs += 1;
        if self.in_cs > 1 {
            let other = self.last_entered.map_or_else(String::new, |other| format!("{other} and "));
            let count = self.in_cs;
            let what = format!("{count} in the critical section: {other}{node}");
            self.violation(Claim::MutualExclusion, place, what);
        }
        self.last_entered = Some(node);
        if let Some(last) = self.fencing.enter(fence) {
            let what = format!("fencing token {fence} after {last}");
            self.violation(Claim::Fencing, place, what);
        }
        if let Some(overtaken) = self.ordering.as_mut().and_then(|order| order.enter(node)) {
            self.overtakings += 1;
            let what = format!("{node} enters before {overtaken}, whose request happened before");
            self.violation(Claim::Ordering, place, what);
        }
        if let Some(passed) = self.bypass.as_mut().and_then(|bypass| bypass.enter(node)) {
            let what = format!("{node} enters twice before {passed}, whose request has arrived");
            self.violation(Claim::BoundedBypass, place, what);
        }
    }

    pub(crate) fn exits(&mut self) {
        self.in_cs -= 1;
        if self.in_cs == 0 {
            self.last_entered = None;
        }
    }

    /// A process crashes, in whatever phase its client is.
    pub(crate) fn crashes(&mut self, node: NodeId, client: &Client) {
        match client.phase {
            mutua_algorithms::Phase::Idle => {}
            mutua_algorithms::Phase::Requesting => self.waiting -= 1,
            mutua_algorithms::Phase::InCs => self.exits(),
        }
        if let Some(ordering) = &mut self.ordering {
            ordering.crash(node);
        }
        if let Some(bypass) = &mut self.bypass {
            bypass.crash(node);
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
