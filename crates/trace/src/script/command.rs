//! The steps of a script.

use mutua_algorithms::{NodeId, Timer};

use super::names::{Names, parse_name, parse_number};
use crate::Which;

/// A step to be taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// A client asks for the critical section.
    Request(NodeId),
    /// A client leaves the critical section.
    Exit(NodeId),
    /// An application sends a message of its own.
    Tell(NodeId, NodeId),
    /// A clock is raised.
    Clock(NodeId, u64),
    /// A message arrives.
    Deliver {
        /// From whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// Which of those in flight.
        which: Which,
    },
    /// Every message arrives that is in flight now and is meant, oldest first.
    DeliverEvery {
        /// Only of this kind.
        kind: Option<String>,
        /// Only from this one.
        from: Option<NodeId>,
        /// Only to this one.
        to: Option<NodeId>,
    },
    /// Messages arrive until none is in flight that is not lazy.
    DeliverAll,
    /// A message is lost.
    Lose {
        /// From whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// Which of those in flight.
        which: Which,
    },
    /// A message will arrive twice.
    Duplicate {
        /// From whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// Which of those in flight.
        which: Which,
    },
    /// A process stops.
    Crash(NodeId),
    /// A process is back.
    Restart(NodeId),
    /// A process has noticed that the coordinator is gone.
    Start(NodeId),
    /// A timer runs out.
    Timeout(NodeId, Timer),
    /// These move at once.
    Move(Vec<NodeId>),
    /// All who are privileged move at once.
    MoveAll,
}

impl Command {
    pub(super) fn parse(words: &[&str], names: Names<'_>) -> Result<Self, String> {
        Ok(match words {
            [who, "requests"] => Self::Request(names.process(who)?),
            [who, "exits"] => Self::Exit(names.process(who)?),
            [who, "tells", to] => Self::Tell(names.process(who)?, names.process(to)?),
            [who, "starts"] => Self::Start(names.process(who)?),
            ["clock", who, time] => Self::Clock(names.process(who)?, parse_time(time)?),
            ["deliver", "all"] => Self::DeliverAll,
            ["deliver", "every", which @ ..] => Self::parse_every(which, names)?,
            ["deliver", message @ ..] => {
                let (from, to, which) = names.message(message)?;
                Self::Deliver { from, to, which }
            }
            ["lose", message @ ..] => {
                let (from, to, which) = names.message(message)?;
                Self::Lose { from, to, which }
            }
            ["duplicate", message @ ..] => {
                let (from, to, which) = names.message(message)?;
                Self::Duplicate { from, to, which }
            }
            ["crash", who] => Self::Crash(names.process(who)?),
            ["restart", who] => Self::Restart(names.process(who)?),
            ["timeout", who, timer] => Self::Timeout(names.process(who)?, parse_name(timer)?),
            ["move", "all"] => Self::MoveAll,
            ["move", who @ ..] if !who.is_empty() => Self::Move(names.processes(who)?),
            words => return Err(format!("`{}` is no step of a script", words.join(" "))),
        })
    }

    /// `[KIND] [from A] [to B]`.
    fn parse_every(words: &[&str], names: Names<'_>) -> Result<Self, String> {
        let (kind, ends) = match words {
            [] | ["from" | "to", ..] => (None, words),
            [kind, ends @ ..] => (Some((*kind).to_owned()), ends),
        };
        let (from, to) = match ends {
            [] => (None, None),
            ["from", from] => (Some(names.process(from)?), None),
            ["to", to] => (None, Some(names.process(to)?)),
            ["from", from, "to", to] => (Some(names.process(from)?), Some(names.process(to)?)),
            words => {
                let words = words.join(" ");
                return Err(format!("it goes on with `from A`, `to B` or both, not `{words}`"));
            }
        };
        Ok(Self::DeliverEvery { kind, from, to })
    }

    pub(super) fn text(&self, names: Names<'_>) -> String {
        let name = |node: &NodeId| names.name(*node);
        match self {
            Self::Request(who) => format!("{} requests", name(who)),
            Self::Exit(who) => format!("{} exits", name(who)),
            Self::Tell(who, to) => format!("{} tells {}", name(who), name(to)),
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
            Self::Start(who) => format!("{} starts", name(who)),
            Self::Timeout(who, timer) => format!("timeout {} {}", name(who), timer.word()),
            Self::Move(who) => format!("move {}", names.list(who)),
            Self::MoveAll => "move all".to_owned(),
        }
    }
}

fn parse_time(word: &str) -> Result<u64, String> {
    let time = parse_number(word, "a clock reading")?;
    if time < 1 << 40 { Ok(time) } else { Err(format!("a clock counts to 2^40, {time} is more")) }
}
