//! The rules of sessions and leases, on a clock of the test's own.

use std::{collections::BTreeMap, time::Duration};

use super::{
    AskId, Client, Desk, Effect, How, Opening, Outcome, Patience, SessionId, Settings, WaitId,
};
use crate::Moment;

const TTL: Duration = Duration::from_secs(10);

/// A desk with a node that has one member: it lets in whoever asks when nobody is inside.
struct Hall {
    desk: Desk,
    now: Moment,
    fence: u64,
    inside: BTreeMap<Vec<u8>, AskId>,
    asked: Vec<(AskId, Vec<u8>, bool)>,
    answers: BTreeMap<WaitId, Outcome>,
    told: Vec<Effect>,
    /// Whether the node answers.
    answering: bool,
}

impl Hall {
    fn new() -> Self {
        Self::after_a_crash(None)
    }

    fn after_a_crash(longest: Option<Duration>) -> Self {
        let now = Moment::from_nanos(1_000_000_000);
        Self {
            desk: Desk::new(now, Settings::default(), longest, 7),
            now,
            fence: 100,
            inside: BTreeMap::new(),
            asked: Vec::new(),
            answers: BTreeMap::new(),
            told: Vec::new(),
            answering: true,
        }
    }

    fn open(&mut self) -> SessionId {
        self.open_with(Opening { ttl: TTL, ..Opening::default() })
    }

    fn open_with(&mut self, opening: Opening) -> SessionId {
        self.desk.open(self.now, opening).expect("it may open").0
    }

    fn acquire(&mut self, session: SessionId, patience: Patience) -> WaitId {
        let wait = self.desk.acquire(self.now, session, b"x", patience);
        self.settle();
        wait
    }

    fn wait(&mut self, session: SessionId) -> WaitId {
        self.acquire(session, Patience::Forever)
    }

    fn fence_of(&self, wait: WaitId) -> Option<u64> {
        match self.answers.get(&wait) {
            Some(Outcome::Granted { fence, .. }) => Some(*fence),
            _ => None,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
        self.desk.tick(self.now);
        self.settle();
    }

    /// Does what the desk wants done, until it wants nothing.
    fn settle(&mut self) {
        loop {
            for effect in self.desk.take_effects() {
                self.play(effect);
            }
            if !self.answering || !self.answer_one() {
                return;
            }
        }
    }

    fn play(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { ask, name, how } => {
                self.asked.push((ask, name.to_vec(), how == How::Try));
            }
            Effect::Drop { ask } => {
                self.inside.retain(|_, inside| *inside != ask);
                self.asked.retain(|asked| asked.0 != ask);
            }
            Effect::Answer { wait, outcome } => {
                let before = self.answers.insert(wait, outcome);
                assert_eq!(before, None, "nobody is answered twice");
            }
            other => self.told.push(other),
        }
    }

    fn answer_one(&mut self) -> bool {
        let free = |(_, name, only_try): &(AskId, Vec<u8>, bool)| {
            *only_try || !self.inside.contains_key(name)
        };
        let Some(index) = self.asked.iter().position(free) else { return false };
        let (ask, name, _) = self.asked.remove(index);
        let inside = *self.inside.entry(name).or_insert(ask);
        if inside == ask {
            self.fence += 1;
            self.desk.granted(self.now, ask, self.fence);
        } else {
            self.desk.refused(self.now, ask, None);
        }
        true
    }

    fn was_told(&mut self, wanted: impl Fn(&Effect) -> bool) -> bool {
        self.told.iter().any(wanted)
    }
}

#[test]
fn the_line_is_served_in_order_of_arrival_with_growing_fences() {
    let mut hall = Hall::new();
    let sessions: Vec<_> = (0..4).map(|_| hall.open()).collect();
    let waits: Vec<_> = sessions.iter().map(|&session| hall.wait(session)).collect();
    let mut last = 0;
    for (index, &wait) in waits.iter().enumerate() {
        let fence = hall.fence_of(wait).expect("it is its turn");
        assert!(fence > last, "fences grow");
        let others = waits[index + 1..].iter().map(|other| hall.desk.place(*other));
        assert_eq!(others.collect::<Vec<_>>(), (0..3 - index).map(Some).collect::<Vec<_>>());
        assert!(hall.desk.release(hall.now, b"x", fence));
        hall.settle();
        last = fence;
    }
    assert!(hall.desk.nobody_inside(hall.now));
}

