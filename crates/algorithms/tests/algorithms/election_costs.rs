//! The figures that election algorithms state, counted in every small system.

use mutua_algorithms::{
    Circumstances, Cost, Election, Kind, Links, NodeId, Parameters, Setup, Timer,
    registry::{self, ElectionVisitor},
};
use mutua_lab::ElectionCluster;

/// Messages of an election in which every message takes equally long.
struct Count<'a>(&'a Setup, &'a [NodeId]);

impl ElectionVisitor for Count<'_> {
    type Output = u64;

    fn visit<E: Election>(self) -> u64 {
        let Self(setup, starters) = self;
        let start = setup.start_election::<E>().expect("any number suits");
        let mut cluster = ElectionCluster::<E>::unrecorded(start, Links::Fifo);
        for &starter in starters {
            cluster.start(starter).expect("it is up");
        }
        for _ in 0..100 {
            cluster.deliver_all().expect("it comes to rest");
            let decided =
                |(_, process): (_, &E)| !process.takes_part() && process.coordinator().is_some();
            if cluster.up().all(decided) {
                return cluster.sent();
            }
            // An answer is awaited for less time than an announcement.
            let timers: Vec<_> = cluster.timers().collect();
            let of = |timer| move |set: &&(NodeId, Timer)| set.1 == timer;
            let next = timers.iter().find(of(Timer::Answer)).or(timers.first());
            let &(node, timer) = next.expect("the election goes on");
            cluster.timeout(node, timer).expect("it is set");
        }
        panic!("{} by {starters:?} does not end", E::ABOUT.name);
    }
}

/// The figure for messages, if the algorithm states one for these circumstances.
fn figure(cases: &[mutua_algorithms::ElectionCost], case: &Circumstances<'_>) -> Option<f64> {
    let cost: &Cost = &cases.iter().find(|cost| (cost.when)(case))?.messages;
    let below = case.below().map_or(f64::NAN, |below| below as f64);
    let up = case.up.len() as f64;
    cost.formula()?.value(&Parameters { up, below, ..Parameters::new(f64::from(case.nodes)) })
}

/// Every set of these that is not empty.
fn subsets(nodes: &[NodeId]) -> impl Iterator<Item = Vec<NodeId>> + '_ {
    (1..1_u32 << nodes.len()).map(|bits| {
        let chosen = nodes.iter().enumerate().filter(move |(index, _)| bits >> index & 1 == 1);
        chosen.map(|(_, &node)| node).collect()
    })
}

/// Every system of up to five processes: which are up, which of them start, the order on the ring
/// and whether it falls.
fn every_case(mut with: impl FnMut(&Setup, &Circumstances<'_>)) {
    for nodes in 1..=5 {
        let all: Vec<_> = (0..nodes).map(NodeId).collect();
        let mut mixed = all.clone();
        mixed.swap(0, all.len() / 2);
        let falling = all.iter().rev().copied().collect();
        for (order, falls) in [(all.clone(), Some(false)), (falling, Some(true)), (mixed, None)] {
            for up in subsets(&all) {
                let mut setup = Setup { ring: Some(order.clone()), ..Setup::new(nodes) };
                setup.crashed = all.iter().copied().filter(|node| !up.contains(node)).collect();
                for starters in subsets(&up) {
                    let (up, starters) = (up.as_slice(), starters.as_slice());
                    with(&setup, &Circumstances { nodes, up, starters, falls, is_steady: true });
                }
            }
        }
    }
}

#[test]
fn an_election_costs_what_its_algorithm_states_whoever_is_up_and_starts() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Election) {
        let cases = about.costs.elections;
        let mut stated = 0;
        every_case(|setup, case| {
            let Some(figure) = figure(cases, case) else { return };
            let counted = registry::visit_election(about.name, Count(setup, case.starters));
            let what = format!("{} {case:?}", about.name);
            assert_eq!(counted.map(|count| count as f64), Some(figure), "{what}");
            stated += 1;
        });
        println!("{}: {stated} figures", about.name);
        assert_eq!(stated > 0, !cases.is_empty(), "{}", about.name);
    }
}

#[test]
fn where_messages_overtake_each_other_the_bully_states_no_figure() {
    let cases = registry::about("bully").expect("it is registered").costs.elections;
    every_case(|_, case| {
        assert_eq!(figure(cases, &Circumstances { is_steady: false, ..*case }), None, "{case:?}");
    });
}
