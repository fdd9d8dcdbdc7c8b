//! What goes wrong.

use std::time::Duration;

use super::world::{Event, World};

impl World {
    pub(crate) fn on_fault(&mut self) {
        if self.is_calm() {
            return;
        }
        let nodes = self.nodes.len();
        let slot = self.dice.below(nodes as u64) as usize;
        let wait = self.dice.micros(1000, 2_500_000);
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
            5 | 6 => {
                let holds = |slot: &usize| self.nodes[*slot].clients.iter().any(|one| one.holds());
                self.crash((0..nodes).find(holds).unwrap_or(slot));
            }
            7..=9 => {
                let wait = self.dice.micros(100_000, 5_000_000);
                self.pause(slot, wait);
            }
            10 => self.late = [0, 3, 10, 30][self.dice.below(4) as usize],
            11 => self.break_wires(|ends| ends.contains(&slot)),
            kind => self.partition(kind, slot),
        }
    }

    /// A partition of every shape.
    fn partition(&mut self, kind: u64, slot: usize) {
        let nodes = self.nodes.len();
        let side = |place: usize, half: u64| half & (1 << place) != 0;
        let half = self.dice.below(1 << nodes);
        let cut = |a: usize, b: usize| match kind {
            // One node alone, deaf, or mute.
            12 | 13 => a == slot || b == slot,
            14 => b == slot,
            15 => a == slot,
            // Two sets.
            16 => side(a, half) != side(b, half),
            // A pair only, one way.
            17 => a == slot && b == (slot + 1) % nodes,
            // A bridge: two sets that meet in one node.
            18 => a != slot && b != slot && side(a, half) != side(b, half),
            // A ring: each reaches its neighbours.
            _ => !(a.abs_diff(b) == 1 || a.abs_diff(b) == nodes - 1),
        };
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let cuts: Vec<_> = pairs.filter(|&(a, b)| a != b && cut(a, b)).collect();
        let most = if self.dice.one_in(2) { 6_000_000 } else { 1_500_000 };
        let wait = self.dice.micros(10_000, most);
        self.cut_for(cuts, wait);
    }

    pub(crate) fn pause(&mut self, slot: usize, wait: Duration) {
        self.counts.pauses += 1;
        let until = self.now + wait.as_nanos() as u64;
        self.nodes[slot].paused_until = self.nodes[slot].paused_until.max(until);
        self.note(|| format!("{slot} is stopped for {wait:?}"));
    }

    pub(crate) fn crash(&mut self, slot: usize) {
        let most = if self.dice.one_in(3) { 5_000_000 } else { 100_000 };
        let wait = self.dice.micros(1000, most);
        if self.kill(slot) {
            self.after(wait, Event::Start { slot });
        }
    }

    /// Crashes a node for good; returns whether it was up.
    pub(crate) fn kill(&mut self, slot: usize) -> bool {
        if self.nodes[slot].layer.take().is_none() {
            return false;
        }
        self.counts.crashes += 1;
        self.note(|| format!("{slot} crashes"));
        self.nodes[slot].clients.clear();
        self.nodes[slot].tickets.clear();
        self.nodes[slot].served.clear();
        self.nodes[slot].paused_until = 0;
        self.break_wires(|ends| ends.contains(&slot));
        true
    }

    pub(crate) fn on_calm(&mut self) {
        self.note(|| "faults stop".to_owned());
        self.late = 0;
        let cuts: Vec<_> = self.cuts.keys().copied().collect();
        self.cuts.clear();
        self.heal(&cuts);
        for slot in 0..self.nodes.len() {
            self.at(self.now, Event::Start { slot });
        }
    }
}
