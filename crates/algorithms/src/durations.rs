//! Durations as people write them, the same on command lines, in files and in scripts.
//!
//! Written by hand: published parsers accept more (`1h 5m`, `2 weeks`), and flock's plain `0.5`,
//! which means seconds, not.

use std::{fmt, time::Duration};

/// The units, in nanoseconds; a number without one is a number of seconds.
const UNITS: [(&str, f64); 8] = [
    ("", 1e9),
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// A text that is not a duration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidDuration(String);

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid duration `{}`: use 5, 0.5, 200ms, 30s, 5m or 1h", self.0)
    }
}

impl std::error::Error for InvalidDuration {}

/// Reads a duration: a number of seconds, or a number with one of the units ns, us, ms, s, m, h.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let text = text.trim();
    read(text).ok_or_else(|| InvalidDuration(text.to_owned()))
}

fn read(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let nanoseconds = (number.parse::<f64>().ok()? * factor).round();
    if nanoseconds < u64::MAX as f64 {
        Some(Duration::from_nanos(nanoseconds as u64))
    } else {
        Duration::try_from_secs_f64(nanoseconds / 1e9).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("5", 5_000_000_000),
            ("0.5", 500_000_000),
            ("7ns", 7),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("200ms", 200_000_000),
            (" 30s ", 30_000_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("9000000000", 9_000_000_000_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
        assert_eq!(parse("1e3").ok(), None);
        assert_eq!(parse("100000000000"), Ok(Duration::from_secs(100_000_000_000)));
    }

    #[test]
    fn an_invalid_duration_is_refused_with_valid_examples() {
        for text in ["", "s", ".", "-1", "1 s", "1d", "1.2.3", "inf", "NaN", "abc"] {
            let expected = format!("invalid duration `{text}`: use 5, 0.5, 200ms, 30s, 5m or 1h");
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
        assert!(parse(&"9".repeat(400)).is_err());
    }
}
