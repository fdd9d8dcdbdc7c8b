//! Reading a script.

use super::{
    Item, Line, Script, ScriptError, SyntaxError, System,
    command::Command,
    expectation::Expectation,
    language::Form,
    names::{Names, parse_number},
    system::parse_processes,
};

/// The line between a script and its trace.
const SEPARATOR: &str = "---";

impl Script {
    /// Reads a script.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let (script, observed) = split(text);
        let mut parser = Parser::default();
        for (index, line) in script.lines().enumerate() {
            parser
                .line(index + 1, line.trim())
                .map_err(|why| ScriptError { line: index + 1, why })?;
        }
        let last = script.lines().count().max(1);
        parser.finish(name, observed).map_err(|why| ScriptError { line: last, why })
    }
}

/// The script, and the text below the separator.
fn split(text: &str) -> (&str, Option<&str>) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == SEPARATOR {
            return (&text[..start], Some(&text[start + line.len()..]));
        }
        start += line.len();
    }
    (text, None)
}

/// A script's text without the trace below it.
pub fn without_observed(text: &str) -> &str {
    split(text).0
}

/// A script's text with another trace below it.
pub fn with_observed(text: &str, observed: &str) -> String {
    let script = split(text).0.trim_end();
    format!("{script}\n{SEPARATOR}\n{observed}")
}

#[derive(Default)]
pub(super) struct Parser {
    source: String,
    shows: String,
    /// The one of the two that a comment at the top continues.
    continued: Option<About>,
    algorithm: Option<String>,
    system: Option<System>,
    lines: Vec<Line>,
    /// Where each open repetition began in `lines`, and its count.
    repeats: Vec<(usize, u64)>,
}

#[derive(Clone, Copy)]
enum About {
    Source,
    Shows,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), SyntaxError> {
        if let Some(comment) = line.strip_prefix('#') {
            self.comment(number, comment);
            return Ok(());
        }
        let words: Vec<_> = line.split_whitespace().collect();
        if !words.is_empty() {
            self.continued = None;
            self.words(number, &words)?;
        }
        Ok(())
    }

    fn comment(&mut self, number: usize, comment: &str) {
        let words = comment.trim();
        if self.algorithm.is_some() || self.system.is_some() {
            let item = Item::Comment(words.to_owned());
            return self.lines.push(Line { number, item });
        }
        let words = if let Some(source) = words.strip_prefix("source:") {
            self.continued = Some(About::Source);
            source.trim()
        } else if let Some(shows) = words.strip_prefix("shows:") {
            self.continued = Some(About::Shows);
            shows.trim()
        } else {
            words
        };
        let text = match self.continued {
            Some(About::Source) => &mut self.source,
            Some(About::Shows) => &mut self.shows,
            None => return,
        };
        if !text.is_empty() && !words.is_empty() {
            text.push(' ');
        }
        text.push_str(words);
    }

    fn words(&mut self, number: usize, words: &[&str]) -> Result<(), SyntaxError> {
        if self.system.is_none()
            && let Some(read) = BEGIN.iter().find_map(|form| (form.read)(self, words))
        {
            return read;
        }
        let system = self.system.as_mut().ok_or(SyntaxError::NoSystem)?;
        // Comments may stand before the system is complete, steps may not.
        let steps = self.lines.iter().any(|line| !matches!(line.item, Item::Comment(_)));
        if !steps && self.repeats.is_empty() && system.parse(words)? {
            return Ok(());
        }
        self.step(number, words)
    }

    fn step(&mut self, number: usize, words: &[&str]) -> Result<(), SyntaxError> {
        if let Some(block) = BLOCKS.iter().find_map(|form| (form.read)(words)) {
            return match block? {
                Block::Repeat(count) => {
                    self.repeats.push((self.lines.len(), count));
                    Ok(())
                }
                Block::End => self.end_repeat(),
            };
        }
        let names = self.system.as_ref().map(System::names_of_all).unwrap_or_default();
        let names = Names(&names);
        let item = match words {
            ["expect", expectation @ ..] => Item::Expect(Expectation::parse(expectation, names)?),
            command => Item::Command(Command::parse(command, names)?),
        };
        self.lines.push(Line { number, item });
        Ok(())
    }

    fn processes(&mut self, names: &[&str]) -> Result<(), SyntaxError> {
        let algorithm = self.algorithm.as_ref().ok_or(SyntaxError::NoAlgorithm)?;
        self.system = Some(System::new(algorithm, parse_processes(names)?));
        Ok(())
    }

    fn end_repeat(&mut self) -> Result<(), SyntaxError> {
        let (from, count) = self.repeats.pop().ok_or(SyntaxError::NoRepeat)?;
        let block = self.lines.split_off(from);
        for _ in 0..count {
            if self.lines.len() + block.len() > LONGEST {
                return Err(SyntaxError::TooLong(LONGEST));
            }
            self.lines.extend(block.iter().cloned());
        }
        Ok(())
    }

    fn finish(self, name: &str, observed: Option<&str>) -> Result<Script, SyntaxError> {
        let mut system = self.system.ok_or(SyntaxError::NoSystem)?;
        if !self.repeats.is_empty() {
            return Err(SyntaxError::NoEnd);
        }
        system.complete()?;
        Ok(Script {
            name: name.to_owned(),
            source: self.source,
            shows: self.shows,
            system,
            lines: self.lines,
            observed: observed.map(str::to_owned),
        })
    }
}

/// Reads one of the first lines; none if it is of another form.
type ReadBegin = fn(&mut Parser, &[&str]) -> Option<Result<(), SyntaxError>>;

/// The forms of the first two lines.
pub(super) const BEGIN: &[Form<ReadBegin>] = &[
    Form {
        syntax: "algorithm NAME",
        meaning: "the algorithm, as `mutua algorithms` lists them; the first line",
        example: "algorithm lamport",
        read: |parser, words| match words {
            ["algorithm", name] => {
                parser.algorithm = Some((*name).to_owned());
                Some(Ok(()))
            }
            _ => None,
        },
    },
    Form {
        syntax: "processes A B ...",
        meaning: "the names of the processes in the order of their ids, P1..P4 for P1 P2 P3 P4; a \
                  dedicated coordinator comes last",
        example: "processes P1..P4",
        read: |parser, words| match words {
            ["processes", names @ ..] => Some(parser.processes(names)),
            _ => None,
        },
    },
];

/// A line that repeats others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Block {
    Repeat(u64),
    End,
}

/// Reads such a line; none if it is of another form.
type ReadBlock = fn(&[&str]) -> Option<Result<Block, SyntaxError>>;

/// The forms of repetitions.
pub(super) const BLOCKS: &[Form<ReadBlock>] = &[
    Form {
        syntax: "repeat N",
        meaning: "the lines up to `end` stand N times",
        example: "repeat 3",
        read: |words| match words {
            ["repeat", count] => Some(parse_number(count, "count").map(Block::Repeat)),
            _ => None,
        },
    },
    Form {
        syntax: "end",
        meaning: "ends a repetition",
        example: "end",
        read: |words| (words == ["end"]).then_some(Ok(Block::End)),
    },
];

/// A longer script is more likely a mistaken repetition.
const LONGEST: usize = 1_000_000;
