//! Algorithms by name, with a suggestion for a name that is nearly right.

use anyhow::Result;
use mutua_algorithms::{About, registry};

use crate::exit::usage;

/// The algorithm of this name.
pub(crate) fn algorithm(name: &str) -> Result<&'static About> {
    registry::about(name)
        .ok_or_else(|| unknown("algorithm", name, registry::ALGORITHMS.iter().map(|a| a.name)))
}

/// The error for a name that is none of `known`.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> anyhow::Error {
    let known: Vec<_> = known.into_iter().collect();
    let near = known
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    match near.filter(|near| strsim::jaro_winkler(name, near) > 0.7) {
        Some(near) => usage(format!("there is no {what} `{name}`; did you mean `{near}`?")),
        None => usage(format!("there is no {what} `{name}`; there are: {}", known.join(", "))),
    }
}
