//! Scripts: plain text that steps the real machines and states what is expected.
//!
//! ```text
//! # source: where the example is printed
//! # shows: what a reader learns from it
//! algorithm ricart-agrawala
//! processes P1 P2 P3
//!
//! # Comments between the steps are shown when the script is played.
//! P2 requests
//! deliver request P2 -> P1
//! expect in flight reply P1 -> P2
//! ---
//! the trace, rewritten by the tests when MUTUA_REWRITE_SCRIPTS=1 is set
//! ```
//!
//! The system comes first, then steps and expectations, one a line. [`language`] lists all forms
//! with examples: the parser reads by the same tables, and `mutua replay --language` prints them.
//!
//! A violation or an invalid message that no line expects fails the script at its end.

mod check;
mod command;
mod deadlock;
mod error;
mod expectation;
mod language;
mod lost;
mod names;
mod parse;
mod play;
mod players;
mod possible;
mod system;

pub use check::Unexpected;
pub use command::Command;
pub use error::{ScriptError, SyntaxError};
pub use expectation::Expectation;
pub use language::{Described, Section, language};
pub use parse::{with_observed, without_observed};
pub use play::{Failure, Moment, Outcome, Played};
pub use system::{Repair, RepairKind, System};

pub(crate) use players::{Player, build};

/// A script, read and ready to be played.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Where the example is printed.
    pub source: String,
    /// What a reader learns from it.
    pub shows: String,
    /// The system that it plays.
    pub system: System,
    /// The steps and expectations, in order.
    pub lines: Vec<Line>,
    /// The text below `---`: the trace as it was last reviewed.
    pub observed: Option<String>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number in the file, from 1; 0 if it comes from no file.
    pub number: usize,
    /// Its meaning.
    pub item: Item,
}

/// The meaning of a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// A comment for the reader.
    Comment(String),
    /// A step to take.
    Command(Command),
    /// An expectation about the present state.
    Expect(Expectation),
}

impl Script {
    /// A script that no file holds, such as a counterexample.
    pub fn new(name: &str, system: System, items: impl IntoIterator<Item = Item>) -> Self {
        Self {
            name: name.to_owned(),
            source: String::new(),
            shows: String::new(),
            system,
            lines: items.into_iter().map(|item| Line { number: 0, item }).collect(),
            observed: None,
        }
    }

    /// The script as a file, without the trace.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (what, words) in [("source", &self.source), ("shows", &self.shows)] {
            if !words.is_empty() {
                text += &format!("# {what}: {words}\n");
            }
        }
        text += &self.system.text();
        text.push('\n');
        for line in &self.lines {
            text += &self.line_text(line);
            text.push('\n');
        }
        text
    }

    /// One line as in a file.
    pub fn line_text(&self, line: &Line) -> String {
        let names = self.system.names_of_all();
        let names = names::Names(&names);
        match &line.item {
            Item::Comment(words) => format!("# {words}"),
            Item::Command(command) => command.text(names),
            Item::Expect(expectation) => format!("expect {}", expectation.text(names)),
        }
    }
}
