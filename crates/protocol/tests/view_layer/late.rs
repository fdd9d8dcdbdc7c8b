//! Views that begin late.

use mutua_protocol::views::{
    Command, DirectoryChange, MemberId, Policy, Role, Row, Stage, ViewNumber,
};

use super::{
    events::entry,
    traps::{at, one, set, settings, state, view},
};

fn heard(policy: &mut Policy, millis: u64, id: u64, stage: Stage) {
    let (sees, view) = (set(&[1, 2, 3, 4]), ViewNumber(1));
    let row = Row { instance: one(id), sees, floor: 0, view, stage, newest: 0 };
    policy.heard(at(millis), &settings(), row);
}

#[test]
fn a_view_that_begins_late_keeps_nobody_out_of_the_next_one() {
    let settings = settings();
    let mut first = view(1, &[1, 2, 3, 4], &[2, 3, 4]);
    first.keepers = set(&[2, 3, 4]);
    let mut state = state(&[2, 3, 4], &[]);
    let change = state.change(DirectoryChange::Add(MemberId(1), entry(Role::Follower)));
    state.apply(&change);
    state.apply(&Command::View(first));
    let mut policy = Policy::default();
    policy.decided(at(0), &Default::default());
    // The voters are late, and without them there is no next view.
    for millis in (0..9000).step_by(300) {
        heard(&mut policy, millis, 1, Stage::Reported);
        (2..=4).for_each(|id| heard(&mut policy, millis, id, Stage::Joining));
        assert_eq!(policy.propose(at(millis), &settings, &state), None, "{millis}");
    }
    // It begins after all.
    (1..=4).for_each(|id| heard(&mut policy, 9000, id, Stage::Begun));
    let begun = policy.propose(at(9000), &settings, &state).expect("news");
    assert_eq!(begun, Command::Begun(ViewNumber(1)));
    state.apply(&begun);
    let change = state.change(DirectoryChange::Change(MemberId(4), entry(Role::Follower)));
    state.apply(&change);
    (1..=4).for_each(|id| heard(&mut policy, 9300, id, Stage::Begun));
    let Some(Command::View(next)) = policy.propose(at(9300), &settings, &state) else {
        panic!("the voters have changed");
    };
    assert_eq!(next.members, set(&[1, 2, 3, 4]));
    assert_eq!(next.voters, [2, 3].map(MemberId).into());
}

#[test]
fn the_level_does_not_rise_while_the_engine_needs_a_former_member_that_cannot_use_it() {
    let settings = settings();
    let mut state = state(&[1, 2, 3], &[view(1, &[1, 2, 3], &[1, 2, 3])]);
    state.apply(&Command::Begun(ViewNumber(1)));
    let change = state.change(DirectoryChange::Remove(MemberId(3)));
    state.apply(&change);
    let mut policy = Policy::default();
    policy.set_engine_voters(Some([1, 2, 3].map(MemberId).into()));
    let ask = |policy: &mut Policy, millis: u64, view: u64| {
        for (id, newest) in [(1, 1), (2, 1), (3, 0)] {
            let (sees, view, stage) = (set(&[1, 2, 3]), ViewNumber(view), Stage::Begun);
            let row = Row { instance: one(id), sees, floor: 0, view, stage, newest };
            policy.heard(at(millis), &settings, row);
        }
    };
    ask(&mut policy, 0, 1);
    let Some(Command::View(without)) = policy.propose(at(0), &settings, &state) else {
        panic!("a member is removed");
    };
    assert_eq!((without.members.len(), without.level), (2, 0));
    state.apply(&Command::View(without));
    state.apply(&Command::Begun(ViewNumber(2)));
    // The view has begun, and the engine has not let it vote no longer.
    ask(&mut policy, 300, 2);
    assert_eq!(policy.propose(at(300), &settings, &state), None);
    policy.set_engine_voters(Some([1, 2].map(MemberId).into()));
    let Some(Command::View(next)) = policy.propose(at(600), &settings, &state) else {
        panic!("all that are left can use the next level");
    };
    assert_eq!((next.members.len(), next.level), (2, 1));
}
