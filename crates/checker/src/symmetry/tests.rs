//! That names decide nothing where an algorithm declares so: every step of every state, renamed, is
//! a step of the renamed state, and there are no others. That is all that merging relies on.

use std::collections::BTreeSet;

use mutua_algorithms::{
    About, Kind, QuorumKind, Setup, Structure, Topology, registry, split_mix::Dice,
};

use super::Symmetry;
use crate::{
    ghost::Ghost,
    host::NoClock,
    limits::Limits,
    model::{Build, Model, Properties},
    search::{Wanted, search},
    step::Stepper,
    system::{Faults, System},
};

/// A model of which nothing is merged, and the renamings that would have been.
fn model(name: &str, system: &System, ghost: Ghost) -> (Model, Vec<Symmetry>) {
    let build = Build { symmetry: true, ..Build::plain(ghost) };
    let mut model = Model::new(name, system, build).expect("a plain system");
    let symmetries = std::mem::take(&mut model.symmetries);
    (model, symmetries)
}

/// The number of renamings beside the identity.
fn order(name: &str, setup: Setup, entries: u32) -> usize {
    model(name, &System::new(setup, entries), Ghost::None).1.len() + 1
}

/// The states that can follow, and what is violated on the way to each.
fn next(stepper: &mut Stepper<'_>, state: &[u32]) -> Vec<(Properties, Vec<u32>)> {
    let mut next = Vec::new();
    stepper.expand(state, |step| next.push((step.violated, step.state.to_vec())));
    next.sort_unstable();
    next
}

/// Compares the steps of a state with those of its renamings.
fn compare(stepper: &mut Stepper<'_>, symmetries: &[Symmetry], state: &[u32]) {
    let model = stepper.model();
    let steps = next(stepper, state);
    for symmetry in symmetries {
        let mut renamed: Vec<_> = steps
            .iter()
            .map(|(violated, after)| (*violated, symmetry.rename(model, after)))
            .collect();
        renamed.sort_unstable();
        let of_renamed = next(stepper, &symmetry.rename(model, state));
        assert_eq!(renamed, of_renamed, "{} {:?}", model.about.name, symmetry.renaming);
    }
}

/// Compares at the states nearest to the start; at all of them, where they are few.
fn compare_near(model: &Model, symmetries: &[Symmetry]) {
    let limits = Limits { threads: 1, states: Some(NEAR as u64), ..Limits::default() };
    let reached = search(model, Wanted { properties: 0, first: false }, &limits, &mut NoClock);
    let mut stepper = Stepper::new(model);
    for id in reached.ids().take(NEAR) {
        compare(&mut stepper, symmetries, reached.get(id));
    }
}

/// Compares along random runs, for what lies far from the start.
fn compare_far(model: &Model, symmetries: &[Symmetry]) {
    let mut stepper = Stepper::new(model);
    for seed in 0..RUNS {
        let mut dice = Dice(seed);
        let mut state = model.start.clone();
        for _ in 0..LONGEST {
            compare(&mut stepper, symmetries, &state);
            let mut steps = next(&mut stepper, &state);
            // Behind a violated property a search does not go on.
            steps.retain(|&(violated, _)| violated == 0);
            if steps.is_empty() {
                break;
            }
            let chosen = dice.next() % steps.len() as u64;
            state = steps.swap_remove(chosen as usize).1;
        }
    }
}

/// How many states are near, and how many runs go how far.
const NEAR: usize = 300;
const RUNS: u64 = 4;
const LONGEST: usize = 200;

/// Every variant of an algorithm on every structure that it may need, begun idle and in the
/// critical section.
fn setups(about: &About) -> Vec<Setup> {
    let plain = Setup::new(3);
    let mut setups = match about.structure {
        Structure::Tree => [Topology::Star, Topology::Binary]
            .map(|topology| Setup { topology, ..plain.clone() })
            .to_vec(),
        Structure::Quorums => {
            QuorumKind::ALL.iter().map(|&quorums| Setup { quorums, ..plain.clone() }).collect()
        }
        Structure::Complete | Structure::Ring | Structure::Sets => vec![plain],
    };
    setups = setups
        .iter()
        .flat_map(|setup| {
            [(3, false), (3, true), (4, false), (4, true)].map(|(nodes, in_cs)| Setup {
                nodes,
                in_cs,
                ..setup.clone()
            })
        })
        .collect();
    for choice in about.options {
        let with = |setup: &Setup| {
            let setup = setup.clone();
            choice.values.iter().map(move |value| setup.clone().with(choice.key, value.name))
        };
        setups = setups.iter().flat_map(with).collect();
    }
    setups
}

