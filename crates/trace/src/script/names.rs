//! Reading and writing the words of a script.

use std::str::FromStr;

use mutua_algorithms::{NodeId, UnknownName};

use crate::{Which, describe::shortened};

/// The names of the processes, process 0 first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a>(pub(super) &'a [String]);

impl Names<'_> {
    pub(super) fn process(self, name: &str) -> Result<NodeId, String> {
        let found = self.0.iter().position(|known| known == name);
        found.map(NodeId::from).ok_or_else(|| {
            let known = shortened(self.0);
            format!("there is no process `{name}`; there are {known}")
        })
    }

    pub(super) fn processes(self, names: &[&str]) -> Result<Vec<NodeId>, String> {
        names.iter().map(|name| self.process(name)).collect()
    }

    /// `[KIND][#N] A -> B`.
    pub(super) fn message(self, words: &[&str]) -> Result<(NodeId, NodeId, Which), String> {
        let (which, from, to) = match words {
            [from, "->", to] => (Which::first(), from, to),
            [which, from, "->", to] => (parse_which(which)?, from, to),
            _ => {
                let words = words.join(" ");
                return Err(format!(
                    "a message is written `A -> B` or `KIND A -> B`, not `{words}`"
                ));
            }
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

    /// The opposite of [`message`](Self::message).
    pub(super) fn message_text(self, from: NodeId, to: NodeId, which: &Which) -> String {
        let nth = if which.nth > 1 { format!("#{}", which.nth) } else { String::new() };
        let which = format!("{}{nth}", which.kind.as_deref().unwrap_or(""));
        let space = if which.is_empty() { "" } else { " " };
        format!("{which}{space}{} -> {}", self.name(from), self.name(to))
    }
}

fn parse_which(word: &str) -> Result<Which, String> {
    let (kind, nth) = match word.split_once('#') {
        Some((kind, nth)) => (kind, parse_number(nth, "which message, from 1")?),
        None => (word, 1),
    };
    let kind = (!kind.is_empty()).then(|| kind.to_owned());
    match usize::try_from(nth) {
        Ok(nth) if nth > 0 => Ok(Which { kind, nth }),
        _ => Err(format!("messages on a link are counted from 1, there is no `#{nth}`")),
    }
}

pub(super) fn parse_number(word: &str, what: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is no number; {what} was expected"))
}

pub(super) fn parse_flags(words: &[&str]) -> Result<Vec<u32>, String> {
    let flag = |word: &&str| word.parse().map_err(|_| format!("a flag is a number, not `{word}`"));
    words.iter().map(flag).collect()
}

/// Reads what is one of a few with a name.
pub(super) fn parse_name<T: FromStr<Err = UnknownName>>(name: &str) -> Result<T, String> {
    name.parse().map_err(|unknown: UnknownName| unknown.to_string())
}
