//! Sanders' algorithm costs exactly what the algorithms cost whose sets it is given, and is as safe
//! as its sets are.

use std::collections::VecDeque;

use mutua_algorithms::{
    Effect, Mutex, NodeId, Outbox, Phase, Process, QuorumKind, SetsOf, Setup, Time,
    mutexes::{Maekawa, RicartAgrawala, Sanders},
};

/// A system whose messages all take the same time: they arrive in the order in which they were
/// sent.
struct System<M: Mutex> {
    processes: Vec<Process<M>>,
    network: VecDeque<(NodeId, NodeId, Time, M::Message)>,
    sent: usize,
}

impl<M: Mutex> System<M> {
    fn new(setup: &Setup) -> Self {
        let start = setup.start::<M>().expect("a good setup");
        let processes = start.all().map(|node| Process::new(node, &start)).collect();
        Self { processes, network: VecDeque::new(), sent: 0 }
    }

    fn act(&mut self, node: NodeId, event: impl FnOnce(&mut Process<M>, &mut Outbox<M::Message>)) {
        let mut out = Outbox::new();
        event(&mut self.processes[node.index()], &mut out);
        let time = self.processes[node.index()].time();
        let network = &mut self.network;
        let before = network.len();
        out.drain(|effect| match effect {
            Effect::Send { to, message, .. } => network.push_back((node, to, time, message)),
            Effect::Multicast { to, message } => {
                network.extend(to.iter().map(|&to| (node, to, time, message.clone())));
            }
            Effect::Enter => {}
            other => panic!("a mutual exclusion algorithm without faults does not do {other:?}"),
        });
        self.sent += network.len() - before;
    }

    fn request(&mut self, node: NodeId) {
        self.act(node, |process, out| {
            process.request(out);
        });
    }

    fn release(&mut self, node: NodeId) {
        self.act(node, |process, out| process.release(out));
    }

    /// Delivers so many messages, or as many as there are.
    fn deliver(&mut self, messages: usize) {
        for _ in 0..messages {
            let Some((from, to, sent, message)) = self.network.pop_front() else { return };
            self.act(to, |process, out| {
                process.receive(from, sent, message, out);
            });
        }
    }

    /// Messages of one entry of this process while nobody else wants in.
    fn light(&mut self, node: NodeId) -> usize {
        let before = self.sent;
        self.request(node);
        self.deliver(usize::MAX);
        self.release(node);
        self.deliver(usize::MAX);
        self.sent - before
    }

    /// Messages of so many entries while everyone asks again when it leaves, and who entered.
    fn saturated(&mut self, entries: usize) -> (usize, Vec<NodeId>) {
        for node in 0..self.processes.len() {
            self.request(NodeId::from(node));
        }
        let (before, mut order) = (self.sent, Vec::new());
        while order.len() < entries {
            // One latency: what is under way arrives, then who was inside before leaves.
            let inside = self.inside();
            assert!(inside.is_some() || !self.network.is_empty(), "a deadlock");
            self.deliver(self.network.len());
            if let Some(node) = inside {
                order.push(node);
                self.release(node);
                self.request(node);
            }
        }
        (self.sent - before, order)
    }

    fn inside(&self) -> Option<NodeId> {
        let is_inside = |process: &&Process<M>| process.machine().phase() == Phase::Inside;
        let mut inside = self.processes.iter().filter(is_inside);
        let node = inside.next().map(Process::id);
        assert!(inside.next().is_none(), "two inside");
        node
    }
}

#[test]
fn with_everyone_asked_and_nobody_told_it_is_ricart_agrawala() {
    for nodes in 1..=9 {
        let sanders = Setup::new(nodes).with("sets", "ricart-agrawala");
        let light = System::<Sanders>::new(&sanders).light(NodeId(nodes - 1));
        assert_eq!(light, 2 * (nodes as usize - 1));
        let entries = 5 * nodes as usize;
        let original = System::<RicartAgrawala>::new(&Setup::new(nodes)).saturated(entries);
        assert_eq!(System::<Sanders>::new(&sanders).saturated(entries), original);
    }
}

#[test]
fn with_quorums_asked_and_told_it_is_maekawa() {
    for (kind, nodes, size) in
        [(QuorumKind::Grid, 9, 5), (QuorumKind::Plane, 13, 4), (QuorumKind::Tree, 15, 4)]
    {
        let mut setup = Setup::new(nodes);
        setup.quorums = kind;
        let sanders = setup.clone().with("sets", "maekawa");
        let light = System::<Sanders>::new(&sanders).light(NodeId(2));
        assert_eq!(light, 3 * (size - 1), "{kind:?}");
        let (warm, all) = (5 * nodes as usize, 9 * nodes as usize);
        // Who is first among equals in the beginning differs, and with it a message or two.
        let steady = |sent: &dyn Fn(usize) -> usize| sent(all) - sent(warm);
        let expected = 4 * (size - 1) * (all - warm);
        let original = steady(&|entries| System::<Maekawa>::new(&setup).saturated(entries).0);
        assert_eq!(original, expected, "{kind:?}");
        let ours = steady(&|entries| System::<Sanders>::new(&sanders).saturated(entries).0);
        assert_eq!(ours, expected, "{kind:?}");
    }
}

#[test]
fn with_one_asked_and_told_it_is_central() {
    let setup = Setup::new(6).with("sets", "central");
    let mut system = System::<Sanders>::new(&setup);
    assert_eq!(system.light(NodeId(0)), 0);
    assert_eq!(system.light(NodeId(4)), 3);
    // Three messages for everyone but the coordinator, however busy it is.
    let mut system = System::<Sanders>::new(&setup);
    for node in 0..6 {
        system.request(NodeId(node));
    }
    for _ in 0..6 {
        system.deliver(usize::MAX);
        let inside = system.inside().expect("somebody is next");
        system.release(inside);
    }
    system.deliver(usize::MAX);
    assert_eq!(system.sent, 3 * 5);
}

#[test]
fn sets_that_do_not_keep_two_apart_are_refused_and_let_both_in_if_they_are_not() {
    let mut setup = Setup::new(3).with("sets", "a file");
    let text = "0: request 0 1 inform 0 1\n1: request 0 1 inform 0 1\n2: request 2 inform 2";
    setup.sets = Some(SetsOf::parse(text).expect("well formed"));
    let refusal = setup.start::<Sanders>().expect_err("0 and 2 are not kept apart").to_string();
    assert!(refusal.starts_with("processes 0 and 2 could be inside together"), "{refusal}");
    let mut system = System::<Sanders>::new(&setup.with("check", "off"));
    system.request(NodeId(0));
    system.deliver(usize::MAX);
    system.request(NodeId(2));
    let inside = |node: usize| system.processes[node].machine().phase() == Phase::Inside;
    assert!(inside(0) && inside(2));
}

#[test]
fn sets_that_are_missing_or_of_another_number_are_refused() {
    let mut setup = Setup::new(3).with("sets", "a file");
    let refusal = setup.start::<Sanders>().expect_err("nothing was read").to_string();
    assert!(refusal.contains("`a file`"), "{refusal}");
    setup.sets = Some(SetsOf::parse("0: request 0 inform 0").expect("well formed"));
    let refusal = setup.start::<Sanders>().expect_err("too few").to_string();
    assert!(refusal.ends_with("has the sets of 1 processes, the system has 3"), "{refusal}");
}
