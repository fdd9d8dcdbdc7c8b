//! The repairs under random schedules, around every algorithm and with every election: a process
//! crashes at any point, perhaps restarts, and the survivors go on.

use std::collections::{BTreeSet, VecDeque};

use mutua_algorithms::{
    FencingToken, Links, Mutex, NodeId, Phase, QuorumKind, Setup, Shared, SpecialRepair, Time,
    Timer, Topology,
    registry::{self, MutexVisitor},
    repairs::{Effect, ElectionName, Generic, Outbox, Plan, Purpose, RepairMessage},
    split_mix,
};

/// More steps than any run needs.
const PATIENCE: usize = 30_000;

/// How often each client enters.
const ENTRIES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Request(usize),
    Release(usize),
    /// From, to, and the place on the link.
    Deliver(usize, usize, usize),
    Report(usize, usize),
    Timeout(usize, Timer),
    Crash(usize),
    Restart(usize),
}

/// The messages from one process to another, each with its sender's clock.
type Link<M> = VecDeque<(Time, RepairMessage<<M as Mutex>::Message>)>;

struct System<M: Mutex> {
    plan: Shared<Plan>,
    /// None while a process is down.
    nodes: Vec<Option<Generic<M>>>,
    links: Vec<Vec<Link<M>>>,
    timers: Vec<BTreeSet<Timer>>,
    /// The crashes and restarts of each process, as they were.
    changes: Vec<u32>,
    entries_left: Vec<u32>,
    last_token: Option<FencingToken>,
    crashes_left: u32,
    restarts_left: u32,
    is_special: bool,
    /// A process crashed before every other one knew of an earlier crash. Without a view that all
    /// agree on, epochs need not grow then.
    overlap: bool,
    sent: [u64; 4],
    out: Outbox<M::Message>,
}

impl<M: Mutex> System<M> {
    fn new(setup: &Setup, election: ElectionName, crashes: u32, restarts: u32) -> Self {
        let plan = Plan::new::<M>(setup, election).expect("a plan");
        Self::of_plan(setup, plan, crashes, restarts)
    }

    fn special(setup: &Setup, election: ElectionName, crashes: u32, restarts: u32) -> Self {
        let plan = Plan::new::<M>(setup, election).expect("a plan").with_special();
        Self { is_special: true, ..Self::of_plan(setup, plan, crashes, restarts) }
    }

    fn of_plan(setup: &Setup, plan: Plan, crashes: u32, restarts: u32) -> Self {
        let plan = Shared::new(plan);
        let count = plan.start().processes() as usize;
        let contends = |node: usize| node < setup.nodes as usize;
        let mut system = Self {
            nodes: plan.start().all().map(|me| Some(Generic::new(me, &plan))).collect(),
            links: (0..count).map(|_| vec![VecDeque::new(); count]).collect(),
            timers: vec![BTreeSet::new(); count],
            changes: vec![0; count],
            entries_left: (0..count).map(|node| ENTRIES * u32::from(contends(node))).collect(),
            last_token: None,
            crashes_left: crashes,
            restarts_left: restarts,
            is_special: false,
            overlap: false,
            sent: [0; 4],
            out: Outbox::new(),
            plan,
        };
        for node in 0..count {
            system.call(node, |process, out| process.begin(out));
        }
        system
    }

