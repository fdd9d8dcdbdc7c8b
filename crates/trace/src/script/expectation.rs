//! What a script says must be so.

use mutua_algorithms::{NodeId, Phase, Timer};

use super::names::{Names, parse_flags, parse_name, parse_number};
use crate::Which;

/// Something that must be so at this point of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Expectation {
    /// A process is in this phase.
    Phase(NodeId, Phase),
    /// A process has stopped.
    Down(NodeId),
    /// Nobody is inside.
    NobodyInside,
    /// Two are inside.
    TwoInside,
    /// These have entered so far, in this order.
    Entries(Vec<NodeId>),
    /// A variable of a machine has this value.
    Variable {
        /// Whose.
        who: NodeId,
        /// Which, under the paper's name.
        name: String,
        /// Its value, with the script's names of processes.
        value: String,
    },
    /// A process waits for just these.
    WaitsFor(NodeId, Vec<NodeId>),
    /// A message is in flight, or none like it.
    InFlight {
        /// From whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// Of which kind, if that matters.
        kind: Option<String>,
        /// What it carries, if that matters: a field's name and value.
        field: Option<(String, String)>,
        /// Whether it is there.
        there: bool,
    },
    /// Nothing is in flight.
    NoMessages,
    /// So many messages were sent so far, a multicast counting once for each receiver; of this kind
    /// only, if one is given.
    Sent(u64, Option<String>),
    /// Somebody waits, and nothing that could change it is under way; or it is not so.
    Deadlock(bool),
    /// A property was violated so far; or it was not.
    Violated(String, bool),
    /// A message made no sense to its receiver.
    Nonsense,
    /// Everyone who is up takes this one for the coordinator.
    Coordinator(NodeId),
    /// Two take themselves for the coordinator.
    TwoCoordinators,
    /// A process has set this timer.
    Timer(NodeId, Timer),
    /// The flags of Dijkstra's ring.
    Flags(Vec<u32>),
    /// Who is privileged in Dijkstra's ring.
    Privileged(Vec<NodeId>),
}

/// The properties that are watched.
const PROPERTIES: [&str; 4] = ["safety", "ordering", "fence", "agreement"];

impl Expectation {
    pub(super) fn parse(words: &[&str], names: Names<'_>) -> Result<Self, String> {
        Ok(match words {
            ["nobody", "inside"] => Self::NobodyInside,
            ["two", "inside"] => Self::TwoInside,
            ["two", "coordinators"] => Self::TwoCoordinators,
            ["no", "entries"] => Self::Entries(Vec::new()),
            ["entries", who @ ..] => Self::Entries(names.processes(who)?),
            ["no", "messages"] => Self::NoMessages,
            ["in", "flight", message @ ..] => Self::parse_in_flight(message, true, names)?,
            ["not", "in", "flight", message @ ..] => Self::parse_in_flight(message, false, names)?,
            ["sent", count] => Self::Sent(parse_number(count, "a number of messages")?, None),
            ["sent", count, kind] => {
                let count = parse_number(count, "a number of messages")?;
                Self::Sent(count, Some((*kind).to_owned()))
            }
            ["deadlock"] => Self::Deadlock(true),
            ["no", "deadlock"] => Self::Deadlock(false),
            ["nonsense"] => Self::Nonsense,
            [property, "violated"] => Self::Violated(watched(property)?, true),
            [property, "kept"] => Self::Violated(watched(property)?, false),
            ["coordinator", who] => Self::Coordinator(names.process(who)?),
            ["timer", who, timer] => Self::Timer(names.process(who)?, parse_name(timer)?),
            ["flags", flags @ ..] => Self::Flags(parse_flags(flags)?),
            ["privileged", who @ ..] => Self::Privileged(names.processes(who)?),
            [who, rest @ ..] => Self::parse_of(names.process(who)?, rest, names)?,
            [] => return Err("it says nothing that could be so or not".to_owned()),
        })
    }

