//! The rules of locks, and the level, change by decision.

use std::collections::BTreeMap;

use mutua_protocol::{
    Rule, encode_rules, usable,
    views::{Command, LEVEL_OF_RULES, Levels},
};

use super::{
    cases::{acquire, pass, release, world, world_with},
    world::{Event, World},
};

fn change_rules(world: &mut World, algorithm: &str) -> Option<Command> {
    let rules = encode_rules(&[Rule::new("lock *", algorithm)]);
    let command = world.engine.state.change_rules(rules)?;
    world.on_commit(command.clone());
    Some(command)
}

fn algorithms(world: &World) -> Vec<&'static str> {
    let of = |slot: usize| {
        let protocol = world.nodes[slot].layer.as_ref().expect("up");
        protocol.lock_status(world.local(slot), &World::name(0)).expect("open").algorithm
    };
    (0..world.nodes.len()).map(of).collect()
}

fn view(world: &World) -> (usize, u16) {
    let last = world.engine.state.last().expect("a view");
    (last.members.len(), last.level)
}

fn restart(world: &mut World, slot: usize, levels: Levels) {
    world.kill(slot);
    world.nodes[slot].levels = levels;
    let now = world.now;
    world.at(now, Event::Start { slot });
}

#[test]
fn a_change_of_the_rules_disturbs_no_holder_and_loses_no_waiter() {
    // Four members: some structures have no form for them.
    for about in usable() {
        let mut world = world("naimi-trehel", 4);
        let held = acquire(&mut world, 1);
        pass(&mut world, 1000);
        let mut waiting = BTreeMap::new();
        for slot in [3, 0] {
            waiting.insert(slot, acquire(&mut world, slot));
            pass(&mut world, 300);
        }
        assert_eq!(algorithms(&world), ["naimi-trehel"; 4]);
        let epoch = world.nodes[1].layer.as_ref().expect("up").epoch();
        change_rules(&mut world, about.name).expect("all can");
        pass(&mut world, 5000);
        assert_eq!(algorithms(&world), [about.name; 4]);
        assert!(world.nodes[1].layer.as_ref().expect("up").epoch() > epoch);
        assert_eq!(world.granted, [(1, held)], "{}", about.name);
        assert!(release(&mut world, 1, held), "{}: not disturbed", about.name);
        for _ in 0..2 {
            pass(&mut world, 4000);
            let &(slot, ticket) = world.granted.last().expect("a holder");
            assert_eq!(waiting.remove(&slot), Some(ticket), "{}", about.name);
            assert!(release(&mut world, slot, ticket), "{}", about.name);
        }
        assert!(waiting.is_empty(), "{}", about.name);
    }
}

#[test]
fn a_node_that_restarts_follows_the_decided_rules_and_not_those_it_was_started_with() {
    let mut world = world("naimi-trehel", 3);
    change_rules(&mut world, "maekawa").expect("all can");
    pass(&mut world, 5000);
    change_rules(&mut world, "suzuki-kasami").expect("all can");
    pass(&mut world, 5000);
    for slot in 0..3 {
        restart(&mut world, slot, Levels::HERE);
    }
    pass(&mut world, 15_000);
    assert_eq!(algorithms(&world), ["suzuki-kasami"; 3]);
    for slot in 0..3 {
        let ticket = acquire(&mut world, slot);
        pass(&mut world, 2000);
        assert!(release(&mut world, slot, ticket));
    }
}

#[test]
fn a_change_that_is_decided_late_does_not_undo_a_later_one() {
    let mut world = world("naimi-trehel", 3);
    let first = change_rules(&mut world, "maekawa").expect("all can");
    change_rules(&mut world, "lamport").expect("all can");
    world.on_commit(first);
    pass(&mut world, 5000);
    assert_eq!(algorithms(&world), ["lamport"; 3]);
}

#[test]
fn the_level_rises_when_the_last_member_is_upgraded_and_the_rules_cannot_change_before() {
    let mut world = world_with("naimi-trehel", 3, &[2]);
    assert_eq!(view(&world), (3, 0));
    assert_eq!(change_rules(&mut world, "maekawa"), None);
    // A command that was made elsewhere changes nothing.
    let rules = encode_rules(&[Rule::new("*", "maekawa")]);
    world.on_commit(Command::Rules { number: 0, rules });
    pass(&mut world, 3000);
    assert_eq!(algorithms(&world), ["naimi-trehel"; 3]);
    restart(&mut world, 2, Levels::HERE);
    pass(&mut world, 12_000);
    assert_eq!(view(&world), (3, LEVEL_OF_RULES));
    change_rules(&mut world, "maekawa").expect("all can");
    pass(&mut world, 5000);
    assert_eq!(algorithms(&world), ["maekawa"; 3]);
}

#[test]
fn the_level_stays_while_a_member_is_down() {
    let mut world = world_with("naimi-trehel", 3, &[0, 1, 2]);
    world.kill(2);
    for slot in [0, 1] {
        restart(&mut world, slot, Levels::HERE);
        pass(&mut world, 12_000);
    }
    assert_eq!(view(&world), (2, 0));
    let now = world.now;
    world.nodes[2].levels = Levels::HERE;
    world.at(now, Event::Start { slot: 2 });
    pass(&mut world, 12_000);
    assert_eq!(view(&world), (3, LEVEL_OF_RULES));
}

#[test]
fn a_node_of_an_older_version_is_refused_once_the_level_has_risen() {
    let mut world = world("naimi-trehel", 3);
    assert_eq!(view(&world), (3, LEVEL_OF_RULES));
    restart(&mut world, 2, Levels::HERE.up_to(0));
    pass(&mut world, 12_000);
    assert_eq!(view(&world), (2, LEVEL_OF_RULES));
    let older = world.nodes[2].layer.as_ref().expect("up");
    assert!(older.members().is_empty(), "{:?}", older.members());
    let newer = world.nodes[0].layer.as_ref().expect("up");
    let refused = newer.check_levels(older.levels()).expect_err("outgrown").to_string();
    assert!(refused.contains("level 0") && refused.contains("decided level 1"), "{refused}");
    restart(&mut world, 2, Levels::HERE);
    pass(&mut world, 12_000);
    assert_eq!(view(&world), (3, LEVEL_OF_RULES));
}

#[test]
fn a_member_with_another_view_lease_is_in_no_view() {
    for factor in [1, 4] {
        let mut world = world("naimi-trehel", 3);
        world.nodes[2].lease = Some(world.settings.lease * factor);
        restart(&mut world, 2, Levels::HERE);
        pass(&mut world, 12_000);
        let members = if factor == 1 { 3 } else { 2 };
        assert_eq!(view(&world), (members, LEVEL_OF_RULES), "a lease {factor} times as long");
    }
}
