//! Distributions of durations as text: `1ms`, `uniform:1ms..3ms`, `exp:1ms`, `lognormal:1ms,0.5`.
//!
//! Written by hand: the grammar of distributions is this project's own, and single durations use
//! the one grammar of `mutua-algorithms`, which config files and scripts share.

use mutua_algorithms::durations;
use mutua_simulator::Distribution;

/// An invalid duration or distribution of durations.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is not a duration.
    #[error(transparent)]
    Invalid(#[from] durations::InvalidDuration),
    /// The duration is longer than any run.
    #[error("invalid duration `{0}`: it is longer than a year")]
    TooLong(String),
    /// The text is not a uniform distribution.
    #[error("invalid distribution `{0}`: use uniform:1ms..3ms")]
    NotUniform(String),
    /// The text is not a log-normal distribution.
    #[error("invalid distribution `{0}`: use lognormal:1ms,0.5 (mean, deviation)")]
    NotLogNormal(String),
    /// No distribution has this name.
    #[error("unknown distribution `{0}`: use 1ms, uniform:1ms..3ms, exp:1ms or lognormal:1ms,0.5")]
    UnknownKind(String),
    /// The parameters of the distribution are invalid.
    #[error("{0}")]
    Parameters(String),
}

/// Reads a duration as a number of nanoseconds.
pub fn nanoseconds(text: &str) -> Result<u64, DurationError> {
    let nanoseconds = durations::parse(text)?.as_nanos();
    // No run needs more than a year, and sums of durations stay far from overflowing.
    let value = u64::try_from(nanoseconds).ok().filter(|&value| value <= 32_000_000_000_000_000);
    value.ok_or_else(|| DurationError::TooLong(text.to_owned()))
}

/// Reads a wall-clock duration in seconds: a number of seconds, or one with a unit.
pub fn seconds(text: &str) -> Result<f64, DurationError> {
    Ok(durations::parse(text)?.as_secs_f64())
}

/// Reads a distribution: `1ms`, `uniform:1ms..3ms`, `exp:1ms`, `lognormal:1ms,0.5`.
pub fn distribution(text: &str) -> Result<Distribution, DurationError> {
    let (kind, rest) = text.split_once(':').unwrap_or(("constant", text));
    let read = match kind {
        "constant" => Distribution::Constant(nanoseconds(rest)?),
        "uniform" => {
            let wrong = || DurationError::NotUniform(text.to_owned());
            let (low, high) = rest.split_once("..").ok_or_else(wrong)?;
            Distribution::Uniform { low: nanoseconds(low)?, high: nanoseconds(high)? }
        }
        "exp" | "exponential" => Distribution::Exponential { mean: nanoseconds(rest)? },
        "lognormal" => log_normal(text, rest)?,
        _ => return Err(DurationError::UnknownKind(kind.to_owned())),
    };
    match read.fault() {
        Some(fault) => Err(DurationError::Parameters(fault)),
        None => Ok(read),
    }
}

/// Reads several distributions, separated by commas or semicolons. The comma in `lognormal:1ms,0.5`
/// does not separate.
pub fn distributions(text: &str) -> Result<Vec<String>, DurationError> {
    let mut list: Vec<String> = Vec::new();
    for part in text.split(';') {
        let mut pieces = part.split(',').map(str::trim);
        while let Some(piece) = pieces.next() {
            let whole = match pieces.clone().next() {
                Some(sigma) if piece.starts_with("lognormal:") => {
                    pieces.next();
                    format!("{piece},{sigma}")
                }
                Some(_) | None => piece.to_owned(),
            };
            distribution(&whole)?;
            list.push(whole);
        }
    }
    Ok(list)
}

fn log_normal(text: &str, rest: &str) -> Result<Distribution, DurationError> {
    let wrong = || DurationError::NotLogNormal(text.to_owned());
    let (mean, sigma) = rest.split_once(',').ok_or_else(wrong)?;
    let sigma = sigma.trim().parse().map_err(|_| wrong())?;
    Ok(Distribution::LogNormal { mean: nanoseconds(mean)?, sigma })
}

/// A duration in the unit that gives the shortest number.
pub fn show(nanoseconds: f64) -> String {
    // A difference of two durations can be negative.
    let (unit, factor) = match nanoseconds.abs() {
        n if n >= 1e9 => ("s", 1e9),
        n if n >= 1e6 => ("ms", 1e6),
        n if n >= 1e3 => ("us", 1e3),
        _ => ("ns", 1.0),
    };
    let number = format!("{:.3}", nanoseconds / factor);
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A distribution in the form that [`distribution`] reads.
pub fn show_distribution(distribution: &Distribution) -> String {
    let show = |nanoseconds: u64| show(nanoseconds as f64);
    match *distribution {
        Distribution::Constant(value) => show(value),
        Distribution::Uniform { low, high } => format!("uniform:{}..{}", show(low), show(high)),
        Distribution::Exponential { mean } => format!("exp:{}", show(mean)),
        Distribution::LogNormal { mean, sigma } => format!("lognormal:{},{sigma}", show(mean)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_difference_is_shown_in_its_unit() {
        assert_eq!(show(-131_615.86), "-131.616us");
        assert_eq!(show(-2e6), "-2ms");
    }

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, expected) in [
            ("1ms", 1_000_000),
            ("0.5s", 500_000_000),
            ("10us", 10_000),
            ("0", 0),
            ("2m", 120e9 as u64),
            ("1", 1_000_000_000),
        ] {
            assert_eq!(nanoseconds(text), Ok(expected), "{text}");
        }
        for text in ["-1ms", "ms", "1 lightyear", "infs", "1e30s", ""] {
            assert!(
                nanoseconds(text).unwrap_err().to_string().starts_with("invalid duration"),
                "{text}"
            );
        }
        assert!(nanoseconds("9000h").unwrap_err().to_string().contains("longer than a year"));
    }

    #[test]
    fn seconds_need_no_unit() {
        for (text, expected) in [("60", 60.0), ("0.5", 0.5), ("10m", 600.0), ("200ms", 0.2)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["-1", "inf", "NaN", "1 day", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_may_contain_distributions_with_commas() {
        let list = distributions("1ms, 10ms;lognormal:1ms,0.5,exp:2ms").unwrap();
        assert_eq!(list, ["1ms", "10ms", "lognormal:1ms,0.5", "exp:2ms"]);
        for text in ["", "1ms,", "1ms,x", "lognormal:1ms", "1ms;;2ms"] {
            assert!(distributions(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_shown_distribution_can_be_read() {
        for text in ["1ms", "uniform:1ms..3ms", "exp:1.5ms", "lognormal:1ms,0.5"] {
            assert_eq!(show_distribution(&distribution(text).unwrap()), text);
        }
        for text in ["uniform:3ms..1ms", "uniform:1ms", "normal:1ms", "lognormal:1ms", "exp:x"] {
            assert!(distribution(text).is_err(), "{text}");
        }
    }
}
