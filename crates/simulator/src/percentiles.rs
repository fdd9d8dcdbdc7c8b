//! Tables of percentiles, from which durations are drawn.
//!
//! A [`Distribution`](crate::Distribution) is copied for every link, so a table is kept once for
//! the whole program and known by its address. Equal tables are one, and there is a bound for all.

use std::sync::Mutex;

use crate::distribution::LONGEST;

/// The most points of all tables together: 16 MiB.
const MOST_POINTS: usize = 1 << 20;

static TABLES: Mutex<Vec<&'static Percentiles>> = Mutex::new(Vec::new());

/// A distribution function: straight lines between the given percentiles.
#[derive(Debug, PartialEq)]
pub struct Percentiles(Vec<(f64, u64)>);

/// An invalid table of percentiles.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PercentilesError {
    /// It does not begin at 0 or does not end at 100.
    #[error("invalid percentiles: give the shortest duration as 0 and the longest as 100")]
    Ends,
    /// They are not in order.
    #[error("invalid percentiles: give them in order, with durations that do not fall")]
    Order,
    /// The longest does not fit the virtual clock.
    #[error("invalid percentiles: virtual time has at most {LONGEST}ns")]
    TooLong,
    /// There are too many points in all tables of this program.
    #[error("too many percentiles: use at most {MOST_POINTS} in all")]
    TooMany,
}

impl Percentiles {
    /// The table of these points, each a percentage and a duration in nanoseconds.
    pub(crate) fn new(points: Vec<(f64, u64)>) -> Result<&'static Self, PercentilesError> {
        let ends = points.first().zip(points.last());
        match ends {
            Some((&(0.0, _), &(100.0, longest))) if longest <= LONGEST => {}
            Some((&(0.0, _), &(100.0, _))) => return Err(PercentilesError::TooLong),
            Some(_) | None => return Err(PercentilesError::Ends),
        }
        if !points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
            return Err(PercentilesError::Order);
        }
        let table = Self(points);
        let mut tables = TABLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = tables.iter().find(|known| ***known == table) {
            return Ok(known);
        }
        let kept: usize = tables.iter().map(|known| known.0.len()).sum();
        if kept + table.0.len() > MOST_POINTS {
            return Err(PercentilesError::TooMany);
        }
        let table: &'static Self = Box::leak(Box::new(table));
        tables.push(table);
        Ok(table)
    }

    /// The points: percentages and durations in nanoseconds.
    pub fn points(&self) -> &[(f64, u64)] {
        &self.0
    }

    /// The duration that this share of all does not exceed.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let percent = 100.0 * share;
        let above = self.0.partition_point(|&(point, _)| point < percent).min(self.0.len() - 1);
        let ((low, from), (high, to)) = (self.0[above.saturating_sub(1)], self.0[above]);
        match above {
            0 => to as f64,
            _ => from as f64 + (percent - low) / (high - low) * (to - from) as f64,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        let parts = self.0.windows(2).map(|pair| {
            let ((low, from), (high, to)) = (pair[0], pair[1]);
            (high - low) / 100.0 * f64::midpoint(from as f64, to as f64)
        });
        parts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_on_the_lines_between_the_percentiles() {
        let table = Percentiles::new(vec![(0.0, 100), (50.0, 200), (100.0, 1000)]).unwrap();
        for (share, expected) in [(0.0, 100.0), (0.25, 150.0), (0.5, 200.0), (0.75, 600.0)] {
            assert!((table.at(share) - expected).abs() < 1e-9, "{share}: {}", table.at(share));
        }
        assert!((table.mean() - (0.5 * 150.0 + 0.5 * 600.0)).abs() < 1e-9);
    }

    #[test]
    fn equal_tables_are_kept_once_and_invalid_ones_are_refused() {
        let points = || vec![(0.0, 1), (100.0, 7)];
        let (one, same) =
            (Percentiles::new(points()).unwrap(), Percentiles::new(points()).unwrap());
        assert!(std::ptr::eq(one, same));
        for (points, error) in [
            (vec![], PercentilesError::Ends),
            (vec![(50.0, 1), (100.0, 2)], PercentilesError::Ends),
            (vec![(0.0, 1), (99.0, 2)], PercentilesError::Ends),
            (vec![(0.0, 1), (50.0, 9), (100.0, 2)], PercentilesError::Order),
            (vec![(0.0, 1), (0.0, 1), (100.0, 2)], PercentilesError::Order),
            (vec![(0.0, 1), (f64::NAN, 1), (100.0, 2)], PercentilesError::Order),
            (vec![(0.0, 1), (100.0, u64::MAX)], PercentilesError::TooLong),
        ] {
            assert_eq!(Percentiles::new(points), Err(error));
        }
    }
}
