//! Times of the view layer, and the rules that tests break one at a time.

use std::time::Duration;

use super::Levels;

/// Times of the view layer, the same at every member, and the levels that it can use.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ViewSettings {
    /// L: a view lease lasts this long from the moment it was asked for.
    pub lease: Duration,
    /// Clocks gain or lose at most so many millionths.
    pub drift: u32,
    /// D: a member is removed when nothing has come from it for so long. Never less than
    /// [`full_lease`](Self::full_lease): a node that stalls for less than its lease stays.
    pub lost_after: Duration,
    /// A member is added when it has been reachable for so long.
    pub add_after: Duration,
    /// How often two members hear from each other at least.
    pub heartbeat: Duration,
    /// A view that has not begun after so long, waits for leases not counted, is replaced.
    pub stage_timeout: Duration,
    /// The levels that this node can use. They may differ between members.
    pub levels: Levels,
    /// Rules that tests break to show that they are needed; the default breaks none.
    pub rules: Rules,
}

impl Default for ViewSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(1500),
            drift: 10_000,
            lost_after: Duration::from_millis(1515),
            add_after: Duration::from_secs(1),
            heartbeat: Duration::from_millis(200),
            stage_timeout: Duration::from_secs(2),
            levels: Levels::HERE,
            rules: Rules::default(),
        }
    }
}

impl ViewSettings {
    fn drift_of(&self, time: Duration) -> Duration {
        // Rounded up, so that a bound is never too tight.
        let nanos = time.as_nanos() * u128::from(self.drift);
        Duration::from_nanos(u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// L(1 - rho): what the holder of a lease counts on its clock.
    pub fn member_lease(&self) -> Duration {
        self.lease.saturating_sub(self.drift_of(self.lease))
    }

    /// L(1 + rho): what somebody else waits on its clock until the lease has ended for certain.
    pub fn full_lease(&self) -> Duration {
        self.lease + self.drift_of(self.lease)
    }

    /// Granting stops, and holders are notified, this long before the lease ends: code needs time
    /// to stop.
    pub fn margin(&self) -> Duration {
        self.lease / 10
    }

    /// How often a member asks for its lease, and how often messages of the layer are repeated.
    pub fn ask_every(&self) -> Duration {
        self.lease / 5
    }

    /// A proposal that was not decided is made again after this. It was lost, with its leader
    /// perhaps, and a view that removes a member waits for it.
    pub fn propose_again(&self) -> Duration {
        self.ask_every() * 2
    }

    /// t(1 + rho)/(1 - rho): to be waited on one clock until `t` is over on any other.
    pub fn on_any_clock(&self, time: Duration) -> Duration {
        let drift = u128::from(self.drift);
        let nanos = time.as_nanos() * (1_000_000 + drift);
        let waited = nanos.div_ceil(1_000_000 - drift.min(999_999));
        Duration::from_nanos(u64::try_from(waited).unwrap_or(u64::MAX))
    }

    /// How long a link may be silent: D, but 8 mean gaps where messages come less than half as
    /// often as they are sent.
    pub fn silence(&self, period: Duration, mean_gap: Duration) -> Duration {
        let lost_after = self.lost_after.max(self.full_lease());
        if mean_gap > period * 2 { lost_after.max(mean_gap * 8) } else { lost_after }
    }
}

/// How the layer decides, with at most one rule of each kind broken.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rules {
    /// The rules of leases.
    pub lease: LeaseRules,
    /// The rules of records.
    pub records: RecordRules,
}

/// The lease rule, or a negative control of it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum LeaseRules {
    /// The right one.
    #[default]
    Right,
    /// A voter answers until it has *applied* a later view: after a restart, when it does not know
    /// yet what was committed, it answers again.
    StopAtApplied,
    /// A lease counts from the receipt of the last answer: a slow answer makes it too long.
    CountFromReceipt,
    /// A voter that has restarted says that it answered long ago.
    UnknownAgeIsLong,
    /// The coordinator begins on one voter's word.
    OneVotersWord,
    /// Half the voters' answers, rounded down, make a lease.
    HalfTheVotes,
    /// The coordinator begins without a wait for the leases of those whom the view removes.
    BeginAtOnce,
    /// A member grants whether its lease is good or not.
    GrantAfterLapse,
}

/// The rule that decides whether the keepers know all records, or a negative control of it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum RecordRules {
    /// The right one.
    #[default]
    Right,
    /// "Some keeper began some view": it may have been out of later ones.
    BeganSomeView,
    /// "Some keeper was one in the last view": it may not have begun it.
    WasInLastView,
}
