//! The network: latencies, links, faults.

use std::collections::BTreeMap;

use mutua_algorithms::{NodeId, NodeSet};

use crate::{Distribution, Random};

/// A network and its faults.
#[derive(Clone, Debug)]
pub struct Network {
    /// The latency of messages.
    pub latency: Latency,
    /// Whether a link keeps the order of its messages.
    pub fifo: bool,
    /// The extra delay of a lazy message, such as an idle token.
    pub pace: u64,
    /// The probability that a message is dropped.
    pub loss: f64,
    /// The probability that a message is duplicated.
    pub duplication: f64,
    /// The partitions of the network, each with its time.
    pub partitions: Vec<Partition>,
    /// The outages of processes.
    pub outages: Vec<Outage>,
}

/// The latency of messages.
#[derive(Clone, Debug)]
pub enum Latency {
    /// The same distribution between any two processes.
    Everywhere(Distribution),
    /// By the regions of sender and receiver; a matrix for single links is a region per process.
    Regions(Regions),
}

/// Processes in regions, with a latency from every region to every region.
#[derive(Clone, Debug)]
pub struct Regions {
    of: Vec<u32>,
    count: usize,
    between: Vec<Distribution>,
}

/// A period in which messages between a group and the other processes are dropped.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Its begin, in nanoseconds.
    pub from: u64,
    /// Its end, in nanoseconds.
    pub until: u64,
    /// The processes on one side.
    pub group: NodeSet,
}

/// A crash of a process, which loses its memory, and its restart.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// The process.
    pub node: NodeId,
    /// The time of the crash, in nanoseconds.
    pub from: u64,
    /// The time of the restart; none if it never restarts.
    pub until: Option<u64>,
}

/// Why regions cannot be made of these sizes and latencies.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionsError {
    /// There is not one latency from every region to every region.
    #[error("{regions} regions need {} latencies, not {given}", regions * regions)]
    Latencies {
        /// How many regions there are.
        regions: usize,
        /// How many latencies were given.
        given: usize,
    },
    /// A region has no process.
    #[error("region {region} has no process: give every region at least 1")]
    Empty {
        /// Its index, from 0.
        region: usize,
    },
}

impl Network {
    /// Reliable FIFO links with this latency everywhere.
    pub fn new(latency: Distribution) -> Self {
        Self {
            latency: Latency::Everywhere(latency),
            fifo: true,
            pace: 0,
            loss: 0.0,
            duplication: 0.0,
            partitions: Vec::new(),
            outages: Vec::new(),
        }
    }

    /// The error in it for so many processes, if there is one.
    pub fn fault(&self, processes: u32) -> Option<String> {
        for (what, probability) in [("loss", self.loss), ("duplication", self.duplication)] {
            if !(0.0..=1.0).contains(&probability) {
                return Some(format!("invalid {what} `{probability}`: use a number from 0 to 1"));
            }
        }
        if let Some(outage) = self.outages.iter().find(|outage| outage.node.0 >= processes) {
            let (node, last) = (outage.node, processes - 1);
            return Some(format!("unknown process {node} in a crash: the ids are 0 to {last}"));
        }
        let mut cut_off = self.partitions.iter().flat_map(|partition| partition.group.iter());
        if let Some(node) = cut_off.find(|node| node.0 >= processes) {
            let last = processes - 1;
            return Some(format!("unknown process {node} in a partition: the ids are 0 to {last}"));
        }
        match &self.latency {
            Latency::Everywhere(latency) => latency.fault(),
            Latency::Regions(regions) => regions.fault(processes),
        }
    }

    /// The mean latency over all pairs of processes: the unit T of all delays.
    pub fn mean_latency(&self) -> f64 {
        match &self.latency {
            Latency::Everywhere(latency) => latency.mean(),
            Latency::Regions(regions) => regions.mean(),
        }
    }

    /// A latency that is hardly ever exceeded: an election's default for T_transmit.
    pub fn latency_bound(&self) -> u64 {
        match &self.latency {
            Latency::Everywhere(latency) => latency.bound(),
            Latency::Regions(regions) => {
                regions.between.iter().map(Distribution::bound).max().unwrap_or(0)
            }
        }
    }
}

impl Regions {
    /// Regions of these sizes, the lowest ids in the first, with the latencies from the first
    /// region to all, from the second to all, and so on.
    pub fn new(sizes: &[u32], between: Vec<Distribution>) -> Result<Self, RegionsError> {
        let count = sizes.len();
        if between.len() != count * count {
            return Err(RegionsError::Latencies { regions: count, given: between.len() });
        }
        if let Some(empty) = sizes.iter().position(|&size| size == 0) {
            return Err(RegionsError::Empty { region: empty });
        }
        let of = (0..).zip(sizes).flat_map(|(region, &size)| (0..size).map(move |_| region));
        Ok(Self { of: of.collect(), count, between })
    }

