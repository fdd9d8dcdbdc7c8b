//! A second simulator, deliberately simple, that shares no code with ours: Maekawa's and Naimi and
//! Trehel's algorithms written once more from the papers, clients by Zipf's law, a heap of events.
//! Both simulators must agree on messages per entry and on the mean wait.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use mutua_algorithms::Setup;
use mutua_simulator::{Distribution, Load, Network, Plan, Report, Who, Workload, simulate};

/// A timestamp: clock and process.
type Stamp = (u64, usize);

/// A message: its kind, the request that it is about, and the sender's clock.
type Message = (&'static str, Stamp, u64);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { from: usize, to: usize, message: Message },
    Request(usize),
    Exit(usize),
}

/// What a process does: messages to others, and whether it enters.
#[derive(Default)]
struct Out {
    sent: Vec<(usize, &'static str, Stamp)>,
    enters: bool,
}

trait Algorithm {
    fn request(&mut self, stamp: Stamp, out: &mut Out);
    fn receive(&mut self, from: usize, kind: &str, stamp: Stamp, out: &mut Out);
    fn release(&mut self, out: &mut Out);
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

/// The events to come: times are whole numbers, and equal times keep their order.
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
fn second(mut nodes: Vec<Box<dyn Algorithm>>, think: f64, entries: u64) -> (f64, f64) {
    let n = nodes.len();
    let harmonic: f64 = (1..=n).map(|rank| 1.0 / rank as f64).sum();
    let thinks = |who: usize| think * harmonic / n as f64 * (who + 1) as f64;
    let (mut dice, mut events) = (Dice(7), Events::default());
    let (mut clock, mut since) = (vec![0; n], vec![0.0; n]);
    let (mut messages, mut entered, mut waited) = (0, 0, 0.0);
    (0..n).for_each(|who| events.push(dice.exponential(thinks(who)), Event::Request(who)));
    while entered < entries {
        let Reverse((time, _, event)) = events.0.pop().expect("there is always an event");
        let now = time as f64 / 1e6;
        let mut out = Out::default();
        let who = match event {
            Event::Request(who) => {
                clock[who] += 1;
                since[who] = now;
                nodes[who].request((clock[who], who), &mut out);
                who
            }
            Event::Arrive { from, to, message: (kind, stamp, sent) } => {
                clock[to] = clock[to].max(sent + 1);
                nodes[to].receive(from, kind, stamp, &mut out);
                to
            }
            Event::Exit(who) => {
                nodes[who].release(&mut out);
                events.push(now + dice.exponential(thinks(who)), Event::Request(who));
                who
            }
        };
        for (to, kind, stamp) in out.sent {
            // A message of a process to itself takes no time and is not counted.
            let latency = if to == who { 0.0 } else { 1.0 };
            messages += u64::from(to != who);
            let message = (kind, stamp, clock[who]);
            events.push(now + latency, Event::Arrive { from: who, to, message });
        }
        if out.enters {
            entered += 1;
            waited += now - since[who];
            events.push(now + 1.0, Event::Exit(who));
        }
    }
    (messages as f64 / entered as f64, waited / entered as f64)
}

/// Naimi and Trehel 1996.
struct NaimiTrehel {
    me: usize,
    last: Option<usize>,
    next: Option<usize>,
    requesting: bool,
}

impl Algorithm for NaimiTrehel {
    fn request(&mut self, stamp: Stamp, out: &mut Out) {
        self.requesting = true;
        match self.last.take() {
            Some(last) => out.sent.push((last, "request", stamp)),
            None => out.enters = true,
        }
    }

    fn receive(&mut self, _: usize, kind: &str, stamp: Stamp, out: &mut Out) {
        out.enters = kind == "token";
        if out.enters {
            return;
        }
        match self.last.replace(stamp.1) {
            Some(last) => out.sent.push((last, "request", stamp)),
            None if self.requesting => self.next = Some(stamp.1),
            None => out.sent.push((stamp.1, "token", stamp)),
        }
    }

