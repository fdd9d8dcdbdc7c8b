//! Checks one system for one property, given as `NAME NODES ENTRIES PROPERTY`, with states merged
//! and without, and prints it each time that it is violated. It is built together with the mutants.

use std::env::args;

use mutua_algorithms::{Claim, Setup};
use mutua_checker::{Limits, NoClock, Reduction, System, Task, check};

fn main() {
    let words: Vec<String> = args().skip(1).collect();
    let [name, nodes, entries, property] = words.as_slice() else {
        panic!("NAME NODES ENTRIES PROPERTY")
    };
    let claims = [Claim::MutualExclusion, Claim::DeadlockFree, Claim::Ordering];
    let claim = claims.into_iter().find(|claim| claim.name() == property);
    let nodes = nodes.parse().expect("a number of processes");
    let mut task = Task {
        name: name.clone(),
        system: System::new(Setup::new(nodes), entries.parse().expect("a number of entries")),
        properties: Some(vec![claim.expect("a property")]),
        reduction: Reduction::None,
        // A mutant may go on for ever.
        limits: Limits { threads: 1, states: Some(300_000), ..Limits::default() },
        first: true,
        walks: None,
        invariants: Vec::new(),
    };
    for (reduction, word) in [(Reduction::None, "none"), (Reduction::All, "all")] {
        task.reduction = reduction;
        let report = check(&task, &mut NoClock).expect("the system starts");
        for verdict in report.verdicts.iter().filter(|verdict| verdict.holds == Some(false)) {
            println!("{word} {}", verdict.name);
        }
    }
}
