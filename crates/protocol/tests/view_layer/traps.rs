//! Situations that break plausible designs of the view layer, one test each.

use std::{collections::BTreeSet, time::Duration};

use mutua_algorithms::{FencingToken, Time};
use mutua_protocol::{
    Moment,
    views::{
        BeginWait, Blocked, Client, Command, Contents, Coordinator, DecidedState, DecidedView,
        Directory, DirectoryChange, Instance, LeaseChange, LeaseRules, MemberId, MemberLease,
        Message, Persisted, Plan, Policy, Record, Report, Role, Row, Stage, ViewEffect, ViewLayer,
        ViewNumber, ViewSettings, VoterLease,
    },
};

use super::{
    events::{SECOND, entry},
    world::{Event, Layers},
};

pub(super) fn settings() -> ViewSettings {
    ViewSettings::default()
}

pub(super) fn at(millis: u64) -> Moment {
    Moment::from_nanos(1_000_000_000 + millis * 1_000_000)
}

pub(super) fn one(id: u64) -> Instance {
    Instance::new(id, 1)
}

pub(super) fn set(ids: &[u64]) -> BTreeSet<Instance> {
    ids.iter().map(|&id| one(id)).collect()
}

pub(super) fn view(number: u64, members: &[u64], voters: &[u64]) -> DecidedView {
    DecidedView {
        number: ViewNumber(number),
        epoch: u32::try_from(number).expect("small"),
        members: set(members),
        keepers: set(members),
        voters: voters.iter().map(|&id| MemberId(id)).collect(),
        rules: 0,
        level: 0,
    }
}

pub(super) fn state(voters: &[u64], views: &[DecidedView]) -> DecidedState {
    let mut directory = Directory::default();
    for &id in voters {
        directory.apply(&DirectoryChange::Add(MemberId(id), entry(Role::Voter)));
    }
    let mut state = DecidedState::new(directory);
    for view in views {
        state.apply(&Command::View(view.clone()));
    }
    state
}

pub(super) fn token(epoch: u32, count: u64) -> FencingToken {
    FencingToken(Time::new(epoch, count))
}

pub(super) fn client(session: u64) -> Client {
    Client { session, ttl: Duration::from_secs(10), value: Vec::new() }
}

pub(super) fn record(host: Instance, token: FencingToken) -> Record {
    let Client { session, ttl, value } = client(7);
    let (name, hosted_since) = (b"x".to_vec(), ViewNumber(0));
    Record { name, token, session, ttl, host, hosted_since, value }
}

pub(super) fn report(view: u64, last_begun: u64) -> Report {
    Report {
        view: ViewNumber(view),
        version: 1,
        last_begun: ViewNumber(last_begun),
        ..Report::default()
    }
}

/// The plan of the last view from these reports, its removed leases being over.
pub(super) fn plan(state: &DecidedState, reports: &[(Instance, Report)]) -> Plan {
    let view = state.last().expect("a view").clone();
    let mut coordinator = Coordinator::new(state, &view);
    for gone in state.removed(&view).into_keys() {
        coordinator.wait().left(at(0), gone);
    }
    for (from, report) in reports {
        assert!(coordinator.report(at(0), &settings(), state, *from, report.clone()));
    }
    assert!(coordinator.try_begin(at(0), &settings(), state), "{coordinator:?}");
    coordinator.plan().expect("made").clone()
}

pub(super) fn holder(plan: &Plan) -> Option<(u64, u64)> {
    let holder = plan.held.get(b"x".as_slice())?;
    Some((holder.member.member.0, holder.token.number()))
}

#[test]
fn trap_2_a_restarted_voter_answers_no_view_that_it_has_reported_as_over() {
    let log = [view(1, &[1, 2, 3], &[1, 2, 3]), view(2, &[2, 3], &[1, 2, 3])];
    let restart = |rules| {
        let mut settings = settings();
        settings.rules.lease = rules;
        let mut voter = VoterLease::new(at(0), ViewNumber(0));
        for (index, view) in (1..).zip(&log) {
            voter.appended(index, &Command::View(view.clone()));
        }
        voter.applied(1, ViewNumber(1));
        voter.answer(at(1), &settings, one(1), ViewNumber(1))
    };
    assert!(!restart(LeaseRules::Right), "view 2 is in its log");
    assert!(restart(LeaseRules::StopAtApplied), "the control answers");
}

