//! Guards 1 and 3, as a value to which time is an argument: when a leader falls silent, and when it
//! may propose. Guard 2 is [`Engine::sees`](crate::Engine::sees).

use std::time::Duration;

use tokio::time::Instant;

/// What this voter knows of its own leadership.
#[derive(Debug)]
pub(crate) struct Guards {
    election_max: Duration,
    /// Off in one test.
    on: bool,
    /// Since when this voter leads, or since when it speaks again after a silence.
    speaks_since: Option<Instant>,
    /// Send time of the latest messages that a majority has answered, while this voter leads.
    acknowledged: Option<Instant>,
    silent_until: Option<Instant>,
    /// Whether it is the only voter: a majority by itself, though nobody answers it.
    sole: bool,
}

impl Guards {
    pub(crate) fn new(election_max: Duration, on: bool) -> Guards {
        let (speaks_since, acknowledged, silent_until) = (None, None, None);
        Guards { election_max, on, speaks_since, acknowledged, silent_until, sole: false }
    }

    /// Take in what openraft reports: whether this voter leads, and the age of the last
    /// acknowledgement by a majority.
    pub(crate) fn observe(&mut self, now: Instant, leads: bool, age: Option<Duration>) {
        if leads {
            self.speaks_since.get_or_insert(now);
            self.acknowledged = age.and_then(|age| now.checked_sub(age));
        } else {
            self.speaks_since = None;
            self.acknowledged = None;
        }
    }

    /// Take in whether this voter is the only one.
    pub(crate) fn set_sole(&mut self, sole: bool) {
        self.sole = sole;
    }

    pub(crate) fn leads(&self) -> bool {
        self.speaks_since.is_some()
    }

    /// Guard 1. A leader that no majority answers keeps those who still receive it from voting
    /// for another: each of its messages renews their lease. So after `2 x election_max` it
    /// sends nothing for `4 x election_max`, which is long enough for the others to elect. After
    /// that it tries again, since it may be the only one with the whole log.
    pub(crate) fn may_send(&mut self, now: Instant) -> bool {
        if !self.on || self.sole {
            return true;
        }
        if let Some(until) = self.silent_until {
            if now < until {
                return false;
            }
            self.silent_until = None;
            if self.leads() {
                self.speaks_since = Some(now);
            }
        }
        let Some(speaks_since) = self.speaks_since else { return true };
        let answered = self.acknowledged.map_or(speaks_since, |at| at.max(speaks_since));
        if now.saturating_duration_since(answered) > self.election_max * 2 {
            self.silent_until = Some(now + self.election_max * 4);
            return false;
        }
        true
    }

    /// Guard 3. A leader that is cut off would take proposals that vanish much later.
    pub(crate) fn may_propose(&self, now: Instant) -> bool {
        if !self.on || self.sole {
            return self.leads();
        }
        self.acknowledgement_age(now).is_some_and(|age| age < self.election_max)
    }

    /// How long ago a majority confirmed this leader.
    pub(crate) fn acknowledgement_age(&self, now: Instant) -> Option<Duration> {
        self.acknowledged.map(|at| now.saturating_duration_since(at))
    }
}

/// The turn of a voter to stand for election, when it hears of no leader.
///
/// openraft draws an election timeout once, at its start, between `election_min` and
/// `election_max`. Two voters that drew nearly the same would stand at the same time at every
/// failover, and with four of five left that is likely: each such election costs another timeout.
/// So the voters stand one after the other, the greatest id first: of two candidates of one term
/// it wins at openraft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// How many voters that this one sees come before it, the leader not counted.
    pub(crate) rank: usize,
    /// For how long no leader was heard of.
    pub(crate) silence: Duration,
}

impl Turn {
    /// The first stands as openraft has it: after `2 x election_max` and a tick at the latest. The
    /// next ones follow at intervals in which an election can be won.
    pub(crate) fn has_come(&self, election_max: Duration) -> bool {
        let rank = u32::try_from(self.rank).unwrap_or(u32::MAX);
        self.rank == 0 || self.silence * 2 >= election_max.saturating_mul(rank.saturating_add(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(600);

    fn leader(now: Instant) -> Guards {
        let mut guards = Guards::new(MAX, true);
        guards.observe(now, true, Some(Duration::ZERO));
        guards
    }

    #[test]
    fn an_unanswered_leader_falls_silent_and_speaks_again() {
        let start = Instant::now();
        let mut guards = leader(start);
        assert!(guards.may_send(start + MAX * 2));
        let silent = start + MAX * 2 + Duration::from_millis(1);
        assert!(!guards.may_send(silent));
        assert!(!guards.may_send(silent + MAX * 4 - Duration::from_millis(1)));
        // It then speaks for as long as before, although nobody has answered meanwhile.
        assert!(guards.may_send(silent + MAX * 4));
        assert!(guards.may_send(silent + MAX * 6));
        assert!(!guards.may_send(silent + MAX * 6 + Duration::from_millis(1)));
    }

    #[test]
    fn a_leader_that_was_never_answered_falls_silent_too() {
        let start = Instant::now();
        let mut guards = Guards::new(MAX, true);
        guards.observe(start, true, None);
        assert!(!guards.may_propose(start));
        assert!(guards.may_send(start + MAX * 2));
        assert!(!guards.may_send(start + MAX * 3));
    }

    #[test]
    fn a_silence_outlasts_the_leadership() {
        let start = Instant::now();
        let mut guards = leader(start);
        assert!(!guards.may_send(start + MAX * 3));
        guards.observe(start + MAX * 4, false, None);
        assert!(!guards.may_send(start + MAX * 5));
        assert!(guards.may_send(start + MAX * 7));
    }

    #[test]
    fn the_only_voter_needs_no_acknowledgement() {
        let start = Instant::now();
        let mut guards = leader(start);
        guards.set_sole(true);
        assert!(guards.may_send(start + MAX * 9) && guards.may_propose(start + MAX * 9));
        guards.set_sole(false);
        assert!(!guards.may_propose(start + MAX * 9));
    }

    #[test]
    fn voters_stand_one_after_the_other() {
        let stands = |rank, silence| Turn { rank, silence }.has_come(MAX);
        assert!(stands(0, Duration::ZERO));
        assert!(!stands(1, MAX * 5 / 2 - Duration::from_millis(1)));
        assert!(stands(1, MAX * 5 / 2) && !stands(2, MAX * 5 / 2));
        assert!(stands(2, MAX * 3) && stands(4, MAX * 4));
    }

    #[test]
    fn proposals_need_a_young_acknowledgement() {
        let start = Instant::now();
        let mut guards = leader(start);
        assert!(guards.may_propose(start + MAX - Duration::from_millis(1)));
        assert!(!guards.may_propose(start + MAX));
        guards.observe(start + MAX, true, Some(Duration::from_millis(10)));
        assert!(guards.may_propose(start + MAX));
        guards.observe(start + MAX, false, None);
        assert!(!guards.may_propose(start + MAX));
    }
}
