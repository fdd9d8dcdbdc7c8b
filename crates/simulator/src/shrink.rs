//! Makes a run that fails as short as it can.

use std::{cell::RefCell, rc::Rc};

use mutua_algorithms::{Claim, Mutex, NodeId, registry};
use mutua_trace::{Event, Header, Unit, What};

use crate::{Load, Plan, Recorder, Report, Simulation, Wish, simulate};

/// After a request is taken out, messages draw other latencies; so a shorter run is tried with
/// several seeds.
const SEEDS: u64 = 40;

/// How many sizes of smaller systems are tried, with how many seeds, and for how many events each.
const SMALL_NODES: usize = 10;
const SMALL_SEEDS: u64 = 5;
const SMALL_EVENTS: u64 = 100_000;

/// A short run that fails as a longer one did.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The run: its requests are written down one by one.
    pub plan: Plan,
    /// What it shows.
    pub report: Report,
    /// How many runs were tried.
    pub tries: u64,
}

/// Cuts a run that violates something to a short one that violates the same: no requests but those
/// that it takes, and no more processes. None if the run violates nothing, or only with all that
/// was around it.
pub fn shrink(name: &str, plan: &Plan) -> Option<Shrunk> {
    let (wishes, report) = registry::visit_mutex(name, Record { plan })??;
    let property = report.violations.first()?.property;
    let mut search = Search { name, property, tries: 0 };
    if let Some(small) = search.of_a_smaller_system(plan) {
        let tries = search.tries;
        return shrink(name, &small).map(|shrunk| Shrunk { tries: tries + shrunk.tries, ..shrunk });
    }
    let script = Plan { warm_up: Some(0), ..plan.clone() };
    let mut best = search.fails(&script, wishes)?;
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
    /// The same situation with the fewest processes with which it fails too, if there are fewer:
    /// taking requests out of a run of many rarely gets there, since then all else changes.
    fn of_a_smaller_system(&mut self, plan: &Plan) -> Option<Plan> {
        let mut small = plan.clone();
        small.max_events = plan.max_events.min(SMALL_EVENTS);
        for nodes in (2..plan.setup.nodes).take(SMALL_NODES) {
            small.setup.nodes = nodes;
            for seed in plan.seed..plan.seed.saturating_add(SMALL_SEEDS) {
                small.seed = seed;
                self.tries += 1;
                // It may not start at all: a crash or a region may be of a process that is gone.
                let Ok(report) = simulate(self.name, &small)? else { break };
                if report.violations.iter().any(|found| found.property == self.property) {
                    return Some(small);
                }
            }
        }
        None
    }

    /// The run with only these requests, under the first seed with which it fails.
    fn fails(&mut self, plan: &Plan, wishes: Vec<Wish>) -> Option<Found> {
        let entries = wishes.len().max(1) as u64;
        let mut plan = Plan { entries, ..plan.clone() };
        plan.workload.load = Load::Script(wishes);
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

    /// Takes out requests, first in large parts, in the end one by one.
    fn without_chunks(&mut self, best: &mut Found) {
        let mut size = wishes(&best.0).len() / 2;
        while size > 0 {
            let mut from = 0;
            while from < wishes(&best.0).len() {
                let mut fewer = wishes(&best.0).to_vec();
                fewer.drain(from..(from + size).min(fewer.len()));
                match self.fails(&best.0, fewer) {
                    Some(found) => *best = found,
                    None => from += size,
                }
            }
            size /= 2;
        }
    }

    /// Lets the lowest processes ask instead of those that do, so that the others can go.
    fn with_lower_ids(&mut self, best: &mut Found) {
        let mut asking: Vec<_> = wishes(&best.0).iter().map(|wish| wish.node).collect();
        asking.sort();
        asking.dedup();
        let rank = |node| NodeId::from(asking.partition_point(|&other| other < node));
        let renamed = wishes(&best.0).iter().map(|wish| Wish { node: rank(wish.node), ..*wish });
        let renamed: Vec<_> = renamed.collect();
        if renamed != wishes(&best.0)
            && let Some(found) = self.fails(&best.0, renamed)
        {
            *best = found;
        }
    }

    fn beginning_at_zero(&mut self, best: &mut Found) {
        let first = wishes(&best.0).iter().map(|wish| wish.at).min().unwrap_or(0);
        let earlier = wishes(&best.0).iter().map(|wish| Wish { at: wish.at - first, ..*wish });
        let earlier = earlier.collect();
        if first > 0
            && let Some(found) = self.fails(&best.0, earlier)
        {
            *best = found;
        }
    }

    fn with_fewer_processes(&mut self, best: &mut Found) {
        while best.0.setup.nodes > 1 {
            let mut plan = best.0.clone();
            plan.setup.nodes -= 1;
            let stay = |wish: &&Wish| wish.node.0 < plan.setup.nodes;
            let fewer = wishes(&best.0).iter().filter(stay).copied().collect();
            match self.fails(&plan, fewer) {
                Some(found) => *best = found,
                None => return,
            }
        }
    }
}

fn wishes(plan: &Plan) -> &[Wish] {
    match &plan.workload.load {
        Load::Script(wishes) => wishes,
        Load::Light { .. } | Load::Saturated | Load::Think(_) | Load::Bursts { .. } => &[],
    }
}

fn size(plan: &Plan) -> (usize, u32) {
    (wishes(plan).len(), plan.setup.nodes)
}

/// Plays a run and writes its requests down.
struct Record<'a> {
    plan: &'a Plan,
}

