//! The guarantees of each system, which stand beside its figures in the report. The texts are in
//! `guarantees.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// The guarantees of a lock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guarantees {
    /// The system, as the report names it.
    pub(crate) system: String,
    pub(crate) durable: String,
    pub(crate) fair: String,
    pub(crate) survives: String,
    pub(crate) fencing: String,
    /// The README's small table: durable, survives, fencing token.
    pub(crate) in_short: [String; 3],
}

static ALL: LazyLock<BTreeMap<String, Guarantees>> = LazyLock::new(|| {
    toml::from_str(include_str!("guarantees.toml")).expect("guarantees.toml is valid")
});

/// The guarantees of this name. A test makes every system, so a missing name is found there.
pub(crate) fn named(name: &str) -> &'static Guarantees {
    ALL.get(name).unwrap_or_else(|| panic!("guarantees.toml has no `{name}`"))
}
