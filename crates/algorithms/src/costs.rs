//! The costs of an algorithm: each figure once, printed by tables and evaluated by the simulator.

mod formula;
mod parameters;

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{NodeId, Settings};

pub use formula::Formula;
pub use parameters::Parameters;

/// How a figure is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// Every entry, or every round of entries, costs that.
    Exact,
    /// It is the mean over random requesters.
    Mean,
    /// It is not exceeded.
    Bound,
}

/// One cost: what tables print, and the figure to compare measurements with, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    formula: Option<Formula>,
    meaning: Option<Meaning>,
    /// The text in tables; `{}` stands for the formula.
    table: &'static str,
    /// The text beside a measurement; `{}` stands for the formula.
    words: &'static str,
}

impl Cost {
    /// No cost is known, or the cost does not apply.
    pub const NONE: Self = Self::words("-");

    /// One message latency, always.
    pub const T: Self = Self::exact("1").table("T");

    /// A cost without a figure.
    pub const fn words(words: &'static str) -> Self {
        Self { formula: None, meaning: None, table: words, words: "{}" }
    }

    /// Every entry, or every round of entries, costs that.
    pub const fn exact(formula: &'static str) -> Self {
        Self::figure(formula, Meaning::Exact)
    }

    /// The mean over random requesters.
    pub const fn mean(formula: &'static str) -> Self {
        Self::figure(formula, Meaning::Mean)
    }

    /// It is not exceeded.
    pub const fn bound(formula: &'static str) -> Self {
        Self::figure(formula, Meaning::Bound)
    }

    /// It is not reached.
    pub const fn below(formula: &'static str) -> Self {
        Self::bound(formula).table("below {}").words_beside("below {}")
    }

    /// A formula for tables only: no measurement corresponds to it.
    pub const fn only_printed(formula: &'static str, table: &'static str) -> Self {
        Self { meaning: None, ..Self::exact(formula).table(table) }
    }

    const fn figure(formula: &'static str, meaning: Meaning) -> Self {
        let formula = Some(Formula::new(formula));
        Self { formula, meaning: Some(meaning), table: "{}", words: "{}" }
    }

    /// The same, printed differently in tables; `{}` stands for the formula.
    #[must_use]
    pub const fn table(self, table: &'static str) -> Self {
        Self { table, ..self }
    }

    /// The same, printed differently beside a measurement; `{}` stands for the formula.
    #[must_use]
    pub const fn words_beside(self, words: &'static str) -> Self {
        Self { words, ..self }
    }

    /// How the figure is meant, if there is one to compare measurements with.
    pub fn meaning(&self) -> Option<Meaning> {
        self.meaning
    }

    /// The formula, if there is one.
    pub fn formula(&self) -> Option<Formula> {
        self.formula
    }

    /// Whether tables have something to print.
    pub fn is_none(&self) -> bool {
        self.table == Self::NONE.table
    }

    /// The text beside a measurement.
    pub fn text(&self) -> String {
        self.filled(self.words)
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{}", self.formula.map_or("", Formula::text))
    }
}

/// As tables print it.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.filled(self.table))
    }
}

/// The costs of an algorithm. Delays are in message latencies T.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Messages per entry with one request at a time.
    pub light: Cost,
    /// Messages per entry when every process always requests.
    pub saturated: Cost,
    /// Messages per entry at worst.
    pub worst: Cost,
    /// From request to entry while no other process requests.
    pub client_delay: Cost,
    /// From one exit to the next entry, while a process waits.
    pub sync_delay: Cost,
    /// As `light`, a multicast counted once.
    pub light_multicasts: Cost,
    /// As `saturated`, a multicast counted once.
    pub saturated_multicasts: Cost,
    /// Where figures in print for light load mean something else.
    pub light_hints: &'static [&'static str],
    /// Where figures in print for a saturated system mean something else.
    pub saturated_hints: &'static [&'static str],
    /// The costs of an election by its circumstances; the first case that applies.
    pub elections: &'static [ElectionCost],
    /// Where options change the costs: the first row that applies.
    pub variants: &'static [CostsWith],
}

/// The costs with some options set.
#[derive(Clone, Copy, Debug)]
pub struct CostsWith {
    /// The options, by key and value.
    pub settings: &'static [(&'static str, &'static str)],
    /// Only where there are fewer processes.
    pub below: Option<u32>,
    /// The costs then.
    pub costs: Costs,
}

impl CostsWith {
    /// The costs with these options, however many processes there are.
    pub const fn new(settings: &'static [(&'static str, &'static str)], costs: Costs) -> Self {
        Self { settings, below: None, costs }
    }
}

