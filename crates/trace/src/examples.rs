//! The worked examples, in the program itself, so that they can be played anywhere.

use crate::{Script, ScriptError};

/// A worked example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name: the algorithm, a slash, what it is.
    pub name: &'static str,
    /// The script.
    pub text: &'static str,
}

impl Example {
    /// The example, read.
    pub fn script(&self) -> Result<Script, ScriptError> {
        Script::parse(self.name, self.text)
    }
}

/// What the short names of the sources stand for.
pub const SOURCES: &[(&str, &str)] = &[
    ("S0", "J. Staudek, Distributed mutual exclusion (PA150), Masaryk University, 2020"),
    ("S1", "Distributed systems, chapter 7: mutual exclusion (in German), winter 2003"),
    ("S2", "R. R. Shatovkin, Lecture 7: mutual exclusion algorithms (in Russian)"),
    ("S3", "R. Mini, Mutual exclusion and leader election (in Portuguese), PUC Minas, 2021"),
    ("S4", "M. Jakob, Mutual exclusion of processes (PDV 11), CTU Prague, 2025/2026"),
];

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        /// Every worked example, in the order of the algorithms.
        pub const EXAMPLES: &[Example] = &[$(
            Example {
                name: $name,
                text: include_str!(concat!("../scripts/", $name, ".script")),
            }
        ),+];
    };
}

examples![
    "central/coordinator-contends",
    "central/denied",
    "central/not-in-order",
    "central/queue-by-clock",
    "central/queue",
    "le-lann/not-in-order",
    "le-lann/round",
    "lamport/any-later-message",
    "lamport/not-fifo",
    "lamport/replies-counted",
    "ricart-agrawala/chain-of-three",
    "ricart-agrawala/plain-replies",
    "ricart-agrawala/six-with-one-inside",
    "ricart-agrawala/stamped-replies",
    "ricart-agrawala/two-ask-at-once",
    "carvalho-roucairol/again",
    "carvalho-roucairol/asks-late",
    "suzuki-kasami/again",
    "suzuki-kasami/scan-first",
    "suzuki-kasami/scan-next",
    "ricart-agrawala-token/round-with-4",
    "ricart-agrawala-token/round",
    "raymond/five-nodes",
    "raymond/idle-holder",
    "raymond/initialize",
    "raymond/line",
    "raymond/new-root",
    "raymond/request-overtakes-token",
    "raymond/six-processes",
    "maekawa-basic/grid-deadlock",
    "maekawa-basic/one-after-the-other",
    "maekawa/grid-deadlock-inquire-late",
    "maekawa/grid-deadlock-inquire",
    "maekawa/grid-deadlock-reject",
    "maekawa/shared-voters",
    "majority/three-of-five",
    "majority/three-of-six",
    "majority/two-of-four",
    "sanders/as-central",
    "sanders/as-ricart-agrawala",
    "sanders/sets-that-do-not-meet",
    "bakery-naive/both-read-zero",
    "bakery/both-read-zero",
    "bakery/dies-while-choosing",
    "dijkstra/by-messages",
    "dijkstra/cycle-of-eight",
    "dijkstra/from-zeros",
    "dijkstra/settles",
    "naimi-trehel/path-reversal",
    "neilsen-mizuno/line",
    "chang-roberts/closed-ring",
    "chang-roberts/two-start",
    "chang-roberts/worst-case",
    "bully/bounds-broken",
    "bully/coordinator-gone",
    "bully/no-takeover",
    "bully/replaced-under-its-name",
    "bully/takeover",
    "bully/two-crashes",
    "invitation/partition",
];
