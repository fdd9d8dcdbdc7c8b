//! Dijkstra's ring as the paper has it: flags that neighbours read directly.

use std::fmt;

use super::{dijkstra::flag_values, moved, privileged};
use crate::{Fields, NodeId, Start, StartError};

/// The flags of a whole ring.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ring {
    k: u32,
    flags: Vec<u32>,
}

/// Flags that do not fit a ring. The ring is unchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlagsError {
    /// So many flags were given, for so many processes.
    Count {
        /// The number of flags.
        flags: usize,
        /// The number of processes.
        processes: usize,
    },
    /// A flag is not below K.
    Range {
        /// The flag.
        flag: u32,
        /// The number of values of a flag.
        k: u32,
    },
}

impl fmt::Display for FlagsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { flags, processes } => {
                write!(f, "{flags} flags for {processes} processes; give one each")
            }
            Self::Range { flag, k } => {
                write!(f, "a flag of {flag}; with k={k} they are 0 to {}", k - 1)
            }
        }
    }
}

impl std::error::Error for FlagsError {}

impl From<FlagsError> for StartError {
    fn from(error: FlagsError) -> Self {
        Self::new(error.to_string())
    }
}

impl Ring {
    /// A ring with these flags, of `k` values each.
    ///
    /// # Panics
    ///
    /// If it has no process, or one of the flags is not below `k`, or `k` not above 1.
    pub fn new(k: u32, flags: Vec<u32>) -> Self {
        assert!(!flags.is_empty(), "a ring has at least 1 process");
        assert!(k > 1, "a flag has at least 2 values, not {k}");
        assert!(flags.iter().all(|&flag| flag < k), "flags below {k}, not {flags:?}");
        Self { k, flags }
    }

    /// The ring as a system starts it: the holder privileged.
    pub fn at_start(start: &Start) -> Self {
        let flag = |node| u32::from(node < start.holder());
        Self::new(flag_values(start), start.all().map(flag).collect())
    }

    /// The same ring with these flags, one for each process.
    pub fn with_flags(&self, flags: &[u32]) -> Result<Self, FlagsError> {
        let (k, processes) = (self.k, self.flags.len());
        if flags.len() != processes {
            return Err(FlagsError::Count { flags: flags.len(), processes });
        }
        match flags.iter().find(|&&flag| flag >= k) {
            Some(&flag) => Err(FlagsError::Range { flag, k }),
            None => Ok(Self::new(k, flags.to_vec())),
        }
    }

    /// Every ring of so many processes, for exhaustive searches: `k` to the power of `processes`.
    pub fn every(processes: u32, k: u32) -> impl Iterator<Item = Self> {
        let count = u64::from(k).pow(processes);
        (0..count).map(move |mut number| {
            let digit = |_| {
                let digit = number % u64::from(k);
                number /= u64::from(k);
                u32::try_from(digit).expect("a digit is below k")
            };
            Self::new(k, (0..processes).map(digit).collect())
        })
    }

    /// How many values a flag has.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The flags.
    pub fn flags(&self) -> &[u32] {
        &self.flags
    }

    /// Whether this process is privileged.
    pub fn is_privileged(&self, node: NodeId) -> bool {
        privileged(node == NodeId(0), self.left_of(node), self.flags[node.index()])
    }

    /// The privileged processes; there is always one.
    pub fn privileged(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.flags.len()).map(NodeId::from).filter(|&node| self.is_privileged(node))
    }

    /// Whether just one process is privileged; it stays so for ever.
    pub fn is_legitimate(&self) -> bool {
        self.privileged().count() == 1
    }

    /// The ring after these processes have moved at once, each by the flags as they were. A process
    /// that is not privileged does not move.
    #[must_use]
    pub fn step(&self, movers: &[NodeId]) -> Self {
        let mut after = self.clone();
        for &node in movers.iter().filter(|&&node| self.is_privileged(node)) {
            let own = self.flags[node.index()];
            after.flags[node.index()] = moved(node == NodeId(0), self.left_of(node), own, self.k);
        }
        after
    }

    /// The state of a process under the paper's names.
    pub fn variables(&self, node: NodeId) -> Fields {
        let flag = self.flags[node.index()];
        vec![("flag", flag.into()), ("privileged", self.is_privileged(node).into())]
    }

    fn left_of(&self, node: NodeId) -> u32 {
        let last = self.flags.len() - 1;
        self.flags[node.index().checked_sub(1).unwrap_or(last)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legitimate_ring_stays_legitimate_and_privileges_each_process_once_per_lap() {
        for n in 2..=5u32 {
            let mut ring = Ring::new(2, vec![0; n as usize]);
            for turn in 0..3 * n {
                assert!(ring.is_legitimate());
                let privileged: Vec<_> = ring.privileged().collect();
                assert_eq!(privileged, [NodeId(turn % n)]);
                ring = ring.step(&privileged);
            }
        }
    }

    #[test]
    fn two_values_for_four_run_in_a_cycle_of_eight_with_three_privileges_each() {
        let mut ring = Ring::new(2, vec![0, 1, 0, 1]);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(ring.flags().iter().map(u32::to_string).collect::<String>());
            assert_eq!(ring.privileged().count(), 3);
            let all: Vec<_> = ring.privileged().collect();
            ring = ring.step(&all);
        }
        let cycle = ["0101", "0010", "1001", "0100", "1010", "1101", "0110", "1011"];
        assert_eq!(seen, cycle);
        assert_eq!(ring.flags(), [0, 1, 0, 1]);
    }

    #[test]
    fn all_processes_are_privileged_in_some_ring_and_one_at_least_in_every_ring() {
        assert!(Ring::every(4, 3).all(|ring| ring.privileged().count() >= 1));
        let full = Ring::every(4, 3).filter(|ring| ring.privileged().count() == 4);
        assert!(full.count() > 0);
    }
}
