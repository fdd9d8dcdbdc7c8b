//! Figures for monitors, counted as things happen.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::Protocol;
use crate::{Member, Moment, views};

/// The asks for leases whose answers are waited for: more than are sent within a view lease.
const ASKS: usize = 16;

/// What a node has counted since its start.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Messages by algorithm and type, one for each receiver.
    messages: BTreeMap<(&'static str, &'static str), u64>,
    /// Views that have begun.
    views: u64,
    /// The last asks for leases, and when they were sent.
    asks: VecDeque<(u64, Moment)>,
    /// The time from the last answered ask to its answer.
    round_trips: BTreeMap<Member, Duration>,
}

impl Counted {
    pub(super) fn sent(&mut self, algorithm: &'static str, kind: &'static str, receivers: usize) {
        *self.messages.entry((algorithm, kind)).or_default() += receivers as u64;
    }

    pub(super) fn view_begins(&mut self) {
        self.views += 1;
    }

    /// A message to another view layer is sent. One ask goes to several voters.
    pub(super) fn asked(&mut self, now: Moment, message: &views::Message) {
        let views::Message::Ask(ask) = message else { return };
        if self.asks.back().is_none_or(|(number, _)| *number != ask.number) {
            self.asks.push_back((ask.number, now));
        }
        if self.asks.len() > ASKS {
            self.asks.pop_front();
        }
    }

    /// A message of another view layer has arrived.
    pub(super) fn answered(&mut self, now: Moment, from: Member, message: &views::Message) {
        let views::Message::Answer { number, .. } = message else { return };
        if let Some((_, sent)) = self.asks.iter().find(|(ask, _)| ask == number) {
            self.round_trips.insert(from, now.since(*sent));
        }
    }

    pub(super) fn disconnected(&mut self, peer: Member) {
        self.round_trips.remove(&peer);
    }
}

/// Figures of a node since its start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The messages of each algorithm and type, one for each receiver, lazy ones included.
    pub messages: Vec<(&'static str, &'static str, u64)>,
    /// The views that have begun.
    pub views: u64,
    /// The last round trip to each voter that is connected: from the node's ask for its view lease
    /// to the answer.
    pub round_trips: Vec<(Member, Duration)>,
}

impl Protocol {
    /// The figures of this node since its start.
    pub fn figures(&self) -> Figures {
        let Counted { messages, views, round_trips, .. } = &self.counted;
        let messages =
            messages.iter().map(|((algorithm, kind), count)| (*algorithm, *kind, *count));
        Figures {
            messages: messages.collect(),
            views: *views,
            round_trips: round_trips.iter().map(|(peer, time)| (*peer, *time)).collect(),
        }
    }
}
