//! What one node asks another is answered once, or known not to be.

mod network;

use std::time::Duration;

use mutua_brain::{CallId, MAX_CALL, Member, Rule};
use network::{Scene, World};

fn calm(nodes: usize) -> World {
    let mut scene = Scene::new(7, nodes, Rule::new("*", "ricart-agrawala"));
    scene.clients = 0;
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    world
}

fn ask(world: &mut World, from: usize, to: u32, body: &[u8]) -> Option<CallId> {
    world.call(from, |brain| brain.call(Member(to), body))
}

#[test]
fn questions_are_answered_by_the_one_who_was_asked() {
    let mut world = calm(3);
    let calls = [(0, 1), (0, 2), (2, 1), (0, 1)]
        .map(|(from, to)| (from, to, ask(&mut world, from, to, b"who?").expect("it is there")));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies.len(), calls.len());
    for (from, to, call) in calls {
        let answer = Some([&b"who?"[..], &[to as u8]].concat());
        assert!(world.replies.contains(&(from, call, answer)), "{:?}", world.replies);
    }
}

#[test]
fn who_dies_or_is_cut_off_leaves_a_question_unanswered_and_the_next_life_is_asked_anew() {
    let mut world = calm(3);
    let call = ask(&mut world, 0, 1, b"1").expect("it is there");
    world.restart(1, Duration::from_secs(1));
    world.pass(Duration::from_millis(500));
    assert_eq!(world.replies, [(0, call, None)]);
    assert_eq!(ask(&mut world, 0, 1, b"2"), None, "it is down");
    world.pass(Duration::from_secs(5));
    let call = ask(&mut world, 0, 1, b"3").expect("it is back");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies.pop(), Some((0, call, Some(vec![b'3', 1]))));
    let call = ask(&mut world, 0, 2, b"4").expect("it is there");
    world.cut_off(2, Duration::from_secs(2));
    world.pass(Duration::from_secs(8));
    // The answer came with the next connection, too late.
    assert_eq!(world.replies.len(), 2);
    assert_eq!(world.replies.pop(), Some((0, call, None)));
}

#[test]
fn what_is_too_long_is_not_asked_and_not_answered() {
    let mut world = calm(2);
    assert_eq!(ask(&mut world, 0, 1, &vec![0; MAX_CALL + 1]), None);
    // The answer has one byte more.
    let call = ask(&mut world, 0, 1, &vec![0; MAX_CALL]).expect("as long as it may be");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies, [(0, call, Some(Vec::new()))]);
}
