//! The voters of the consensus engine follow those of the directory and of the views, one by one.
//!
//! A new voter: the directory says that a member shall vote; the engine sends it the log and lets
//! it vote; then the directory calls it a voter, and a view names it. So no lease and no decision
//! ever depends on a voter that does not run.
//!
//! A voter that goes: the directory no longer calls it one; a view without it begins; then the
//! engine lets it vote no longer. So it decides that view together with the others, and can say
//! when it last acknowledged a lease that the view ends.

use std::collections::BTreeSet;

use super::{DecidedState, DirectoryChange, DirectoryEntry, MemberId};

/// What the leader does next for the voters to follow the directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VoterStep {
    /// The engine sends this member the log and lets it vote.
    Admit(MemberId),
    /// The engine lets this member vote no longer.
    Dismiss(MemberId),
    /// Propose this change: the member votes in the engine.
    Confirm(DirectoryChange),
}

/// The next step, by what is decided and who votes in the engine; none if all is as it should be,
/// or a view has to begin first.
pub fn voter_step(state: &DecidedState, engine: &BTreeSet<MemberId>) -> Option<VoterStep> {
    if !state.is_settled() {
        return None;
    }
    let directory = state.directory();
    let wanted = |id: MemberId| directory.wanted(id).filter(|role| role.votes());
    let named = |id: &MemberId| state.counts(*id) || wanted(*id).is_some();
    if let Some(&old) = engine.iter().find(|id| !named(id)) {
        // Never the last: an engine without voters decides nothing.
        return (engine.len() > 1).then_some(VoterStep::Dismiss(old));
    }
    let next = directory.members().find_map(|(id, entry)| Some((id, entry, wanted(id)?)));
    let (id, entry, role) = next?;
    Some(match engine.contains(&id) {
        true => VoterStep::Confirm(DirectoryChange::Change(
            id,
            DirectoryEntry { role, ..entry.clone() },
        )),
        false => VoterStep::Admit(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{
        Command, DecidedView, Directory, DirectoryError, Instance, MAX_VOTERS, Role,
    };

    fn entry(name: &str, role: Role) -> DirectoryEntry {
        DirectoryEntry { name: name.to_owned(), address: String::new(), role }
    }

    fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeSet<MemberId> {
        ids.into_iter().map(MemberId).collect()
    }

    /// A state of so many voters, in a view that has begun.
    fn state(voters: u64) -> DecidedState {
        let mut directory = Directory::default();
        for id in 1..=voters {
            assert!(
                directory.apply(&DirectoryChange::Add(
                    MemberId(id),
                    entry(&format!("m{id}"), Role::Voter)
                ))
            );
        }
        let mut state = DecidedState::new(directory);
        begin(&mut state);
        state
    }

    /// Decides and begins the next view, with the voters of the directory.
    fn begin(state: &mut DecidedState) {
        let number = state.last_number().next();
        let voters = state.directory().voters();
        let members: BTreeSet<_> =
            state.directory().members().map(|(id, _)| Instance::new(id.0, 1)).collect();
        let keepers = members.clone();
        let view = DecidedView { number, epoch: 0, members, keepers, voters, rules: 0, level: 0 };
        state.apply(&Command::View(view));
        state.apply(&Command::Begun(number));
        assert_eq!(state.begun(), number);
    }

    #[test]
    fn a_new_voter_votes_in_the_engine_before_a_view_names_it() {
        let mut state = state(3);
        let new = MemberId(9);
        let add = DirectoryChange::Add(new, entry("new", Role::Follower));
        state.apply(&Command::Directory(add));
        assert_eq!(voter_step(&state, &ids(1..=3)), None);
        state.apply(&Command::Directory(DirectoryChange::Want(new, Role::Voter)));
        assert_eq!(voter_step(&state, &ids(1..=3)), Some(VoterStep::Admit(new)));
        let step = voter_step(&state, &ids([1, 2, 3, 9])).expect("a step");
        let VoterStep::Confirm(change) = step else { panic!("{step:?}") };
        state.apply(&Command::Directory(change));
        assert!(state.directory().voters().contains(&new));
        assert_eq!(state.directory().wanted(new), None);
        // The view that names it has to begin before anything else.
        assert_eq!(voter_step(&state, &ids([1, 2, 3, 9])), None);
        begin(&mut state);
        assert_eq!(voter_step(&state, &ids([1, 2, 3, 9])), None);
    }

    #[test]
    fn a_voter_that_is_removed_keeps_its_engine_until_the_view_without_it_has_begun() {
        let mut state = state(3);
        state.apply(&Command::Directory(DirectoryChange::Remove(MemberId(2))));
        assert_eq!(voter_step(&state, &ids(1..=3)), None);
        begin(&mut state);
        let step = voter_step(&state, &ids(1..=3));
        assert_eq!(step, Some(VoterStep::Dismiss(MemberId(2))));
        assert_eq!(voter_step(&state, &ids([1, 3])), None);
    }

    #[test]
    fn two_voters_do_not_change_at_once() {
        let mut state = state(5);
        let remove = |id| DirectoryChange::Remove(MemberId(id));
        state.apply(&Command::Directory(remove(2)));
        assert_eq!(state.check_change(&remove(3)), Err(DirectoryError::Unsettled));
        state.apply(&Command::Directory(remove(3)));
        assert_eq!(state.directory().voters(), ids([1, 3, 4, 5]));
        begin(&mut state);
        assert_eq!(state.check_change(&remove(3)), Ok(()));
    }

    #[test]
    fn a_member_that_was_to_vote_and_is_removed_is_dismissed() {
        let mut state = state(3);
        let new = MemberId(9);
        let add = DirectoryChange::Add(new, entry("new", Role::Follower));
        state.apply(&Command::Directory(add));
        state.apply(&Command::Directory(DirectoryChange::Want(new, Role::Witness)));
        state.apply(&Command::Directory(DirectoryChange::Remove(new)));
        let step = voter_step(&state, &ids([1, 2, 3, 9]));
        assert_eq!(step, Some(VoterStep::Dismiss(new)));
    }

    #[test]
    fn impossible_changes_are_refused_with_their_reason() {
        let full = state(MAX_VOTERS as u64);
        let want = |id, role| DirectoryChange::Want(MemberId(id), role);
        let mut more = full.clone();
        let add = DirectoryChange::Add(MemberId(9), entry("m9", Role::Follower));
        more.apply(&Command::Directory(add.clone()));
        let refused = more.check_change(&want(9, Role::Voter));
        assert_eq!(refused, Err(DirectoryError::TooManyVoters));
        assert_eq!(more.check_change(&add), Err(DirectoryError::UsedId(MemberId(9))));
        let same = DirectoryChange::Add(MemberId(8), entry("m1", Role::Follower));
        assert_eq!(full.check_change(&same), Err(DirectoryError::SameName("m1".to_owned())));
        more.apply(&Command::Directory(DirectoryChange::Remove(MemberId(9))));
        // An id is not used again.
        assert_eq!(more.check_change(&add), Err(DirectoryError::UsedId(MemberId(9))));
        assert!(more.directory().was_removed(MemberId(9)));
        let alone = state(1);
        let leaves = DirectoryChange::Remove(MemberId(1));
        assert_eq!(alone.check_change(&leaves), Err(DirectoryError::LastVoter));
        let witness = DirectoryChange::Change(MemberId(1), entry("m1", Role::Witness));
        assert_eq!(alone.check_change(&witness), Err(DirectoryError::LastHolder));
        let unknown = full.check_change(&want(77, Role::Voter));
        assert_eq!(unknown, Err(DirectoryError::Unknown(MemberId(77))));
    }
}