#[test]
fn a_voter_answers_again_when_the_tail_with_the_later_view_has_vanished() {
    let mut voter = VoterLease::new(at(0), ViewNumber(0));
    voter.appended(1, &Command::View(view(1, &[1, 2, 3], &[1, 2, 3])));
    voter.applied(1, ViewNumber(1));
    voter.appended(2, &Command::View(view(2, &[2, 3], &[1, 2, 3])));
    assert!(!voter.answer(at(1), &settings(), one(1), ViewNumber(1)));
    voter.truncated(2);
    assert!(voter.answer(at(2), &settings(), one(1), ViewNumber(1)));
    voter.snapshot_installed(Some(2), ViewNumber(2));
    assert!(!voter.answer(at(3), &settings(), one(1), ViewNumber(1)), "a snapshot counts too");
}

#[test]
fn trap_3_an_answer_that_is_late_gives_no_more_than_its_ask() {
    let (settings, mut lease) = (settings(), MemberLease::default());
    lease.enter(&view(1, &[1, 2, 3], &[1, 2, 3]));
    let number = lease.ask(at(0), &settings);
    lease.answered(at(1), &settings, MemberId(1), ViewNumber(1), number);
    assert_eq!(lease.good_until(), Moment::ZERO, "one voter is no majority");
    lease.answered(at(1350), &settings, MemberId(2), ViewNumber(1), number);
    assert_eq!(lease.good_until(), at(1485));
    // Good for granting only until the margin.
    assert_eq!(lease.notice(at(1350), &settings), None);
    assert!(!lease.is_good(at(1350), &settings));
}

#[test]
fn trap_4_a_member_reports_only_when_it_is_linked_to_everybody() {
    let persisted = Persisted { snapshot: state(&[1], &[]), ..Persisted::default() };
    let mut layer = ViewLayer::new(at(0), one(1), settings(), persisted, true);
    let decided = Command::View(view(1, &[1, 2], &[1]));
    layer.appended(1, &decided);
    layer.decided(at(0), 1, &decided);
    layer.tick(at(1));
    let wants = |layer: &mut ViewLayer| {
        let effects = layer.take_effects();
        effects.iter().any(|effect| matches!(effect, ViewEffect::Report { .. }))
    };
    assert!(!wants(&mut layer), "a message to 2 would be lost");
    layer.link_up(at(2), Instance::new(2, 9));
    assert!(!wants(&mut layer), "another incarnation than the view names");
    layer.link_up(at(3), one(2));
    assert!(wants(&mut layer));
}

#[test]
fn trap_6_a_record_is_not_complete_in_a_view_that_a_keeper_has_not_begun() {
    // 3 is a keeper of view 2, which only 2 has begun: the coordinator has crashed.
    let persisted = Persisted { snapshot: state(&[1, 2, 3], &[]), ..Persisted::default() };
    let mut layer = ViewLayer::new(at(0), one(3), settings(), persisted, true);
    let decided = Command::View(view(1, &[1, 2, 3], &[1, 2, 3]));
    layer.appended(1, &decided);
    layer.decided(at(0), 1, &decided);
    let records = vec![(1, record(one(2), token(1, 1)))];
    layer.receive(at(1), one(2), Message::Keep { view: ViewNumber(1), records });
    let kept = |effect: &ViewEffect| {
        matches!(effect, ViewEffect::Send { message: Message::Kept { .. }, .. })
    };
    assert!(!layer.take_effects().iter().any(kept));
    // What 2 has granted in its process is waited for.
    let views = [1, 2, 3].map(|number| {
        let members: &[u64] = if number == 3 { &[3] } else { &[1, 2, 3] };
        view(number, members, &[1, 2, 3])
    });
    let state = state(&[1, 2, 3], &views);
    let mut wait = BeginWait::new(&state, &views[2]);
    assert_eq!(wait.over_at(&settings()), None);
    for gone in [1, 2] {
        wait.gone(at(0), &settings(), MemberId(1), one(gone), Duration::from_secs(9));
    }
    assert_eq!(wait.over_at(&settings()), None, "one voter's word");
    wait.gone(at(0), &settings(), MemberId(3), one(1), Duration::from_secs(9));
    wait.gone(at(0), &settings(), MemberId(3), one(2), Duration::from_millis(500));
    assert_eq!(wait.over_at(&settings()), Some(at(1015)));
}

