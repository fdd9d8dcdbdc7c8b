//! A stub of the consensus engine with exactly the freedom that the engine's callers see.
//!
//! A proposal is lost, decided late or twice; voters learn in order, at any delay; a tail is
//! appended and vanishes; a restarted voter has its log and not its commit index. Only what is in a
//! majority of the voters' logs is decided.

use std::collections::{BTreeMap, BTreeSet};

use mutua_protocol::views::{Command, DecidedState, MemberId, Persisted, majority};

use super::{World, world::Event};

#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(crate) genesis: DecidedState,
    /// What is decided, and the state after it.
    pub(crate) log: Vec<Command>,
    pub(crate) state: DecidedState,
    pub(crate) replicas: BTreeMap<MemberId, Replica>,
    /// The voters, where they follow the directory one by one; else those of the directory.
    pub(crate) admitted: Option<BTreeSet<MemberId>>,
    pub(crate) leader: Option<MemberId>,
    /// How often in a row the leader did not reach a majority.
    unreached: u32,
    pub(crate) vanished: u64,
}

/// A voter's disk, and how much of it is applied in this life.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) log: Vec<Command>,
    /// So many of them are as decided.
    synced: usize,
    applied: usize,
    snapshot: usize,
}

impl Engine {
    pub(crate) fn new(genesis: DecidedState) -> Self {
        Self { state: genesis.clone(), genesis, ..Self::default() }
    }

    pub(crate) fn voters(&self) -> BTreeSet<MemberId> {
        self.admitted.clone().unwrap_or_else(|| self.state.directory().voters())
    }

    fn state_at(&self, applied: usize) -> DecidedState {
        let mut state = self.genesis.clone();
        for command in &self.log[..applied] {
            state.apply(command);
        }
        state
    }

    /// What a voter finds on its disk.
    pub(crate) fn start(&mut self, id: MemberId) -> Persisted {
        let snapshot = self.replicas.entry(id).or_default().snapshot;
        let state = self.state_at(snapshot);
        let replica = self.replicas.get_mut(&id).expect("just made");
        replica.applied = snapshot;
        let behind = replica.log.iter().cloned().enumerate().skip(snapshot);
        let log = behind.map(|(place, command)| (place as u64 + 1, command)).collect();
        Persisted { snapshot: state, index: snapshot as u64, log }
    }
}

impl World {
    /// Whether two nodes reach each other, and both run.
    pub(crate) fn reach(&self, one: MemberId, other: MemberId) -> bool {
        let (Some(a), Some(b)) = (self.slot_of(one), self.slot_of(other)) else { return false };
        let runs = |slot: usize| self.nodes[slot].layer.is_some() && !self.is_paused(slot);
        runs(a) && runs(b) && !self.is_cut(a, b) && !self.is_cut(b, a)
    }

    fn reached_by(&self, one: MemberId) -> Vec<MemberId> {
        let runs = |&other: &MemberId| self.reach(one, other) && self.runs_engine(other);
        self.engine.voters().into_iter().filter(runs).collect()
    }

    pub(crate) fn has_majority(&self, one: MemberId) -> bool {
        self.runs_engine(one) && self.reached_by(one).len() >= majority(self.engine.voters().len())
    }

    pub(crate) fn propose(&mut self, from: MemberId, command: Command) {
        let leader = self.engine.leader.filter(|&leader| self.reach(from, leader));
        let Some(leader) = leader else { return };
        let calm = self.is_calm();
        match self.dice.below(20) {
            0 | 1 if !calm => {}
            2..=4 if !calm => self.append_tail(leader, &command),
            5 => {
                for _ in 0..2 {
                    let wait = self.dice.micros(100, 900_000);
                    self.after(wait, Event::Commit { command: command.clone() });
                }
            }
            _ => {
                let most = if self.dice.one_in(10) { 600_000 } else { 5_000 };
                let wait = self.dice.micros(100, most);
                self.after(wait, Event::Commit { command });
            }
        }
    }

    /// A tail that will vanish: the leader has it in its log, perhaps others.
    fn append_tail(&mut self, leader: MemberId, command: &Command) {
        let others = self.reached_by(leader);
        let most = majority(self.engine.voters().len()) - 1;
        let mut with: Vec<_> = others.into_iter().filter(|_| self.dice.one_in(2)).collect();
        with.truncate(most);
        for id in with {
            self.engine.vanished += 1;
            self.append(id, command.clone());
            let wait = self.dice.micros(1000, 2_000_000);
            self.after(wait, Event::Sync { id });
        }
    }

    fn append(&mut self, id: MemberId, command: Command) {
        let replica = self.engine.replicas.get_mut(&id).expect("a voter has a log");
        replica.log.push(command.clone());
        let index = replica.log.len() as u64;
        if let Some(slot) = self.slot_of(id)
            && let Some(layer) = &mut self.nodes[slot].layer
        {
            layer.appended(index, &command);
        }
    }

