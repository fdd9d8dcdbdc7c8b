//! Situations in which records of external clients would be lost, or outlive their holds.

use std::{collections::BTreeMap, time::Duration};

use mutua_protocol::views::{
    Blocked, Claim, Command, Contents, Coordinator, DecidedState, Hold, Instance, Message,
    Persisted, Plan, Record, Report, Stage, ViewLayer, ViewNumber, is_whole,
};

use super::traps::{at, client, holder, one, plan, record, report, settings, state, token, view};

#[test]
fn trap_7_a_keeper_that_has_not_begun_the_last_view_does_not_know_its_records() {
    let views = [view(1, &[1, 2], &[1, 2, 3]), view(2, &[1, 2, 3], &[1, 2, 3])];
    let mut state = state(&[1, 2, 3], &views);
    state.apply(&Command::Longest(Duration::from_secs(10)));
    let third = view(3, &[3, 4], &[1, 2, 3]);
    state.apply(&Command::View(third.clone()));
    let mut coordinator = Coordinator::new(&state, &third);
    for gone in [1, 2] {
        coordinator.wait().left(at(0), one(gone));
    }
    for from in [3, 4] {
        coordinator.report(at(0), &settings(), &state, one(from), report(3, 0));
    }
    // Quarantine, not loss.
    let blocked = coordinator.blocked(at(0), &settings(), &state);
    assert!(matches!(blocked, Some(Blocked::Until(_))), "{blocked:?}");
    let left = coordinator.quarantine_left(at(0), &settings(), &state);
    assert!(left > Some(Duration::from_secs(10)), "{left:?}");
    // If 3 had begun view 2 it would know all of them.
    let reports = BTreeMap::from([(one(3), report(3, 2)), (one(4), report(3, 0))]);
    assert!(is_whole(&settings(), &state, &third, &reports));
}

#[test]
fn what_a_restarted_member_granted_is_waited_for_however_often_it_reports() {
    let mut state = state(&[1, 2], &[view(1, &[1, 2], &[1, 2])]);
    state.apply(&Command::Longest(Duration::from_secs(60)));
    // Power is cut for both: their next incarnations have no records.
    let [former, later] = [1, 2].map(|incarnation| [1, 2].map(|id| Instance::new(id, incarnation)));
    let mut second = view(2, &[1, 2], &[1, 2]);
    (second.members, second.keepers) = (later.into(), later.into());
    state.apply(&Command::View(second.clone()));
    let mut coordinator = Coordinator::new(&state, &second);
    for gone in former {
        coordinator.wait().left(at(0), gone);
    }
    let until = at(3000);
    // A client that reclaims its lock makes its member report again, each time with less left.
    for (version, now) in (1..).zip([at(0), at(1000), at(2000)]) {
        for from in later {
            let leases_left = Some(until.since(now));
            let contents = Contents { leases_left, ..Contents::default() };
            let report = Report { version, contents, ..report(2, 0) };
            assert!(coordinator.report(now, &settings(), &state, from, report));
        }
        assert!(!coordinator.try_begin(at(2999), &settings(), &state), "version {version}");
    }
    assert!(coordinator.try_begin(at(3100), &settings(), &state), "{coordinator:?}");
}

/// Views {1, 2, 3} and {2, 3}: member 1 is lost.
fn loss() -> DecidedState {
    state(&[1, 2, 3], &[view(1, &[1, 2, 3], &[1, 2, 3]), view(2, &[2, 3], &[1, 2, 3])])
}

#[test]
fn trap_8_a_client_keeps_its_lock_at_each_step_of_record_and_grant() {
    let state = loss();
    let t = token(1, 4);
    let with = |kept: &[u64]| {
        let of = |id: u64| {
            let mut report = report(2, 1);
            if kept.contains(&id) {
                report.records.push(record(one(1), t));
            }
            (one(id), report)
        };
        [of(2), of(3)]
    };
    // Not recorded anywhere: the client was not told.
    assert_eq!(holder(&plan(&state, &with(&[]))), None);
    // At one keeper or at all: it may have been told.
    for kept in [&[2_u64][..], &[3], &[2, 3]] {
        let plan = plan(&state, &with(kept));
        assert_eq!(holder(&plan).map(|holder| holder.1), Some(t.number()), "{kept:?}");
        assert_eq!(plan.records[0].host, plan.held[b"x".as_slice()].member, "it has a host");
    }
    // The client reclaims at 3, or at both, while the view forms.
    for claimed in [&[1_usize][..], &[0, 1]] {
        let mut reports = with(&[2, 3]);
        for &place in claimed {
            let claim = Claim { token: t, client: client(7) };
            reports[place].1.contents.claims.insert(b"x".to_vec(), claim);
        }
        let host = one(claimed[0] as u64 + 2).member.0;
        assert_eq!(holder(&plan(&state, &reports)), Some((host, t.number())));
    }
    // A claim with a lower token, and one that no record confirms, are nobody's.
    let mut reports = with(&[2, 3]);
    let claim = Claim { token: token(1, 3), client: client(8) };
    reports[1].1.contents.claims.insert(b"x".to_vec(), claim.clone());
    assert_eq!(holder(&plan(&state, &reports)).map(|holder| holder.1), Some(t.number()));
    let mut reports = with(&[]);
    reports[1].1.contents.claims.insert(b"x".to_vec(), claim);
    assert_eq!(holder(&plan(&state, &reports)), None);
}

