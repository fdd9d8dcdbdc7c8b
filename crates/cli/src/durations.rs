//! Durations as people write them: `1ms`, `0.5s`, `10us`; and distributions of them.

use mutua_simulator::Distribution;

const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Reads a duration as a number of nanoseconds.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let right = "write a number and a unit, such as 1ms, 0.5s or 10us";
    let text = text.trim();
    if text == "0" {
        return Ok(0);
    }
    let digits = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| factor);
    let factor = factor.ok_or_else(|| format!("`{text}` is no duration; {right}"))?;
    let number: f64 =
        number.trim().parse().map_err(|_| format!("`{text}` is no duration; {right}"))?;
    let value = (number * factor).round();
    if number < 0.0 {
        return Err(format!("a duration cannot be negative, `{text}` is; {right}"));
    }
    // A year is more than any run needs, and keeps sums of durations far from overflowing.
    if value.is_nan() || value > 3.2e16 {
        return Err(format!("`{text}` is longer than a year"));
    }
    Ok(value as u64)
}

/// Reads a time of the real world: a number of seconds, or one with a unit.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => nanoseconds(text)? as f64 / 1e9,
    };
    let right = "a time is a number of seconds such as 60, or has a unit, such as 10m";
    if seconds.is_finite() && seconds >= 0.0 { Ok(seconds) } else { Err(right.to_owned()) }
}

/// Reads a distribution: `1ms`, `uniform:1ms..3ms`, `exp:1ms`, `lognormal:1ms,0.5`.
pub(crate) fn distribution(text: &str) -> Result<Distribution, String> {
    let (kind, rest) = text.split_once(':').unwrap_or(("constant", text));
    let read = match kind {
        "constant" => Distribution::Constant(nanoseconds(rest)?),
        "uniform" => {
            let (low, high) = rest.split_once("..").ok_or_else(|| {
                format!("`{text}`: a uniform distribution is written uniform:1ms..3ms")
            })?;
            Distribution::Uniform { low: nanoseconds(low)?, high: nanoseconds(high)? }
        }
        "exp" | "exponential" => Distribution::Exponential { mean: nanoseconds(rest)? },
        "lognormal" => log_normal(text, rest)?,
        _ => {
            return Err(format!(
                "there is no distribution `{kind}`; write 1ms, uniform:1ms..3ms, exp:1ms or \
                 lognormal:1ms,0.5"
            ));
        }
    };
    read.fault().map_or(Ok(read), Err)
}

/// Several distributions, separated by commas or semicolons. The comma of `lognormal:1ms,0.5` is
/// its own.
pub(crate) fn distributions(text: &str) -> Result<Vec<String>, String> {
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

fn log_normal(text: &str, rest: &str) -> Result<Distribution, String> {
    let wrong = || format!("`{text}`: mean and deviation are written lognormal:1ms,0.5");
    let (mean, sigma) = rest.split_once(',').ok_or_else(wrong)?;
    let sigma = sigma.trim().parse().map_err(|_| wrong())?;
    Ok(Distribution::LogNormal { mean: nanoseconds(mean)?, sigma })
}

/// A duration in the unit in which it is shortest to read.
pub(crate) fn show(nanoseconds: f64) -> String {
    let (unit, factor) = match nanoseconds {
        n if n >= 1e9 => ("s", 1e9),
        n if n >= 1e6 => ("ms", 1e6),
        n if n >= 1e3 => ("us", 1e3),
        _ => ("ns", 1.0),
    };
    let number = format!("{:.3}", nanoseconds / factor);
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A distribution as it is written on the command line.
pub(crate) fn show_distribution(distribution: &Distribution) -> String {
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
    fn durations_are_read_in_every_unit() {
        for (text, expected) in [
            ("1ms", 1_000_000),
            ("0.5s", 500_000_000),
            ("10us", 10_000),
            ("0", 0),
            ("2m", 120e9 as u64),
        ] {
            assert_eq!(nanoseconds(text), Ok(expected), "{text}");
        }
        for text in ["-1ms", "1", "ms", "1 lightyear", "infs", "1e30s", ""] {
            assert!(nanoseconds(text).is_err(), "{text}");
        }
        assert!(nanoseconds("-1ms").unwrap_err().contains("negative"));
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
    fn a_list_may_hold_distributions_with_commas_of_their_own() {
        let list = distributions("1ms, 10ms;lognormal:1ms,0.5,exp:2ms").unwrap();
        assert_eq!(list, ["1ms", "10ms", "lognormal:1ms,0.5", "exp:2ms"]);
        for text in ["", "1ms,", "1ms,x", "lognormal:1ms", "1ms;;2ms"] {
            assert!(distributions(text).is_err(), "{text}");
        }
    }

    #[test]
    fn distributions_are_read_as_they_are_shown() {
        for text in ["1ms", "uniform:1ms..3ms", "exp:1.5ms", "lognormal:1ms,0.5"] {
            assert_eq!(show_distribution(&distribution(text).unwrap()), text);
        }
        for text in ["uniform:3ms..1ms", "uniform:1ms", "normal:1ms", "lognormal:1ms", "exp:x"] {
            assert!(distribution(text).is_err(), "{text}");
        }
    }
}
