use proptest::prelude::*;

use super::*;

/// Any message, with owned bytes to borrow from.
fn messages() -> impl Strategy<Value = (u8, u32, u64, Vec<u8>, Vec<Vec<u8>>)> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    (0..12_u8, any::<u32>(), any::<u64>(), bytes(), proptest::collection::vec(bytes(), 0..8))
}

fn message<'a>(kind: u8, epoch: u32, id: u64, name: &'a [u8], names: &'a [Vec<u8>]) -> Message<'a> {
    let list = names.iter().map(Vec::as_slice).collect();
    let round = id;
    match kind {
        0 => Message::Lock { epoch, name, sent: Time::from_number(id >> 1), body: name },
        1 => Message::Nudge { epoch, name },
        2 => Message::Query { epoch, id, name, waiting_counts: id.is_multiple_of(2) },
        3 => Message::QueryReply { epoch, id, busy: epoch.is_multiple_of(2) },
        4 => Message::Cleanup { epoch, round, names: list },
        5 => Message::Vote {
            epoch,
            home: Member(epoch),
            round,
            second: id.is_multiple_of(2),
            kept: name.iter().map(|&byte| byte.into()).collect(),
            clock: Time::from_number(id >> 1),
        },
        6 => Message::Gather { round },
        7 => Message::Holds { round, names: list },
        8 => Message::Report { round, epoch, incarnations: vec![id, u64::MAX, 0] },
        9 => Message::Held {
            round,
            names: list.into_iter().map(|name| (Member(epoch), name)).collect(),
        },
        10 => Message::Install { round, epoch, incarnations: vec![1, id] },
        _ => Message::Ended { epoch },
    }
}

proptest! {
    #[test]
    fn an_encoded_frame_is_decoded_however_its_bytes_are_cut(
        all in proptest::collection::vec(messages(), 1..8),
        cut in 1_usize..50,
    ) {
        let frames: Vec<_> = all
            .iter()
            .zip(1..)
            .map(|((kind, epoch, id, name, names), number)| {
                Frame::Data { number, message: message(*kind, *epoch, *id, name, names) }
            })
            .collect();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encode(7, frame)).collect();
        let mut decoder = Decoder::default();
        let mut read = 0;
        for piece in bytes.chunks(cut) {
            decoder.push(piece);
            while let Some(frame) = decoder.next(7).expect("what we encoded") {
                prop_assert_eq!(&frame, &frames[read]);
                read += 1;
            }
        }
        prop_assert_eq!(read, frames.len());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused_and_no_more_are_kept_than_arrived(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        small in any::<bool>(),
    ) {
        // Half of the time the length and the tag are right, so that the body is looked at.
        let mut bytes = bytes;
        if small && bytes.len() >= HEADER {
            let length = (bytes.len() - HEADER) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes[4..HEADER].copy_from_slice(&7_u32.to_le_bytes());
        }
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        let first = decoder.next(7).map(|frame| frame.is_some());
        if small && bytes.len() >= HEADER {
            let known = matches!(first, Ok(true) | Err(WireError::Garbled | WireError::Clock(_)));
            prop_assert!(known, "{first:?}");
        }
        prop_assert!(decoder.bytes.len() <= bytes.len());
        let hello = Hello::decode(&bytes);
        prop_assert!(hello.is_err() || bytes.is_empty() || bytes.starts_with(b"M"));
    }

    #[test]
    fn a_frame_with_a_byte_changed_is_never_a_longer_one(
        (kind, epoch, id, name, names) in messages(),
        index in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let frame = Frame::Data { number: 1, message: message(kind, epoch, id, &name, &names) };
        let mut bytes = encode(7, &frame).into_vec();
        let index = index.index(bytes.len());
        bytes[index] = byte;
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        // It may be read as another message; it must not be read beyond its end.
        let _ = decoder.next(7);
        prop_assert!(decoder.read <= bytes.len());
    }
}

#[test]
fn a_length_beyond_the_bound_is_refused_before_the_body_comes() {
    let mut decoder = Decoder::default();
    decoder.push(&[0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0]);
    assert_eq!(decoder.next(7), Err(WireError::TooLong { length: 0xffff_ffff }));
}

#[test]
fn a_frame_of_another_incarnation_is_refused() {
    let ours = tag("c", [1, 2]);
    assert_eq!(ours, tag("c", [2, 1]));
    let mut decoder = Decoder::default();
    decoder.push(&encode(tag("c", [1, 3]), &Frame::Ack { upto: 0 }));
    assert_eq!(decoder.next(ours), Err(WireError::Tag));
}

#[test]
fn a_hello_of_another_version_is_refused_with_its_version() {
    let hello = Hello {
        cluster: "c".to_owned(),
        plan: 1,
        from: Member(0),
        to: Member(1),
        incarnation: 5,
        session: 0,
        received: 0,
        levels: crate::views::Levels::HERE,
    };
    let mut bytes = hello.encode();
    assert_eq!(Hello::decode(&bytes), Ok(Some((hello, bytes.len()))));
    assert_eq!(Hello::decode(&bytes[..9]), Ok(None));
    bytes[4] = 9;
    assert_eq!(Hello::decode(&bytes), Err(WireError::Version { theirs: 9 }));
    assert_eq!(Hello::decode(b"GET / HTTP/1.1"), Err(WireError::NoNode));
}

#[test]
fn a_clock_out_of_range_is_refused() {
    let highest = Time::NUMBERS - 1;
    for (number, fits) in [(highest, true), (highest + 1, false), (u64::MAX, false)] {
        let clock = Time::from_number(number);
        let lock = Message::Lock { epoch: 1, name: b"n", sent: clock, body: b"" };
        let (home, kept) = (Member(0), Vec::new());
        let vote = Message::Vote { epoch: 1, home, round: 1, second: true, kept, clock };
        for message in [lock, vote] {
            let frame = Frame::Data { number: 1, message };
            let mut decoder = Decoder::default();
            decoder.push(&encode(7, &frame));
            let read = decoder.next(7).map(|frame| frame.is_some());
            assert_eq!(read, if fits { Ok(true) } else { Err(WireError::Clock(number)) });
        }
    }
}