impl registry::MutexVisitor for Record<'_> {
    type Output = Option<(Vec<Wish>, Report)>;

    fn visit<M: Mutex>(self) -> Self::Output {
        let wishes = Rc::new(RefCell::new(Wishes::default()));
        let sink = Rc::clone(&wishes);
        let mut simulation = Simulation::<M>::with_recorder(self.plan.clone(), |start| {
            let names = Header::default_names(start);
            let header = Header::new(M::ABOUT.name, start, names, Unit::Nanoseconds);
            Some(Recorder::new(header, move |event| sink.borrow_mut().note(&event)))
        })
        .ok()?;
        while !simulation.is_violated() && simulation.run(1) {}
        Some((wishes.take().asked, simulation.report()))
    }
}

/// The requests of a run, and how long each stayed inside.
#[derive(Debug, Default)]
struct Wishes {
    asked: Vec<Wish>,
    /// Who entered when, of those that are inside.
    inside: Vec<(usize, u64)>,
}

impl Wishes {
    fn note(&mut self, event: &Event) {
        let last = |asked: &[Wish]| asked.iter().rposition(|wish| wish.node == event.who);
        match &event.what {
            What::Request => {
                self.asked.push(Wish { at: event.at, node: event.who, hold: None });
            }
            What::Enter { .. } => {
                self.inside.extend(last(&self.asked).map(|place| (place, event.at)));
            }
            What::Exit => {
                let Some(place) = last(&self.asked) else { return };
                if let Some(known) = self.inside.iter().position(|(inside, _)| *inside == place) {
                    let (_, entered_at) = self.inside.swap_remove(known);
                    self.asked[place].hold = Some(event.at - entered_at);
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
    fn a_few_requests_are_enough_to_break_the_bakery_without_choice() {
        let latency = Distribution::Exponential { mean: 1000 };
        let think = Load::Think(Distribution::Exponential { mean: 8000 });
        let hold = Distribution::Constant(3000);
        let workload = Workload { load: think, ..Workload::saturated(hold) };
        let plan = Plan::new(Setup::new(4), Network::new(latency), workload, 5000);
        let shrunk = shrink("bakery-naive", &plan).expect("it fails");
        assert_eq!(shrunk.report.violations[0].property, Claim::Safety);
        assert!(wishes(&shrunk.plan).len() <= 3, "{:?}", wishes(&shrunk.plan));
        assert!(shrunk.plan.setup.nodes <= 3);
    }

    #[test]
    fn a_failure_of_many_processes_is_shown_with_few() {
        let mut network = Network::new(Distribution::Constant(1000));
        network.fifo = false;
        let workload = Workload::saturated(Distribution::Constant(1000));
        let plan = Plan::new(Setup::new(50), network, workload, 500);
        let shrunk = shrink("lamport", &plan).expect("it fails on links that reorder");
        assert!(wishes(&shrunk.plan).len() <= 4, "{:?}", wishes(&shrunk.plan));
        assert!(shrunk.plan.setup.nodes <= 3, "{}", shrunk.plan.setup.nodes);
    }

    #[test]
    fn a_run_that_holds_cannot_be_shrunk() {
        let workload = Workload::saturated(Distribution::Constant(5000));
        let network = Network::new(Distribution::Constant(1000));
        let plan = Plan::new(Setup::new(3), network, workload, 100);
        assert!(shrink("ricart-agrawala", &plan).is_none());
    }
}