    /// The region of a process. An additional process, such as a dedicated coordinator, is in the
    /// first.
    pub fn of(&self, node: NodeId) -> usize {
        self.of.get(node.index()).map_or(0, |&region| region as usize)
    }

    /// The latency from one process to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> &Distribution {
        &self.between[self.of(from) * self.count + self.of(to)]
    }

    fn fault(&self, processes: u32) -> Option<String> {
        let described = self.of.len();
        // A dedicated coordinator is an additional process.
        if described != processes as usize && described + 1 != processes as usize {
            return Some(format!(
                "regions for {described} processes, but the system has {processes}"
            ));
        }
        self.between.iter().find_map(Distribution::fault)
    }

    fn mean(&self) -> f64 {
        let mut sizes = vec![0.0; self.count];
        for &region in &self.of {
            sizes[region as usize] += 1.0;
        }
        let (mut sum, mut pairs) = (0.0, 0.0);
        for from in 0..self.count {
            for to in 0..self.count {
                let others = sizes[to] - if from == to { 1.0 } else { 0.0 };
                sum += sizes[from] * others * self.between[from * self.count + to].mean();
                pairs += sizes[from] * others;
            }
        }
        if pairs > 0.0 { sum / pairs } else { self.between.first().map_or(0.0, Distribution::mean) }
    }
}

/// The links of a run.
#[derive(Debug)]
pub(crate) struct Links {
    network: Network,
    random: Random,
    /// The latency if it is the same for every message and no message is dropped or reordered.
    plain: Option<u64>,
    /// The arrival of the last message of each link; kept only where a later one could overtake it
    /// on a FIFO link.
    last: Vec<BTreeMap<u32, u64>>,
    /// A lazy message leaves after its pace, and messages sent meanwhile overtake it, unless the
    /// algorithm needs FIFO links.
    order_matters: bool,
    /// How many processes there are. With several critical sections each process has an instance
    /// of the algorithm for each of them; those of one section come after each other.
    processes: u32,
}

/// The arrivals of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Dropped,
    Once(u64),
    Twice(u64, u64),
}

impl Links {
    /// The links between so many processes, with links of their own for each critical section: a
    /// message of one section never delays one of another.
    pub(crate) fn new(mut network: Network, processes: u32, sections: u32, seed: u64) -> Self {
        if !network.fifo {
            network.latency = spread(network.latency);
        }
        let constant = match &network.latency {
            Latency::Everywhere(Distribution::Constant(latency)) => Some(*latency),
            Latency::Everywhere(_) | Latency::Regions(_) => None,
        };
        let steady = match &network.latency {
            Latency::Everywhere(latency) => latency.is_constant(),
            Latency::Regions(regions) => regions.between.iter().all(Distribution::is_constant),
        };
        let careful = network.fifo && (!steady || network.pace > 0);
        let reliable =
            network.loss == 0.0 && network.duplication == 0.0 && network.partitions.is_empty();
        Self {
            plain: constant.filter(|_| reliable && network.pace == 0),
            last: vec![BTreeMap::new(); if careful { (processes * sections) as usize } else { 0 }],
            random: Random::new(seed, 1),
            network,
            order_matters: true,
            processes,
        }
    }

    /// The process of an instance.
    pub(crate) fn process(&self, instance: NodeId) -> NodeId {
        match instance.0 < self.processes {
            true => instance,
            false => NodeId(instance.0 % self.processes),
        }
    }

    /// The critical section of an instance.
    pub(crate) fn section(&self, instance: NodeId) -> u32 {
        match instance.0 < self.processes {
            true => 0,
            false => instance.0 / self.processes,
        }
    }

    /// The same for an algorithm with these needs.
    pub(crate) fn for_needs(self, links: mutua_algorithms::Links) -> Self {
        Self { order_matters: links == mutua_algorithms::Links::Fifo, ..self }
    }

