//! Members come and go: what an operator and the nodes around the protocol do for it.

use std::{collections::BTreeSet, sync::Arc};

use mutua_protocol::views::{
    Directory, DirectoryChange, DirectoryEntry, DirectoryError, EngineMembers, Levels, MemberId,
    Role, VoterStep, majority, voter_step,
};
use mutua_protocol::{Plan, Rule, encode_rules, usable};

use super::{
    events::{SECOND, entry},
    world::{Event, Node, World},
};

/// The most members, present and former.
const MOST: usize = 9;

/// A change that an operator waits for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    change: DirectoryChange,
    until: u64,
}

/// The operator.
impl World {
    /// Members come and go from now on, before the world runs.
    pub(crate) fn let_members_come_and_go(&mut self, rule: &Rule) {
        let plan = Plan::of_any_size(MOST as u32 + 1, std::slice::from_ref(rule));
        self.plan = Arc::new(plan.expect("a rule for any size"));
        self.engine.admitted = Some(self.engine.voters());
        self.churn = true;
        // Some nodes are of an older version, until they start again.
        for slot in 0..self.nodes.len() {
            if self.dice.one_in(4) {
                self.nodes[slot].levels = Levels::HERE.up_to(0);
            }
        }
    }

    /// A node that starts may be of a later version than before.
    pub(crate) fn upgrade(&mut self, slot: usize) {
        if self.churn && self.nodes[slot].incarnation > 0 && self.dice.one_in(2) {
            self.nodes[slot].levels = Levels::HERE;
        }
    }

    /// An operator gives all locks another algorithm.
    fn change_rules(&mut self) -> Option<&'static str> {
        let leader = self.engine.leader?;
        let protocol = self.nodes[self.slot_of(leader)?].layer.as_ref()?;
        let state = protocol.view_layer()?.state().clone();
        let all: Vec<_> = usable().collect();
        let rule = Rule::new("*", self.dice.pick(&all).name);
        let command = state.change_rules(encode_rules(&[rule]))?;
        self.propose(leader, command);
        Some("the rules change")
    }

    fn wish(&mut self, change: DirectoryChange) {
        let until = self.now + 60 * SECOND;
        self.wishes.push_back(Wish { change, until });
    }

    /// An operator changes the members, if no change is under way; what was begun.
    pub(crate) fn change_members(&mut self, slot: usize) -> Option<&'static str> {
        if !self.wishes.is_empty() {
            return None;
        }
        let directory = self.engine.state.directory().clone();
        let id = self.nodes[slot].id;
        let role = directory.role(id);
        match (self.dice.below(6), role) {
            (0 | 1, _) if self.nodes.len() < MOST => {
                let role = *self.dice.pick(&[Role::Voter, Role::Follower]);
                self.join(role);
                Some("a member joins")
            }
            (2 | 3, Some(_)) if self.nodes.len() < MOST => {
                self.wish(DirectoryChange::Remove(id));
                // Another one, so that members do not run out.
                self.join(Role::Voter);
                Some("a member leaves")
            }
            (4, Some(Role::Follower)) => {
                self.wish(DirectoryChange::Want(id, Role::Voter));
                Some("a follower becomes a voter")
            }
            (4, Some(Role::Voter)) => {
                self.wish(DirectoryChange::Change(id, entry(Role::Follower)));
                Some("a voter becomes a follower")
            }
            (5, _) => self.change_rules(),
            _ => None,
        }
    }

    /// A new node joins; it starts when it is a member.
    fn join(&mut self, role: Role) {
        let slot = self.nodes.len();
        let id = MemberId(100 - slot as u64);
        let node = Node::new(&mut self.dice, &self.settings.clone(), id, Role::Follower);
        self.nodes.push(node);
        self.note(|| format!("{slot} joins as {id}"));
        self.wish(DirectoryChange::Add(id, entry(Role::Follower)));
        if role.votes() {
            self.wish(DirectoryChange::Want(id, role));
        }
    }

    /// A member that has lost its disk is removed, and another one joins.
    pub(crate) fn replace(&mut self, slot: usize) {
        let id = self.nodes[slot].id;
        let role = self.engine.state.directory().role(id).unwrap_or(Role::Follower);
        self.wish(DirectoryChange::Remove(id));
        if self.nodes.len() < MOST + 1 {
            self.join(role);
        }
    }

    /// Proposes the next wish until it is made, or is impossible.
    fn go_on_with_wishes(&mut self) {
        let Some(Wish { change, until }) = self.wishes.front().cloned() else { return };
        let state = &self.engine.state;
        let checked = state.check_change(&change);
        let made = is_made(&change, state.directory());
        let impossible = !matches!(checked, Ok(()) | Err(DirectoryError::Unsettled))
            || !self.leaves_a_majority(&change);
        // Slots are places, so a member that joins does so in the end.
        let late = self.now > until && !matches!(change, DirectoryChange::Add(..));
        if made || impossible || late {
            self.note(|| format!("{change:?}: made {made}, {checked:?}"));
            self.wishes.pop_front();
            if let DirectoryChange::Add(id, _) = change
                && let Some(slot) = self.slot_of(id).filter(|_| made)
            {
                self.nodes[slot].known = self.engine.state.directory().clone();
                self.after(std::time::Duration::from_millis(30), Event::Start { slot });
            }
            return;
        }
        let leader = self.engine.leader.and_then(|id| self.slot_of(id));
        let layer = leader.and_then(|slot| self.nodes[slot].layer.as_ref()?.view_layer());
        let command = layer
            .filter(|layer| layer.state().check_change(&change).is_ok())
            .map(|layer| layer.state().change(change));
        if let (Some(command), Some(leader)) = (command, self.engine.leader) {
            self.propose(leader, command);
        }
    }

    /// Whether enough voters are there when this one votes no longer, as a node checks it.
    fn leaves_a_majority(&self, change: &DirectoryChange) -> bool {
        let (DirectoryChange::Remove(id) | DirectoryChange::Change(id, _)) = change else {
            return true;
        };
        let mut voters = self.engine.state.directory().voters();
        voters.remove(id);
        let there =
            |id: &&MemberId| self.slot_of(**id).is_some_and(|slot| !self.nodes[slot].disk_lost);
        voters.iter().filter(there).count() >= majority(voters.len())
    }

    /// Why the members are not yet as the operator wants them, or an engine not as the directory.
    pub(crate) fn unchanged(&self) -> Option<String> {
        if let Some(wish) = self.wishes.front() {
            return Some(format!("not made: {:?}", wish.change));
        }
        let state = &self.engine.state;
        if state.last().is_some_and(|last| last.rules_number() != state.rules_number()) {
            return Some(format!("the rules are not those of change {}", state.rules_number()));
        }
        let directory = state.directory();
        if self.engine.voters() != directory.voters() {
            let (voters, wanted) = (self.engine.voters(), directory.voters());
            return Some(format!("the engine has the voters {voters:?}, not {wanted:?}"));
        }
        let gone = |node: &&Node| directory.was_removed(node.id) && node.layer.is_some();
        let gone = self.nodes.iter().find(gone);
        gone.map(|node| format!("{} was removed and runs", node.id))
    }
}

