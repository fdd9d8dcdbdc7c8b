//! Values kept once and known by a number, and small tables from numbers to numbers.

use std::{
    hash::{Hash, Hasher},
    marker::PhantomData,
};

use crate::{ids::Id, store::fold};

/// Every distinct value once; its number is the order in which it was first seen.
#[derive(Debug)]
pub(crate) struct Interner<I, T> {
    values: Vec<T>,
    /// The hash of each, so that growing touches no value.
    hashes: Vec<u32>,
    /// Open addressing: a value's number plus one, or zero.
    slots: Vec<u32>,
    ids: PhantomData<I>,
}

impl<I: Id, T: Eq + Hash> Interner<I, T> {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), hashes: Vec::new(), slots: vec![0; 64], ids: PhantomData }
    }

    /// The number of this value, new or known.
    pub(crate) fn id(&mut self, value: T) -> I {
        if (self.values.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let hash = hash(&value);
        let mut index = hash as usize & mask;
        loop {
            let found = self.slots[index];
            if found == 0 {
                break;
            }
            let id = found as usize - 1;
            if self.hashes[id] == hash && self.values[id] == value {
                return I::new(found - 1);
            }
            index = (index + 1) & mask;
        }
        self.values.push(value);
        self.hashes.push(hash);
        let count = u32::try_from(self.values.len()).expect("fewer than 2^32 local situations");
        self.slots[index] = count;
        I::new(count - 1)
    }

    /// All values, in the order of their numbers.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// The value with this number.
    pub(crate) fn get(&self, id: I) -> &T {
        &self.values[id.index()]
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots = vec![0; mask + 1];
        for (id, &hash) in self.hashes.iter().enumerate() {
            let mut index = hash as usize & mask;
            while self.slots[index] != 0 {
                index = (index + 1) & mask;
            }
            self.slots[index] = id as u32 + 1;
        }
    }
}

fn hash<T: Hash>(value: &T) -> u32 {
    let mut mixer = Mixer(0);
    value.hash(&mut mixer);
    (mixer.finish() >> 32) as u32
}

/// A quick hash with no key: what is hashed comes from our own machines, and one search is to be
/// like the next.
struct Mixer(u64);

impl Mixer {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
        self.add(bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.add(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.add(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.add(0);
        last.0
    }
}

/// A table from a pair of numbers to something small: what was once worked out is looked up.
#[derive(Debug)]
pub(crate) struct Memo<A, B, V> {
    /// The key plus one, or zero where there is nothing.
    slots: Vec<(u64, V)>,
    count: usize,
    keys: PhantomData<(A, B)>,
}

impl<A: Id, B: Id, V: Copy + Default> Memo<A, B, V> {
    pub(crate) fn new() -> Self {
        Self { slots: vec![(0, V::default()); 64], count: 0, keys: PhantomData }
    }

    #[inline]
    pub(crate) fn get(&self, a: A, b: B) -> Option<V> {
        let key = key(a, b);
        let mask = self.slots.len() - 1;
        let mut index = spread(key) & mask;
        loop {
            match self.slots[index] {
                (found, value) if found == key => return Some(value),
                (0, _) => return None,
                _ => index = (index + 1) & mask,
            }
        }
    }

    pub(crate) fn set(&mut self, a: A, b: B, value: V) {
        if (self.count + 1) * 2 > self.slots.len() {
            let larger = vec![(0, V::default()); self.slots.len() * 2];
            for (key, value) in std::mem::replace(&mut self.slots, larger) {
                if key != 0 {
                    self.put(key, value);
                }
            }
        }
        self.put(key(a, b), value);
        self.count += 1;
    }

    fn put(&mut self, key: u64, value: V) {
        let mask = self.slots.len() - 1;
        let mut index = spread(key) & mask;
        while self.slots[index].0 != 0 {
            index = (index + 1) & mask;
        }
        self.slots[index] = (key, value);
    }
}

#[inline]
fn key<A: Id, B: Id>(a: A, b: B) -> u64 {
    ((u64::from(a.number()) << 32) | u64::from(b.number())) + 1
}

#[inline]
fn spread(key: u64) -> usize {
    let product = key.wrapping_mul(mutua_algorithms::split_mix::GOLDEN);
    (product ^ (product >> 32)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_number_while_the_tables_grow() {
        let mut interner: Interner<u32, u32> = Interner::new();
        let mut memo: Memo<u32, u32, u32> = Memo::new();
        for value in 0..1000_u32 {
            assert_eq!(interner.id(value * 7), value);
            memo.set(value, value ^ 5, value);
        }
        for value in 0..1000_u32 {
            assert_eq!(interner.id(value * 7), value);
            assert_eq!(memo.get(value, value ^ 5), Some(value));
            assert_eq!(memo.get(value, value ^ 6), None);
        }
        assert_eq!(*interner.get(3), 21);
    }
}
