//! The workload: requesting processes, times of requests, hold times.

use std::collections::{BTreeMap, VecDeque};

use mutua_algorithms::NodeId;

use crate::{Distribution, Random, random};

/// The end of virtual time, in nanoseconds: about 292 years. Later times would overflow, since no
/// duration is longer than half of it.
pub(crate) const VIRTUAL_TIME: u64 = 1 << 63;

/// The behaviour of the clients.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The times of their requests.
    pub load: Load,
    /// The contenders that request.
    pub who: Who,
    /// The hold time.
    pub hold: Distribution,
}

/// The times of requests.
#[derive(Clone, Debug)]
pub enum Load {
    /// One request at a time: the next requester is drawn and requests after a gap, once no message
    /// is in transit.
    Light {
        /// The gap after the last exit.
        gap: Distribution,
    },
    /// Every client requests again at its exit.
    Saturated,
    /// Every client requests again after a think time.
    Think(Distribution),
    /// Requests arrive at random, whatever the clients do: an open system. A request to a client
    /// that still waits or holds is made at its exit, and waits from its arrival on.
    Poisson {
        /// The mean gap between two requests of all clients together, in nanoseconds.
        gap: u64,
    },
    /// All clients request at once, again and again; a client that still waits or holds requests at
    /// its exit.
    Bursts {
        /// From one burst to the next.
        every: Distribution,
    },
    /// As written in a script; a client that still waits or holds requests at its exit.
    Script(Vec<ScriptedRequest>),
}

/// One request of a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScriptedRequest {
    /// The time of the request, in nanoseconds.
    pub at: u64,
    /// The requesting process.
    pub node: NodeId,
    /// The hold time; none for the workload's.
    pub hold: Option<u64>,
}

/// The contenders that request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    /// All, equally often.
    All,
    /// Only the first so many.
    Hot(u32),
    /// All, but the one of rank r (process r - 1) with weight 1/r^s.
    Zipf(f64),
    /// Only this one.
    One(NodeId),
}

impl Workload {
    /// One request at a time, the mean gap being ten times the time that a message needs to visit
    /// all processes, so that a token on a ring may be anywhere at the next request. Of very many
    /// processes the gap is shorter, so that a warm-up of 10 N entries and N more fit the virtual
    /// clock: requesters are drawn, so a token is as far from the next one after any gap.
    pub fn light(nodes: u32, mean_latency: f64, hold: Distribution) -> Self {
        let longest = VIRTUAL_TIME as f64 / (11.5 * f64::from(nodes)) - hold.mean();
        let mean = (10.0 * f64::from(nodes) * mean_latency).min(longest) as u64;
        Self { load: Load::Light { gap: Distribution::Exponential { mean } }, who: Who::All, hold }
    }

    /// Every client requests again at its exit.
    pub fn saturated(hold: Distribution) -> Self {
        Self { load: Load::Saturated, who: Who::All, hold }
    }

    /// The virtual time that so many entries take at least on average, in nanoseconds.
    pub(crate) fn time_of(&self, entries: u64, contenders: u32) -> f64 {
        let entries = entries as f64;
        let requesters = match self.who {
            Who::All | Who::Zipf(_) => f64::from(contenders),
            Who::Hot(count) => f64::from(count),
            Who::One(_) => 1.0,
        };
        let waits = match &self.load {
            Load::Light { gap } => entries * gap.mean(),
            Load::Think(think) => entries / requesters * think.mean(),
            Load::Poisson { gap } => entries * *gap as f64,
            Load::Bursts { every } => entries / requesters * every.mean(),
            Load::Saturated | Load::Script(_) => 0.0,
        };
        match &self.load {
            Load::Light { .. } => waits + entries * self.hold.mean(),
            _ => waits.max(entries * self.hold.mean()),
        }
    }

    /// The error in it for so many contenders, if there is one.
    pub fn fault(&self, contenders: u32) -> Option<String> {
        let last = contenders - 1;
        match self.who {
            Who::Hot(count) if count == 0 || count > contenders => {
                return Some(format!("invalid hot subset of {count}: give 1 to {contenders}"));
            }
            Who::One(node) if node.0 > last => {
                return Some(format!("unknown process {node} requests: the ids are 0 to {last}"));
            }
            Who::Zipf(exponent) if !(0.0..=10.0).contains(&exponent) => {
                return Some(format!("invalid Zipf exponent `{exponent}`: use 0 to 10"));
            }
            Who::Zipf(_) if matches!(self.load, Load::Saturated | Load::Bursts { .. }) => {
                let why = "a Zipf law needs light load, think:TIME or poisson:RATE: here all \
                           processes request equally often";
                return Some(why.to_owned());
            }
            Who::All | Who::Hot(_) | Who::Zipf(_) | Who::One(_) => {}
        }
        let rhythm = match &self.load {
            Load::Light { gap } => gap.fault(),
            Load::Think(think) => think.fault(),
            Load::Poisson { gap: 0 } => {
                Some("invalid arrival rate: use at most 1e9 requests per second".to_owned())
            }
            Load::Poisson { gap } => Distribution::Exponential { mean: *gap }.fault(),
            Load::Bursts { every } if every.mean() == 0.0 => {
                Some("invalid period of bursts `0ns`: give a time such as 10ms".to_owned())
            }
            Load::Bursts { every } => every.fault(),
            Load::Saturated => None,
            Load::Script(requests) => requests.iter().find_map(|one| {
                let unknown = (one.node.0 > last).then(|| {
                    format!("unknown process {} in the requests: the ids are 0 to {last}", one.node)
                });
                let times = [Some(one.at), one.hold].into_iter().flatten();
                let mut times = times.map(Distribution::Constant);
                unknown.or_else(|| times.find_map(|time| time.fault()))
            }),
        };
        rhythm.or_else(|| self.hold.fault())
    }
}

