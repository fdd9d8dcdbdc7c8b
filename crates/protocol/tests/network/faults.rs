//! Faults: connections break, nodes are cut off, nodes restart.

use std::time::Duration;

use super::{Event, World};

impl World {
    /// Injects a fault, and plans the next one.
    pub(super) fn on_fault(&mut self) {
        if self.now > self.scene.faults_until {
            return;
        }
        let nodes = self.scene.nodes as u64;
        let node = self.dice.below(nodes) as usize;
        let long = self.dice.one_in(3);
        let wait =
            if long { self.dice.micros(300_000, 900_000) } else { self.dice.micros(1000, 150_000) };
        match self.dice.below(6) {
            0..=2 => self.cut_pair(node, (node + 1) % nodes as usize, wait),
            3 => self.cut_off(node, wait),
            4 => self.restart(node, wait),
            // The node of a holder, if there is one.
            _ => {
                let holder = self.held.values().next().map_or(node, |&(holder, ..)| holder);
                self.restart(holder, wait);
            }
        }
        let wait = self.dice.micros(20_000, 700_000);
        self.after(wait, Event::Fault);
    }

    /// Cuts this node off from all others for a while.
    pub(crate) fn cut_off(&mut self, node: usize, wait: Duration) {
        self.note(format!("{node} is cut off"));
        for other in (0..self.scene.nodes).filter(|&other| other != node) {
            self.cut_pair(node, other, wait);
        }
    }

    fn cut_pair(&mut self, one: usize, other: usize, wait: Duration) {
        let pair = (one.min(other), one.max(other));
        self.cut.push(pair);
        self.after(wait, Event::Heal { pair });
        self.break_wires(|ends| ends.contains(&one) && ends.contains(&other));
    }

    pub(crate) fn restart(&mut self, node: usize, wait: Duration) {
        if self.nodes[node].protocol.take().is_none() {
            return;
        }
        self.note(format!("{node} crashes"));
        // Some clients are processes of their own, and do not end with their node.
        if self.dice.one_in(2) {
            self.outlive(node);
        } else {
            self.nodes[node].survivors.clear();
            self.held.retain(|_, (holder, ..)| *holder != node);
        }
        self.break_wires(|ends| ends.contains(&node));
        self.after(wait, Event::Start { node });
    }

    fn break_wires(&mut self, which: impl Fn(&[usize; 2]) -> bool) {
        for wire in 0..self.wires.len() {
            if self.wires[wire].alive && which(&self.wires[wire].ends) {
                self.close(wire);
            }
        }
    }
}
