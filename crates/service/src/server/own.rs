//! Our own service: what etcd's lack.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{
    net::unix,
    sync::{mpsc, watch},
};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{ReceiverStream, UnboundedReceiverStream, WatchStream},
};
use tonic::{Request, Response, Status, Streaming, transport::server::UdsConnectInfo};

use super::{
    Service, attach,
    etcd::{key, refusal},
};
use crate::{
    desk::{Name, Outcome, Patience, SessionId},
    proto::v1::{self, locks_server::Locks},
};

/// Our own service, over one server's state.
#[derive(Clone)]
pub(super) struct Own(pub(super) Arc<Service>);

#[tonic::async_trait]
impl Locks for Own {
    type AttachStream = UnboundedReceiverStream<Result<v1::Reply, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::Request>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let local = request.extensions().get::<UdsConnectInfo>();
        let process = local.and_then(|local| local.peer_cred).and_then(|peer| pid(&peer));
        let (replies, stream) = attach::channel();
        let requests = request.into_inner();
        tokio::spawn(attach::run(Arc::clone(&self.0), requests, replies, process));
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        let v1::AcquireRequest { name, lease, wait_ms } = request.into_inner();
        let session = SessionId(lease);
        let patience = |now: crate::Moment| match wait_ms {
            None => Patience::Forever,
            Some(0) => Patience::Try,
            Some(wait) => Patience::Until(now.after(Duration::from_millis(wait))),
        };
        let response = match self.0.acquire(session, &name, patience).await? {
            Outcome::Granted { fence, .. } | Outcome::Already { fence } => {
                let key = key(&name, session);
                v1::AcquireResponse { acquired: true, fence, key, holder: None }
            }
            Outcome::Busy | Outcome::TimedOut => {
                let holder = self.0.holder_anywhere(&Name::from(&*name)).await;
                v1::AcquireResponse { holder, ..Default::default() }
            }
            outcome => return Err(refusal(outcome)),
        };
        Ok(Response::new(response))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let v1::ReleaseRequest { name, fence } = request.into_inner();
        let held = self.0.call(|core, now| {
            // What a client's own session is inside of is freed on its own stream.
            let holder = core.desk.holder(now, &name);
            let lease = holder.is_some_and(|holder| core.desk.is_lease(holder.session));
            lease && core.desk.release(now, &name, fence)
        });
        Ok(Response::new(v1::ReleaseResponse { held }))
    }

    async fn verify(
        &self,
        request: Request<v1::VerifyRequest>,
    ) -> Result<Response<v1::VerifyResponse>, Status> {
        self.0.verify(request.into_inner()).await.map(Response::new)
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        Ok(Response::new(self.0.list(request.into_inner()).await))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let name = Name::from(request.into_inner().name);
        let service = Arc::clone(&self.0);
        let news = service.watch(&name);
        if !service.is_alone() {
            return Ok(Response::new(Box::pin(watch_all(service, name, news))));
        }
        // The first item is there at once; several changes in a row may be told as one.
        let states = WatchStream::new(news).map(move |()| {
            let state = service.call(|core, now| core.desk.show(now, &name));
            Ok(service.describe(state))
        });
        Ok(Response::new(Box::pin(states)))
    }

    async fn r#break(
        &self,
        request: Request<v1::BreakRequest>,
    ) -> Result<Response<v1::BreakResponse>, Status> {
        let request = request.into_inner();
        if request.reason.trim().is_empty() {
            return Err(Status::invalid_argument("breaking a lock needs a reason"));
        }
        self.0.break_grant(request).await.map(Response::new)
    }

    async fn about(
        &self,
        _: Request<v1::AboutRequest>,
    ) -> Result<Response<v1::AboutResponse>, Status> {
        let sessions = self.0.lock().desk.sessions() as u64;
        Ok(Response::new(v1::AboutResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.0.name.clone(),
            pid: std::process::id(),
            sessions,
        }))
    }
}

impl Service {
    fn watch(&self, name: &Name) -> watch::Receiver<()> {
        let mut core = self.lock();
        let watched = core.watched.entry(Name::clone(name));
        watched.or_insert_with(|| watch::channel(()).0).subscribe()
    }
}

/// A lock at all nodes, when it has changed here, and looked at now and then for the others.
fn watch_all(
    service: Arc<Service>,
    name: Name,
    mut news: watch::Receiver<()>,
) -> impl Stream<Item = Result<v1::Lock, Status>> + Send {
    let (tell, told) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let lock = service.show(&name).await;
            let timeless = Some(without_times(lock.clone()));
            if last != timeless && tell.send(Ok(lock)).await.is_err() {
                return;
            }
            last = timeless;
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = tell.closed() => return,
            }
        }
    });
    ReceiverStream::new(told)
}

fn without_times(mut lock: v1::Lock) -> v1::Lock {
    for entry in lock.holder.iter_mut().chain(&mut lock.waiting) {
        entry.for_ms = 0;
    }
    lock
}

fn pid(peer: &unix::UCred) -> Option<u32> {
    peer.pid().and_then(|pid| u32::try_from(pid).ok())
}
