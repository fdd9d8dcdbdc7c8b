//! How many messages an election should cost.

use mutua_algorithms::NodeId;

use crate::{Distribution, ElectionPlan, Expected, Latency, Meaning};

/// What theory says of the messages of the election of this name; nothing where it does not know,
/// or where something fails.
pub fn election_theory(name: &str, plan: &ElectionPlan) -> Option<Expected> {
    let network = &plan.network;
    let faultless = network.loss == 0.0
        && network.duplication == 0.0
        && network.partitions.is_empty()
        && network.outages.is_empty()
        && plan.transmission.is_none()
        && plan.handling.is_none();
    if !faultless || network.mean_latency() == 0.0 || plan.setup.nodes < 2 {
        return None;
    }
    match name {
        "chang-roberts" => chang_roberts(plan),
        "bully" => bully(plan),
        _ => None,
    }
}

/// An id goes on until a higher one stops it; the winner's goes round, and then the announcement.
fn chang_roberts(plan: &ElectionPlan) -> Option<Expected> {
    if !plan.setup.crashed.is_empty() {
        return None;
    }
    let nodes = u64::from(plan.setup.nodes);
    let falls = match &plan.setup.ring {
        None => false,
        Some(order) if order.is_sorted() => false,
        Some(order) if order.is_sorted_by(|a, b| a > b) => true,
        Some(_) => return None,
    };
    let (value, formula) = match (plan.starters.as_slice(), falls) {
        (&[NodeId(starter)], false) => (3 * nodes - 1 - u64::from(starter), "3N-1-s, s starting"),
        (&[NodeId(starter)], true) if u64::from(starter) == nodes - 1 => (2 * nodes, "2N"),
        (&[NodeId(starter)], true) => (2 * nodes + u64::from(starter) + 1, "2N+1+s, s starting"),
        (starters, _) if !is_everybody(starters, plan.setup.nodes) => return None,
        (_, false) => (3 * nodes - 1, "2N-1, and N to announce"),
        (_, true) => (nodes * (nodes + 1) / 2 + nodes, "N(N+1)/2, and N to announce"),
    };
    Some(exact(value, formula))
}

/// With only the highest down: everyone from the starter up asks all above and is answered by those
/// that are up, and the new coordinator tells all but itself and the dead one.
fn bully(plan: &ElectionPlan) -> Option<Expected> {
    let nodes = u64::from(plan.setup.nodes);
    let steady = matches!(plan.network.latency, Latency::Everywhere(Distribution::Constant(_)));
    let &[starter] = plan.starters.as_slice() else { return None };
    let highest = NodeId(plan.setup.nodes - 1);
    if !steady || plan.setup.crashed != [highest] || starter == highest {
        return None;
    }
    let above = nodes - 1 - u64::from(starter.0);
    Some(exact(above * above + nodes - 2, "(N-1-s)^2 + N-2, s starting"))
}

fn is_everybody(starters: &[NodeId], nodes: u32) -> bool {
    starters.iter().copied().eq((0..nodes).map(NodeId))
}

fn exact(value: u64, formula: &str) -> Expected {
    Expected { value: value as f64, meaning: Meaning::Exact, formula: formula.to_owned() }
}
