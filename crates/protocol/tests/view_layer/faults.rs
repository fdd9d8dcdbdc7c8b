//! What goes wrong.

use std::{collections::BTreeSet, time::Duration};

use mutua_protocol::views::{DecidedView, DirectoryChange, MemberId, majority};

use super::{
    events::entry,
    world::{Event, Layers},
};

impl Layers {
    pub(crate) fn on_fault(&mut self) {
        if self.is_calm() {
            return;
        }
        let nodes = self.nodes.len();
        let slot = self.dice.below(nodes as u64) as usize;
        if self.is_hard() {
            match self.dice.below(10) {
                0..=2 => return self.siege(slot),
                3..=5 => return self.amnesia(slot),
                _ => {}
            }
        }
        let often = if self.seed.is_multiple_of(3) { 600_000 } else { 2_500_000 };
        let wait = self.dice.micros(1000, often);
        self.after(wait, Event::Fault);
        match self.dice.below(20) {
            0..=2 => self.crash(slot),
            3 => {
                let leader = self.engine.leader.and_then(|id| self.slot_of(id));
                self.crash(leader.unwrap_or(slot));
            }
            4 => {
                let last = self.engine.state.last().map(|view| view.coordinator().member);
                self.crash(last.and_then(|id| self.slot_of(id)).unwrap_or(slot));
            }
            5 => {
                let holds = |slot: &usize| !self.nodes[*slot].locks.held.is_empty();
                self.crash((0..nodes).find(holds).unwrap_or(slot));
            }
            6 => self.wipe(slot),
            7 | 8 => {
                let wait = self.dice.micros(100_000, 5_000_000);
                self.pause(slot, wait);
            }
            9 if self.dice.one_in(3) => {
                for slot in 0..nodes {
                    self.crash(slot);
                }
            }
            10 => {
                self.loss = [0, 0, 4, 10, 30][self.dice.below(5) as usize];
                self.late = [0, 3, 10, 30][self.dice.below(4) as usize];
            }
            kind => self.partition(kind, slot),
        }
    }

    /// Whether faults come together that are unlikely to meet by chance.
    pub(crate) fn is_hard(&self) -> bool {
        self.seed % 2 == 1
    }

    /// A node is cut off from the leader and reaches the others; one of these restarts when the
    /// next view is about to be decided, or soon after.
    fn siege(&mut self, slot: usize) {
        let wait = self.dice.micros(2_000_000, 6_500_000);
        self.after(wait, Event::Fault);
        let Some(leader) = self.engine.leader.and_then(|id| self.slot_of(id)) else { return };
        if slot == leader {
            return;
        }
        self.late = [0, 0, 4][self.dice.below(3) as usize];
        self.late_answers = self.dice.one_in(2);
        let cuts = vec![(slot, leader), (leader, slot)];
        self.note(|| format!("{slot} is besieged"));
        self.cut(&cuts);
        let wait = self.dice.micros(3_000_000, 6_000_000);
        self.after(wait, Event::Heal { cuts });
        for other in (0..self.nodes.len()).filter(|&other| other != slot && other != leader) {
            if self.dice.one_in(2) {
                let wait = self.dice.micros(1_400_000, 2_600_000);
                self.after(wait, Event::Crash { slot: other });
            }
        }
    }

    /// A node is cut off; later all others lose their memory, and it is back.
    fn amnesia(&mut self, slot: usize) {
        let nodes = self.nodes.len();
        let others = (0..nodes).filter(|&other| other != slot);
        let cuts: Vec<_> = others.clone().flat_map(|one| [(one, slot), (slot, one)]).collect();
        self.note(|| format!("{slot} misses what follows"));
        self.cut(&cuts);
        let wait = self.dice.micros(4_000_000, 8_000_000);
        self.after(wait + Duration::from_secs(2), Event::Fault);
        for other in others {
            self.after(wait, Event::Crash { slot: other });
        }
        self.after(wait, Event::Heal { cuts });
    }