#[test]
fn trap_8_of_two_claims_without_records_the_greater_token_wins() {
    let mut restarted = view(2, &[], &[1, 2]);
    restarted.members = [Instance::new(1, 2), Instance::new(2, 2)].into();
    restarted.keepers = restarted.members.clone();
    let state = state(&[1, 2], &[view(1, &[1, 2], &[1, 2]), restarted]);
    let reports = [(1, 3), (2, 5)].map(|(id, count)| {
        let mut report = report(2, 0);
        let claim = Claim { token: token(1, count), client: client(count) };
        report.contents.claims.insert(b"x".to_vec(), claim);
        (Instance::new(id, 2), report)
    });
    assert_eq!(holder(&plan(&state, &reports)), Some((2, token(1, 5).number())));
}

#[test]
fn trap_9_a_stale_record_gives_way_to_the_holder_and_to_its_own_host() {
    let state = loss();
    let mut reports = [(one(2), report(2, 1)), (one(3), report(2, 1))];
    reports[0].1.records.push(record(one(1), token(1, 4)));
    let hold = Hold { token: token(1, 6), client: None };
    reports[1].1.contents.held.insert(b"x".to_vec(), hold);
    let begun = plan(&state, &reports);
    assert_eq!(holder(&begun), Some((3, token(1, 6).number())));
    assert_eq!(begun.records, [], "a guard needs none");
    // The host is here, and says that its client has left.
    let mut reports = [(one(2), report(2, 1)), (one(3), report(2, 1))];
    reports[0].1.records.push(record(one(3), token(1, 4)));
    assert_eq!(holder(&plan(&state, &reports)), None);
}

#[test]
fn trap_8_a_custodian_that_does_not_know_of_its_hold_does_not_lose_it() {
    // 1 and its client's host is lost. 2 has begun view 2, which made 3 the custodian; 3 has not.
    let all = [1, 2, 3];
    let mut third = view(3, &[2, 3], &all);
    third.members.insert(Instance::new(1, 2));
    third.keepers = third.members.clone();
    let state = state(&all, &[view(1, &all, &all), view(2, &[2, 3], &all), third]);
    let t = token(1, 4);
    let mut knowing = report(3, 2);
    knowing.records.push(Record { hosted_since: ViewNumber(2), ..record(one(3), t) });
    let mut unknowing = report(3, 1);
    unknowing.records.push(record(one(1), t));
    let mut reports = [(Instance::new(1, 2), report(3, 0)), (one(2), knowing), (one(3), unknowing)];
    assert_eq!(holder(&plan(&state, &reports)), Some((3, t.number())));
    // Once it has begun view 2, what it does not report is over.
    reports[2].1 = report(3, 2);
    assert_eq!(holder(&plan(&state, &reports)), None);
}

#[test]
fn trap_9_a_host_that_comes_back_does_not_hold_what_its_custodian_has_let_go() {
    // 1 was cut off in view 2, which has begun, and is back in view 3.
    let all = [1, 2, 3];
    let views = [view(1, &all, &all), view(2, &[2, 3], &all), view(3, &all, &all)];
    let state = state(&all, &views);
    let mut stale = report(3, 1);
    let hold = Hold { token: token(1, 4), client: Some(client(7)) };
    stale.contents.held.insert(b"x".to_vec(), hold);
    let mut reports = [(one(1), stale), (one(2), report(3, 2)), (one(3), report(3, 2))];
    assert_eq!(holder(&plan(&state, &reports)), None);
    // While the custodian holds it, the custodian goes on.
    let hold = Hold { token: token(1, 4), client: Some(client(7)) };
    reports[2].1.contents.held.insert(b"x".to_vec(), hold);
    assert_eq!(holder(&plan(&state, &reports)), Some((3, token(1, 4).number())));
}

