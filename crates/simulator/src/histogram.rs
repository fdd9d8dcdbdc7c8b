//! Quantiles of durations in fixed memory.

use serde::Serialize;

/// Buckets per power of two.
const FINE: usize = 64;

/// Counts durations in buckets whose width grows with them, so that a quantile is off by at most
/// 1.6 %. Each bucket keeps its sum too: a bucket with one value in it is exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<(u64, u128)>,
    count: u64,
    sum: u128,
    largest: u64,
}

/// The mean and some quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: f64,
    /// Half are shorter.
    pub p50: f64,
    /// Nine in ten are shorter.
    pub p90: f64,
    /// Ninety-nine in a hundred are shorter.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![(0, 0); FINE * 60], count: 0, sum: 0, largest: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, value: u64) {
        let bucket = &mut self.buckets[place(value)];
        bucket.0 += 1;
        bucket.1 += u128::from(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.largest = self.largest.max(value);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many were counted, and their sum.
    pub(crate) fn count_and_sum(&self) -> (u64, u128) {
        (self.count, self.sum)
    }

    /// Takes in what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }

    /// The mean, in units of `unit`; none of nothing.
    pub fn mean(&self, unit: f64) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / unit)
    }

    /// Mean and quantiles, in units of `unit`; none of nothing.
    pub fn quantiles(&self, unit: f64) -> Option<Quantiles> {
        Some(Quantiles {
            mean: self.mean(unit)?,
            p50: self.quantile(0.5) / unit,
            p90: self.quantile(0.9) / unit,
            p99: self.quantile(0.99) / unit,
            max: self.largest as f64 / unit,
        })
    }

    fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil();
        let mut seen = 0;
        for (count, sum) in &self.buckets {
            seen += count;
            if *count > 0 && seen as f64 >= wanted {
                return *sum as f64 / *count as f64;
            }
        }
        self.largest as f64
    }
}

fn place(value: u64) -> usize {
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
    fn quantiles_are_near_the_exact_ones() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000u64 {
            histogram.record(value * 977);
        }
        let quantiles = histogram.quantiles(977.0).unwrap();
        for (found, exact) in
            [(quantiles.p50, 50_000.0), (quantiles.p90, 90_000.0), (quantiles.p99, 99_000.0)]
        {
            assert!((found / exact - 1.0).abs() < 0.016, "{found} instead of {exact}");
        }
        assert!((quantiles.mean - 50_000.5).abs() < 1e-6);
        assert!((quantiles.max - 100_000.0).abs() < 1e-6);
    }

    #[test]
    fn equal_values_are_exact_and_nothing_is_none() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantiles(1.0), None);
        histogram.record(2_000_000);
        histogram.record(2_000_000);
        assert_eq!(histogram.quantiles(1e6).map(|found| found.p99), Some(2.0));
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn two_together_are_what_one_of_all_is() {
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
        assert!(values.map(place).is_sorted());
    }
}
