//! Distributions of durations as text: `1ms`, `uniform:1ms..3ms`, `exp:1ms`, `lognormal:1ms,0.5`,
//! `percentiles:0=1ms/50=2ms/100=9ms`.
//!
//! Written by hand: the grammar of distributions is this project's own, and single durations use
//! the one grammar of `mutua-algorithms`, which config files and scripts share.

use mutua_algorithms::durations;
use mutua_simulator::{Distribution, PercentilesError};

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
    /// The text is not a table of percentiles.
    #[error("invalid distribution `{0}`: use percentiles:0=1ms/50=2ms/99=5ms/100=9ms")]
    NotPercentiles(String),
    /// The table of percentiles is invalid.
    #[error(transparent)]
    Percentiles(#[from] PercentilesError),
    /// No distribution has this name.
    #[error(
        "unknown distribution `{0}`: use 1ms, uniform:1ms..3ms, exp:1ms, lognormal:1ms,0.5 or \
         percentiles:0=1ms/50=2ms/100=9ms"
    )]
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

/// Reads a distribution: `1ms`, `uniform:1ms..3ms`, `exp:1ms`, `lognormal:1ms,0.5`,
/// `percentiles:0=1ms/50=2ms/100=9ms`.
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
        "percentiles" => percentiles(text, rest)?,
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

fn percentiles(text: &str, rest: &str) -> Result<Distribution, DurationError> {
    let wrong = || DurationError::NotPercentiles(text.to_owned());
    let point = |point: &str| {
        let (percent, time) = point.split_once('=').ok_or_else(wrong)?;
        Ok((percent.trim().parse().map_err(|_| wrong())?, nanoseconds(time)?))
    };
    let points: Result<_, DurationError> = rest.split('/').map(point).collect();
    Ok(Distribution::by_percentiles(points?)?)
}

/// Reads the lines of a file of durations: percentages with their durations, as in `99 5ms`, or
/// measured durations, one a line and in any order.
pub fn measured(lines: &[&str]) -> Result<Distribution, DurationError> {
    let words: Vec<Vec<_>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
    if words.iter().all(|words| words.len() == 1) {
        let times: Result<Vec<_>, _> = words.iter().map(|words| nanoseconds(words[0])).collect();
        let mut times = times?;
        times.sort_unstable();
        if let [only] = times.as_slice() {
            return Ok(Distribution::Constant(*only));
        }
        let last = times.len().saturating_sub(1) as f64;
        let percent = |place: usize| if last > 0.0 { 100.0 * place as f64 / last } else { 0.0 };
        let points = times.into_iter().enumerate().map(|(place, time)| (percent(place), time));
        return Ok(Distribution::by_percentiles(points.collect())?);
    }
    let point = |line: &&str| {
        let wrong = || DurationError::NotPercentiles((*line).to_owned());
        let (percent, time) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
        Ok((percent.parse().map_err(|_| wrong())?, nanoseconds(time.trim())?))
    };
    let points: Result<_, DurationError> = lines.iter().map(point).collect();
    Ok(Distribution::by_percentiles(points?)?)
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

/// Of a longer table of percentiles only some points are shown.
const SHOWN_POINTS: usize = 8;

/// A distribution in the form that [`distribution`] reads; a long table of percentiles is abridged.
pub fn show_distribution(distribution: &Distribution) -> String {
    let show = |nanoseconds: u64| show(nanoseconds as f64);
    match *distribution {
        Distribution::Constant(value) => show(value),
        Distribution::Uniform { low, high } => format!("uniform:{}..{}", show(low), show(high)),
        Distribution::Exponential { mean } => format!("exp:{}", show(mean)),
        Distribution::LogNormal { mean, sigma } => format!("lognormal:{},{sigma}", show(mean)),
        Distribution::Percentiles { table, factor } => {
            let point = |&(percent, time): &(f64, u64)| {
                format!("{percent}={}", self::show(factor * time as f64))
            };
            let all = table.points();
            let points: Vec<_> = all.iter().take(SHOWN_POINTS).map(point).collect();
            let points = points.join("/");
            match all.last().filter(|_| all.len() > SHOWN_POINTS) {
                None => format!("percentiles:{points}"),
                Some(last) => {
                    format!("percentiles:{points}/.../{} ({} points)", point(last), all.len())
                }
            }
        }
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
    fn measured_durations_are_read_as_such_or_as_percentiles() {
        let values = measured(&["3ms", "1ms", "2ms"]).unwrap();
        assert_eq!(show_distribution(&values), "percentiles:0=1ms/50=2ms/100=3ms");
        assert_eq!(measured(&["0 1ms", "50  2ms", "100 3ms"]).unwrap(), values);
        assert_eq!(measured(&["1ms"]).unwrap(), Distribution::Constant(1_000_000));
        for lines in [&["1ms", "50 2ms"][..], &["x"], &[], &["0 1ms", "50 2ms"]] {
            assert!(measured(lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn a_shown_distribution_can_be_read() {
        for text in [
            "1ms",
            "uniform:1ms..3ms",
            "exp:1.5ms",
            "lognormal:1ms,0.5",
            "percentiles:0=500us/50=1ms/99.9=7ms/100=2s",
        ] {
            assert_eq!(show_distribution(&distribution(text).unwrap()), text);
        }
        for text in [
            "uniform:3ms..1ms",
            "uniform:1ms",
            "normal:1ms",
            "lognormal:1ms",
            "exp:x",
            "percentiles:50=1ms",
            "percentiles:0=1ms/100",
            "percentiles:0=2ms/100=1ms",
        ] {
            assert!(distribution(text).is_err(), "{text}");
        }
    }
}