#[test]
fn trap_10_a_member_that_restarts_before_the_view_begins_does_not_begin_it() {
    let decided = Command::View(view(1, &[1, 2], &[1]));
    let snapshot = state(
        &[1],
        std::slice::from_ref(match &decided {
            Command::View(view) => view,
            _ => unreachable!("a view"),
        }),
    );
    let persisted = Persisted { snapshot, index: 1, ..Persisted::default() };
    let mut layer = ViewLayer::new(at(0), Instance::new(2, 2), settings(), persisted, false);
    layer.tick(at(0));
    let plan = Plan { view: ViewNumber(1), ..Plan::default() };
    layer.receive(at(1), one(1), Message::Begin(Box::new(plan)));
    assert_eq!(layer.begun(), None);
    assert_eq!(layer.stage(), Stage::Out);
}

#[test]
fn trap_12_a_lease_that_lapses_and_returns_lets_waiters_in_again() {
    let mut world = Layers::new(12, settings(), &[Role::Voter; 3]);
    world.run(6 * SECOND);
    let view = world.engine.state.last_number();
    // Nothing reaches node 0 for a little longer than its lease, and less than D.
    let cuts = vec![(1, 0), (2, 0)];
    world.cut(&cuts);
    world.after(Duration::from_millis(1450), Event::Heal { cuts });
    world.run(world.now + 1_450_000_000);
    assert_eq!(world.counts.lapses, 1);
    let before = world.counts.grants;
    world.calm_at = world.now;
    world.run(world.now + 5 * SECOND);
    assert_eq!(world.failure, None);
    assert_eq!(world.engine.state.last_number(), view, "the same view");
    assert!(world.counts.grants > before && world.calm_grants.contains(&0));
}

#[test]
fn trap_12_a_lease_does_not_return_while_the_code_of_a_lost_guard_may_run() {
    let (settings, mut lease) = (settings(), MemberLease::default());
    lease.enter(&view(1, &[1], &[1]));
    let grant = |lease: &mut MemberLease, now| {
        let number = lease.ask(now, &settings);
        lease.answered(now, &settings, MemberId(1), ViewNumber(1), number);
    };
    grant(&mut lease, at(0));
    assert_eq!(lease.notice(at(0), &settings), Some(LeaseChange::Returned));
    let until = at(1485);
    assert_eq!(lease.notice(at(1400), &settings), Some(LeaseChange::Lapsed { until }));
    grant(&mut lease, at(1401));
    assert_eq!(lease.notice(at(1401), &settings), None);
    assert!(!lease.is_good(at(1484), &settings));
    assert_eq!(lease.notice(at(1485), &settings), Some(LeaseChange::Returned));
}

#[test]
fn a_lease_that_returns_as_a_later_view_is_learned_of_grants_nothing() {
    let persisted = Persisted { snapshot: state(&[1], &[]), ..Persisted::default() };
    let mut layer = ViewLayer::new(at(0), one(1), settings(), persisted, true);
    let decide = |layer: &mut ViewLayer, index: u64, members: &[u64], now| {
        let decided = Command::View(view(index, members, &[1]));
        layer.appended(index, &decided);
        layer.decided(now, index, &decided);
    };
    decide(&mut layer, 1, &[1], at(0));
    layer.tick(at(0));
    layer.report(at(0), Contents::default());
    assert!(layer.may_grant(at(0)) && layer.grants_until(at(0)) > at(0));
    // Its lease is good, and so covers what is held; but the report to view 2 is due.
    decide(&mut layer, 2, &[1, 2], at(10));
    assert!(layer.good_until() > at(10));
    assert!(!layer.may_grant(at(10)));
    assert_eq!(layer.grants_until(at(10)), Moment::ZERO);
}

