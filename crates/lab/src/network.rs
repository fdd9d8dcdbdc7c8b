//! The links of a hand-stepped system: every message in flight, in order of sending.

use mutua_algorithms::{Links, NodeId};

use crate::Message;

/// A message in flight; `P` is its payload for the receiver.
#[derive(Clone, Debug)]
pub(crate) struct Transit<P> {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) shown: Message,
    pub(crate) lazy: bool,
    pub(crate) payload: P,
}

/// Selects a message on a link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Which {
    /// The kind of message; none for any kind.
    pub kind: Option<String>,
    /// Its position among these in order of sending, from 1.
    pub nth: usize,
}

impl Which {
    /// The first message on the link.
    pub fn first() -> Self {
        Self { kind: None, nth: 1 }
    }

    /// The message behind so many others on the link.
    pub fn after(earlier: usize) -> Self {
        Self { kind: None, nth: earlier + 1 }
    }
}

/// Why a message cannot be delivered now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unavailable {
    /// No such message is on the link, only these kinds.
    Missing { there: Vec<String> },
    /// A FIFO link delivers a message of this kind first.
    Behind { first: String },
}

#[derive(Clone, Debug)]
pub(crate) struct Network<P> {
    links: Links,
    in_flight: Vec<Transit<P>>,
}

impl<P> Network<P> {
    pub(crate) fn new(links: Links) -> Self {
        Self { links, in_flight: Vec::new() }
    }

    pub(crate) fn send(&mut self, transit: Transit<P>) {
        self.in_flight.push(transit);
    }

    pub(crate) fn in_flight(&self) -> &[Transit<P>] {
        &self.in_flight
    }

    /// The index of a message that may be delivered now.
    pub(crate) fn find(
        &self,
        from: NodeId,
        to: NodeId,
        which: &Which,
    ) -> Result<usize, Unavailable> {
        let on_link = || self.on_link(from, to);
        let is_meant = |transit: &Transit<P>| {
            which.kind.as_ref().is_none_or(|kind| *kind == transit.shown.kind)
        };
        let mut meant = on_link().filter(|&index| is_meant(&self.in_flight[index]));
        let kind = |index: usize| self.in_flight[index].shown.kind.to_string();
        let Some(found) = meant.nth(which.nth.saturating_sub(1)) else {
            return Err(Unavailable::Missing { there: on_link().map(kind).collect() });
        };
        let first = on_link().next().unwrap_or(found);
        match self.links {
            Links::Fifo if first != found => Err(Unavailable::Behind { first: kind(first) }),
            Links::Fifo | Links::Any => Ok(found),
        }
    }

    /// The index of the message that is delivered next by default: the oldest that is not lazy, or
    /// the one that must arrive before it on its link.
    pub(crate) fn next(&self) -> Option<usize> {
        let oldest = self.in_flight.iter().position(|transit| !transit.lazy)?;
        Some(self.first_before(oldest))
    }

    /// The index of the message that must arrive first on the link of this one: its own where links
    /// may reorder.
    pub(crate) fn first_before(&self, index: usize) -> usize {
        let Transit { from, to, .. } = self.in_flight[index];
        match self.links {
            Links::Fifo => {
                let is_on_link = |earlier: &Transit<P>| earlier.from == from && earlier.to == to;
                self.in_flight[..index].iter().position(is_on_link).unwrap_or(index)
            }
            Links::Any => index,
        }
    }

    pub(crate) fn take(&mut self, index: usize) -> Transit<P> {
        self.in_flight.remove(index)
    }

    /// Keeps a message in flight a second time, behind the others.
    pub(crate) fn duplicate(&mut self, index: usize)
    where
        P: Clone,
    {
        self.in_flight.push(self.in_flight[index].clone());
    }

    fn on_link(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = usize> + '_ {
        let is_on = move |transit: &Transit<P>| (transit.from, transit.to) == (from, to);
        let indexes = self.in_flight.iter().enumerate();
        indexes.filter(move |(_, transit)| is_on(transit)).map(|(index, _)| index)
    }
}
