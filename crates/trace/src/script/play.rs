//! Playing a script.

use std::ops::Range;

use mutua_algorithms::{NodeId, StartError};

use super::{
    Command, Expectation, Item, Line, Script,
    check::{self, Unexpected},
    players::{self, Player},
};
use crate::{Event, Header, Message, Refusal, Which, describe};

/// A script that was played, to its end or to the first step that could not be taken.
#[derive(Clone, Debug)]
pub struct Played {
    /// What ran, and who took part.
    pub header: Header,
    /// The trace.
    pub events: Vec<Event>,
    /// What came of each line, in order.
    pub moments: Vec<Moment>,
}

/// What came of one line.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The line's number in the file; 0 if it is of no file.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was for the reader.
    Said,
    /// The step was taken; these are its events in the trace.
    Done(Range<usize>),
    /// It was as expected.
    Held,
    /// It was not as expected, or the step could not be taken.
    Failed(Failure),
}

/// What was not as the script says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// A step could not be taken; the rest was not played.
    Refused(Refusal),
    /// An expectation did not hold.
    NotSo {
        /// What is so instead.
        found: String,
    },
    /// Something happened that no line expects.
    Unexpected {
        /// What.
        what: String,
    },
}

impl Played {
    /// The trace in readable form: what stands below a script.
    pub fn observed(&self) -> String {
        describe::trace(&self.header, &self.events)
    }

    /// What was not as the script says, a sentence each.
    pub fn failures(&self) -> Vec<String> {
        self.moments.iter().filter_map(Moment::failure).collect()
    }
}

impl Moment {
    /// If the line failed: its number, what was expected, and what is.
    pub fn failure(&self) -> Option<String> {
        let Outcome::Failed(failure) = &self.outcome else { return None };
        let (line, text) = (self.line, &self.text);
        Some(match failure {
            Failure::Refused(why) => format!("line {line}: cannot `{text}`: {why}"),
            Failure::NotSo { found } => {
                let expected = text.strip_prefix("expect ").unwrap_or(text);
                format!("line {line}: expected {expected}; found {found}")
            }
            Failure::Unexpected { what } => format!("at the end: {what}"),
        })
    }
}

impl Script {
    /// Plays the script on the real machines.
    pub fn play(&self) -> Result<Played, StartError> {
        let mut player = players::build(&self.system, &self.name)?;
        let mut moments = Vec::new();
        let mut refused = false;
        for line in &self.lines {
            let outcome = play_line(player.as_mut(), line);
            refused = matches!(outcome, Outcome::Failed(Failure::Refused(_)));
            moments.push(Moment { line: line.number, text: self.line_text(line), outcome });
            if refused {
                break;
            }
        }
        if !refused {
            moments.extend(self.unexpected(player.as_ref()));
        }
        let (header, events) = (player.header().clone(), player.events().to_vec());
        Ok(Played { header, events, moments })
    }

    /// What happened that no line expects.
    fn unexpected(&self, player: &dyn Player) -> Vec<Moment> {
        let expected = |line: &Line| match &line.item {
            Item::Expect(expectation) => Some(expectation.clone()),
            Item::Comment(_) | Item::Command(_) => None,
        };
        let expected: Vec<Expectation> = self.lines.iter().filter_map(expected).collect();
        let moment = |Unexpected(what)| {
            let outcome = Outcome::Failed(Failure::Unexpected { what });
            Moment { line: 0, text: String::new(), outcome }
        };
        check::unexpected(player, &expected).into_iter().map(moment).collect()
    }
}

fn play_line(player: &mut dyn Player, line: &Line) -> Outcome {
    match &line.item {
        Item::Comment(_) => Outcome::Said,
        Item::Command(command) => {
            let before = player.events().len();
            match act(player, command) {
                Ok(()) => Outcome::Done(before..player.events().len()),
                Err(why) => Outcome::Failed(Failure::Refused(why)),
            }
        }
        Item::Expect(expectation) => match check::check(player, expectation) {
            Ok(()) => Outcome::Held,
            Err(found) => Outcome::Failed(Failure::NotSo { found }),
        },
    }
}

fn act(player: &mut dyn Player, command: &Command) -> Result<(), Refusal> {
    let Command::DeliverEvery { kind, from, to } = command else { return player.act(command) };
    let meant = |message: &(NodeId, NodeId, &Message)| {
        from.is_none_or(|from| from == message.0)
            && to.is_none_or(|to| to == message.1)
            && kind.as_ref().is_none_or(|kind| *kind == message.2.kind)
    };
    let in_flight = player.in_flight().into_iter();
    let now: Vec<_> = in_flight.filter(meant).map(|(from, to, _)| (from, to)).collect();
    if now.is_empty() {
        return Err(Refusal::new("no such message is in flight"));
    }
    for (from, to) in now {
        // Those of one link go in their order.
        let which = Which { kind: kind.clone(), nth: 1 };
        player.act(&Command::Deliver { from, to, which })?;
    }
    Ok(())
}
