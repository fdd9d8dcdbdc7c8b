//! The states that were reached: flat, a few dozen bytes each, with the way back.

use crate::ids::StateId;

/// The parent of the start, which has none.
pub(crate) const NO_PARENT: StateId = StateId(u32::MAX);

/// States of equal width in one arena, with a table to find them again. A number here counts the
/// states of one worker; with the worker it makes a [`StateId`].
///
/// A slot of the table holds 32 bits of the hash and the state's number. The bits decide the slot
/// too, so that growing the table reads it once from front to back and touches no state.
#[derive(Debug)]
pub(crate) struct Store {
    width: usize,
    words: Vec<u32>,
    parents: Vec<StateId>,
    slots: Vec<u64>,
}

impl Store {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, words: Vec::new(), parents: Vec::new(), slots: vec![0; 1 << 10] }
    }

    /// Keeps a state unless it is known; its number, and whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, state: &[u32], hash: u64, parent: StateId) -> (u32, bool) {
        let tag = hash >> 32;
        let mut position = slot_of(tag, self.slots.len());
        loop {
            let slot = self.slots[position];
            if slot == 0 {
                break;
            }
            if slot >> 32 == tag {
                let index = slot as u32 - 1;
                if self.get(index) == state {
                    return (index, false);
                }
            }
            position += 1;
            if position == self.slots.len() {
                position = 0;
            }
        }
        let index = self.parents.len() as u32;
        self.words.extend_from_slice(state);
        self.parents.push(parent);
        self.slots[position] = (tag << 32) | u64::from(index + 1);
        if self.parents.len() * 5 > self.slots.len() * 4 {
            self.grow();
        }
        (index, true)
    }

    /// The number of a state that is known.
    pub(crate) fn find(&self, state: &[u32], hash: u64) -> Option<u32> {
        let tag = hash >> 32;
        let mut position = slot_of(tag, self.slots.len());
        loop {
            let slot = self.slots[position];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == tag && self.get(slot as u32 - 1) == state {
                return Some(slot as u32 - 1);
            }
            position = (position + 1) % self.slots.len();
        }
    }

    /// The state with this number.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &[u32] {
        let start = index as usize * self.width;
        &self.words[start..start + self.width]
    }

    /// From which state this one was first reached.
    pub(crate) fn parent(&self, index: u32) -> StateId {
        self.parents[index as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.parents.len() as u32
    }

    /// The memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 4 + self.parents.len() * 4 + self.slots.len() * 8
    }

    fn grow(&mut self) {
        let larger = self.slots.len() / 2 * 3;
        let old = std::mem::replace(&mut self.slots, vec![0; larger]);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            let mut position = slot_of(slot >> 32, larger);
            while self.slots[position] != 0 {
                position += 1;
                if position == larger {
                    position = 0;
                }
            }
            self.slots[position] = slot;
        }
    }
}

#[inline]
fn slot_of(tag: u64, slots: usize) -> usize {
    ((tag * slots as u64) >> 32) as usize
}

/// The hash of a state: its high bits choose the slot.
#[inline]
pub(crate) fn hash(state: &[u32]) -> u64 {
    let mut hash = 0x243F_6A88_85A3_08D3_u64;
    let mut pairs = state.chunks_exact(2);
    for pair in &mut pairs {
        hash = fold(hash ^ (u64::from(pair[0]) | (u64::from(pair[1]) << 32)));
    }
    for &word in pairs.remainder() {
        hash = fold(hash ^ u64::from(word));
    }
    fold(hash)
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
pub(crate) fn fold(value: u64) -> u64 {
    let product =
        u128::from(value ^ 0xF39C_C060_5CED_C835) * u128::from(mutua_algorithms::split_mix::GOLDEN);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_again_while_the_table_grows() {
        let mut store = Store::new(3);
        for number in 0..50_000_u32 {
            let state = [number, number / 7, number % 11];
            assert_eq!(store.insert(&state, hash(&state), NO_PARENT), (number, true));
        }
        for number in 0..50_000_u32 {
            let state = [number, number / 7, number % 11];
            assert_eq!(store.insert(&state, hash(&state), StateId(5)), (number, false));
            assert_eq!(store.find(&state, hash(&state)), Some(number));
        }
        let stranger = [1, 2, 3];
        assert_eq!(store.find(&stranger, hash(&stranger)), None);
    }
}