    fn steps(&self, may_crash: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let count = self.nodes.len();
        let in_transit = self.links.iter().flatten().any(|link| !link.is_empty());
        for node in 0..count {
            for to in 0..count {
                let reorders = self.plan.links() == Links::Any;
                let waiting = self.links[node][to].len();
                let places = if reorders { waiting } else { waiting.min(1) };
                steps.extend((0..places).map(|place| Step::Deliver(node, to, place)));
            }
            let Some(process) = &self.nodes[node] else {
                if self.restarts_left > 0 {
                    steps.push(Step::Restart(node));
                }
                continue;
            };
            match process.phase() {
                Phase::Idle if self.entries_left[node] > 0 => steps.push(Step::Request(node)),
                Phase::InCs => steps.push(Step::Release(node)),
                Phase::Idle | Phase::Requesting => {}
            }
            let known = |other: usize| process.changes().of(NodeId::from(other)).unwrap_or(0);
            let news = (0..count).filter(|&other| known(other) < self.changes[other]);
            steps.extend(news.map(|other| Step::Report(node, other)));
            if !in_transit {
                steps.extend(self.timers[node].iter().map(|&timer| Step::Timeout(node, timer)));
            }
            if may_crash && self.crashes_left > 0 && count > 1 {
                steps.push(Step::Crash(node));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Request(node) => {
                self.entries_left[node] -= 1;
                self.call(node, |process, out| process.request(out));
            }
            Step::Release(node) => self.call(node, |process, out| process.release(out)),
            Step::Deliver(from, to, place) => {
                let (sent, message) = self.links[from][to].remove(place).expect("a message");
                let from = NodeId::from(from);
                self.call(to, |process, out| process.receive(from, sent, message, out));
            }
            Step::Report(node, other) => {
                let id = NodeId::from(other);
                let known = self.nodes[node].as_ref().and_then(|node| node.changes().of(id));
                let next = known.unwrap_or(0) + 1;
                self.call(node, |process, out| process.report(id, next, out));
            }
            Step::Timeout(node, timer) => {
                self.timers[node].remove(&timer);
                self.call(node, |process, out| process.timeout(timer, out));
            }
            Step::Crash(node) => {
                self.crashes_left -= 1;
                self.overlap |= !self.all_know_all_changes();
                self.changes[node] += 1;
                self.nodes[node] = None;
                self.timers[node].clear();
            }
            Step::Restart(node) => {
                self.restarts_left -= 1;
                self.changes[node] += 1;
                let (me, changes) = (NodeId::from(node), self.changes[node]);
                self.nodes[node] = Some(Generic::restarted(me, &self.plan, changes));
                self.call(node, |process, out| process.begin(out));
            }
        }
    }

    fn call(&mut self, me: usize, event: impl FnOnce(&mut Generic<M>, &mut Outbox<M::Message>)) {
        let Some(process) = &mut self.nodes[me] else { return };
        event(process, &mut self.out);
        let time = process.time();
        let (links, timers, sent) = (&mut self.links[me], &mut self.timers[me], &mut self.sent);
        let mut entered = Vec::new();
        let mut post = |to: NodeId, message: RepairMessage<M::Message>| {
            sent[match message.purpose() {
                Purpose::Algorithm => 0,
                Purpose::Election => 1,
                Purpose::Repair => 2,
                Purpose::Detection => 3,
            }] += 1;
            links[to.index()].push_back((time, message));
        };
        self.out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => post(to, message),
            Effect::Multicast { to, message } => {
                to.iter().for_each(|&to| post(to, message.clone()));
            }
            Effect::Enter { token } => entered.push(token),
            Effect::SetTimer { timer, .. } => {
                timers.insert(timer);
            }
            Effect::CancelTimer { timer } => {
                timers.remove(&timer);
            }
            Effect::Nonsense { from, why } => panic!("{me} takes a message of {from}: {why}"),
            Effect::Suspend
            | Effect::StartView { .. }
            | Effect::Resume { .. }
            | Effect::GoOn { .. }
            | Effect::TakeOver { .. } => {}
        });
        for token in entered {
            let others = self.nodes.iter().enumerate().filter(|&(other, _)| other != me);
            let in_cs = |node: &Generic<M>| node.phase() == Phase::InCs;
            let held = others.filter(|(_, node)| node.as_ref().is_some_and(in_cs)).count();
            assert_eq!(held, 0, "{me} enters beside another process");
            let grows = self.last_token < Some(token) || (self.is_special && self.overlap);
            assert!(grows, "the token of {me} does not grow");
            self.last_token = Some(token);
        }
    }

    /// Whether every client that is up has entered as often as it wanted, in one view.
    fn is_over(&self) -> bool {
        let mut up = self.nodes.iter().flatten();
        let first = self.nodes.iter().flatten().find_map(Generic::view);
        self.crashes_left == 0
            && self.restarts_left == 0
            && first.is_some()
            && up.all(|node| {
                node.phase() == Phase::Idle
                    && self.entries_left[node.id().index()] == 0
                    && node.view() == first
            })
            && self.all_know_all_changes()
    }

    fn all_know_all_changes(&self) -> bool {
        self.nodes.iter().flatten().all(|node| {
            let known = |other| node.changes().of(NodeId::from(other));
            (0..self.nodes.len()).all(|other| known(other) == Some(self.changes[other]))
        })
    }

    fn run(&mut self, seed: u64) -> Result<(), String> {
        let mut dice = seed;
        let crash_after = (split_mix::next(&mut dice) % 60) as usize;
        for number in 0..PATIENCE {
            if self.is_over() {
                return Ok(());
            }
            let mut steps = self.steps(number >= crash_after);
            if steps.is_empty() {
                steps = self.steps(true);
            }
            let Some(last) = steps.len().checked_sub(1) else { break };
            self.take(steps[split_mix::next(&mut dice) as usize % (last + 1)]);
        }
        let views: Vec<_> =
            self.nodes.iter().map(|node| node.as_ref().map(Generic::view)).collect();
        let state: Vec<_> = self.nodes.iter().flatten().map(Generic::variables).collect();
        Err(format!("views {views:?}, clients {:?}: {state:?}", self.entries_left))
    }
}

#[derive(Clone, Copy)]
struct Survives {
    crashes: u32,
    restarts: u32,
    special: bool,
}

