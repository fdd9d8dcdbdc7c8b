//! The links of a system that is stepped by hand: every message in flight, in order of sending.

use mutua_algorithms::{Links, NodeId};

use crate::Message;

/// A message in flight; `P` is what the receiver will be handed.
#[derive(Clone, Debug)]
pub(crate) struct Transit<P> {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) shown: Message,
    pub(crate) lazy: bool,
    pub(crate) payload: P,
}

/// Which of the messages on a link is meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Which {
    /// Only those of this kind.
    pub kind: Option<String>,
    /// The how-manieth of them in order of sending, from 1.
    pub nth: usize,
}

impl Which {
    /// The first on the link.
    pub fn first() -> Self {
        Self { kind: None, nth: 1 }
    }

    /// So many messages are sent before it.
    pub fn after(earlier: usize) -> Self {
        Self { kind: None, nth: earlier + 1 }
    }
}

/// Why a message is not to be had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unavailable {
    /// There is none like it on the link, only these kinds.
    Missing { there: Vec<String> },
    /// A FIFO link delivers this one first.
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

    /// The place of a message that may be delivered now.
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
        let mut meant = on_link().filter(|&place| is_meant(&self.in_flight[place]));
        let kind = |place: usize| self.in_flight[place].shown.kind.to_string();
        let Some(found) = meant.nth(which.nth.saturating_sub(1)) else {
            return Err(Unavailable::Missing { there: on_link().map(kind).collect() });
        };
        let first = on_link().next().unwrap_or(found);
        match self.links {
            Links::Fifo if first != found => Err(Unavailable::Behind { first: kind(first) }),
            Links::Fifo | Links::Any => Ok(found),
        }
    }

    /// The place of the message that goes next when nothing is left to choice: the oldest that is
    /// not lazy, or what must go before it on its link.
    pub(crate) fn next(&self) -> Option<usize> {
        let oldest = self.in_flight.iter().position(|transit| !transit.lazy)?;
        let Transit { from, to, .. } = self.in_flight[oldest];
        match self.links {
            Links::Fifo => self.on_link(from, to).next(),
            Links::Any => Some(oldest),
        }
    }

    pub(crate) fn take(&mut self, place: usize) -> Transit<P> {
        self.in_flight.remove(place)
    }

    /// Keeps a message in flight a second time, behind the others.
    pub(crate) fn duplicate(&mut self, place: usize)
    where
        P: Clone,
    {
        self.in_flight.push(self.in_flight[place].clone());
    }

    fn on_link(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = usize> + '_ {
        let is_on = move |transit: &Transit<P>| (transit.from, transit.to) == (from, to);
        let places = self.in_flight.iter().enumerate();
        places.filter(move |(_, transit)| is_on(transit)).map(|(place, _)| place)
    }
}
