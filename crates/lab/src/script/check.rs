//! Checks of a script's expectations.

use std::fmt;

use mutua_algorithms::{NodeId, Phase};

use super::{Expectation, expectation::PROPERTIES, names::Names, players::Player};
use crate::{Message, What, describe};

/// An event of a script's run that no line expects.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Unexpected {
    /// A property was violated.
    Violation {
        /// The property.
        property: String,
        /// Where, by which process, and how.
        evidence: String,
    },
    /// A receiver reported a message as invalid.
    Nonsense {
        /// Where, by which process, and why.
        evidence: String,
    },
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation { property, evidence } => {
                write!(f, "{property} was violated {evidence}, and no line expects it")
            }
            Self::Nonsense { evidence } => write!(f, "{evidence}, and no line expects nonsense"),
        }
    }
}

/// An expectation that does not hold, with what was found instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Mismatch(pub(super) String);

/// Checks an expectation in the present state.
pub(super) fn check(player: &dyn Player, expected: &Expectation) -> Result<(), Mismatch> {
    let look = Look { player, names: Names(&player.header().processes) };
    match expected {
        Expectation::Phase(who, phase) => look.phase(*who, *phase),
        Expectation::Down(who) => must(!player.is_up(*who), || "it is up".to_owned()),
        Expectation::NobodyInCs => look.in_cs(0),
        Expectation::TwoInCs => look.in_cs(2),
        Expectation::Entries(who) => {
            let entries = player.entries();
            must(entries == *who, || format!("entries {}", look.list(&entries)))
        }
        Expectation::Variable { who, name, value } => look.variable(*who, name, value),
        Expectation::WaitsFor(who, whom) => {
            let mut waits_for = player.waits_for(*who);
            let mut whom = whom.clone();
            waits_for.sort();
            whom.sort();
            must(waits_for == whom, || format!("it waits for {}", look.list(&waits_for)))
        }
        Expectation::InFlight { from, to, kind, field, there } => {
            let is_meant = |message: &Message| {
                kind.as_ref().is_none_or(|kind| *kind == message.kind)
                    && field
                        .as_ref()
                        .is_none_or(|(name, value)| message.fields.get(name) == Some(value))
            };
            look.in_flight(*from, *to, is_meant, *there)
        }
        Expectation::NoMessages => look.no_messages(),
        Expectation::Sent(count, kind) => {
            let sent = look.sent(kind.as_deref());
            must(sent == *count, || format!("sent {sent}"))
        }
        Expectation::Deadlock(deadlock) => look.deadlock(*deadlock),
        Expectation::Violated(property, violated) => {
            let found = look.violation(property);
            must(found.is_some() == *violated, || found.unwrap_or_else(|| "it holds".to_owned()))
        }
        Expectation::Nonsense => {
            must(look.nonsense().is_some(), || "no invalid message".to_owned())
        }
        Expectation::Coordinator(who) => look.coordinator(*who),
        Expectation::TwoCoordinators => {
            let coordinators: Vec<_> =
                look.all().filter(|&who| player.coordinator(who) == Some(who)).collect();
            must(coordinators.len() == 2, || format!("coordinators: {}", look.list(&coordinators)))
        }
        Expectation::Timer(who, timer) => {
            let timers = player.timers(*who);
            let words: Vec<_> = timers.iter().map(|timer| timer.word()).collect();
            must(timers.contains(timer), || format!("timers set: {}", or_none(words.join(", "))))
        }
        Expectation::Flags(flags) => {
            let found = player.ring().map(|ring| ring.flags().to_vec()).unwrap_or_default();
            let words: Vec<_> = found.iter().map(u32::to_string).collect();
            must(found == *flags, || format!("flags {}", or_none(words.join(" "))))
        }
        Expectation::Privileged(who) => {
            let found: Vec<_> =
                player.ring().map(|ring| ring.privileged().collect()).unwrap_or_default();
            must(found == *who, || format!("privileged {}", look.list(&found)))
        }
    }
}

/// The violations and invalid messages that none of these expects.
pub(super) fn unexpected(player: &dyn Player, expected: &[Expectation]) -> Vec<Unexpected> {
    let look = Look { player, names: Names(&player.header().processes) };
    let is_expected = |property: &str| {
        expected.iter().any(|expectation| match expectation {
            Expectation::Violated(expected, true) => expected == property,
            Expectation::TwoInCs => property == "mutual-exclusion",
            _ => false,
        })
    };
    let mut found = Vec::new();
    for &property in PROPERTIES {
        if let Some(evidence) = look.violation(property).filter(|_| !is_expected(property)) {
            found.push(Unexpected::Violation { property: property.to_owned(), evidence });
        }
    }
    let nonsense = look.nonsense().filter(|_| !expected.contains(&Expectation::Nonsense));
    found.extend(nonsense.map(|evidence| Unexpected::Nonsense { evidence }));
    found
}

