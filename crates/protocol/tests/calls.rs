//! A call to another member is answered once, or reported as unanswered.

mod network;

use std::time::Duration;

use mutua_protocol::{CallId, MAX_CALL, Member, Rule};
use network::{Scene, World};

fn calm(nodes: usize) -> World {
    let mut scene = Scene::new(7, nodes, Rule::new("*", "ricart-agrawala"));
    scene.clients = 0;
    let mut world = World::new(scene);
    world.pass(Duration::from_secs(1));
    world
}

fn send_call(world: &mut World, from: usize, to: u32, body: &[u8]) -> Option<CallId> {
    world.call(from, |protocol| protocol.call(Member(to), body))
}

#[test]
fn calls_are_answered_by_the_called_member() {
    let mut world = calm(3);
    let calls = [(0, 1), (0, 2), (2, 1), (0, 1)]
        .map(|(from, to)| (from, to, send_call(&mut world, from, to, b"call").expect("connected")));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies.len(), calls.len());
    for (from, to, call) in calls {
        let answer = Some([&b"call"[..], &[to as u8]].concat());
        assert!(world.replies.contains(&(from, call, answer)), "{:?}", world.replies);
    }
}

#[test]
fn calls_to_a_crashed_or_cut_off_member_are_unanswered_and_its_next_incarnation_answers() {
    let mut world = calm(3);
    let call = send_call(&mut world, 0, 1, b"1").expect("connected");
    world.restart(1, Duration::from_secs(1));
    world.pass(Duration::from_millis(500));
    assert_eq!(world.replies, [(0, call, None)]);
    assert_eq!(send_call(&mut world, 0, 1, b"2"), None, "it is down");
    world.pass(Duration::from_secs(5));
    let call = send_call(&mut world, 0, 1, b"3").expect("connected again");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies.pop(), Some((0, call, Some(vec![b'3', 1]))));
    let call = send_call(&mut world, 0, 2, b"4").expect("connected");
    world.cut_off(2, Duration::from_secs(2));
    world.pass(Duration::from_secs(8));
    // The answer came with the next connection, too late.
    assert_eq!(world.replies.len(), 2);
    assert_eq!(world.replies.pop(), Some((0, call, None)));
}

#[test]
fn a_call_that_is_too_long_is_not_sent_and_a_reply_that_is_too_long_is_sent_empty() {
    let mut world = calm(2);
    assert_eq!(send_call(&mut world, 0, 1, &vec![0; MAX_CALL + 1]), None);
    // The answer has one byte more.
    let call = send_call(&mut world, 0, 1, &vec![0; MAX_CALL]).expect("as long as it may be");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.replies, [(0, call, Some(Vec::new()))]);
}
