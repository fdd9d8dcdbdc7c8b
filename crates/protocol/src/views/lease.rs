//! The member's side of view leases.
//!
//! A member asks all voters of its view every L/5 and notes when it sent each ask. When a majority
//! of the voters has answered *one* ask, its lease lasts until L(1 - rho) after that ask was sent.
//! Counting from the send time is what makes a late answer harmless: every voter that answered did
//! so after that time, and a member that waits for the end of the lease counts from the answer.
//!
//! A lease is good until `margin` before its end. Then it lapses: nothing is granted, and holders
//! in the process get the end as their last moment. If it returns in the same view, it counts
//! only once that moment has passed: until then the code of a lost guard may still run.
//!
//! Entering a later view drops the open asks. What was acknowledged before still covers what is
//! held, until its end; but the member reports to the later view only after the voters of *that*
//! view have acknowledged an ask sent since. So a member that waits for a lease of a view that has
//! begun needs to hear of that view's voters only, however the voters have changed before.

use std::collections::{BTreeMap, BTreeSet};

use super::{DecidedView, LeaseRules, MemberId, ViewNumber, ViewSettings};
use crate::Moment;

/// A change that holders must hear of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LeaseChange {
    /// Nothing may be granted; who holds something in the process must have stopped by then.
    Lapsed {
        /// The end of the lease.
        until: Moment,
    },
    /// Grants go on.
    Returned,
}

/// A member's lease.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct MemberLease {
    view: ViewNumber,
    voters: BTreeSet<MemberId>,
    asks: BTreeMap<u64, Asked>,
    numbers: u64,
    good_until: Moment,
    /// Whether the voters of this view have acknowledged an ask.
    acknowledged: bool,
    /// Lapsed, and the end that holders were given.
    lapsed: Option<Moment>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Asked {
    sent: Moment,
    answers: BTreeSet<MemberId>,
}

impl Default for MemberLease {
    fn default() -> Self {
        Self {
            view: ViewNumber::default(),
            voters: BTreeSet::new(),
            asks: BTreeMap::new(),
            numbers: 0,
            good_until: Moment::ZERO,
            acknowledged: false,
            lapsed: Some(Moment::ZERO),
        }
    }
}

impl MemberLease {
    /// From now on leases are asked for in this view.
    pub fn enter(&mut self, view: &DecidedView) {
        self.view = view.number;
        self.voters.clone_from(&view.voters);
        self.asks.clear();
        self.acknowledged = false;
    }

    /// The member is in no view: nothing acknowledges it any more. Its holders are given the end of
    /// its lease, as at a lapse.
    pub fn leave(&mut self) {
        self.lapsed.get_or_insert(self.good_until);
        self.view = ViewNumber::default();
        self.voters.clear();
        self.asks.clear();
        self.acknowledged = false;
    }

    /// Notes that an ask goes out now; its number. Numbers are not used again.
    pub fn ask(&mut self, now: Moment, settings: &ViewSettings) -> u64 {
        self.asks.retain(|_, asked| now.since(asked.sent) < settings.lease);
        self.numbers += 1;
        if !self.voters.is_empty() {
            self.asks.insert(self.numbers, Asked { sent: now, answers: BTreeSet::new() });
        }
        self.numbers
    }

    /// A voter has answered an ask of this view.
    pub fn answered(
        &mut self,
        now: Moment,
        settings: &ViewSettings,
        voter: MemberId,
        view: ViewNumber,
        number: u64,
    ) {
        if view != self.view || !self.voters.contains(&voter) {
            return;
        }
        let needed = match settings.rules.lease {
            LeaseRules::HalfTheVotes => (self.voters.len() / 2).max(1),
            _ => majority(self.voters.len()),
        };
        let Some(asked) = self.asks.get_mut(&number) else { return };
        asked.answers.insert(voter);
        if asked.answers.len() < needed {
            return;
        }
        let from = match settings.rules.lease {
            LeaseRules::CountFromReceipt => now,
            _ => asked.sent,
        };
        self.good_until = self.good_until.max(from.after(settings.member_lease()));
        self.acknowledged = true;
        // Earlier asks can give nothing more.
        self.asks.retain(|&other, _| other > number);
    }

    /// Notices that the lease has lapsed or returned. Called first in every entry point, so that a
    /// process that was stopped handles its lapse before anything else.
    pub fn notice(&mut self, now: Moment, settings: &ViewSettings) -> Option<LeaseChange> {
        let good = now < self.stop_at(settings);
        match self.lapsed {
            None if !good => {
                self.lapsed = Some(self.good_until);
                Some(LeaseChange::Lapsed { until: self.good_until })
            }
            Some(end) if good && now >= end => {
                self.lapsed = None;
                Some(LeaseChange::Returned)
            }
            None | Some(_) => None,
        }
    }

    /// Whether the member may grant now.
    pub fn is_good(&self, now: Moment, settings: &ViewSettings) -> bool {
        self.lapsed.is_none() && now < self.stop_at(settings)
    }

    /// Whether the voters of the view entered last have acknowledged the member in it.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// The end of the lease: what is held in the process has stopped by then.
    pub fn good_until(&self) -> Moment {
        self.good_until
    }

    /// Granting stops here.
    pub fn stop_at(&self, settings: &ViewSettings) -> Moment {
        self.good_until.before(settings.margin())
    }

    /// When [`notice`](Self::notice) may have something to say.
    pub fn wake_at(&self, settings: &ViewSettings) -> Moment {
        match self.lapsed {
            None => self.stop_at(settings),
            // It returns with an answer, or is noticed at the next ask.
            Some(_) => Moment::NEVER,
        }
    }
}

/// How many of `all` are more than half.
pub fn majority(all: usize) -> usize {
    all / 2 + 1
}
