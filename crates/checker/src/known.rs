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
    lowest_locals: Vec<Option<u64>>,
    lowest_outboxes: Vec<Option<u64>>,
    locals: Memo<u32>,
    outboxes: Memo<u32>,
}

impl Shifts {
    pub(crate) fn new() -> Self {
        Self {
            lowest_locals: Vec::new(),
            lowest_outboxes: Vec::new(),
            locals: Memo::new(),
            outboxes: Memo::new(),
        }
    }

    pub(crate) fn lowest(&mut self, model: &Model, locals: &[u32], outboxes: &[u32]) -> u64 {
        let mut lowest = u64::MAX;
        for &local in locals {
            lowest = lowest.min(match self.lowest_locals.get(local as usize) {
                Some(Some(known)) => *known,
                None | Some(None) => {
                    let found = model.catalogue().lowest_in_local(local).unwrap_or(u64::MAX);
                    put(&mut self.lowest_locals, local, found);
                    found
                }
            });
        }
        for &outbox in outboxes {
            lowest = lowest.min(match self.lowest_outboxes.get(outbox as usize) {
                Some(Some(known)) => *known,
                None | Some(None) => {
                    let found = model.catalogue().lowest_in_outbox(outbox).unwrap_or(u64::MAX);
                    put(&mut self.lowest_outboxes, outbox, found);
                    found
                }
            });
        }
        lowest
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

/// Keeps a value under a number.
pub(crate) fn put<T>(known: &mut Vec<Option<T>>, id: u32, value: T) {
    if known.len() <= id as usize {
        known.resize_with(id as usize + 1, || None);
    }
    known[id as usize] = Some(value);
}
