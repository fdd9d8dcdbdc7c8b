//! The script language as tables: the parser reads lines by them, and so do help and documents.

use serde::Serialize;

/// A form of a line. `R` reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form<R> {
    /// How it is written: capitals stand for words of the script, brackets for what may be left
    /// out.
    pub(super) syntax: &'static str,
    /// The meaning, as a part of a sentence.
    pub(super) meaning: &'static str,
    /// An example.
    pub(super) example: &'static str,
    /// Reads a line of this form; none if it is of another one.
    pub(super) read: R,
}

/// A part of the language.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Its title.
    pub title: &'static str,
    /// What its lines are for.
    pub about: &'static str,
    /// The forms of its lines.
    pub forms: Vec<Described>,
}

/// A form of a line, described.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Described {
    /// How it is written: capitals stand for words of the script, brackets for what may be left
    /// out.
    pub syntax: &'static str,
    /// The meaning, as a part of a sentence.
    pub meaning: &'static str,
    /// An example.
    pub example: &'static str,
}

impl<R> Form<R> {
    pub(super) fn described(&self) -> Described {
        Described { syntax: self.syntax, meaning: self.meaning, example: self.example }
    }
}

/// The whole language, from the parser's own tables.
pub fn language() -> Vec<Section> {
    fn all<R>(forms: &[Form<R>]) -> Vec<Described> {
        forms.iter().map(Form::described).collect()
    }
    let begin = all(super::parse::BEGIN).into_iter().chain(all(super::system::HEAD));
    vec![
        Section {
            title: "The system",
            about: "comes first: the algorithm, its processes, then what is not as by default",
            forms: begin.collect(),
        },
        Section {
            title: "Steps",
            about: "one a line, taken in order",
            forms: all(super::command::STEPS)
                .into_iter()
                .chain(all(super::parse::BLOCKS))
                .collect(),
        },
        Section {
            title: "Expectations",
            about: "are checked where they stand",
            forms: all(super::expectation::EXPECTATIONS),
        },
    ]
}

/// The form nearest to a line, compared by the words that are the same in every script; none if no
/// form is near.
pub(super) fn nearest(
    words: &[&str],
    is_name: impl Fn(&str) -> bool,
    forms: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let fixed = |word: &&&str| !is_name(word) && word.chars().any(char::is_alphabetic);
    let line = words.iter().filter(fixed).copied().collect::<Vec<_>>().join(" ");
    let score = |syntax: &str| {
        let is_fixed =
            |word: &&str| word.chars().all(|letter| letter.is_lowercase() || letter == '_');
        let fixed = syntax.split_whitespace().filter(is_fixed).collect::<Vec<_>>().join(" ");
        strsim::normalized_damerau_levenshtein(&line, &fixed)
    };
    let scored = forms.map(|syntax| (score(syntax), syntax));
    let (best, syntax) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best >= NEAR).then_some(syntax)
}

/// A line must be as similar as this to a form.
const NEAR: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Script;

    /// A script with this line, after what the line needs.
    fn script(section: &str, example: &str) -> String {
        let head = "algorithm lamport\nprocesses P1 P2 P3 P4\n";
        match (section, example) {
            ("The system", "algorithm lamport") => head.to_owned(),
            ("The system", example) if example.starts_with("processes") => {
                format!("algorithm lamport\n{example}\n")
            }
            ("The system", example) if example.contains("_set ") => {
                let sets = |kind: &str| {
                    let line = |p: &&str| format!("{kind}_set {p}: {p}\n");
                    ["P1", "P2", "P3", "P4"].iter().map(line).collect::<String>()
                };
                let head = head.replace("lamport", "sanders");
                format!("{head}{}{}{example}\n", sets("request"), sets("inform"))
            }
            ("Steps", "repeat 3") => format!("{head}repeat 3\nend\n"),
            ("Steps", "end") => format!("{head}repeat 2\nend\n"),
            _ => format!("{head}{example}\n"),
        }
    }

    #[test]
    fn every_form_has_an_example_that_is_read_by_it() {
        for section in language() {
            for form in &section.forms {
                let text = script(section.title, form.example);
                let read = Script::parse("example", &text);
                assert!(read.is_ok(), "{}: {}", form.example, read.unwrap_err());
            }
        }
    }

    #[test]
    fn a_step_is_written_as_its_example() {
        let section = language().into_iter().find(|section| section.title == "Steps");
        for form in section.expect("there are steps").forms {
            let script =
                Script::parse("example", &script("Steps", form.example)).expect("a script");
            // A repetition is written out.
            if let [line] = script.lines.as_slice() {
                assert_eq!(script.line_text(line), form.example, "{}", form.syntax);
            }
        }
    }

    #[test]
    fn a_misspelt_step_is_answered_with_the_nearest() {
        for (line, near) in [
            ("P1 request", "did you mean `A requests`?"),
            ("P1 exit", "did you mean `A exits`?"),
            ("delivr all", "did you mean `deliver all`?"),
            ("loose P1 -> P2", "did you mean `lose [KIND][#N] A -> B`?"),
            ("P1 enters", "unknown step `P1 enters`"),
            ("expect deadlok", "did you mean `expect deadlock`?"),
            ("expect P1 idel", "did you mean `expect A idle`?"),
        ] {
            let text = format!("algorithm lamport\nprocesses P1 P2\n{line}\n");
            let error = Script::parse("wrong", &text).expect_err("not a step").to_string();
            assert!(error.contains(near), "{error}");
        }
    }
}