struct Look<'a> {
    player: &'a dyn Player,
    names: Names<'a>,
}

impl Look<'_> {
    fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.names.0.len()).map(NodeId::from)
    }

    fn list(&self, nodes: &[NodeId]) -> String {
        or_none(self.names.list(nodes))
    }

    fn phase(&self, who: NodeId, expected: Phase) -> Result<(), Mismatch> {
        let phase = self.player.phase(who);
        must(phase == Some(expected), || match phase {
            Some(phase) => phase.word().to_owned(),
            None if self.player.is_up(who) => "it has no phase here".to_owned(),
            None => "it is down".to_owned(),
        })
    }

    fn in_cs(&self, count: usize) -> Result<(), Mismatch> {
        let is_in_cs = |&who: &NodeId| self.player.phase(who) == Some(Phase::InCs);
        let in_cs: Vec<_> = self.all().filter(is_in_cs).collect();
        must(in_cs.len() == count, || format!("in_cs: {}", self.list(&in_cs)))
    }

    fn variable(&self, who: NodeId, name: &str, expected: &str) -> Result<(), Mismatch> {
        let variables = self.player.variables(who);
        let Some((_, value)) = variables.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(Mismatch(format!("no variable `{name}`, only {known}")));
        };
        let found = value.render(&|node| self.names.name(node));
        must(found == expected, || format!("{} {name} = {found}", self.names.name(who)))
    }

    fn in_flight(
        &self,
        from: NodeId,
        to: NodeId,
        is_meant: impl Fn(&Message) -> bool,
        there: bool,
    ) -> Result<(), Mismatch> {
        let in_flight = self.player.in_flight().into_iter();
        let on_link = in_flight.filter(|at| (at.0, at.1) == (from, to));
        let messages: Vec<_> = on_link.map(|(_, _, message)| message).collect();
        let found = messages.iter().any(|message| is_meant(message));
        let shown: Vec<_> = messages.iter().map(|message| describe::shown(message)).collect();
        must(found == there, || format!("on that link: {}", or_none(shown.join(", "))))
    }

    fn no_messages(&self) -> Result<(), Mismatch> {
        let in_flight = self.player.in_flight();
        let shown = in_flight.iter().map(|(from, to, message)| {
            format!("{} {} -> {}", message.kind, self.names.name(*from), self.names.name(*to))
        });
        let shown: Vec<_> = shown.collect();
        must(in_flight.is_empty(), || format!("in flight: {}", describe::shortened(&shown)))
    }

    fn sent(&self, kind: Option<&str>) -> u64 {
        let counts = self.player.events().iter().map(|event| match &event.what {
            What::Send { message, .. } if kind.is_none_or(|kind| kind == message.kind) => 1,
            What::Multicast { to, message } if kind.is_none_or(|kind| kind == message.kind) => {
                to.len() as u64
            }
            _ => 0,
        });
        counts.sum()
    }

    fn deadlock(&self, expected: bool) -> Result<(), Mismatch> {
        let deadlocked = self.player.is_deadlocked();
        must(deadlocked == expected, || {
            if deadlocked { "a deadlock" } else { "no deadlock" }.to_owned()
        })
    }

    /// Where and how a property was violated first.
    fn violation(&self, property: &str) -> Option<String> {
        self.player.events().iter().find_map(|event| match &event.what {
            What::Violation { property: found, why } if found == property => {
                let who = self.names.name(event.who);
                Some(format!("at step {} by {who}: {why}", event.at))
            }
            _ => None,
        })
    }

    /// Where a message was first reported as invalid.
    fn nonsense(&self) -> Option<String> {
        self.player.events().iter().find_map(|event| match &event.what {
            What::Nonsense { from, why } => {
                let (who, from) = (self.names.name(event.who), self.names.name(*from));
                Some(format!(
                    "at step {} {who} got an invalid message from {from}: {why}",
                    event.at
                ))
            }
            _ => None,
        })
    }

    fn coordinator(&self, expected: NodeId) -> Result<(), Mismatch> {
        let differs = |&who: &NodeId| {
            self.player.is_up(who) && self.player.coordinator(who) != Some(expected)
        };
        let Some(who) = self.all().find(differs) else { return Ok(()) };
        let known = self.player.coordinator(who).map(|node| self.names.name(node));
        let known = known.unwrap_or_else(|| "none".to_owned());
        Err(Mismatch(format!("coordinator of {}: {known}", self.names.name(who))))
    }
}

fn must(holds: bool, found: impl FnOnce() -> String) -> Result<(), Mismatch> {
    if holds { Ok(()) } else { Err(Mismatch(found())) }
}

fn or_none(list: String) -> String {
    if list.is_empty() { "none".to_owned() } else { list }
}
