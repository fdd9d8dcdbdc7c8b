//! Messages that no correct process sends.

use std::fmt::Debug;

use mutua_algorithms::{Message, NodeId, Time, split_mix::Dice};

/// Makes messages from those of an honest run, from their bytes, and from nothing.
pub(crate) struct Garbage<M> {
    /// Each with its sender.
    honest: Vec<(NodeId, M)>,
    processes: u32,
}

impl<M: Message> Garbage<M> {
    pub(crate) fn new(honest: Vec<(NodeId, M)>, processes: u32) -> Self {
        Self { honest, processes }
    }

    /// An honest message at the wrong time or place, a damaged one, or any bytes that are a
    /// message; with its sender.
    pub(crate) fn message(&self, dice: &mut Dice) -> Option<(NodeId, M)> {
        let any_sender = sender(self.processes, dice);
        if self.honest.is_empty() || dice.one_in(3) {
            return Some((any_sender, decode(&random_bytes(dice))?));
        }
        let (its_sender, honest) = dice.pick(&self.honest);
        let from = if dice.one_in(3) { any_sender } else { *its_sender };
        let message = if dice.one_in(2) { honest.clone() } else { decode(&damage(honest, dice))? };
        Some((from, message))
    }
}

/// A sender: mostly a member, sometimes an unknown process or the receiver itself.
pub(crate) fn sender(processes: u32, dice: &mut Dice) -> NodeId {
    match dice.index(8) {
        0 => NodeId(processes + dice.within(0, 70)),
        1 => *dice.pick(&[NodeId(u32::MAX), NodeId(u32::MAX - 1), NodeId(1 << 31)]),
        _ => NodeId::from(dice.index(processes as usize)),
    }
}

/// A clock reading such as links let through: any below 2^62.
pub(crate) fn time(dice: &mut Dice) -> Time {
    let bits = dice.within(1, 62);
    Time::from_number(dice.next() >> (64 - bits))
}

/// Asserts of any message, honest or not, that it can be named, shown and written.
pub(crate) fn check_message<M: Message + Debug>(message: &M) {
    assert!(!message.kind().is_empty(), "{message:?} has no name");
    let _ = message.fields();
    let bytes = postcard::to_stdvec(message).expect("a message can be written");
    assert_eq!(postcard::from_bytes::<M>(&bytes).as_ref(), Ok(message));
}

fn decode<M: Message>(bytes: &[u8]) -> Option<M> {
    postcard::from_bytes(bytes).ok()
}

/// Mostly small numbers, since these are ids, variants and counts; now and then the largest.
fn random_bytes(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.index(16) {
        bytes.extend_from_slice(random_number(dice).as_slice());
    }
    bytes.extend(END);
    bytes
}

/// Whatever is read, it finds a number that ends.
const END: [u8; 12] = [0; 12];

/// A number as it is written: the largest of 32 and of 64 bits, any byte, or a small one.
fn random_number(dice: &mut Dice) -> Vec<u8> {
    let byte = dice.next().to_le_bytes()[0];
    match dice.index(12) {
        0 => vec![0xff, 0xff, 0xff, 0xff, 0x0f],
        1 => vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        2 => vec![byte],
        _ => vec![byte % 8],
    }
}

fn damage<M: Message>(honest: &M, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = postcard::to_stdvec(honest).expect("a message can be written");
    for _ in 0..dice.within(1, 3) {
        let index = dice.index(bytes.len());
        let removed = dice.index(2).min(bytes.len() - 1);
        bytes.splice(index..(index + removed).min(bytes.len()), random_number(dice));
    }
    bytes.extend(END);
    bytes
}
