//! What goes wrong.

use std::time::Duration;

use mutua_protocol::views::{DecidedState, MemberId, majority};

use super::world::{Event, World};

impl World {
    /// One fault, and when the next one comes.
    pub(crate) fn on_fault(&mut self) {
        if self.is_calm() {
            return;
        }
        let slot = self.dice.below(self.nodes.len() as u64) as usize;
        let wait = self.dice.micros(1000, self.fault_gap);
        self.after(wait, Event::Fault);
        if self.churn
            && self.dice.one_in(4)
            && let Some(kind) = self.change_members(slot)
        {
            *self.counts.faults.entry(kind).or_default() += 1;
            return;
        }
        let kind = match self.dice.below(32) {
            0..=2 => self.crash_one(slot, "crash"),
            3 => {
                let leader = self.engine.leader.and_then(|id| self.slot_of(id));
                self.crash_one(leader.unwrap_or(slot), "crash of the leader")
            }
            4 => {
                let last = self.engine.state.last().map(|view| view.coordinator().member);
                let coordinator = last.and_then(|id| self.slot_of(id)).unwrap_or(slot);
                self.crash_one(coordinator, "crash of the view coordinator")
            }
            5 | 6 => self.crash_one(self.holder().unwrap_or(slot), "crash of the holder"),
            7 => self.kill_all().then_some("crash of all"),
            8 | 9 => self.crash(slot).then(|| {
                self.restart_clock(slot);
                "restart of the machine"
            }),
            10 => self.lose_disk(slot),
            11 | 12 => {
                let wait = self.dice.micros(100_000, 1_400_000);
                self.pause_one(slot, wait, "pause within the lease")
            }
            13..=15 => {
                let slot = if self.dice.one_in(2) { self.holder().unwrap_or(slot) } else { slot };
                let wait = self.dice.micros(1_400_000, 5_000_000);
                self.pause_one(slot, wait, "pause past the lease")
            }
            16 | 17 => {
                self.late = [0, 3, 10, 30][self.dice.below(4) as usize];
                (self.late > 0).then_some("delay")
            }
            18 | 19 => {
                self.break_wires(|ends| ends.contains(&slot)).then_some("connections broken")
            }
            20 => self.break_wires(|_| true).then_some("all connections broken"),
            21 => {
                self.change_rate(slot);
                Some("clock rate")
            }
            22 => {
                self.words_lost = [2, 4, 20][self.dice.below(3) as usize];
                Some("client messages lost and repeated")
            }
            kind => Some(self.partition(kind, slot)),
        };
        // Counted only if it had an effect: a node that is down does not crash.
        if let Some(kind) = kind {
            *self.counts.faults.entry(kind).or_default() += 1;
        }
    }

    fn holder(&self) -> Option<usize> {
        let holds = |slot: &usize| {
            let node = &self.nodes[*slot];
            node.clients.iter().any(|one| one.holds()) || !node.served.is_empty()
        };
        (0..self.nodes.len()).find(holds)
    }

    fn crash_one(&mut self, slot: usize, kind: &'static str) -> Option<&'static str> {
        self.crash(slot).then_some(kind)
    }

    fn pause_one(
        &mut self,
        slot: usize,
        wait: Duration,
        kind: &'static str,
    ) -> Option<&'static str> {
        self.nodes[slot].layer.is_some().then(|| {
            self.pause(slot, wait);
            kind
        })
    }

    /// Power is cut for all of them; clocks begin anew at some.
    fn kill_all(&mut self) -> bool {
        let mut any = false;
        for slot in 0..self.nodes.len() {
            let crashed = self.crash(slot);
            if crashed && self.dice.one_in(2) {
                self.restart_clock(slot);
            }
            any |= crashed;
        }
        any
    }

