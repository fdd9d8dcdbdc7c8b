//! Reading a script.

use super::{
    Item, Line, Script, System,
    command::Command,
    expectation::Expectation,
    names::{Names, parse_number},
    system::parse_processes,
};

/// Why a text is no script. Nothing was played.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ScriptError {
    /// In which line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// What stands between the script and what was observed.
const SEPARATOR: &str = "---";

impl Script {
    /// Reads a script.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let (script, observed) = split(text);
        let mut parser = Parser::default();
        for (place, line) in script.lines().enumerate() {
            parser
                .line(place + 1, line.trim())
                .map_err(|why| ScriptError { line: place + 1, why })?;
        }
        let last = script.lines().count().max(1);
        parser.finish(name, observed).map_err(|why| ScriptError { line: last, why })
    }
}

/// The script, and what stands below the separator.
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

/// A script's text with other observations below it.
pub fn with_observed(text: &str, observed: &str) -> String {
    let script = split(text).0.trim_end();
    format!("{script}\n{SEPARATOR}\n{observed}")
}

#[derive(Default)]
struct Parser {
    source: String,
    shows: String,
    /// Which of the two a comment at the top goes on with.
    continued: Option<About>,
    algorithm: Option<String>,
    system: Option<System>,
    lines: Vec<Line>,
    /// Where a repetition began in `lines`, and how often it is wanted.
    repeats: Vec<(usize, u64)>,
}

#[derive(Clone, Copy)]
enum About {
    Source,
    Shows,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
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
        let said = match self.continued {
            Some(About::Source) => &mut self.source,
            Some(About::Shows) => &mut self.shows,
            None => return,
        };
        if !said.is_empty() && !words.is_empty() {
            said.push(' ');
        }
        said.push_str(words);
    }

    fn words(&mut self, number: usize, words: &[&str]) -> Result<(), String> {
        match words {
            ["algorithm", name] if self.system.is_none() => {
                self.algorithm = Some((*name).to_owned());
                return Ok(());
            }
            ["processes", names @ ..] if self.system.is_none() => {
                let algorithm = self.algorithm.as_ref().ok_or("`algorithm NAME` comes first")?;
                self.system = Some(System::new(algorithm, parse_processes(names)?));
                return Ok(());
            }
            _ => {}
        }
        let system = self
            .system
            .as_mut()
            .ok_or("a script begins with `algorithm NAME` and `processes A B C`")?;
        // Comments may stand before the system is complete, steps may not.
        let steps = self.lines.iter().any(|line| !matches!(line.item, Item::Comment(_)));
        if !steps && self.repeats.is_empty() && system.parse(words)? {
            return Ok(());
        }
        self.step(number, words)
    }

    fn step(&mut self, number: usize, words: &[&str]) -> Result<(), String> {
        let names = Names(self.system.as_ref().map_or(&[], |system| &system.processes));
        let item = match words {
            ["repeat", count] => {
                let count = parse_number(count, "how often")?;
                self.repeats.push((self.lines.len(), count));
                return Ok(());
            }
            ["end"] => return self.end_repeat(),
            ["expect", expectation @ ..] => Item::Expect(Expectation::parse(expectation, names)?),
            command => Item::Command(Command::parse(command, names)?),
        };
        self.lines.push(Line { number, item });
        Ok(())
    }

    fn end_repeat(&mut self) -> Result<(), String> {
        let (from, count) = self.repeats.pop().ok_or("`end` without `repeat N`")?;
        let block = self.lines.split_off(from);
        for _ in 0..count {
            if self.lines.len() + block.len() > LONGEST {
                return Err(format!("repeated, the script has more than {LONGEST} lines"));
            }
            self.lines.extend(block.iter().cloned());
        }
        Ok(())
    }

    fn finish(self, name: &str, observed: Option<&str>) -> Result<Script, String> {
        let mut system =
            self.system.ok_or("a script begins with `algorithm NAME` and `processes A B C`")?;
        if !self.repeats.is_empty() {
            return Err("`repeat` without `end`".to_owned());
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

/// Nobody reads a longer script; a repetition gone wrong is more likely.
const LONGEST: usize = 1_000_000;
