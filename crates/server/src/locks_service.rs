//! Mutua's own service for locks: what etcd's services lack.

use std::{pin::Pin, sync::Arc, time::Duration};

use mutua_node::Action;
use tokio::sync::{mpsc, watch};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{ReceiverStream, UnboundedReceiverStream, WatchStream},
};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Service,
    caller::Caller,
    clients::Replies,
    etcd::{key, refusal},
    recipes,
    session_stream::{self, Requests},
};
use crate::{
    leases::{Name, Outcome, SessionId, WaitLimit},
    proto::v1::{self, locks_server::Locks},
};

/// Mutua's own service, over one server's state.
#[derive(Clone)]
pub(super) struct LocksService(pub(super) Arc<Service>);

#[tonic::async_trait]
impl Locks for LocksService {
    type AttachStream = UnboundedReceiverStream<Result<v1::SessionReply, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let caller = Caller::of(&request);
        let (replies, stream) = mpsc::unbounded_channel();
        let requests = Requests::Grpc(Box::new(request.into_inner()));
        let replies = Replies::Channel(replies);
        tokio::spawn(session_stream::run(Arc::clone(&self.0), requests, replies, caller));
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        let caller = Caller::of(&request);
        let v1::AcquireRequest { name, lease, wait_ms } = request.into_inner();
        let session = SessionId(lease);
        let limit = |now| WaitLimit::from_millis(now, wait_ms);
        let response = match self.0.acquire(&caller, session, &name, limit).await? {
            Outcome::Granted { fencing_token, .. } | Outcome::Already { fencing_token } => {
                let key = key(&name, session);
                v1::AcquireResponse { acquired: true, fencing_token, key, holder: None }
            }
            Outcome::Busy | Outcome::TimedOut => {
                let holder = match self.0.access.check(&caller, Action::List, &name) {
                    Ok(()) => self.0.holder_anywhere(&Name::from(&*name)).await,
                    Err(_) => None,
                };
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
        let caller = Caller::of(&request);
        let v1::ReleaseRequest { name, fencing_token } = request.into_inner();
        let held = self.0.call(|core, now| {
            // The locks of a client's own session are released on its own stream.
            let holder = core.leases.holder(now, &name);
            let lease = holder.is_some_and(|holder| {
                core.leases.is_lease(holder.session) && self.0.owns(core, &caller, holder.session)
            });
            lease && core.leases.release(now, &name, fencing_token)
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
        let caller = Caller::of(&request);
        let mut list = self.0.list(request.into_inner()).await;
        let access = &self.0.access;
        list.locks.retain(|lock| access.check(&caller, Action::List, &lock.name).is_ok());
        Ok(Response::new(list))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let name = Name::from(request.into_inner().name);
        let service = Arc::clone(&self.0);
        let changes = service.watch(&name);
        // What a node waits for after a crash ends without a change of this lock.
        if !service.is_alone() || service.ignorance().is_some() {
            return Ok(Response::new(Box::pin(watch_all(service, name, changes))));
        }
        // The first item follows at once; several changes in a row may be sent as one.
        let states = WatchStream::new(changes).map(move |()| {
            let state = service.call(|core, now| core.leases.show(now, &name));
            Ok(service.describe(state))
        });
        Ok(Response::new(Box::pin(states)))
    }

    async fn trace(
        &self,
        request: Request<v1::TraceRequest>,
    ) -> Result<Response<v1::TraceResponse>, Status> {
        let request = request.into_inner();
        crate::leases::check_name(&request.name).map_err(Status::invalid_argument)?;
        self.0.trace(request).await.map(Response::new)
    }

    async fn r#break(
        &self,
        request: Request<v1::BreakRequest>,
    ) -> Result<Response<v1::BreakResponse>, Status> {
        let (caller, request) = (Caller::of(&request), request.into_inner());
        if request.reason.trim().is_empty() {
            return Err(Status::invalid_argument("breaking a lock needs a reason"));
        }
        self.0.break_for(&caller, request).await.map(Response::new)
    }

    async fn about(
        &self,
        _: Request<v1::AboutRequest>,
    ) -> Result<Response<v1::AboutResponse>, Status> {
        Ok(Response::new(self.0.about()))
    }
}

impl Service {
    /// What this node reports about itself.
    pub(super) fn about(&self) -> v1::AboutResponse {
        v1::AboutResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.name.clone(),
            scope: self.scope.wire().into(),
            cluster: self.scope.configured_cluster().unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn watch(&self, name: &Name) -> watch::Receiver<()> {
        let mut core = self.lock();
        let watched = core.watched.entry(Name::clone(name));
        watched.or_insert_with(|| watch::channel(()).0).subscribe()
    }
}

/// The states of a lock at all nodes: read when it changes here or its holder does anywhere, and
/// every second for the waiters of the others.
fn watch_all(
    service: Arc<Service>,
    name: Name,
    mut changes: watch::Receiver<()>,
) -> impl Stream<Item = Result<v1::Lock, Status>> + Send {
    let (sender, states) = mpsc::channel(1);
    let mut holders = recipes::holder_changes(Arc::clone(&service), &name);
    tokio::spawn(async move {
        let mut last = None;
        loop {
            let lock = service.show(&name).await;
            let timeless = Some(without_times(lock.clone()));
            if last != timeless && sender.send(Ok(lock)).await.is_err() {
                return;
            }
            last = timeless;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                _ = holders.recv() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = sender.closed() => return,
            }
        }
    });
    ReceiverStream::new(states)
}

fn without_times(mut lock: v1::Lock) -> v1::Lock {
    for entry in lock.holder.iter_mut().chain(&mut lock.waiting) {
        entry.for_ms = 0;
    }
    lock
}
