//! The trait of all message types.

use std::{fmt::Debug, hash::Hash};

use serde::{Serialize, de::DeserializeOwned};

use crate::{Fields, NodeId, Renaming, Time};

/// A message of one algorithm. The clock that travels with every message is not part of it: see
/// [`Process`](crate::Process).
pub trait Message:
    Clone + Debug + Eq + Hash + Ord + Send + Sync + Serialize + DeserializeOwned + 'static
{
    /// The message's name in lower case (`request`, `reply`, `token`), by which traces and measures
    /// count it.
    fn kind(&self) -> &'static str;

    /// Its contents, under the paper's names.
    fn fields(&self) -> Fields {
        Fields::new()
    }

    /// Its contents for a reader of the whole system. In a view, an algorithm knows its processes
    /// by their positions among the members; `member` gives the process at a position in the view
    /// of this number, or, if the message does not name its view, in the present one of its sender.
    fn fields_for_all(&self, _member: &dyn Fn(Option<u32>, NodeId) -> NodeId) -> Fields {
        self.fields()
    }

    /// Shows every clock reading it carries, so that a checker can shift them all alike.
    fn times(&mut self, _visit: &mut dyn FnMut(&mut Time)) {}

    /// Gives every process it names its new name, where
    /// [`Inspect::is_symmetric`](crate::Inspect::is_symmetric) allows it.
    fn rename(&mut self, _renaming: &Renaming) {}
}
