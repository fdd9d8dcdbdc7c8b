use std::collections::VecDeque;

use super::*;
use crate::{Effect, Setup, Time, split_mix::Dice};

/// A whole ring by messages; `links[i]` leads to the right neighbour of `i`, oldest first.
struct Ring {
    machines: Vec<Dijkstra>,
    links: Vec<VecDeque<u32>>,
}

impl Ring {
    fn begin(start: &Start) -> Self {
        let machines = start.all().map(|me| Dijkstra::new(me, start)).collect();
        Self::of(machines)
    }

    fn of(machines: Vec<Dijkstra>) -> Self {
        let mut ring = Self { links: vec![VecDeque::new(); machines.len()], machines };
        for at in 0..ring.machines.len() {
            ring.act(at, |machine, out| machine.begin(out));
        }
        ring
    }

    fn act(&mut self, at: usize, event: impl FnOnce(&mut Dijkstra, &mut Outbox<DijkstraMessage>)) {
        let mut out = Outbox::new();
        event(&mut self.machines[at], &mut out);
        out.drain(|effect| match effect {
            Effect::Send { message: Flag(flag), .. } => self.links[at].push_back(flag),
            Effect::Enter => {}
            other => panic!("{other:?}"),
        });
    }

    /// Delivers the oldest message on the link from `at`.
    fn deliver(&mut self, at: usize) {
        let Some(flag) = self.links[at].pop_front() else { return };
        let to = (at + 1) % self.machines.len();
        self.act(to, |machine, out| machine.receive(NodeId::from(at), Flag(flag), out));
    }

    fn request(&mut self, at: usize) {
        let stamp = Stamp::new(Time::ZERO, NodeId::from(at));
        self.act(at, |machine, out| machine.request(stamp, out));
    }

    fn is_in_cs(&self, at: usize) -> bool {
        self.machines[at].phase == Phase::InCs
    }

    fn flags(&self) -> Vec<u32> {
        self.machines.iter().map(|machine| machine.flag).collect()
    }

    /// Whether flags, messages and copies, read round the ring, change in one place at most.
    fn is_legitimate(&self) -> bool {
        let right = |at: usize| (at + 1) % self.machines.len();
        let cells = (0..self.machines.len()).flat_map(|at| {
            let link = self.links[at].iter().rev().copied();
            let copy = self.machines[right(at)].copy;
            [self.machines[at].flag].into_iter().chain(link).chain([copy])
        });
        let cells: Vec<_> = cells.collect();
        cells.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 1
    }
}

#[test]
fn from_any_flags_copies_and_messages_it_settles_and_stays_so() {
    let mut dice = Dice(1);
    let mut below = |end: u32| dice.below(end.into()) as u32;
    for n in 2..=6u32 {
        let start = Setup::new(n).start::<Dijkstra>().expect("n suits");
        let k = flag_values(&start);
        for _ in 0..200 {
            let owing = NodeId(below(n));
            let machines = start
                .all()
                .map(|me| Dijkstra::anywhere(me, &start, below(k), below(k), me == owing));
            let mut ring = Ring::of(machines.collect());
            for _ in 0..below(n) {
                ring.links[below(n) as usize].push_back(below(k));
            }
            for _ in 0..40 * n * n {
                ring.deliver(below(n) as usize);
            }
            for _ in 0..10 * n {
                assert!(ring.is_legitimate(), "{n} processes: {:?} {:?}", ring.flags(), ring.links);
                ring.deliver(below(n) as usize);
            }
        }
    }
}

#[test]
fn with_a_message_on_every_link_and_too_few_values_it_need_not_settle() {
    let start = Setup::new(4).with("k", "2").start::<Dijkstra>().expect("k = 2 is not refused");
    let flags = [0, 1, 0, 1];
    let machines = start.all().map(|me| {
        let left = left_of(me, 4).index();
        Dijkstra::anywhere(me, &start, flags[me.index()], flags[left], false)
    });
    let mut ring = Ring::of(machines.collect());
    for (link, flag) in ring.links.iter_mut().zip(flags) {
        link.push_back(flag);
    }
    let mut direct = crate::self_stabilizing::Ring::new(2, flags.to_vec());
    for _ in 0..16 {
        assert_eq!(ring.flags(), direct.flags());
        assert!(!ring.is_legitimate());
        // A round delivers each message that was there when it began: the synchronous daemon.
        for at in 0..4 {
            ring.deliver(at);
        }
        direct = direct.step(&direct.privileged().collect::<Vec<_>>());
    }
    assert_eq!(ring.flags(), flags);
}

#[test]
fn the_holder_enters_first_and_then_the_ring_in_its_order() {
    for holder in 0..4 {
        let mut setup = Setup::new(4);
        setup.holder = NodeId(holder);
        setup.in_cs = true;
        let mut ring = Ring::begin(&setup.start::<Dijkstra>().expect("four suit"));
        for turn in holder..holder + 12 {
            let in_cs: Vec<_> = (0..4).filter(|&at| ring.is_in_cs(at)).collect();
            let at = (turn % 4) as usize;
            assert_eq!(in_cs, [at]);
            assert!(ring.is_legitimate());
            let next = (at + 1) % 4;
            ring.request(next);
            ring.act(at, |machine, out| machine.release(out));
            ring.deliver(at);
        }
    }
}

#[test]
fn alone_it_always_may_enter() {
    let mut ring = Ring::begin(&Setup::new(1).start::<Dijkstra>().expect("one suits"));
    for _ in 0..5 {
        assert!(ring.machines[0].would_enter_at_once());
        ring.request(0);
        assert!(ring.is_in_cs(0));
        ring.act(0, |machine, out| machine.release(out));
    }
}

#[test]
fn a_flag_of_one_value_is_refused() {
    let error = Setup::new(3).with("k", "1").start::<Dijkstra>().expect_err("k = 1");
    assert_eq!(error.to_string(), "a flag of 1 values; k is at least 2");
}
