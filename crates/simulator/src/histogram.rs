//! Quantiles of durations: exact as long as the durations are few enough to keep, then from a
//! histogram of fixed size.
//!
//! Written by hand because each bucket keeps the sum of its values, so that equal durations, as at
//! constant latency, give exact quantiles; hdrhistogram returns bucket bounds instead.

use serde::Serialize;

/// Buckets per power of two.
const FINE: usize = 64;

/// So many durations are kept: 8 MiB. Of more, quantiles come from the buckets.
const KEPT: usize = 1 << 20;

/// A quantile that comes from the buckets is off by at most this share.
const ERROR: f64 = 1.0 / FINE as f64;

/// Counts durations. Up to 2^20 of them give exact quantiles. Of more, quantiles come from buckets
/// of growing width and are off by at most 1.6 %; each bucket keeps its sum too, so that one that
/// holds a single value is exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<(u64, u128)>,
    /// All durations; none once they are too many.
    values: Option<Vec<u64>>,
    total: Total,
    largest: u64,
}

/// The number of durations and their sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    count: u64,
    sum: u128,
}

impl Total {
    pub(crate) fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn count_and_sum(&self) -> (u64, u128) {
        (self.count, self.sum)
    }

    /// The mean, in units of `unit`; none if nothing was counted.
    pub(crate) fn mean(&self, unit: f64) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / unit)
    }
}

/// The mean and some quantiles. A quantile is the duration that this share of all durations does
/// not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
    /// By which share the three percentiles may be off; 0 where they are exact.
    pub error: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = vec![(0, 0); FINE * 60];
        Self { buckets, values: Some(Vec::new()), total: Total::default(), largest: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, value: u64) {
        let bucket = &mut self.buckets[bucket_of(value)];
        bucket.0 += 1;
        bucket.1 += u128::from(value);
        self.total.record(value);
        self.largest = self.largest.max(value);
        match &mut self.values {
            Some(values) if values.len() < KEPT => values.push(value),
            kept => *kept = None,
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total.count
    }

    /// The number of durations and their sum.
    pub(crate) fn count_and_sum(&self) -> (u64, u128) {
        self.total.count_and_sum()
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.total.count += other.total.count;
        self.total.sum += other.total.sum;
        self.largest = self.largest.max(other.largest);
        match (&mut self.values, &other.values) {
            (Some(mine), Some(theirs)) if mine.len() + theirs.len() <= KEPT => mine.extend(theirs),
            (kept, _) => *kept = None,
        }
    }

    /// The mean, in units of `unit`; none if nothing was counted.
    pub fn mean(&self, unit: f64) -> Option<f64> {
        self.total.mean(unit)
    }

    /// Mean and quantiles, in units of `unit`; none if nothing was counted.
    pub fn quantiles(&self, unit: f64) -> Option<Quantiles> {
        let mean = self.mean(unit)?;
        let mut values = self.values.clone();
        let mut quantile = |percent| match &mut values {
            Some(values) => {
                let (_, value, _) = values.select_nth_unstable(self.rank(percent) as usize - 1);
                *value as f64 / unit
            }
            None => self.in_buckets(percent) / unit,
        };
        Some(Quantiles {
            mean,
            p50: quantile(50),
            p90: quantile(90),
            p99: quantile(99),
            max: self.largest as f64 / unit,
            error: if self.values.is_some() { 0.0 } else { ERROR },
        })
    }

    /// The place of a percentile among all durations, from 1.
    fn rank(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.total.count) * u128::from(percent)).div_ceil(100);
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }

    fn in_buckets(&self, percent: u64) -> f64 {
        let wanted = self.rank(percent);
        let mut seen = 0;
        for (count, sum) in &self.buckets {
            seen += count;
            if *count > 0 && seen >= wanted {
                return *sum as f64 / *count as f64;
            }
        }
        self.largest as f64
    }
}

fn bucket_of(value: u64) -> usize {
    let value = value as usize;
    if value < 2 * FINE {
        return value;
    }
    let shift = (value / FINE).ilog2() as usize;
    (shift * FINE + (value >> shift)).min(FINE * 60 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_and_of_very_many_durations_near_with_the_error_given() {
        for (times, error) in [(1, 0.0), (11, 0.016)] {
            let mut histogram = Histogram::default();
            for value in (0..times).flat_map(|_| 1..=100_000u64) {
                histogram.record(value * 977);
            }
            let quantiles = histogram.quantiles(977.0).unwrap();
            for (found, exact) in
                [(quantiles.p50, 50_000.0), (quantiles.p90, 90_000.0), (quantiles.p99, 99_000.0)]
            {
                assert!((found / exact - 1.0).abs() <= error, "{found} instead of {exact}");
            }
            assert!((quantiles.mean - 50_000.5).abs() < 1e-6);
            assert!((quantiles.max - 100_000.0).abs() < 1e-6);
            assert_eq!(quantiles.error > 0.0, error > 0.0);
        }
    }

    #[test]
    fn a_longer_time_of_every_entry_has_greater_quantiles() {
        // Durations in one bucket: its mean used to stand for all of them.
        let (mut waiting, mut response) = (Histogram::default(), Histogram::default());
        for value in 0..1000 {
            waiting.record(1_000_000 + value);
            response.record(1_000_000 + value + 5);
        }
        let (waiting, response) =
            (waiting.quantiles(1.0).unwrap(), response.quantiles(1.0).unwrap());
        assert_eq!(
            (waiting.p50, waiting.p90, waiting.p99),
            (1_000_499.0, 1_000_899.0, 1_000_989.0)
        );
        assert_eq!(response.p90 - waiting.p90, 5.0);
    }

    #[test]
    fn equal_values_are_exact_and_an_empty_histogram_has_no_quantiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(1.0), None);
        histogram.record(2_000_000);
        histogram.record(2_000_000);
        assert_eq!(histogram.quantiles(1e6).map(|found| found.p99), Some(2.0));
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn merged_histograms_equal_one_of_all_values() {
        let [mut odd, mut even, mut all] = std::array::from_fn(|_| Histogram::default());
        for value in 0..1000u64 {
            if value % 2 == 0 { &mut even } else { &mut odd }.record(value * value);
            all.record(value * value);
        }
        odd.merge(&even);
        assert_eq!(odd.quantiles(1.0), all.quantiles(1.0));
    }

    #[test]
    fn buckets_are_in_the_order_of_their_values() {
        let values = (0..63).flat_map(|bit| [1u64 << bit, (1 << bit) + (1 << bit) / 2]);
        assert!(values.map(bucket_of).is_sorted());
    }
}