#[test]
fn a_release_of_an_older_fence_frees_nothing() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    let first = hall.wait(one);
    let old = hall.fence_of(first).expect("inside");
    assert!(hall.desk.release(hall.now, b"x", old));
    let second = hall.wait(two);
    let new = hall.fence_of(second).expect("inside");
    assert!(!hall.desk.release(hall.now, b"x", old), "a late release names an older grant");
    assert!(hall.desk.verify(hall.now, b"x", new));
    assert!(!hall.desk.verify(hall.now, b"x", old));
}

#[test]
fn a_goodbye_frees_at_once() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let next = hall.wait(two);
    assert!(hall.desk.close(hall.now, one));
    hall.settle();
    assert!(hall.fence_of(next).is_some());
    assert!(!hall.desk.close(hall.now, one), "a session ends once");
}

#[test]
fn a_lease_that_is_renewed_goes_on_and_one_that_is_not_runs_out() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let next = hall.wait(two);
    for _ in 0..5 {
        hall.pass(8);
        assert_eq!(hall.desk.renew(hall.now, one), Some(TTL));
        assert_eq!(hall.desk.renew(hall.now, two), Some(TTL));
    }
    hall.pass(9);
    assert_eq!(hall.fence_of(next), None);
    assert_eq!(hall.desk.renew(hall.now, two), Some(TTL));
    hall.pass(1);
    assert!(hall.fence_of(next).is_some(), "the other lease has run out");
    assert!(hall.was_told(|effect| *effect == Effect::Ended { session: one }));
    assert_eq!(hall.desk.renew(hall.now, one), None, "what has ended is not renewed");
}

#[test]
fn a_lease_that_ran_out_unnoticed_is_not_renewed() {
    let mut hall = Hall::new();
    let one = hall.open();
    hall.now = hall.now.after(TTL);
    assert_eq!(hall.desk.renew(hall.now, one), None, "no tick has told the desk yet");
    let wait = hall.wait(one);
    assert_eq!(hall.answers[&wait], Outcome::NoSession);
}

#[test]
fn a_waiter_whose_session_died_is_never_granted() {
    let mut hall = Hall::new();
    let (one, two, three) = (hall.open(), hall.open(), hall.open());
    let first = hall.wait(one);
    let dead = hall.wait(two);
    hall.now = hall.now.after(TTL - Duration::from_secs(1));
    for session in [one, three] {
        hall.desk.renew(hall.now, session);
    }
    let alive = hall.wait(three);
    // The lease of the second runs out, and nobody has told the desk when the first leaves.
    hall.now = hall.now.after(Duration::from_secs(1));
    let fence = hall.fence_of(first).expect("inside");
    assert!(hall.desk.release(hall.now, b"x", fence));
    hall.settle();
    assert_eq!(hall.answers[&dead], Outcome::NoSession);
    assert!(hall.fence_of(alive).is_some());
}

#[test]
fn a_waiter_is_told_at_once_that_its_lease_ran_out() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let waiter = hall.wait(two);
    hall.pass(9);
    hall.desk.renew(hall.now, one);
    hall.pass(1);
    assert_eq!(hall.answers[&waiter], Outcome::NoSession, "though the first is still inside");
}

#[test]
fn a_broken_connection_keeps_what_is_inside_until_the_client_is_known_dead() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let next = hall.wait(two);
    hall.desk.detach(hall.now, one);
    hall.settle();
    assert_eq!(hall.fence_of(next), None, "its command may still run");
    hall.desk.died(hall.now, one);
    hall.settle();
    assert!(hall.fence_of(next).is_some());
}

#[test]
fn the_death_of_a_guarded_client_frees_nothing_before_its_guard_says_goodbye() {
    let mut hall = Hall::new();
    let one = hall.open_with(Opening { ttl: TTL, guarded: true, ..Opening::default() });
    let two = hall.open();
    hall.wait(one);
    let next = hall.wait(two);
    hall.desk.detach(hall.now, one);
    hall.desk.died(hall.now, one);
    hall.settle();
    assert_eq!(hall.fence_of(next), None, "what it ran may outlive it");
    hall.desk.close(hall.now, one);
    hall.settle();
    assert!(hall.fence_of(next).is_some());
}

#[test]
fn a_broken_connection_ends_its_waits_and_an_idle_session() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    let first = hall.wait(one);
    let waiter = hall.wait(two);
    hall.desk.detach(hall.now, two);
    hall.settle();
    assert_eq!(hall.answers[&waiter], Outcome::Cancelled);
    assert_eq!(hall.desk.sessions(), 1);
    let fence = hall.fence_of(first).expect("inside");
    hall.desk.release(hall.now, b"x", fence);
    hall.settle();
    assert!(hall.inside.is_empty(), "nobody is let in for one who is gone");
}

