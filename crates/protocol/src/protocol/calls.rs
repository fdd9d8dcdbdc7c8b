//! Calls of the program around one node to that around another, and their replies: carried, not
//! interpreted. They need a link and no view, since holders are of most interest when nothing is
//! granted.

use super::Protocol;
use crate::{Effect, Level, Member, wire::Message};

/// The longest body of a call or a reply, in bytes.
pub const MAX_CALL: usize = 512 << 10;

/// The most open calls to one member, and of one. A member that exceeds it gets empty replies, so
/// that it cannot fill our memory with calls.
pub(super) const OPEN: usize = 1000;

/// A call to another member.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(u64);

/// A call of another member. Its next incarnation does not get the reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caller {
    peer: Member,
    incarnation: u64,
    id: u64,
}

impl Protocol {
    /// Calls a member. [`Effect::Replied`] or [`Effect::Unanswered`] follows; `None` if the call
    /// cannot be sent now.
    pub fn call(&mut self, peer: Member, body: &[u8]) -> Option<CallId> {
        let backlog = self.config.limits.backlog;
        if !self.has_link(peer) {
            return None;
        }
        let link = self.link(peer);
        if !link.is_up() || link.is_full(backlog) || self.is_too_long("call", body) {
            return None;
        }
        if self.calls.values().filter(|callee| **callee == peer).count() >= OPEN {
            return None;
        }
        let id = self.next_number();
        self.calls.insert(id, peer);
        self.link(peer).send(Message::Call { id, body });
        self.ready.insert(peer);
        Some(CallId(id))
    }

    /// Replies to a call of [`Effect::Called`]. A reply that is too long is sent empty, so that the
    /// caller does not wait for it.
    pub fn reply(&mut self, caller: Caller, body: &[u8]) {
        let Caller { peer, incarnation, id } = caller;
        if !self.has_link(peer) {
            return;
        }
        let open = self.called.entry(peer).or_default();
        *open = open.saturating_sub(1);
        let body = if self.is_too_long("reply", body) { &[] } else { body };
        if self.link(peer).incarnation() == incarnation {
            self.link(peer).send(Message::Reply { id, body });
            self.ready.insert(peer);
        }
    }

    fn is_too_long(&mut self, what: &str, body: &[u8]) -> bool {
        let too_long = body.len() > MAX_CALL;
        if too_long {
            let length = body.len();
            let text = format!("a {what} of {length} bytes is not sent: the most is {MAX_CALL}");
            self.log(Level::Warning, text);
        }
        too_long
    }

    pub(super) fn on_call(&mut self, peer: Member, id: u64, body: &[u8]) {
        let caller = Caller { peer, incarnation: self.link(peer).incarnation(), id };
        let open = self.called.entry(peer).or_default();
        *open += 1;
        if *open > OPEN {
            return self.reply(caller, &[]);
        }
        self.effects.push(Effect::Called { caller, body: body.to_vec() });
    }

    pub(super) fn on_reply(&mut self, peer: Member, id: u64, body: &[u8]) {
        // The call may have been given up when the link broke, and the reply come with the next
        // connection.
        if self.calls.get(&id) == Some(&peer) {
            self.calls.remove(&id);
            self.effects.push(Effect::Replied { call: CallId(id), body: body.to_vec() });
        }
    }

    /// Gives up the calls to this member.
    pub(super) fn give_up_calls_to(&mut self, peer: Member) {
        self.calls.retain(|&id, callee| {
            let lost = *callee == peer;
            if lost {
                self.effects.push(Effect::Unanswered { call: CallId(id) });
            }
            !lost
        });
    }
}
