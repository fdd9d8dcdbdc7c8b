//! Whole nodes under faults, for every algorithm that a node runs: never two inside, fences grow,
//! and everybody gets in once the faults stop.
//!
//! A failing run prints the command that repeats it. For more seeds, set `MUTUA_SEEDS`.

mod network;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use mutua_brain::{Moment, Plan, Rule, usable};
use network::{Scene, World};

/// How long faults happen, and how long it may take afterwards until everybody got in.
const FAULTS: Duration = Duration::from_secs(5);
const RECOVERY: Duration = Duration::from_secs(120);

/// How many seeds each algorithm is tried with.
const SEEDS: u64 = 6;

#[test]
fn nobody_meets_anybody_inside_under_faults_and_everybody_gets_in_after_them() {
    let wanted = env::var("MUTUA_ALGORITHM").ok();
    let seeds = match number("MUTUA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MUTUA_SEEDS").unwrap_or(SEEDS),
    };
    for about in usable().filter(|about| wanted.as_deref().is_none_or(|name| name == about.name)) {
        let mut entries = 0;
        for seed in seeds.clone() {
            let world = run(about.name, seed);
            entries += world.entries;
        }
        println!("{:<24} {entries:>8} entries", about.name);
        assert!(entries > 0);
    }
}

#[test]
fn one_seed_is_one_run() {
    for algorithm in ["naimi-trehel", "maekawa"] {
        let [one, other] = [run(algorithm, 3), run(algorithm, 3)];
        assert_eq!((one.digest, one.entries, one.now), (other.digest, other.entries, other.now));
        assert_ne!(one.digest, run(algorithm, 4).digest);
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Sizes that the algorithm has a structure for, by default.
fn sizes(algorithm: &str) -> Vec<usize> {
    let suits = |&nodes: &usize| Plan::new(nodes as u32, &[Rule::new("*", algorithm)]).is_ok();
    (1..=5).filter(suits).collect()
}

#[test]
fn names_are_forgotten_once_the_faults_have_stopped_and_their_fences_go_on_growing() {
    let wanted = env::var("MUTUA_ALGORITHM").ok();
    let seeds = number("MUTUA_SEED").map_or(0..3, |seed| seed..seed + 1);
    for about in usable().filter(|about| wanted.as_deref().is_none_or(|name| name == about.name)) {
        // A token that never rests is never back at its start.
        if ["le-lann", "dijkstra"].contains(&about.name) {
            continue;
        }
        for seed in seeds.clone() {
            let mut world = run(about.name, seed);
            let before = world.entries;
            guarded(&mut world, about.name, seed, forget_and_go_on);
            println!("{:<24} {before} entries, forgotten, {}", about.name, world.entries - before);
        }
    }
}

fn run(algorithm: &str, seed: u64) -> World {
    let sizes = sizes(algorithm);
    assert!(!sizes.is_empty(), "{algorithm} runs with no number of members");
    let nodes = sizes[sizes.len() - 1 - seed as usize % sizes.len()];
    let mut scene = Scene::new(seed, nodes, Rule::new("*", algorithm));
    scene.faults_until = Moment::ZERO.after(FAULTS);
    let mut world = World::new(scene);
    guarded(&mut world, algorithm, seed, play);
    world
}

/// Says how to repeat it if it fails.
fn guarded(world: &mut World, algorithm: &str, seed: u64, play: fn(&mut World)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(world))) {
        for line in world.log.iter().rev().take(40).rev() {
            eprintln!("{line}");
        }
        eprintln!(
            "to repeat: MUTUA_ALGORITHM={algorithm} MUTUA_SEED={seed} \
             cargo test -p mutua-brain --test whole_nodes"
        );
        resume_unwind(panic);
    }
}

fn play(world: &mut World) {
    let calm_from = world.scene.faults_until;
    let end = calm_from.after(RECOVERY);
    while !(world.now > calm_from && world.everybody_got_in()) {
        assert!(world.step(end), "somebody never got in after the faults stopped");
    }
}

/// Nobody wants anything until every name is forgotten everywhere; then everybody wants in again.
/// Two inside or a fence that does not grow would be seen then: a second token, a clock lost.
fn forget_and_go_on(world: &mut World) {
    world.resting = true;
    let end = world.now.after(RECOVERY);
    let names = world.scene.names;
    while !(0..names).all(|name| world.has_forgotten(name)) {
        assert!(world.step(end), "a name is never forgotten");
    }
    world.note("all is forgotten".to_owned());
    world.resting = false;
    for place in &mut world.places {
        place.clients.iter_mut().for_each(|client| client.entries = 0);
    }
    let end = world.now.after(RECOVERY);
    while !world.everybody_got_in() {
        assert!(world.step(end), "somebody never got in after a name was forgotten");
    }
}