/// The clients of a run: they draw the next requester, gaps and times.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) workload: Workload,
    contenders: u32,
    random: Random,
    /// The cumulated weights up to each process; empty if all are equal.
    cumulated: Vec<f64>,
    /// The hold times that a script gives, by process.
    scripted: BTreeMap<NodeId, VecDeque<Option<u64>>>,
}

impl Clients {
    pub(crate) fn new(workload: Workload, contenders: u32, seed: u64) -> Self {
        let cumulated = match workload.who {
            Who::Zipf(exponent) => cumulated_weights(exponent, contenders),
            Who::All | Who::Hot(_) | Who::One(_) => Vec::new(),
        };
        let mut scripted: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        if let Load::Script(requests) = &workload.load {
            for request in requests {
                scripted.entry(request.node).or_default().push_back(request.hold);
            }
        }
        Self { workload, contenders, random: Random::new(seed, 2), cumulated, scripted }
    }

    /// The contenders that request at all.
    pub(crate) fn active(&self) -> std::ops::Range<u32> {
        match self.workload.who {
            Who::All | Who::Zipf(_) => 0..self.contenders,
            Who::Hot(count) => 0..count,
            Who::One(node) => node.0..node.0 + 1,
        }
    }

    /// Draws the next requester, for one request at a time.
    pub(crate) fn draw(&mut self) -> NodeId {
        let active = self.active();
        match self.cumulated.last() {
            None => {
                let index = self.random.below(u64::from(active.end - active.start));
                NodeId(active.start + u32::try_from(index).expect("below a 32-bit bound"))
            }
            Some(total) => {
                let drawn = self.random.unit() * total;
                let index = self.cumulated.partition_point(|&sum| sum <= drawn);
                NodeId::from(index.min(self.cumulated.len() - 1))
            }
        }
    }

    /// A gap between two requests at light load.
    pub(crate) fn gap(&mut self, gap: Distribution) -> u64 {
        gap.sample(&mut self.random)
    }

    /// Draws a think time; processes of greater weight think less.
    pub(crate) fn think(&mut self, node: NodeId, think: Distribution) -> u64 {
        if self.cumulated.is_empty() {
            return think.sample(&mut self.random);
        }
        let index = node.index();
        let before = if index == 0 { 0.0 } else { self.cumulated[index - 1] };
        let weight = self.cumulated[index] - before;
        let mean = self.cumulated[self.cumulated.len() - 1] / f64::from(self.contenders);
        think.times(mean / weight).sample(&mut self.random)
    }

    /// The hold time of a process's next entry.
    pub(crate) fn hold(&mut self, node: NodeId) -> u64 {
        let scripted = self.scripted.get_mut(&node).and_then(VecDeque::pop_front);
        scripted.flatten().unwrap_or_else(|| self.workload.hold.sample(&mut self.random))
    }
}

fn cumulated_weights(exponent: f64, contenders: u32) -> Vec<f64> {
    let mut sum = 0.0;
    let weigh = |rank| {
        sum += random::exp(-exponent * random::ln(f64::from(rank)));
        sum
    };
    (1..=contenders).map(weigh).collect()
}

impl Load {
    /// How many requests come in a nanosecond, however many wait, where so many clients request;
    /// none where clients wait for their exits.
    pub(crate) fn rate(&self, clients: u64) -> Option<f64> {
        match self {
            Self::Poisson { gap } => Some(1.0 / *gap as f64),
            Self::Bursts { every } => Some(clients as f64 / every.mean()),
            Self::Light { .. } | Self::Saturated | Self::Think(_) | Self::Script(_) => None,
        }
    }
}

/// Whether so many entries in this time, in nanoseconds, are fewer than the requests that came at
/// this rate, by more than chance.
///
/// The number of requests that come in the time of a run varies by its square root.
pub(crate) fn are_too_few(entries: u64, time: f64, rate: f64) -> bool {
    let chance = 3.0 / (entries.max(1) as f64).sqrt();
    (entries as f64) < (1.0 - chance) * rate * time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(who: Who) -> Vec<f64> {
        let workload = Workload { who, ..Workload::saturated(Distribution::ZERO) };
        let mut clients = Clients::new(workload, 4, 1);
        let mut counts = vec![0.0; 4];
        for _ in 0..40_000 {
            counts[clients.draw().index()] += 1.0 / 40_000.0;
        }
        counts
    }

    #[test]
    fn requesters_are_drawn_by_their_weights() {
        let near = |found: Vec<f64>, expected: [f64; 4]| {
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.01)
        };
        assert!(near(shares(Who::All), [0.25; 4]));
        assert!(near(shares(Who::Hot(2)), [0.5, 0.5, 0.0, 0.0]));
        assert!(near(shares(Who::One(NodeId(2))), [0.0, 0.0, 1.0, 0.0]));
        assert!(near(shares(Who::Zipf(1.0)), [0.48, 0.24, 0.16, 0.12]));
    }
}
