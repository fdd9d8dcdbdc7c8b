//! One line of a trace: one thing that happened at one process.

use std::borrow::Cow;

use mutua_algorithms::{NodeId, Timer, Wait};
use serde::{Deserialize, Serialize};

use crate::{Header, Values};

/// Something that happened at one process. `N` is how processes are known: by number in memory, by
/// name in a file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Event<N = NodeId> {
    /// When, in the header's unit.
    pub at: u64,
    /// At which process.
    pub who: N,
    /// What it was.
    #[serde(flatten)]
    pub what: What<N>,
    /// The process's Lamport clock after it, as one number; elections have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u64>,
    /// The variables of the machine that it changed, as they are after it.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub state: Values,
}

/// What can happen.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What<N = NodeId> {
    // What a process is told.
    /// It is there; its state is complete. A driver may leave this out where there is nothing to
    /// tell.
    Start {
        /// It begins inside the critical section.
        #[serde(default, skip_serializing_if = "is_false")]
        inside: bool,
    },
    /// Its client asks for the critical section.
    Request,
    /// Its client leaves the critical section.
    Exit,
    /// A message of the algorithm arrives.
    Receive {
        /// Who sent it.
        from: N,
        /// What arrives.
        #[serde(flatten)]
        message: Message,
    },
    /// A message of the application arrives.
    Heard {
        /// Who sent it.
        from: N,
        /// Which one.
        id: u64,
    },
    /// A daemon lets it move, on the others' states as they are. (Dijkstra's ring.)
    Move,
    /// Its client has noticed that the coordinator is gone. (Elections.)
    Election,
    /// A timer has run out. (Elections.)
    Timeout {
        /// Which one.
        #[serde(with = "by_word")]
        timer: Timer,
    },
    /// It stops; its memory is lost.
    Crash,
    /// It is back.
    Restart,

    // What it does about it.
    /// It sends a message.
    Send {
        /// To whom.
        to: N,
        /// What.
        #[serde(flatten)]
        message: Message,
        /// It only keeps things going and was paced.
        #[serde(default, skip_serializing_if = "is_false")]
        lazy: bool,
    },
    /// It sends the same message to several.
    Multicast {
        /// To whom.
        to: Vec<N>,
        /// What.
        #[serde(flatten)]
        message: Message,
    },
    /// It sends a message of the application.
    Tell {
        /// To whom.
        to: N,
        /// Which one.
        id: u64,
    },
    /// Its client is inside the critical section.
    Enter {
        /// What it can show to the resource.
        fence: u64,
    },
    /// It takes somebody for the elected one. (Elections.)
    Elected {
        /// Whom.
        coordinator: N,
    },
    /// It sets a timer. (Elections.)
    Timer {
        /// Which one.
        #[serde(with = "by_word")]
        timer: Timer,
        /// How long it runs.
        after: Wait,
    },
    /// It cancels a timer. (Elections.)
    Cancel {
        /// Which one.
        #[serde(with = "by_word")]
        timer: Timer,
    },
    /// A message made no sense to it and changed nothing.
    Nonsense {
        /// Who sent it.
        from: N,
        /// What was wrong with it.
        why: Cow<'static, str>,
    },

    // What the network and the onlookers do.
    /// A message that it sent is lost.
    Drop {
        /// To whom it was sent.
        to: N,
        /// What is lost.
        #[serde(flatten)]
        message: Message,
    },
    /// A message that it sent will arrive once more.
    Duplicate {
        /// To whom it was sent.
        to: N,
        /// What will arrive again.
        #[serde(flatten)]
        message: Message,
    },
    /// A property turned out not to hold, at a step of this process.
    Violation {
        /// Which one: a claim's name.
        property: Cow<'static, str>,
        /// What was seen.
        why: Cow<'static, str>,
    },
    /// Anything else that a reader should know.
    Note {
        /// The words.
        text: Cow<'static, str>,
    },
}

/// A message of an algorithm, as one sees it from outside.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Message {
    /// Its number among the messages of its sender.
    pub id: u64,
    /// Its kind (`request`, `reply`, `token`).
    pub kind: Cow<'static, str>,
    /// What it carries.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub fields: Values,
}

impl Message {
    /// A machine's message, to be shown.
    pub fn new<M: mutua_algorithms::Message>(id: u64, message: &M, header: &Header) -> Self {
        let fields = Values::render(&message.fields(), &|node| header.name(node));
        Self { id, kind: message.kind().into(), fields }
    }
}

impl Event {
    /// An event that changes no variable.
    pub fn new(at: u64, who: NodeId, what: What) -> Self {
        Self { at, who, what, clock: None, state: Values::default() }
    }
}

impl<N> Event<N> {
    /// The same event with processes known in another way.
    pub(crate) fn map<O, E>(self, name: &mut impl FnMut(N) -> Result<O, E>) -> Result<Event<O>, E> {
        Ok(Event {
            at: self.at,
            who: name(self.who)?,
            what: self.what.map(name)?,
            clock: self.clock,
            state: self.state,
        })
    }
}

impl<N> What<N> {
    fn map<O, E>(self, name: &mut impl FnMut(N) -> Result<O, E>) -> Result<What<O>, E> {
        Ok(match self {
            Self::Start { inside } => What::Start { inside },
            Self::Request => What::Request,
            Self::Exit => What::Exit,
            Self::Receive { from, message } => What::Receive { from: name(from)?, message },
            Self::Heard { from, id } => What::Heard { from: name(from)?, id },
            Self::Move => What::Move,
            Self::Election => What::Election,
            Self::Timeout { timer } => What::Timeout { timer },
            Self::Crash => What::Crash,
            Self::Restart => What::Restart,
            Self::Send { to, message, lazy } => What::Send { to: name(to)?, message, lazy },
            Self::Multicast { to, message } => {
                What::Multicast { to: to.into_iter().map(name).collect::<Result<_, _>>()?, message }
            }
            Self::Tell { to, id } => What::Tell { to: name(to)?, id },
            Self::Enter { fence } => What::Enter { fence },
            Self::Elected { coordinator } => What::Elected { coordinator: name(coordinator)? },
            Self::Timer { timer, after } => What::Timer { timer, after },
            Self::Cancel { timer } => What::Cancel { timer },
            Self::Nonsense { from, why } => What::Nonsense { from: name(from)?, why },
            Self::Drop { to, message } => What::Drop { to: name(to)?, message },
            Self::Duplicate { to, message } => What::Duplicate { to: name(to)?, message },
            Self::Violation { property, why } => What::Violation { property, why },
            Self::Note { text } => What::Note { text },
        })
    }
}

/// Timers go by the word that tables use.
mod by_word {
    use mutua_algorithms::Timer;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(timer: &Timer, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(timer.word())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timer, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
