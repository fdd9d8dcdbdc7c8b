//! One seed gives one run: the same hash every time, in every build, with or without a trace.

use std::{cell::RefCell, rc::Rc};

use mutua_algorithms::{
    Kind, Setup,
    mutexes::{Maekawa, NaimiTrehel, RicartAgrawala},
    registry,
};
use mutua_simulator::{
    Distribution, Load, Network, Plan, Recorder, Simulation, Who, Workload, simulate,
};
use mutua_trace::{Event, Header, Unit, What};

const T: u64 = 1_000_000;

fn plan(seed: u64) -> Plan {
    let think = Distribution::Exponential { mean: 10 * T };
    let workload = Workload {
        load: Load::Think(think),
        who: Who::Zipf(0.8),
        hold: Distribution::Uniform { low: T / 4, high: T },
    };
    let network = Network::new(Distribution::LogNormal { mean: T, sigma: 0.6 });
    let mut plan = Plan::new(Setup::new(9), network, workload, 500);
    plan.seed = seed;
    plan
}

fn hash(name: &str, seed: u64) -> String {
    simulate(name, &plan(seed)).expect("a registered name").expect("it can start").trace_hash
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        let first = hash(about.name, 1);
        assert_eq!(first, hash(about.name, 1), "{}", about.name);
        assert_ne!(first, hash(about.name, 2), "{}", about.name);
    }
}

#[test]
fn runs_in_two_threads_equal_a_run_in_one() {
    let alone = hash("naimi-trehel", 5);
    let beside = || std::thread::spawn(|| hash("naimi-trehel", 5));
    let both = [beside(), beside()].map(|thread| thread.join().expect("no panic"));
    assert_eq!(both, [alone.clone(), alone]);
}

/// Dev and release builds, other platforms and later versions must agree with these. A change of
/// an algorithm's messages may change its hash; a change of a build may not.
#[test]
fn hashes_do_not_depend_on_the_build() {
    let hashes = ["naimi-trehel", "ricart-agrawala", "maekawa"].map(|name| hash(name, 1));
    assert_eq!(hashes, ["0b03f9be6996153a", "8a0ea2a63c267045", "26f4bef76237ccbf"]);
}

fn recorded<M: mutua_algorithms::Mutex>(seed: u64) -> (Vec<Event>, String) {
    let events = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&events);
    let simulation = Simulation::<M>::with_recorder(plan(seed), |start| {
        let names = Header::default_names(start);
        let header = Header::new(M::ABOUT.name, start, names, Unit::Nanoseconds);
        Some(Recorder::new(header, move |event| sink.borrow_mut().push(event)))
    });
    let report = simulation.expect("it can start").run_to_end();
    (events.take(), report.trace_hash)
}

#[test]
fn recording_does_not_change_a_run_and_gives_the_same_trace_twice() {
    let (events, with_trace) = recorded::<RicartAgrawala>(3);
    assert_eq!(with_trace, hash("ricart-agrawala", 3));
    assert_eq!(recorded::<RicartAgrawala>(3).0, events);
    assert_eq!(recorded::<NaimiTrehel>(3).1, hash("naimi-trehel", 3));
}

#[test]
fn every_message_of_a_trace_is_sent_before_it_arrives_and_arrives_once() {
    let (events, _) = recorded::<Maekawa>(4);
    let mut in_transit = Vec::new();
    let (mut arrived, mut last) = (0, 0);
    for event in &events {
        assert!(event.at >= last, "time goes forward");
        last = event.at;
        match &event.what {
            What::Send { to, message, .. } => in_transit.push((event.who, *to, message.id)),
            What::Multicast { to, message } => {
                in_transit.extend(to.iter().map(|&to| (event.who, to, message.id)));
            }
            What::Receive { from, message } => {
                let sent = (*from, event.who, message.id);
                let place = in_transit.iter().position(|known| *known == sent);
                in_transit.swap_remove(place.expect("what arrives was sent"));
                arrived += 1;
            }
            _ => {}
        }
    }
    assert!(arrived > 1000);
    assert_eq!(in_transit, [], "nothing is in transit at the end");
}
