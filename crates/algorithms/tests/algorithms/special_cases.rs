//! Sanders' algorithm costs exactly what the algorithms cost whose sets it is given, and is as safe
//! as its sets are.

use mutua_algorithms::{
    Links, Mutex, NodeId, QuorumKind, SetsOf, Setup,
    mutexes::{Maekawa, RicartAgrawala, Sanders},
};
use mutua_lab::Cluster;

/// A system whose messages all take the same time: they arrive in the order in which they were
/// sent.
struct System<M: Mutex>(Cluster<M>);

impl<M: Mutex> System<M> {
    fn new(setup: &Setup) -> Self {
        let start = setup.start::<M>().expect("a good setup");
        Self(Cluster::unrecorded(start, Links::Fifo))
    }

    fn request(&mut self, node: NodeId) {
        self.0.request(node).expect("its client is idle");
    }

    fn release(&mut self, node: NodeId) {
        self.0.release(node).expect("its client is in the critical section");
    }

    fn deliver_all(&mut self) {
        self.0.deliver_all().expect("it comes to rest");
    }

    /// Messages of one entry of this process while no other requests.
    fn light(&mut self, node: NodeId) -> usize {
        let before = self.0.sent();
        self.request(node);
        self.deliver_all();
        self.release(node);
        self.deliver_all();
        (self.0.sent() - before) as usize
    }

    /// Messages of so many entries while every process requests again when it leaves, and the
    /// order of the entries.
    fn saturated(&mut self, nodes: u32, entries: usize) -> (usize, Vec<NodeId>) {
        for node in 0..nodes {
            self.request(NodeId(node));
        }
        let (before, mut order) = (self.0.sent(), Vec::new());
        while order.len() < entries {
            // One latency: what is under way arrives, then the process that was in the critical
            // section before leaves it.
            let in_cs = self.in_cs();
            let under_way = self.0.in_flight_count();
            assert!(in_cs.is_some() || under_way > 0, "a deadlock");
            for _ in 0..under_way {
                self.0.deliver_next();
            }
            if let Some(node) = in_cs {
                order.push(node);
                self.release(node);
                self.request(node);
            }
        }
        ((self.0.sent() - before) as usize, order)
    }

    fn in_cs(&self) -> Option<NodeId> {
        let in_cs = self.0.in_cs();
        assert!(in_cs.len() <= 1, "two in the critical section");
        in_cs.first().copied()
    }
}

#[test]
fn with_requests_to_all_and_no_process_informed_it_is_ricart_agrawala() {
    for nodes in 1..=9 {
        let sanders = Setup::new(nodes).with("sets", "ricart-agrawala");
        let light = System::<Sanders>::new(&sanders).light(NodeId(nodes - 1));
        assert_eq!(light, 2 * (nodes as usize - 1));
        let entries = 5 * nodes as usize;
        let original = System::<RicartAgrawala>::new(&Setup::new(nodes)).saturated(nodes, entries);
        assert_eq!(System::<Sanders>::new(&sanders).saturated(nodes, entries), original);
    }
}

#[test]
fn with_requests_to_quorums_that_are_informed_it_is_maekawa() {
    for (kind, nodes, size) in
        [(QuorumKind::Grid, 9, 5), (QuorumKind::Plane, 13, 4), (QuorumKind::Tree, 15, 4)]
    {
        let mut setup = Setup::new(nodes);
        setup.quorums = kind;
        let sanders = setup.clone().with("sets", "maekawa");
        let light = System::<Sanders>::new(&sanders).light(NodeId(2));
        assert_eq!(light, 3 * (size - 1), "{kind:?}");
        let (warm, all) = (5 * nodes as usize, 9 * nodes as usize);
        // The first among equals in the beginning differs, and with it a message or two.
        let steady = |sent: &dyn Fn(usize) -> usize| sent(all) - sent(warm);
        let expected = 4 * (size - 1) * (all - warm);
        let original =
            steady(&|entries| System::<Maekawa>::new(&setup).saturated(nodes, entries).0);
        assert_eq!(original, expected, "{kind:?}");
        let ours = steady(&|entries| System::<Sanders>::new(&sanders).saturated(nodes, entries).0);
        assert_eq!(ours, expected, "{kind:?}");
    }
}

#[test]
fn with_requests_to_one_process_that_is_informed_it_is_central() {
    let setup = Setup::new(6).with("sets", "central");
    let mut system = System::<Sanders>::new(&setup);
    assert_eq!(system.light(NodeId(0)), 0);
    assert_eq!(system.light(NodeId(4)), 3);
    // Three messages for every process but the coordinator, however busy it is.
    let mut system = System::<Sanders>::new(&setup);
    for node in 0..6 {
        system.request(NodeId(node));
    }
    for _ in 0..6 {
        system.deliver_all();
        let in_cs = system.in_cs().expect("one is next");
        system.release(in_cs);
    }
    system.deliver_all();
    assert_eq!(system.0.sent(), 3 * 5);
}

#[test]
fn sets_that_do_not_keep_two_apart_are_refused_and_let_both_in_if_they_are_not() {
    let mut setup = Setup::new(3).with("sets", "a file");
    let text = "0: request 0 1 inform 0 1\n1: request 0 1 inform 0 1\n2: request 2 inform 2";
    setup.sets = Some(SetsOf::parse(text).expect("well formed"));
    let refusal =
        setup.start::<Sanders>().expect_err("0 and 2 do not exclude each other").to_string();
    assert!(
        refusal.starts_with("processes 0 and 2 could be in the critical section together"),
        "{refusal}"
    );
    let mut system = System::<Sanders>::new(&setup.with("check", "off"));
    system.request(NodeId(0));
    system.deliver_all();
    system.request(NodeId(2));
    assert_eq!(system.0.in_cs(), [0, 2].map(NodeId));
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
