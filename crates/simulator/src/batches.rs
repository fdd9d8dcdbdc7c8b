//! Confidence intervals from a single run, by the method of batch means.
//!
//! Successive entries are correlated, so their variance says little about the error of a mean.
//! Means over long batches of entries are nearly independent, and their variance gives the interval
//! (Law and Kelton, Simulation Modeling and Analysis).

use std::collections::BTreeMap;

use crate::{Interval, Load, measures::Measures, shares::Shares, workload::Clients};

/// A run is cut into so many batches.
const BATCHES: u64 = 20;

/// No batch is shorter than so many entries; a run too short for five of them has no intervals.
const SHORTEST: u64 = 10;
const FEWEST: usize = 5;

/// The counters at the ends of the batches.
#[derive(Debug)]
pub(crate) struct Batches {
    /// How many entries a batch has; 0 if the run is too short.
    size: u64,
    next: u64,
    marks: Vec<Mark>,
    /// For the interval of fairness.
    pub(crate) shares: Shares,
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
    waiting: (u64, u128),
    response: (u64, u128),
    time_in_cs: u64,
}

impl Batches {
    /// The batches of a run of so many entries of these clients.
    pub(crate) fn of(clients: &Clients, entries: u64) -> Self {
        let contenders = clients.active().len() as u64;
        let batches = match clients.workload.load {
            Load::Bursts { .. } => Self::of_bursts(entries, contenders),
            Load::Light { .. }
            | Load::Saturated
            | Load::Think(_)
            | Load::Poisson { .. }
            | Load::Script(_) => Self::new(entries, contenders),
        };
        match batches.size {
            0 => batches,
            _ => Self { shares: Shares::new(clients.active()), ..batches },
        }
    }

    /// The batches of a run of so many entries. Each is a whole number of rounds of all contenders
    /// if it is long enough for one, so that all contenders have equal shares of it.
    fn new(entries: u64, contenders: u64) -> Self {
        let size = (entries / BATCHES).max(SHORTEST);
        let size = if size >= contenders { size - size % contenders.max(1) } else { size };
        Self::of_size(entries, size)
    }

    /// The batches of a run of bursts: each is a whole number of bursts.
    fn of_bursts(entries: u64, contenders: u64) -> Self {
        let size = (entries / BATCHES).max(SHORTEST);
        let bursts = (size / contenders.max(1)).max(1);
        Self::of_size(entries, bursts * contenders)
    }

    fn of_size(entries: u64, size: u64) -> Self {
        let size = if entries / size.max(1) < FEWEST as u64 { 0 } else { size };
        Self { size, next: 0, marks: Vec::new(), shares: Shares::default() }
    }

    /// Whether a batch ends after so many entries.
    pub(crate) fn is_due(&self, entries: u64) -> bool {
        entries >= self.next && self.size > 0
    }

    /// Ends a batch and begins the next one.
    pub(crate) fn mark(&mut self, measures: &Measures, now: u64) {
        self.next += self.size;
        if !self.marks.is_empty() {
            self.shares.end_batch();
        }
        self.marks.push(Mark {
            at: now,
            entries: measures.entries,
            messages: measures.messages,
            multicasts: measures.multicasts,
            bytes: measures.bytes(),
            client_delay: measures.client_delay.count_and_sum(),
            sync_delay: measures.sync_delay.count_and_sum(),
            waiting: measures.waiting.count_and_sum(),
            response: measures.response.count_and_sum(),
            time_in_cs: measures.time_in_cs,
        });
    }

    /// The half widths of the 95 % intervals, by the names of the measures. Delays are in units of
    /// `unit`. Batches are put together until each has at least `shortest` entries; without five of
    /// them there are no intervals.
    pub(crate) fn half_widths(&self, unit: f64, shortest: u64) -> BTreeMap<&'static str, f64> {
        let together = shortest.div_ceil(self.size.max(1)).max(1);
        let together = usize::try_from(together).unwrap_or(usize::MAX);
        let ends: Vec<_> = self.marks.iter().step_by(together).collect();
        let batches: Vec<_> = ends.windows(2).map(|ends| Batch(*ends[0], *ends[1])).collect();
        let width = |&(name, unit_of, figure): &Figure| {
            let samples: Vec<_> =
                batches.iter().map(figure).filter(|sample| sample.is_finite()).collect();
            let enough = Interval::of(&samples).filter(|_| samples.len() >= FEWEST)?;
            Some((name, enough.half_width? / unit_of(unit)))
        };
        let jain = self.shares.half_width().filter(|_| batches.len() >= FEWEST);
        let jain = jain.map(|half_width| ("jain", half_width));
        FIGURES.iter().filter_map(width).chain(jain).collect()
    }
}

/// A measure's name, its unit where delays are in `unit`, and its value in a batch.
type Figure = (&'static str, fn(f64) -> f64, fn(&Batch) -> f64);

const FIGURES: [Figure; 9] = [
    ("messages_per_entry", |_| 1.0, |batch| batch.per_entry(|mark| mark.messages as f64)),
    ("multicasts_per_entry", |_| 1.0, |batch| batch.per_entry(|mark| mark.multicasts as f64)),
    ("bytes_per_entry", |_| 1.0, |batch| batch.per_entry(|mark| mark.bytes)),
    ("client_delay", |unit| unit, |batch| batch.mean(|mark| mark.client_delay)),
    ("sync_delay", |unit| unit, |batch| batch.mean(|mark| mark.sync_delay)),
    ("waiting_time", |unit| unit, |batch| batch.mean(|mark| mark.waiting)),
    ("response_time", |unit| unit, |batch| batch.mean(|mark| mark.response)),
    ("throughput", |_| 1.0, |batch| batch.per_second(|mark| mark.entries as f64)),
    ("utilisation", |_| 1.0, |batch| batch.per_second(|mark| mark.time_in_cs as f64 / 1e9)),
];

/// The entries from one mark to another.
struct Batch(Mark, Mark);

impl Batch {
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
    fn batches_are_whole_rounds_and_a_short_run_has_none() {
        assert_eq!(Batches::new(10_000, 31).size, 496);
        assert_eq!(Batches::new(10_000, 1000).size, 500);
        assert_eq!(Batches::new(100, 3).size, 9);
        assert_eq!(Batches::new(40, 3).size, 0);
        assert_eq!(Batches::of_bursts(10_000, 300).size, 300);
        assert_eq!(Batches::of_bursts(10_000, 1000).size, 1000);
        assert_eq!(Batches::of_bursts(10_000, 3000).size, 0);
    }

    #[test]
    fn an_interval_is_that_of_the_batch_means() {
        let mut batches = Batches::new(60, 10);
        let mut measures = Measures::new();
        let mut costs = (0..6).map(|batch| 10 * (4 + batch % 3));
        for entries in 0..=60 {
            if batches.is_due(entries) {
                measures.entries = entries;
                batches.mark(&measures, entries * 1_000_000_000);
                measures.messages += costs.next().unwrap_or(0);
            }
        }
        let widths = batches.half_widths(1.0, 0);
        // Six batches of means 4, 5, 6, 4, 5, 6: t(5) = 2.571, s^2 = 0.8.
        let expected = 2.571 * (0.8f64 / 6.0).sqrt();
        assert!((widths["messages_per_entry"] - expected).abs() < 1e-9, "{widths:?}");
        assert_eq!(widths["throughput"], 0.0);
        assert_eq!(widths.get("client_delay"), None);
    }
}
