//! Whole nodes send exactly what the bare algorithm sends, and nothing for being in a node.

mod network;

use std::{collections::VecDeque, time::Duration};

use mutua_algorithms::{
    Effect, Mutex, NodeId, Outbox, Process, Setup, Time,
    registry::{self, MutexVisitor},
};
use mutua_brain::{Answer, Member, Rule, usable};
use network::{Scene, World};

const NODES: usize = 5;

/// Who wants in, one after the other.
const SEQUENCE: [usize; 14] = [3, 3, 0, 4, 1, 0, 0, 2, 4, 3, 1, 1, 2, 0];

/// The messages of every entry of bare processes, lazy ones left out.
struct Bare {
    home: NodeId,
    coordinator: bool,
}

impl MutexVisitor for Bare {
    type Output = Vec<u64>;

    fn visit<M: Mutex>(self) -> Vec<u64> {
        let mut setup = Setup::new(NODES as u32);
        (setup.holder, setup.coordinator) = (self.home, self.home);
        if self.coordinator {
            setup.settings.set("coordinator", "member");
        }
        let start = setup.start::<M>().expect("a start");
        let mut system = System::<M> {
            processes: start.all().map(|node| Process::new(node, &start)).collect(),
            eager: VecDeque::new(),
            lazy: VecDeque::new(),
            entered: None,
            count: 0,
        };
        for node in start.all() {
            system.call(node, |process, out| process.begin(out));
        }
        SEQUENCE.into_iter().map(|node| system.enter_and_leave(node.into())).collect()
    }
}

/// Bare processes on links that keep order.
struct System<M: Mutex> {
    processes: Vec<Process<M>>,
    eager: VecDeque<(NodeId, NodeId, Time, M::Message)>,
    lazy: VecDeque<(NodeId, NodeId, Time, M::Message)>,
    entered: Option<NodeId>,
    count: u64,
}

impl<M: Mutex> System<M> {
    fn enter_and_leave(&mut self, node: NodeId) -> u64 {
        let before = self.count;
        self.call(node, |process, out| {
            process.request(out);
        });
        while self.entered.is_none() {
            // Lazy messages go when nothing else does.
            let next = self.eager.pop_front().or_else(|| self.lazy.pop_front());
            self.deliver(next.expect("a message on the way while somebody waits"));
        }
        assert_eq!(self.entered.take(), Some(node));
        self.call(node, |process, out| process.release(out));
        while let Some(next) = self.eager.pop_front() {
            self.deliver(next);
        }
        self.count - before
    }

    fn deliver(&mut self, (from, to, sent, message): (NodeId, NodeId, Time, M::Message)) {
        self.call(to, |process, out| {
            process.receive(from, sent, message, out);
        });
    }

    fn call(&mut self, node: NodeId, call: impl FnOnce(&mut Process<M>, &mut Outbox<M::Message>)) {
        let mut out = Outbox::new();
        let process = &mut self.processes[node.index()];
        call(process, &mut out);
        let time = process.time();
        out.drain(|effect| match effect {
            Effect::Send { to, message, lazy: true } => {
                self.lazy.push_back((node, to, time, message));
            }
            Effect::Send { to, message, lazy: false } => {
                self.count += 1;
                self.eager.push_back((node, to, time, message));
            }
            Effect::Multicast { to, message } => {
                self.count += to.len() as u64;
                for &to in to {
                    self.eager.push_back((node, to, time, message.clone()));
                }
            }
            Effect::Enter => self.entered = Some(node),
            other => panic!("{other:?} from an algorithm of mutual exclusion"),
        });
    }
}

/// The messages of every entry on whole nodes, counted by the nodes.
fn whole(algorithm: &str) -> (Vec<u64>, Member) {
    let mut scene = Scene::new(1, NODES, Rule::new("*", algorithm));
    (scene.names, scene.clients) = (1, 0);
    scene.limits.forget_after = Duration::from_secs(100_000);
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    let name = World::name(0);
    let brain = |world: &World, node: usize| {
        let brain = world.places[node].brain.as_ref().expect("up");
        (brain.status(world.now).counts.messages, brain.lock_status(world.now, &name))
    };
    let home = brain(&world, 0).1.and_then(|lock| lock.home).expect("a home");
    let total = |world: &World| (0..NODES).map(|node| brain(world, node).0).sum::<u64>();
    let mut counts = Vec::new();
    for node in SEQUENCE {
        let before = total(&world);
        let (now, lock) = (world.now, world.places[node].locks[0]);
        let ticket = match world.call(node, |brain| brain.acquire(now, lock, None)) {
            Answer::Granted { ticket, .. } => ticket,
            Answer::Waiting { ticket } => {
                world.pass(Duration::from_secs(20));
                assert_eq!(world.granted.pop(), Some((node, ticket)), "{algorithm}");
                ticket
            }
            Answer::Refused(why) => panic!("{algorithm}: {why}"),
        };
        let now = world.now;
        assert!(world.call(node, |brain| brain.release(now, lock, ticket)));
        world.pass(Duration::from_secs(5));
        counts.push(total(&world) - before);
    }
    (counts, home)
}

#[test]
fn entries_one_at_a_time_cost_exactly_what_the_bare_algorithm_costs() {
    for about in usable() {
        let (whole, home) = whole(about.name);
        let coordinator = about.options.iter().any(|choice| choice.key == "coordinator");
        let bare = registry::visit_mutex(about.name, Bare { home: NodeId(home.0), coordinator });
        assert_eq!(Some(whole.clone()), bare, "{}", about.name);
        println!("{:<24} {whole:?}", about.name);
    }
}
