//! The queue of events: a hierarchical timing wheel.
//!
//! A heap compares its way down at every push and pop; here both take a handful of steps whatever
//! the number of events. Times are exact, and events of equal time come out in the order in which
//! they went in, so that a link of constant latency keeps the order of its messages by itself.
//!
//! Level `l` has one slot per value of the `l`-th digit of the time, in base 2048. An event waits
//! at the level of the highest digit in which its time differs from the present; when the present
//! reaches its slot, it moves to a lower level. It moves before anything later can be put there,
//! which is why the order is kept. Written by hand: every pinned hash depends on exact times
//! and on the order of equal times.

const DIGIT_BITS: u32 = 11;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 6;
const NONE: u32 = u32::MAX;

/// Events by time, first in first out among equals.
#[derive(Debug)]
pub struct Wheel<T> {
    now: u64,
    levels: Vec<Level>,
    /// A bit per level that is not empty.
    filled: u32,
    /// Every event beside its time and successor: with a million waiting, cache misses dominate,
    /// and an event that was moved down a level is in the cache when it comes out.
    links: Vec<Link<T>>,
    free: u32,
    len: usize,
}

#[derive(Debug)]
struct Link<T> {
    time: u64,
    next: u32,
    item: Option<T>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

#[derive(Debug)]
struct Level {
    slots: Box<[List]>,
    /// A bit per slot that is not empty, and a bit per word of these that is not zero.
    occupied: [u64; SLOTS / 64],
    summary: u64,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Wheel<T> {
    /// The bytes of an event that waits.
    pub(crate) const EVENT: usize = size_of::<Link<T>>();

    /// No events, at time 0.
    pub fn new() -> Self {
        Self {
            now: 0,
            levels: (0..LEVELS).map(|_| Level::new()).collect(),
            filled: 0,
            links: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event and returns its index in the store; no other event has this index until it
    /// comes out.
    ///
    /// # Panics
    ///
    /// If the time is past.
    pub fn push(&mut self, time: u64, item: T) -> usize {
        assert!(time >= self.now, "an event for {time} at {}", self.now);
        let index = self.store(time, item);
        self.append(index);
        self.len += 1;
        index as usize
    }

    /// Takes out the next event: its time, its index in the store and the event.
    pub fn pop(&mut self) -> Option<(u64, usize, T)> {
        loop {
            if self.filled == 0 {
                return None;
            }
            let level = self.filled.trailing_zeros() as usize;
            let slot = self.levels[level].first_occupied();
            let List { first, last } = self.levels[level].slots[slot];
            if level == 0 || first == last {
                return Some(self.take_first(level, slot));
            }
            self.move_down(level, slot);
        }
    }

    /// Takes the first event of the first slot. At a higher level it is the only one there, and
    /// everything below is empty, so the present can go straight to it.
    fn take_first(&mut self, level: usize, slot: usize) -> (u64, usize, T) {
        let index = self.levels[level].slots[slot].first;
        let link = &mut self.links[index as usize];
        let (time, next) = (link.time, link.next);
        let item = link.item.take().expect("a waiting event is stored");
        link.next = self.free;
        self.free = index;
        self.levels[level].slots[slot].first = next;
        if next == NONE {
            self.clear(level, slot);
        }
        self.now = time;
        self.len -= 1;
        (time, index as usize, item)
    }

    /// Goes to the earliest event of the slot and spreads the slot over the levels below. Those of
    /// the same time end up at the lowest level at once, however far down that is.
    fn move_down(&mut self, level: usize, slot: usize) {
        let first = self.levels[level].slots[slot].first;
        self.clear(level, slot);
        self.now = self.earliest(first);
        let mut index = first;
        while index != NONE {
            let next = self.links[index as usize].next;
            self.append(index);
            index = next;
        }
    }

    /// The earliest time in a list.
    fn earliest(&self, first: u32) -> u64 {
        let (mut index, mut earliest) = (first, u64::MAX);
        while index != NONE {
            let link = &self.links[index as usize];
            earliest = earliest.min(link.time);
            index = link.next;
        }
        earliest
    }

    fn clear(&mut self, level: usize, slot: usize) {
        self.levels[level].clear(slot);
        if self.levels[level].summary == 0 {
            self.filled &= !(1 << level);
        }
    }

    fn store(&mut self, time: u64, item: T) -> u32 {
        if self.free == NONE {
            let index = u32::try_from(self.links.len()).expect("fewer than 2^32 events");
            self.links.push(Link { time, next: NONE, item: Some(item) });
            return index;
        }
        let index = self.free;
        self.free = self.links[index as usize].next;
        self.links[index as usize] = Link { time, next: NONE, item: Some(item) };
        index
    }

    /// Puts a stored event at the end of its slot.
    fn append(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.next = NONE;
        let highest_difference = (link.time ^ self.now).checked_ilog2().unwrap_or(0);
        let level = (highest_difference / DIGIT_BITS) as usize;
        let digit = link.time >> (DIGIT_BITS as usize * level);
        let slot = digit as usize % SLOTS;
        self.filled |= 1 << level;
        let last = self.levels[level].append(slot, index);
        if last != NONE {
            self.links[last as usize].next = index;
        }
    }
}

impl Level {
    fn new() -> Self {
        Self { slots: vec![EMPTY; SLOTS].into(), occupied: [0; SLOTS / 64], summary: 0 }
    }

    fn first_occupied(&self) -> usize {
        let word = self.summary.trailing_zeros() as usize;
        word * 64 + self.occupied[word].trailing_zeros() as usize
    }

    /// Makes `index` the last of the slot and returns the one that was.
    fn append(&mut self, slot: usize, index: u32) -> u32 {
        let list = &mut self.slots[slot];
        let last = std::mem::replace(&mut list.last, index);
        if last == NONE {
            list.first = index;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.summary |= 1 << (slot / 64);
        }
        last
    }

    fn clear(&mut self, slot: usize) {
        self.slots[slot] = EMPTY;
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.summary &= !(1 << (slot / 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    /// The obvious queue: a sorted map by time and order of arrival.
    #[test]
    fn it_agrees_with_a_sorted_map_at_every_scale() {
        for scale in [0, 3, 11, 20, 23, 40, 62] {
            let mut random = Random::new(scale, 0);
            let (mut wheel, mut map, mut now) = (Wheel::new(), BTreeMap::new(), 0);
            for number in 0..20_000u64 {
                if random.below(100) < 55 {
                    let shift = random.below(scale + 1);
                    let time = now + random.below(1 << shift);
                    wheel.push(time, number);
                    map.insert((time, number), ());
                } else {
                    let expected = map.pop_first().map(|(key, ())| key);
                    let popped = wheel.pop().map(|(time, _, item)| (time, item));
                    assert_eq!(popped, expected, "scale {scale}");
                    now = popped.map_or(now, |(time, _)| time);
                }
                assert_eq!(wheel.len(), map.len());
            }
        }
    }

    #[test]
    fn an_index_of_the_store_is_reused() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.push(5, 'a'), 0);
        assert_eq!(wheel.push(5, 'b'), 1);
        assert_eq!(wheel.pop(), Some((5, 0, 'a')));
        assert_eq!(wheel.push(7, 'c'), 0);
    }
}
