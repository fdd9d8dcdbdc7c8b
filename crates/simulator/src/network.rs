//! The network: how long messages take, and what becomes of them.

use std::collections::BTreeMap;

use mutua_algorithms::{NodeId, NodeSet};

use crate::{Distribution, Random};

/// A network and its faults.
#[derive(Clone, Debug)]
pub struct Network {
    /// How long a message is under way.
    pub latency: Latency,
    /// Whether a link keeps the order of its messages.
    pub fifo: bool,
    /// How much longer a message takes that only keeps things going.
    pub pace: u64,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that a message arrives twice.
    pub duplication: f64,
    /// When the network is cut in two.
    pub partitions: Vec<Partition>,
    /// Who is down, and when.
    pub outages: Vec<Outage>,
}

/// How long messages take.
#[derive(Clone, Debug)]
pub enum Latency {
    /// The same between any two.
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

/// A time in which messages between the group and the rest are lost.
#[derive(Clone, Debug)]
pub struct Partition {
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// Who is on one side.
    pub group: NodeSet,
}

/// A time in which a process is down. It loses its memory.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Which process.
    pub node: NodeId,
    /// Since when.
    pub from: u64,
    /// When it is back, if ever.
    pub until: Option<u64>,
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

    /// What is wrong with it for so many processes, if anything.
    pub fn fault(&self, processes: u32) -> Option<String> {
        for (what, probability) in [("loss", self.loss), ("duplication", self.duplication)] {
            if !(0.0..=1.0).contains(&probability) {
                return Some(format!("a {what} of {probability}; it must be from 0 to 1"));
            }
        }
        if let Some(outage) = self.outages.iter().find(|outage| outage.node.0 >= processes) {
            let (node, last) = (outage.node, processes - 1);
            return Some(format!("process {node} is to crash, but they are 0 to {last}"));
        }
        let mut cut_off = self.partitions.iter().flat_map(|partition| partition.group.iter());
        if let Some(node) = cut_off.find(|node| node.0 >= processes) {
            let last = processes - 1;
            return Some(format!("process {node} is to be cut off, but they are 0 to {last}"));
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

    /// A latency that is hardly ever exceeded: what an election takes for T_transmit.
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
    /// region to all, from the second to all, and so on; or what is wrong with them.
    pub fn new(sizes: &[u32], between: Vec<Distribution>) -> Result<Self, String> {
        let count = sizes.len();
        if between.len() != count * count {
            let given = between.len();
            return Err(format!("{count} regions need {} latencies, not {given}", count * count));
        }
        if let Some(empty) = sizes.iter().position(|&size| size == 0) {
            return Err(format!("region {empty} has no process; give every region at least 1"));
        }
        let of = (0..).zip(sizes).flat_map(|(region, &size)| (0..size).map(move |_| region));
        Ok(Self { of: of.collect(), count, between })
    }

    /// The region of a process. One more than was described, such as a dedicated coordinator,
    /// stands in the first.
    pub fn of(&self, node: NodeId) -> usize {
        self.of.get(node.index()).map_or(0, |&region| region as usize)
    }

    /// The latency from one process to another.
    pub fn between(&self, from: NodeId, to: NodeId) -> &Distribution {
        &self.between[self.of(from) * self.count + self.of(to)]
    }

    fn fault(&self, processes: u32) -> Option<String> {
        let described = self.of.len();
        // A dedicated coordinator is one more.
        if described != processes as usize && described + 1 != processes as usize {
            return Some(format!("regions for {described} processes, but there are {processes}"));
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

/// A network at work.
#[derive(Debug)]
pub(crate) struct Links {
    network: Network,
    random: Random,
    /// The latency if every message takes it, none is lost, and order needs no care.
    plain: Option<u64>,
    /// When the last message of each link arrives; kept only where a later one could overtake it.
    last: Vec<BTreeMap<u32, u64>>,
    /// A lazy message goes off when its pace is over, and what is sent meanwhile goes before it,
    /// unless the algorithm needs the order of sending.
    order_matters: bool,
}

/// When a message arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Lost,
    Once(u64),
    Twice(u64, u64),
}

impl Links {
    pub(crate) fn new(mut network: Network, processes: u32, seed: u64) -> Self {
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
            last: vec![BTreeMap::new(); if careful { processes as usize } else { 0 }],
            random: Random::new(seed, 1),
            network,
            order_matters: true,
        }
    }

    /// The same for an algorithm that needs no more than this of its links.
    pub(crate) fn for_needs(self, links: mutua_algorithms::Links) -> Self {
        Self { order_matters: links == mutua_algorithms::Links::Fifo, ..self }
    }

    /// Whether these two stand in different regions.
    pub(crate) fn are_apart(&self, from: NodeId, to: NodeId) -> bool {
        match &self.network.latency {
            Latency::Everywhere(_) => false,
            Latency::Regions(regions) => regions.of(from) != regions.of(to),
        }
    }

    /// Sends a message off.
    pub(crate) fn send(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> Fate {
        match self.plain {
            Some(latency) => Fate::Once(now + latency),
            None => self.send_with_care(now, from, to, lazy),
        }
    }

    fn send_with_care(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> Fate {
        if self.is_cut(now, from, to) || self.random.chance(self.network.loss) {
            return Fate::Lost;
        }
        let first = self.arrival(now, from, to, lazy);
        if self.random.chance(self.network.duplication) {
            return Fate::Twice(first, self.arrival(now, from, to, lazy));
        }
        Fate::Once(first)
    }

    fn arrival(&mut self, now: u64, from: NodeId, to: NodeId, lazy: bool) -> u64 {
        let latency = match &self.network.latency {
            Latency::Everywhere(latency) => latency,
            Latency::Regions(regions) => regions.between(from, to),
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
        self.network.partitions.iter().any(|partition| {
            (partition.from..partition.until).contains(&now)
                && partition.group.contains(from) != partition.group.contains(to)
        })
    }
}

/// Messages that all take the same time cannot overtake each other, so on links that may reorder a
/// constant latency T stands for anything up to 2T.
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
        let mut links = Links::new(network.clone(), 2, 5);
        let send = |number: u64| match links.send(number * 1000, NodeId(0), NodeId(1), false) {
            Fate::Lost => 0,
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
            let mut links = Links::new(network.clone(), 2, 5).for_needs(needs);
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
    fn messages_across_a_partition_are_lost_while_it_lasts() {
        let mut network = Network::new(Distribution::Constant(10));
        let group = [NodeId(0)].into_iter().collect();
        network.partitions.push(Partition { from: 100, until: 200, group });
        let mut links = Links::new(network, 3, 5);
        assert_eq!(links.send(99, NodeId(0), NodeId(1), false), Fate::Once(109));
        assert_eq!(links.send(100, NodeId(0), NodeId(1), false), Fate::Lost);
        assert_eq!(links.send(100, NodeId(1), NodeId(2), false), Fate::Once(110));
        assert_eq!(links.send(200, NodeId(1), NodeId(0), false), Fate::Once(210));
    }
}
