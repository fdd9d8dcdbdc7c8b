//! Scripts: plain text that drives the real machines step by step and says what must be so.
//!
//! ```text
//! # source: where the example stands
//! # shows: what a reader learns from it
//! algorithm ricart-agrawala
//! processes P1 P2 P3
//!
//! # Comments between the steps are shown when the script is played.
//! P2 requests
//! deliver request P2 -> P1
//! expect in flight reply P1 -> P2
//! ---
//! what was observed, rewritten by the tests when MUTUA_REWRITE_SCRIPTS=1 is set
//! ```
//!
//! **The system** comes first: `algorithm NAME`; `processes A B C` or `processes P1..P36`, in the
//! order of their ids; then, where needed, `with KEY=VALUE`, `topology line|star|binary|kary:K` or
//! `edges A-B B-C`, `quorums grid|plane|majority|tree`, `holder A` or `inside A`, `coordinator A`,
//! `crashed A B`, `links fifo|any` (else what the algorithm asks for), `flags 0 1 0 1` (Dijkstra's
//! ring under a daemon), and for Sanders' sets `asks A: B C` and `informs A: B C`.
//!
//! **Steps**, one a line: `A requests`, `A exits`, `A tells B`, `clock A 40`; `deliver A -> B` (the
//! first on the link), `deliver reply A -> B` (the first of its kind; on a FIFO link it must be the
//! first of all), `deliver reply#2 A -> B`, `deliver #2 A -> B`; `deliver every [KIND] [from A] [to
//! B]` (what is in flight now), `deliver all` (until nothing is in flight, oldest first; lazy
//! messages stay); `lose` and `duplicate` like `deliver A -> B`; `crash A`, `restart A`. Elections:
//! `A starts`, `timeout A answer|announcement|look`. Dijkstra's ring: `move A B`, `move all`.
//! `repeat N` ... `end` stands for its lines N times.
//!
//! **Expectations**, `expect` and: `A inside|outside|requesting|down`, `nobody inside`, `two
//! inside`, `entries A B C`, `no entries`, `A VARIABLE = VALUE` (a machine's variable, or `clock`),
//! `A waits for B C`, `A waits for nobody`, `[not] in flight [KIND] A -> B [with FIELD = VALUE]`,
//! `no messages`, `sent N [KIND]`, `[no] deadlock`, `PROPERTY violated|kept` (`safety`, `ordering`,
//! `fence`, `agreement`), `nonsense`, `coordinator A`, `two coordinators`, `timer A answer`, `flags
//! 0 1 0 1`, `privileged A B`.
//!
//! A violation or nonsense that no line expects fails the script at its end.

mod check;
mod command;
mod expectation;
mod names;
mod parse;
mod play;
mod players;
mod system;

pub use command::Command;
pub use expectation::Expectation;
pub use parse::{ScriptError, with_observed};
pub use play::{Failure, Moment, Outcome, Played};
pub use system::System;

/// A script, read and ready to be played.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it is called.
    pub name: String,
    /// Where the example stands.
    pub source: String,
    /// What a reader learns from it.
    pub shows: String,
    /// Who takes part, and how.
    pub system: System,
    /// The steps and expectations, in order.
    pub lines: Vec<Line>,
    /// What stands below `---`: the trace as it was when it was last looked at.
    pub observed: Option<String>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number in the file, from 1; 0 if it comes from no file.
    pub number: usize,
    /// What it says.
    pub item: Item,
}

/// What a line says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Item {
    /// Something for the reader.
    Comment(String),
    /// A step to be taken.
    Command(Command),
    /// Something that must be so now.
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

    /// The script as a file, without what was observed.
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
        let names = names::Names(&self.system.processes);
        match &line.item {
            Item::Comment(words) => format!("# {words}"),
            Item::Command(command) => command.text(names),
            Item::Expect(expectation) => format!("expect {}", expectation.text(names)),
        }
    }
}
