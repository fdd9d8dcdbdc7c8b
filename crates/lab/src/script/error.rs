//! Errors of the script language.

use mutua_algorithms::{SetsError, StartError, UnknownName};

/// A text that is not a script. Nothing was played.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ScriptError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The error in that line.
    pub why: SyntaxError,
}

/// An error in a line of a script, or, at its last line, in the whole script.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// The script does not begin with its system.
    #[error("a script begins with `algorithm NAME` and `processes A B C`")]
    NoSystem,
    /// The processes are named before the algorithm.
    #[error("`algorithm NAME` comes first")]
    NoAlgorithm,
    /// No process is named.
    #[error("no process is named: use `processes A B C` or `processes P1..P4`")]
    NoProcesses,
    /// A process is named twice.
    #[error("two processes are called `{0}`")]
    NamedTwice(String),
    /// The system is too large for a script.
    #[error("a script has at most {0} processes; `mutua simulate` takes more")]
    TooMany(usize),
    /// A range of names is not one.
    #[error("invalid range of names `{0}`: use a range such as P1..P4")]
    Range(String),
    /// No process has this name.
    #[error("unknown process `{name}`: use {known}")]
    UnknownProcess {
        /// The name.
        name: String,
        /// The names of the processes.
        known: String,
    },
    /// The line is neither a step nor an expectation.
    #[error("unknown step `{line}`{}", hint(*near))]
    UnknownStep {
        /// The line.
        line: String,
        /// The form that it is nearest to, if it is near one.
        near: Option<&'static str>,
    },
    /// The line describes the system, but steps came before it.
    #[error("`{0}` is too late: the system is described before the first step")]
    TooLate(String),
    /// The line expects nothing that can be checked.
    #[error("missing expectation after `expect`")]
    NoExpectation,
    /// The expectation is none of those that there are.
    #[error("unknown expectation `{line}`{}", hint(*near))]
    UnknownExpectation {
        /// The words after `expect`.
        line: String,
        /// The form that it is nearest to, if it is near one.
        near: Option<&'static str>,
    },
    /// The property is not judged while scripts are played.
    #[error("unknown property `{name}`: use {}", known.join(", "))]
    UnknownProperty {
        /// The name.
        name: String,
        /// The properties that are judged.
        known: &'static [&'static str],
    },
    /// A message is not written as one.
    #[error("invalid message `{0}`: use `A -> B` or `KIND A -> B`")]
    Message(String),
    /// Messages on a link are counted from 1.
    #[error("invalid message number `#{0}`: messages on a link are counted from 1")]
    MessageNumber(u64),
    /// `deliver every` is followed by something else than a kind and ends.
    #[error("invalid selection `{0}`: use `from A`, `to B` or both")]
    Selection(String),
    /// A field of a message is not written as one.
    #[error("invalid field `{0}`: use `NAME = VALUE`")]
    Field(String),
    /// A number is not one.
    #[error("invalid {what} `{word}`: use a whole number")]
    Number {
        /// The meaning of the number.
        what: &'static str,
        /// The text.
        word: String,
    },
    /// A clock reading is too large.
    #[error("invalid clock reading `{0}`: use a number below 2^40")]
    Clock(u64),
    /// An edge of a tree is not written as one.
    #[error("invalid edge `{0}`: use `A-B`")]
    Edge(String),
    /// A set of processes is not written as one.
    #[error("invalid set `{0}`: use `{0}: A B C`")]
    Set(String),
    /// A process has no request set or no inform set.
    #[error("every process needs a line `request_set` and a line `inform_set`")]
    IncompleteSets,
    /// The algorithm has no request and inform sets.
    #[error("{0} has no request sets and no inform sets; sanders has")]
    NoSets(String),
    /// The option names other sets than the lines.
    #[error(
        "the option sets={0} names other sets than the lines `request_set` and `inform_set`: leave \
         it out, or the lines"
    )]
    OtherSets(String),
    /// The request and inform sets do not fit together.
    #[error(transparent)]
    Sets(#[from] SetsError),
    /// An option is not written as one.
    #[error(transparent)]
    Settings(#[from] StartError),
    /// A topology, a kind of quorums, of links or of timers is unknown.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// The repair is unknown.
    #[error("unknown repair `{0}`: use generic, special or generic-without-views")]
    Repair(String),
    /// A repetition has no end.
    #[error("`repeat` without `end`")]
    NoEnd,
    /// A repetition ends that has not begun.
    #[error("`end` without `repeat N`")]
    NoRepeat,
    /// The script is too long with its repetitions written out.
    #[error("repeated, the script has more than {0} lines")]
    TooLong(usize),
}

fn hint(near: Option<&str>) -> String {
    match near {
        Some(near) => format!(": did you mean `{near}`?"),
        None => "; `mutua replay --language` lists all".to_owned(),
    }
}
