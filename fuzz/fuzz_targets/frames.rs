//! A node that is fed any bytes by a peer that has said hello, in any cuts: it reads or refuses
//! them, whatever state the earlier ones have brought it to.
//!
//! The input is pieces: a byte that says how long the piece is, and whether it is raw or the body
//! of a frame, for which length and tag are put before it, so that bodies are reached often.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mutua_brain::{Brain, Connection, Effect, Hello, Limits, Member, Moment, Plan, Seat};

const MEMBERS: u32 = 3;
/// The node under test, which does not take the chair, and the peer that does.
const NODE: Member = Member(1);
const PEER: Member = Member(0);

fn node(me: Member) -> Brain {
    let plan = Plan::new(MEMBERS, &[]).expect("the default rule");
    let seat = Seat {
        cluster: "fuzz".to_owned(),
        names: (0..MEMBERS).map(|member| format!("n{member}")).collect(),
        me,
        plan: Arc::new(plan),
        incarnation: u64::from(me.0) + 1,
        epoch: 0,
        limits: Limits::default(),
    };
    Brain::new(Moment::ZERO, seat)
}

/// Real nodes say the hellos.
fn greet(brain: &mut Brain, peer: Member, connection: u64) {
    let bytes = node(peer).hello(NODE);
    let (hello, _) = Hello::decode(&bytes).expect("a node's hello").expect("a whole one");
    let greeted = brain.connected(Moment::ZERO, Connection(connection), &hello);
    greeted.expect("a hello that fits");
}

/// The tag is in the header of whatever the node writes.
fn tag(brain: &mut Brain) -> [u8; 4] {
    let mut bytes = Vec::new();
    assert!(brain.output(PEER, Connection(0), &mut bytes), "an acknowledgement is due");
    *bytes[4..].first_chunk().expect("a header")
}

fn framed(tag: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short piece");
    [&length.to_le_bytes(), &tag, body].concat()
}

fuzz_target!(|input: &[u8]| {
    let mut brain = node(NODE);
    greet(&mut brain, PEER, 0);
    greet(&mut brain, Member(2), 1);
    let tag = tag(&mut brain);
    let (mut connection, mut rest) = (0, input);
    while let Some((&head, after)) = rest.split_first() {
        let (piece, next) = after.split_at(after.len().min(usize::from(head >> 1)));
        rest = next;
        let bytes = if head & 1 == 0 { framed(tag, piece) } else { piece.to_vec() };
        brain.received(Moment::ZERO, PEER, Connection(connection), &bytes);
        for effect in brain.take_effects() {
            match effect {
                Effect::Write { epoch } => brain.written(Moment::ZERO, epoch),
                Effect::Close { .. } => {
                    connection += 2;
                    greet(&mut brain, PEER, connection);
                }
                _ => {}
            }
        }
    }
});
