//! Whole nodes under faults, for every algorithm that a node runs: never two holders, fencing
//! tokens grow, and every client gets a lock once the faults stop.
//!
//! A failing run prints the command that repeats it. For more seeds, set `MUTUA_SEEDS`.

mod network;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use mutua_protocol::{Moment, Plan, Rule, usable};
use network::{Scene, World};

/// How long faults happen, and how long it may take afterwards until every client was served.
const FAULTS: Duration = Duration::from_secs(5);
const RECOVERY: Duration = Duration::from_secs(120);

/// The number of seeds for each algorithm.
const SEEDS: u64 = 6;

#[test]
fn never_two_hold_a_lock_under_faults_and_every_client_is_served_after_them() {
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

/// The cluster sizes that the algorithm has a structure for, by default.
fn sizes(algorithm: &str) -> Vec<usize> {
    let suits = |&nodes: &usize| Plan::new(nodes as u32, &[Rule::new("*", algorithm)]).is_ok();
    (1..=5).filter(suits).collect()
}

#[test]
fn names_are_cleaned_up_once_the_faults_have_stopped_and_their_fencing_tokens_go_on_growing() {
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
            guarded(&mut world, about.name, seed, clean_up_and_go_on);
            println!("{:<24} {before} entries, cleaned up, {}", about.name, world.entries - before);
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

/// Prints how to repeat a run that fails.
fn guarded(world: &mut World, algorithm: &str, seed: u64, play: fn(&mut World)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(world))) {
        for line in world.log.iter().rev().take(40).rev() {
            eprintln!("{line}");
        }
        eprintln!(
            "to repeat: MUTUA_ALGORITHM={algorithm} MUTUA_SEED={seed} \
             cargo test -p mutua-protocol --test whole_nodes"
        );
        resume_unwind(panic);
    }
}

fn play(world: &mut World) {
    let calm_from = world.scene.faults_until;
    let end = calm_from.after(RECOVERY);
    while !(world.now > calm_from && world.all_were_served()) {
        assert!(world.step(end), "a client was never served after the faults stopped");
    }
}

/// No client requests until every name is cleaned up at all nodes; then all request again. A second
/// token or a lost clock would then show as two holders, or as a fencing token that does not grow.
fn clean_up_and_go_on(world: &mut World) {
    world.resting = true;
    let end = world.now.after(RECOVERY);
    let names = world.scene.names;
    while !(0..names).all(|name| world.is_cleaned_up(name)) {
        assert!(world.step(end), "a name is never cleaned up");
    }
    world.note("all names are cleaned up".to_owned());
    world.resting = false;
    for slot in &mut world.nodes {
        slot.clients.iter_mut().for_each(|client| client.entries = 0);
    }
    let end = world.now.after(RECOVERY);
    while !world.all_were_served() {
        assert!(world.step(end), "a client was never served after a name was cleaned up");
    }
}
