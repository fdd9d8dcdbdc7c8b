//! What every system of messages that is stepped by hand has: its links, and the trace of what
//! happened on them.

use mutua_algorithms::{Links, NodeId};

use crate::{
    Header, Message, Refusal, What, Which,
    network::{Network, Transit},
    recorder::Recorder,
};

/// A system that has taken so many steps of itself will not come to rest.
const LONGEST: u64 = 100_000;

/// Links and trace; `P` is what a receiver will be handed.
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

    /// What is in flight, in order of sending: from whom, to whom, what.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &Message)> {
        let in_flight = self.network.in_flight().iter();
        in_flight.map(|transit| (transit.from, transit.to, &transit.shown))
    }

    /// A message as the trace shows it, with a number of its own.
    pub(crate) fn shown(&mut self, message: &impl mutua_algorithms::Message) -> Message {
        let id = self.recorder.next_id();
        Message::new(id, message, self.recorder.header())
    }

    pub(crate) fn send(&mut self, transit: Transit<P>) {
        self.network.send(transit);
    }

    /// The place of a message that may be delivered now.
    pub(crate) fn find(&self, from: NodeId, to: NodeId, which: &Which) -> Result<usize, Refusal> {
        let found = self.network.find(from, to, which);
        found.map_err(|why| Refusal::unavailable(from, to, which, why, self.recorder.header()))
    }

    /// The step by which a system that is left to itself must have come to rest.
    pub(crate) fn patience(&self) -> u64 {
        self.recorder.step() + LONGEST
    }

    /// The place of the message that goes next when nothing is left to choice.
    pub(crate) fn next_before(&self, end: u64) -> Result<Option<usize>, Refusal> {
        let next = self.network.next();
        if next.is_some() && self.recorder.step() == end {
            return Err(Refusal::new(format!("after {LONGEST} steps it does not come to rest")));
        }
        Ok(next)
    }

    /// Takes a message out of its link; none if its receiver is down, for then it is lost.
    pub(crate) fn take(
        &mut self,
        place: usize,
        is_up: impl FnOnce(NodeId) -> bool,
    ) -> Option<Transit<P>> {
        let transit = self.network.take(place);
        if is_up(transit.to) {
            return Some(transit);
        }
        self.lost(transit);
        None
    }

    /// A message in flight is lost.
    pub(crate) fn lose(&mut self, from: NodeId, to: NodeId, which: &Which) -> Result<(), Refusal> {
        let place = self.find(from, to, which)?;
        let transit = self.network.take(place);
        self.lost(transit);
        Ok(())
    }

    /// A message in flight will arrive twice, the second time behind the others on its link.
    pub(crate) fn duplicate(
        &mut self,
        from: NodeId,
        to: NodeId,
        which: &Which,
    ) -> Result<(), Refusal> {
        let place = self.find(from, to, which)?;
        let message = self.network.in_flight()[place].shown.clone();
        self.network.duplicate(place);
        self.recorder.happened(from, What::Duplicate { to, message }, None);
        Ok(())
    }

    fn lost(&mut self, Transit { from, to, shown, .. }: Transit<P>) {
        self.recorder.happened(from, What::Drop { to, message: shown }, None);
    }
}