    /// What is said of one process.
    fn parse_of(who: NodeId, words: &[&str], names: Names<'_>) -> Result<Self, String> {
        Ok(match words {
            ["outside"] => Self::Phase(who, Phase::Outside),
            ["requesting"] => Self::Phase(who, Phase::Requesting),
            ["inside"] => Self::Phase(who, Phase::Inside),
            ["down"] => Self::Down(who),
            ["waits", "for", "nobody"] => Self::WaitsFor(who, Vec::new()),
            ["waits", "for", whom @ ..] => Self::WaitsFor(who, names.processes(whom)?),
            [name, "=", value @ ..] => {
                Self::Variable { who, name: (*name).to_owned(), value: value.join(" ") }
            }
            words => {
                let words = words.join(" ");
                return Err(format!(
                    "of a process one expects `inside`, `outside`, `requesting`, `down`, \
                     `waits for ...` or `VARIABLE = VALUE`, not `{words}`"
                ));
            }
        })
    }

    fn parse_in_flight(words: &[&str], there: bool, names: Names<'_>) -> Result<Self, String> {
        let (message, field) = match words.iter().position(|&word| word == "with") {
            Some(place) => (&words[..place], Some(parse_field(&words[place + 1..])?)),
            None => (words, None),
        };
        let (from, to, Which { kind, .. }) = names.message(message)?;
        Ok(Self::InFlight { from, to, kind, field, there })
    }

    pub(super) fn text(&self, names: Names<'_>) -> String {
        let name = |node: &NodeId| names.name(*node);
        match self {
            Self::Phase(who, phase) => format!("{} {}", name(who), phase.word()),
            Self::Down(who) => format!("{} down", name(who)),
            Self::NobodyInside => "nobody inside".to_owned(),
            Self::TwoInside => "two inside".to_owned(),
            Self::Entries(who) if who.is_empty() => "no entries".to_owned(),
            Self::Entries(who) => format!("entries {}", names.list(who)),
            Self::Variable { who, name: variable, value } => {
                format!("{} {variable} = {value}", name(who))
            }
            Self::WaitsFor(who, whom) if whom.is_empty() => {
                format!("{} waits for nobody", name(who))
            }
            Self::WaitsFor(who, whom) => format!("{} waits for {}", name(who), names.list(whom)),
            Self::InFlight { from, to, kind, field, there } => {
                let not = if *there { "" } else { "not " };
                let which = Which { kind: kind.clone(), nth: 1 };
                let field = field.as_ref().map(|(name, value)| format!(" with {name} = {value}"));
                let message = names.message_text(*from, *to, &which);
                format!("{not}in flight {message}{}", field.unwrap_or_default())
            }
            Self::NoMessages => "no messages".to_owned(),
            Self::Sent(count, None) => format!("sent {count}"),
            Self::Sent(count, Some(kind)) => format!("sent {count} {kind}"),
            Self::Deadlock(true) => "deadlock".to_owned(),
            Self::Deadlock(false) => "no deadlock".to_owned(),
            Self::Violated(property, true) => format!("{property} violated"),
            Self::Violated(property, false) => format!("{property} kept"),
            Self::Nonsense => "nonsense".to_owned(),
            Self::Coordinator(who) => format!("coordinator {}", name(who)),
            Self::TwoCoordinators => "two coordinators".to_owned(),
            Self::Timer(who, timer) => format!("timer {} {}", name(who), timer.word()),
            Self::Flags(flags) => {
                let flags: Vec<_> = flags.iter().map(u32::to_string).collect();
                format!("flags {}", flags.join(" "))
            }
            Self::Privileged(who) => format!("privileged {}", names.list(who)),
        }
    }
}

fn parse_field(words: &[&str]) -> Result<(String, String), String> {
    match words {
        [name, "=", value @ ..] => Ok(((*name).to_owned(), value.join(" "))),
        words => Err(format!("a field is written `NAME = VALUE`, not `{}`", words.join(" "))),
    }
}

fn watched(property: &str) -> Result<String, String> {
    if PROPERTIES.contains(&property) {
        return Ok(property.to_owned());
    }
    Err(format!("`{property}` is not watched; watched are {}", PROPERTIES.join(", ")))
}
