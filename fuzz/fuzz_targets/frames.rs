//! A node that receives any bytes, in any pieces, from a peer whose hello was accepted: it decodes
//! or refuses them, whatever state the earlier ones have led to.
//!
//! The input is pieces: a byte that gives the length of the piece, and whether it is raw or the
//! body of a frame, which gets a length and a tag, so that bodies are reached often.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mutua_protocol::{
    Connection, Effect, Hello, Limits, Member, Moment, Plan, Protocol, ProtocolConfig,
};

const MEMBERS: u32 = 3;
/// The node under test, which is not the coordinator, and the peer that is.
const NODE: Member = Member(1);
const PEER: Member = Member(0);

fn node(me: Member) -> Protocol {
    let plan = Plan::new(MEMBERS, &[]).expect("the default rule");
    let config = ProtocolConfig {
        cluster: "fuzz".to_owned(),
        names: (0..MEMBERS).map(|member| format!("n{member}")).collect(),
        me,
        plan: Arc::new(plan),
        incarnation: u64::from(me.0) + 1,
        epoch: 0,
        limits: Limits::default(),
    };
    Protocol::new(Moment::ZERO, config)
}

/// Connects a peer with the hello of a real node.
fn greet(protocol: &mut Protocol, peer: Member, connection: u64) {
    let bytes = node(peer).hello(NODE);
    let (hello, _) = Hello::decode(&bytes).expect("a node's hello").expect("a whole one");
    let greeted = protocol.connected(Moment::ZERO, Connection(connection), &hello);
    greeted.expect("an accepted hello");
}

/// The tag of the session, which is in the header of every frame that the node writes.
fn tag(protocol: &mut Protocol) -> [u8; 4] {
    let mut bytes = Vec::new();
    assert!(protocol.output(PEER, Connection(0), &mut bytes), "an acknowledgement is due");
    *bytes[4..].first_chunk().expect("a header")
}

fn framed(tag: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short piece");
    [&length.to_le_bytes(), &tag, body].concat()
}

fuzz_target!(|input: &[u8]| {
    let mut protocol = node(NODE);
    greet(&mut protocol, PEER, 0);
    greet(&mut protocol, Member(2), 1);
    let tag = tag(&mut protocol);
    let (mut connection, mut rest) = (0, input);
    while let Some((&head, after)) = rest.split_first() {
        let (piece, next) = after.split_at(after.len().min(usize::from(head >> 1)));
        rest = next;
        let bytes = if head & 1 == 0 { framed(tag, piece) } else { piece.to_vec() };
        protocol.received(Moment::ZERO, PEER, Connection(connection), &bytes);
        for effect in protocol.take_effects() {
            match effect {
                Effect::Write { epoch } => protocol.written(Moment::ZERO, epoch),
                Effect::Close { .. } => {
                    connection += 2;
                    greet(&mut protocol, PEER, connection);
                }
                _ => {}
            }
        }
    }
});
