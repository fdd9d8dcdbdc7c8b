//! What unauthenticated bytes can reach, one function for each decoder: none may panic, and none may
//! need more time or memory than the input justifies.
//!
//! cargo-fuzz runs them with its own inputs (`fuzz_targets/`, nightly); the test `decoders` of the
//! command line runs the kept inputs in `corpus/` and mutations of them, on the stable toolchain.

use std::sync::Arc;

use mutua_client::proto::{etcdserverpb, v1, v3lockpb};
use mutua_lab::Script;
use mutua_node::Config;
use mutua_protocol::{
    Connection, Effect, Hello, Limits, Member, Moment, Plan, Protocol, ProtocolConfig, ViewSource,
};
use prost::Message;

/// A target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their directories in `corpus/`.
pub const TARGETS: [(&str, Target); 5] = [
    ("frames", frames),
    ("hello", hello),
    ("requests", requests),
    ("config", config),
    ("script", script),
];

/// The first bytes of a connection to a member's port.
pub fn hello(input: &[u8]) {
    if let Ok(Some((_, length))) = Hello::decode(input) {
        assert!(length <= input.len(), "a hello is a part of the input");
    }
}

/// The bodies of all gRPC requests, and of the queries of other members.
pub fn requests(input: &[u8]) {
    /// Decodes a message, and checks that what it encodes to is decoded again.
    fn decode<M: Message + Default + PartialEq + std::fmt::Debug>(input: &[u8]) {
        let Ok(message) = M::decode(input) else { return };
        let again = M::decode(&*message.encode_to_vec());
        assert!(again.is_ok_and(|again| again == message), "{message:?}");
    }
    decode::<v1::SessionRequest>(input);
    decode::<v1::AcquireRequest>(input);
    decode::<v1::ReleaseRequest>(input);
    decode::<v1::VerifyRequest>(input);
    decode::<v1::ListRequest>(input);
    decode::<v1::WatchRequest>(input);
    decode::<v1::BreakRequest>(input);
    decode::<v1::PeerQuery>(input);
    decode::<v1::Recorded>(input);
    decode::<etcdserverpb::LeaseGrantRequest>(input);
    decode::<etcdserverpb::LeaseKeepAliveRequest>(input);
    decode::<etcdserverpb::LeaseTimeToLiveRequest>(input);
    decode::<v3lockpb::LockRequest>(input);
    decode::<v3lockpb::UnlockRequest>(input);
}

/// A configuration file: valid, or an error with a line.
pub fn config(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Err(error) = Config::parse(text, "f") {
        assert!(error.to_string().starts_with("f:"), "{error}");
    }
}

/// A script, which the page of the lab receives from a visitor.
pub fn script(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Err(error) = Script::parse("f", text) {
        assert!(!error.to_string().is_empty());
    }
}

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
        views: ViewSource::FixedList,
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

/// A node that receives any bytes, in any pieces, from a peer whose hello was accepted: it decodes
/// or refuses them, whatever state the earlier ones have led to.
///
/// The input is pieces: a byte that gives the length of the piece, and whether it is raw or the
/// body of a frame, which gets a length and a tag, so that bodies are reached often.
pub fn frames(input: &[u8]) {
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
}
