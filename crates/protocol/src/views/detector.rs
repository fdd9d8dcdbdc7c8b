//! The failure detector of one member: the incarnations that it hears from.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Incarnation, Instance, MemberId, ViewSettings};
use crate::Moment;

/// The arrivals of one sender: when the last was, and the mean gap between them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Arrivals {
    last: Moment,
    /// Moving average: each gap counts an eighth.
    mean_gap: Duration,
}

impl Arrivals {
    pub(super) fn new(now: Moment) -> Self {
        Self { last: now, mean_gap: Duration::ZERO }
    }

    pub(super) fn note(&mut self, now: Moment, period: Duration) {
        // One long silence, a crash or a cut, says nothing about the link.
        let gap = now.since(self.last).min(period * 16);
        self.mean_gap = if self.mean_gap.is_zero() { gap } else { (self.mean_gap * 7 + gap) / 8 };
        self.last = self.last.max(now);
    }

    /// The silence after which the sender counts as lost.
    pub(super) fn limit(&self, settings: &ViewSettings, period: Duration) -> Duration {
        settings.silence(period, self.mean_gap)
    }

    pub(super) fn is_fresh(&self, now: Moment, settings: &ViewSettings, period: Duration) -> bool {
        now.since(self.last) < self.limit(settings, period)
    }

    /// Whether half the silence after which the sender counts as lost has passed.
    pub(super) fn is_quiet(&self, now: Moment, settings: &ViewSettings, period: Duration) -> bool {
        now.since(self.last) > self.limit(settings, period) / 2
    }
}

/// The incarnations that a member hears from.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Detector {
    heard: BTreeMap<MemberId, (Incarnation, Arrivals)>,
}

impl Detector {
    /// Something has arrived from this incarnation.
    pub fn heard(&mut self, now: Moment, settings: &ViewSettings, from: Instance) {
        let new = (from.incarnation, Arrivals::new(now));
        let known = self.heard.entry(from.member).or_insert(new);
        if known.0 < from.incarnation {
            *known = new;
        } else if known.0 == from.incarnation {
            known.1.note(now, settings.heartbeat);
        }
    }

    /// The incarnations that something has arrived from lately.
    pub fn sees(&self, now: Moment, settings: &ViewSettings) -> BTreeSet<Instance> {
        let fresh = |(_, (_, arrivals)): &(&MemberId, &(Incarnation, Arrivals))| {
            arrivals.is_fresh(now, settings, settings.heartbeat)
        };
        let instance = |(&member, &(incarnation, _)): (&MemberId, &(Incarnation, Arrivals))| {
            Instance { member, incarnation }
        };
        self.heard.iter().filter(fresh).map(instance).collect()
    }
}
