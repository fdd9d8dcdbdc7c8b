//! Replies and notices to connected clients.

use std::{sync::Arc, time::Duration};

use mutua_client::frames::Frames;
use tokio::sync::mpsc;
use tonic::Status;

use super::{Core, Service, hosting};
use crate::{
    Moment,
    leases::{Client, Entry, LockState, Name, Outcome, SessionId},
    proto::v1::{self, session_reply::Reply},
};

/// The sending half of a client's stream. Dropped, it ends the stream.
pub(super) enum Replies {
    /// To a gRPC stream, or to another member.
    Channel(mpsc::UnboundedSender<Result<v1::SessionReply, Status>>),
    Framed(Arc<Frames>),
}

impl Replies {
    /// Sends a reply, or why the stream ends. The reader of the stream notices that it has ended.
    pub(super) fn send(&self, reply: Result<Reply, Status>) {
        match self {
            Self::Channel(replies) => {
                let reply = reply.map(|reply| v1::SessionReply { reply: Some(reply) });
                drop(replies.send(reply));
            }
            Self::Framed(frames) => {
                let failed = |status: Status| {
                    let (code, text) = (status.code(), status.message().to_owned());
                    Reply::Failed(v1::Failed { code: i32::from(code).unsigned_abs(), text })
                };
                let reply = Some(reply.unwrap_or_else(failed));
                // Written here and now: the client waits for it.
                frames.send(&v1::SessionReply { reply });
            }
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if let Self::Framed(frames) = self {
            frames.close();
        }
    }
}

/// A client's stream. A client may attach another one before the end of this one is noticed, and a
/// request on the older one may arrive after one on the newer. So every reply is sent on all
/// streams of a session, and the client reads the one that it has.
pub(super) struct Connected {
    pub(super) replies: Replies,
    /// The number of the stream.
    pub(super) number: u64,
}

impl Service {
    /// The holder, if it is a client of this node.
    pub(super) fn holder_here(&self, core: &Core, now: Moment, name: &[u8]) -> Option<v1::Entry> {
        let holder = core.leases.holder(now, name)?;
        let value = core.recipes.value(name, holder.fencing_token);
        Some(v1::Entry { value, ..entry(holder, self.shown_name()) })
    }

    /// The message for a lock.
    pub(super) fn describe(&self, state: LockState) -> v1::Lock {
        let known = self.node.lock_status(&state.name);
        let algorithm = known.map(|known| known.algorithm.to_owned()).unwrap_or_default();
        let entry = |state| entry(state, self.shown_name());
        let holder = state.holder.map(|holder| {
            let value = self.lock().recipes.value(&state.name, holder.fencing_token);
            v1::Entry { value, ..entry(holder) }
        });
        v1::Lock {
            name: state.name.to_vec(),
            holder,
            waiting: state.waiting.into_iter().map(entry).collect(),
            algorithm,
            last_fencing_token: state.last_fencing_token,
            ..Default::default()
        }
    }

    /// The node's name in messages; empty if it is the only node.
    fn shown_name(&self) -> &str {
        if self.is_alone() { "" } else { &self.name }
    }
}

impl Core {
    pub(super) fn send(&self, session: SessionId, reply: Reply) {
        for client in self.clients.get(&session).into_iter().flatten() {
            client.replies.send(Ok(reply.clone()));
        }
    }

    /// A stream has ended. Returns whether it was the client's last one.
    pub(super) fn disconnected(&mut self, session: SessionId, number: u64) -> bool {
        let Some(streams) = self.clients.get_mut(&session) else { return false };
        streams.retain(|client| client.number != number);
        let last = streams.is_empty();
        if last {
            self.clients.remove(&session);
        }
        last
    }

