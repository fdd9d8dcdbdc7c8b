//! A worker's cache of look-ups in the catalogue.

use std::marker::PhantomData;

use mutua_algorithms::Time;

use crate::{
    ids::{Id, LocalId, OutboxId},
    intern::Memo,
    model::Model,
};

/// Lists of things by number, all in one array.
pub(crate) struct Table<I, T> {
    /// First and last of each list; the first is past the last where a list is unknown.
    ranges: Vec<(u32, u32)>,
    pub(crate) items: Vec<T>,
    ids: PhantomData<I>,
}

const UNKNOWN: (u32, u32) = (1, 0);

impl<I: Id, T> Table<I, T> {
    pub(crate) fn new() -> Self {
        Self { ranges: Vec::new(), items: Vec::new(), ids: PhantomData }
    }

    #[inline]
    pub(crate) fn range(&self, id: I) -> Option<std::ops::Range<usize>> {
        match self.ranges.get(id.index()) {
            None | Some(&UNKNOWN) => None,
            Some(&(start, end)) => Some(start as usize..end as usize),
        }
    }

    pub(crate) fn set(&mut self, id: I, items: Vec<T>) -> std::ops::Range<usize> {
        if self.ranges.len() <= id.index() {
            self.ranges.resize(id.index() + 1, UNKNOWN);
        }
        let start = self.items.len();
        self.items.extend(items);
        self.ranges[id.index()] = (start as u32, self.items.len() as u32);
        start..self.items.len()
    }
}

/// Shifts of clocks that were worked out before.
pub(crate) struct Shifts {
    lowest_locals: Lowest,
    lowest_outboxes: Lowest,
    local_spans: Memo<LocalId, u32, Span>,
    outbox_spans: Memo<OutboxId, u32, Span>,
    locals: Memo<LocalId, u32, LocalId>,
    outboxes: Memo<OutboxId, u32, OutboxId>,
}

/// The readings of one epoch in one thing: the lowest count among them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    lowest: u32,
}

impl Default for Span {
    fn default() -> Self {
        Self::NONE
    }
}

impl Span {
    /// No reading.
    pub(crate) const NONE: Self = Self { lowest: NO_READING };

    /// Adds a reading.
    pub(crate) fn add(&mut self, time: Time, epoch: u32) {
        if time.epoch() == epoch {
            self.lowest = self.lowest.min(small(time.count()));
        }
    }

    fn join(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest) }
    }
}

impl Shifts {
    pub(crate) fn new() -> Self {
        Self {
            lowest_locals: Lowest(Vec::new()),
            lowest_outboxes: Lowest(Vec::new()),
            local_spans: Memo::new(),
            outbox_spans: Memo::new(),
            locals: Memo::new(),
            outboxes: Memo::new(),
        }
    }

    /// The lowest reading in all of these. Most states have one that is zero; then the rest need
    /// not be looked at.
    #[inline]
    pub(crate) fn lowest(&mut self, model: &Model, locals: &[u32], outboxes: &[u32]) -> u64 {
        let mut lowest = NO_READING;
        for local in locals.iter().copied().map(LocalId) {
            let find = || model.catalogue().lowest_in_local(local);
            lowest = lowest.min(self.lowest_locals.get(local, find));
            if lowest == 0 {
                return 0;
            }
        }
        for outbox in outboxes.iter().copied().map(OutboxId) {
            let find = || model.catalogue().lowest_in_outbox(outbox);
            lowest = lowest.min(self.lowest_outboxes.get(outbox, find));
        }
        u64::from(lowest)
    }

    /// The lowest count of this epoch in all of these.
    pub(crate) fn lowest_of(
        &mut self,
        model: &Model,
        locals: &[u32],
        outboxes: &[u32],
        epoch: u32,
    ) -> u64 {
        let mut span = Span::NONE;
        for local in locals.iter().copied().map(LocalId) {
            let known = self.local_spans.get(local, epoch);
            span = span.join(known.unwrap_or_else(|| {
                let found = model.catalogue().span_in_local(local, epoch);
                self.local_spans.set(local, epoch, found);
                found
            }));
        }
        for outbox in outboxes.iter().copied().map(OutboxId) {
            let known = self.outbox_spans.get(outbox, epoch);
            span = span.join(known.unwrap_or_else(|| {
                let found = model.catalogue().span_in_outbox(outbox, epoch);
                self.outbox_spans.set(outbox, epoch, found);
                found
            }));
        }
        if span.lowest == NO_READING { 0 } else { u64::from(span.lowest) }
    }

    /// Lowers the readings of an epoch.
    pub(crate) fn shift(
        &mut self,
        model: &Model,
        locals: &mut [u32],
        outboxes: &mut [u32],
        epoch: u32,
        by: u64,
    ) {
        // Epochs are few, and so are counts.
        let code = (epoch << 24) | small(by);
        for word in locals {
            let local = LocalId(*word);
            let shifted = self.locals.get(local, code).unwrap_or_else(|| {
                let shifted = model.catalogue().shift_local(local, epoch, by);
                self.locals.set(local, code, shifted);
                shifted
            });
            *word = shifted.0;
        }
        for word in outboxes {
            let outbox = OutboxId(*word);
            let shifted = self.outboxes.get(outbox, code).unwrap_or_else(|| {
                let shifted = model.catalogue().shift_outbox(outbox, epoch, by);
                self.outboxes.set(outbox, code, shifted);
                shifted
            });
            *word = shifted.0;
        }
    }
}

/// The lowest reading in each of many things, by number.
struct Lowest(Vec<u32>);

/// It holds no clock reading.
const NO_READING: u32 = u32::MAX - 1;
/// It was not looked at yet.
const NOT_KNOWN: u32 = u32::MAX;

impl Lowest {
    #[inline]
    fn get(&mut self, id: impl Id, find: impl FnOnce() -> Option<u64>) -> u32 {
        match self.0.get(id.index()) {
            Some(&known) if known != NOT_KNOWN => known,
            Some(_) | None => self.keep(id.index(), find()),
        }
    }

    fn keep(&mut self, index: usize, found: Option<u64>) -> u32 {
        if self.0.len() <= index {
            self.0.resize(index + 1, NOT_KNOWN);
        }
        let found = found.map_or(NO_READING, small);
        self.0[index] = found;
        found
    }
}

/// A reading or a count as a number that leaves room beside it.
pub(crate) fn small(count: u64) -> u32 {
    let found = u32::try_from(count).ok().filter(|&count| count < 1 << 24);
    found.expect("clocks of an exploration stay small")
}

/// Keeps a value under a number.
pub(crate) fn put<T>(known: &mut Vec<Option<T>>, id: impl Id, value: T) {
    if known.len() <= id.index() {
        known.resize_with(id.index() + 1, || None);
    }
    known[id.index()] = Some(value);
}
