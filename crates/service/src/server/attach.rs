//! A client's session on one stream.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::{
    Replies, Service, Waiter,
    clients::{Connected, client, millis},
    elsewhere::Others,
};
use crate::{
    desk::{Name, Opening, Patience, SessionId, WaitId},
    proto::v1::{self, reply::Answer, request::Ask},
};

/// A session whose stream is being read.
struct Attached {
    service: Arc<Service>,
    session: SessionId,
    number: u64,
    /// What waits on this stream: the client's number and the desk's.
    waits: Vec<(u64, WaitId, Name)>,
    /// The places in line that were told last.
    told: Vec<(u64, v1::Waiting)>,
    /// Whether there was a first look at the places.
    looked: bool,
}

/// Reads a stream to its end.
pub(super) async fn run(
    service: Arc<Service>,
    mut requests: Streaming<v1::Request>,
    replies: Replies,
    process: Option<u32>,
) {
    let hello = match requests.next().await {
        Some(Ok(v1::Request { ask: Some(Ask::Hello(hello)) })) => hello,
        Some(Ok(_)) => {
            let _ = replies.send(Err(Status::invalid_argument("the first request is a Hello")));
            return;
        }
        Some(Err(_)) | None => return,
    };
    if hello.only_goodbye {
        let session = SessionId(hello.session);
        service.call(|core, now| !core.desk.is_lease(session) && core.desk.close(now, session));
        let farewell = Answer::Farewell(v1::Farewell {});
        let _ = replies.send(Ok(v1::Reply { answer: Some(farewell) }));
        return;
    }
    let guarded = hello.guarded;
    // Opened now, while the process is there: its number may be another's later.
    let process = process.and_then(open_process);
    let Some(mut attached) = Attached::begin(service, hello, replies) else { return };
    attached.read(requests).await;
    let Attached { service, session, number, .. } = attached;
    let last = service.call(|core, now| {
        let last = core.disconnected(session, number);
        if last {
            core.desk.detach(now, session);
        }
        last
    });
    if let Some(process) = process
        && last
        && !guarded
    {
        free_when_dead(&service, session, &process).await;
    }
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Looks until a client's process is dead, or its session has ended or is connected again. The
/// process has closed its connection, so it mostly is at the first look.
async fn free_when_dead(service: &Arc<Service>, session: SessionId, process: &OwnedFd) {
    loop {
        let mut look = [PollFd::new(process, PollFlags::IN)];
        let dead = poll(&mut look, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        let over = service.call(|core, now| {
            let gone = core.desk.time_to_live(now, session).is_none();
            let back = core.clients.contains_key(&session);
            if dead && !back {
                core.desk.died(now, session);
            }
            dead || gone || back
        });
        if over {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Attached {
    /// Opens the session, or takes it up again.
    fn begin(service: Arc<Service>, hello: v1::Hello, replies: Replies) -> Option<Self> {
        let own = Arc::clone(&service);
        let begun = service.call(move |core, now| {
            let opening = Opening {
                id: 0,
                ttl: Duration::from_millis(hello.ttl_ms),
                client: client(hello.client),
                guarded: hello.guarded,
                lease: false,
            };
            let (session, ttl) = match core.desk.come(now, SessionId(hello.session), opening) {
                Ok(come) => come,
                Err(error) => {
                    let _ = replies.send(Err(Status::invalid_argument(error.to_string())));
                    return None;
                }
            };
            let refused = hello.claims.into_iter().filter(|v1::Claim { name, fence }| {
                name.len() > mutua_node::MAX_NAME || !core.desk.claim(now, session, name, *fence)
            });
            let welcome = v1::Welcome {
                session: session.0,
                good_for_ms: millis(ttl),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                node: own.name.clone(),
                refused: refused.collect(),
                quarantine_ms: millis(core.desk.quarantine(now)),
            };
            core.streams += 1;
            let number = core.streams;
            let _ = replies.send(Ok(v1::Reply { answer: Some(Answer::Welcome(welcome)) }));
            core.clients.entry(session).or_default().push(Connected { replies, number });
            Some((session, number))
        });
        let (session, number) = begun?;
        Some(Self { service, session, number, waits: Vec::new(), told: Vec::new(), looked: false })
    }

    async fn read(&mut self, mut requests: Streaming<v1::Request>) {
        let mut often = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                biased;
                request = requests.next() => match request {
                    Some(Ok(v1::Request { ask: Some(Ask::Goodbye(_)) })) => {
                        self.service.call(|core, now| core.desk.close(now, self.session));
                        return;
                    }
                    Some(Ok(v1::Request { ask: Some(ask) })) => self.serve(ask),
                    Some(Ok(v1::Request { ask: None })) => {}
                    Some(Err(_)) | None => return,
                },
                _ = often.tick(), if !self.waits.is_empty() => self.tell_places(),
            }
        }
    }

    fn serve(&mut self, ask: Ask) {
        match ask {
            Ask::Acquire(acquire) => self.acquire(acquire),
            Ask::Cancel(cancel) => {
                let wait = self.waits.iter().find(|wait| wait.0 == cancel.id).map(|wait| wait.1);
                if let Some(wait) = wait {
                    self.service.call(|core, now| core.desk.cancel(now, wait));
                }
            }
            Ask::Release(v1::Release { name, fence }) => self.service.call(|core, now| {
                let holder = core.desk.holder(now, &name);
                let own = holder.is_some_and(|holder| holder.session == self.session);
                let held = own && core.desk.release(now, &name, fence);
                core.tell(self.session, Answer::Released(v1::Released { name, fence, held }));
            }),
            Ask::Renew(v1::Renew { number }) => self.service.call(|core, now| {
                let good_for = core.desk.renew(now, self.session).unwrap_or_default();
                let renewed = v1::Renewed { number, good_for_ms: millis(good_for) };
                core.tell(self.session, Answer::Renewed(renewed));
            }),
            Ask::Hello(_) | Ask::Goodbye(_) => {}
        }
    }

    fn acquire(&mut self, acquire: v1::Acquire) {
        let v1::Acquire { id, name, wait_ms, watch } = acquire;
        if name.len() > mutua_node::MAX_NAME {
            let text = format!("a name has at most {} bytes", mutua_node::MAX_NAME);
            let refused =
                v1::Refused { id, reason: v1::Reason::Invalid.into(), text, holder: None };
            return self.service.call(|core, _| core.tell(self.session, Answer::Refused(refused)));
        }
        let name = Name::from(name);
        let wait = self.service.call(|core, now| {
            let patience = match wait_ms {
                None => Patience::Forever,
                Some(0) => Patience::Try,
                Some(wait) => Patience::Until(now.after(Duration::from_millis(wait))),
            };
            let wait = core.desk.acquire(now, self.session, &name, patience);
            let session = self.session;
            core.waiters.insert(wait, Waiter::Client { id, session, name: Name::clone(&name) });
            wait
        });
        let waits = self.service.lock().desk.place(wait).is_some();
        if waits {
            self.waits.push((id, wait, name));
            if watch {
                self.tell_places();
            }
        }
    }

    /// Tells those who still wait where they stand, if that has changed.
    fn tell_places(&mut self) {
        // A view that is just forming is not worth a word, nor that nobody is inside; the next look
        // is soon.
        let first = !std::mem::replace(&mut self.looked, true);
        let stopped = match first {
            true => String::new(),
            false => self.service.stopped().unwrap_or_default(),
        };
        let (service, session) = (&self.service, self.session);
        let (waits, told) = (&mut self.waits, &mut self.told);
        service.call(|core, now| {
            waits.retain(|(_, wait, _)| core.desk.place(*wait).is_some());
            told.retain(|(told, _)| waits.iter().any(|(id, ..)| id == told));
            for (id, wait, name) in waits.iter() {
                let place = core.desk.place(*wait).unwrap_or_default();
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                let here = service.holder_here(core, now, name);
                let others = service.seen_elsewhere(core, now, name);
                if here.is_none() && others.is_none() && stopped.is_empty() {
                    // The next look is soon, and then it is known.
                    continue;
                }
                let Others { holder, waiting: elsewhere } = others.unwrap_or_default();
                let (holder, stopped) = (here.or(holder), stopped.clone());
                if first && holder.is_none() && place == 0 {
                    continue;
                }
                let news = v1::Waiting { id: *id, place, holder, stopped, elsewhere };
                let same = |old: &v1::Waiting| {
                    let fence =
                        |waiting: &v1::Waiting| waiting.holder.as_ref().map(|holder| holder.fence);
                    old.place == place && fence(old) == fence(&news) && old.stopped == news.stopped
                };
                if !told.iter().any(|(told, old)| told == id && same(old)) {
                    core.tell(session, Answer::Waiting(news.clone()));
                    told.retain(|(told, _)| told != id);
                    told.push((*id, news));
                }
            }
        });
    }
}

/// The two ends of what is sent to a client.
pub(super) fn channel() -> (Replies, mpsc::UnboundedReceiver<Result<v1::Reply, Status>>) {
    mpsc::unbounded_channel()
}
