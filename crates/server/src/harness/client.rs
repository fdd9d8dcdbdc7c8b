//! A client requests a lock, runs a command while it holds it, and requests the next one.

use std::time::Duration;

use mutua_client::{
    Event as ClientEvent, HoldRequest,
    session::{Effect, Next, Session},
};

use super::{Event, FAULTS, Harness, NAMES, Stream};
use crate::{
    Moment,
    proto::v1::{self, session_reply::Reply},
};

/// The state of a client's command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Command {
    #[default]
    None,
    Runs,
    /// It runs, and must end: the lock is lost.
    Lost,
}

#[derive(Default)]
pub(super) struct Client {
    session: Option<Session>,
    /// The number of its present request.
    pub(super) request: u64,
    name: usize,
    supervised: bool,
    /// Its stream, if it is connected.
    stream: Option<usize>,
    id: i64,
    command: Command,
    valid_until: Moment,
    wake: Moment,
    /// Until when it is stopped, as by SIGSTOP.
    pub(super) stopped: Moment,
    done: bool,
}

impl Client {
    pub(super) fn holds(&self, now: Moment, name: usize) -> bool {
        self.command != Command::None && self.name == name && now < self.valid_until
    }

    /// Whether its process runs. The supervisor of a crashed client is not stopped.
    pub(super) fn runs(&self) -> bool {
        self.session.is_some()
    }

    pub(super) fn is_done(&self) -> bool {
        self.done && self.command == Command::None
    }
}

impl Harness {
    pub(super) fn client_requests(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.session = None;
        if self.now > FAULTS.after(Duration::from_secs(20)) {
            one.done = true;
            return;
        }
        one.request += 1;
        one.name = usize::from(self.dice.one_in(4));
        one.supervised = !self.dice.one_in(3);
        (one.stream, one.id, one.wake) = (None, 0, Moment::NEVER);
        let wait = match self.dice.below(4) {
            0 => Some(Duration::ZERO),
            1 => Some(self.dice.micros(1, 3_000_001)),
            _ => None,
        };
        let request = HoldRequest {
            name: NAMES[one.name].to_vec(),
            wait,
            value: None,
            // Mostly the same, as with a default.
            ttl: Duration::from_millis([500, 2000, 2000, 6000][self.dice.below(4) as usize]),
            client: v1::Client::default(),
            supervised: one.supervised,
            socket: None,
        };
        self.clients[client].session = Some(Session::new(self.now, request));
        self.client_reconnects(client);
    }

    fn client_reconnects(&mut self, client: usize) {
        let request = self.clients[client].request;
        let wait = Duration::from_millis(1) + self.latency();
        self.after(wait, Event::ClientConnects { client, request });
        self.client_performs(client);
    }

    pub(super) fn client_connects(&mut self, client: usize, request: u64) {
        if self.session_of(client, request).is_none() {
            return;
        }
        let (now, incarnation) = (self.now, self.incarnation);
        if self.node.is_none() {
            // A client that finds no node starts one, and tries again.
            return self.client_reconnects(client);
        }
        let stream = self.streams.len();
        self.clients[client].stream = Some(stream);
        self.streams.push(Stream {
            client,
            request,
            incarnation,
            last: [now; 2],
            broken: false,
            cut: [false; 2],
        });
        if self.now < FAULTS && self.dice.one_in(8) {
            self.later(20, Event::Breaks { stream });
        }
        let next = session_of(&mut self.clients[client].session).attached(now);
        self.client_continues(client, next);
    }

    pub(super) fn client_receives(&mut self, stream: usize, reply: Option<Reply>) {
        let Stream { client, request, .. } = self.streams[stream];
        if self.clients[client].stream != Some(stream) || self.session_of(client, request).is_none()
        {
            return;
        }
        if self.streams[stream].cut[1] && reply.is_some() {
            return;
        }
        let now = self.now;
        let session = session_of(&mut self.clients[client].session);
        let next = match reply {
            Some(reply) => session.received(now, reply),
            None => Some(session.broken(now, "closed".to_owned())),
        };
        self.client_continues(client, next);
    }

    pub(super) fn client_wakes(&mut self, client: usize, request: u64) {
        if self.session_of(client, request).is_none() {
            return;
        }
        let now = self.now;
        let one = &mut self.clients[client];
        one.wake = Moment::NEVER;
        let next = session_of(&mut one.session).tick(now);
        self.client_continues(client, next);
    }

    /// The client's command has ended.
    pub(super) fn client_releases(&mut self, client: usize, request: u64) {
        if self.clients[client].request != request {
            return;
        }
        self.clients[client].command = Command::None;
        self.note(format!("client {client} releases"));
        if self.session_of(client, request).is_some() {
            let now = self.now;
            let next = session_of(&mut self.clients[client].session).release(now);
            self.client_continues(client, next);
        }
    }

