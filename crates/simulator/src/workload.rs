//! Who asks for the critical section, when, and how long it stays inside.

use std::collections::{BTreeMap, VecDeque};

use mutua_algorithms::NodeId;

use crate::{Distribution, Random, random};

/// What the clients do.
#[derive(Clone, Debug)]
pub struct Workload {
    /// When they ask.
    pub load: Load,
    /// Which of them ask.
    pub who: Who,
    /// How long they stay inside.
    pub hold: Distribution,
}

/// When clients ask.
#[derive(Clone, Debug)]
pub enum Load {
    /// One at a time: the next is drawn anew and asks after a gap, once everything has come to
    /// rest.
    Light {
        /// The gap after the last one has left.
        gap: Distribution,
    },
    /// Everybody asks again the moment it leaves.
    Saturated,
    /// Everybody asks again some time after it has left.
    Think(Distribution),
    /// Everybody asks at once, time and again; who still waits or is inside asks when it has left.
    Bursts {
        /// From one burst to the next.
        every: Distribution,
    },
    /// As written down; who still waits or is inside asks when it has left.
    Script(Vec<Wish>),
}

/// One request of a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wish {
    /// When.
    pub at: u64,
    /// Who.
    pub node: NodeId,
    /// How long it stays inside, if that is said.
    pub hold: Option<u64>,
}

/// Which of the contenders ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    /// All alike.
    All,
    /// Only the first so many.
    Hot(u32),
    /// All, but the one of rank r (process r - 1) with weight 1/r^s.
    Zipf(f64),
    /// Only this one.
    One(NodeId),
}

impl Workload {
    /// One at a time, the gap being ten times what a message needs to visit all, so that the ring's
    /// token may be anywhere when the next one asks.
    pub fn light(nodes: u32, mean_latency: f64, hold: Distribution) -> Self {
        let mean = (10.0 * f64::from(nodes) * mean_latency) as u64;
        Self { load: Load::Light { gap: Distribution::Exponential { mean } }, who: Who::All, hold }
    }

    /// Everybody always wants in.
    pub fn saturated(hold: Distribution) -> Self {
        Self { load: Load::Saturated, who: Who::All, hold }
    }

    /// What is wrong with it for so many contenders, if anything.
    pub fn fault(&self, contenders: u32) -> Option<String> {
        let last = contenders - 1;
        match self.who {
            Who::Hot(count) if count == 0 || count > contenders => {
                return Some(format!("{count} of {contenders} are hot; give 1 to {contenders}"));
            }
            Who::One(node) if node.0 > last => {
                return Some(format!("only process {node} asks, but they are 0 to {last}"));
            }
            Who::Zipf(exponent) if !(0.0..=10.0).contains(&exponent) => {
                return Some(format!("a Zipf exponent of {exponent}; it must be from 0 to 10"));
            }
            Who::Zipf(_) if matches!(self.load, Load::Saturated | Load::Bursts { .. }) => {
                let why = "a Zipf law is about how often one asks, and here all ask alike; \
                           it goes with light load or think:TIME";
                return Some(why.to_owned());
            }
            Who::All | Who::Hot(_) | Who::Zipf(_) | Who::One(_) => {}
        }
        let rhythm = match &self.load {
            Load::Light { gap } => gap.fault(),
            Load::Think(think) => think.fault(),
            Load::Bursts { every } if every.mean() == 0.0 => {
                Some("a burst every 0ns; give a period".to_owned())
            }
            Load::Bursts { every } => every.fault(),
            Load::Saturated => None,
            Load::Script(wishes) => wishes.iter().find(|wish| wish.node.0 > last).map(|wish| {
                format!("the script lets process {} ask, but they are 0 to {last}", wish.node)
            }),
        };
        rhythm.or_else(|| self.hold.fault())
    }
}

/// The clients at work: they draw who asks next and when.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) workload: Workload,
    contenders: u32,
    random: Random,
    /// The sum of the weights up to each process; empty if all weigh the same.
    cumulated: Vec<f64>,
    /// How long each stays inside, as far as a script says so.
    scripted: BTreeMap<NodeId, VecDeque<Option<u64>>>,
}

impl Clients {
    pub(crate) fn new(workload: Workload, contenders: u32, seed: u64) -> Self {
        let cumulated = match workload.who {
            Who::Zipf(exponent) => cumulated_weights(exponent, contenders),
            Who::All | Who::Hot(_) | Who::One(_) => Vec::new(),
        };
        let mut scripted: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        if let Load::Script(wishes) = &workload.load {
            for wish in wishes {
                scripted.entry(wish.node).or_default().push_back(wish.hold);
            }
        }
        Self { workload, contenders, random: Random::new(seed, 2), cumulated, scripted }
    }

    /// Those who ask at all.
    pub(crate) fn active(&self) -> std::ops::Range<u32> {
        match self.workload.who {
            Who::All | Who::Zipf(_) => 0..self.contenders,
            Who::Hot(count) => 0..count,
            Who::One(node) => node.0..node.0 + 1,
        }
    }

    /// Who asks next, where one at a time does.
    pub(crate) fn draw(&mut self) -> NodeId {
        let active = self.active();
        match self.cumulated.last() {
            None => {
                let place = self.random.below(u64::from(active.end - active.start));
                NodeId(active.start + u32::try_from(place).expect("below a 32-bit bound"))
            }
            Some(total) => {
                let drawn = self.random.unit() * total;
                let place = self.cumulated.partition_point(|&sum| sum <= drawn);
                NodeId::from(place.min(self.cumulated.len() - 1))
            }
        }
    }

    /// A gap between two requests at light load.
    pub(crate) fn gap(&mut self, gap: Distribution) -> u64 {
        gap.sample(&mut self.random)
    }

    /// How long this one rests before it asks again; those of more weight rest less.
    pub(crate) fn think(&mut self, node: NodeId, think: Distribution) -> u64 {
        if self.cumulated.is_empty() {
            return think.sample(&mut self.random);
        }
        let place = node.index();
        let before = if place == 0 { 0.0 } else { self.cumulated[place - 1] };
        let weight = self.cumulated[place] - before;
        let mean = self.cumulated[self.cumulated.len() - 1] / f64::from(self.contenders);
        think.times(mean / weight).sample(&mut self.random)
    }

    /// How long the next stay of this one lasts.
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
