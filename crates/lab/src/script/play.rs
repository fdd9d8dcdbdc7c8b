//! Playing a script.

use std::ops::Range;

use mutua_algorithms::{NodeId, Quorums, Setup, StartError, registry};

use super::{
    Command, Expectation, Item, Line, Script,
    check::{self, Mismatch, Unexpected},
    deadlock, lost,
    players::{self, Player},
};
use crate::{
    Event, Header, Message, Refusal, What, Which, describe,
    diagram::{self, Deadlock, Drawing, Structure},
};

/// A script that was played, to its end or to the first step that could not be taken.
#[derive(Clone, Debug)]
pub struct Played {
    /// The algorithm, its settings and its processes.
    pub header: Header,
    /// The trace.
    pub events: Vec<Event>,
    /// The outcome of each line, in order.
    pub moments: Vec<Moment>,
    /// Why no process can go on at the end, if none can.
    pub deadlock: Option<Deadlock>,
}

/// A line and its outcome.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The line's number in the file; 0 if it comes from no file.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is a comment.
    Comment,
    /// The step was taken; these are its events in the trace.
    Done(Range<usize>),
    /// The expectation holds.
    Held,
    /// The expectation does not hold, or the step could not be taken.
    Failed(Failure),
}

/// A failure of a line, or of the whole script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The step could not be taken; the lines after it were not played.
    Refused(Refusal),
    /// The expectation does not hold.
    Mismatch {
        /// The state found instead.
        found: String,
    },
    /// A violation or an invalid message that no line expects.
    Unexpected(Unexpected),
}

impl Played {
    /// The trace in readable form, as it is kept below a script.
    pub fn observed(&self) -> String {
        describe::trace(&self.header, &self.events)
    }

    /// The comments, each with the time of the step that follows it.
    fn remarks(&self) -> Vec<(u64, String)> {
        let last = self.events.last().map_or(0, |event| event.at);
        let mut remarks: Vec<(u64, String)> = Vec::new();
        let mut begun = 0;
        for moment in &self.moments {
            match &moment.outcome {
                Outcome::Comment => remarks.push((last, moment.text.clone())),
                Outcome::Done(events) => {
                    let at = self.events.get(events.start).map_or(last, |event| event.at);
                    remarks[begun..].iter_mut().for_each(|remark| remark.0 = at);
                    begun = remarks.len();
                }
                Outcome::Held | Outcome::Failed(_) => {}
            }
        }
        let plain = |text: &str| text.trim_start_matches('#').trim().to_owned();
        remarks.into_iter().map(|(at, text)| (at, plain(&text))).collect()
    }

    /// The token or the messages that were lost, as the end of a sentence.
    pub fn losses(&self) -> String {
        lost::losses(&self.header, &self.events).words()
    }

    /// The failures, a sentence each.
    pub fn failures(&self) -> Vec<String> {
        self.moments.iter().filter_map(Moment::failure).collect()
    }
}

impl Moment {
    /// If the line failed: its number, the expectation, and the state found.
    pub fn failure(&self) -> Option<String> {
        let Outcome::Failed(failure) = &self.outcome else { return None };
        let (line, text) = (self.line, &self.text);
        Some(match failure {
            Failure::Refused(why) => format!("line {line}: cannot `{text}`: {why}"),
            Failure::Mismatch { found } => {
                let expected = text.strip_prefix("expect ").unwrap_or(text);
                format!("line {line}: expected {expected}; found {found}")
            }
            Failure::Unexpected(unexpected) => format!("at the end: {unexpected}"),
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
        Ok(Played { header, events, moments, deadlock: deadlock::explain(player.as_ref()) })
    }

    /// How to draw what was played: with the sentence that the script shows, its comments, and the
    /// deadlock at its end.
    pub fn drawing(&self, played: &Played) -> Drawing {
        Drawing {
            caption: self.shows.clone(),
            deadlock: played.deadlock.clone(),
            structure: self.structure(played),
            remarks: played.remarks(),
            ..Drawing::default()
        }
    }

    /// The tree of the system, or the quorums of the first processes that request.
    fn structure(&self, played: &Played) -> Option<Structure> {
        let setup = &self.system.setup;
        if !self.system.sections.is_empty() {
            return None;
        }
        let nodes = u32::try_from(self.system.processes.len())
            .ok()
            .filter(|&n| n <= diagram::MOST_DRAWN)?;
        match registry::about(&self.system.algorithm)?.structure {
            mutua_algorithms::Structure::Tree => {
                let setup = Setup { nodes, ..setup.clone() };
                diagram::trees(&setup, &played.header, &played.events)
            }
            mutua_algorithms::Structure::Quorums => {
                let quorums = Quorums::new(setup.quorums, nodes).ok()?;
                let mut requesters: Vec<NodeId> = Vec::new();
                let requests = played.events.iter().filter(|event| event.what == What::Request);
                for event in requests {
                    if !requesters.contains(&event.who) && requesters.len() < MOST_QUORUMS {
                        requesters.push(event.who);
                    }
                }
                let sets = requesters.iter().map(|&who| (who, quorums.of(who).to_vec())).collect();
                (!requesters.is_empty()).then_some(Structure::Quorums(sets))
            }
            mutua_algorithms::Structure::Complete
            | mutua_algorithms::Structure::Ring
            | mutua_algorithms::Structure::Sets => None,
        }
    }

    /// The violations and invalid messages that no line expects.
    fn unexpected(&self, player: &dyn Player) -> Vec<Moment> {
        let expected = |line: &Line| match &line.item {
            Item::Expect(expectation) => Some(expectation.clone()),
            Item::Comment(_) | Item::Command(_) => None,
        };
        let expected: Vec<Expectation> = self.lines.iter().filter_map(expected).collect();
        let moment = |unexpected| {
            let outcome = Outcome::Failed(Failure::Unexpected(unexpected));
            Moment { line: 0, text: String::new(), outcome }
        };
        check::unexpected(player, &expected).into_iter().map(moment).collect()
    }
}

/// More quorums are not drawn.
const MOST_QUORUMS: usize = 4;

pub(super) fn play_line(player: &mut dyn Player, line: &Line) -> Outcome {
    match &line.item {
        Item::Comment(_) => Outcome::Comment,
        Item::Command(command) => {
            let before = player.events().len();
            match act(player, command) {
                Ok(()) => Outcome::Done(before..player.events().len()),
                Err(why) => Outcome::Failed(Failure::Refused(why)),
            }
        }
        Item::Expect(expectation) => match check::check(player, expectation) {
            Ok(()) => Outcome::Held,
            Err(Mismatch(found)) => Outcome::Failed(Failure::Mismatch { found }),
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
        // Messages of one link arrive in their order.
        let which = Which { kind: kind.clone(), nth: 1 };
        player.act(&Command::Deliver { from, to, which })?;
    }
    Ok(())
}
