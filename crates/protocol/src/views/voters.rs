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

use super::{Command, DecidedState, DirectoryChange, DirectoryEntry, MemberId};

/// What the leader does next for the voters to follow the directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VoterStep {
    /// The engine sends this member the log and lets it vote.
    Admit(MemberId),
    /// The engine lets this member vote no longer.
    Dismiss(MemberId),
    /// Propose this command, a change of the directory: the member votes in the engine.
    Confirm(Command),
}

/// Who takes part in the consensus engine, at its leader.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EngineMembers {
    /// Those that vote.
    pub voters: BTreeSet<MemberId>,
    /// Those that get the log and do not vote.
    pub learners: BTreeSet<MemberId>,
}

/// The next step, by what is decided, who takes part in the engine, and which members are `seen`:
/// none if all is as it should be, a view has to begin first, or nobody who shall vote runs. One
/// that does not run holds up no other.
pub fn voter_step(
    state: &DecidedState,
    engine: &EngineMembers,
    seen: &BTreeSet<MemberId>,
) -> Option<VoterStep> {
    let EngineMembers { voters, learners } = engine;
    let directory = state.directory();
    let wanted = |id: MemberId| directory.wanted(id).filter(|role| role.votes());
    let named = |id: &&MemberId| state.counts(**id) || wanted(**id).is_some();
    // Never the last voter: an engine without voters decides nothing.
    let leaving = voters.iter().filter(|_| voters.len() > 1);
    if let Some(&old) = leaving.chain(learners).find(|id| !named(id)) {
        // Whether or not the last view has begun: none that is remembered needs its word. If it
        // leads, nobody asks it any more, and it could not let that view begin.
        return Some(VoterStep::Dismiss(old));
    }
    // A leader that had not applied its log yet may have let a voter go by what was decided before.
    let missing = |id: &MemberId| !voters.contains(id) && seen.contains(id);
    if let Some(id) = directory.voters().into_iter().find(missing) {
        return Some(VoterStep::Admit(id));
    }
    if !state.is_settled() {
        return None;
    }
    let shall_vote = directory.members().filter_map(|(id, entry)| Some((id, entry, wanted(id)?)));
    let (id, entry, role) =
        shall_vote.into_iter().find(|(id, ..)| voters.contains(id) || seen.contains(id))?;
    Some(match voters.contains(&id) {
        true => {
            let entry = DirectoryEntry { role, ..entry.clone() };
            VoterStep::Confirm(state.change(DirectoryChange::Change(id, entry)))
        }
        false => VoterStep::Admit(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{
        Applied, DecidedView, Directory, DirectoryError, Instance, MAX_VOTERS, Role,
    };

    fn entry(name: &str, role: Role) -> DirectoryEntry {
        DirectoryEntry { name: name.to_owned(), address: String::new(), role }
    }

    fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeSet<MemberId> {
        ids.into_iter().map(MemberId).collect()
    }

    /// The next step with these voters in the engine, while everybody runs.
    fn step(state: &DecidedState, voters: impl IntoIterator<Item = u64>) -> Option<VoterStep> {
        let engine = EngineMembers { voters: ids(voters), learners: BTreeSet::new() };
        voter_step(state, &engine, &ids(1..100))
    }

    fn change(state: &mut DecidedState, change: DirectoryChange) {
        let command = state.change(change);
        state.apply(&command);
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
        change(&mut state, add);
        assert_eq!(step(&state, 1..=3), None);
        change(&mut state, DirectoryChange::Want(new, Role::Voter));
        assert_eq!(step(&state, 1..=3), Some(VoterStep::Admit(new)));
        // It holds up no other while it does not run.
        let engine = EngineMembers { voters: ids(1..=3), learners: BTreeSet::new() };
        assert_eq!(voter_step(&state, &engine, &ids(1..=3)), None);
        let next = step(&state, [1, 2, 3, 9]).expect("a step");
        let VoterStep::Confirm(command) = next else { panic!("{next:?}") };
        state.apply(&command);
        assert!(state.directory().voters().contains(&new));
        assert_eq!(state.directory().wanted(new), None);
        // The view that names it has to begin before anything else.
        assert_eq!(step(&state, [1, 2, 3, 9]), None);
        begin(&mut state);
        assert_eq!(step(&state, [1, 2, 3, 9]), None);
    }

    #[test]
    fn a_voter_that_is_removed_keeps_its_engine_until_the_view_without_it_has_begun() {
        let mut state = state(3);
        change(&mut state, DirectoryChange::Remove(MemberId(2)));
        assert_eq!(step(&state, 1..=3), None);
        begin(&mut state);
        assert_eq!(step(&state, 1..=3), Some(VoterStep::Dismiss(MemberId(2))));
        assert_eq!(step(&state, [1, 3]), None);
    }

    #[test]
    fn a_voter_that_the_engine_lacks_is_admitted_again() {
        let state = state(3);
        assert_eq!(step(&state, [1, 3]), Some(VoterStep::Admit(MemberId(2))));
        let engine = EngineMembers { voters: ids([1, 3]), learners: BTreeSet::new() };
        assert_eq!(voter_step(&state, &engine, &ids([1, 3])), None, "it does not run");
    }

    #[test]
    fn two_voters_do_not_change_at_once() {
        let mut state = state(5);
        let remove = |id| DirectoryChange::Remove(MemberId(id));
        change(&mut state, remove(2));
        assert_eq!(state.check_change(&remove(3)), Err(DirectoryError::Unsettled));
        change(&mut state, remove(3));
        assert_eq!(state.directory().voters(), ids([1, 3, 4, 5]));
        begin(&mut state);
        assert_eq!(state.check_change(&remove(3)), Ok(()));
    }

    #[test]
    fn a_member_that_was_to_vote_and_is_removed_is_dismissed() {
        let mut state = state(3);
        let new = MemberId(9);
        let add = DirectoryChange::Add(new, entry("new", Role::Follower));
        change(&mut state, add);
        change(&mut state, DirectoryChange::Want(new, Role::Witness));
        change(&mut state, DirectoryChange::Remove(new));
        assert_eq!(step(&state, [1, 2, 3, 9]), Some(VoterStep::Dismiss(new)));
        let engine = EngineMembers { voters: ids(1..=3), learners: ids([9]) };
        assert_eq!(voter_step(&state, &engine, &ids(1..=3)), Some(VoterStep::Dismiss(new)));
    }

    #[test]
    fn a_change_that_is_decided_late_does_not_undo_a_later_one() {
        let mut state = state(3);
        let add = DirectoryChange::Add(MemberId(9), entry("new", Role::Follower));
        change(&mut state, add);
        let want = state.change(DirectoryChange::Want(MemberId(9), Role::Voter));
        state.apply(&want);
        change(&mut state, DirectoryChange::Change(MemberId(9), entry("new", Role::Follower)));
        assert_eq!(state.directory().wanted(MemberId(9)), None);
        assert_eq!(state.apply(&want), Applied::Nothing);
        assert_eq!(state.directory().wanted(MemberId(9)), None);
    }

    #[test]
    fn impossible_changes_are_refused_with_their_reason() {
        let full = state(MAX_VOTERS as u64);
        let want = |id, role| DirectoryChange::Want(MemberId(id), role);
        let mut more = full.clone();
        let add = DirectoryChange::Add(MemberId(9), entry("m9", Role::Follower));
        change(&mut more, add.clone());
        let refused = more.check_change(&want(9, Role::Voter));
        assert_eq!(refused, Err(DirectoryError::TooManyVoters));
        assert_eq!(more.check_change(&add), Err(DirectoryError::UsedId(MemberId(9))));
        let same = DirectoryChange::Add(MemberId(8), entry("m1", Role::Follower));
        assert_eq!(full.check_change(&same), Err(DirectoryError::SameName("m1".to_owned())));
        change(&mut more, DirectoryChange::Remove(MemberId(9)));
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
