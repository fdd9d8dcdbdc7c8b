//! Sets from the text of a file.

use super::SetsOf;
use crate::{NodeId, StartError};

/// What a line says of its process.
struct Line {
    node: NodeId,
    request: Vec<NodeId>,
    inform: Vec<NodeId>,
}

impl SetsOf {
    /// Reads sets from text, a line `0: request 0 1 2 inform 0 1` per process.
    pub fn parse(text: &str) -> Result<Self, StartError> {
        let mut lines: Vec<Option<Line>> = Vec::new();
        for (number, text) in text.lines().enumerate() {
            let text = text.split('#').next().unwrap_or("").trim();
            if text.is_empty() {
                continue;
            }
            let refuse = |why: String| StartError::new(format!("line {}: {why}", number + 1));
            let line = line(text).map_err(refuse)?;
            let place = line.node.index();
            if lines.len() <= place {
                lines.resize_with(place + 1, || None);
            }
            if lines[place].is_some() {
                return Err(refuse(format!("process {place} has a line already")));
            }
            lines[place] = Some(line);
        }
        let missing = |(place, line): (usize, Option<Line>)| {
            line.ok_or_else(|| {
                StartError::new(format!("process {place} has no line; every process has one"))
            })
        };
        let lines: Vec<_> = lines.into_iter().enumerate().map(missing).collect::<Result<_, _>>()?;
        let (request, inform) = lines.into_iter().map(|line| (line.request, line.inform)).unzip();
        Ok(Self::new(request, inform)?)
    }
}

/// A file that asks for more processes than this is taken for a mistake.
const NODES_AT_MOST: u32 = 1 << 20;

fn line(text: &str) -> Result<Line, String> {
    let form = || format!("a line is `0: request 0 1 inform 0`, this one is `{text}`");
    let (node, sets) = text.split_once(':').ok_or_else(form)?;
    let node = process(node.trim())?;
    let sets = sets.trim_start().strip_prefix("request").ok_or_else(form)?;
    let (request, inform) = sets.split_once("inform").ok_or_else(form)?;
    let set = |words: &str| words.split_whitespace().map(process).collect::<Result<_, _>>();
    Ok(Line { node, request: set(request)?, inform: set(inform)? })
}

fn process(word: &str) -> Result<NodeId, String> {
    match word.parse() {
        Ok(node) if node < NODES_AT_MOST => Ok(NodeId(node)),
        _ => Err(format!("a process is a number below {NODES_AT_MOST}, `{word}` is none")),
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
    fn what_is_no_line_is_refused_with_its_number() {
        assert!(refusal("0: request 0 inform 0\n1 request 1").starts_with("line 2: a line is"));
        assert!(refusal("0: inform 0 request 0").starts_with("line 1: a line is"));
        assert!(refusal("0: request 0 x inform 0").contains("`x` is none"));
        assert!(refusal("4000000000: request 0 inform 0").contains("`4000000000` is none"));
        let twice = refusal("0: request 0 inform 0\n0: request 0 inform 0");
        assert_eq!(twice, "line 2: process 0 has a line already");
        let gap = refusal("1: request 1 inform 1");
        assert_eq!(gap, "process 0 has no line; every process has one");
    }
}
