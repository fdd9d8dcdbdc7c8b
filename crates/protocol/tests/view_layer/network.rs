//! The network: messages are late, lost, repeated and out of order; signs of life; cuts.

use std::time::Duration;

use mutua_protocol::views::{Instance, MemberId, Message};

use super::world::{Event, Layers};

impl Layers {
    pub(crate) fn cut(&mut self, cuts: &[(usize, usize)]) {
        self.counts.cuts += 1;
        for &pair in cuts {
            *self.cuts.entry(pair).or_default() += 1;
        }
    }

    pub(crate) fn heal(&mut self, cuts: &[(usize, usize)]) {
        for pair in cuts {
            if let Some(count) = self.cuts.get_mut(pair) {
                *count = count.saturating_sub(1);
            }
        }
    }

    pub(crate) fn heal_all(&mut self) {
        self.cuts.clear();
    }

    fn latency(&mut self) -> Duration {
        if self.late > 0 && self.dice.one_in(self.late) {
            self.dice.micros(1000, 1_400_000)
        } else {
            self.dice.micros(50, 2_000)
        }
    }

    fn is_lost(&mut self, from: usize, to: usize) -> bool {
        self.is_cut(from, to) || (self.loss > 0 && self.dice.one_in(self.loss))
    }

    pub(crate) fn send(&mut self, from_slot: usize, to: MemberId, message: Message) {
        let Some(slot) = self.slot_of(to) else { return };
        if self.is_lost(from_slot, slot) {
            return;
        }
        if let Message::Noted { quarantine: Some(_), .. } = &message {
            self.counts.quarantines += 1;
        }
        let from = self.instance(from_slot);
        let mut wait = self.latency();
        if self.late_answers && matches!(message, Message::Answer { .. }) && self.dice.one_in(2) {
            wait = self.dice.micros(500_000, 1_450_000);
        }
        if self.loss > 0 && self.dice.one_in(30) {
            let again = self.dice.micros(50, 1_500_000);
            self.after(again, Event::Deliver { to, from, message: message.clone() });
        }
        self.after(wait, Event::Deliver { to, from, message });
    }

    pub(crate) fn send_beats(&mut self, slot: usize, incarnation: u64) {
        if self.nodes[slot].layer.is_none() || self.nodes[slot].incarnation != incarnation {
            return;
        }
        self.after(self.settings.heartbeat, Event::SendBeats { slot, incarnation });
        let from = self.instance(slot);
        for other in (0..self.nodes.len()).filter(|&other| other != slot) {
            if self.is_lost(slot, other) {
                continue;
            }
            let to = self.nodes[other].id;
            let knows = self.nodes[slot].locks.heard.get(&to).copied();
            let wait = self.latency();
            self.after(wait, Event::Beat { to, from, knows });
        }
    }

    pub(crate) fn on_beat(&mut self, to: MemberId, from: Instance, knows: Option<u64>) {
        let Some(slot) = self.slot_of(to) else { return };
        if self.nodes[slot].layer.is_none() {
            return;
        }
        let heard = self.nodes[slot].locks.heard.entry(from.member).or_default();
        if *heard > from.incarnation.0 {
            return;
        }
        *heard = from.incarnation.0;
        self.call(slot, |layer, now| layer.heard(now, from));
        if knows == Some(self.nodes[slot].incarnation) {
            self.call(slot, |layer, now| layer.link_up(now, from));
        }
    }
}
