//! The steps of a script.

use mutua_algorithms::{NodeId, Time, Timer};

use super::{
    SyntaxError,
    language::{Form, nearest},
    names::{Names, parse_name, parse_number},
    system::HEAD,
};
use crate::{APP, Which};

/// A step to take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// A client requests the critical section.
    Request(NodeId),
    /// A client exits the critical section.
    Exit(NodeId),
    /// A process sends a message of the application to another one.
    AppSend(NodeId, NodeId),
    /// A clock is raised.
    Clock(NodeId, u64),
    /// A message arrives.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which message on that link.
        which: Which,
    },
    /// Every matching message that is in flight now arrives, oldest first.
    DeliverEvery {
        /// The kind; none for any.
        kind: Option<String>,
        /// The sender; none for any.
        from: Option<NodeId>,
        /// The receiver; none for any.
        to: Option<NodeId>,
    },
    /// Messages arrive until none is in flight that is not lazy.
    DeliverAll,
    /// A message is lost.
    Lose {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which message on that link.
        which: Which,
    },
    /// A message will arrive twice.
    Duplicate {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which message on that link.
        which: Which,
    },
    /// A process crashes.
    Crash(NodeId),
    /// A process restarts.
    Restart(NodeId),
    /// The failure detector reports the crash or the restart of one process to another.
    Report {
        /// The process that has crashed or restarted.
        of: NodeId,
        /// The process that gets the report.
        to: NodeId,
    },
    /// A process starts an election.
    Start(NodeId),
    /// A timer expires.
    Timeout(NodeId, Timer),
    /// These processes of a ring under a daemon move at once.
    Move(Vec<NodeId>),
    /// All privileged processes of a ring under a daemon move at once.
    MoveAll,
}

impl Command {
    pub(super) fn parse(words: &[&str], names: Names<'_>) -> Result<Self, SyntaxError> {
        let read = STEPS.iter().find_map(|form| (form.read)(words, names));
        read.unwrap_or_else(|| Err(Self::unknown(words, names)))
    }

    fn unknown(words: &[&str], names: Names<'_>) -> SyntaxError {
        let first = |syntax: &'static str| syntax.split(' ').next();
        let line = words.join(" ");
        if HEAD.iter().any(|form| first(form.syntax) == words.first().copied()) {
            return SyntaxError::TooLate(line);
        }
        let forms = STEPS.iter().map(|form| form.syntax);
        SyntaxError::UnknownStep { line, near: nearest(words, |word| names.knows(word), forms) }
    }

    pub(super) fn text(&self, names: Names<'_>) -> String {
        let name = |node: &NodeId| names.name(*node);
        match self {
            Self::Request(who) => format!("{} requests", name(who)),
            Self::Exit(who) => format!("{} exits", name(who)),
            Self::AppSend(who, to) => format!("{} sends {APP} to {}", name(who), name(to)),
            Self::Clock(who, time) => format!("clock {} {time}", name(who)),
            Self::Deliver { from, to, which } => {
                format!("deliver {}", names.message_text(*from, *to, which))
            }
            Self::DeliverEvery { kind, from, to } => {
                let kind = kind.as_ref().map(|kind| format!(" {kind}"));
                let from = from.map(|from| format!(" from {}", name(&from)));
                let to = to.map(|to| format!(" to {}", name(&to)));
                let which: String = [kind, from, to].into_iter().flatten().collect();
                format!("deliver every{which}")
            }
            Self::DeliverAll => "deliver all".to_owned(),
            Self::Lose { from, to, which } => {
                format!("lose {}", names.message_text(*from, *to, which))
            }
            Self::Duplicate { from, to, which } => {
                format!("duplicate {}", names.message_text(*from, *to, which))
            }
            Self::Crash(who) => format!("crash {}", name(who)),
            Self::Restart(who) => format!("restart {}", name(who)),
            Self::Report { of, to } => format!("report {} to {}", name(of), name(to)),
            Self::Start(who) => format!("{} starts", name(who)),
            Self::Timeout(who, timer) => format!("timeout {} {}", name(who), timer.word()),
            Self::Move(who) => format!("move {}", names.list(who)),
            Self::MoveAll => "move all".to_owned(),
        }
    }
}

