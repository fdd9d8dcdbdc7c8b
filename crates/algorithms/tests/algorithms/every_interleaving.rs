//! Every interleaving of systems of two and three processes, for the algorithms that are meant to
//! stand it: at most one is in the critical section, the fencing token grows, every process can
//! still finish from every state, no message of the algorithm is taken for nonsense, and nonsense
//! changes nothing.
//!
//! States are compared and hashed here, which a cluster with its trace cannot be, so this test has
//! a system of its own.

// The order of a hash map is never looked at here: it only records what was seen before.
#![allow(clippy::disallowed_types)]

use std::collections::{BTreeSet, HashMap};

use mutua_algorithms::{
    Effect, FencingToken, Links, Mutex, NodeId, Outbox, Phase, Process, Setup, Start, Time,
    mutexes::*,
};

/// A message under way; older ones come first in the network.
type Flight<M> = (NodeId, NodeId, Time, M);

/// The parts by which states differ. Where stamps decide nothing, clocks are left out: they would
/// make a token that never rests into infinitely many states.
type Key<M> = (Vec<M>, Vec<Time>, Vec<Flight<<M as Mutex>::Message>>, Vec<u32>);

#[derive(Clone)]
struct System<M: Mutex> {
    processes: Vec<Process<M>>,
    network: Vec<Flight<M::Message>>,
    /// How often each client will still request; the one that begins in the critical section has
    /// had its first turn.
    turns: Vec<u32>,
    last_token: Option<FencingToken>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Request(usize),
    Release(usize),
    Deliver(usize),
}

impl<M: Mutex> System<M> {
    fn new(start: &Start, turns: u32) -> Self {
        let mut system = Self {
            processes: start.all().map(|me| Process::new(me, start)).collect(),
            network: Vec::new(),
            turns: vec![0; start.all().len()],
            last_token: None,
        };
        for contender in start.all().take(start.contenders() as usize) {
            system.turns[contender.index()] = turns - u32::from(start.is_in_cs(contender));
        }
        let mut out = Outbox::new();
        for process in 0..system.processes.len() {
            system.processes[process].begin(&mut out);
            system.carry_out(process, &mut out);
        }
        system
    }

    fn steps(&self, links: Links) -> Vec<Step> {
        let clients =
            self.processes.iter().enumerate().filter_map(|(index, process)| {
                match process.machine().phase() {
                    Phase::Idle => (self.turns[index] > 0).then_some(Step::Request(index)),
                    Phase::Requesting => None,
                    Phase::InCs => Some(Step::Release(index)),
                }
            });
        let deliveries = (0..self.network.len()).filter(|&index| {
            let (from, to, ..) = self.network[index];
            let overtakes = self.network[..index].iter().any(|&(f, t, ..)| (f, t) == (from, to));
            links == Links::Any || !overtakes
        });
        clients.chain(deliveries.map(Step::Deliver)).collect()
    }

    fn take(&mut self, step: Step) {
        let mut out = Outbox::new();
        let (index, fencing_token) = match step {
            Step::Request(index) => {
                self.turns[index] -= 1;
                (index, self.processes[index].request(&mut out))
            }
            Step::Release(index) => {
                self.processes[index].release(&mut out);
                (index, None)
            }
            Step::Deliver(flight) => {
                let (from, to, sent, message) = self.network.remove(flight);
                let receiver = &mut self.processes[to.index()];
                (to.index(), receiver.receive(from, sent, message, &mut out))
            }
        };
        self.carry_out(index, &mut out);
        if fencing_token.is_some() {
            let last = std::mem::replace(&mut self.last_token, fencing_token);
            assert!(fencing_token > last, "{fencing_token:?} after {last:?}");
        }
    }

    fn carry_out(&mut self, index: usize, out: &mut Outbox<M::Message>) {
        let (me, time) = (NodeId::from(index), self.processes[index].time());
        out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => {
                assert_ne!(to, me, "a message to oneself");
                self.network.push((me, to, time, message));
            }
            Effect::Multicast { to, message } => {
                self.network.extend(to.iter().map(|&to| (me, to, time, message.clone())));
            }
            Effect::Enter => {}
            other => panic!("process {me}: {other:?}"),
        });
    }

    fn key(&self, links: Links) -> Key<M> {
        let mut network = self.network.clone();
        let mut times: Vec<_> = self.processes.iter().map(Process::time).collect();
        if !M::ABOUT.uses_stamps {
            times.clear();
            network.iter_mut().for_each(|flight| flight.2 = Time::ZERO);
        }
        match links {
            Links::Any => network.sort(),
            // Only the order on each link counts.
            Links::Fifo => network.sort_by_key(|&(from, to, ..)| (from, to)),
        }
        let machines = self.processes.iter().map(|process| process.machine().clone()).collect();
        (machines, times, network, self.turns.clone())
    }

    fn in_cs(&self) -> usize {
        self.processes.iter().filter(|process| process.machine().phase() == Phase::InCs).count()
    }

    fn is_done(&self) -> bool {
        let idle = |process: &Process<M>| process.machine().phase() == Phase::Idle;
        self.turns.iter().all(|&turns| turns == 0) && self.processes.iter().all(idle)
    }
}

