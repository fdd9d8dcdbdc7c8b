//! Reading and writing the words of a script.

use std::str::FromStr;

use mutua_algorithms::{NodeId, UnknownName};

use super::SyntaxError;
use crate::{Which, describe::shortened};

/// The names of the processes, process 0 first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a>(pub(super) &'a [String]);

impl Names<'_> {
    /// Whether a process has this name.
    pub(super) fn knows(self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    pub(super) fn process(self, name: &str) -> Result<NodeId, SyntaxError> {
        let found = self.0.iter().position(|known| known == name);
        found.map(NodeId::from).ok_or_else(|| SyntaxError::UnknownProcess {
            name: name.to_owned(),
            known: shortened(self.0),
        })
    }

    pub(super) fn processes(self, names: &[&str]) -> Result<Vec<NodeId>, SyntaxError> {
        names.iter().map(|name| self.process(name)).collect()
    }

    /// `[KIND][#N] A -> B`.
    pub(super) fn message(self, words: &[&str]) -> Result<(NodeId, NodeId, Which), SyntaxError> {
        let (which, from, to) = match words {
            [from, "->", to] => (Which::first(), from, to),
            [which, from, "->", to] => (parse_which(which)?, from, to),
            words => return Err(SyntaxError::Message(words.join(" "))),
        };
        Ok((self.process(from)?, self.process(to)?, which))
    }

    pub(super) fn name(self, node: NodeId) -> String {
        self.0.get(node.index()).cloned().unwrap_or_else(|| format!("?{node}"))
    }

    pub(super) fn list(self, nodes: &[NodeId]) -> String {
        let names: Vec<_> = nodes.iter().map(|&node| self.name(node)).collect();
        names.join(" ")
    }

    /// The text that [`message`](Self::message) reads.
    pub(super) fn message_text(self, from: NodeId, to: NodeId, which: &Which) -> String {
        let nth = if which.nth > 1 { format!("#{}", which.nth) } else { String::new() };
        let which = format!("{}{nth}", which.kind.as_deref().unwrap_or(""));
        let space = if which.is_empty() { "" } else { " " };
        format!("{which}{space}{} -> {}", self.name(from), self.name(to))
    }
}

fn parse_which(word: &str) -> Result<Which, SyntaxError> {
    let (kind, nth) = match word.split_once('#') {
        Some((kind, nth)) => (kind, parse_number(nth, "message number")?),
        None => (word, 1),
    };
    let kind = (!kind.is_empty()).then(|| kind.to_owned());
    match usize::try_from(nth) {
        Ok(nth) if nth > 0 => Ok(Which { kind, nth }),
        _ => Err(SyntaxError::MessageNumber(nth)),
    }
}

pub(super) fn parse_number(word: &str, what: &'static str) -> Result<u64, SyntaxError> {
    word.parse().map_err(|_| SyntaxError::Number { what, word: word.to_owned() })
}

pub(super) fn parse_flags(words: &[&str]) -> Result<Vec<u32>, SyntaxError> {
    let wrong = |word: &str| SyntaxError::Number { what: "flag", word: word.to_owned() };
    words.iter().map(|word| word.parse().map_err(|_| wrong(word))).collect()
}

/// Reads a value that has a name, such as a topology or a timer.
pub(super) fn parse_name<T: FromStr<Err = UnknownName>>(name: &str) -> Result<T, SyntaxError> {
    Ok(name.parse()?)
}
