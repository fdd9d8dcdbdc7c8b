//! Messages of the application, which processes send each other beside the algorithm.
//!
//! EM3 concerns them too. A request that a process makes before it sends such a message happens
//! before everything that the receiver does afterwards, and an algorithm that does not see the
//! message may grant a later request of the receiver first.

use mutua_algorithms::{NodeId, Time};

use crate::{Distribution, Random};

/// A message of the application in transit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppMessage {
    pub(crate) sent: Time,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// The application: every process sends a message to a random other process, again and again.
#[derive(Debug)]
pub(crate) struct AppMessages {
    every: Distribution,
    processes: u32,
    random: Random,
    /// How many of its events wait in the wheel: sends to come, and messages in transit.
    pub(crate) waiting: usize,
}

/// The fault of such gaps between messages, if there is one.
pub(crate) fn fault(every: &Distribution) -> Option<String> {
    if every.mean() == 0.0 {
        return Some(
            "invalid gap between application messages `0ns`: give a time such as 1ms".to_owned(),
        );
    }
    every.fault()
}

impl AppMessages {
    /// Of so many processes, each of which sends its next message after such a gap.
    pub(crate) fn new(every: Distribution, processes: u32, seed: u64) -> Self {
        Self { every, processes, random: Random::new(seed, 7), waiting: 0 }
    }

    /// The processes that send: none if there is only one.
    pub(crate) fn senders(&self) -> std::ops::Range<u32> {
        if self.processes > 1 { 0..self.processes } else { 0..0 }
    }

    /// Draws the gap until the next message of a process.
    pub(crate) fn gap(&mut self) -> u64 {
        self.every.sample(&mut self.random).max(1)
    }

    /// Draws the receiver of a message from this process.
    pub(crate) fn receiver(&mut self, from: NodeId) -> NodeId {
        let drawn = self.random.below(u64::from(self.processes - 1));
        let drawn = u32::try_from(drawn).expect("below a 32-bit bound");
        NodeId(if drawn < from.0 { drawn } else { drawn + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_process_receives_and_none_sends_to_itself() {
        let mut messages = AppMessages::new(Distribution::Constant(5), 4, 1);
        let mut receivers: Vec<_> = (0..200).map(|_| messages.receiver(NodeId(2)).0).collect();
        receivers.sort_unstable();
        receivers.dedup();
        assert_eq!(receivers, [0, 1, 3]);
        assert!(AppMessages::new(Distribution::ZERO, 1, 1).senders().is_empty());
    }
}
