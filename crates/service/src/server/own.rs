//! Our own service: what etcd's lack.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{net::unix, sync::watch};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{UnboundedReceiverStream, WatchStream},
};
use tonic::{Request, Response, Status, Streaming, transport::server::UdsConnectInfo};

use super::{
    Service, attach,
    clients::{entry, lock, millis},
    etcd::key,
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
                let holder = self.0.call(|core, now| core.desk.holder(now, &name));
                v1::AcquireResponse { holder: holder.map(entry), ..Default::default() }
            }
            outcome => return Err(self.0.refusal(session, outcome)),
        };
        Ok(Response::new(response))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let v1::ReleaseRequest { name, fence } = request.into_inner();
        let held = self.0.call(|core, now| core.desk.release(now, &name, fence));
        Ok(Response::new(v1::ReleaseResponse { held }))
    }

    async fn verify(
        &self,
        request: Request<v1::VerifyRequest>,
    ) -> Result<Response<v1::VerifyResponse>, Status> {
        let v1::VerifyRequest { name, fence } = request.into_inner();
        let current = self.0.call(|core, now| core.desk.verify(now, &name, fence));
        Ok(Response::new(v1::VerifyResponse { current }))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let v1::ListRequest { prefix, exact } = request.into_inner();
        let states = self.0.call(|core, now| match exact {
            true => vec![core.desk.show(now, &prefix)],
            false => core.desk.list(now, &prefix),
        });
        let locks = states.into_iter().map(|state| self.0.describe(state)).collect();
        let stopped = self.0.stopped().unwrap_or_default();
        Ok(Response::new(v1::ListResponse { locks, stopped }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::Lock, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let name = Name::from(request.into_inner().name);
        let service = Arc::clone(&self.0);
        let news = service.watch(&name);
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
        let v1::BreakRequest { name, fence, reason, by } = request.into_inner();
        if reason.trim().is_empty() {
            return Err(Status::invalid_argument("breaking a lock needs a reason"));
        }
        let wanted = (fence != 0).then_some(fence);
        let told = format!("broken by {by}: {reason}");
        let (holder, rest) = self.0.call(|core, now| {
            let holder = core.desk.holder(now, &name);
            (holder, core.desk.break_grant(now, &name, wanted, told))
        });
        let Some(rest) = rest else { return Ok(Response::new(v1::BreakResponse::default())) };
        let fence = holder.as_ref().map_or(0, |holder| holder.fence);
        eprintln!("mutua: {} with fence {fence} was broken by {by}: {reason}", name.escape_ascii());
        let response = v1::BreakResponse { broken: holder.map(entry), quarantine_ms: millis(rest) };
        Ok(Response::new(response))
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

    fn describe(&self, state: crate::desk::LockState) -> v1::Lock {
        let known = self.node.lock_status(&state.name);
        lock(state, known.map(|known| known.algorithm.to_owned()).unwrap_or_default())
    }
}

fn pid(peer: &unix::UCred) -> Option<u32> {
    peer.pid().and_then(|pid| u32::try_from(pid).ok())
}