#[test]
fn trap_9_a_host_that_comes_back_does_not_drop_the_record_of_its_custodian() {
    // 1 was cut off with a client; 2 is the client's custodian; 1 is back in view 3, where the
    // session that it still had has ended.
    let all = [1, 2, 3];
    let views = [view(1, &all, &all), view(2, &[2, 3], &all)];
    let persisted = Persisted { snapshot: state(&all, &views), ..Persisted::default() };
    let mut keeper = ViewLayer::new(at(0), one(3), settings(), persisted, false);
    let decided = Command::View(view(3, &all, &all));
    keeper.decided(at(0), 3, &decided);
    keeper.link_up(at(0), one(1));
    keeper.link_up(at(0), one(2));
    keeper.tick(at(0));
    for voter in [1, 2] {
        let (incarnation, view) = (one(3).incarnation, ViewNumber(3));
        keeper.receive(at(1), one(voter), Message::Answer { incarnation, view, number: 1 });
    }
    let (x, t) = (b"x".to_vec(), token(1, 4));
    let plan = Plan { view: ViewNumber(3), records: vec![record(one(2), t)], ..Plan::default() };
    keeper.receive(at(2), one(1), Message::Begin(Box::new(plan)));
    assert_eq!(keeper.stage(), Stage::Begun);
    let over = |token| Message::Over { view: ViewNumber(3), over: vec![(x.clone(), token)] };
    keeper.receive(at(3), one(1), over(t));
    assert!(keeper.keeps(b"x", t), "its custodian goes on");
    let mut later = keeper.clone();
    later.receive(at(4), one(1), over(token(3, 1)));
    assert!(!later.keeps(b"x", t), "somebody has entered since");
    keeper.receive(at(4), one(2), over(t));
    assert!(!keeper.keeps(b"x", t));
}

#[test]
fn a_copy_of_an_earlier_record_that_arrives_late_changes_nothing() {
    let all = [1, 2, 3];
    let persisted = Persisted { snapshot: state(&all, &[]), ..Persisted::default() };
    let mut keeper = ViewLayer::new(at(0), one(3), settings(), persisted, false);
    keeper.decided(at(0), 1, &Command::View(view(1, &all, &all)));
    keeper.link_up(at(0), one(1));
    keeper.link_up(at(0), one(2));
    keeper.tick(at(0));
    for voter in [1, 2] {
        let (incarnation, view) = (one(3).incarnation, ViewNumber(1));
        keeper.receive(at(1), one(voter), Message::Answer { incarnation, view, number: 1 });
    }
    let plan = Plan { view: ViewNumber(1), ..Plan::default() };
    keeper.receive(at(2), one(1), Message::Begin(Box::new(plan)));
    assert_eq!(keeper.stage(), Stage::Begun);
    let keep = |number, value: &[u8]| {
        let record = Record { value: value.to_vec(), ..record(one(1), token(1, 4)) };
        Message::Keep { view: ViewNumber(1), records: vec![(number, record)] }
    };
    for (number, value) in [(1, b"one"), (3, b"two"), (1, b"one"), (2, b"old")] {
        keeper.receive(at(3), one(1), keep(number, value));
    }
    // Its host is gone.
    keeper.decided(at(4), 2, &Command::View(view(2, &[2, 3], &all)));
    let values: Vec<_> = keeper.orphans().map(|record| record.value.clone()).collect();
    assert_eq!(values, [b"two".to_vec()]);
}

#[test]
fn a_host_that_comes_back_renews_nobody_before_the_view_begins() {
    let begun = || {
        let persisted = Persisted { snapshot: state(&[1], &[]), ..Persisted::default() };
        let mut layer = ViewLayer::new(at(0), one(1), settings(), persisted, true);
        decide(&mut layer, 1, &[1]);
        layer.report(at(0), Contents::default());
        assert!(layer.begun().is_some() && layer.may_renew(at(0)));
        layer
    };
    // In the next view too: it is the host while that view forms.
    let mut stays = begun();
    decide(&mut stays, 2, &[1, 2]);
    assert!(stays.stage() == Stage::Joining && stays.may_renew(at(0)));
    // View 2 may have begun, and its custodian waits for the client.
    let mut back = begun();
    decide(&mut back, 2, &[2]);
    assert!(!back.may_renew(at(0)));
    decide(&mut back, 3, &[1, 2]);
    assert!(back.stage() == Stage::Joining && back.good_until() > at(0));
    assert!(!back.may_renew(at(0)));
}

/// A view of these members is decided; the only voter is this node, so its lease is good.
fn decide(layer: &mut ViewLayer, number: u64, members: &[u64]) {
    let decided = Command::View(view(number, members, &[1]));
    layer.appended(number, &decided);
    layer.decided(at(0), number, &decided);
    layer.tick(at(0));
}