/// The nodes.
impl World {
    /// Whether clients of this node can be granted locks, as far as its disk says.
    pub(crate) fn holds_locks(&self, slot: usize) -> bool {
        let node = &self.nodes[slot];
        let role = self.engine.state.directory().role(node.id);
        !node.left && !self.is_yet_to_join(slot) && role.unwrap_or(node.role).holds_locks()
    }

    pub(crate) fn is_yet_to_join(&self, slot: usize) -> bool {
        self.engine.state.directory().place(self.nodes[slot].id).is_none()
    }

    /// Whether an engine shall run at a node that starts, by what is on its disk.
    pub(crate) fn shall_vote(&self, slot: usize) -> bool {
        let Node { id, known, role, .. } = &self.nodes[slot];
        let roles = known.role(*id).into_iter().chain(known.wanted(*id));
        match known.version() {
            0 => role.votes(),
            _ => roles.into_iter().any(Role::votes),
        }
    }

    /// Keeps the members on disk as they are known now.
    pub(crate) fn note_directory(&mut self, slot: usize) {
        let node = &mut self.nodes[slot];
        let directory = node.layer.as_ref().and_then(|protocol| protocol.directory());
        if let Some(directory) = directory.filter(|one| one.version() > node.known.version()) {
            node.known = directory.clone();
        }
    }

    pub(crate) fn runs_engine(&self, id: MemberId) -> bool {
        // One that does not understand the decided level stops.
        let level = self.engine.state.last().map_or(0, |last| last.level);
        let understands = |slot: usize| self.nodes[slot].levels.contains(level);
        // The others refuse the calls of one that counts on another view lease.
        let fits = |slot: usize| self.nodes[slot].lease.is_none_or(|l| l == self.settings.lease);
        let runs = |slot: usize| self.nodes[slot].engine && understands(slot) && fits(slot);
        self.slot_of(id).is_some_and(runs)
    }

    /// What nodes and the leader do in their regular looks at the directory.
    pub(crate) fn follow_directory(&mut self) {
        if !self.churn {
            return;
        }
        for slot in 0..self.nodes.len() {
            if self.nodes[slot].layer.is_some() && !self.is_paused(slot) {
                self.follow_role(slot);
            }
        }
        self.change_voters();
        self.go_on_with_wishes();
    }