/// The cost of an election in some circumstances, in messages and in latencies.
#[derive(Clone, Copy, Debug)]
pub struct ElectionCost {
    /// Whether these are the circumstances.
    pub when: fn(&Circumstances<'_>) -> bool,
    /// Messages until it is over.
    pub messages: Cost,
    /// From the first start until the last process that is up knows the result, in T.
    pub turnaround: Cost,
}

/// The circumstances of an election during which nothing fails.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// How many processes there are.
    pub nodes: u32,
    /// The processes that are up, in the order of their ids.
    pub up: &'a [NodeId],
    /// The processes that start it, in the order of their ids.
    pub starters: &'a [NodeId],
    /// Whether ids fall round the ring; none: they neither rise nor fall.
    pub falls: Option<bool>,
    /// Whether every message takes equally long.
    pub is_steady: bool,
}

impl Circumstances<'_> {
    /// How many that are up have a lower id than all that start.
    pub fn below(&self) -> Option<usize> {
        let lowest = self.starters.iter().min()?;
        self.up.iter().position(|id| id == lowest)
    }

    /// Whether one process starts, and is up.
    pub fn one_starts(&self) -> bool {
        self.starters.len() == 1 && self.below().is_some()
    }

    /// Whether all that are up start.
    pub fn all_start(&self) -> bool {
        self.starters == self.up
    }

    /// Whether the process with the highest id is down, and no other.
    pub fn only_highest_down(&self) -> bool {
        let highest = NodeId(self.nodes.saturating_sub(1));
        self.up.len() + 1 == self.nodes as usize && !self.up.contains(&highest)
    }
}

impl Costs {
    /// No costs, to fill in.
    pub const NONE: Self = Self {
        light: Cost::NONE,
        saturated: Cost::NONE,
        worst: Cost::NONE,
        client_delay: Cost::NONE,
        sync_delay: Cost::NONE,
        light_multicasts: Cost::NONE,
        saturated_multicasts: Cost::NONE,
        light_hints: &[],
        saturated_hints: &[],
        elections: &[],
        variants: &[],
    };

    /// The costs of so many processes with these settings, the defaults filled in.
    pub(crate) fn with(&self, nodes: u32, settings: &Settings) -> &Self {
        let applies = |row: &&CostsWith| {
            row.below.is_none_or(|below| nodes < below)
                && row.settings.iter().all(|(key, value)| settings.get(key) == Some(value))
        };
        self.variants.iter().find(applies).map_or(self, |row| &row.costs)
    }

    /// All of them.
    pub fn all(&self) -> [&Cost; 7] {
        [
            &self.light,
            &self.saturated,
            &self.worst,
            &self.client_delay,
            &self.sync_delay,
            &self.light_multicasts,
            &self.saturated_multicasts,
        ]
    }
}

/// As tables print them.
impl Serialize for Costs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = [
            ("light", &self.light),
            ("saturated", &self.saturated),
            ("worst", &self.worst),
            ("client_delay", &self.client_delay),
            ("sync_delay", &self.sync_delay),
        ];
        let mut costs = serializer.serialize_struct("Costs", rows.len())?;
        for (name, cost) in rows {
            costs.serialize_field(name, &cost.to_string())?;
        }
        costs.end()
    }
}

#[cfg(test)]
mod tests {
    use crate::{About, registry};

    fn about(name: &str) -> &'static About {
        registry::about(name).expect("a registered name")
    }

    #[test]
    fn the_table_of_a_variant_has_the_variants_figure() {
        let central = about("central");
        let denied = crate::Setup::new(3).with("refusal", "denied");
        let costs = central.costs_with(denied.nodes, &denied.settings);
        for (all, denied) in
            [(central.costs.saturated, costs.saturated), (central.costs.worst, costs.worst)]
        {
            assert_eq!(all.to_string(), format!("{} (denied: {denied})", all.text()));
        }
    }

    #[test]
    fn the_ranges_of_the_ring_election_end_in_its_cases() {
        let costs = &about("chang-roberts").costs;
        let formulas = costs.elections.iter().filter_map(|case| case.messages.formula());
        let of_all: Vec<_> = formulas.map(|formula| formula.text().replace('M', "N")).collect();
        for range in [costs.light, costs.saturated].map(|cost| cost.to_string()) {
            for end in range.split(" to ") {
                assert!(of_all.iter().any(|formula| formula == end), "{end} of {range}");
            }
        }
    }
}