    pub(super) fn send_outcome(
        &self,
        now: Moment,
        (id, session): (u64, SessionId),
        name: &Name,
        outcome: Outcome,
        holder: Option<v1::Entry>,
    ) {
        let (reason, text) = match outcome {
            Outcome::Granted { fencing_token, waited } => {
                let promised_ms = self.promised_ms(name, fencing_token);
                let (name, waited_ms) = (name.to_vec(), millis(waited));
                let granted = v1::Granted { id, name, fencing_token, waited_ms, promised_ms };
                return self.send(session, Reply::Granted(granted));
            }
            // After a reconnection the client may not know of the grant.
            Outcome::Already { fencing_token } => {
                let promised_ms = self.promised_ms(name, fencing_token);
                let (name, waited_ms) = (name.to_vec(), 0);
                let granted = v1::Granted { id, name, fencing_token, waited_ms, promised_ms };
                return self.send(session, Reply::Granted(granted));
            }
            Outcome::Busy => (v1::Reason::Busy, self.denied(now, "held, or has waiters")),
            Outcome::TimedOut => (v1::Reason::Timeout, self.denied(now, "timed out")),
            Outcome::Unavailable(why) => (v1::Reason::Unavailable, why),
            Outcome::Cancelled => (v1::Reason::Timeout, "the request was cancelled".to_owned()),
            // The end of the session has its own message.
            Outcome::NoSession => return,
        };
        let refused = v1::Refused { id, reason: reason.into(), text, holder };
        self.send(session, Reply::Refused(refused));
    }

    fn promised_ms(&self, name: &[u8], fencing_token: u64) -> Option<u64> {
        self.leases.promise_of(name, fencing_token).map(millis)
    }

    /// Sends the client of a hold what it is promised now, or that its hold is recorded.
    pub(super) fn send_promised(&self, session: SessionId, name: &[u8], fencing_token: u64) {
        let promised_ms = self.promised_ms(name, fencing_token);
        let promised = v1::Promised { name: name.to_vec(), fencing_token, promised_ms };
        self.send(session, Reply::Promised(promised));
    }

    /// Tells a client that is back which of its promised holds are recorded. Of the others it
    /// counts on what it knows already.
    pub(super) fn confirm_promises(&self, session: SessionId, held: Vec<v1::Reclaim>) {
        for v1::Reclaim { name, fencing_token, promised } in held {
            if promised && self.leases.promise_of(&name, fencing_token).is_none() {
                self.send_promised(session, &name, fencing_token);
            }
        }
    }

    fn denied(&self, now: Moment, why: &str) -> String {
        self.quarantined(now).unwrap_or_else(|| why.to_owned())
    }

    pub(super) fn send_lost(
        &self,
        session: SessionId,
        name: &Name,
        fencing_token: u64,
        reason: String,
    ) {
        let lost = v1::Lost { name: name.to_vec(), fencing_token, reason };
        self.send(session, Reply::Lost(lost));
    }

    /// Another member serves the session: its streams end, and the client looks for that member.
    pub(super) fn send_moved(&mut self, session: SessionId) {
        for client in self.clients.remove(&session).into_iter().flatten() {
            client.replies.send(Err(hosting::unavailable()));
        }
    }

    /// A session has ended: its streams end with a last reply.
    pub(super) fn send_closed(&mut self, session: SessionId) {
        self.send(session, Reply::Closed(v1::Closed {}));
        self.clients.remove(&session);
    }
}

/// Milliseconds, as messages have them.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The message for a holder or a waiter.
fn entry(entry: Entry, node: &str) -> v1::Entry {
    v1::Entry {
        node: node.to_owned(),
        session: entry.session.0,
        fencing_token: entry.fencing_token,
        for_ms: millis(entry.elapsed),
        client: Some(v1::Client {
            owner: entry.client.owner,
            host: entry.client.host,
            pid: entry.client.pid,
            command: entry.client.command,
            version: entry.client.version,
            identity: entry.client.identity,
        }),
        value: None,
        custody: entry.custody,
        lease_left_ms: millis(entry.left),
    }
}

/// The client of a message, with its texts cut to what lists show. Its identity is not the
/// client's to say.
pub(super) fn client(client: Option<v1::Client>, identity: String) -> Client {
    let client = client.unwrap_or_default();
    Client {
        owner: short(client.owner, 256),
        host: short(client.host, 256),
        pid: client.pid,
        command: short(client.command, 1000),
        version: short(client.version, 256),
        identity,
    }
}

fn short(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(short("äöü".to_owned(), 6), "äöü");
        assert_eq!(short("äöü".to_owned(), 5), "äö...");
    }
}
