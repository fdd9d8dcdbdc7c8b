//! The facts about an algorithm: one constant beside each, read by every table, page and driver.

use std::str::FromStr;

use serde::Serialize;

use crate::{Costs, Settings, UnknownName, names::by_name};

/// An algorithm's name, claims, costs and options.
#[derive(Debug, Serialize)]
pub struct About {
    /// The name on the command line and everywhere.
    pub name: &'static str,
    /// The name as people write it, with the year.
    pub title: &'static str,
    /// Mutual exclusion or election.
    pub kind: Kind,
    /// The family of algorithms: `permission`, `token`, `quorum`, `state variables`, `election`.
    pub family: &'static str,
    /// A negative control: kept to show that the checker finds its fault. A node refuses it.
    pub control: bool,
    /// The properties that it has with its default options.
    pub claims: &'static [Claim],
    /// The order that it needs of the links.
    pub links: Links,
    /// The fixed structure that it needs.
    pub structure: Structure,
    /// The number of other processes of which a process keeps something: what its memory grows
    /// with.
    pub partners: Partners,
    /// Whether decisions depend on timestamps; a checker may leave the clock out of the state
    /// otherwise.
    pub uses_stamps: bool,
    /// Its variants.
    pub options: &'static [Choice],
    /// Messages and delays, each figure once.
    pub costs: Costs,
    /// In which order requests are granted.
    pub order: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The idea in a paragraph.
    pub idea: &'static str,
    /// The rules, one each.
    pub rules: &'static [&'static str],
    /// What is true in every state of the default variant, as the paper or a text has it or uses
    /// it in a proof. The checker judges them.
    pub invariants: &'static [StatedInvariant],
    /// Its assumptions, and how it fails without them.
    pub known_failures: &'static [&'static str],
}

/// A formula that is true in every state, in the language of `mutua check --invariant`.
#[derive(Debug, Serialize)]
pub struct StatedInvariant {
    /// A short name.
    pub name: &'static str,
    /// The formula.
    pub formula: &'static str,
    /// The formula in words.
    pub meaning: &'static str,
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
    /// EM1: at most one process is in the critical section.
    MutualExclusion,
    /// EM2, first half: the system is never at rest while a process waits.
    DeadlockFree,
    /// EM2, second half: no process waits for ever.
    Liveness,
    /// EM3: of two requests ordered by happens-before, the earlier one is granted first.
    Ordering,
    /// Once a request has reached every process it was sent to, every other process enters at most
    /// once before it.
    BoundedBypass,
    /// The fencing token grows with every entry.
    Fencing,
    /// From any state, legitimate or not, it comes to a legitimate one and stays there.
    Convergence,
    /// E1: a process that takes part has elected none, or the right one.
    Agreement,
    /// E2: in the end every process that is up knows the coordinator.
    Termination,
}

impl Claim {
    /// The claim's name, as in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MutualExclusion => "mutual-exclusion",
            Self::DeadlockFree => "deadlock-free",
            Self::Liveness => "liveness",
            Self::Ordering => "ordering",
            Self::BoundedBypass => "bounded-bypass",
            Self::Fencing => "fencing",
            Self::Convergence => "convergence",
            Self::Agreement => "agreement",
            Self::Termination => "termination",
        }
    }
}

/// The order that an algorithm needs of the links, beyond delivering each message once.
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
    /// Every process sends to every other.
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

/// The number of other processes that a process has to do with.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Partners {
    /// A few, however many there are: its neighbours, a coordinator, the last requester.
    Few,
    /// The members of its quorum, and the processes in whose quorum it is.
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
    /// Its effect.
    pub meaning: &'static str,
    /// Claims that no longer hold with it: if there are any, it is a negative control.
    pub drops: &'static [Claim],
}

/// The values that an option takes beside its named ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Other {
    /// No other value.
    Nothing,
    /// A whole number.
    Number,
    /// The name of a file.
    File,
}

impl About {
    /// The claims that hold with these settings.
    pub fn claims_with(&self, settings: &Settings) -> Vec<Claim> {
        let dropped = self.options.iter().filter_map(|choice| {
            let chosen = settings.get(choice.key)?;
            choice.values.iter().find(|variant| variant.name == chosen)
        });
        let dropped: Vec<_> = dropped.flat_map(|variant| variant.drops).collect();
        self.claims.iter().copied().filter(|claim| !dropped.contains(&claim)).collect()
    }

    /// Whether it comes to a legitimate state from any state: what daemons and flags are for.
    pub fn is_self_stabilizing(&self) -> bool {
        self.claims.contains(&Claim::Convergence)
    }

    /// The costs of so many processes with these settings.
    pub fn costs_with(&self, nodes: u32, settings: &Settings) -> &Costs {
        let chosen = settings.resolve(self);
        self.costs.with(nodes, chosen.as_ref().unwrap_or(settings))
    }

    /// Whether it is a negative control, by itself or with these settings.
    pub fn is_control(&self, settings: &Settings) -> bool {
        self.control || self.claims_with(settings).len() < self.claims.len()
    }
}
