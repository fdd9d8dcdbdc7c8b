//! Algorithms by name, with a suggestion for a misspelt name.

use anyhow::Result;
use mutua_algorithms::{About, Kind, registry};

use crate::exit::usage;

/// The algorithm of this name.
pub(crate) fn algorithm(name: &str) -> Result<&'static About> {
    registry::about(name)
        .ok_or_else(|| unknown("algorithm", name, registry::ALGORITHMS.iter().map(|a| a.name)))
}

/// The same for the algorithms that nodes run. A negative control is refused where its rule is
/// read, which says so.
pub(crate) fn algorithm_of_nodes(name: &str) -> Result<&'static About> {
    let runs = registry::ALGORITHMS.iter().filter(|one| one.kind == Kind::Mutex && !one.control);
    let found = registry::about(name).filter(|one| one.kind == Kind::Mutex);
    found.ok_or_else(|| unknown("algorithm of nodes", name, runs.map(|about| about.name)))
}

/// The names of the algorithms for which `is_one` holds, as `a, b and c`.
pub(crate) fn list(all: &[&About], is_one: impl Fn(&About) -> bool) -> String {
    let names: Vec<_> = all.iter().filter(|about| is_one(about)).map(|about| about.name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// The error for a name that is not in `known`.
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
        Some(near) => usage(format!("unknown {what} `{name}`: did you mean `{near}`?")),
        None => usage(format!("unknown {what} `{name}`: use one of {}", known.join(", "))),
    }
}