    /// The client's process is killed. Its supervisor, if any, ends the command in time.
    pub(super) fn client_crashes(&mut self, client: usize) {
        let one = &mut self.clients[client];
        if one.session.take().is_none() {
            return;
        }
        one.stopped = Moment::ZERO;
        let (stream, id, supervised) = (one.stream.take(), one.id, one.supervised);
        let runs = one.command != Command::None;
        self.note(format!("client {client} crashes"));
        self.counts.crashes += 1;
        if let Some(stream) = stream {
            self.break_stream(stream);
        }
        if !(supervised && runs) {
            self.clients[client].command = Command::None;
            return self.later(3000, Event::ClientRequests { client });
        }
        let rest = self.clients[client].valid_until.since(self.now);
        let wait = rest.min(self.millis(1000));
        let request = self.clients[client].request;
        self.after(wait, Event::ClientReleases { client, request });
        self.after(wait, Event::ClientRequests { client });
        if !self.dice.one_in(4) {
            let wait = wait + self.latency();
            self.after(wait, Event::SupervisorCloses { session: id });
        }
    }

    fn session_of(&mut self, client: usize, request: u64) -> Option<()> {
        let one = &self.clients[client];
        one.session.as_ref().filter(|_| one.request == request).map(|_| ())
    }

    fn client_continues(&mut self, client: usize, next: Option<Next>) {
        self.client_performs(client);
        let Some(next) = next else { return };
        if let Some(stream) = self.clients[client].stream.take() {
            self.break_stream(stream);
        }
        match next {
            Next::Done => {
                self.clients[client].session = None;
                if self.clients[client].command != Command::None {
                    self.fails(&format!(
                        "client {client} has its last event and still holds the lock"
                    ));
                }
                self.later(3000, Event::ClientRequests { client });
            }
            Next::Reconnect => {
                self.counts.reconnections += 1;
                self.client_reconnects(client);
            }
            Next::WaitForRelease => {}
        }
    }

    fn client_performs(&mut self, client: usize) {
        let stream = self.clients[client].stream;
        for effect in session_of(&mut self.clients[client].session).take_effects() {
            match (effect, stream) {
                (Effect::Send(request), Some(stream)) => self.send_to_node(stream, Some(request)),
                (Effect::Send(request), None) => {
                    self.fails(&format!("{request:?} is sent without a stream"))
                }
                (Effect::Report(event), _) => self.client_handles(client, event),
            }
        }
        let wake = session_of(&mut self.clients[client].session).wake_at();
        if wake < self.clients[client].wake {
            let request = self.clients[client].request;
            self.clients[client].wake = wake;
            let wait = wake.since(self.now);
            self.after(wait, Event::ClientWakes { client, request });
        }
    }

    fn client_handles(&mut self, client: usize, event: ClientEvent) {
        use ClientEvent::{
            Granted, Lost, Note, Opened, Refused, Released, Unreachable, ValidUntil,
        };
        self.note(format!("client {client}: {event:?}"));
        let (now, request) = (self.now, self.clients[client].request);
        let one = &mut self.clients[client];
        match event {
            Opened { session, .. } => one.id = session,
            ValidUntil(_) | Granted { .. } if one.command == Command::Lost => {
                self.fails(&format!("client {client} has lost the lock and gets {event:?}"));
            }
            ValidUntil(until) => one.valid_until = until,
            Granted { fencing_token, .. } => {
                one.command = Command::Runs;
                let last = std::mem::replace(&mut self.reported[one.name], fencing_token);
                if last >= fencing_token {
                    self.fails(&format!("client {client} is granted {fencing_token} after {last}"));
                }
                self.counts.grants += 1;
                self.later(4000, Event::ClientReleases { client, request });
            }
            Lost(_) if one.command == Command::Runs => {
                one.command = Command::Lost;
                let rest = one.valid_until.since(now);
                let wait = rest.min(self.millis(6000));
                self.counts.losses += 1;
                self.after(wait, Event::ClientReleases { client, request });
            }
            Lost(_) => self.fails(&format!("client {client} has lost a lock that it did not hold")),
            Refused(_) => self.after(Duration::ZERO, Event::ClientReleases { client, request }),
            Released | Unreachable(_) | Note(_) | ClientEvent::Waiting(_) => {}
        }
    }
}

/// A client with events has a session.
fn session_of(session: &mut Option<Session>) -> &mut Session {
    session.as_mut().expect("it has a session")
}
