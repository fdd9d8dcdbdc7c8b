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
    "central/queue",
    "central/queue-by-clock",
    "le-lann/not-in-order",
    "le-lann/round",
    "ricart-agrawala/chain-of-three",
    "ricart-agrawala/plain-replies",
    "ricart-agrawala/six-with-one-inside",
    "ricart-agrawala/stamped-replies",
    "ricart-agrawala/two-ask-at-once",
    "suzuki-kasami/again",
    "suzuki-kasami/scan-first",
    "suzuki-kasami/scan-next",
    "ricart-agrawala-token/round",
    "ricart-agrawala-token/round-with-4",
    "raymond/five-nodes",
    "raymond/idle-holder",
    "raymond/initialize",
    "raymond/line",
    "raymond/new-root",
    "raymond/request-overtakes-token",
    "raymond/six-processes",
    "maekawa/grid-deadlock-inquire",
    "maekawa/grid-deadlock-inquire-late",
    "maekawa/grid-deadlock-reject",
    "maekawa/shared-voters",
    "bakery-naive/both-read-zero",
    "bakery/both-read-zero",
    "bakery/dies-while-choosing",
    "dijkstra/by-messages",
    "dijkstra/cycle-of-eight",
    "dijkstra/from-zeros",
    "dijkstra/settles",
    "bully/bounds-broken",
    "bully/coordinator-gone",
    "bully/no-takeover",
    "bully/replaced-under-its-name",
    "bully/takeover",
    "bully/two-crashes",
];
