//! Exhaustive searches: fingerprints of states, and what a search has found.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// A fingerprint of 128 bits: two different states share one with a chance of 10^-24.
pub(super) fn digest(state: &impl Hash) -> u128 {
    let mut hasher = Wide(0xcbf2_9ce4_8422_2325);
    state.hash(&mut hasher);
    hasher.0
}

struct Wide(u128);

impl Hasher for Wide {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let mixed = self.0 ^ u128::from(u64::from_le_bytes(word));
            let mixed = mixed.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
            self.0 = mixed ^ (mixed >> 64);
        }
    }

    fn finish(&self) -> u64 {
        self.0 as u64
    }
}

/// Fingerprints are spread already.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        let (low, _) = bytes.split_first_chunk().expect("a fingerprint");
        self.0 = u64::from_le_bytes(*low);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a search has found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) violation: Option<&'static str>,
}

/// Visits all states from `start` on, breadth first, until one is violated.
pub(super) fn search<S: Hash>(
    start: S,
    next: impl Fn(&S) -> Vec<S>,
    violation: impl Fn(&S) -> Option<&'static str>,
) -> Found {
    let mut known: HashSet<u128, BuildHasherDefault<Spread>> = HashSet::default();
    known.insert(digest(&start));
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        for next in next(&state) {
            if !known.insert(digest(&next)) {
                continue;
            }
            if let violation @ Some(_) = violation(&next) {
                return Found { states: known.len(), violation };
            }
            queue.push_back(next);
        }
    }
    Found { states: known.len(), violation: None }
}
