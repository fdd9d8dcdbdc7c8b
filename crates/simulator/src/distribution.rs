//! Distributions of durations.

use crate::{Percentiles, PercentilesError, Random, random::exp};

/// A distribution of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(u64),
    /// Uniform between two bounds, both included.
    Uniform {
        /// The shortest.
        low: u64,
        /// The longest.
        high: u64,
    },
    /// Exponential: memoryless.
    Exponential {
        /// The mean.
        mean: u64,
    },
    /// Log-normal: most samples near the median, a few far above it.
    LogNormal {
        /// The mean.
        mean: u64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// By a table of percentiles, such as a measured one.
    Percentiles {
        /// The table.
        table: &'static Percentiles,
        /// Every duration of it is multiplied by this.
        factor: f64,
    },
}

impl Distribution {
    /// No time at all.
    pub const ZERO: Self = Self::Constant(0);

    /// By a table of percentiles.
    pub fn by_percentiles(points: Vec<(f64, u64)>) -> Result<Self, PercentilesError> {
        Ok(Self::Percentiles { table: Percentiles::new(points)?, factor: 1.0 })
    }

    /// Draws a duration; a constant draws nothing.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { low, high } => low + random.below((high - low).saturating_add(1)),
            Self::Exponential { mean } => rounded(mean as f64 * random.exponential()),
            Self::LogNormal { mean, sigma } => {
                rounded(mean as f64 * exp(sigma * random.normal() - sigma * sigma / 2.0))
            }
            Self::Percentiles { table, factor } => rounded(factor * table.at(random.unit())),
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Constant(value) => value as f64,
            Self::Uniform { low, high } => (low as f64 + high as f64) / 2.0,
            Self::Exponential { mean } | Self::LogNormal { mean, .. } => mean as f64,
            Self::Percentiles { table, factor } => factor * table.mean(),
        }
    }

    /// The longest duration; for an unbounded distribution one that fewer than one sample in a
    /// million exceeds.
    pub fn bound(&self) -> u64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { high, .. } => high,
            Self::Exponential { mean } => rounded(mean as f64 * 13.82),
            Self::LogNormal { mean, sigma } => {
                rounded(mean as f64 * exp(4.76 * sigma - sigma * sigma / 2.0))
            }
            Self::Percentiles { table, factor } => rounded(factor * table.at(1.0)),
        }
    }

    /// Whether it is always the same.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// The same with every duration multiplied.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let scaled = |value: u64| rounded(value as f64 * factor);
        match *self {
            Self::Constant(value) => Self::Constant(scaled(value)),
            Self::Uniform { low, high } => Self::Uniform { low: scaled(low), high: scaled(high) },
            Self::Exponential { mean } => Self::Exponential { mean: scaled(mean) },
            Self::LogNormal { mean, sigma } => Self::LogNormal { mean: scaled(mean), sigma },
            Self::Percentiles { table, factor: before } => {
                Self::Percentiles { table, factor: before * factor }
            }
        }
    }

    /// The error in its parameters, if there is one.
    pub fn fault(&self) -> Option<String> {
        match *self {
            Self::Uniform { low, high } if low > high => {
                Some(format!("invalid range {low}ns..{high}ns: give the shorter duration first"))
            }
            Self::LogNormal { sigma, .. } if !(0.0..=5.0).contains(&sigma) => {
                Some(format!("invalid log-normal deviation `{sigma}`: use 0 to 5"))
            }
            // The table was checked when it was made.
            Self::Percentiles { .. } => None,
            Self::Constant(time)
            | Self::Uniform { high: time, .. }
            | Self::Exponential { mean: time }
            | Self::LogNormal { mean: time, .. } => (time > LONGEST).then(|| {
                format!("invalid duration {time}ns: virtual time has at most {LONGEST}ns")
            }),
        }
    }
}

/// The longest duration: 146 years. Two of them fit the virtual clock.
pub(crate) const LONGEST: u64 = 1 << 62;

/// Rounds to the nearest nanosecond, at most the longest duration.
fn rounded(value: f64) -> u64 {
    value.clamp(0.0, LONGEST as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_mean_and_stay_below_the_bound() {
        let distributions = [
            Distribution::Constant(1000),
            Distribution::Uniform { low: 500, high: 1500 },
            Distribution::Exponential { mean: 1000 },
            Distribution::LogNormal { mean: 1000, sigma: 0.7 },
        ];
        let table = vec![(0.0, 500), (50.0, 900), (99.0, 2000), (100.0, 9000)];
        let measured = Distribution::by_percentiles(table).unwrap();
        for distribution in distributions.into_iter().chain([measured, measured.times(0.5)]) {
            let mut random = Random::new(9, 0);
            let samples: Vec<_> = (0..100_000).map(|_| distribution.sample(&mut random)).collect();
            let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
            assert!((mean / distribution.mean() - 1.0).abs() < 0.02, "{distribution:?}: {mean}");
            let above = samples.iter().filter(|&&sample| sample > distribution.bound()).count();
            assert!(above <= 1, "{distribution:?}: {above} above the bound");
        }
    }
}
