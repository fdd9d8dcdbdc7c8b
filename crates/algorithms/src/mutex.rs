//! The trait that every mutual exclusion algorithm implements.

use crate::{About, Inspect, Message, NodeId, Outbox, Setup, Stamp, Start, StartError, Time};

/// One process of a mutual exclusion algorithm: the rules of its paper.
///
/// Events come in as calls and effects go out through the [`Outbox`]; a handler never blocks, reads
/// a real clock or draws a random number. Drivers call a machine only through
/// [`Process`](crate::Process), which keeps the Lamport clock and catches misuse. What tools need
/// of its state is in [`Inspect`].
///
/// Links deliver every message once; [`About::links`] declares whether they must keep its order.
pub trait Mutex: Inspect {
    /// The messages between processes.
    type Message: Message;

    /// Name, costs, claims, options: the algorithm's row in every table.
    const ABOUT: &'static About;

    /// The algorithm that starts with this setup: this one. Drivers read the row of a start by
    /// [`Start::about`], since one type stands for all algorithms
    /// ([`registry::AnyMutex`](crate::registry::AnyMutex)).
    fn about(_setup: &Setup) -> &'static About {
        Self::ABOUT
    }

    /// Whether this start suits the algorithm, beyond what [`About`] declares.
    fn check(_start: &Start) -> Result<(), StartError> {
        Ok(())
    }

    /// A process at the start: idle, or in the critical section if the start has it there.
    fn new(me: NodeId, start: &Start) -> Self;

    /// The system begins. Called once, before everything else, for algorithms that send before the
    /// first request: a token that circulates, a flood that announces the holder. It lets no client
    /// enter.
    fn begin(&mut self, _out: &mut Outbox<Self::Message>) {}

    /// The local client, which is idle, requests the critical section.
    fn request(&mut self, stamp: Stamp, out: &mut Outbox<Self::Message>);

    /// A message arrives from another process.
    fn receive(&mut self, from: NodeId, message: Self::Message, out: &mut Outbox<Self::Message>);

    /// The local client, which is in the critical section, leaves it.
    fn release(&mut self, out: &mut Outbox<Self::Message>);

    /// A message stamped `sent` has arrived: an application's, or, after
    /// [`receive`](Self::receive), one of the algorithm. Only Lamport's algorithm draws a
    /// conclusion from the stamp alone.
    fn observed(&mut self, _from: NodeId, _sent: Time, _out: &mut Outbox<Self::Message>) {}

    /// Whether the clock travels with this message (`None`: a message of the application). It
    /// always does, except in the negative control that shows why it must.
    fn carries_clock(&self, _message: Option<&Self::Message>) -> bool {
        true
    }
}
