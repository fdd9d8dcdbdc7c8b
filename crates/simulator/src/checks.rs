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
    /// The critical section that the present event is about.
    pub(crate) here: Section,
    /// All sections by their numbers, where there are several; that of the present one is in
    /// [`here`](Self::here), and its place has an empty one meanwhile.
    all: Vec<Section>,
    number: u32,
    /// The properties of which a violation counts.
    judged: Vec<Claim>,
    /// Violations of judged properties.
    pub(crate) violations: Findings,
    /// Violations of properties that are checked but neither claimed nor judged.
    pub(crate) unclaimed: Findings,
    /// Requests granted before a request that happened before them.
    pub(crate) overtakings: u64,
}

/// What is known of one critical section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// How many processes are in the critical section.
    pub(crate) in_cs: u32,
    /// How many processes are waiting.
    pub(crate) waiting: u32,
    /// How many entries there were, and of those the measured ones.
    pub(crate) entries: u64,
    pub(crate) measured: u64,
    /// The time of the last exit while others waited, until the next entry.
    pub(crate) exited_at: Option<u64>,
    last_entered: Option<NodeId>,
    fencing: Fencing,
    pub(crate) ordering: Option<Ordering>,
    pub(crate) bypass: Option<Bypass>,
}

impl Section {
    pub(crate) fn new(ordering: Option<Ordering>, bypass: Option<Bypass>) -> Self {
        Self { ordering, bypass, ..Self::default() }
    }
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
    pub(crate) fn new(seed: u64, judged: Vec<Claim>, section: Section, sections: u32) -> Self {
        let mut all = Vec::new();
        if sections > 1 {
            all = vec![section.clone(); sections as usize];
            all[0] = Section::default();
        }
        Self {
            seed,
            here: section,
            all,
            number: 0,
            judged,
            violations: Findings::default(),
            unclaimed: Findings::default(),
            overtakings: 0,
        }
    }

    /// The next event is about the critical section of this number.
    pub(crate) fn select(&mut self, number: u32) {
        if number != self.number {
            std::mem::swap(&mut self.here, &mut self.all[self.number as usize]);
            std::mem::swap(&mut self.here, &mut self.all[number as usize]);
            self.number = number;
        }
    }

    /// Whether there is one critical section only.
    pub(crate) fn is_of_one(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a process waits for one of the critical sections.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.here.waiting > 0 || self.all.iter().any(|section| section.waiting > 0)
    }

    /// Whether a process is in one of the critical sections.
    pub(crate) fn is_held(&self) -> bool {
        self.here.in_cs > 0 || self.all.iter().any(|section| section.in_cs > 0)
    }

    /// The measured entries of each critical section, if there are several.
    pub(crate) fn measured(&self) -> Vec<u64> {
        let mut measured: Vec<_> = self.all.iter().map(|section| section.measured).collect();
        if let Some(here) = measured.get_mut(self.number as usize) {
            *here = self.here.measured;
        }
        measured
    }

    pub(crate) fn requests(&mut self, node: NodeId) {
        self.here.waiting += 1;
        if let Some(ordering) = &mut self.here.ordering {
            ordering.request(node);
        }
        if let Some(bypass) = &mut self.here.bypass {
            bypass.request(node);
        }
    }

    /// Everything that a process sends to request is in transit.
    pub(crate) fn has_requested(&mut self, node: NodeId) {
        if let Some(bypass) = &mut self.here.bypass {
            bypass.requested(node);
        }
    }

    /// The request of this process has its ticket.
    pub(crate) fn draws(&mut self, node: NodeId) {
        if let Some(bypass) = &mut self.here.bypass {
            bypass.draw(node);
        }
    }

    /// A message of this process is put into a slot of the wheel.
    pub(crate) fn sends(&mut self, from: NodeId, slot: usize) {
        if let Some(ordering) = &mut self.here.ordering {
            ordering.send(from, slot);
        }
        if let Some(bypass) = &mut self.here.bypass {
            bypass.send(from, slot);
        }
    }

    /// The message of this slot arrives.
    pub(crate) fn receives(&mut self, to: NodeId, slot: usize) {
        if let Some(ordering) = &mut self.here.ordering {
            ordering.receive(to, slot);
        }
        if let Some(bypass) = &mut self.here.bypass {
            bypass.receive(slot);
        }
    }

    /// A message of this process is dropped.
    pub(crate) fn drops(&mut self, from: NodeId) {
        if let Some(bypass) = &mut self.here.bypass {
            bypass.lose(from);
        }
    }

    pub(crate) fn enters(&mut self, place: Place, fence: FencingToken) {
        let node = place.node;
        self.here.waiting -= 1;
        self.here.in_cs += 1;
        self.here.entries += 1;
        if self.here.in_cs > 1 {
            let other =
                self.here.last_entered.map_or_else(String::new, |other| format!("{other} and "));
            let what = match self.here.in_cs {
                2 => format!("processes {other}{node} in the critical section"),
                count => {
                    format!("{count} processes in the critical section, the last {other}{node}")
                }
            };
            self.violation(Claim::MutualExclusion, place, what);
        }
        self.here.last_entered = Some(node);
        if let Some(last) = self.here.fencing.enter(fence) {
            // As epoch and count, as in pictures and traces.
            let what = format!("fencing token {} after {}", fence.0, last.0);
            self.violation(Claim::Fencing, place, what);
        }
        if let Some(overtaken) = self.here.ordering.as_mut().and_then(|order| order.enter(node)) {
            self.overtakings += 1;
            let what = format!("{node} enters before {overtaken}, whose request happened before");
            self.violation(Claim::Ordering, place, what);
        }
        if let Some(passed) = self.here.bypass.as_mut().and_then(|bypass| bypass.enter(node)) {
            let what = format!("{node} enters twice before {passed}, whose request has arrived");
            self.violation(Claim::BoundedBypass, place, what);
        }
    }

    pub(crate) fn exits(&mut self) {
        self.here.in_cs -= 1;
        if self.here.in_cs == 0 {
            self.here.last_entered = None;
        }
    }

    /// A process crashes, in whatever phase its client is.
    pub(crate) fn crashes(&mut self, node: NodeId, client: &Client) {
        match client.phase {
            mutua_algorithms::Phase::Idle => {}
            mutua_algorithms::Phase::Requesting => self.here.waiting -= 1,
            mutua_algorithms::Phase::InCs => self.exits(),
        }
        if let Some(ordering) = &mut self.here.ordering {
            ordering.crash(node);
        }
        if let Some(bypass) = &mut self.here.bypass {
            bypass.crash(node);
        }
    }

    pub(crate) fn violation(&mut self, property: Claim, place: Place, what: String) {
        let Place { at, event, node } = place;
        let (seed, node) = (self.seed, node.0);
        let what = match self.all.as_slice() {
            [] => what,
            _ => format!("{what}, section {}", self.number),
        };
        let violation = Violation { property, seed, at, event, node, what };
        let is_judged = self.judged.contains(&property);
        if is_judged { &mut self.violations } else { &mut self.unclaimed }.add(violation);
    }
}

/// The crashed processes, as a clause behind what waits for ever: they can be the cause.
pub(crate) fn crashed(down: impl Iterator<Item = NodeId>) -> String {
    const NAMED: usize = 5;
    let down: Vec<_> = down.map(|node| node.to_string()).collect();
    let names = down[..down.len().min(NAMED)].join(", ");
    match down.len() {
        0 => String::new(),
        1 => format!("; {names} has crashed"),
        2..=NAMED => format!("; {names} have crashed"),
        _ => format!("; {names}, ... have crashed"),
    }
}
