//! The part that all hand-stepped systems with messages share: links and trace.

use mutua_algorithms::{Links, NodeId};

use crate::{
    Header, Message, Refusal, Values, What, Which,
    network::{Network, Transit},
    recorder::Recorder,
};

/// A system that has taken so many steps by itself will not come to rest.
const LONGEST: u64 = 100_000;

/// Links and trace; `P` is the payload of a message.
#[derive(Clone, Debug)]
pub(crate) struct Stage<P> {
    network: Network<P>,
    pub(crate) recorder: Recorder,
}

impl<P: Clone> Stage<P> {
    pub(crate) fn new(links: Links, header: Header) -> Self {
        Self { network: Network::new(links), recorder: Recorder::new(header) }
    }

    pub(crate) fn name(&self, who: NodeId) -> String {
        self.recorder.header().name(who)
    }

    /// The messages in flight, in order of sending: sender, receiver, message.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        let in_flight = self.network.in_flight().iter();
        in_flight.map(|transit| (transit.from, transit.to, &transit.shown))
    }

    /// The payloads in flight, in order of sending: sender, receiver, payload.
    pub(crate) fn parcels(&self) -> impl Iterator<Item = (NodeId, NodeId, &P)> {
        let in_flight = self.network.in_flight().iter();
        in_flight.map(|transit| (transit.from, transit.to, &transit.payload))
    }

    /// A message of `from` as the trace shows it, with its number.
    pub(crate) fn shown(
        &mut self,
        from: NodeId,
        message: &impl mutua_algorithms::Message,
    ) -> Message {
        let id = self.recorder.next_id();
        if !self.recorder.keeps() {
            return Message { id, kind: message.kind().into(), fields: Values::default() };
        }
        Message::new(id, message, from, self.recorder.header(), self.recorder.views())
    }

    pub(crate) fn send(&mut self, transit: Transit<P>) {
        self.network.send(transit);
    }

    /// The index of a message that may be delivered now.
    pub(crate) fn find(&self, from: NodeId, to: NodeId, which: &Which) -> Result<usize, Refusal> {
        let found = self.network.find(from, to, which);
        found.map_err(|why| Refusal::unavailable(from, to, which, why, self.recorder.header()))
    }

    /// How many messages are in flight.
    pub(crate) fn in_flight_count(&self) -> usize {
        self.network.in_flight().len()
    }

    /// Whether the message at this index in order of sending is lazy.
    pub(crate) fn is_lazy(&self, index: usize) -> bool {
        self.network.in_flight()[index].lazy
    }

    /// The receiver of the message at this index.
    pub(crate) fn receiver(&self, index: usize) -> NodeId {
        self.network.in_flight()[index].to
    }

    /// The index of the message that must arrive first on the link of this one.
    pub(crate) fn first_before(&self, index: usize) -> usize {
        self.network.first_before(index)
    }

    /// The message at this index is lost.
    pub(crate) fn lose_at(&mut self, index: usize) {
        let transit = self.network.take(index);
        self.lost(transit);
    }

    /// The step by which a system must have come to rest without further requests.
    pub(crate) fn patience(&self) -> u64 {
        self.recorder.step() + LONGEST
    }

    /// The index of the message that is delivered next by default.
    pub(crate) fn next(&self) -> Option<usize> {
        self.network.next()
    }

    /// The same, if the system comes to rest before the step `end`.
    pub(crate) fn next_before(&self, end: u64) -> Result<Option<usize>, Refusal> {
        let next = self.network.next();
        if next.is_some() && self.recorder.step() == end {
            return Err(Refusal::new(format!("after {LONGEST} steps messages are still sent")));
        }
        Ok(next)
    }

    /// Takes a message from its link; none if its receiver is down, since it is lost then.
    pub(crate) fn take(
        &mut self,
        index: usize,
        is_up: impl FnOnce(NodeId) -> bool,
    ) -> Option<Transit<P>> {
        let transit = self.network.take(index);
        if is_up(transit.to) {
            return Some(transit);
        }
        self.lost(transit);
        None
    }

    /// A message in flight is lost.
    pub(crate) fn lose(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        let index = self.find(from, to, which)?;
        self.lose_at(index);
        Ok(())
    }

    /// A message in flight will arrive twice, the second time behind the others on its link.
    pub(crate) fn duplicate(
        &mut self,
        from: NodeId,
        to: NodeId,
        which: &Which,
    ) -> Result<(), Refusal> {
        let index = self.find(from, to, which)?;
        let message = self.network.in_flight()[index].shown.clone();
        self.network.duplicate(index);
        self.recorder.happened(from, What::Duplicate { to, message }, None);
        Ok(())
    }

    fn lost(&mut self, Transit { from, to, shown, .. }: Transit<P>) {
        self.recorder.happened(from, What::Drop { to, message: shown }, None);
    }
}
