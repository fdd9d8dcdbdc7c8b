//! Sets from the text of a file.

use std::fmt;

use super::{SetsError, SetsOf};
use crate::NodeId;

/// Why a text does not describe sets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ParseSetsError {
    /// A line, counted from 1, is invalid.
    Line(usize, LineError),
    /// This process has no line.
    Missing(NodeId),
    /// The sets are not of the right form.
    Sets(SetsError),
}

/// Why a line does not describe the sets of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LineError {
    /// The line is not of the form `0: request 0 1 inform 0`.
    Form(String),
    /// A word is not the number of a process.
    Process(String),
    /// This process has a line already.
    Again(NodeId),
}

impl fmt::Display for ParseSetsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number, error) => write!(f, "line {number}: {error}"),
            Self::Missing(node) => write!(f, "process {node} has no line; every process has one"),
            Self::Sets(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "invalid line `{text}`: use `0: request 0 1 inform 0`"),
            Self::Process(word) => {
                write!(f, "invalid process `{word}`: use a number below {NODES_AT_MOST}")
            }
            Self::Again(node) => write!(f, "process {node} has a line already"),
        }
    }
}

impl std::error::Error for ParseSetsError {}

impl std::error::Error for LineError {}

/// The sets of one process.
struct Line {
    node: NodeId,
    request: Vec<NodeId>,
    inform: Vec<NodeId>,
}

impl SetsOf {
    /// Reads sets from text, a line `0: request 0 1 2 inform 0 1` per process.
    pub fn parse(text: &str) -> Result<Self, ParseSetsError> {
        let mut lines: Vec<Option<Line>> = Vec::new();
        for (number, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or("").trim();
            if text.is_empty() {
                continue;
            }
            let line = line(text).map_err(|error| ParseSetsError::Line(number, error))?;
            let index = line.node.index();
            if lines.len() <= index {
                lines.resize_with(index + 1, || None);
            }
            if lines[index].is_some() {
                return Err(ParseSetsError::Line(number, LineError::Again(line.node)));
            }
            lines[index] = Some(line);
        }
        let present = |(index, line): (usize, Option<Line>)| {
            line.ok_or_else(|| ParseSetsError::Missing(NodeId::from(index)))
        };
        let lines: Vec<_> = lines.into_iter().enumerate().map(present).collect::<Result<_, _>>()?;
        let (request, inform) = lines.into_iter().map(|line| (line.request, line.inform)).unzip();
        Self::new(request, inform).map_err(ParseSetsError::Sets)
    }
}

/// A process number from here on is taken for an error in the file.
const NODES_AT_MOST: u32 = 1 << 20;

fn line(text: &str) -> Result<Line, LineError> {
    let form = || LineError::Form(text.to_owned());
    let (node, sets) = text.split_once(':').ok_or_else(form)?;
    let node = process(node.trim())?;
    let sets = sets.trim_start().strip_prefix("request").ok_or_else(form)?;
    let (request, inform) = sets.split_once("inform").ok_or_else(form)?;
    let set = |words: &str| words.split_whitespace().map(process).collect::<Result<_, _>>();
    Ok(Line { node, request: set(request)?, inform: set(inform)? })
}

fn process(word: &str) -> Result<NodeId, LineError> {
    match word.parse() {
        Ok(node) if node < NODES_AT_MOST => Ok(NodeId(node)),
        _ => Err(LineError::Process(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        SetsOf::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_line_gives_the_sets_of_its_process() {
        let sets = SetsOf::parse(
            "# three\n 2: request 2 0 inform 2 0\n\n0: request 0 1 2 inform 0 # all\n\
             1: request 1 0 inform 0 1",
        )
        .unwrap();
        assert_eq!(sets.nodes(), 3);
        assert_eq!(sets.request(NodeId(0)), [0, 1, 2].map(NodeId));
        assert_eq!(sets.inform(NodeId(0)), [NodeId(0)]);
        assert_eq!(sets.request(NodeId(2)), [0, 2].map(NodeId));
    }

    #[test]
    fn an_invalid_line_is_refused_with_its_number() {
        assert!(
            refusal("0: request 0 inform 0\n1 request 1")
                .starts_with("line 2: invalid line `1 request 1`")
        );
        assert!(refusal("0: inform 0 request 0").starts_with("line 1: invalid line"));
        assert!(refusal("0: request 0 x inform 0").contains("invalid process `x`"));
        assert!(refusal("4000000000: request 0 inform 0").contains("invalid process `4000000000`"));
        let twice = refusal("0: request 0 inform 0\n0: request 0 inform 0");
        assert_eq!(twice, "line 2: process 0 has a line already");
        let gap = refusal("1: request 1 inform 1");
        assert_eq!(gap, "process 0 has no line; every process has one");
    }
}
