//! Questions of one shell to another, and the answers: carried, not understood. They need a link
//! and no view, since who is inside is of most interest when nothing is granted.

use super::Brain;
use crate::{Effect, Level, Member, wire::Message};

/// The longest question or answer, in bytes.
pub const MAX_CALL: usize = 512 << 10;

/// So many questions to one member, or of one, may be open. A member that does not keep to it is
/// answered with nothing, so that it cannot fill our memory with what it asks.
pub(super) const OPEN: usize = 1000;

/// A question that was asked.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(u64);

/// Who asked a question. Its next life does not get the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caller {
    peer: Member,
    life: u64,
    id: u64,
}

impl Brain {
    /// Asks a member something. [`Effect::Replied`] or [`Effect::Unanswered`] follows; `None` if it
    /// cannot be asked now.
    pub fn call(&mut self, peer: Member, body: &[u8]) -> Option<CallId> {
        let backlog = self.seat.limits.backlog;
        let link = self.link(peer);
        if !link.is_up() || link.is_full(backlog) || self.is_too_long("question", body) {
            return None;
        }
        if self.calls.values().filter(|asked| **asked == peer).count() >= OPEN {
            return None;
        }
        let id = self.next_number();
        self.calls.insert(id, peer);
        self.link(peer).send(Message::Call { id, body });
        self.ready.insert(peer);
        Some(CallId(id))
    }

    /// Answers a question of [`Effect::Called`]. An answer that is too long is sent empty, so that
    /// nobody waits for it.
    pub fn reply(&mut self, caller: Caller, body: &[u8]) {
        let Caller { peer, life, id } = caller;
        let open = self.called.entry(peer).or_default();
        *open = open.saturating_sub(1);
        let body = if self.is_too_long("answer", body) { &[] } else { body };
        if self.link(peer).life() == life {
            self.link(peer).send(Message::Reply { id, body });
            self.ready.insert(peer);
        }
    }

    fn is_too_long(&mut self, what: &str, body: &[u8]) -> bool {
        let too_long = body.len() > MAX_CALL;
        if too_long {
            let length = body.len();
            let text = format!("the {what} has {length} bytes, more than {MAX_CALL}: not sent");
            self.log(Level::Warning, text);
        }
        too_long
    }

    pub(super) fn on_call(&mut self, peer: Member, id: u64, body: &[u8]) {
        let caller = Caller { peer, life: self.link(peer).life(), id };
        let open = self.called.entry(peer).or_default();
        *open += 1;
        if *open > OPEN {
            return self.reply(caller, &[]);
        }
        self.effects.push(Effect::Called { caller, body: body.to_vec() });
    }

    pub(super) fn on_reply(&mut self, peer: Member, id: u64, body: &[u8]) {
        // It may have been given up when the link broke, and come later with the next connection.
        if self.calls.get(&id) == Some(&peer) {
            self.calls.remove(&id);
            self.effects.push(Effect::Replied { call: CallId(id), body: body.to_vec() });
        }
    }

    /// What this member was asked is not answered any more.
    pub(super) fn give_up_calls_to(&mut self, peer: Member) {
        let lost = self.calls.extract_if(.., |_, asked| *asked == peer);
        self.effects.extend(lost.map(|(id, _)| Effect::Unanswered { call: CallId(id) }));
    }
}