#[test]
fn trying_is_busy_when_somebody_is_inside_or_waits_and_leaves_no_trace() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    let tried = hall.acquire(one, Patience::Try);
    let fence = hall.fence_of(tried).expect("it was free");
    let busy = hall.acquire(two, Patience::Try);
    assert_eq!(hall.answers[&busy], Outcome::Busy);
    hall.desk.release(hall.now, b"x", fence);
    hall.settle();
    assert!(hall.inside.is_empty());
    // Somebody on another node may be inside too.
    hall.inside.insert(b"x".to_vec(), AskId(0));
    let busy = hall.acquire(two, Patience::Try);
    assert_eq!(hall.answers[&busy], Outcome::Busy);
    assert!(hall.desk.list(hall.now, b"").is_empty());
}

#[test]
fn a_bounded_wait_ends_and_leaves_the_line() {
    let mut hall = Hall::new();
    let (one, two, three) = (hall.open(), hall.open(), hall.open());
    let first = hall.wait(one);
    let bounded = hall.acquire(two, Patience::Until(hall.now.after(Duration::from_secs(2))));
    let last = hall.wait(three);
    hall.pass(2);
    assert_eq!(hall.answers[&bounded], Outcome::TimedOut);
    assert_eq!(hall.desk.place(last), Some(0));
    let fence = hall.fence_of(first).expect("inside");
    hall.desk.release(hall.now, b"x", fence);
    hall.settle();
    assert!(hall.fence_of(last).is_some());
}

#[test]
fn a_grant_that_nobody_wants_any_more_is_given_back() {
    let mut hall = Hall::new();
    hall.answering = false;
    let one = hall.open();
    let wait = hall.wait(one);
    let (ask, ..) = hall.asked[0].clone();
    hall.desk.cancel(hall.now, wait);
    // The node's answer crosses the word that it is not wanted.
    hall.desk.granted(hall.now, ask, 500);
    hall.settle();
    assert_eq!(hall.answers[&wait], Outcome::Cancelled);
    assert!(hall.asked.is_empty(), "the question was taken back");
    assert!(hall.desk.nobody_inside(hall.now));
}

#[test]
fn asking_twice_on_one_session_is_being_inside_once() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    let first = hall.wait(one);
    let fence = hall.fence_of(first).expect("inside");
    let again = hall.wait(one);
    assert_eq!(hall.answers[&again], Outcome::Already { fence });
    let (third, fourth) = (hall.wait(two), hall.wait(two));
    hall.desk.release(hall.now, b"x", fence);
    hall.settle();
    let fence = hall.fence_of(third).expect("inside");
    assert_eq!(hall.answers[&fourth], Outcome::Already { fence });
}

#[test]
fn a_broken_grant_keeps_others_out_until_its_holder_has_left() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    let first = hall.wait(one);
    let next = hall.wait(two);
    let fence = hall.fence_of(first).expect("inside");
    hall.pass(4);
    let rest = hall.desk.break_grant(hall.now, b"x", None, "stuck".to_owned());
    assert_eq!(rest, Some(Duration::from_secs(6)));
    hall.settle();
    assert!(
        hall.was_told(
            |effect| matches!(effect, Effect::Lost { fence: lost, .. } if *lost == fence)
        )
    );
    assert!(!hall.desk.verify(hall.now, b"x", fence));
    assert_eq!(hall.fence_of(next), None);
    assert!(!hall.desk.release(hall.now, b"x", fence), "it was not inside any more");
    hall.settle();
    assert!(hall.fence_of(next).expect("its turn") > fence);
}

#[test]
fn a_broken_grant_is_over_when_its_lease_was_even_if_that_is_renewed() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let next = hall.wait(two);
    hall.desk.break_grant(hall.now, b"x", None, "stuck".to_owned());
    hall.pass(9);
    hall.desk.renew(hall.now, one);
    hall.desk.renew(hall.now, two);
    assert_eq!(hall.fence_of(next), None);
    hall.pass(1);
    assert!(hall.fence_of(next).is_some());
    assert_eq!(hall.desk.break_grant(hall.now, b"y", None, String::new()), None);
}

