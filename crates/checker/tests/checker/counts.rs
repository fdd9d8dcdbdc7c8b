//! Exact counts of states, with nothing merged. A count that changes shows that an algorithm, or
//! the model of links and clients, has changed; look which, and why, before you write the new one
//! here.

use mutua_algorithms::{Claim, Kind, Setup, registry};
use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};

/// The states of 2 and of 3 processes with one entry (or start) each.
const COUNTS: &[(&str, u64, u64)] = &[
    ("central", 34, 218),
    ("le-lann", 24, 108),
    ("lamport", 74, 67288),
    ("ricart-agrawala", 35, 5562),
    ("carvalho-roucairol", 21, 877),
    ("suzuki-kasami", 21, 727),
    ("ricart-agrawala-token", 21, 657),
    ("raymond", 21, 150),
    ("maekawa-basic", 34, 473),
    ("maekawa", 59, 1999),
    ("majority", 34, 11871),
    ("sanders", 31, 3139),
    ("bakery-naive", 87, 12530),
    ("bakery", 165, 22580),
    ("dijkstra", 168, 1080),
    ("naimi-trehel", 21, 164),
    ("neilsen-mizuno", 21, 158),
    ("chang-roberts", 25, 134),
    ("bully", 23, 1685),
    ("invitation", 275, 112901),
];

fn states(name: &str, nodes: u32, threads: usize) -> u64 {
    let about = registry::about(name).expect("an algorithm of the registry");
    let properties = match about.kind {
        Kind::Mutex => vec![Claim::MutualExclusion, Claim::DeadlockFree],
        Kind::Election => vec![Claim::Termination],
    };
    let task = Task {
        name: name.to_owned(),
        system: System::new(Setup::new(nodes), 1),
        properties: Some(properties),
        reduction: Reduction::None,
        limits: Limits { threads, ..Limits::default() },
        first: false,
        walks: None,
        invariants: Vec::new(),
    };
    let report = check(&task, &mut NoClock).expect("a plain system");
    assert_eq!(report.searches[0].stopped, None, "{name}");
    report.searches[0].states
}

#[test]
fn every_algorithm_has_as_many_states_as_it_always_had() {
    for &(name, two, three) in COUNTS {
        assert_eq!((states(name, 2, 1), states(name, 3, 1)), (two, three), "{name}");
    }
}

#[test]
fn no_algorithm_of_the_registry_is_left_out() {
    let counted: Vec<_> = COUNTS.iter().map(|&(name, ..)| name).collect();
    let known: Vec<_> = registry::ALGORITHMS.iter().map(|about| about.name).collect();
    assert_eq!(counted, known);
}

#[test]
fn the_count_does_not_depend_on_the_number_of_workers() {
    for name in ["lamport", "bakery", "bully"] {
        assert_eq!(states(name, 3, 1), states(name, 3, 2), "{name}");
        assert_eq!(states(name, 3, 1), states(name, 3, 3), "{name}");
    }
}
