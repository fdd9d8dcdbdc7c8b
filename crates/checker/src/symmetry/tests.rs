//! That names decide nothing where an algorithm says so: every step of every state, renamed, is a
//! step of the renamed state, and there are no others. That is all that merging relies on.

use mutua_algorithms::{Setup, Topology};

use crate::{
    ghost::Ghost,
    limits::Limits,
    model::{Broken, Build, Model},
    search::{Wanted, search},
    step::Stepper,
    system::{Faults, System},
};

/// A model of which nothing is merged, and the renamings that would have been.
fn model(name: &str, system: &System, ghost: Ghost) -> (Model, Vec<super::Symmetry>) {
    let build = Build { symmetry: true, ..Build::plain(ghost) };
    let mut model = Model::new(name, system, build).expect("a plain system");
    let symmetries = std::mem::take(&mut model.symmetries);
    (model, symmetries)
}

/// How many renamings there are beside that which renames nobody.
fn order(name: &str, setup: Setup, entries: u32) -> usize {
    model(name, &System::new(setup, entries), Ghost::None).1.len() + 1
}

/// The states that can follow, and what is broken on the way to each.
fn next(stepper: &mut Stepper<'_>, state: &[u32]) -> Vec<(Broken, Vec<u32>)> {
    let mut next = Vec::new();
    stepper.expand(state, |step| next.push((step.broken, step.state.to_vec())));
    next.sort_unstable();
    next
}

/// Compares the steps of all states, up to a limit, with those of their renamings; how many.
fn compare(name: &str, system: &System, ghost: Ghost) -> u64 {
    let (model, symmetries) = model(name, system, ghost);
    let limits = Limits { threads: 1, states: Some(1500), ..Limits::default() };
    let reached = search(&model, Wanted { properties: 0, first: false }, &limits, &mut |_| ());
    let mut stepper = Stepper::new(&model);
    for id in reached.ids() {
        let state = reached.get(id);
        let steps = next(&mut stepper, state);
        for symmetry in &symmetries {
            let mut renamed: Vec<_> = steps
                .iter()
                .map(|(broken, after)| (*broken, symmetry.rename(&model, after)))
                .collect();
            renamed.sort_unstable();
            let of_renamed = next(&mut stepper, &symmetry.rename(&model, state));
            assert_eq!(renamed, of_renamed, "{name} {:?}", symmetry.renaming);
        }
    }
    reached.states() * symmetries.len() as u64
}

#[test]
fn names_decide_nothing_where_an_algorithm_says_so() {
    let star = Setup { topology: Topology::Star, ..Setup::new(4) };
    let systems = [
        ("central", Setup::new(3)),
        ("central", Setup::new(3).with("coordinator", "member")),
        ("central", Setup::new(3).with("refusal", "denied")),
        ("central", Setup { inside: true, ..Setup::new(3) }),
        ("naimi-trehel", Setup::new(4)),
        ("raymond", star.clone()),
        ("raymond", star.clone().with("start", "flood")),
        ("neilsen-mizuno", star),
        ("maekawa-basic", Setup::new(4)),
        ("maekawa-basic", Setup { inside: true, ..Setup::new(4) }),
        ("majority", Setup::new(3)),
        ("majority", Setup { inside: true, ..Setup::new(3) }),
    ];
    for (name, setup) in systems {
        for ghost in [Ghost::None, Ghost::Fence, Ghost::Ordering, Ghost::Bypass] {
            let mut system = System::new(setup.clone(), 1);
            assert!(compare(name, &system, ghost) > 0, "{name} has symmetries");
            system.faults = Faults { crashes: 1, duplicates: 1, ..Faults::default() };
            assert!(compare(name, &system, ghost) > 0, "{name} has symmetries");
        }
    }
}

#[test]
fn the_renamings_are_those_of_clients_trees_and_quorums() {
    assert_eq!(order("central", Setup::new(3), 1), 6);
    assert_eq!(order("central", Setup::new(4).with("coordinator", "member"), 1), 6);
    assert_eq!(order("central", Setup { inside: true, ..Setup::new(4) }, 1), 6);
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
fn where_ids_break_ties_nobody_is_renamed() {
    let tied = ["lamport", "ricart-agrawala", "maekawa", "sanders", "bakery", "suzuki-kasami"];
    let rings = ["le-lann", "dijkstra", "ricart-agrawala-token", "bully", "chang-roberts"];
    for name in tied.into_iter().chain(rings) {
        assert_eq!(order(name, Setup::new(3), 1), 1, "{name}");
    }
    assert_eq!(order("central", Setup::new(3).with("queue", "clock"), 1), 1);
}

#[test]
fn who_contends_and_who_does_not_are_not_exchanged() {
    let mut system = System::new(Setup::new(4), 1);
    system.contenders = Some([0, 1].map(mutua_algorithms::NodeId).to_vec());
    assert_eq!(model("majority", &system, Ghost::None).1.len() + 1, 4);
}