    fn release(&mut self, out: &mut Out) {
        self.requesting = false;
        out.sent.extend(self.next.take().map(|next| (next, "token", (0, self.me))));
    }
}

/// Maekawa 1985 with Sanders' corrections; a process is a voter too.
#[derive(Default)]
struct Maekawa {
    quorum: Vec<usize>,
    mine: Stamp,
    votes: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    inquired: BTreeSet<usize>,
    inside: bool,
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
        let Some(candidate) = self.candidate else {
            self.queue.insert(stamp);
            return self.vote(out);
        };
        let head = self.queue.first().copied();
        self.queue.insert(stamp);
        if stamp > candidate || head.is_some_and(|head| head < stamp) {
            out.sent.push((stamp.1, "failed", stamp));
            return;
        }
        out.sent.extend(head.filter(|&head| head < candidate).map(|old| (old.1, "failed", old)));
        if !std::mem::replace(&mut self.asked, true) {
            out.sent.push((candidate.1, "inquire", candidate));
        }
    }

    fn give_back(&mut self, out: &mut Out) {
        for voter in std::mem::take(&mut self.inquired) {
            if self.votes.remove(&voter) {
                self.failed.insert(voter);
                out.sent.push((voter, "relinquish", self.mine));
            }
        }
    }
}

impl Algorithm for Maekawa {
    fn request(&mut self, stamp: Stamp, out: &mut Out) {
        self.mine = stamp;
        out.sent.extend(self.quorum.iter().map(|&voter| (voter, "request", stamp)));
    }

    fn receive(&mut self, from: usize, kind: &str, stamp: Stamp, out: &mut Out) {
        match kind {
            "request" => self.voter(stamp, out),
            "release" => self.vote(out),
            "relinquish" => {
                self.queue.insert(stamp);
                self.vote(out);
            }
            _ if stamp != self.mine || self.inside => {}
            "grant" => {
                self.votes.insert(from);
                self.failed.remove(&from);
                self.inside = self.votes.len() == self.quorum.len();
                out.enters = self.inside;
            }
            "failed" => {
                self.failed.insert(from);
                self.give_back(out);
            }
            _ => {
                self.inquired.insert(from);
                if !self.failed.is_empty() {
                    self.give_back(out);
                }
            }
        }
    }

    fn release(&mut self, out: &mut Out) {
        let stamp = std::mem::take(&mut self.mine);
        self.inside = false;
        for set in [&mut self.votes, &mut self.failed, &mut self.inquired] {
            set.clear();
        }
        out.sent.extend(self.quorum.iter().map(|&voter| (voter, "release", stamp)));
    }
}

/// Our simulator in the same situation.
fn ours(name: &str, nodes: u32, think: f64, entries: u64) -> Report {
    const T: u64 = 1_000_000;
    let think = Distribution::Exponential { mean: (think * T as f64) as u64 };
    let hold = Distribution::Constant(T);
    let workload = Workload { load: Load::Think(think), who: Who::Zipf(1.0), hold };
    let network = Network::new(Distribution::Constant(T));
    let plan = Plan::new(Setup::new(nodes), network, workload, entries);
    simulate(name, &plan).expect("a known algorithm").expect("a system that starts")
}

fn agree(name: &str, (messages, wait): (f64, f64), report: &Report) {
    let found = report.waiting_time.expect("entries").mean;
    for (what, ours, second) in
        [("messages", report.messages_per_entry, messages), ("wait", found, wait)]
    {
        assert!((ours / second - 1.0).abs() < 0.02, "{name}, {what}: {ours}, second {second}");
    }
}

#[test]
fn naimi_trehel_by_zipf_agrees_with_the_second_simulator() {
    for think in [10.0, 60.0] {
        let node = |me: usize| NaimiTrehel {
            me,
            last: (me > 0).then_some(0),
            next: None,
            requesting: false,
        };
        let nodes = (0..20).map(|me| Box::new(node(me)) as Box<dyn Algorithm>).collect();
        let report = ours("naimi-trehel", 20, think, 100_000);
        agree("naimi-trehel", second(nodes, think, 100_000), &report);
    }
}

#[test]
fn maekawa_by_zipf_agrees_with_the_second_simulator() {
    for think in [10.0, 60.0] {
        // Row and column of a square of 3 x 3.
        let meets = |me: usize, other: usize| other / 3 == me / 3 || other % 3 == me % 3;
        let quorum = |me: usize| (0..9).filter(|&other| meets(me, other)).collect();
        let node = |me| Maekawa { quorum: quorum(me), ..Maekawa::default() };
        let nodes = (0..9).map(|me| Box::new(node(me)) as Box<dyn Algorithm>).collect();
        let report = ours("maekawa", 9, think, 100_000);
        agree("maekawa", second(nodes, think, 100_000), &report);
    }
}
