//! The expectations of a script.

use mutua_algorithms::{NodeId, Phase, Timer};

use super::{
    SyntaxError,
    language::{Form, nearest},
    names::{Names, parse_flags, parse_name, parse_number},
};
use crate::Which;

/// An expectation at a point of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Expectation {
    /// A process is in this phase.
    Phase(NodeId, Phase),
    /// A process has crashed.
    Down(NodeId),
    /// No process is in the critical section.
    NobodyInCs,
    /// Two processes are in the critical section.
    TwoInCs,
    /// These processes have entered so far, in this order.
    Entries(Vec<NodeId>),
    /// A variable of a machine has this value.
    Variable {
        /// The process.
        who: NodeId,
        /// The variable's name in the paper.
        name: String,
        /// Its value, with the script's names of processes.
        value: String,
    },
    /// A process waits for exactly these.
    WaitsFor(NodeId, Vec<NodeId>),
    /// A message is in flight, or no such message is.
    InFlight {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The kind; none for any.
        kind: Option<String>,
        /// The name and value of a field that it carries; none for any.
        field: Option<(String, String)>,
        /// Whether it is in flight.
        there: bool,
    },
    /// No message is in flight.
    NoMessages,
    /// So many messages were sent so far, a multicast counting once for each receiver; of this kind
    /// only, if one is given.
    Sent(u64, Option<String>),
    /// Whether the system is deadlocked: a process waits, none is in the critical section, and no
    /// message is in flight to a process that is up.
    Deadlock(bool),
    /// Whether a property has been violated so far.
    Violated(String, bool),
    /// A receiver has reported a message as invalid.
    Nonsense,
    /// All processes that are up take this one for the coordinator.
    Coordinator(NodeId),
    /// Two processes take themselves for the coordinator.
    TwoCoordinators,
    /// A process has set this timer.
    Timer(NodeId, Timer),
    /// The flags of a ring under a daemon.
    Flags(Vec<u32>),
    /// The privileged processes of a ring under a daemon.
    Privileged(Vec<NodeId>),
}

/// The properties that are judged while a script is played.
pub(super) const PROPERTIES: &[&str] = &["mutual-exclusion", "ordering", "fencing", "agreement"];

impl Expectation {
    pub(super) fn parse(words: &[&str], names: Names<'_>) -> Result<Self, SyntaxError> {
        if words.is_empty() {
            return Err(SyntaxError::NoExpectation);
        }
        let read = EXPECTATIONS.iter().find_map(|form| (form.read)(words, names));
        read.unwrap_or_else(|| {
            let line = [&["expect"], words].concat();
            let forms = EXPECTATIONS.iter().map(|form| form.syntax);
            let near = nearest(&line, |word| names.knows(word), forms);
            Err(SyntaxError::UnknownExpectation { line: words.join(" "), near })
        })
    }

