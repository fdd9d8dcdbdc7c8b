//! Connections between nodes: ordered, late, cut in one direction or both, broken.

use std::time::Duration;

use mutua_protocol::{Connection, Hello, Member, WireError};

use super::world::{Event, World};

/// How long bytes are on their way, in microseconds, unless they are late.
const DELAY: (u64, u64) = (50, 1500);

/// The longest of these delays, in nanoseconds.
pub(crate) const LONGEST_DELAY: u64 = DELAY.1 * 1000;

/// A connection from `ends[0]`, which dials, to `ends[1]`.
pub(crate) struct Wire {
    ends: [usize; 2],
    incarnations: [u64; 2],
    alive: bool,
    /// Whether the hello has arrived at each end.
    greeted: [bool; 2],
    /// When the last bytes to each end arrive: order is kept.
    last: [u64; 2],
    /// Bytes to each end that are sent again when the cut is healed.
    stalled: [Vec<Vec<u8>>; 2],
}

impl World {
    pub(crate) fn dial_all(&mut self, slot: usize) {
        for to in 0..slot {
            let wait = self.dice.micros(10, 2000);
            self.after(wait, Event::Dial { from: slot, to });
        }
        for from in slot + 1..self.nodes.len() {
            let wait = self.dice.micros(10, 2000);
            self.after(wait, Event::Dial { from, to: slot });
        }
    }

    pub(crate) fn dial(&mut self, from: usize, to: usize) {
        let up = |slot: usize| self.nodes[slot].layer.is_some();
        if !up(from) || self.wires.iter().any(|wire| wire.ends == [from, to] && self.lives(wire)) {
            return;
        }
        if !up(to) {
            // It lets itself be dialled when it starts.
            return;
        }
        if self.is_cut(from, to) || self.is_cut(to, from) {
            let wait = self.dice.micros(20_000, 100_000);
            return self.after(wait, Event::Dial { from, to });
        }
        let wire = self.wires.len();
        self.wires.push(Wire {
            ends: [from, to],
            incarnations: [self.nodes[from].incarnation, self.nodes[to].incarnation],
            alive: true,
            greeted: [false; 2],
            last: [self.now; 2],
            stalled: [Vec::new(), Vec::new()],
        });
        let hello = self.nodes[from].layer.as_mut().expect("up").hello(Member(to as u32));
        self.send(wire, to, hello);
    }

    fn lives(&self, wire: &Wire) -> bool {
        wire.alive && (0..2).all(|end| self.is_up(wire.ends[end], wire.incarnations[end]))
    }

    pub(crate) fn write(&mut self, slot: usize, peer: usize) {
        let incarnation = self.nodes[slot].incarnation;
        let Some(wire) = self.wires.iter().rposition(|wire| {
            let ends = wire.ends == [slot, peer] || wire.ends == [peer, slot];
            ends && wire.incarnations[usize::from(wire.ends[1] == slot)] == incarnation
        }) else {
            return;
        };
        loop {
            let mut bytes = Vec::new();
            let protocol = self.nodes[slot].layer.as_mut().expect("up");
            if !protocol.output(Member(peer as u32), Connection(wire as u64), &mut bytes) {
                return;
            }
            self.send(wire, peer, bytes);
        }
    }

    fn send(&mut self, wire: usize, to: usize, bytes: Vec<u8>) {
        if !self.wires[wire].alive {
            return;
        }
        let end = self.end_of(wire, to);
        let from = self.wires[wire].ends[1 - end];
        if self.is_cut(from, to) || !self.wires[wire].stalled[end].is_empty() {
            return self.wires[wire].stalled[end].push(bytes);
        }
        let wait = if self.late > 0 && self.dice.one_in(self.late) {
            self.dice.micros(1000, 1_000_000)
        } else {
            self.dice.micros(DELAY.0, DELAY.1)
        };
        let last = &mut self.wires[wire].last[end];
        *last = (self.now + wait.as_nanos() as u64).max(*last + 1);
        let at = *last;
        self.at(at, Event::Bytes { wire, to, bytes });
    }

