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

examples!["ricart-agrawala/two-ask-at-once",];
