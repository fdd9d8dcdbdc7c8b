//! Means over several seeds, with their confidence intervals.

use serde::Serialize;

/// Student's t for a two-sided interval of 95 %, by degrees of freedom from 1; beyond the last it
/// changes little.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean and the half width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The half width; none from a single run.
    pub half_width: Option<f64>,
}

impl Interval {
    /// The interval over independent runs; none without runs. A run without a figure (not a number)
    /// does not count.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let samples: Vec<_> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
        let count = samples.len();
        let mean = samples.iter().sum::<f64>() / count as f64;
        match count {
            0 => None,
            1 => Some(Self { mean, half_width: None }),
            _ => {
                let squares = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
                let error = (squares / (count - 1) as f64 / count as f64).sqrt();
                let student = STUDENT.get(count - 2).copied().unwrap_or(1.96);
                Some(Self { mean, half_width: Some(student * error) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        let interval = Interval::of(&[4.0, 5.0, 6.0]).unwrap();
        assert!((interval.mean - 5.0).abs() < 1e-12);
        // t(2) = 4.303, s = 1, n = 3.
        assert!((interval.half_width.unwrap() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Interval::of(&[2.0]).unwrap().half_width, None);
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[f64::NAN, 3.0]).unwrap().mean, 3.0);
        assert_eq!(Interval::of(&[f64::NAN]), None);
    }
}
