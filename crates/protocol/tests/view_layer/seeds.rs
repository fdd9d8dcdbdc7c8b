//! Random worlds: nobody holds what another holds, whatever fails; and when faults stop, all are in
//! one view and get their locks.
//!
//! `MUTUA_SEEDS=N` runs more, `MUTUA_SEED=N` one, with its story.

use std::time::Duration;

use mutua_protocol::views::{LeaseRules, RecordRules, Role, Rules, ViewSettings};

use super::{
    events::SECOND,
    world::{Counts, Event, Layers},
};

/// In the gate.
const SEEDS: u64 = 100;

/// A control must be found in so many.
const CONTROL_SEEDS: u64 = 200;
const FAULTS: u64 = 14 * SECOND;
const HARD_FAULTS: u64 = 20 * SECOND;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn world(seed: u64, rules: Rules, verbose: bool) -> Layers {
    let settings = ViewSettings { rules, ..ViewSettings::default() };
    use Role::{Follower, Voter, Witness};
    let roles: &[Role] = match (seed / 2) % 6 {
        0 | 1 => &[Voter; 3],
        2 => &[Voter, Voter, Witness],
        3 => &[Voter; 5],
        4 => &[Voter, Voter, Voter, Follower],
        _ => &[Voter, Voter, Voter, Voter, Follower, Witness, Follower],
    };
    let mut world = Layers::new(seed, settings, roles);
    world.verbose = verbose;
    let clients = if world.is_hard() { 3 } else { (seed / 2) % 4 };
    for _ in 0..clients {
        world.add_external();
    }
    world.calm_at = 3 * SECOND + if world.is_hard() { HARD_FAULTS } else { FAULTS };
    world.after(Duration::from_secs(3), Event::Fault);
    world.at(world.calm_at, Event::Calm);
    world
}

/// Runs a world: what is wrong with it, if anything, and what happened.
fn run(seed: u64, rules: Rules, verbose: bool, to_the_end: bool) -> (Option<String>, Layers) {
    let mut world = world(seed, rules, verbose);
    world.run(world.calm_at);
    let mut left = 150;
    while to_the_end && world.failure.is_none() && !world.is_settled() {
        left -= 1;
        if left == 0 {
            let why = world.unsettled();
            let layers: Vec<_> = world.nodes.iter().filter_map(|node| node.layer.clone()).collect();
            for node in layers {
                let (me, stage) = (node.me(), node.stage());
                let (view, known) = (node.view().map(|view| view.number), node.state().version());
                world.note(|| format!("{me}: {stage:?} of {view:?}, knows {known}"));
            }
            world.fails(format!("150 s after the last fault: {why}"));
        }
        world.run(world.now + SECOND);
    }
    world.counts.vanished = world.engine.vanished;
    (world.failure.take(), world)
}

impl Layers {
    /// Whether all members are in one view, and each has got a lock since the faults stopped.
    fn is_settled(&self) -> bool {
        self.unsettled().is_empty()
    }

    fn unsettled(&self) -> String {
        let holds = |slot: &usize| self.nodes[*slot].role.holds_locks();
        let slots: Vec<_> = (0..self.nodes.len()).filter(holds).collect();
        for &slot in &slots {
            let Some(layer) = &self.nodes[slot].layer else { return format!("{slot} is down") };
            let members = layer.begun().map_or(0, |view| view.members.len());
            if members != slots.len() || !layer.may_grant(self.local(slot)) {
                let (view, stage) = (layer.view().cloned(), layer.stage());
                return format!("{} is at {stage:?} of {view:?}", layer.me());
            }
            if !self.calm_grants.contains(&slot) {
                return format!("nobody at {} got a lock", layer.me());
            }
        }
        String::new()
    }
}

fn add(all: &mut Counts, one: &Counts) {
    let pairs = [
        (&mut all.grants, one.grants),
        (&mut all.external, one.external),
        (&mut all.views, one.views),
        (&mut all.begun, one.begun),
        (&mut all.crashes, one.crashes),
        (&mut all.wiped, one.wiped),
        (&mut all.cuts, one.cuts),
        (&mut all.pauses, one.pauses),
        (&mut all.lapses, one.lapses),
        (&mut all.returns, one.returns),
        (&mut all.custodies, one.custodies),
        (&mut all.reclaims, one.reclaims),
        (&mut all.quarantines, one.quarantines),
        (&mut all.vanished, one.vanished),
    ];
    for (sum, count) in pairs {
        *sum += count;
    }
}

#[test]
fn nobody_holds_what_another_holds_and_all_get_in_when_faults_stop() {
    let seeds = match number("MUTUA_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = number("MUTUA_FROM").unwrap_or(0);
            from..from + number("MUTUA_SEEDS").unwrap_or(SEEDS)
        }
    };
    let verbose = number("MUTUA_SEED").is_some();
    let mut all = Counts::default();
    for seed in seeds {
        let (failure, mut world) = run(seed, Rules::default(), verbose, true);
        if let Some(why) = failure {
            if !verbose {
                world = run(seed, Rules::default(), true, true).1;
            }
            let last = if verbose { usize::MAX } else { 60 };
            let notes = &world.notes[world.notes.len().saturating_sub(last)..];
            panic!("{}\n{why}\nMUTUA_SEED={seed} repeats it", notes.join("\n"));
        }
        add(&mut all, &world.counts);
    }
    println!("{all:?}");
}

fn first_failure(rules: Rules) -> Option<(u64, String)> {
    let seeds = number("MUTUA_SEEDS").unwrap_or(CONTROL_SEEDS);
    // In every second world faults come together.
    (0..seeds)
        .map(|seed| 2 * seed + 1)
        .find_map(|seed| Some((seed, run(seed, rules, false, false).0?)))
}

fn is_found(rules: Rules) {
    let found = first_failure(rules);
    println!("{rules:?}: {found:?}");
    assert!(found.is_some(), "{rules:?} is not found");
}

fn lease_rule_is_found(lease: LeaseRules) {
    is_found(Rules { lease, ..Rules::default() });
}

#[test]
fn a_voter_that_stops_only_when_a_view_is_applied_is_found() {
    lease_rule_is_found(LeaseRules::StopAtApplied);
}

#[test]
fn a_lease_that_counts_from_the_receipt_is_found() {
    lease_rule_is_found(LeaseRules::CountFromReceipt);
}

#[test]
fn a_restarted_voter_that_says_it_answered_long_ago_is_found() {
    lease_rule_is_found(LeaseRules::UnknownAgeIsLong);
}

#[test]
fn beginning_on_one_voters_word_is_found() {
    lease_rule_is_found(LeaseRules::OneVotersWord);
}

#[test]
fn a_lease_of_half_the_votes_is_found() {
    lease_rule_is_found(LeaseRules::HalfTheVotes);
}

#[test]
fn trusting_a_keeper_that_began_some_view_is_found() {
    is_found(Rules { records: RecordRules::BeganSomeView, ..Rules::default() });
}

#[test]
fn trusting_a_keeper_that_was_in_the_last_view_is_found() {
    is_found(Rules { records: RecordRules::WasInLastView, ..Rules::default() });
}

#[test]
fn one_seed_is_one_story() {
    for seed in [1, 4] {
        let stories = [(); 2].map(|()| run(seed, Rules::default(), true, true).1.notes);
        assert!(stories[0] == stories[1], "seed {seed}");
        assert!(stories[0].len() > 60, "seed {seed}: {} events", stories[0].len());
    }
}