    /// Whether these two processes are in different regions.
    pub(crate) fn are_apart(&self, from: NodeId, to: NodeId) -> bool {
        match &self.network.latency {
            Latency::Everywhere(_) => false,
            Latency::Regions(regions) => {
                regions.of(self.process(from)) != regions.of(self.process(to))
            }
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> Fate {
        match self.plain {
            Some(latency) => Fate::Once(now + latency),
            None => self.send_drawn(now, from, to, lazy),
        }
    }

    fn send_drawn(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> Fate {
        if self.is_cut(now, from, to) || self.random.chance(self.network.loss) {
            return Fate::Dropped;
        }
        let first = self.arrival(now, from, to, lazy);
        if self.random.chance(self.network.duplication) {
            return Fate::Twice(first, self.arrival(now, from, to, lazy));
        }
        Fate::Once(first)
    }

    fn arrival(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> u64 {
        let (here, there) = (self.process(from), self.process(to));
        let latency = match &self.network.latency {
            Latency::Everywhere(latency) => latency,
            Latency::Regions(regions) => regions.between(here, there),
        };
        let pace = if lazy { self.network.pace } else { 0 };
        let mut arrival = now + pace + latency.sample(&mut self.random);
        if let Some(last) = self.last.get_mut(from.index()) {
            // Equal times keep the order of sending.
            let last = last.entry(to.0).or_insert(0);
            arrival = arrival.max(*last);
            if !lazy || self.order_matters {
                *last = arrival;
            }
        }
        arrival
    }

    fn is_cut(&self, now: u64, from: NodeId, to: NodeId) -> bool {
        let (from, to) = (self.process(from), self.process(to));
        self.network.partitions.iter().any(|partition| {
            (partition.from..partition.until).contains(&now)
                && partition.group.contains(from) != partition.group.contains(to)
        })
    }
}

/// Messages of equal latency cannot overtake each other, so on links that may reorder a constant
/// latency T becomes uniform from 0 to 2T.
fn spread(latency: Latency) -> Latency {
    let spread_one = |latency: Distribution| match latency {
        Distribution::Constant(value) => Distribution::Uniform { low: 0, high: 2 * value },
        other => other,
    };
    match latency {
        Latency::Everywhere(latency) => Latency::Everywhere(spread_one(latency)),
        Latency::Regions(mut regions) => {
            regions.between.iter_mut().for_each(|latency| *latency = spread_one(*latency));
            Latency::Regions(regions)
        }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::Links as Needs;

    use super::*;

    const MEAN: u64 = 1_000_000;

    fn arrivals(network: &Network) -> Vec<u64> {
        let mut links = Links::new(network.clone(), 2, 1, 5);
        let send = |number: u64| match links.send(number * 1000, NodeId(0), NodeId(1), false) {
            Fate::Dropped => 0,
            Fate::Once(at) | Fate::Twice(at, _) => at,
        };
        (0..1000).map(send).collect()
    }

    #[test]
    fn a_fifo_link_keeps_the_order_and_another_does_not() {
        let mut network = Network::new(Distribution::Exponential { mean: MEAN });
        assert!(arrivals(&network).is_sorted());
        network.fifo = false;
        assert!(!arrivals(&network).is_sorted());
        network.latency = Latency::Everywhere(Distribution::Constant(MEAN));
        assert!(!arrivals(&network).is_sorted());
    }

    #[test]
    fn a_lazy_message_is_overtaken_on_a_fifo_link_only_if_order_does_not_matter() {
        let mut network = Network::new(Distribution::Constant(10));
        network.pace = 1000;
        for (needs, next) in [(Needs::Fifo, 1010), (Needs::Any, 11)] {
            let mut links = Links::new(network.clone(), 2, 1, 5).for_needs(needs);
            assert_eq!(links.send(0, NodeId(0), NodeId(1), true), Fate::Once(1010));
            assert_eq!(links.send(1, NodeId(0), NodeId(1), false), Fate::Once(next));
        }
    }

    #[test]
    fn the_mean_is_over_pairs_of_processes() {
        let [near, far] = [1, 100].map(Distribution::Constant);
        let regions = Regions::new(&[2, 1], vec![near, far, far, near]).unwrap();
        // Of the six ordered pairs two are near.
        assert!((regions.mean() - (2.0 + 400.0) / 6.0).abs() < 1e-9);
        assert!(regions.fault(3).is_none());
        assert!(regions.fault(5).unwrap().contains("regions for 3"));
    }

    #[test]
    fn messages_across_a_partition_are_dropped_while_it_lasts() {
        let mut network = Network::new(Distribution::Constant(10));
        let group = [NodeId(0)].into_iter().collect();
        network.partitions.push(Partition { from: 100, until: 200, group });
        let mut links = Links::new(network, 3, 1, 5);
        assert_eq!(links.send(99, NodeId(0), NodeId(1), false), Fate::Once(109));
        assert_eq!(links.send(100, NodeId(0), NodeId(1), false), Fate::Dropped);
        assert_eq!(links.send(100, NodeId(1), NodeId(2), false), Fate::Once(110));
        assert_eq!(links.send(200, NodeId(1), NodeId(0), false), Fate::Once(210));
    }
}
