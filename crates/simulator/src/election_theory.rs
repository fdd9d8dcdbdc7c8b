//! The expected cost and duration of an election: the algorithm's formulas, evaluated.

use mutua_algorithms::{Circumstances, Cost, Formula, NodeId, Parameters, registry};

use crate::{Distribution, ElectionPlan, Expected, Latency};

/// The expected figures of an election; none where no formula applies, or where something fails
/// during the election.
#[derive(Clone, Debug, Default)]
pub struct ElectionTheory {
    /// Messages until it is over.
    pub messages: Option<Expected>,
    /// From the first start until the last process that is up knows the coordinator, in latencies;
    /// none where it depends on timeouts.
    pub turnaround: Option<Expected>,
}

/// The expected figures of the election of this name.
pub fn election_theory(name: &str, plan: &ElectionPlan) -> ElectionTheory {
    known(name, plan).unwrap_or_default()
}

fn known(name: &str, plan: &ElectionPlan) -> Option<ElectionTheory> {
    let costs = &registry::about(name)?.costs;
    let ids = (0..plan.setup.nodes).map(NodeId);
    let up: Vec<_> = ids.filter(|id| !plan.setup.crashed.contains(id)).collect();
    if !is_faultless(plan) || plan.setup.nodes < 2 {
        return None;
    }
    let circumstances = Circumstances {
        nodes: plan.setup.nodes,
        up: &up,
        starters: &plan.starters,
        falls: falls(plan),
        is_steady: is_steady(plan),
    };
    let case = costs.elections.iter().find(|case| (case.when)(&circumstances))?;
    let parameters = Parameters {
        up: up.len() as f64,
        below: circumstances.below().map_or(f64::NAN, |below| below as f64),
        ..Parameters::new(f64::from(plan.setup.nodes))
    };
    let turnaround = expected(&case.turnaround, &parameters);
    Some(ElectionTheory {
        messages: expected(&case.messages, &parameters),
        turnaround: turnaround.filter(|_| is_steady(plan)),
    })
}

fn expected(cost: &Cost, parameters: &Parameters) -> Option<Expected> {
    let (formula, meaning) = (cost.formula()?, cost.meaning()?);
    let value = formula.value(parameters)?;
    Some(Expected { value, meaning, formula: in_all(formula, cost.text(), parameters) })
}

/// The text of a formula in M, the processes that are up, rewritten in N, all processes: `3M-1` is
/// `3N-4` where one process is down.
fn in_all(formula: Formula, text: String, parameters: &Parameters) -> String {
    let down = parameters.nodes - parameters.up;
    if !formula.mentions("M") || down == 0.0 {
        return text.replace('M', "N");
    }
    let at = |up: f64, below: f64| formula.value(&Parameters { up, below, ..*parameters });
    let (Some(zero), Some(one), Some(two)) = (at(0.0, 0.0), at(1.0, 0.0), at(2.0, 0.0)) else {
        return text;
    };
    let rounds = one - zero;
    if two - one != rounds {
        return format!("{text}, M being up");
    }
    let of_all = match zero - rounds * down {
        0.0 => format!("{rounds}N"),
        more => format!("{rounds}N{more:+}"),
    };
    // The terms after the sum's first two do not depend on M.
    let rest = formula.text().find(['s']).map_or("", |index| &formula.text()[index - 1..]);
    text.replace(formula.text(), &format!("{of_all}{rest}"))
}

fn is_faultless(plan: &ElectionPlan) -> bool {
    let network = &plan.network;
    network.loss == 0.0
        && network.duplication == 0.0
        && network.partitions.is_empty()
        && network.outages.is_empty()
        && network.mean_latency() != 0.0
        && plan.transmission.is_none()
        && plan.handling.is_none()
}

/// Whether the ids fall round the ring; none if they neither rise nor fall.
fn falls(plan: &ElectionPlan) -> Option<bool> {
    match &plan.setup.ring {
        None => Some(false),
        Some(order) if order.is_sorted() => Some(false),
        Some(order) if order.is_sorted_by(|a, b| a > b) => Some(true),
        Some(_) => None,
    }
}

fn is_steady(plan: &ElectionPlan) -> bool {
    matches!(plan.network.latency, Latency::Everywhere(Distribution::Constant(_)))
}