#[test]
fn after_a_crash_nobody_is_let_in_before_the_longest_lease_has_run_out() {
    let mut hall = Hall::after_a_crash(Some(TTL));
    let one = hall.open_with(Opening { ttl: TTL * 3, ..Opening::default() });
    let wait = hall.wait(one);
    let tried = hall.acquire(one, Patience::Try);
    assert_eq!(hall.answers[&tried], Outcome::Busy);
    hall.pass(9);
    assert_eq!(hall.fence_of(wait), None);
    hall.pass(1);
    assert!(hall.fence_of(wait).is_some());
}

#[test]
fn after_a_crash_former_holders_claim_theirs_again_and_stay_inside() {
    let mut hall = Hall::after_a_crash(Some(TTL));
    let (one, two) = (hall.open(), hall.open());
    assert!(hall.desk.claim(hall.now, one, b"x", 42));
    assert!(!hall.desk.claim(hall.now, two, b"x", 41), "it was inside before");
    hall.settle();
    assert!(hall.desk.verify(hall.now, b"x", 42), "it keeps its fence");
    let next = hall.wait(two);
    for _ in 0..3 {
        hall.pass(8);
        hall.desk.renew(hall.now, one);
        hall.desk.renew(hall.now, two);
    }
    assert_eq!(hall.fence_of(next), None, "the quarantine is over, and it is inside");
    assert!(!hall.desk.claim(hall.now, two, b"y", 44), "the time to claim is over");
    assert!(hall.desk.release(hall.now, b"x", 42));
    hall.settle();
    assert!(hall.fence_of(next).expect("its turn") > 42);
}

fn is_loss_of(effect: &Effect, who: SessionId, what: u64) -> bool {
    matches!(effect, Effect::Lost { session, fence, .. } if (*session, *fence) == (who, what))
}

#[test]
fn of_two_who_claim_the_later_holder_is_inside_and_the_other_is_told() {
    let mut hall = Hall::after_a_crash(Some(TTL));
    let (one, two) = (hall.open(), hall.open());
    // Its lease may have run out while this was on its way.
    assert!(hall.desk.claim(hall.now, one, b"x", 42));
    hall.settle();
    assert!(hall.desk.claim(hall.now, two, b"x", 43));
    hall.settle();
    assert!(!hall.desk.verify(hall.now, b"x", 42));
    assert!(hall.desk.verify(hall.now, b"x", 43));
    assert!(hall.was_told(|effect| is_loss_of(effect, one, 42)));
    assert!(!hall.desk.claim(hall.now, one, b"x", 42));
    hall.desk.close(hall.now, one);
    hall.settle();
    assert!(hall.desk.verify(hall.now, b"x", 43), "the end of the other session frees nothing");
}

#[test]
fn a_claim_that_the_node_does_not_accept_is_lost_with_its_own_fence() {
    let mut hall = Hall::after_a_crash(Some(TTL));
    let (one, two) = (hall.open(), hall.open());
    hall.wait(two);
    assert!(hall.desk.claim(hall.now, one, b"x", 50));
    assert!(hall.desk.release(hall.now, b"x", 50));
    hall.settle();
    hall.answering = false;
    assert!(hall.desk.claim(hall.now, one, b"x", 42));
    hall.settle();
    let ask = hall.asked.pop().expect("the node is asked").0;
    hall.desk.refused(hall.now, ask, None);
    hall.settle();
    assert!(
        hall.was_told(|effect| is_loss_of(effect, one, 42)),
        "a client knows by the fence what it has lost"
    );
    assert!(!hall.desk.verify(hall.now, b"x", 42));
}

#[test]
fn the_node_joins_the_others_only_when_nobody_can_claim_any_more() {
    let mut hall = Hall::new();
    hall.settle();
    assert!(hall.was_told(|effect| *effect == Effect::Join), "it stopped cleanly");
    let mut hall = Hall::after_a_crash(Some(TTL));
    let one = hall.open();
    hall.desk.claim(hall.now, one, b"x", 42);
    hall.pass(9);
    assert!(!hall.was_told(|effect| *effect == Effect::Join));
    hall.pass(1);
    assert!(hall.was_told(|effect| *effect == Effect::Join));
}

