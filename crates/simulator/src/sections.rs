//! Several critical sections at once.
//!
//! Every process has an instance of the algorithm for each section, with its own clock and its own
//! links, so a message of one section never touches another. Instances are numbered: those of the
//! first section by their processes, then those of the second, and so on. A process requests one
//! section at a time, drawn anew for each request.

use mutua_algorithms::{Effect, NodeId, Start};

use crate::{Plan, Random, random, world::Client};

/// The critical sections of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sections {
    /// How many there are.
    pub count: u32,
    /// The one of rank r (section r - 1) is requested with weight 1/r^s; with 0 all are requested
    /// equally often.
    pub exponent: f64,
}

/// How many instances of an algorithm a run may have.
const INSTANCES: u64 = 100_000_000;

impl Sections {
    /// One critical section.
    pub const ONE: Self = Self { count: 1, exponent: 0.0 };

    /// Why a plan cannot have them, if it cannot.
    pub(crate) fn fault(self, plan: &Plan, start: &Start) -> Option<String> {
        let instances = u64::from(self.count) * u64::from(start.processes());
        if self.count == 0 {
            Some("invalid number of critical sections `0`: give at least 1".to_owned())
        } else if !(0.0..=10.0).contains(&self.exponent) {
            Some(format!("invalid Zipf exponent `{}` of sections: use 0 to 10", self.exponent))
        } else if instances > INSTANCES {
            Some(format!(
                "{} critical sections of {} processes: at most {INSTANCES} instances in all",
                self.count,
                start.processes()
            ))
        } else if plan.app_messages.is_some() {
            Some("messages of the application belong to no critical section: use one".to_owned())
        } else if start.in_cs().is_some() {
            Some("a process in the critical section at the start: use one section".to_owned())
        } else {
            None
        }
    }
}

/// The sections that processes request.
#[derive(Debug)]
pub(crate) struct Choice {
    count: u32,
    processes: u32,
    random: Random,
    /// The cumulated weights up to each section.
    cumulated: Vec<f64>,
    /// The section of the last request of each process; empty if there is one section.
    last: Vec<u32>,
}

impl Choice {
    pub(crate) fn new(sections: Sections, processes: u32, seed: u64) -> Self {
        let Sections { count, exponent } = sections;
        let several = if count > 1 { count } else { 0 };
        let mut sum = 0.0;
        let weigh = |rank| {
            sum += random::exp(-exponent * random::ln(f64::from(rank)));
            sum
        };
        Self {
            count,
            processes,
            random: Random::new(seed, 11),
            cumulated: (1..=several).map(weigh).collect(),
            last: vec![0; if count > 1 { processes as usize } else { 0 }],
        }
    }

    /// The instance of the last request of a process.
    pub(crate) fn last(&self, process: NodeId) -> NodeId {
        match self.last.get(process.index()) {
            Some(section) => NodeId(section * self.processes + process.0),
            None => process,
        }
    }

    /// The instance of the next request of a process.
    pub(crate) fn choose(&mut self, process: NodeId) -> NodeId {
        if let Some(total) = self.cumulated.last() {
            let drawn = self.random.unit() * total;
            let section = self.cumulated.partition_point(|&sum| sum <= drawn);
            self.last[process.index()] = (section as u32).min(self.count - 1);
        }
        self.last(process)
    }

    /// All instances of a process.
    pub(crate) fn instances(&self, process: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let processes = self.processes;
        (0..self.count).map(move |section| NodeId(section * processes + process.0))
    }

    /// The number of the first instance in the section of this one.
    pub(crate) fn first_of(&self, instance: NodeId) -> u32 {
        match instance.0 < self.processes {
            true => 0,
            false => instance.0 - instance.0 % self.processes,
        }
    }
}

/// Carries out an effect of an instance, whose section begins at this number.
pub(crate) fn shifted<M>(effect: Effect<'_, M>, first: u32, perform: impl FnOnce(Effect<'_, M>)) {
    let shift = |node: NodeId| NodeId(node.0 + first);
    match effect {
        Effect::Send { to, message, lazy } => {
            perform(Effect::Send { to: shift(to), message, lazy });
        }
        Effect::Multicast { to, message } => {
            let to: Vec<_> = to.iter().copied().map(shift).collect();
            perform(Effect::Multicast { to: &to, message });
        }
        Effect::Enter => perform(Effect::Enter),
        Effect::Nonsense { from, why } => perform(Effect::Nonsense { from: shift(from), why }),
    }
}

/// The clients of the processes, with the figures of all their instances.
pub(crate) fn merged(clients: &[&Client], processes: u32) -> Vec<Client> {
    let mut merged = vec![Client::default(); processes as usize];
    for (instance, client) in clients.iter().enumerate() {
        let process = &mut merged[instance % processes as usize];
        process.sent += client.sent;
        process.received += client.received;
        process.waited += client.waited;
        process.entries += client.entries;
    }
    merged
}