#[test]
fn a_survivor_that_notices_a_crash_first_does_not_lose_its_place_to_the_crashed_member() {
    let settings = settings();
    let mut state = state(&[1, 2, 3], &[view(1, &[1, 2, 3], &[1, 2, 3])]);
    state.apply(&Command::Begun(ViewNumber(1)));
    let mut policy = Policy::default();
    let heard = |policy: &mut Policy, millis: u64, id: u64, sees: &[u64]| {
        let (sees, view, stage) = (set(sees), ViewNumber(1), Stage::Begun);
        let row = Row { instance: one(id), sees, floor: 0, view, stage, newest: 0 };
        policy.heard(at(millis), &settings, row);
    };
    // 1 crashes after its ask at 300 ms.
    for millis in [0, 300] {
        (1..=3).for_each(|id| heard(&mut policy, millis, id, &[1, 2, 3]));
    }
    for millis in [600, 900, 1200, 1500] {
        (2..=3).for_each(|id| heard(&mut policy, millis, id, &[1, 2, 3]));
        assert_eq!(policy.propose(at(millis), &settings, &state), None, "{millis}");
    }
    // Of two sets of two, the one with the crashed member has the lower ids.
    heard(&mut policy, 1700, 2, &[2, 3]);
    let Some(Command::View(next)) = policy.propose(at(1700), &settings, &state) else {
        panic!("a member is lost");
    };
    assert_eq!(next.members, set(&[2, 3]));
}

#[test]
fn trap_13_a_member_that_flaps_uses_few_epochs() {
    let settings = settings();
    let mut state = state(&[1, 2, 3], &[]);
    let mut policy = Policy::default();
    let step = Duration::from_millis(300);
    let mut now = at(0);
    // Two hours of a day; the damping is forgiven after ten minutes, so the rest is alike.
    for count in 0..24_000_u64 {
        now = now.after(step);
        let up = |id: u64| id < 3 || (count / 9).is_multiple_of(2);
        let view = state.last_number();
        for id in (1..=3).filter(|&id| up(id)) {
            let stage = Stage::Begun;
            let row =
                Row { instance: one(id), sees: set(&[1, 2, 3]), floor: 0, view, stage, newest: 0 };
            policy.heard(now, &settings, row);
        }
        if let Some(command) = policy.propose(now, &settings, &state) {
            let before = state.last().map(|view| view.everybody()).unwrap_or_default();
            state.apply(&command);
            if let Command::View(view) = &command {
                let removed = before.difference(&view.everybody()).copied().collect();
                policy.decided(now, &removed);
            }
        }
    }
    let epochs = state.last().expect("a view").epoch;
    assert!((10..3000 / 12).contains(&epochs), "{epochs} epochs in two hours");
}

#[test]
fn trap_14_a_claim_above_the_views_epoch_raises_it_and_silences_nobody() {
    let settings = settings();
    let mut state = state(&[1, 2], &[view(1, &[1, 2], &[1, 2])]);
    let mut policy = Policy::default();
    for id in [1, 2] {
        let sees = set(&[1, 2]);
        let (floor, view, stage) = (50, ViewNumber(1), Stage::Reported);
        policy.heard(
            at(0),
            &settings,
            Row { instance: one(id), sees, floor, view, stage, newest: 0 },
        );
    }
    // The view that a claim has overtaken does not begin.
    let mut coordinator = Coordinator::new(&state, state.last().expect("a view"));
    for id in [1, 2] {
        let contents = Contents { floor: 50, ..Contents::default() };
        let report = Report { contents, ..report(1, 0) };
        coordinator.report(at(0), &settings, &state, one(id), report);
    }
    assert_eq!(coordinator.blocked(at(0), &settings, &state), Some(Blocked::Epoch));
    let command = policy.propose(at(1), &settings, &state).expect("another view");
    state.apply(&command);
    assert_eq!(state.last().expect("a view").epoch, 51);
}

#[test]
fn late_and_double_decisions_change_nothing() {
    let mut state = state(&[1, 2], &[view(1, &[1, 2], &[1, 2])]);
    let second = Command::View(view(2, &[1], &[1, 2]));
    state.apply(&second);
    let known = state.clone();
    state.apply(&second);
    state.apply(&Command::View(view(1, &[2], &[1, 2])));
    state.apply(&Command::View(view(4, &[2], &[1, 2])));
    assert!(state.views().eq(known.views()));
    assert_eq!(DecidedState::decode(&state.encode()), Some(state.clone()));
    // An id is never used again, and voters change only when all is settled.
    let change = DirectoryChange::Remove(MemberId(2));
    let command = state.change(change);
    state.apply(&command);
    assert_eq!(state.directory().voters().len(), 2, "view 2 has not begun");
    state.apply(&Command::Begun(ViewNumber(2)));
    state.apply(&command);
    assert_eq!(state.directory().voters().len(), 1);
    let again = DirectoryChange::Add(MemberId(2), entry(Role::Follower));
    state.apply(&state.clone().change(again));
    assert_eq!(state.directory().role(MemberId(2)), None);
}