/// Reads a step; none if the line is of another form.
type Read = fn(&[&str], Names<'_>) -> Option<Result<Command, SyntaxError>>;

/// The forms of steps. The first that fits is taken.
pub(super) const STEPS: &[Form<Read>] = &[
    Form {
        syntax: "A requests",
        meaning: "the client of process A requests the critical section",
        example: "P1 requests",
        read: |words, names| match words {
            [who, "requests"] => Some(names.process(who).map(Command::Request)),
            _ => None,
        },
    },
    Form {
        syntax: "A exits",
        meaning: "the client of A exits the critical section",
        example: "P1 exits",
        read: |words, names| match words {
            [who, "exits"] => Some(names.process(who).map(Command::Exit)),
            _ => None,
        },
    },
    Form {
        syntax: "deliver all",
        meaning: "messages arrive until none is in flight, the oldest first; lazy messages stay",
        example: "deliver all",
        read: |words, _| (words == ["deliver", "all"]).then_some(Ok(Command::DeliverAll)),
    },
    Form {
        syntax: "deliver every [KIND] [from A] [to B]",
        meaning: "every such message that is in flight now arrives, the oldest first",
        example: "deliver every reply from P1 to P2",
        read: |words, names| match words {
            ["deliver", "every", which @ ..] => Some(parse_every(which, names)),
            _ => None,
        },
    },
    Form {
        syntax: "deliver [KIND][#N] A -> B",
        meaning: "a message from A to B arrives: the first, the first of its kind, or the Nth; \
                  links that keep order deliver the first only",
        example: "deliver reply#2 P1 -> P2",
        read: |words, names| match words {
            ["deliver", message @ ..] => {
                let message = names.message(message);
                Some(message.map(|(from, to, which)| Command::Deliver { from, to, which }))
            }
            _ => None,
        },
    },
    Form {
        syntax: "lose [KIND][#N] A -> B",
        meaning: "a message is lost",
        example: "lose P1 -> P2",
        read: |words, names| match words {
            ["lose", message @ ..] => {
                let message = names.message(message);
                Some(message.map(|(from, to, which)| Command::Lose { from, to, which }))
            }
            _ => None,
        },
    },
    Form {
        syntax: "duplicate [KIND][#N] A -> B",
        meaning: "a message will arrive twice, the second time behind the others",
        example: "duplicate request P1 -> P2",
        read: |words, names| match words {
            ["duplicate", message @ ..] => {
                let message = names.message(message);
                Some(message.map(|(from, to, which)| Command::Duplicate { from, to, which }))
            }
            _ => None,
        },
    },
    Form {
        syntax: "A sends app to B",
        meaning: "A sends B a message of the application, which counts for the order of requests",
        example: "P1 sends app to P2",
        read: |words, names| match words {
            [who, "sends", APP, "to", to] => {
                let ends = names.process(who).and_then(|who| Ok((who, names.process(to)?)));
                Some(ends.map(|(who, to)| Command::AppSend(who, to)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "clock A N",
        meaning: "the clock of A is raised to N",
        example: "clock P1 40",
        read: |words, names| match words {
            ["clock", who, time] => {
                let read = names.process(who).and_then(|who| Ok((who, parse_time(time)?)));
                Some(read.map(|(who, time)| Command::Clock(who, time)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "crash A",
        meaning: "A crashes; messages to it are lost when they arrive",
        example: "crash P1",
        read: |words, names| match words {
            ["crash", who] => Some(names.process(who).map(Command::Crash)),
            _ => None,
        },
    },
    Form {
        syntax: "restart A",
        meaning: "A restarts from its first state",
        example: "restart P1",
        read: |words, names| match words {
            ["restart", who] => Some(names.process(who).map(Command::Restart)),
            _ => None,
        },
    },
    Form {
        syntax: "A starts",
        meaning: "A starts an election",
        example: "P1 starts",
        read: |words, names| match words {
            [who, "starts"] => Some(names.process(who).map(Command::Start)),
            _ => None,
        },
    },
    Form {
        syntax: "report A to B",
        meaning: "the failure detector, which may be wrong, reports A to B: crashed, or back",
        example: "report P1 to P2",
        read: |words, names| match words {
            ["report", of, "to", to] => {
                Some((|| Ok(Command::Report { of: names.process(of)?, to: names.process(to)? }))())
            }
            _ => None,
        },
    },
    Form {
        syntax: "timeout A TIMER",
        meaning: "a timer of A expires: answer, announcement or look",
        example: "timeout P1 answer",
        read: |words, names| match words {
            ["timeout", who, timer] => {
                let read = names.process(who).and_then(|who| Ok((who, parse_name(timer)?)));
                Some(read.map(|(who, timer)| Command::Timeout(who, timer)))
            }
            _ => None,
        },
    },
    Form {
        syntax: "move all",
        meaning: "all privileged processes of Dijkstra's ring move at once",
        example: "move all",
        read: |words, _| (words == ["move", "all"]).then_some(Ok(Command::MoveAll)),
    },
    Form {
        syntax: "move A [B ...]",
        meaning: "these processes of Dijkstra's ring under a daemon move at once",
        example: "move P1 P2",
        read: |words, names| match words {
            ["move", who @ ..] if !who.is_empty() => Some(names.processes(who).map(Command::Move)),
            _ => None,
        },
    },
];

/// `[KIND] [from A] [to B]`.
fn parse_every(words: &[&str], names: Names<'_>) -> Result<Command, SyntaxError> {
    let (kind, ends) = match words {
        [] | ["from" | "to", ..] => (None, words),
        [kind, ends @ ..] => (Some((*kind).to_owned()), ends),
    };
    let (from, to) = match ends {
        [] => (None, None),
        ["from", from] => (Some(names.process(from)?), None),
        ["to", to] => (None, Some(names.process(to)?)),
        ["from", from, "to", to] => (Some(names.process(from)?), Some(names.process(to)?)),
        words => return Err(SyntaxError::Selection(words.join(" "))),
    };
    Ok(Command::DeliverEvery { kind, from, to })
}

fn parse_time(word: &str) -> Result<u64, SyntaxError> {
    let time = parse_number(word, "clock reading")?;
    if time < Time::COUNTS { Ok(time) } else { Err(SyntaxError::Clock(time)) }
}
