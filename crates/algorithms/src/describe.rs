//! The state of a process and the contents of a message as values, under the paper's own names.

use serde::Serialize;

use crate::{NodeId, NodeSet, Stamp, Time};

/// Named values, in the order in which a reader wants them.
pub type Fields = Vec<(&'static str, Value)>;

/// A value that drivers can show without knowing the algorithm. Processes are kept apart from
/// numbers, since a driver may know them by other names.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub enum Value {
    /// The variable has no value now.
    None,
    /// True or false.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A process.
    Node(NodeId),
    /// A clock reading.
    Time(Time),
    /// A timestamp: time and process.
    Stamp(Stamp),
    /// One of a few words.
    Word(&'static str),
    /// Several values in order.
    List(Vec<Value>),
}

impl Value {
    /// A list of anything that is a value.
    pub fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// The same value with other ids of processes: a view numbers its members by their position,
    /// and a system of several critical sections its instances.
    pub fn with_ids(self, id: &dyn Fn(NodeId) -> NodeId) -> Self {
        match self {
            Self::Node(node) => Self::Node(id(node)),
            Self::Stamp(stamp) => Self::Stamp(Stamp::new(stamp.time, id(stamp.node))),
            Self::List(items) => {
                Self::List(items.into_iter().map(|item| item.with_ids(id)).collect())
            }
            Self::None | Self::Flag(_) | Self::Number(_) | Self::Time(_) | Self::Word(_) => self,
        }
    }

    /// The value as text, `name` giving the names of processes.
    pub fn render(&self, name: &dyn Fn(NodeId) -> String) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Node(node) => name(*node),
            Self::Time(time) => time.to_string(),
            Self::Stamp(stamp) => format!("({},{})", stamp.time, name(stamp.node)),
            Self::Word(word) => (*word).to_owned(),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| item.render(name)).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Self {
        Self::Node(node)
    }
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Time(time)
    }
}

impl From<Stamp> for Value {
    fn from(stamp: Stamp) -> Self {
        Self::Stamp(stamp)
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<&NodeSet> for Value {
    fn from(set: &NodeSet) -> Self {
        Self::list(set.iter())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}
