//! How sure one can be of a single run: the means of its parts, as if each were a run of its own.
//!
//! Entries that follow each other depend on each other, so their spread says little. Means over
//! long parts hardly depend on each other, and their spread gives the interval (the method of batch
//! means).

use std::collections::BTreeMap;

use crate::{Interval, measures::Measures};

/// Into so many parts a run is cut.
const PARTS: u64 = 20;

/// No part is shorter than so many entries; a run too short for five of them has no intervals.
const SHORTEST: u64 = 10;
const FEWEST: usize = 5;

/// The counters at the ends of the parts.
#[derive(Debug)]
pub(crate) struct Batches {
    /// How many entries a part has; 0 if the run is too short.
    size: u64,
    next: u64,
    marks: Vec<Mark>,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    entries: u64,
    messages: u64,
    multicasts: u64,
    bytes: f64,
    client_delay: (u64, u128),
    sync_delay: (u64, u128),
    time_inside: u64,
}

impl Batches {
    /// Of a run of so many entries. In whole rounds of all who ask, as far as a part is that long,
    /// so that a part does not depend on who enters in it.
    pub(crate) fn new(entries: u64, contenders: u64) -> Self {
        let size = (entries / PARTS).max(SHORTEST);
        let size = if size >= contenders { size - size % contenders.max(1) } else { size };
        let size = if entries / size < FEWEST as u64 { 0 } else { size };
        Self { size, next: 0, marks: Vec::new() }
    }

    /// Whether a part ends after so many entries.
    pub(crate) fn is_due(&self, entries: u64) -> bool {
        entries == self.next && self.size > 0
    }

    /// A part ends, and the next one begins.
    pub(crate) fn mark(&mut self, measures: &Measures, now: u64) {
        self.next += self.size;
        self.marks.push(Mark {
            at: now,
            entries: measures.entries,
            messages: measures.messages,
            multicasts: measures.multicasts,
            bytes: measures.bytes(),
            client_delay: measures.client_delay.count_and_sum(),
            sync_delay: measures.sync_delay.count_and_sum(),
            time_inside: measures.time_inside,
        });
    }

    /// The half widths of the 95 % intervals, by the names of the measures. Delays are in units of
    /// `unit`.
    pub(crate) fn half_widths(&self, unit: f64) -> BTreeMap<&'static str, f64> {
        let parts: Vec<_> = self.marks.windows(2).map(|ends| Part(ends[0], ends[1])).collect();
        let width = |&(name, unit_of, figure): &Figure| {
            let samples: Vec<_> =
                parts.iter().map(figure).filter(|sample| sample.is_finite()).collect();
            let enough = Interval::of(&samples).filter(|_| samples.len() >= FEWEST)?;
            Some((name, enough.half_width? / unit_of(unit)))
        };
        FIGURES.iter().filter_map(width).collect()
    }
}

/// A measure's name, what its unit is where delays are in `unit`, and the measure of a part.
type Figure = (&'static str, fn(f64) -> f64, fn(&Part) -> f64);

const FIGURES: [Figure; 7] = [
    ("messages_per_entry", |_| 1.0, |part| part.per_entry(|mark| mark.messages as f64)),
    ("multicasts_per_entry", |_| 1.0, |part| part.per_entry(|mark| mark.multicasts as f64)),
    ("bytes_per_entry", |_| 1.0, |part| part.per_entry(|mark| mark.bytes)),
    ("client_delay", |unit| unit, |part| part.mean(|mark| mark.client_delay)),
    ("sync_delay", |unit| unit, |part| part.mean(|mark| mark.sync_delay)),
    ("throughput", |_| 1.0, |part| part.per_second(|mark| mark.entries as f64)),
    ("utilisation", |_| 1.0, |part| part.per_second(|mark| mark.time_inside as f64 / 1e9)),
];

/// From one moment to another.
struct Part(Mark, Mark);

impl Part {
    fn per_entry(&self, of: fn(&Mark) -> f64) -> f64 {
        (of(&self.1) - of(&self.0)) / (self.1.entries - self.0.entries) as f64
    }

    fn per_second(&self, of: fn(&Mark) -> f64) -> f64 {
        (of(&self.1) - of(&self.0)) / ((self.1.at - self.0.at) as f64 / 1e9)
    }

    fn mean(&self, of: fn(&Mark) -> (u64, u128)) -> f64 {
        let ((count, sum), (count_before, sum_before)) = (of(&self.1), of(&self.0));
        (sum - sum_before) as f64 / (count - count_before) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_rounds_and_a_short_run_has_none() {
        assert_eq!(Batches::new(10_000, 31).size, 496);
        assert_eq!(Batches::new(10_000, 1000).size, 500);
        assert_eq!(Batches::new(100, 3).size, 9);
        assert_eq!(Batches::new(40, 3).size, 0);
    }

    #[test]
    fn an_interval_is_that_of_the_parts() {
        let mut batches = Batches::new(60, 10);
        let mut measures = Measures::new();
        let mut costs = (0..6).map(|part| 10 * (4 + part % 3));
        for entries in 0..=60 {
            if batches.is_due(entries) {
                measures.entries = entries;
                batches.mark(&measures, entries * 1_000_000_000);
                measures.messages += costs.next().unwrap_or(0);
            }
        }
        let widths = batches.half_widths(1.0);
        // Six parts of means 4, 5, 6, 4, 5, 6: t(5) = 2.571, s^2 = 0.8.
        let expected = 2.571 * (0.8f64 / 6.0).sqrt();
        assert!((widths["messages_per_entry"] - expected).abs() < 1e-9, "{widths:?}");
        assert_eq!(widths["throughput"], 0.0);
        assert_eq!(widths.get("client_delay"), None);
    }
}