    fn end_of(&self, wire: usize, slot: usize) -> usize {
        usize::from(self.wires[wire].ends[1] == slot)
    }

    pub(crate) fn arrive(&mut self, wire: usize, to: usize, bytes: &[u8]) {
        let end = self.end_of(wire, to);
        if !self.wires[wire].alive || !self.is_up(to, self.wires[wire].incarnations[end]) {
            return;
        }
        let connection = Connection(wire as u64);
        let from = self.wires[wire].ends[1 - end];
        let mut rest = bytes;
        if !self.wires[wire].greeted[end] {
            self.wires[wire].greeted[end] = true;
            let (hello, length) = match Hello::decode(bytes) {
                Ok(hello) => hello.expect("a whole one"),
                Err(WireError::Refused(refused)) => {
                    self.note(|| format!("{to}: {refused}"));
                    return self.close(wire);
                }
                Err(error) => panic!("a hello: {error}"),
            };
            rest = &bytes[length..];
            let now = self.local(to);
            let protocol = self.nodes[to].layer.as_mut().expect("up");
            if let Err(refused) = protocol.connected(now, connection, &hello) {
                self.note(|| format!("{to}: {refused}"));
                return self.close(wire);
            }
            if end == 1 {
                let protocol = self.nodes[to].layer.as_mut().expect("up");
                let answer = protocol.hello(Member(from as u32));
                self.send(wire, from, answer);
            }
            self.pump(to);
        }
        if !rest.is_empty() && self.wires[wire].alive {
            let peer = Member(from as u32);
            self.call(to, |protocol, now| protocol.received(now, peer, connection, rest));
        }
    }

    /// A connection breaks: the bytes on it are dropped. An end that is cut off does not notice.
    pub(crate) fn close(&mut self, wire: usize) {
        if !std::mem::replace(&mut self.wires[wire].alive, false) {
            return;
        }
        self.wires[wire].stalled = [Vec::new(), Vec::new()];
        let [from, to] = self.wires[wire].ends;
        for (at, other) in [(from, to), (to, from)] {
            if !self.is_cut(other, at) {
                let most = if self.dice.one_in(4) { 400_000 } else { 900 };
                let wait = self.dice.micros(1, most);
                self.after(wait, Event::Closed { wire, at });
            }
        }
        let wait = self.dice.micros(500, 50_000);
        self.after(wait, Event::Dial { from, to });
    }

    pub(crate) fn close_end(&mut self, wire: usize, at: usize) {
        let end = self.end_of(wire, at);
        if self.is_up(at, self.wires[wire].incarnations[end]) {
            let peer = Member(self.wires[wire].ends[1 - end] as u32);
            let connection = Connection(wire as u64);
            self.call(at, |protocol, now| protocol.disconnected(now, peer, connection));
        }
    }

    /// Breaks these connections; returns whether there were any.
    pub(crate) fn break_wires(&mut self, which: impl Fn(&[usize; 2]) -> bool) -> bool {
        let mut any = false;
        for wire in 0..self.wires.len() {
            if self.wires[wire].alive && which(&self.wires[wire].ends) {
                self.close(wire);
                any = true;
            }
        }
        any
    }

    pub(crate) fn cut(&mut self, cuts: &[(usize, usize)]) {
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
        for wire in 0..self.wires.len() {
            for end in 0..2 {
                let to = self.wires[wire].ends[end];
                if self.is_cut(self.wires[wire].ends[1 - end], to) {
                    continue;
                }
                for bytes in std::mem::take(&mut self.wires[wire].stalled[end]) {
                    self.send(wire, to, bytes);
                }
            }
        }
    }

    /// Cuts for a while, and perhaps breaks the connections at once.
    pub(crate) fn cut_for(&mut self, cuts: Vec<(usize, usize)>, wait: Duration) {
        self.note(|| format!("cut {cuts:?} for {wait:?}"));
        if self.dice.one_in(3) {
            self.break_wires(|&[a, b]| cuts.contains(&(a, b)) || cuts.contains(&(b, a)));
        }
        self.cut(&cuts);
        self.after(wait, Event::Heal { cuts });
    }
}
