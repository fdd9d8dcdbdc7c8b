//! The worked examples, compiled in, so that they can be played anywhere.

use crate::{Script, ScriptError};

/// A worked example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name: the algorithm, a slash, the example.
    pub name: &'static str,
    /// The script.
    pub text: &'static str,
}

impl Example {
    /// Reads the script.
    pub fn script(&self) -> Result<Script, ScriptError> {
        Script::parse(self.name, self.text)
    }
}

/// The sources of examples by their short names.
pub const SOURCES: &[(&str, &str)] = &[
    ("S0", "J. Staudek, Distributed mutual exclusion (PA150), Masaryk University, 2020"),
    ("S1", "Distributed systems, chapter 7: mutual exclusion (in German), winter 2003"),
    ("S2", "R. R. Shatovkin, Lecture 7: mutual exclusion algorithms (in Russian)"),
    ("S3", "R. Mini, Mutual exclusion and leader election (in Portuguese), PUC Minas, 2021"),
    ("S4", "M. Jakob, Mutual exclusion of processes (PDV 11), CTU Prague, 2025/2026"),
];

/// The length of a script up to the observed trace, which is below a line `---`.
#[cfg(target_family = "wasm")]
const fn without_trace(script: &[u8]) -> usize {
    let separator = b"\n---\n";
    let mut at = 0;
    while at + separator.len() <= script.len() {
        let mut same = 0;
        while same < separator.len() && script[at + same] == separator[same] {
            same += 1;
        }
        if same == separator.len() {
            return at + 1;
        }
        at += 1;
    }
    script.len()
}

/// The text of a script. A browser would load two thirds of it, the traces, for nothing: they are
/// for those who read the file, and for its test.
#[cfg(target_family = "wasm")]
macro_rules! text {
    ($path:expr) => {{
        const WHOLE: &[u8] = include_bytes!($path);
        const LENGTH: usize = without_trace(WHOLE);
        static KEPT: [u8; LENGTH] = *WHOLE.first_chunk().unwrap();
        match std::str::from_utf8(&KEPT) {
            Ok(text) => text,
            Err(_) => panic!("a script is UTF-8"),
        }
    }};
}

#[cfg(not(target_family = "wasm"))]
macro_rules! text {
    ($path:expr) => {
        include_str!($path)
    };
}

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        /// Every worked example, in the order of the algorithms.
        pub const EXAMPLES: &[Example] = &[$(
            Example {
                name: $name,
                text: text!(concat!("../scripts/", $name, ".script")),
            }
        ),+];
    };
}

examples![
    "central/queue",
    "central/not-in-order",
    "central/denied",
    "central/coordinator-contends",
    "central/queue-by-clock",
    "central/coordinator-crashed",
    "central/two-coordinators",
    "le-lann/round",
    "le-lann/not-in-order",
    "le-lann/two-tokens",
    "le-lann/ring-closes",
    "le-lann/token-lost",
    "le-lann/short-timeout",
    "lamport/replies-counted",
    "lamport/any-later-message",
    "lamport/not-fifo",
    "lamport/taken-out",
    "ricart-agrawala/two-requests-at-once",
    "ricart-agrawala/chain-of-three",
    "ricart-agrawala/six-with-one-in-cs",
    "ricart-agrawala/plain-replies",
    "ricart-agrawala/stamped-replies",
    "ricart-agrawala/taken-out",
    "ricart-agrawala/two-sections",
    "carvalho-roucairol/late-request",
    "carvalho-roucairol/again",
    "suzuki-kasami/scan-first",
    "suzuki-kasami/scan-next",
    "suzuki-kasami/again",
    "suzuki-kasami/token-lost",
    "suzuki-kasami/partition-bully",
    "suzuki-kasami/partition-ring",
    "ricart-agrawala-token/round",
    "ricart-agrawala-token/round-with-4",
    "raymond/five-nodes",
    "raymond/idle-holder",
    "raymond/line",
    "raymond/six-processes",
    "raymond/new-root",
    "raymond/initialize",
    "raymond/request-overtakes-token",
    "raymond/hung-again",
    "maekawa-basic/grid-deadlock",
    "maekawa-basic/one-after-the-other",
    "maekawa-basic/plane-deadlock",
    "maekawa/grid-deadlock-inquire",
    "maekawa/grid-deadlock-inquire-late",
    "maekawa/grid-deadlock-reject",
    "maekawa/shared-voters",
    "maekawa/two-by-two",
    "maekawa/plane-of-seven",
    "maekawa/taken-over",
    "majority/three-of-six",
    "majority/two-of-four",
    "majority/two-of-six",
    "majority/three-of-five",
    "sanders/as-central",
    "sanders/as-ricart-agrawala",
    "sanders/sets-that-do-not-meet",
    "bakery-naive/both-read-zero",
    "bakery/both-read-zero",
    "bakery/crash-while-choosing",
    "bakery/counts-as-idle",
    "dijkstra/from-zeros",
    "dijkstra/cycle-of-eight",
    "dijkstra/by-messages",
    "dijkstra/settles",
    "dijkstra/first-crashes",
    "naimi-trehel/path-reversal",
    "naimi-trehel/old-token-returns",
    "naimi-trehel/wrong-report",
    "neilsen-mizuno/line",
    "chang-roberts/worst-case",
    "chang-roberts/closed-ring",
    "chang-roberts/two-start",
    "bully/coordinator-crashed",
    "bully/two-crashes",
    "bully/replaced-under-its-name",
    "bully/bounds-violated",
    "bully/no-takeover",
    "bully/second-highest-notices",
    "bully/takeover",
    "invitation/partition",
];