    /// A view that takes in a keeper is decided: sometimes all others crash before it begins.
    pub(crate) fn disturb(&mut self, view: &DecidedView) {
        let Some(last) = self.engine.state.last().cloned() else { return };
        let adds = view.keepers.difference(&last.keepers).next().is_some();
        if self.is_hard() && !self.is_calm() && adds && self.dice.one_in(3) {
            self.note(|| "those that were there crash".to_owned());
            for instance in last.everybody() {
                if let Some(slot) = self.slot_of(instance.member) {
                    let wait = self.dice.micros(1, 3000);
                    self.after(wait, Event::Crash { slot });
                }
            }
        }
    }

    /// A partition of every shape.
    fn partition(&mut self, kind: u64, slot: usize) {
        let nodes = self.nodes.len();
        let side = |place: usize, half: u64| half & (1 << place) != 0;
        let half = self.dice.below(1 << nodes);
        let cut = |a: usize, b: usize| match kind {
            // One node alone, deaf, or mute.
            11 | 12 => a == slot || b == slot,
            13 => b == slot,
            14 => a == slot,
            // Two sets.
            15 | 16 => side(a, half) != side(b, half),
            // A pair only, both ways or one.
            17 => a == slot && b == (slot + 1) % nodes,
            // A bridge: two sets that meet in one node.
            18 => a != slot && b != slot && side(a, half) != side(b, half),
            // A ring: each reaches its neighbours.
            _ => !(a.abs_diff(b) == 1 || a.abs_diff(b) == nodes - 1),
        };
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let cuts: Vec<_> = pairs.filter(|&(a, b)| a != b && cut(a, b)).collect();
        self.note(|| format!("cut {cuts:?}"));
        self.cut(&cuts);
        let most = if self.dice.one_in(2) { 6_000_000 } else { 1_500_000 };
        let wait = self.dice.micros(10_000, most);
        self.after(wait, Event::Heal { cuts });
    }

    pub(crate) fn pause(&mut self, slot: usize, wait: Duration) {
        self.counts.pauses += 1;
        let until = self.now + wait.as_nanos() as u64;
        self.nodes[slot].paused_until = self.nodes[slot].paused_until.max(until);
        let me = self.instance(slot);
        self.note(|| format!("{me} is stopped for {wait:?}"));
    }

    pub(crate) fn crash(&mut self, slot: usize) {
        if self.nodes[slot].layer.take().is_none() {
            return;
        }
        self.counts.crashes += 1;
        let me = self.instance(slot);
        self.note(|| format!("{me} crashes"));
        self.nodes[slot].locks = Default::default();
        self.nodes[slot].paused_until = 0;
        let most = if self.dice.one_in(3) { 5_000_000 } else { 100_000 };
        let wait = self.dice.micros(1000, most);
        self.after(wait, Event::Start { slot });
    }

    /// A node loses its disk: the member is gone for good, another takes its place.
    fn wipe(&mut self, slot: usize) {
        let state = &self.engine.state;
        let known = state.directory().role(self.nodes[slot].id).is_some();
        let here = |id: &&MemberId| self.slot_of(**id).is_some_and(|other| other != slot);
        let survives = |voters: &BTreeSet<MemberId>| {
            voters.iter().filter(here).count() >= majority(voters.len())
        };
        // A majority of the voters keeps its disks, else only an operator could go on.
        let possible =
            survives(&self.engine.voters()) && state.views().all(|view| survives(&view.voters));
        if !self.wanted.is_empty() || !known || !possible {
            return;
        }
        self.crash(slot);
        self.counts.wiped += 1;
        self.last_ids += 1;
        let (old, new) = (self.nodes[slot].id, MemberId(self.last_ids));
        self.note(|| format!("{old} has lost its disk, and is {new} now"));
        self.nodes[slot].id = new;
        self.nodes[slot].leases_until = mutua_protocol::Moment::ZERO;
        let role = self.nodes[slot].role;
        self.wanted = vec![DirectoryChange::Remove(old), DirectoryChange::Add(new, entry(role))];
    }

    pub(crate) fn on_calm(&mut self) {
        self.note(|| "faults stop".to_owned());
        self.loss = 0;
        self.late = 0;
        self.late_answers = false;
        self.heal_all();
        for slot in 0..self.nodes.len() {
            self.at(self.now, Event::Start { slot });
        }
    }
}
