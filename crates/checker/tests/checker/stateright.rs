//! Our counts of states against Stateright's, on the same machines.

mod peers;

use ::stateright::{Checker, Model};
use mutua_algorithms::{
    Mutex, Setup,
    mutexes::{Lamport, RicartAgrawala},
};
use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};

/// The states that we count, all of them, and the same by Stateright.
fn counts<M: Mutex>(nodes: u32, entries: u8) -> (u64, u64) {
    let task = Task {
        name: M::ABOUT.name.to_owned(),
        system: System::new(Setup::new(nodes), entries.into()),
        properties: Some(vec![mutua_algorithms::Claim::MutualExclusion]),
        reduction: Reduction::None,
        limits: Limits::default(),
        first: false,
        walks: None,
        invariants: Vec::new(),
    };
    let report = check(&task, &mut NoClock).expect("a plain system");
    assert_eq!(report.verdicts[0].holds, Some(true));
    let theirs = peers::model::<M>(nodes, entries).checker().spawn_bfs().join();
    theirs.assert_properties();
    (report.searches[0].states, theirs.unique_state_count() as u64)
}

#[test]
fn both_count_the_states_of_lamport_alike() {
    assert_eq!(counts::<Lamport>(2, 1), (74, 74));
    assert_eq!(counts::<Lamport>(3, 1), (67_288, 67_288));
}

#[test]
fn both_count_the_states_of_ricart_and_agrawala_alike() {
    assert_eq!(counts::<RicartAgrawala>(2, 1), (35, 35));
    assert_eq!(counts::<RicartAgrawala>(2, 3), (677, 677));
    assert_eq!(counts::<RicartAgrawala>(3, 1), (5562, 5562));
}
