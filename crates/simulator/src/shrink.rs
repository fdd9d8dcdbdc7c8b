//! Shrinks a run with a violation to a short one.

use std::{cell::RefCell, rc::Rc};

use mutua_algorithms::{Claim, Mutex, NodeId, registry};
use mutua_trace::{Event, Header, Unit, What};

use crate::{Load, Plan, Recorder, Report, ScriptedRequest, Simulation, simulate};

/// Without one of its requests a run draws other latencies, so a shorter run is tried with several
/// seeds.
const SEEDS: u64 = 40;

/// How many sizes of smaller systems are tried, with how many seeds, and for how many events each.
const SMALL_NODES: usize = 10;
const SMALL_SEEDS: u64 = 5;
const SMALL_EVENTS: u64 = 100_000;

/// A short run that violates the same property as a longer one.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The run, as a script of requests.
    pub plan: Plan,
    /// Its report.
    pub report: Report,
    /// How many runs were tried.
    pub tries: u64,
}

/// Shrinks a run that violates a property to one with as few requests and processes as the search
/// finds. None if the run violates nothing, or if its requests alone do not reproduce the
/// violation.
pub fn shrink(name: &str, plan: &Plan) -> Option<Shrunk> {
    let (requests, report) = registry::visit_mutex(
        name,
        Record { plan: Plan { setup: plan.setup.clone().of(name), ..plan.clone() } },
    )??;
    let property = report.violations.first()?.property;
    let mut search = Search { name, property, tries: 0 };
    if let Some(small) = search.of_a_smaller_system(plan) {
        let tries = search.tries;
        return shrink(name, &small).map(|shrunk| Shrunk { tries: tries + shrunk.tries, ..shrunk });
    }
    let script = Plan { warm_up: Some(0), ..plan.clone() };
    let mut best = search.violates(&script, requests)?;
    loop {
        let before = size(&best.0);
        search.without_chunks(&mut best);
        search.with_lower_ids(&mut best);
        search.with_fewer_processes(&mut best);
        search.beginning_at_zero(&mut best);
        if size(&best.0) == before {
            break;
        }
    }
    let (plan, report) = best;
    Some(Shrunk { plan, report, tries: search.tries })
}

struct Search<'a> {
    name: &'a str,
    property: Claim,
    tries: u64,
}

type Found = (Plan, Report);

impl Search<'_> {
    /// The same plan with the fewest processes that still violate the property, if there are fewer:
    /// removing requests from a run of many processes rarely gets there, since every removal
    /// changes the rest of the run.
    fn of_a_smaller_system(&mut self, plan: &Plan) -> Option<Plan> {
        let mut small = plan.clone();
        small.max_events = plan.max_events.min(SMALL_EVENTS);
        for nodes in (2..plan.setup.nodes).take(SMALL_NODES) {
            small.setup.nodes = nodes;
            for seed in plan.seed..plan.seed.saturating_add(SMALL_SEEDS) {
                small.seed = seed;
                self.tries += 1;
                // It may not start: a crash or a region may name a process that was removed.
                let Ok(report) = simulate(self.name, &small)? else { break };
                if report.violations.iter().any(|found| found.property == self.property) {
                    return Some(small);
                }
            }
        }
        None
    }

    /// The run with only these requests, with the first seed that violates the property.
    fn violates(&mut self, plan: &Plan, requests: Vec<ScriptedRequest>) -> Option<Found> {
        let entries = requests.len().max(1) as u64;
        let mut plan = Plan { entries, ..plan.clone() };
        plan.workload.load = Load::Script(requests);
        for seed in (0..SEEDS).map(|number| plan.seed.wrapping_add(number)).collect::<Vec<_>>() {
            plan.seed = seed;
            self.tries += 1;
            let report = simulate(self.name, &plan)?.ok()?;
            let same = |violation: &crate::Violation| violation.property == self.property;
            if report.violations.iter().any(same) {
                return Some((plan, report));
            }
        }
        None
    }

    /// Removes requests, first in large chunks, at last one by one.
    fn without_chunks(&mut self, best: &mut Found) {
        let mut size = requests(&best.0).len() / 2;
        while size > 0 {
            let mut from = 0;
            while from < requests(&best.0).len() {
                let mut fewer = requests(&best.0).to_vec();
                fewer.drain(from..(from + size).min(fewer.len()));
                match self.violates(&best.0, fewer) {
                    Some(found) => *best = found,
                    None => from += size,
                }
            }
            size /= 2;
        }
    }

    /// Moves the requests to the processes of lowest ids, so that the others can be removed.
    fn with_lower_ids(&mut self, best: &mut Found) {
        let mut requesters: Vec<_> = requests(&best.0).iter().map(|request| request.node).collect();
        requesters.sort();
        requesters.dedup();
        let rank = |node| NodeId::from(requesters.partition_point(|&other| other < node));
        let renamed = requests(&best.0)
            .iter()
            .map(|request| ScriptedRequest { node: rank(request.node), ..*request });
        let renamed: Vec<_> = renamed.collect();
        if renamed != requests(&best.0)
            && let Some(found) = self.violates(&best.0, renamed)
        {
            *best = found;
        }
    }

    fn beginning_at_zero(&mut self, best: &mut Found) {
        let first = requests(&best.0).iter().map(|request| request.at).min().unwrap_or(0);
        let earlier = requests(&best.0)
            .iter()
            .map(|request| ScriptedRequest { at: request.at - first, ..*request });
        let earlier = earlier.collect();
        if first > 0
            && let Some(found) = self.violates(&best.0, earlier)
        {
            *best = found;
        }
    }

    fn with_fewer_processes(&mut self, best: &mut Found) {
        while best.0.setup.nodes > 1 {
            let mut plan = best.0.clone();
            plan.setup.nodes -= 1;
            let remains = |request: &&ScriptedRequest| request.node.0 < plan.setup.nodes;
            let fewer = requests(&best.0).iter().filter(remains).copied().collect();
            match self.violates(&plan, fewer) {
                Some(found) => *best = found,
                None => return,
            }
        }
    }
}

