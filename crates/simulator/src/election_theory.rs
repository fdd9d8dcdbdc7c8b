//! What an election should cost, and how long it should take.

use mutua_algorithms::NodeId;

use crate::{Distribution, ElectionPlan, Expected, Latency, Meaning};

/// What theory says of an election; nothing where it does not know, or where something fails while
/// it is on.
#[derive(Clone, Debug, Default)]
pub struct ElectionTheory {
    /// How many messages it takes.
    pub messages: Option<Expected>,
    /// From the first start until the last process alive knows who is elected, in latencies. Where
    /// processes wait for timeouts it depends on those.
    pub turnaround: Option<Expected>,
}

/// What theory says of the election of this name.
pub fn election_theory(name: &str, plan: &ElectionPlan) -> ElectionTheory {
    let network = &plan.network;
    let faultless = network.loss == 0.0
        && network.duplication == 0.0
        && network.partitions.is_empty()
        && network.outages.is_empty()
        && plan.transmission.is_none()
        && plan.handling.is_none();
    if !faultless || network.mean_latency() == 0.0 || plan.setup.nodes < 2 {
        return ElectionTheory::default();
    }
    match name {
        "chang-roberts" => chang_roberts(plan),
        "bully" => ElectionTheory { messages: bully(plan), turnaround: None },
        _ => ElectionTheory::default(),
    }
}

/// An id goes on until a higher one stops it; the winner's goes round, and then the announcement,
/// the last message of which tells the winner what it knows already.
fn chang_roberts(plan: &ElectionPlan) -> ElectionTheory {
    let falls = match &plan.setup.ring {
        None => false,
        Some(order) if order.is_sorted() => false,
        Some(order) if order.is_sorted_by(|a, b| a > b) => true,
        Some(_) => return ElectionTheory::default(),
    };
    let up: Vec<_> = alive(plan).collect();
    if up.len() < 2 {
        return ElectionTheory::default();
    }
    let ring = Ring { nodes: plan.setup.nodes.into(), up: up.len() as i64 };
    let (messages, turnaround) = match plan.starters.as_slice() {
        [starter] => match up.iter().position(|id| id == starter) {
            // One message after the other.
            Some(below) => {
                let below = below as i64;
                (ring.one_starts(below, falls, 0), ring.one_starts(below, falls, 1))
            }
            None => return ElectionTheory::default(),
        },
        starters if starters != up => return ElectionTheory::default(),
        // Each id but the highest is stopped by the next process; only the highest goes round.
        _ if !falls => (ring.rounds(3, 1), ring.rounds(2, 1)),
        _ => (ring.worst(), ring.rounds(2, 1)),
    };
    let turnaround = Some(turnaround).filter(|_| is_steady(plan));
    ElectionTheory { messages: Some(messages), turnaround }
}

/// A ring of N processes that is closed over those that are down.
struct Ring {
    nodes: i64,
    up: i64,
}

impl Ring {
    /// So often round, less so many messages, as a formula in N.
    fn rounds(&self, rounds: i64, less: i64) -> Expected {
        let formula = match rounds * (self.nodes - self.up) + less {
            0 => format!("{rounds}N"),
            less if less < 0 => format!("{rounds}N+{}", -less),
            less => format!("{rounds}N-{less}"),
        };
        exact(rounds * self.up - less, formula)
    }

    /// One starts that is above so many: its id comes to the highest, whose id goes round. The last
    /// messages are left out.
    fn one_starts(&self, below: i64, falls: bool, left_out: i64) -> Expected {
        let (shared, sign) = match falls {
            _ if below == self.up - 1 => return self.rounds(2, left_out),
            false => (self.rounds(3, 1 + left_out), "-"),
            true => (self.rounds(2, left_out - 1), "+"),
        };
        if below == 0 {
            return shared;
        }
        let value = shared.value as i64 + if falls { below } else { -below };
        exact(value, format!("{}{sign}s, s below the starter", shared.formula))
    }

    /// All start, and each id comes past all lower ones.
    fn worst(&self) -> Expected {
        let formula = if self.up == self.nodes { "N(N+3)/2" } else { "M(M+3)/2, M being up" };
        exact(self.up * (self.up + 3) / 2, formula.to_owned())
    }
}

/// With only the highest down: everyone from the lowest starter up asks all above and is answered
/// by those that are up, and the new coordinator tells all but itself and the dead one.
fn bully(plan: &ElectionPlan) -> Option<Expected> {
    let highest = NodeId(plan.setup.nodes - 1);
    let starter = *plan.starters.iter().min()?;
    if !is_steady(plan) || plan.setup.crashed != [highest] || plan.starters.contains(&highest) {
        return None;
    }
    let nodes = i64::from(plan.setup.nodes);
    let above = nodes - 1 - i64::from(starter.0);
    let formula = match (starter.0, above) {
        (_, 1) => "N-1",
        (0, _) => "N^2-N-1",
        _ => "(N-1-s)^2 + N-2, s starting",
    };
    Some(exact(above * above + nodes - 2, formula.to_owned()))
}

fn alive(plan: &ElectionPlan) -> impl Iterator<Item = NodeId> {
    (0..plan.setup.nodes).map(NodeId).filter(|id| !plan.setup.crashed.contains(id))
}

fn is_steady(plan: &ElectionPlan) -> bool {
    matches!(plan.network.latency, Latency::Everywhere(Distribution::Constant(_)))
}

fn exact(value: i64, formula: String) -> Expected {
    Expected { value: value as f64, meaning: Meaning::Exact, formula }
}