    fn follow_role(&mut self, slot: usize) {
        let Node { id, engine, layer, .. } = &self.nodes[slot];
        let (id, engine, now) = (*id, *engine, self.local(slot));
        let Some(protocol) = layer else { return };
        let Some(layer) = protocol.view_layer() else { return };
        let (directory, state) = (layer.directory(), layer.state());
        let out = layer.view().is_none() || protocol.may_be_removed(now);
        let shall = directory.role(id).into_iter().chain(directory.wanted(id)).any(Role::votes);
        // A voter tells that the engine needs this one no longer, if it can be asked.
        let known = state.directory().version();
        let dismissed = !self.engine.voters().contains(&id) && self.voter_tells(id, known);
        let removed = self.engine.state.directory().was_removed(id);
        if removed && out && dismissed || directory.was_removed(id) {
            self.call(slot, |protocol, now| protocol.retire(now));
            if out && dismissed {
                // A voter has told it, or it would ask again.
                self.note(|| format!("{slot} has left"));
                self.kill(slot);
                self.nodes[slot].left = true;
            }
        } else if shall && !engine {
            self.start_engine(slot);
        } else if !shall && engine && !state.counts(id) && dismissed {
            self.nodes[slot].engine = false;
            self.call(slot, |protocol, now| protocol.stop_voting(now));
        }
    }

    /// Whether a voter that this member reaches has the directory of this version.
    fn voter_tells(&self, id: MemberId, version: u64) -> bool {
        let knows = |voter: &MemberId| {
            let slot = self.slot_of(*voter).filter(|_| *voter != id && self.reach(id, *voter));
            let protocol = slot.and_then(|slot| self.nodes[slot].layer.as_ref());
            let layer = protocol.and_then(|protocol| protocol.view_layer());
            layer.is_some_and(|layer| {
                let (state, directory) = (layer.state(), layer.state().directory());
                directory.version() >= version
                    && directory.wanted(id).is_none()
                    && !state.counts(id)
            })
        };
        self.engine.voters().iter().any(knows)
    }

    fn start_engine(&mut self, slot: usize) {
        let id = self.nodes[slot].id;
        let persisted = self.engine.start(id);
        let version = self.engine.genesis.version();
        self.note(|| format!("{slot}: an engine starts"));
        self.nodes[slot].engine = true;
        self.call(slot, |protocol, now| {
            protocol.start_voting(now, version);
            if persisted.index > 0 {
                protocol.snapshot_installed(now, Some(persisted.index), persisted.snapshot);
            }
            for (index, command) in persisted.log {
                protocol.appended(index, &command);
            }
        });
    }

    /// The leader lets the voters follow the directory.
    fn change_voters(&mut self) {
        let Some(leader) = self.engine.leader.filter(|&one| self.has_majority(one)) else { return };
        let Some(slot) = self.slot_of(leader) else { return };
        if !self.has_applied_all(leader) {
            return;
        }
        let now = self.local(slot);
        let voters = self.engine.voters();
        // Here one that is dismissed gets the log no longer, and one that is admitted has it.
        let members = EngineMembers { voters: voters.clone(), learners: BTreeSet::new() };
        let step = self.nodes[slot].layer.as_ref().and_then(|protocol| {
            let seen = protocol.sees(now).collect();
            voter_step(protocol.view_layer()?.state(), &members, &seen)
        });
        // It takes a while, or the leader changes.
        if self.dice.one_in(3) {
            return;
        }
        let mut next = voters.clone();
        match step {
            Some(VoterStep::Confirm(command)) => return self.propose(leader, command),
            Some(VoterStep::Admit(id)) => {
                if !self.runs_engine(id) || !self.reach(leader, id) {
                    return;
                }
                self.replicate(id, self.engine.log.len());
                next.insert(id);
            }
            Some(VoterStep::Dismiss(id)) => drop(next.remove(&id)),
            None => return,
        }
        let reached = |id: &&MemberId| self.reach(leader, **id) && self.runs_engine(**id);
        if next.iter().filter(reached).count() >= majority(next.len()) {
            self.note(|| format!("the engine has the voters {next:?}"));
            self.engine.admitted = Some(next);
        }
    }
}

fn is_made(change: &DirectoryChange, directory: &Directory) -> bool {
    match change {
        DirectoryChange::Add(id, _) => directory.place(*id).is_some(),
        DirectoryChange::Remove(id) => directory.was_removed(*id),
        DirectoryChange::Change(id, DirectoryEntry { role, .. }) => {
            directory.role(*id) == Some(*role) && directory.wanted(*id).is_none()
        }
        DirectoryChange::Want(id, role) => {
            directory.wanted(*id) == Some(*role) || directory.role(*id) == Some(*role)
        }
    }
}