    /// A partition of every shape.
    fn partition(&mut self, kind: u64, slot: usize) -> &'static str {
        let nodes = self.nodes.len();
        let side = |place: usize, half: u64| half & (1 << place) != 0;
        let half = self.dice.below(1 << nodes);
        // So many in a row, from `slot` on.
        let within = |place: usize, count: usize| (place + nodes - slot) % nodes < count;
        let cut = |a: usize, b: usize| match kind {
            // One node alone, deaf, or mute.
            23 => a == slot || b == slot,
            24 => b == slot,
            25 => a == slot,
            // Two sets of equal size, a third against the rest, or any two.
            26 => within(a, nodes / 2) != within(b, nodes / 2),
            27 => within(a, nodes.div_ceil(3)) != within(b, nodes.div_ceil(3)),
            28 => side(a, half) != side(b, half),
            // A pair only, one way.
            29 => a == slot && b == (slot + 1) % nodes,
            // A bridge: two sets that meet in one node.
            30 => a != slot && b != slot && side(a, half) != side(b, half),
            // A ring: each reaches its neighbours.
            _ => !(a.abs_diff(b) == 1 || a.abs_diff(b) == nodes - 1),
        };
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let cuts: Vec<_> = pairs.filter(|&(a, b)| a != b && cut(a, b)).collect();
        let most = if self.dice.one_in(2) { 6_000_000 } else { 1_500_000 };
        let wait = self.dice.micros(10_000, most);
        self.cut_for(cuts, wait);
        match kind {
            23 => "cut: one node",
            24 => "cut: one node receives nothing",
            25 => "cut: nothing from one node",
            26 => "cut: halves",
            27 => "cut: a third",
            28 => "cut: two sets",
            29 => "cut: one way between two",
            30 => "cut: bridge",
            _ => "cut: ring",
        }
    }

    pub(crate) fn pause(&mut self, slot: usize, wait: Duration) {
        let until = self.now + wait.as_nanos() as u64;
        self.nodes[slot].paused_until = self.nodes[slot].paused_until.max(until);
        self.note(|| format!("{slot} is stopped for {wait:?}"));
    }

    /// Crashes a node for a while; returns whether it was up.
    pub(crate) fn crash(&mut self, slot: usize) -> bool {
        let most = if self.dice.one_in(3) { 5_000_000 } else { 100_000 };
        let wait = self.dice.micros(1000, most);
        let killed = self.kill(slot);
        if killed {
            self.after(wait, Event::Start { slot });
        }
        killed
    }

    /// A node crashes and its disk is lost: it stays out. At most once in a world, and only while
    /// the voters' majorities do not need it.
    fn lose_disk(&mut self, slot: usize) -> Option<&'static str> {
        let lost = |node: &super::world::Node| node.disk_lost;
        let survives = |state: &DecidedState| {
            // One that was lost before and is removed may still vote in the engine.
            let is_left = |id: &&MemberId| {
                let there = self.slot_of(**id).is_some_and(|one| !lost(&self.nodes[one]));
                there && **id != self.nodes[slot].id
            };
            let rest = |voters: &std::collections::BTreeSet<MemberId>| {
                voters.iter().filter(is_left).count() >= majority(voters.len())
            };
            rest(&state.directory().voters())
                && rest(&self.engine.voters())
                && state.views().all(|view| rest(&view.voters))
        };
        let present =
            |node: &super::world::Node| self.engine.state.directory().role(node.id).is_some();
        let another = self.nodes.iter().any(|node| lost(node) && present(node));
        if another
            || !self.wishes.is_empty()
            || !survives(&self.engine.state)
            || !self.dice.one_in(4)
        {
            return self.crash_one(slot, "crash");
        }
        self.kill(slot);
        self.nodes[slot].disk_lost = true;
        self.note(|| format!("{slot} loses its disk"));
        if self.churn {
            self.replace(slot);
        }
        Some("loss of the disk")
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
        self.words_lost = 20;
        let cuts: Vec<_> = self.cuts.keys().copied().collect();
        self.cuts.clear();
        self.heal(&cuts);
        for slot in 0..self.nodes.len() {
            self.at(self.now, Event::Start { slot });
        }
    }
}
