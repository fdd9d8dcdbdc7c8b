//! How large a query may be, and the errors of queries.

use mutua_algorithms::StartError;
use mutua_checker::CheckError;

use crate::{Refusal, Script, ScriptError};

/// The most bytes of a query.
pub const MOST_BYTES: usize = 256 * 1024;

/// The most processes of a script on the page.
pub(super) const MOST_PROCESSES: usize = 128;

/// The most steps of a script on the page, each message a step.
pub(super) const MOST_STEPS: usize = 2_000;

/// A query that is refused. Nothing was done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The text is not a query.
    #[error("invalid query: {0}")]
    Query(String),
    /// The query is too long.
    #[error("the query has {0} bytes: at most {MOST_BYTES} are read")]
    Bytes(usize),
    /// The script has an error.
    #[error("{0}")]
    Script(#[from] ScriptError),
    /// The system cannot be built.
    #[error("{0}")]
    Start(#[from] StartError),
    /// A step cannot be taken.
    #[error("cannot `{line}`: {why}")]
    Step {
        /// The line.
        line: String,
        /// The reason.
        why: Refusal,
    },
    /// The script names too many processes.
    #[error("{0} processes: the page shows at most {MOST_PROCESSES}; use `mutua replay`")]
    Processes(usize),
    /// The script has too many steps.
    #[error(
        "more than {MOST_STEPS} steps: the page shows at most {MOST_STEPS}; use `mutua replay`"
    )]
    Steps,
    /// No example, control or scene has this name.
    #[error("unknown {what} `{name}`: the catalogue lists them")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The checker refuses the system.
    #[error("{0}")]
    Check(#[from] CheckError),
    /// A figure of the query is out of its range.
    #[error("invalid {what} `{given}`: use {right}")]
    Figure {
        /// The figure.
        what: &'static str,
        /// Its value in the query.
        given: String,
        /// The values that it may have.
        right: String,
    },
    /// The question does not apply to this system.
    #[error("{0}")]
    Unsuited(String),
}

/// Refuses a query that is too long.
pub(super) fn size(query: &str) -> Result<(), Refused> {
    if query.len() > MOST_BYTES { Err(Refused::Bytes(query.len())) } else { Ok(()) }
}

/// Reads a script, if it is small enough for the page.
pub(super) fn script(name: &str, text: &str) -> Result<Script, Refused> {
    size(text)?;
    // A range such as `P1..P4000000000` would fill the memory before it could be counted.
    for line in text.lines().filter(|line| line.trim_start().starts_with("processes")) {
        let named: usize = line.split_whitespace().skip(1).map(names_in).sum();
        if named > MOST_PROCESSES {
            return Err(Refused::Processes(named));
        }
    }
    Ok(Script::parse(name, text)?)
}

/// How many processes a word names; a range names several.
fn names_in(word: &str) -> usize {
    let number = |text: &str| {
        let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<usize>().ok()
    };
    match word.split_once("..").map(|(first, last)| (number(first), number(last))) {
        Some((Some(first), Some(last))) => last.saturating_sub(first).saturating_add(1),
        Some(_) | None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_counted_before_it_is_read() {
        let huge = "algorithm lamport\nprocesses P1..P4000000000\n";
        assert!(matches!(script("", huge), Err(Refused::Processes(4_000_000_000))));
        assert!(script("", "algorithm lamport\nprocesses P1..P3\n").is_ok());
    }
}