#[test]
fn a_lease_that_was_given_back_need_not_be_remembered_though_others_are_inside() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open_with(Opening { ttl: TTL * 60, ..Opening::default() }));
    hall.wait(one);
    let long = hall.desk.acquire(hall.now, two, b"y", Patience::Forever);
    hall.settle();
    let fence = hall.fence_of(long).expect("inside");
    hall.desk.forget_leases(hall.now);
    hall.settle();
    let remembers = |hall: &mut Hall| {
        let told = hall.told.iter().rev().find_map(|effect| match effect {
            Effect::Remember { longest } => Some(*longest),
            _ => None,
        });
        told.expect("it remembers")
    };
    assert_eq!(remembers(&mut hall), TTL * 60);
    assert!(hall.desk.release(hall.now, b"y", fence));
    hall.desk.forget_leases(hall.now);
    hall.settle();
    assert_eq!(remembers(&mut hall), TTL);
}

#[test]
fn the_longest_lease_inside_is_remembered_before_the_grant_is_told() {
    let mut hall = Hall::new();
    let one = hall.open();
    hall.desk.acquire(hall.now, one, b"x", Patience::Forever);
    let asked = |effect| if let Effect::Ask { ask, .. } = effect { Some(ask) } else { None };
    let ask = hall.desk.take_effects().into_iter().find_map(asked).expect("the node is asked");
    hall.desk.granted(hall.now, ask, 1);
    let effects = hall.desk.take_effects();
    let place = |wanted: fn(&Effect) -> bool| effects.iter().position(wanted);
    let remembered = place(|effect| *effect == Effect::Remember { longest: TTL });
    let answered = place(|effect| matches!(effect, Effect::Answer { .. }));
    assert!(remembered.expect("remembered") < answered.expect("answered"));
    hall.desk.forget_leases(hall.now);
    assert!(hall.desk.take_effects().is_empty(), "somebody is inside");
    hall.desk.release(hall.now, b"x", 1);
    hall.desk.forget_leases(hall.now);
    let forgotten = Effect::Remember { longest: Duration::ZERO };
    assert!(hall.desk.take_effects().contains(&forgotten));
}

#[test]
fn what_the_node_cannot_do_is_told_to_all_who_wait() {
    let mut hall = Hall::new();
    hall.answering = false;
    let (one, two) = (hall.open(), hall.open());
    let (first, second) = (hall.wait(one), hall.wait(two));
    let (ask, ..) = hall.asked[0].clone();
    hall.desk.refused(hall.now, ask, Some("member 2 is gone".to_owned()));
    hall.settle();
    let outcome = Outcome::Unavailable("member 2 is gone".to_owned());
    assert_eq!(hall.answers[&first], outcome);
    assert_eq!(hall.answers[&second], outcome);
}

#[test]
fn a_loss_of_the_node_is_told_and_the_next_one_asks_anew() {
    let mut hall = Hall::new();
    let (one, two) = (hall.open(), hall.open());
    hall.wait(one);
    let next = hall.wait(two);
    let ask = hall.inside[b"x".as_slice()];
    hall.desk.lost(hall.now, ask, "the view ended".to_owned());
    hall.settle();
    assert!(
        hall.was_told(|effect| matches!(effect, Effect::Lost { session, .. } if *session == one))
    );
    assert!(hall.fence_of(next).is_some());
}

#[test]
fn sessions_have_the_number_they_want_or_one_that_tells_the_member() {
    let settings = Settings { member: 5, ..Settings::default() };
    let mut desk = Desk::new(Moment::ZERO, settings, None, u32::MAX);
    let opening = Opening { id: -7, ttl: TTL, ..Opening::default() };
    assert_eq!(desk.open(Moment::ZERO, opening.clone()).map(|open| open.0), Ok(SessionId(-7)));
    assert_eq!(desk.open(Moment::ZERO, opening), Err(super::OpenError::Exists));
    let fresh = desk.open(Moment::ZERO, Opening::default()).expect("it may open").0;
    assert!(fresh.0 > 0);
    assert_eq!(fresh.member(), 5);
}

#[test]
fn the_list_tells_who_is_inside_and_who_waits() {
    let mut hall = Hall::new();
    let client = Client { owner: "ann".to_owned(), ..Client::default() };
    let one = hall.open_with(Opening { ttl: TTL, client, ..Opening::default() });
    let two = hall.open();
    hall.wait(one);
    hall.pass(3);
    hall.wait(two);
    let list = hall.desk.list(hall.now, b"");
    let holder = list[0].holder.as_ref().expect("somebody is inside");
    assert_eq!((holder.client.owner.as_str(), holder.waited.as_secs()), ("ann", 3));
    assert_eq!(list[0].line.len(), 1);
    assert!(hall.desk.list(hall.now, b"y").is_empty());
    assert_eq!(hall.desk.show(hall.now, b"nothing").holder, None);
}
