//! Figures and properties of algorithms as text.

use mutua_algorithms::{About, Links};

use crate::durations;

/// A number in three or four digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", trim(format!("{:.1}", value / 1e6))),
        v if v >= 1e4 => format!("{}k", trim(format!("{:.1}", value / 1e3))),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => trim(format!("{value:.1}")),
        v if v >= 0.1 || v == 0.0 => trim(format!("{value:.2}")),
        _ => trim(format!("{value:.4}")),
    }
}

fn trim(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number with its noun: `1 run`, `2 runs`, `3 entries`, `4 crashes`.
pub fn counted(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if noun.ends_with('s') || noun.ends_with("sh") => format!("{count} {noun}es"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// A share of 1 in percent.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        return "< 0.1 %".to_owned();
    }
    format!("{} %", number((1000.0 * share).round() / 10.0))
}

/// A time in seconds, in the unit that gives the shortest number.
pub fn seconds(time: f64) -> String {
    durations::show((time * 1e9 * 100.0).round() / 100.0)
}

/// The links that an algorithm needs.
pub fn links(about: &About) -> &'static str {
    match about.links {
        Links::Any => "any",
        Links::Fifo => "FIFO",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.05, 0.5, 1.0, 12.5, 100.0, 19_804.0, 2e6].map(number);
        assert_eq!(texts, ["0", "0.05", "0.5", "1", "12.5", "100", "19.8k", "2M"]);
    }

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(2, "entry"), "2 entries");
        assert_eq!(counted(0, "seed"), "0 seeds");
        assert_eq!(counted(9, "process"), "9 processes");
        assert_eq!(counted(2, "crash"), "2 crashes");
    }
}
