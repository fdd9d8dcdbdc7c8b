//! The second simulator: the algorithms from the papers, and a heap of events.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// A timestamp: clock and process.
pub(crate) type Stamp = (u64, usize);

/// An event at a process: its kind, the sender, the request that it is about, the sender's clock.
/// Kinds are those of messages, and `acquire` and `exit` of the client.
type Event = (usize, &'static str, usize, Stamp, u64);

/// What a process does: messages to others, and whether it enters.
#[derive(Default)]
pub(crate) struct Out {
    sent: Vec<(usize, &'static str, Stamp)>,
    enters: bool,
}

pub(crate) trait Algorithm {
    fn on(&mut self, kind: &str, from: usize, stamp: Stamp, out: &mut Out);
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn exponential(&mut self, mean: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        -mean * (1.0 - unit).ln()
    }
}

/// The events to come; equal times keep their order.
#[derive(Default)]
struct Events(BinaryHeap<Reverse<(u64, u64, Event)>>, u64);

impl Events {
    fn push(&mut self, time: f64, event: Event) {
        self.1 += 1;
        self.0.push(Reverse(((time * 1e6) as u64, self.1, event)));
    }
}

/// Messages per entry and the mean wait, in latencies; the hold time is 1 too. The process of rank
/// r thinks for a time in proportion to r.
pub(crate) fn second(mut nodes: Vec<Box<dyn Algorithm>>, think: f64, entries: u64) -> (f64, f64) {
    let n = nodes.len();
    let harmonic: f64 = (1..=n).map(|rank| 1.0 / rank as f64).sum();
    let thinks = |who: usize| think * harmonic / n as f64 * (who + 1) as f64;
    let client = |who: usize, kind| (who, kind, who, (0, who), 0);
    let (mut dice, mut events) = (Dice(7), Events::default());
    let (mut clock, mut since) = (vec![0; n], vec![0.0; n]);
    let (mut messages, mut entered, mut waited) = (0, 0, 0.0);
    (0..n).for_each(|who| events.push(dice.exponential(thinks(who)), client(who, "acquire")));
    while entered < entries {
        let Reverse((time, _, event)) = events.0.pop().expect("there is always an event");
        let (who, kind, from, mut stamp, sent) = event;
        let (now, mut out) = (time as f64 / 1e6, Out::default());
        match kind {
            "acquire" => {
                clock[who] += 1;
                since[who] = now;
                stamp = (clock[who], who);
            }
            "exit" => events.push(now + dice.exponential(thinks(who)), client(who, "acquire")),
            _ => clock[who] = clock[who].max(sent + 1),
        }
        nodes[who].on(kind, from, stamp, &mut out);
        for (to, kind, stamp) in out.sent {
            // A message of a process to itself takes no time and is not counted.
            messages += u64::from(to != who);
            let latency = if to == who { 0.0 } else { 1.0 };
            events.push(now + latency, (to, kind, who, stamp, clock[who]));
        }
        if out.enters {
            entered += 1;
            waited += now - since[who];
            events.push(now + 1.0, client(who, "exit"));
        }
    }
    (messages as f64 / entered as f64, waited / entered as f64)
}

/// Naimi and Trehel 1996.
pub(crate) struct NaimiTrehel {
    pub(crate) last: Option<usize>,
    pub(crate) next: Option<usize>,
    pub(crate) requesting: bool,
}

impl Algorithm for NaimiTrehel {
    fn on(&mut self, kind: &str, _: usize, stamp: Stamp, out: &mut Out) {
        match (kind, self.last) {
            ("acquire", last) => {
                self.requesting = true;
                self.last = None;
                out.enters = last.is_none();
                out.sent.extend(last.map(|last| (last, "request", stamp)));
            }
            ("token", _) => out.enters = true,
            ("exit", _) => {
                self.requesting = false;
                out.sent.extend(self.next.take().map(|next| (next, "token", stamp)));
            }
            (_, last) => {
                self.last = Some(stamp.1);
                match last {
                    Some(last) => out.sent.push((last, "request", stamp)),
                    None if self.requesting => self.next = Some(stamp.1),
                    None => out.sent.push((stamp.1, "token", stamp)),
                }
            }
        }
    }
}

/// Maekawa 1985 with Sanders' corrections; a process is a voter too.
#[derive(Default)]
pub(crate) struct Maekawa {
    pub(crate) quorum: Vec<usize>,
    mine: Stamp,
    votes: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    inquired: BTreeSet<usize>,
    in_cs: bool,
    candidate: Option<Stamp>,
    asked: bool,
    queue: BTreeSet<Stamp>,
}

impl Maekawa {
    fn vote(&mut self, out: &mut Out) {
        self.asked = false;
        self.candidate = self.queue.pop_first();
        out.sent.extend(self.candidate.map(|best| (best.1, "grant", best)));
    }

    fn voter(&mut self, stamp: Stamp, out: &mut Out) {
        let head = self.queue.first().copied();
        self.queue.insert(stamp);
        let Some(candidate) = self.candidate else { return self.vote(out) };
        if stamp > candidate || head.is_some_and(|head| head < stamp) {
            return out.sent.push((stamp.1, "failed", stamp));
        }
        out.sent.extend(head.filter(|&head| head < candidate).map(|old| (old.1, "failed", old)));
        if !std::mem::replace(&mut self.asked, true) {
            out.sent.push((candidate.1, "inquire", candidate));
        }
    }
}

impl Algorithm for Maekawa {
    fn on(&mut self, kind: &str, from: usize, stamp: Stamp, out: &mut Out) {
        match kind {
            "acquire" => {
                self.mine = stamp;
                out.sent.extend(self.quorum.iter().map(|&voter| (voter, "request", stamp)));
            }
            "exit" => {
                self.in_cs = false;
                let mine = std::mem::take(&mut self.mine);
                for set in [&mut self.votes, &mut self.failed, &mut self.inquired] {
                    set.clear();
                }
                out.sent.extend(self.quorum.iter().map(|&voter| (voter, "release", mine)));
            }
            "request" => self.voter(stamp, out),
            "release" => self.vote(out),
            "relinquish" => {
                self.queue.insert(stamp);
                self.vote(out);
            }
            _ if stamp != self.mine || self.in_cs => {}
            "grant" => {
                self.votes.insert(from);
                self.failed.remove(&from);
                self.in_cs = self.votes.len() == self.quorum.len();
                out.enters = self.in_cs;
            }
            _ => {
                (if kind == "failed" { &mut self.failed } else { &mut self.inquired }).insert(from);
                // With a FAILED it cannot enter now, and returns the votes that are inquired for.
                while !self.failed.is_empty()
                    && let Some(voter) = self.inquired.pop_first()
                {
                    if self.votes.remove(&voter) {
                        self.failed.insert(voter);
                        out.sent.push((voter, "relinquish", self.mine));
                    }
                }
            }
        }
    }
}
