//! Invariants of one's own: expressions over the variables that `mutua replay` shows, judged in
//! every state of a search.
//!
//! ```
//! use mutua_checker::Invariant;
//!
//! let bound = Invariant::new("bound", "forall p: size(p.queue) <= size(neighbours(p)) + 1")?;
//! assert_eq!(bound.name(), "bound");
//! let error = Invariant::new("typo", "forall p: sise(p.queue) <= 2").unwrap_err();
//! assert!(error.to_string().contains("`size`"));
//! # Ok::<(), mutua_checker::InvariantError>(())
//! ```
//!
//! No value can be compared with one of another kind, so that an invariant cannot depend on what
//! the search shifts: a clock reading is compared with clock readings only. Ids may decide, so a
//! search with invariants merges no renamings, and since every state counts, it leaves out no
//! orders of steps.

mod evaluate;
mod item;
mod lexer;
mod parser;

use std::fmt;

use mutua_algorithms::{About, StatedInvariant};

pub(crate) use evaluate::{Judge, Judged};
pub use item::KindError;
pub(crate) use item::Structure;
pub use parser::FORMS;

use parser::Expression;

/// A named expression that is to be true in every state.
#[derive(Clone, Debug)]
pub struct Invariant {
    name: String,
    text: String,
    body: Expression,
}

impl Invariant {
    /// Reads an expression.
    pub fn new(name: &str, text: &str) -> Result<Self, InvariantError> {
        let body = parser::parse(text)?;
        Ok(Self { name: name.to_owned(), text: text.trim().to_owned(), body })
    }

    /// Reads `NAME: FORMULA`, or a formula alone, which gets the name `otherwise`.
    pub fn named(text: &str, otherwise: &str) -> Result<Self, InvariantError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match text.split_once(':') {
            Some((name, formula)) if !name.is_empty() && name.trim().chars().all(is_name) => {
                let before = text.chars().count() - formula.chars().count();
                let moved = |error: InvariantError| InvariantError {
                    column: error.column + before,
                    ..error
                };
                Self::new(name.trim(), formula).map_err(moved)
            }
            _ => Self::new(otherwise, text),
        }
    }

    /// The invariants that an algorithm states.
    pub fn stated(about: &About) -> Vec<Self> {
        let read = |stated: &StatedInvariant| {
            let made = Self::new(stated.name, stated.formula);
            made.unwrap_or_else(|error| panic!("{}, {}: {error}", about.name, stated.name))
        };
        about.invariants.iter().map(read).collect()
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Why an expression cannot be read. Nothing was searched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvariantError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for InvariantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for InvariantError {}
