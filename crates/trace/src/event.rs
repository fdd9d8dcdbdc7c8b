//! One line of a trace: one thing that happened at one process.

use std::borrow::Cow;

use mutua_algorithms::{NodeId, Timer, Wait};
use serde::{Deserialize, Serialize};

use crate::{Header, Values, Views};

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
    // Events that a process handles.
    /// It exists, and its state is complete. A driver may leave this out if the state is empty.
    Start {
        /// It starts in the critical section.
        #[serde(default, skip_serializing_if = "is_false")]
        in_cs: bool,
    },
    /// Its client requests the critical section.
    Request,
    /// Its client exits the critical section.
    Exit,
    /// A message of the algorithm arrives.
    Receive {
        /// The sender.
        from: N,
        /// The message.
        #[serde(flatten)]
        message: Message,
    },
    /// A message of the application arrives.
    Observed {
        /// The sender.
        from: N,
        /// The number of the message.
        id: u64,
    },
    /// A daemon lets it move, on the others' states as they are. (Dijkstra's ring.)
    Move,
    /// Its client has noticed that the coordinator has crashed. (Elections.)
    Election,
    /// A timer has expired. (Elections.)
    Timeout {
        /// The timer.
        #[serde(with = "by_word")]
        timer: Timer,
    },
    /// The failure detector reports to it that another process has crashed, or is up again.
    /// (Repairs.)
    Report {
        /// The other process.
        of: N,
        /// It has crashed.
        crashed: bool,
    },
    /// It crashes; its memory is lost.
    Crash,
    /// It restarts.
    Restart,

    // Effects of handling an event.
    /// It sends a message.
    Send {
        /// The receiver.
        to: N,
        /// The message.
        #[serde(flatten)]
        message: Message,
        /// It only keeps things going and was paced.
        #[serde(default, skip_serializing_if = "is_false")]
        lazy: bool,
    },
    /// It sends the same message to several.
    Multicast {
        /// The receivers.
        to: Vec<N>,
        /// The message.
        #[serde(flatten)]
        message: Message,
    },
    /// It sends a message of the application.
    AppSend {
        /// The receiver.
        to: N,
        /// The number of the message.
        id: u64,
    },
    /// Its client enters the critical section.
    Enter {
        /// The fencing token, for the guarded resource to compare.
        fencing_token: u64,
    },
    /// It learns the result of an election. (Elections.)
    Elected {
        /// The elected process.
        coordinator: N,
    },
    /// It sets a timer. (Elections.)
    Timer {
        /// The timer.
        #[serde(with = "by_word")]
        timer: Timer,
        /// How long it runs.
        after: Wait,
    },
    /// It cancels a timer. (Elections.)
    Cancel {
        /// The timer.
        #[serde(with = "by_word")]
        timer: Timer,
    },
    /// A message made no sense to it and changed nothing.
    Nonsense {
        /// The sender.
        from: N,
        /// The reason.
        why: Cow<'static, str>,
    },

    // Events of the network, and findings of the checks.
    /// A message that it sent is lost.
    Drop {
        /// The receiver.
        to: N,
        /// The message.
        #[serde(flatten)]
        message: Message,
    },
    /// A message that it sent will arrive once more.
    Duplicate {
        /// The receiver.
        to: N,
        /// The message.
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

/// The kind under which messages of the application are shown.
pub const APP: &str = "app";

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
    /// A message of the machine `from`, to be shown to one who knows these views.
    pub fn new<M: mutua_algorithms::Message>(
        id: u64,
        message: &M,
        from: NodeId,
        header: &Header,
        views: &Views,
    ) -> Self {
        let fields = message.fields_for_all(&|view, position| views.member(from, view, position));
        let fields = Values::render(&fields, &|node| header.name_for(from, node));
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
            Self::Start { in_cs } => What::Start { in_cs },
            Self::Request => What::Request,
            Self::Exit => What::Exit,
            Self::Receive { from, message } => What::Receive { from: name(from)?, message },
            Self::Observed { from, id } => What::Observed { from: name(from)?, id },
            Self::Move => What::Move,
            Self::Election => What::Election,
            Self::Timeout { timer } => What::Timeout { timer },
            Self::Report { of, crashed } => What::Report { of: name(of)?, crashed },
            Self::Crash => What::Crash,
            Self::Restart => What::Restart,
            Self::Send { to, message, lazy } => What::Send { to: name(to)?, message, lazy },
            Self::Multicast { to, message } => {
                What::Multicast { to: to.into_iter().map(name).collect::<Result<_, _>>()?, message }
            }
            Self::AppSend { to, id } => What::AppSend { to: name(to)?, id },
            Self::Enter { fencing_token } => What::Enter { fencing_token },
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
