//! Telling connected clients what happened to them.

use std::time::Duration;

use super::{Core, Replies, Service};
use crate::{
    Moment,
    desk::{Client, LockState, Name, Outcome, SessionId, Standing},
    proto::v1::{self, reply::Answer},
};

/// A client's stream. It may have come back on another one before the end of this is known, and
/// what it said on the older one may be heard after what it says on the newer. So it is told
/// everything on each of them, and reads the one that it has.
pub(super) struct Connected {
    pub(super) replies: Replies,
    /// Which stream it is.
    pub(super) number: u64,
}

impl Service {
    /// Who of this node is inside.
    pub(super) fn holder_here(&self, core: &Core, now: Moment, name: &[u8]) -> Option<v1::Entry> {
        core.desk.holder(now, name).map(|holder| entry(holder, self.shown_name()))
    }

    /// A lock, as it is sent.
    pub(super) fn describe(&self, state: LockState) -> v1::Lock {
        let known = self.node.lock_status(&state.name);
        let algorithm = known.map(|known| known.algorithm.to_owned()).unwrap_or_default();
        let entry = |standing| entry(standing, self.shown_name());
        v1::Lock {
            name: state.name.to_vec(),
            holder: state.holder.map(entry),
            waiting: state.line.into_iter().map(entry).collect(),
            algorithm,
            last_fence: state.last_fence,
            ..Default::default()
        }
    }

    /// The node's name, for those who see several.
    fn shown_name(&self) -> &str {
        if self.is_alone() { "" } else { &self.name }
    }
}

impl Core {
    pub(super) fn tell(&self, session: SessionId, answer: Answer) {
        for client in self.clients.get(&session).into_iter().flatten() {
            // A stream that is gone is seen where it is read.
            let _ = client.replies.send(Ok(v1::Reply { answer: Some(answer.clone()) }));
        }
    }

    /// A stream has ended. Says whether the client has no other.
    pub(super) fn disconnected(&mut self, session: SessionId, number: u64) -> bool {
        let Some(streams) = self.clients.get_mut(&session) else { return false };
        streams.retain(|client| client.number != number);
        let last = streams.is_empty();
        if last {
            self.clients.remove(&session);
        }
        last
    }

    pub(super) fn tell_outcome(
        &self,
        now: Moment,
        (id, session): (u64, SessionId),
        name: &Name,
        outcome: Outcome,
        holder: Option<v1::Entry>,
    ) {
        let (reason, text) = match outcome {
            Outcome::Granted { fence, waited } => {
                let (name, waited_ms) = (name.to_vec(), millis(waited));
                let granted = v1::Granted { id, name, fence, waited_ms };
                return self.tell(session, Answer::Granted(granted));
            }
            // A client that comes back may not know it.
            Outcome::Already { fence } => {
                let granted = v1::Granted { id, name: name.to_vec(), fence, waited_ms: 0 };
                return self.tell(session, Answer::Granted(granted));
            }
            Outcome::Busy => (v1::Reason::Busy, self.kept_out(now, "somebody is inside or waits")),
            Outcome::TimedOut => {
                (v1::Reason::Timeout, self.kept_out(now, "the time to wait is over"))
            }
            Outcome::Unavailable(why) => (v1::Reason::Unavailable, why),
            Outcome::Cancelled => (v1::Reason::Timeout, "it was called off".to_owned()),
            // The end of the session is told by itself.
            Outcome::NoSession => return,
        };
        let refused = v1::Refused { id, reason: reason.into(), text, holder };
        self.tell(session, Answer::Refused(refused));
    }

    fn kept_out(&self, now: Moment, why: &str) -> String {
        self.quarantined(now).unwrap_or_else(|| why.to_owned())
    }

    pub(super) fn tell_lost(&self, session: SessionId, name: &Name, fence: u64, reason: String) {
        let lost = v1::Lost { name: name.to_vec(), fence, reason };
        self.tell(session, Answer::Lost(lost));
    }

    /// A session has ended: its stream ends with a last word.
    pub(super) fn tell_end(&mut self, session: SessionId) {
        self.tell(session, Answer::Farewell(v1::Farewell {}));
        self.clients.remove(&session);
    }
}

/// Milliseconds, as they are sent.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Somebody, as it is sent.
fn entry(standing: Standing, node: &str) -> v1::Entry {
    v1::Entry {
        node: node.to_owned(),
        session: standing.session.0,
        fence: standing.fence,
        for_ms: millis(standing.waited),
        client: Some(v1::Client {
            owner: standing.client.owner,
            host: standing.client.host,
            pid: standing.client.pid,
            command: standing.client.command,
            version: standing.client.version,
        }),
    }
}

/// A client, as it was sent, in no more words than others need to know it.
pub(super) fn client(client: Option<v1::Client>) -> Client {
    let client = client.unwrap_or_default();
    Client {
        owner: short(client.owner, 256),
        host: short(client.host, 256),
        pid: client.pid,
        command: short(client.command, 1000),
        version: short(client.version, 256),
    }
}

fn short(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(short("äöü".to_owned(), 6), "äöü");
        assert_eq!(short("äöü".to_owned(), 5), "äö...");
    }
}