fn requests(plan: &Plan) -> &[ScriptedRequest] {
    match &plan.workload.load {
        Load::Script(requests) => requests,
        Load::Light { .. }
        | Load::Saturated
        | Load::Think(_)
        | Load::Poisson { .. }
        | Load::Bursts { .. } => &[],
    }
}

fn size(plan: &Plan) -> (usize, u32) {
    (requests(plan).len(), plan.setup.nodes)
}

/// Runs a plan up to its first violation and records the requests.
struct Record {
    plan: Plan,
}

impl registry::MutexVisitor for Record {
    type Output = Option<(Vec<ScriptedRequest>, Report)>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let requests = Rc::new(RefCell::new(Requests::default()));
        let sink = Rc::clone(&requests);
        let mut simulation = Simulation::<M>::with_recorder(self.plan, |start| {
            let names = Header::default_names(start);
            let header = Header::new(start.about().name, start, names, Unit::Nanoseconds);
            Some(Recorder::new(header, move |event| sink.borrow_mut().note(&event)))
        })
        .ok()?;
        while !simulation.is_violated() && simulation.run(1) {}
        Some((requests.take().made, simulation.report()))
    }
}

/// The requests of a run, each with its hold time.
#[derive(Debug, Default)]
struct Requests {
    made: Vec<ScriptedRequest>,
    /// The requests whose processes are in the critical section, by index, each with the time of
    /// its entry.
    in_cs: Vec<(usize, u64)>,
}

impl Requests {
    fn note(&mut self, event: &Event) {
        let last =
            |made: &[ScriptedRequest]| made.iter().rposition(|request| request.node == event.who);
        match &event.what {
            What::Request => {
                self.made.push(ScriptedRequest { at: event.at, node: event.who, hold: None });
            }
            What::Enter { .. } => {
                self.in_cs.extend(last(&self.made).map(|index| (index, event.at)));
            }
            What::Exit => {
                let Some(index) = last(&self.made) else { return };
                if let Some(known) = self.in_cs.iter().position(|(request, _)| *request == index) {
                    let (_, entered_at) = self.in_cs.swap_remove(known);
                    self.made[index].hold = Some(event.at - entered_at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::Setup;

    use super::*;
    use crate::{Distribution, Network, Workload};

    #[test]
    fn a_few_requests_suffice_for_a_violation_of_the_bakery_without_choice() {
        let latency = Distribution::Exponential { mean: 1000 };
        let think = Load::Think(Distribution::Exponential { mean: 8000 });
        let hold = Distribution::Constant(3000);
        let workload = Workload { load: think, ..Workload::saturated(hold) };
        let plan = Plan::new(Setup::new(4), Network::new(latency), workload, 5000);
        let shrunk = shrink("bakery-naive", &plan).expect("a violation");
        assert_eq!(shrunk.report.violations[0].property, Claim::MutualExclusion);
        assert!(requests(&shrunk.plan).len() <= 3, "{:?}", requests(&shrunk.plan));
        assert!(shrunk.plan.setup.nodes <= 3);
    }

    #[test]
    fn a_violation_with_many_processes_is_shown_with_few() {
        let mut network = Network::new(Distribution::Constant(1000));
        network.fifo = false;
        let workload = Workload::saturated(Distribution::Constant(1000));
        let plan = Plan::new(Setup::new(50), network, workload, 500);
        let shrunk = shrink("lamport", &plan).expect("a violation on links that reorder");
        assert!(requests(&shrunk.plan).len() <= 4, "{:?}", requests(&shrunk.plan));
        assert!(shrunk.plan.setup.nodes <= 3, "{}", shrunk.plan.setup.nodes);
    }

    #[test]
    fn a_run_without_violations_is_not_shrunk() {
        let workload = Workload::saturated(Distribution::Constant(5000));
        let network = Network::new(Distribution::Constant(1000));
        let plan = Plan::new(Setup::new(3), network, workload, 100);
        assert!(shrink("ricart-agrawala", &plan).is_none());
    }
}
