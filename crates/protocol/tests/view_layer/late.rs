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