impl MutexVisitor for Survives {
    type Output = ();

    fn visit<M: Mutex>(self) {
        for (index, &election) in ElectionName::ALL.iter().enumerate() {
            for seed in 0..60 {
                let nodes = 2 + seed as u32 % 4;
                let holder = NodeId(seed as u32 % nodes);
                let setup = Setup { holder, in_cs: seed % 3 == 0, ..Setup::new(nodes) };
                let crashes = self.crashes.min(nodes - 1);
                let make = if self.special { System::<M>::special } else { System::<M>::new };
                let mut system = make(&setup, election, crashes, self.restarts.min(crashes));
                if let Err(why) = system.run(seed + 1000 * index as u64) {
                    let (name, election) = (M::ABOUT.name, election.name());
                    panic!("{name} with {election}, {nodes} processes, seed {seed}: {why}");
                }
            }
        }
    }
}

fn every_algorithm(crashes: u32, restarts: u32) {
    every_algorithm_with(Survives { crashes, restarts, special: false });
}

fn every_algorithm_with(survives: Survives) {
    let usable = |about: &&&mutua_algorithms::About| {
        about.kind == mutua_algorithms::Kind::Mutex && !about.control
    };
    for about in registry::ALGORITHMS.iter().filter(usable) {
        registry::visit_mutex(about.name, survives).expect("a name");
    }
}

#[test]
fn survivors_of_a_crash_go_on_with_every_algorithm_and_election() {
    every_algorithm(1, 0);
}

#[test]
fn survivors_of_two_crashes_go_on_with_every_algorithm_and_election() {
    every_algorithm(2, 0);
}

#[test]
fn a_process_that_restarts_joins_by_the_same_repair() {
    every_algorithm(1, 1);
    every_algorithm(2, 2);
}

#[test]
fn special_repairs_survive_a_crash() {
    every_algorithm_with(Survives { crashes: 1, restarts: 0, special: true });
}

#[test]
fn special_repairs_survive_two_crashes() {
    every_algorithm_with(Survives { crashes: 2, restarts: 0, special: true });
}

#[test]
fn a_process_that_restarts_joins_after_a_special_repair() {
    every_algorithm_with(Survives { crashes: 1, restarts: 1, special: true });
    every_algorithm_with(Survives { crashes: 2, restarts: 2, special: true });
}

#[test]
fn without_a_crash_there_is_no_message_of_a_repair() {
    struct Quiet;
    impl MutexVisitor for Quiet {
        type Output = ();
        fn visit<M: Mutex>(self) {
            let mut system = System::<M>::new(&Setup::new(4), ElectionName::default(), 0, 0);
            system.run(7).expect("a run to the end");
            assert!(system.sent[0] > 0, "{}", M::ABOUT.name);
            assert_eq!(system.sent[1..], [0, 0, 0], "{}", M::ABOUT.name);
        }
    }
    for about in registry::ALGORITHMS.iter().filter(|about| !about.control) {
        registry::visit_mutex(about.name, Quiet);
    }
}

/// Le Lann's acknowledgements are the only messages that a special repair adds without a crash.
#[test]
fn without_a_crash_a_special_repair_sends_acknowledgements_on_a_ring_only() {
    struct Quiet;
    impl MutexVisitor for Quiet {
        type Output = ();
        fn visit<M: Mutex>(self) {
            let mut system = System::<M>::special(&Setup::new(4), ElectionName::default(), 0, 0);
            system.run(7).expect("a run to the end");
            let special = M::special_repair(system.plan.start());
            let acknowledged = special == SpecialRepair::CloseRing { acknowledged: true };
            assert_eq!(system.sent[1..3], [0, 0], "{}", M::ABOUT.name);
            assert_eq!(system.sent[3] > 0, acknowledged, "{}", M::ABOUT.name);
        }
    }
    for about in registry::ALGORITHMS.iter().filter(|about| !about.control) {
        registry::visit_mutex(about.name, Quiet);
    }
}

#[test]
fn structures_without_a_form_for_the_survivors_fall_back() {
    use mutua_algorithms::mutexes::{Maekawa, Raymond};
    for seed in 0..20 {
        let quorums = Setup { quorums: QuorumKind::Plane, ..Setup::new(7) };
        let mut system = System::<Maekawa>::new(&quorums, ElectionName::Bully, 2, 0);
        system.run(seed).unwrap_or_else(|why| panic!("plane, seed {seed}: {why}"));
        let edges = (1..6).map(|node| (NodeId(0), NodeId(node))).collect();
        let tree = Setup { topology: Topology::Edges(edges), ..Setup::new(6) };
        let mut system = System::<Raymond>::new(&tree, ElectionName::ChangRoberts, 2, 1);
        system.run(seed).unwrap_or_else(|why| panic!("edges, seed {seed}: {why}"));
    }
}
