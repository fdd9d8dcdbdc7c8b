//! The trait that every mutual exclusion algorithm implements.

use std::{fmt::Debug, hash::Hash};

use serde::{Deserialize, Serialize};

use crate::{About, Fields, Message, NodeId, Outbox, Renaming, Stamp, Start, StartError, Time};

/// One process of a mutual exclusion algorithm.
///
/// Events come in as calls and effects go out through the [`Outbox`]; a handler never blocks, reads
/// a clock on the wall or draws a random number. Drivers do not call a machine themselves but
/// through [`Process`](crate::Process), which keeps the Lamport clock and catches misuse. All state
/// is in one value, so that the same type runs between real machines, in the simulator and in the
/// model checker.
///
/// Links deliver every message once; whether they must keep its order is said in [`About::links`].
pub trait Mutex: Clone + Debug + Eq + Hash + Send + Sync + Sized + 'static {
    /// What processes say to each other.
    type Message: Message;

    /// Name, costs, claims, options: the algorithm's row in every table.
    const ABOUT: &'static About;

    /// Whether this start suits the algorithm, beyond what [`About`] says of it.
    fn check(_start: &Start) -> Result<(), StartError> {
        Ok(())
    }

    /// A process at the start: outside, or inside if the start says so.
    fn new(me: NodeId, start: &Start) -> Self;

    /// The system begins. Called once, before everything else, for those that act of themselves: a
    /// token that circulates, a flood that tells all of the holder. Nobody enters by it.
    fn begin(&mut self, _out: &mut Outbox<Self::Message>) {}

    /// The local client asks for the critical section. It is outside.
    fn request(&mut self, stamp: Stamp, out: &mut Outbox<Self::Message>);

    /// A message arrives from another process.
    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>);

    /// The local client leaves the critical section. It is inside.
    fn release(&mut self, out: &mut Outbox<Self::Message>);

    /// Something arrived that was stamped `sent`: an application's message, or, after
    /// [`receive`](Self::receive), one of our own. Only Lamport's algorithm draws conclusions from
    /// that alone.
    fn heard(&mut self, _from: NodeId, _sent: Time, _out: &mut Outbox<Self::Message>) {}

    /// Whether the clock travels with this message (`None`: with an application's). It always does,
    /// but in the control that shows why it must.
    fn carries_clock(&self, _message: Option<&Self::Message>) -> bool {
        true
    }

    /// Where the local client stands.
    fn phase(&self) -> Phase;

    /// Whether a request made now would be granted at once, with no message.
    fn token_here(&self) -> bool;

    /// Whether this process could be forgotten and made anew from `start` with nobody noticing:
    /// nobody inside or waiting that it knows of, and what was first at the holder is there again.
    fn at_start(&self, start: &Start) -> bool;

    /// Whose message the local client waits for, as far as this process knows: nobody unless it is
    /// requesting.
    fn waits_for(&self) -> Vec<NodeId>;

    /// The state under the paper's names.
    fn variables(&self) -> Fields;

    /// Shows every clock reading in the state, so that a checker can shift them all alike.
    fn times(&mut self, _visit: &mut dyn FnMut(&mut Time)) {}

    /// Whether the processes can take each other's names like this and nothing else changes: no id
    /// breaks a tie or says who is next, and the structure stays the same. A checker may then take
    /// systems for one that differ by names only. Who says yes writes [`rename`](Self::rename), and
    /// [`Message::rename`] where messages carry ids.
    fn is_symmetric(_start: &Start, _renaming: &Renaming) -> bool {
        false
    }

    /// Gives every process in the state its new name.
    fn rename(&mut self, _renaming: &Renaming) {}
}

/// Where a client stands; it goes round in this order.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub enum Phase {
    /// It does not want the critical section.
    #[default]
    Outside,
    /// It has asked and waits.
    Requesting,
    /// It is in the critical section.
    Inside,
}

impl Phase {
    /// The phase in one word, for traces and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Requesting => "requesting",
            Self::Inside => "inside",
        }
    }
}