    /// Drops a tail that was not decided, and appends what was up to `upto`.
    pub(crate) fn replicate(&mut self, id: MemberId, upto: usize) {
        let replica = self.engine.replicas.entry(id).or_default();
        if replica.log.len() > replica.synced {
            replica.log.truncate(replica.synced);
            let from = replica.synced as u64 + 1;
            if let Some(slot) = self.slot_of(id)
                && let Some(layer) = &mut self.nodes[slot].layer
            {
                layer.truncated(from);
            }
        }
        for place in self.engine.replicas[&id].synced..upto {
            let command = self.engine.log[place].clone();
            self.append(id, command);
            self.engine.replicas.get_mut(&id).expect("known").synced = place + 1;
        }
    }

    /// Whether a voter has applied all that is in its log.
    #[allow(dead_code, reason = "one of the two worlds changes voters")]
    pub(crate) fn has_applied_all(&self, id: MemberId) -> bool {
        let replica = self.engine.replicas.get(&id);
        replica.is_some_and(|replica| replica.applied == replica.log.len())
    }

    /// A proposal is decided, if a majority can have it.
    pub(crate) fn on_commit(&mut self, command: Command) {
        let Some(leader) = self.engine.leader else { return };
        let mut with = self.reached_by(leader);
        let needed = majority(self.engine.voters().len());
        if with.len() < needed {
            return;
        }
        // Not all that could have it have it at once; the leader has.
        while with.len() > needed && self.dice.one_in(2) {
            let place = self.dice.below(with.len() as u64) as usize;
            if with[place] != leader {
                with.remove(place);
            }
        }
        self.note(|| format!("decided: {command:?}"));
        if let Command::View(view) = &command {
            self.disturb(view);
        }
        self.engine.state.apply(&command);
        self.engine.log.push(command);
        let upto = self.engine.log.len();
        for id in with {
            self.replicate(id, upto);
        }
        let all: Vec<_> = self.engine.replicas.keys().copied().collect();
        for id in all {
            let slow = self.dice.one_in(6);
            let wait = self.dice.micros(100, if slow { 1_000_000 } else { 10_000 });
            self.after(wait, Event::Sync { id });
        }
    }

    /// A voter learns what is decided, as far as it goes.
    pub(crate) fn on_sync(&mut self, id: MemberId) {
        let Some(slot) = self.slot_of(id) else { return };
        if self.nodes[slot].layer.is_none() || self.is_paused(slot) || !self.runs_engine(id) {
            return;
        }
        // Only the leader replicates.
        let Some(leader) = self.engine.leader else { return };
        if leader != id && !self.reach(id, leader) {
            return;
        }
        let known = self.engine.replicas[&leader].synced;
        let known = known.max(self.engine.replicas[&id].synced);
        if known > self.engine.replicas[&id].applied + 4 && self.dice.one_in(3) {
            self.install_snapshot(slot, id, known);
        }
        self.replicate(id, known);
        while self.engine.replicas[&id].applied < known && !self.dice.one_in(20) {
            let place = self.engine.replicas[&id].applied;
            self.engine.replicas.get_mut(&id).expect("known").applied += 1;
            let command = self.engine.log[place].clone();
            self.call(slot, |layer, now| layer.decided(now, place as u64 + 1, &command));
        }
        let replica = self.engine.replicas.get_mut(&id).expect("known");
        if self.dice.one_in(10) {
            replica.snapshot = replica.applied;
        }
    }

    fn install_snapshot(&mut self, slot: usize, id: MemberId, upto: usize) {
        let state = self.engine.state_at(upto);
        self.replicate(id, upto);
        let replica = self.engine.replicas.get_mut(&id).expect("known");
        replica.applied = upto;
        replica.snapshot = upto;
        let index = self.dice.one_in(2).then_some(upto as u64);
        self.call(slot, |layer, now| layer.snapshot_installed(now, index, state));
    }

    /// Looks whether the leader still leads, and lets the voters catch up.
    pub(crate) fn on_elect(&mut self) {
        let wait = self.dice.micros(150_000, 300_000);
        self.after(wait, Event::Elect);
        for id in self.engine.voters() {
            let wait = self.dice.micros(100, 50_000);
            self.after(wait, Event::Sync { id });
        }
        self.follow_directory();
        if let Some(leader) = self.engine.leader {
            if self.engine.voters().contains(&leader) && self.has_majority(leader) {
                self.engine.unreached = 0;
                if self.is_calm() || !self.dice.one_in(100) {
                    return self.tell_leader(leader, true);
                }
            }
            self.engine.unreached += 1;
            if self.engine.unreached < 3 {
                return;
            }
        }
        let able: Vec<_> =
            self.engine.voters().into_iter().filter(|&one| self.has_majority(one)).collect();
        if able.is_empty() {
            return;
        }
        let new = able[self.dice.below(able.len() as u64) as usize];
        if let Some(old) = self.engine.leader.replace(new)
            && old != new
        {
            let wait = self.dice.micros(100, 2_000_000);
            self.after(wait, Event::Deposed { id: old });
        }
        self.engine.unreached = 0;
        self.note(|| format!("{new} leads"));
        // A leader has everything that is decided.
        self.replicate(new, self.engine.log.len());
        self.tell_leader(new, true);
    }

    pub(crate) fn tell_leader(&mut self, id: MemberId, leads: bool) {
        let voters = self.engine.voters();
        if let Some(slot) = self.slot_of(id) {
            self.call(slot, |layer, now| {
                layer.leads(now, leads);
                layer.set_engine_voters(voters);
            });
        }
    }
}
