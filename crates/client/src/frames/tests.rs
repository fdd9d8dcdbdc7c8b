//! Frames in pieces, strange bytes, and connections that begin in other ways.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{BeginError, Decoder, Frames, LONGEST, Socket, check_node, encode, node_beginning};
use crate::proto::v1::{self, session_request::Request};

fn acquire(id: u64, name: &[u8]) -> v1::SessionRequest {
    let acquire = v1::Acquire {
        id,
        name: name.to_vec(),
        wait_ms: Some(7),
        watch: true,
        ..Default::default()
    };
    v1::SessionRequest { request: Some(Request::Acquire(acquire)) }
}

#[test]
fn messages_arrive_whole_however_their_bytes_are_cut() {
    let sent: Vec<_> = (0..50).map(|id| acquire(id, &vec![b'x'; id as usize * 7])).collect();
    let mut bytes = Vec::new();
    sent.iter().for_each(|message| encode(message, &mut bytes));
    for size in [1, 2, 3, 5, 64, 1000, bytes.len()] {
        let (mut decoder, mut received) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            while let Some(message) = decoder.message::<v1::SessionRequest>().expect("valid") {
                received.push(message);
            }
        }
        assert_eq!(received, sent, "in pieces of {size}");
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_before_it_arrives() {
    let mut decoder = Decoder::default();
    decoder.push(&u32::try_from(LONGEST + 1).expect("small").to_le_bytes());
    let refused = decoder.message::<v1::SessionRequest>().expect_err("too long");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn strange_bytes_are_an_error_or_a_message_and_never_a_panic() {
    let (mut random, mut messages, mut errors) = (Random(18), 0, 0);
    for round in 0..20_000 {
        let mut bytes = Vec::new();
        encode(&acquire(random.next(), b"name"), &mut bytes);
        encode(&acquire(random.next(), &[0xff; 40]), &mut bytes);
        for _ in 0..round % 5 {
            let length = bytes.len() as u64;
            let at = usize::try_from(random.next() % length).expect("small");
            bytes[at] = random.next().to_le_bytes()[0];
        }
        bytes.truncate(usize::try_from(random.next() % 100).expect("small").max(1));
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        loop {
            match decoder.message::<v1::SessionRequest>() {
                Ok(Some(_)) => messages += 1,
                Ok(None) => break,
                Err(_) => {
                    errors += 1;
                    break;
                }
            }
        }
    }
    assert!(messages > 1000 && errors > 1000, "{messages} messages, {errors} errors");
}

#[test]
fn a_node_chooses_the_newest_version_that_both_know() {
    let begin = |oldest, newest| node_beginning(super::beginning(oldest, newest));
    assert_eq!(begin(1, 1), Ok(super::beginning(1, 1)));
    assert_eq!(begin(1, 9), Ok(super::beginning(1, 1)));
    assert_eq!(begin(2, 9), Err(BeginError::Version(2, 9)));
    assert_eq!(begin(0, 0), Err(BeginError::Version(0, 0)));
    assert_eq!(node_beginning(*b"PRI * HT"), Err(BeginError::Other));
    assert_eq!(check_node(super::beginning(1, 1)), Ok(()));
    assert_eq!(check_node(super::refusal()), Err(BeginError::Version(0, 1)));
    assert_eq!(check_node(super::beginning(2, 2)), Err(BeginError::Version(2, 2)));
}

#[tokio::test]
async fn two_sides_that_begin_exchange_messages() {
    let (client, node) = UnixStream::pair().expect("made");
    let (client, node) =
        tokio::join!(Frames::begin(Socket::Unix(client)), Frames::accept(Socket::Unix(node)));
    let (client, node) = (client.expect("begun"), node.expect("begun"));
    // More than a socket's buffer has room for, so that the receiving task must write the rest.
    let name = vec![b'n'; 3000];
    for id in 0..500 {
        client.send(&acquire(id, &name));
    }
    let (mut at_client, mut at_node) = (Decoder::default(), Decoder::default());
    let all = async {
        for id in 0..500 {
            let message = node.receive(&mut at_node).await.expect("read");
            assert_eq!(message, Some(acquire(id, &name)));
        }
        node.close();
    };
    let end = client.receive::<v1::SessionReply>(&mut at_client);
    let ((), end) = tokio::join!(all, end);
    assert_eq!(end.expect("ended"), None);
}

#[tokio::test]
async fn a_server_without_frames_is_unsupported() {
    for reply in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\x06\x04\0\0\0\0\0\0\0"] {
        let (client, mut server) = UnixStream::pair().expect("made");
        let serve = async {
            let mut first = [0; 8];
            server.read_exact(&mut first).await.expect("read");
            server.write_all(reply).await.expect("written");
            drop(server);
        };
        let (begun, ()) = tokio::join!(Frames::begin(Socket::Unix(client)), serve);
        assert_eq!(begun.expect_err("no frames").kind(), io::ErrorKind::Unsupported);
    }
}