/// Compares in systems with this setup; returns whether they have symmetries at all.
fn compare_all(name: &str, setup: &Setup) -> bool {
    let faulty = Faults { crashes: 1, duplicates: 1, ..Faults::default() };
    let mut has_symmetries = false;
    for (entries, faults) in
        [(1, Faults::default()), (1, faulty), (2, Faults::default()), (2, faulty)]
    {
        for ghost in [Ghost::None, Ghost::Fencing, Ghost::Ordering, Ghost::Bypass] {
            let system = System { faults, ..System::new(setup.clone(), entries) };
            let (model, symmetries) = model(name, &system, ghost);
            if !symmetries.is_empty() {
                has_symmetries = true;
                compare_near(&model, &symmetries);
                compare_far(&model, &symmetries);
            }
        }
    }
    has_symmetries
}

/// Every algorithm of the registry that declares symmetries, so that none is left out.
#[test]
fn names_decide_nothing_where_an_algorithm_declares_symmetries() {
    let mut symmetric = BTreeSet::new();
    for about in registry::ALGORITHMS.iter().filter(|about| about.kind == Kind::Mutex) {
        // Not every number of processes has quorums of every kind.
        let starts = |setup: &Setup| {
            let system = System::new(setup.clone(), 1);
            Model::new(about.name, &system, Build::plain(Ghost::None)).is_ok()
        };
        for setup in setups(about).into_iter().filter(starts) {
            if compare_all(about.name, &setup) {
                symmetric.insert(about.name);
            }
        }
    }
    let known =
        ["central", "maekawa-basic", "majority", "naimi-trehel", "neilsen-mizuno", "raymond"];
    assert!(known.iter().all(|name| symmetric.contains(name)), "{symmetric:?}");
}

#[test]
fn the_renamings_are_those_of_clients_trees_and_quorums() {
    assert_eq!(order("central", Setup::new(3), 1), 6);
    assert_eq!(order("central", Setup::new(4).with("coordinator", "member"), 1), 6);
    assert_eq!(order("central", Setup { in_cs: true, ..Setup::new(4) }, 1), 6);
    assert_eq!(order("naimi-trehel", Setup::new(5), 1), 24);
    let tree = |topology| Setup { topology, ..Setup::new(5) };
    assert_eq!(order("raymond", tree(Topology::Star), 1), 24);
    assert_eq!(order("neilsen-mizuno", tree(Topology::Binary), 1), 2);
    assert_eq!(order("raymond", tree(Topology::Line), 1), 1);
    // Rows, columns, and the two exchanged.
    assert_eq!(order("maekawa-basic", Setup::new(4), 1), 8);
    // Of 720, those that leave the first in its place.
    assert_eq!(order("majority", Setup::new(6), 1), 120);
}

#[test]
fn where_ids_break_ties_no_process_is_renamed() {
    let tied = ["lamport", "ricart-agrawala", "maekawa", "sanders", "bakery", "suzuki-kasami"];
    let rings = ["le-lann", "dijkstra", "ricart-agrawala-token", "bully", "chang-roberts"];
    for name in tied.into_iter().chain(rings) {
        assert_eq!(order(name, Setup::new(3), 1), 1, "{name}");
    }
    assert_eq!(order("central", Setup::new(3).with("queue", "clock"), 1), 1);
}

#[test]
fn contenders_are_not_exchanged_with_others() {
    let mut system = System::new(Setup::new(4), 1);
    system.contenders = Some([0, 1].map(mutua_algorithms::NodeId).to_vec());
    assert_eq!(model("majority", &system, Ghost::None).1.len() + 1, 4);
}
