//! A client's session on one stream.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use mutua_client::frames::{Decoder, Frames};
use mutua_node::Action;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::{
    Service, Waiter,
    caller::Caller,
    clients::{Connected, Replies, client, millis},
    hosting::Location,
    peers_query::PeerState,
    relay,
};
use crate::{
    leases::{Name, Opening, SessionId, WaitId, WaitLimit, check_name},
    proto::v1::{self, session_reply::Reply, session_request::Request},
};

/// A session whose stream is being read.
struct Attached {
    service: Arc<Service>,
    caller: Caller,
    session: SessionId,
    number: u64,
    /// The waits on this stream: the client's number and the lease table's.
    waits: Vec<(u64, WaitId, Name)>,
    /// The positions that were sent last.
    sent: Vec<(u64, v1::Waiting)>,
    /// Whether the positions were read before.
    read_before: bool,
}

/// Reads a stream to its end.
pub(super) async fn run(
    service: Arc<Service>,
    mut requests: Requests,
    replies: Replies,
    caller: Caller,
) {
    let open = match requests.next().await {
        Some(v1::SessionRequest { request: Some(Request::Open(open)) }) => open,
        Some(_) => {
            let text = "the first request must be Open";
            return replies.send(Err(Status::invalid_argument(text)));
        }
        None => return,
    };
    if open.close_only {
        let session = SessionId(open.session);
        let closed = service.call(|core, now| {
            !core.leases.is_lease(session)
                && service.may_resume(core, &caller, session)
                && core.leases.close(now, session)
        });
        if !closed {
            let call = v1::lease_call::Call::Close.into();
            let identity = service.identity_needed(&caller);
            let close = v1::LeaseCall { session: session.0, call, identity, ..Default::default() };
            // If no member knows it, its lease expires.
            let _ = service.lease_call_elsewhere(close).await;
        }
        return replies.send(Ok(Reply::Closed(v1::Closed {})));
    }
    // Opened while the process runs: later its number may be another's.
    let process = caller.process().and_then(open_process);
    match service.locate(&open, &caller).await {
        Location::Here => {}
        Location::At { node, endpoints } if !endpoints.is_empty() => {
            return replies.send(Ok(Reply::Moved(v1::Moved { node, endpoints })));
        }
        // The member that passes on a stream finds the session anew.
        Location::At { node, .. } if !requests.is_relayed() => {
            return relay::run((service, caller), node, open, (requests, replies), process).await;
        }
        Location::At { .. } | Location::Unknown => {
            return replies.send(Err(service.unserved()));
        }
    }
    let host = open.client.as_ref().map(|client| client.host.as_str()).unwrap_or_default();
    let peers = service.peers_for(host).await;
    let supervised = open.supervised;
    let Some(mut attached) = Attached::begin(service, caller, (open, peers), replies) else {
        return;
    };
    attached.read(requests).await;
    let Attached { service, session, number, .. } = attached;
    let last = service.call(|core, now| {
        let last = core.disconnected(session, number);
        if last {
            core.leases.detach(now, session);
        }
        last
    });
    if let Some(process) = process
        && last
        && !supervised
    {
        end_with_process(&service, session, &process).await;
    }
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether a process has ended.
pub(super) fn has_ended(process: &OwnedFd) -> bool {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Ends a session when its client's process has ended. Returns then, or when the session has ended
/// or is attached again. The process has closed its connection, so it has mostly ended by now.
async fn end_with_process(service: &Arc<Service>, session: SessionId, process: &OwnedFd) {
    loop {
        let ended = has_ended(process);
        let done = service.call(|core, now| {
            let expired = core.leases.time_to_live(now, session).is_none();
            let attached = core.clients.contains_key(&session);
            if ended && !attached {
                core.leases.client_ended(now, session);
            }
            ended || expired || attached
        });
        if done {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Attached {
    /// Opens the session, or resumes it.
    fn begin(
        service: Arc<Service>,
        caller: Caller,
        (open, peers): (v1::Open, Option<v1::Peers>),
        replies: Replies,
    ) -> Option<Self> {
        let own = Arc::clone(&service);
        let by = caller.clone();
        let begun = service.call(move |core, now| {
            if !own.may_resume(core, &by, SessionId(open.session)) {
                let text = "the session is another client's";
                replies.send(Err(Status::permission_denied(text)));
                return None;
            }
            let opening = Opening {
                id: 0,
                ttl: Duration::from_millis(open.ttl_ms),
                client: own.access.labelled(&by, client(open.client, by.identity().to_string())),
                supervised: open.supervised,
                lease: false,
            };
            let (session, ttl) = match core.leases.attach(now, SessionId(open.session), opening) {
                Ok(attached) => attached,
                Err(error) => {
                    replies.send(Err(Status::invalid_argument(error.to_string())));
                    return None;
                }
            };
            let (reclaimed, mut refused): (Vec<_>, Vec<_>) = open.reclaims.into_iter().partition(
                |v1::Reclaim { name, fencing_token, .. }| {
                    check_name(name).is_ok()
                        && own.access.check(&by, Action::Acquire, name).is_ok()
                        && core.leases.reclaim(now, session, name, *fencing_token)
                },
            );
            // What the client holds from now on is recorded before it is informed.
            own.settle(core, now);
            if own.failure.borrow().is_some() {
                return None;
            }
            let is_lost =
                |lock: &v1::Reclaim| !core.leases.verify(now, &lock.name, lock.fencing_token);
            let (lost, held): (Vec<_>, Vec<_>) = reclaimed.into_iter().partition(is_lost);
            refused.extend(lost);
            let opened = v1::Opened {
                session: session.0,
                ttl_ms: millis(ttl),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                node: own.name.clone(),
                refused,
                quarantine_ms: millis(core.leases.quarantine(now)),
                scope: own.scope.wire().into(),
                cluster: own.scope.configured_cluster().unwrap_or_default().to_owned(),
            };
            core.streams += 1;
            let number = core.streams;
            replies.send(Ok(Reply::Opened(opened)));
            if let Some(peers) = peers {
                replies.send(Ok(Reply::Peers(peers)));
            }
            core.clients.entry(session).or_default().push(Connected { replies, number });
            core.confirm_promises(session, held);
            Some((session, number))
        });
        let (session, number) = begun?;
        let (waits, sent) = (Vec::new(), Vec::new());
        Some(Self { service, caller, session, number, waits, sent, read_before: false })
    }

    async fn read(&mut self, mut requests: Requests) {
        let mut often = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                biased;
                request = requests.next() => match request {
                    Some(v1::SessionRequest { request: Some(Request::Close(_)) }) => {
                        self.service.call(|core, now| core.leases.close(now, self.session));
                        return;
                    }
                    Some(v1::SessionRequest { request: Some(request) }) => self.serve(request),
                    Some(v1::SessionRequest { request: None }) => {}
                    None => return,
                },
                _ = often.tick(), if !self.waits.is_empty() => self.send_positions(),
            }
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Acquire(acquire) => self.acquire(acquire),
            Request::Cancel(cancel) => {
                let wait = self.waits.iter().find(|wait| wait.0 == cancel.id).map(|wait| wait.1);
                if let Some(wait) = wait {
                    self.service.call(|core, now| core.leases.cancel(now, wait));
                }
            }
            Request::Release(v1::Release { name, fencing_token, quiet }) => {
                self.service.call(|core, now| {
                    let holder = core.leases.holder(now, &name);
                    let own = holder.is_some_and(|holder| holder.session == self.session);
                    let held = own && core.leases.release(now, &name, fencing_token);
                    if !quiet {
                        let released = v1::Released { name, fencing_token, held };
                        core.send(self.session, Reply::Released(released));
                    }
                })
            }
            Request::Proclaim(v1::Proclaim { id, name, fencing_token, value }) => {
                let name = Name::from(name);
                self.service.call(|core, now| {
                    let own = (self.session, &name, fencing_token);
                    let held = self.service.proclaim(core, now, own, value);
                    if id != 0 {
                        let proclaimed = v1::Proclaimed { id, held };
                        core.send(self.session, Reply::Proclaimed(proclaimed));
                    }
                });
            }
            Request::Renew(_) if !self.service.handle.may_renew() => {
                self.service.call(|core, _| core.send_moved(self.session));
            }
            Request::Renew(v1::Renew { number }) => self.service.call(|core, now| {
                let ttl = core.leases.renew(now, self.session).unwrap_or_default();
                let renewed = v1::Renewed { number, ttl_ms: millis(ttl) };
                core.send(self.session, Reply::Renewed(renewed));
            }),
            Request::Open(_) | Request::Close(_) => {}
        }
    }

    fn acquire(&mut self, acquire: v1::Acquire) {
        let v1::Acquire { id, name, wait_ms, watch, value, promise } = acquire;
        if let Err(why) = check_name(&name) {
            return self.refuse(id, v1::Reason::Invalid, why);
        }
        let access = &self.service.access;
        if let Err(denied) = access.check(&self.caller, Action::Acquire, &name) {
            return self.refuse(id, v1::Reason::Denied, denied.to_string());
        }
        let sees_holder = access.check(&self.caller, Action::List, &name).is_ok();
        let name = Name::from(name);
        let wait = self.service.call(|core, now| {
            let limit = WaitLimit::from_millis(now, wait_ms);
            let wait = core.leases.acquire(now, self.session, &name, limit);
            let (session, is_candidate) = (self.session, value.is_some());
            if promise && !is_candidate {
                core.leases.allow_promise(wait);
            }
            if let Some(value) = value {
                self.service.add_candidate(core, wait, (session, &name), value);
            }
            let name = Name::clone(&name);
            let waiter = Waiter::Client { id, session, name, sees_holder, is_candidate };
            core.waiters.insert(wait, waiter);
            wait
        });
        let waits = self.service.lock().leases.position(wait).is_some();
        if waits {
            self.waits.push((id, wait, name));
            if watch {
                self.send_positions();
            }
        }
    }

    fn refuse(&self, id: u64, reason: v1::Reason, text: String) {
        let refused = v1::Refused { id, reason: reason.into(), text, holder: None };
        self.service.call(|core, _| core.send(self.session, Reply::Refused(refused)));
    }

    /// Sends the positions of this stream's waiters, where they have changed.
    fn send_positions(&mut self) {
        // The first time, a forming view and a lock without a holder are not reported: the next
        // time is soon, and mostly the lock is granted by then.
        let first = !std::mem::replace(&mut self.read_before, true);
        let suspended = match first {
            true => String::new(),
            false => self.service.suspended().unwrap_or_default(),
        };
        let (service, session, caller) = (&self.service, self.session, &self.caller);
        let (waits, sent) = (&mut self.waits, &mut self.sent);
        service.call(|core, now| {
            waits.retain(|(_, wait, _)| core.leases.position(*wait).is_some());
            sent.retain(|(sent, _)| waits.iter().any(|(id, ..)| id == sent));
            for (id, wait, name) in waits.iter() {
                let position = core.leases.position(*wait).unwrap_or_default();
                let position = u32::try_from(position).unwrap_or(u32::MAX);
                let here = service.holder_here(core, now, name);
                let peers = service.peer_state(core, now, name);
                if here.is_none() && peers.is_none() && suspended.is_empty() {
                    // Known the next time.
                    continue;
                }
                let PeerState { holder, waiting: waiting_at_peers } = peers.unwrap_or_default();
                let (holder, suspended) = (here.or(holder), suspended.clone());
                if first && holder.is_none() && position == 0 {
                    continue;
                }
                let holder =
                    holder.filter(|_| service.access.check(caller, Action::List, name).is_ok());
                let waiting =
                    v1::Waiting { id: *id, position, holder, suspended, waiting_at_peers };
                if !sent.iter().any(|(sent, old)| sent == id && is_same(old, &waiting)) {
                    core.send(session, Reply::Waiting(waiting.clone()));
                    sent.retain(|(sent, _)| sent != id);
                    sent.push((*id, waiting));
                }
            }
        });
    }
}

/// Whether a client need not get the second message after the first.
fn is_same(old: &v1::Waiting, new: &v1::Waiting) -> bool {
    let token = |waiting: &v1::Waiting| waiting.holder.as_ref().map(|one| one.fencing_token);
    (old.position, token(old), &old.suspended) == (new.position, token(new), &new.suspended)
}

/// The receiving half of a client's stream.
pub(super) enum Requests {
    Grpc(Box<Streaming<v1::SessionRequest>>),
    Framed(Arc<Frames>, Decoder),
    /// From the member that the client is connected to.
    Relayed(mpsc::UnboundedReceiver<v1::SessionRequest>),
}

impl Requests {
    fn is_relayed(&self) -> bool {
        matches!(self, Self::Relayed(_))
    }

    /// The next request; `None` when the stream has ended or cannot be read.
    pub(super) async fn next(&mut self) -> Option<v1::SessionRequest> {
        match self {
            Self::Grpc(requests) => requests.next().await?.ok(),
            Self::Framed(frames, decoder) => frames.receive(decoder).await.ok()?,
            Self::Relayed(requests) => requests.recv().await,
        }
    }
}
