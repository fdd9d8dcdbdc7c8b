//! The lease of a session, as its client counts it.

use std::time::Duration;

use crate::Moment;

/// The renewals that were sent, and the time that their replies give.
pub(super) struct Lease {
    /// The lease of the last reply.
    ttl: Duration,
    /// Counted from when the renewal of the last reply was sent.
    valid_until: Moment,
    /// Renewals without a reply: number and send time. 0 is the `Open`.
    sent: Vec<(u64, Moment)>,
    renewals: u64,
    renew_at: Moment,
}

impl Lease {
    pub(super) fn new(now: Moment, ttl: Duration) -> Self {
        Self { ttl, valid_until: now, sent: Vec::new(), renewals: 0, renew_at: now }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The number of the last renewal.
    pub(super) fn renewals(&self) -> u64 {
        self.renewals
    }

    pub(super) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// Until when the locks of the session count as held. A tenth earlier than the lease expires,
    /// so that a holder can stop in time.
    pub(super) fn good_until(&self) -> Moment {
        self.valid_until.before(self.ttl / 10)
    }

    /// Whether the lease lasts for a while. A client that was stopped may read a grant, and replies
    /// to older renewals, long after they were sent.
    pub(super) fn lasts(&self, now: Moment) -> bool {
        self.valid_until.since(now) >= self.ttl / 2
    }

    /// Whether the session may have ended at its node.
    pub(super) fn has_expired(&self, now: Moment) -> bool {
        self.valid_until <= now
    }

    /// Since when a reply is due.
    pub(super) fn unanswered_since(&self) -> Option<Moment> {
        self.sent.first().map(|(_, sent)| *sent)
    }

    /// An `Open` is sent on a new stream.
    pub(super) fn opening(&mut self, now: Moment) {
        self.sent = vec![(0, now)];
        self.renew_at = now.after(self.ttl / 3);
    }

    /// A renewal is sent; returns its number.
    pub(super) fn renew(&mut self, now: Moment) -> u64 {
        self.renewals += 1;
        self.sent.push((self.renewals, now));
        self.renew_at = now.after(self.ttl / 3);
        self.renewals
    }

    /// The node replied to a renewal. The latest reply counts, though it may end sooner than an
    /// earlier one.
    pub(super) fn acknowledged(&mut self, number: u64, ttl_ms: u64) {
        let Some(index) = self.sent.iter().position(|sent| sent.0 == number) else { return };
        let (_, sent) = self.sent.remove(index);
        if ttl_ms == 0 {
            // The session has ended; the next reply closes it.
            return;
        }
        self.ttl = Duration::from_millis(ttl_ms);
        self.valid_until = sent.after(self.ttl);
        self.renew_at = self.renew_at.min(sent.after(self.ttl / 3));
    }
}