    pub(super) fn text(&self, names: Names<'_>) -> String {
        let name = |node: &NodeId| names.name(*node);
        match self {
            Self::Phase(who, phase) => format!("{} {}", name(who), phase.word()),
            Self::Down(who) => format!("{} down", name(who)),
            Self::NobodyInCs => "nobody in_cs".to_owned(),
            Self::TwoInCs => "two in_cs".to_owned(),
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
            Self::Violated(property, false) => format!("{property} holds"),
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

/// Reads an expectation, without the word `expect`; none if it is of another form.
type Read = fn(&[&str], Names<'_>) -> Option<Result<Expectation, SyntaxError>>;

/// The forms of expectations. The first that fits is taken.
pub(super) const EXPECTATIONS: &[Form<Read>] = &[
    Form {
        syntax: "expect nobody in_cs",
        meaning: "no process is in the critical section",
        example: "expect nobody in_cs",
        read: |words, _| (words == ["nobody", "in_cs"]).then_some(Ok(Expectation::NobodyInCs)),
    },
    Form {
        syntax: "expect two in_cs",
        meaning: "two processes are in the critical section",
        example: "expect two in_cs",
        read: |words, _| (words == ["two", "in_cs"]).then_some(Ok(Expectation::TwoInCs)),
    },
    Form {
        syntax: "expect two coordinators",
        meaning: "two processes take themselves for the coordinator",
        example: "expect two coordinators",
        read: |words, _| {
            (words == ["two", "coordinators"]).then_some(Ok(Expectation::TwoCoordinators))
        },
    },
    Form {
        syntax: "expect no entries",
        meaning: "no process has entered so far",
        example: "expect no entries",
        read: |words, _| (words == ["no", "entries"]).then(|| Ok(Expectation::Entries(Vec::new()))),
    },
    Form {
        syntax: "expect entries A B ...",
        meaning: "these have entered so far, in this order",
        example: "expect entries P1 P3 P2",
        read: |words, names| match words {
            ["entries", who @ ..] => Some(names.processes(who).map(Expectation::Entries)),
            _ => None,
        },
    },
    Form {
        syntax: "expect no messages",
        meaning: "no message is in flight",
        example: "expect no messages",
        read: |words, _| (words == ["no", "messages"]).then_some(Ok(Expectation::NoMessages)),
    },
    Form {
        syntax: "expect in flight [KIND] A -> B [with FIELD = VALUE]",
        meaning: "such a message is in flight",
        example: "expect in flight request P1 -> P2 with time = 1",
        read: |words, names| match words {
            ["in", "flight", message @ ..] => Some(parse_in_flight(message, true, names)),
            _ => None,
        },
    },
    Form {
        syntax: "expect not in flight [KIND] A -> B [with FIELD = VALUE]",
        meaning: "no such message is in flight",
        example: "expect not in flight reply P1 -> P2",
        read: |words, names| match words {
            ["not", "in", "flight", message @ ..] => Some(parse_in_flight(message, false, names)),
            _ => None,
        },
    },
    Form {
        syntax: "expect sent N [KIND]",
        meaning: "so many messages were sent so far, in all or of this kind; a multicast counts \
                  once for each receiver",
        example: "expect sent 4 request",
        read: |words, _| match words {
            ["sent", count] => Some(parse_sent(count, None)),
            ["sent", count, kind] => Some(parse_sent(count, Some((*kind).to_owned()))),
            _ => None,
        },
    },
    Form {
        syntax: "expect deadlock",
        meaning: "a process waits, none is in the critical section, and no message is in flight to \
                  a process that is up",
        example: "expect deadlock",
        read: |words, _| (words == ["deadlock"]).then_some(Ok(Expectation::Deadlock(true))),
    },
    Form {
        syntax: "expect no deadlock",
        meaning: "that is not so",
        example: "expect no deadlock",
        read: |words, _| (words == ["no", "deadlock"]).then_some(Ok(Expectation::Deadlock(false))),
    },
    Form {
        syntax: "expect nonsense",
        meaning: "a receiver has reported a message as invalid",
        example: "expect nonsense",
        read: |words, _| (words == ["nonsense"]).then_some(Ok(Expectation::Nonsense)),
    },
    Form {
        syntax: "expect PROPERTY violated",
        meaning: "the property has been violated: mutual-exclusion, ordering, fencing or agreement",
        example: "expect ordering violated",
        read: |words, _| match words {
            [property, "violated"] => {
                Some(judged(property).map(|property| Expectation::Violated(property, true)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "expect PROPERTY holds",
        meaning: "it has not been violated so far",
        example: "expect mutual-exclusion holds",
        read: |words, _| match words {
            [property, "holds"] => {
                Some(judged(property).map(|property| Expectation::Violated(property, false)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "expect coordinator A",
        meaning: "all processes that are up take A for the coordinator: the one that they elected, \
                  that of a central algorithm, or, with a repair, the process that started their \
                  view",
        example: "expect coordinator P3",
        read: |words, names| match words {
            ["coordinator", who] => Some(names.process(who).map(Expectation::Coordinator)),
            _ => None,
        },
    },
    Form {
        syntax: "expect timer A TIMER",
        meaning: "A has set this timer",
        example: "expect timer P1 answer",
        read: |words, names| match words {
            ["timer", who, timer] => {
                let read = names.process(who).and_then(|who| Ok((who, parse_name(timer)?)));
                Some(read.map(|(who, timer)| Expectation::Timer(who, timer)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "expect flags N N ...",
        meaning: "the flags of Dijkstra's ring under a daemon",
        example: "expect flags 0 1 0 1",
        read: |words, _| match words {
            ["flags", flags @ ..] => Some(parse_flags(flags).map(Expectation::Flags)),
            _ => None,
        },
    },
    Form {
        syntax: "expect privileged A B ...",
        meaning: "these processes of Dijkstra's ring are privileged",
        example: "expect privileged P1 P2",
        read: |words, names| match words {
            ["privileged", who @ ..] => Some(names.processes(who).map(Expectation::Privileged)),
            _ => None,
        },
    },
    Form {
        syntax: "expect A idle",
        meaning: "A has not requested the critical section",
        example: "expect P1 idle",
        read: |words, names| {
            of_process(words, names, &["idle"], |who| Expectation::Phase(who, Phase::Idle))
        },
    },
    Form {
        syntax: "expect A requesting",
        meaning: "A waits",
        example: "expect P1 requesting",
        read: |words, names| {
            of_process(words, names, &["requesting"], |who| {
                Expectation::Phase(who, Phase::Requesting)
            })
        },
    },
    Form {
        syntax: "expect A in_cs",
        meaning: "A is in the critical section",
        example: "expect P1 in_cs",
        read: |words, names| {
            of_process(words, names, &["in_cs"], |who| Expectation::Phase(who, Phase::InCs))
        },
    },
    Form {
        syntax: "expect A down",
        meaning: "A has crashed",
        example: "expect P1 down",
        read: |words, names| of_process(words, names, &["down"], Expectation::Down),
    },
    Form {
        syntax: "expect A waits for nobody",
        meaning: "A waits for no message",
        example: "expect P1 waits for nobody",
        read: |words, names| {
            of_process(words, names, &["waits", "for", "nobody"], |who| {
                Expectation::WaitsFor(who, Vec::new())
            })
        },
    },
    Form {
        syntax: "expect A waits for B ...",
        meaning: "A waits for messages of exactly these",
        example: "expect P1 waits for P2 P3",
        read: |words, names| match words {
            [who, "waits", "for", whom @ ..] => {
                let read = names.process(who).and_then(|who| Ok((who, names.processes(whom)?)));
                Some(read.map(|(who, whom)| Expectation::WaitsFor(who, whom)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "expect A VARIABLE = VALUE",
        meaning: "a variable of A, under the paper's name, or its clock, has this value",
        example: "expect P1 queue = [P2, P3]",
        read: |words, names| match words {
            [who, name, "=", value @ ..] => Some(names.process(who).map(|who| {
                Expectation::Variable { who, name: (*name).to_owned(), value: value.join(" ") }
            })),
            _ => None,
        },
    },
];

/// `A` and these words.
fn of_process(
    words: &[&str],
    names: Names<'_>,
    rest: &[&str],
    make: fn(NodeId) -> Expectation,
) -> Option<Result<Expectation, SyntaxError>> {
    let (who, found) = words.split_first()?;
    (found == rest).then(|| names.process(who).map(make))
}

fn parse_sent(count: &str, kind: Option<String>) -> Result<Expectation, SyntaxError> {
    Ok(Expectation::Sent(parse_number(count, "number of messages")?, kind))
}

fn parse_in_flight(
    words: &[&str],
    there: bool,
    names: Names<'_>,
) -> Result<Expectation, SyntaxError> {
    let (message, field) = match words.iter().position(|&word| word == "with") {
        Some(index) => (&words[..index], Some(parse_field(&words[index + 1..])?)),
        None => (words, None),
    };
    let (from, to, Which { kind, .. }) = names.message(message)?;
    Ok(Expectation::InFlight { from, to, kind, field, there })
}

fn parse_field(words: &[&str]) -> Result<(String, String), SyntaxError> {
    match words {
        [name, "=", value @ ..] => Ok(((*name).to_owned(), value.join(" "))),
        words => Err(SyntaxError::Field(words.join(" "))),
    }
}

fn judged(property: &str) -> Result<String, SyntaxError> {
    if PROPERTIES.contains(&property) {
        return Ok(property.to_owned());
    }
    Err(SyntaxError::UnknownProperty { name: property.to_owned(), known: PROPERTIES })
}
