//! Messages of the application: what processes tell each other beside the algorithm.
//!
//! EM3 speaks of them too. A process that asks and then tells another has asked before all that the
//! other one does afterwards, and an algorithm that does not know of it may let that one in first.

use mutua_algorithms::{NodeId, Time};

use crate::{Distribution, Random};

/// A message of the application under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) sent: Time,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// Every process tells another one something, time and again.
#[derive(Debug)]
pub(crate) struct Tells {
    every: Distribution,
    processes: u32,
    random: Random,
    /// How many events of its own wait in the wheel: next ones to be told, and those under way.
    pub(crate) waiting: usize,
}

/// What is wrong with telling each other after such times, if anything.
pub(crate) fn fault(every: &Distribution) -> Option<String> {
    if every.mean() == 0.0 {
        return Some("a message of the application every 0ns; give a time, as 1ms".to_owned());
    }
    every.fault()
}

impl Tells {
    /// Among so many processes, each telling after this time again.
    pub(crate) fn new(every: Distribution, processes: u32, seed: u64) -> Self {
        Self { every, processes, random: Random::new(seed, 7), waiting: 0 }
    }

    /// Those who tell.
    pub(crate) fn who(&self) -> std::ops::Range<u32> {
        if self.processes > 1 { 0..self.processes } else { 0..0 }
    }

    /// How long until the next one.
    pub(crate) fn gap(&mut self) -> u64 {
        self.every.sample(&mut self.random).max(1)
    }

    /// Whom this one tells.
    pub(crate) fn listener(&mut self, from: NodeId) -> NodeId {
        let drawn = self.random.below(u64::from(self.processes - 1));
        let drawn = u32::try_from(drawn).expect("below a 32-bit bound");
        NodeId(if drawn < from.0 { drawn } else { drawn + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_else_is_told_and_nobody_tells_itself() {
        let mut tells = Tells::new(Distribution::Constant(5), 4, 1);
        let mut told: Vec<_> = (0..200).map(|_| tells.listener(NodeId(2)).0).collect();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told, [0, 1, 3]);
        assert!(Tells::new(Distribution::ZERO, 1, 1).who().is_empty());
    }
}