/// Walks through every state.
fn explore<M: Mutex>(setup: &Setup, turns: u32, links: Links) {
    let start = setup.start::<M>().expect("the start suits the algorithm");
    let first = System::<M>::new(&start, turns);
    let mut known = HashMap::from([(first.key(links), 0)]);
    // For every state how it was reached first, for the message; and whence it can be reached.
    let mut reached: Vec<Option<(usize, Step)>> = vec![None];
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut done = Vec::new();
    let mut rumours = BTreeSet::new();
    let mut frontier = vec![(0, first)];
    while let Some((here, system)) = frontier.pop() {
        assert!(
            system.in_cs() <= 1,
            "two in the critical section after {:?}",
            path(&reached, here)
        );
        if system.is_done() {
            done.push(here);
        }
        for step in system.steps(links) {
            let mut next = system.clone();
            next.take(step);
            rumours.extend(next.network.iter().map(|flight| flight.3.clone()));
            let index = *known.entry(next.key(links)).or_insert_with(|| {
                reached.push(Some((here, step)));
                before.push(Vec::new());
                frontier.push((reached.len() - 1, next));
                reached.len() - 1
            });
            before[index].push(here);
        }
    }
    assert_all_reach(&before, done, &reached);
    if setup.nodes == 2 {
        known.keys().for_each(|key| assert_nonsense_changes_nothing(&key.0, &rumours));
    }
}

fn path(reached: &[Option<(usize, Step)>], mut here: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((before, step)) = reached[here] {
        steps.push(step);
        here = before;
    }
    steps.reverse();
    steps
}

/// From every state some way leads to the end: no process is stuck, and no run goes round for ever.
fn assert_all_reach(
    before: &[Vec<usize>],
    mut done: Vec<usize>,
    reached: &[Option<(usize, Step)>],
) {
    let mut can_finish = vec![false; before.len()];
    done.iter().for_each(|&state| can_finish[state] = true);
    while let Some(state) = done.pop() {
        for &earlier in &before[state] {
            if !std::mem::replace(&mut can_finish[earlier], true) {
                done.push(earlier);
            }
        }
    }
    if let Some(stuck) = can_finish.iter().position(|&can| !can) {
        panic!("some wait for ever after {:?}", path(reached, stuck));
    }
}

/// Any message of the run, from any process to any other at any time, is handled without a panic,
/// and changes nothing if it is reported as nonsense.
fn assert_nonsense_changes_nothing<M: Mutex>(machines: &[M], rumours: &BTreeSet<M::Message>) {
    let mut out = Outbox::new();
    for machine in machines {
        for (rumour, from) in rumours.iter().flat_map(|rumour| (0..4).map(move |id| (rumour, id))) {
            let mut receiver = machine.clone();
            receiver.receive(NodeId(from), rumour.clone(), &mut out);
            let (mut effects, mut nonsense) = (0, false);
            out.drain(|effect| {
                effects += 1;
                nonsense |= matches!(effect, Effect::Nonsense { .. });
            });
            assert!(!nonsense || (receiver == *machine && effects == 1), "{rumour:?} from {from}");
        }
    }
}

/// One, two and three processes, both starts, every holder.
fn stands<M: Mutex>(options: &[(&str, &str)]) {
    for (nodes, turns) in [(1, 2), (2, 2), (3, 1)] {
        for holder in 0..nodes {
            stands_from::<M>(options, nodes, turns, holder);
        }
    }
}

/// Both starts with one holder, and all links that the algorithm stands.
fn stands_from<M: Mutex>(options: &[(&str, &str)], nodes: u32, turns: u32, holder: u32) {
    let mut setup = Setup { holder: NodeId(holder), ..Setup::new(nodes) };
    for (key, value) in options {
        setup = setup.with(key, value);
    }
    for in_cs in [false, true] {
        setup.in_cs = in_cs;
        explore::<M>(&setup, turns, Links::Fifo);
        if M::ABOUT.links == Links::Any {
            explore::<M>(&setup, turns, Links::Any);
        }
    }
}

#[test]
fn central() {
    for coordinator in ["dedicated", "member"] {
        for (refusal, queue) in [("silent", "arrival"), ("denied", "arrival"), ("silent", "clock")]
        {
            stands::<Central>(&[
                ("coordinator", coordinator),
                ("refusal", refusal),
                ("queue", queue),
            ]);
        }
    }
}

#[test]
fn le_lann() {
    stands::<LeLann>(&[]);
}

#[test]
fn lamport() {
    for confirm in ["any", "reply"] {
        // Its states are many, and it has no idle holder.
        for (nodes, holder) in [(1, 0), (2, 0), (2, 1)] {
            stands_from::<Lamport>(&[("confirm", confirm)], nodes, 2, holder);
        }
        stands_from::<Lamport>(&[("confirm", confirm)], 3, 1, 1);
    }
}

#[test]
fn carvalho_roucairol() {
    stands::<CarvalhoRoucairol>(&[]);
}

#[test]
fn naimi_trehel() {
    stands::<NaimiTrehel>(&[]);
}

#[test]
fn ricart_agrawala() {
    stands::<RicartAgrawala>(&[]);
}

#[test]
fn suzuki_kasami() {
    stands::<SuzukiKasami>(&[("scan", "first")]);
    stands::<SuzukiKasami>(&[("scan", "next")]);
}

#[test]
fn ricart_agrawala_token() {
    stands::<RicartAgrawalaToken>(&[]);
}

#[test]
fn raymond() {
    stands::<Raymond>(&[("start", "given")]);
    stands::<Raymond>(&[("start", "flood")]);
}

#[test]
fn neilsen_mizuno() {
    stands::<NeilsenMizuno>(&[]);
}

#[test]
fn sanders() {
    for sets in ["ricart-agrawala", "maekawa", "central"] {
        stands::<Sanders>(&[("sets", sets)]);
    }
}
