//! What is known of an algorithm: one constant beside each, read by every table, page and driver.

use std::str::FromStr;

use serde::Serialize;

use crate::{UnknownName, names::by_name};

/// An algorithm's name, claims, costs and options.
#[derive(Debug, Serialize)]
pub struct About {
    /// The name on the command line and everywhere.
    pub name: &'static str,
    /// The name as people write it, with the year.
    pub title: &'static str,
    /// Mutual exclusion or election.
    pub kind: Kind,
    /// How it works at all: `permission`, `token`, `quorum`, `state variables`, `election`.
    pub family: &'static str,
    /// Kept to be found broken; a real node refuses it.
    pub control: bool,
    /// What it promises with its default options.
    pub claims: &'static [Claim],
    /// What it asks of the links.
    pub links: Links,
    /// Which fixed structure it needs.
    pub structure: Structure,
    /// Of how many others a process keeps something: what its memory grows with.
    pub partners: Partners,
    /// Whether decisions depend on timestamps; a checker may leave the clock out of the state
    /// otherwise.
    pub uses_stamps: bool,
    /// Its variants.
    pub options: &'static [Choice],
    /// Messages and delays, as formulas in N.
    pub costs: Costs,
    /// In which order requests are granted.
    pub order: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The idea in a paragraph.
    pub idea: &'static str,
    /// The rules, one each.
    pub rules: &'static [&'static str],
    /// What is assumed, and what breaks it.
    pub known_failures: &'static [&'static str],
}

/// The two families of algorithms.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Mutual exclusion.
    Mutex,
    /// Election of a coordinator.
    Election,
}

/// A property that an algorithm promises.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// EM1: at most one process is inside.
    Safety,
    /// EM2, first half: never is everything at rest while somebody waits.
    DeadlockFree,
    /// EM2, second half: nobody waits for ever.
    Liveness,
    /// EM3: of two requests ordered by happens-before, the earlier one is granted first.
    Ordering,
    /// Once a request has reached everyone it was sent to, every other process enters at most once
    /// before it.
    BoundedBypass,
    /// The fence grows with every entry.
    Fence,
    /// From any state, legitimate or not, it comes to a legitimate one and stays there.
    Convergence,
    /// E1: a process that takes part has elected nobody, or the right one.
    Agreement,
    /// E2: in the end everyone alive knows whom.
    Termination,
}

impl Claim {
    /// The claim's name, as in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::DeadlockFree => "deadlock-free",
            Self::Liveness => "liveness",
            Self::Ordering => "ordering",
            Self::BoundedBypass => "bounded-bypass",
            Self::Fence => "fence",
            Self::Convergence => "convergence",
            Self::Agreement => "agreement",
            Self::Termination => "termination",
        }
    }
}

/// What an algorithm asks of the links, beyond delivering each message once.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// They may reorder.
    Any,
    /// Messages from one process to another arrive in the order in which they were sent.
    Fifo,
}

impl Links {
    /// Both kinds.
    pub const ALL: &'static [Self] = &[Self::Fifo, Self::Any];

    /// The name, as it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Fifo => "fifo",
        }
    }
}

impl FromStr for Links {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("kind of links", Self::ALL, Self::name, name)
    }
}

/// The fixed structure that an algorithm runs on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Structure {
    /// Everyone can speak to everyone.
    Complete,
    /// A ring in the order of the ids.
    Ring,
    /// A spanning tree, from `--topology`.
    Tree,
    /// A quorum per process, from `--quorums`.
    Quorums,
    /// A request set and an inform set per process.
    Sets,
}

/// With how many others a process has to do at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Partners {
    /// A few, however many there are: its neighbours, a coordinator, the last one that asked.
    Few,
    /// Those of its quorum, and those in whose quorum it is.
    Quorum,
    /// All of them.
    All,
}

/// An option of an algorithm, set by `--with KEY=VALUE`.
#[derive(Debug, Serialize)]
pub struct Choice {
    /// Its key.
    pub key: &'static str,
    /// The values it takes; the first is the default.
    pub values: &'static [Variant],
    /// A number or a file's contents is taken too.
    pub other: Other,
}

/// One value of an option.
#[derive(Debug, Serialize)]
pub struct Variant {
    /// The value.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Claims that no longer hold with it: if there are any, it is a negative control.
    pub drops: &'static [Claim],
}

/// What an option takes beside its named values.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Other {
    /// Nothing.
    Nothing,
    /// A whole number.
    Number,
    /// The name of a file.
    File,
}

/// Costs as formulas in N, for tables; the simulator measures them.
#[derive(Debug, Serialize)]
pub struct Costs {
    /// Messages per entry with one request at a time.
    pub light: &'static str,
    /// Messages per entry when everyone always wants in.
    pub saturated: &'static str,
    /// Messages per entry at worst.
    pub worst: &'static str,
    /// From request to entry while nobody else wants in, in message latencies T.
    pub client_delay: &'static str,
    /// From one exit to the next entry, somebody waiting, in T.
    pub sync_delay: &'static str,
}

impl About {
    /// The claims that hold with these settings.
    pub fn claims_with(&self, settings: &crate::Settings) -> Vec<Claim> {
        let dropped = self.options.iter().filter_map(|choice| {
            let chosen = settings.get(choice.key)?;
            choice.values.iter().find(|variant| variant.name == chosen)
        });
        let dropped: Vec<_> = dropped.flat_map(|variant| variant.drops).collect();
        self.claims.iter().copied().filter(|claim| !dropped.contains(&claim)).collect()
    }

    /// Whether it is kept to be found broken, by itself or with these settings.
    pub fn is_control(&self, settings: &crate::Settings) -> bool {
        self.control || self.claims_with(settings).len() < self.claims.len()
    }
}
