//! Whether it is as a script expects.

use mutua_algorithms::{NodeId, Phase};

use super::{Expectation, names::Names, players::Player};
use crate::{Message, What, describe};

/// Something that happened although no line expects it.
pub(super) struct Unexpected(pub(super) String);

/// Whether it is so; else what is so.
pub(super) fn check(player: &dyn Player, expected: &Expectation) -> Result<(), String> {
    let look = Look { player, names: Names(&player.header().processes) };
    match expected {
        Expectation::Phase(who, phase) => look.phase(*who, *phase),
        Expectation::Down(who) => must(!player.is_up(*who), || "it is up".to_owned()),
        Expectation::NobodyInside => look.inside(0),
        Expectation::TwoInside => look.inside(2),
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
            must(found.is_some() == *violated, || found.unwrap_or_else(|| "it was kept".to_owned()))
        }
        Expectation::Nonsense => {
            must(look.nonsense().is_some(), || "everything made sense".to_owned())
        }
        Expectation::Coordinator(who) => look.coordinator(*who),
        Expectation::TwoCoordinators => {
            let in_office: Vec<_> =
                look.all().filter(|&who| player.coordinator(who) == Some(who)).collect();
            must(in_office.len() == 2, || format!("coordinators: {}", look.list(&in_office)))
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

/// What happened that none of these expects.
pub(super) fn unexpected(player: &dyn Player, expected: &[Expectation]) -> Vec<Unexpected> {
    let look = Look { player, names: Names(&player.header().processes) };
    let is_expected = |property: &str| {
        expected.iter().any(|expectation| match expectation {
            Expectation::Violated(expected, true) => expected == property,
            Expectation::TwoInside => property == "safety",
            _ => false,
        })
    };
    let mut found = Vec::new();
    for property in ["safety", "ordering", "fence", "agreement"] {
        if let Some(why) = look.violation(property).filter(|_| !is_expected(property)) {
            found
                .push(Unexpected(format!("{property} was violated {why}, and no line expects it")));
        }
    }
    let nonsense = look.nonsense().filter(|_| !expected.contains(&Expectation::Nonsense));
    found.extend(nonsense.map(|why| Unexpected(format!("{why}, and no line expects nonsense"))));
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

    fn phase(&self, who: NodeId, expected: Phase) -> Result<(), String> {
        let phase = self.player.phase(who);
        must(phase == Some(expected), || match phase {
            Some(phase) => phase.word().to_owned(),
            None if self.player.is_up(who) => "it has no phase here".to_owned(),
            None => "it is down".to_owned(),
        })
    }

    fn inside(&self, count: usize) -> Result<(), String> {
        let is_inside = |&who: &NodeId| self.player.phase(who) == Some(Phase::Inside);
        let inside: Vec<_> = self.all().filter(is_inside).collect();
        must(inside.len() == count, || format!("inside: {}", self.list(&inside)))
    }

    fn variable(&self, who: NodeId, name: &str, expected: &str) -> Result<(), String> {
        let variables = self.player.variables(who);
        let Some((_, value)) = variables.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
            return Err(format!("no variable `{name}`; there are {}", known.join(", ")));
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
    ) -> Result<(), String> {
        let in_flight = self.player.in_flight().into_iter();
        let on_link = in_flight.filter(|at| (at.0, at.1) == (from, to));
        let messages: Vec<_> = on_link.map(|(_, _, message)| message).collect();
        let found = messages.iter().any(|message| is_meant(message));
        let shown: Vec<_> = messages.iter().map(|message| describe::shown(message)).collect();
        must(found == there, || format!("in flight there: {}", or_none(shown.join(", "))))
    }

    fn no_messages(&self) -> Result<(), String> {
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

    fn deadlock(&self, expected: bool) -> Result<(), String> {
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

    /// Where a message first made no sense.
    fn nonsense(&self) -> Option<String> {
        self.player.events().iter().find_map(|event| match &event.what {
            What::Nonsense { from, why } => {
                let (who, from) = (self.names.name(event.who), self.names.name(*from));
                Some(format!("at step {} {who} got nonsense from {from}: {why}", event.at))
            }
            _ => None,
        })
    }

    fn coordinator(&self, expected: NodeId) -> Result<(), String> {
        let differs = |&who: &NodeId| {
            self.player.is_up(who) && self.player.coordinator(who) != Some(expected)
        };
        let Some(who) = self.all().find(differs) else { return Ok(()) };
        let takes = self.player.coordinator(who).map(|node| self.names.name(node));
        let takes = takes.unwrap_or_else(|| "nobody".to_owned());
        Err(format!("{} takes {takes} for it", self.names.name(who)))
    }
}

fn must(so: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if so { Ok(()) } else { Err(found()) }
}

fn or_none(list: String) -> String {
    if list.is_empty() { "none".to_owned() } else { list }
}
