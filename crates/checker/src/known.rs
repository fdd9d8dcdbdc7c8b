//! What a worker has looked up before.

use crate::{intern::Memo, model::Model};

/// Lists of things by number, all in one array.
pub(crate) struct Table<T> {
    /// First and last of each list; the first is past the last where a list is unknown.
    ranges: Vec<(u32, u32)>,
    pub(crate) items: Vec<T>,
}

const UNKNOWN: (u32, u32) = (1, 0);

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { ranges: Vec::new(), items: Vec::new() }
    }

    #[inline]
    pub(crate) fn range(&self, id: u32) -> Option<std::ops::Range<usize>> {
        match self.ranges.get(id as usize) {
            None | Some(&UNKNOWN) => None,
            Some(&(start, end)) => Some(start as usize..end as usize),
        }
    }

    pub(crate) fn set(&mut self, id: u32, items: Vec<T>) -> std::ops::Range<usize> {
        if self.ranges.len() <= id as usize {
            self.ranges.resize(id as usize + 1, UNKNOWN);
        }
        let start = self.items.len();
        self.items.extend(items);
        self.ranges[id as usize] = (start as u32, self.items.len() as u32);
        start..self.items.len()
    }
}

/// Shifts of clocks that were worked out before.
pub(crate) struct Shifts {
    lowest_locals: Lowest,
    lowest_outboxes: Lowest,
    locals: Memo<u32>,
    outboxes: Memo<u32>,
}

impl Shifts {
    pub(crate) fn new() -> Self {
        Self {
            lowest_locals: Lowest(Vec::new()),
            lowest_outboxes: Lowest(Vec::new()),
            locals: Memo::new(),
            outboxes: Memo::new(),
        }
    }

    /// The lowest reading in all of these. Most states have one that is zero; then the rest need
    /// not be looked at.
    #[inline]
    pub(crate) fn lowest(&mut self, model: &Model, locals: &[u32], outboxes: &[u32]) -> u64 {
        let mut lowest = NO_READING;
        for &local in locals {
            let find = || model.catalogue().lowest_in_local(local);
            lowest = lowest.min(self.lowest_locals.get(local, find));
            if lowest == 0 {
                return 0;
            }
        }
        for &outbox in outboxes {
            let find = || model.catalogue().lowest_in_outbox(outbox);
            lowest = lowest.min(self.lowest_outboxes.get(outbox, find));
        }
        u64::from(lowest)
    }

    pub(crate) fn shift(
        &mut self,
        model: &Model,
        locals: &mut [u32],
        outboxes: &mut [u32],
        by: u64,
    ) {
        let code = u32::try_from(by).expect("clocks of an exploration stay small");
        for local in locals {
            *local = self.locals.get(*local, code).unwrap_or_else(|| {
                let shifted = model.catalogue().shift_local(*local, by);
                self.locals.set(*local, code, shifted);
                shifted
            });
        }
        for outbox in outboxes {
            *outbox = self.outboxes.get(*outbox, code).unwrap_or_else(|| {
                let shifted = model.catalogue().shift_outbox(*outbox, by);
                self.outboxes.set(*outbox, code, shifted);
                shifted
            });
        }
    }
}

/// The lowest reading in each of many things, by number.
struct Lowest(Vec<u32>);

/// There is no reading in it.
const NO_READING: u32 = u32::MAX - 1;
/// It was not looked at yet.
const NOT_KNOWN: u32 = u32::MAX;

impl Lowest {
    #[inline]
    fn get(&mut self, id: u32, find: impl FnOnce() -> Option<u64>) -> u32 {
        match self.0.get(id as usize) {
            Some(&known) if known != NOT_KNOWN => known,
            Some(_) | None => self.keep(id, find()),
        }
    }

    fn keep(&mut self, id: u32, found: Option<u64>) -> u32 {
        if self.0.len() <= id as usize {
            self.0.resize(id as usize + 1, NOT_KNOWN);
        }
        let found = found.map_or(NO_READING, |reading| {
            u32::try_from(reading).expect("clocks of an exploration stay small")
        });
        self.0[id as usize] = found;
        found
    }
}

/// Keeps a value under a number.
pub(crate) fn put<T>(known: &mut Vec<Option<T>>, id: u32, value: T) {
    if known.len() <= id as usize {
        known.resize_with(id as usize + 1, || None);
    }
    known[id as usize] = Some(value);
}
