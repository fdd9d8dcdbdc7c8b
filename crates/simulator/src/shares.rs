//! The interval of Jain's index of a single run, by the jackknife over its batches.
//!
//! The index of one batch says little about that of the run: of a few entries of each process it is
//! far lower, however fair the algorithm is. So the index of the run without each batch is taken
//! instead, and the change that each batch makes gives the interval (Tukey's pseudo-values).

use std::ops::Range;

use crate::Interval;

/// Of more processes the entries of each in each batch are not kept, and there is no interval.
const MOST: usize = 100_000;

/// The entries of each process in each batch.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    first: usize,
    /// Those of the batch that has begun; empty if none are kept.
    now: Vec<u32>,
    batches: Vec<Vec<u32>>,
}

impl Shares {
    pub(crate) fn new(active: Range<u32>) -> Self {
        let kept = if active.len() <= MOST { active.len() } else { 0 };
        Self { first: active.start as usize, now: vec![0; kept], batches: Vec::new() }
    }

    /// Counts an entry of a process.
    pub(crate) fn enters(&mut self, process: usize) {
        if let Some(entries) = self.now.get_mut(process.wrapping_sub(self.first)) {
            *entries += 1;
        }
    }

    /// Ends a batch and begins the next one.
    pub(crate) fn end_batch(&mut self) {
        let next = vec![0; self.now.len()];
        self.batches.push(std::mem::replace(&mut self.now, next));
    }

    /// The half width of the 95 % interval of Jain's index over all batches.
    pub(crate) fn half_width(&self) -> Option<f64> {
        let count = self.batches.len() as f64;
        let mut all = vec![0.0; self.now.len()];
        for batch in &self.batches {
            all.iter_mut().zip(batch).for_each(|(sum, &entries)| *sum += f64::from(entries));
        }
        let whole = jain(all.iter().copied());
        let pseudo_values = self.batches.iter().map(|batch| {
            let rest = all.iter().zip(batch).map(|(sum, &entries)| sum - f64::from(entries));
            count * whole - (count - 1.0) * jain(rest)
        });
        Interval::of(&pseudo_values.collect::<Vec<_>>())?.half_width
    }
}

/// Jain's index of these numbers of entries; not a number if there are none.
pub(crate) fn jain(entries: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for entries in entries {
        count += 1.0;
        sum += entries;
        squares += entries * entries;
    }
    if squares == 0.0 { f64::NAN } else { sum * sum / (count * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_the_pseudo_values() {
        let mut shares = Shares::new(2..4);
        for batch in [[3, 1], [2, 2], [1, 3], [4, 0], [2, 2]] {
            for (process, entries) in (2..).zip(batch) {
                (0..entries).for_each(|_| shares.enters(process));
            }
            shares.end_batch();
        }
        // All: 12 and 8, J = 400/416. Without a batch: 9 and 7, 10 and 6, 11 and 5, 8 and 8.
        let index = |a: f64, b: f64| (a + b).powi(2) / (2.0 * (a * a + b * b));
        let left = [(9.0, 7.0), (10.0, 6.0), (11.0, 5.0), (8.0, 8.0), (10.0, 6.0)];
        let values = left.map(|(a, b)| 5.0 * index(12.0, 8.0) - 4.0 * index(a, b));
        let expected = Interval::of(&values).unwrap().half_width.unwrap();
        assert!((shares.half_width().unwrap() - expected).abs() < 1e-12);
        assert!(expected > 0.05, "{expected}");
    }

    #[test]
    fn equal_shares_have_an_interval_of_zero_and_very_many_processes_none() {
        let mut shares = Shares::new(0..3);
        for _ in 0..6 {
            (0..3).for_each(|process| shares.enters(process));
            shares.end_batch();
        }
        assert_eq!(shares.half_width(), Some(0.0));
        let mut many = Shares::new(0..1_000_000);
        many.enters(5);
        many.end_batch();
        assert_eq!(many.half_width(), None);
    }
}
