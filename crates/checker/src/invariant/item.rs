//! The values that expressions are about.

use std::{cmp::Ordering, sync::Arc};

use mutua_algorithms::{About, Fields, NodeId, Stamp, Start, Structure as Needs, Time, Value};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    None,
    Flag(bool),
    Number(i64),
    Node(NodeId),
    Time(Time),
    Stamp(Stamp),
    Word(Arc<str>),
    List(Arc<[Item]>),
    Message(Arc<MessageView>),
}

/// Values by name.
pub(crate) type Named = Vec<(&'static str, Item)>;

/// A process in one situation: phase, clock and the variables of the paper.
#[derive(Debug)]
pub(crate) struct ProcessView(pub(crate) Named);

/// The messages in flight from one process.
#[derive(Debug)]
pub(crate) struct LinkView(pub(crate) Vec<Arc<MessageView>>);

/// A message in flight.
#[derive(Debug, PartialEq)]
pub(crate) struct MessageView {
    pub(crate) kind: &'static str,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) fields: Named,
}

/// What never changes: the tree and the quorums of the processes, where there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structure {
    pub(crate) neighbours: Vec<Item>,
    pub(crate) quorums: Vec<Item>,
}

impl Structure {
    /// Of an algorithm that starts like this.
    pub(crate) fn of(about: &About, start: &Start) -> Self {
        let mut structure = Self::default();
        match about.structure {
            Needs::Tree => {
                let of = |node| Item::nodes(start.tree().neighbours(node));
                structure.neighbours = start.all().map(of).collect();
            }
            Needs::Quorums => {
                let of = |node| Item::nodes(start.quorums().of(node).iter().copied());
                structure.quorums = start.all().map(of).collect();
            }
            Needs::Complete | Needs::Ring | Needs::Sets => {}
        }
        structure
    }
}

/// Why a formula cannot be judged: it names something that there is not, or applies an operation to
/// a value of a kind that does not have it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KindError {
    /// A value of another kind is needed.
    #[error("{needed} is needed, not {found}")]
    Needed {
        /// What is needed.
        needed: &'static str,
        /// The kind of the value.
        found: &'static str,
    },
    /// Values of two kinds are compared.
    #[error("{0} is compared with {1}")]
    Compared(&'static str, &'static str),
    /// Values of these kinds have no order.
    #[error("{0} and {1} have no order")]
    NoOrder(&'static str, &'static str),
    /// Values of these kinds cannot be added.
    #[error("{0} and {1} have no sum")]
    NoSum(&'static str, &'static str),
    /// A value of this kind has no such part.
    #[error("{0} has no `{1}`")]
    NoMember(&'static str, String),
    /// A value of this kind is not a list.
    #[error("{0} has no items")]
    NoItems(&'static str),
    /// A value of this kind is not a position.
    #[error("{0} cannot be a place in a list")]
    NoPlace(&'static str),
    /// The variable that is followed does not name a process.
    #[error("`{variable}` is {found} and no process")]
    NoProcess {
        /// The variable.
        variable: String,
        /// The kind of its value.
        found: &'static str,
    },
    /// The system has no such process.
    #[error("unknown process P{unknown}: the last one is P{last}")]
    UnknownProcess {
        /// The process.
        unknown: NodeId,
        /// The last process of the system.
        last: usize,
    },
    /// No process has such a variable in any state.
    #[error("no process has a variable `{unknown}`; there are {known}")]
    UnknownVariable {
        /// The name.
        unknown: String,
        /// The variables that processes have.
        known: String,
    },
    /// The algorithm has no messages of this kind.
    #[error("no message is of the kind `{unknown}`: the nearest one is `{nearest}`, of {known}")]
    UnknownKind {
        /// The kind.
        unknown: String,
        /// The kind that is spelt most like it.
        nearest: &'static str,
        /// The kinds of messages.
        known: String,
    },
    /// The algorithm does not run on this structure.
    #[error("the algorithm has no {0}")]
    NoStructure(&'static str),
}

impl Item {
    pub(crate) fn word(word: &str) -> Self {
        Self::Word(word.into())
    }

    pub(crate) fn nodes(nodes: impl IntoIterator<Item = NodeId>) -> Self {
        Self::List(nodes.into_iter().map(Self::Node).collect())
    }

    /// The kind of the value, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Node(_) => "a process",
            Self::Time(_) => "a clock reading",
            Self::Stamp(_) => "a timestamp",
            Self::Word(_) => "a word",
            Self::List(_) => "a list",
            Self::Message(_) => "a message",
        }
    }

    /// Whether both are the same. Values of two kinds are not compared, but with `none`.
    pub(crate) fn equals(&self, other: &Self) -> Result<bool, KindError> {
        match (self, other) {
            (Self::List(a), Self::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                let mut same = true;
                for (a, b) in a.iter().zip(b.iter()) {
                    same &= a.equals(b)?;
                }
                Ok(same)
            }
            (Self::None, _) | (_, Self::None) => Ok(self == other),
            (a, b) if std::mem::discriminant(a) == std::mem::discriminant(b) => Ok(a == b),
            (a, b) => Err(KindError::Compared(a.kind(), b.kind())),
        }
    }

    /// The order of numbers, clock readings and timestamps.
    pub(crate) fn order(&self, other: &Self) -> Result<Ordering, KindError> {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => Ok(a.cmp(b)),
            (Self::Time(a), Self::Time(b)) => Ok(a.cmp(b)),
            (Self::Stamp(a), Self::Stamp(b)) => Ok(a.cmp(b)),
            (a, b) => Err(KindError::NoOrder(a.kind(), b.kind())),
        }
    }
}

impl From<&Value> for Item {
    fn from(value: &Value) -> Self {
        match value {
            Value::None => Self::None,
            Value::Flag(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Node(node) => Self::Node(*node),
            Value::Time(time) => Self::Time(*time),
            Value::Stamp(stamp) => Self::Stamp(*stamp),
            Value::Word(word) => Self::word(word),
            Value::List(items) => Self::List(items.iter().map(Self::from).collect()),
        }
    }
}

/// Values as a process or a message shows them.
pub(crate) fn named(fields: &Fields) -> Named {
    fields.iter().map(|(name, value)| (*name, Item::from(value))).collect()
}

/// The value of this name.
pub(crate) fn find<'a>(named: &'a Named, name: &str) -> Option<&'a Item> {
    named.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}
