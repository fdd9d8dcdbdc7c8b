//! The unit of the time axis.

use crate::Unit;

/// The unit of the times: the largest that still distinguishes them.
#[derive(Debug)]
pub(super) struct Scale {
    divisor: u64,
    pub(super) word: &'static str,
}

impl Scale {
    pub(super) fn of(unit: Unit, last: u64) -> Self {
        let larger: &[(u64, &'static str)] = match unit {
            Unit::Step => &[],
            Unit::Nanoseconds => &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")],
            Unit::Microseconds => &[(1_000_000, "s"), (1_000, "ms")],
            Unit::Milliseconds => &[(1_000, "s")],
        };
        let fits = larger.iter().find(|(divisor, _)| last / divisor >= 10);
        let &(divisor, word) = fits.unwrap_or(&(1, unit.word()));
        Self { divisor, word }
    }

    pub(super) fn text(&self, at: u64) -> String {
        if self.divisor == 1 {
            return at.to_string();
        }
        let text = format!("{:.2}", at as f64 / self.divisor as f64);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}
