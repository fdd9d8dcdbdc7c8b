//! etcd's `Election` service: a campaign is a request for the lock of the election's name, with a
//! value.

use std::{pin::Pin, sync::Arc};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status};

use super::{
    AHEAD,
    calls::By,
    following::Follower,
    shape::{Target, Watch},
};
use crate::{
    Service,
    caller::Caller,
    etcd::{Etcd, client, key, refusal},
    leases::{Outcome, SessionId},
    proto::{
        etcdserverpb::{
            Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
            compare::{CompareTarget, TargetUnion},
            request_op,
        },
        mvccpb::{KeyValue, event::EventType},
        v3electionpb::{
            CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse,
            ProclaimRequest, ProclaimResponse, ResignRequest, ResignResponse,
            election_server::Election,
        },
    },
};

/// The transaction that changes a key if it was created at this revision.
fn change(key: &[u8], created: i64, request: request_op::Request) -> TxnRequest {
    let compare = Compare {
        target: CompareTarget::Create.into(),
        key: key.to_vec(),
        target_union: Some(TargetUnion::CreateRevision(created)),
        ..Compare::default()
    };
    TxnRequest {
        compare: vec![compare],
        success: vec![RequestOp { request: Some(request) }],
        failure: Vec::new(),
    }
}

fn put(key: &[u8], value: Vec<u8>, lease: i64) -> request_op::Request {
    let put = PutRequest { key: key.to_vec(), value, lease, ..PutRequest::default() };
    request_op::Request::RequestPut(put)
}

/// A key that holds its lock.
pub(crate) struct Elected {
    pub(crate) kv: KeyValue,
    pub(crate) fencing_token: i64,
}

/// A candidate that gives up if its call does.
struct Candidate {
    service: Arc<Service>,
    key: Vec<u8>,
    by: By,
    elected: bool,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if !self.elected {
            let request = DeleteRangeRequest {
                key: std::mem::take(&mut self.key),
                ..DeleteRangeRequest::default()
            };
            let (service, by) = (Arc::clone(&self.service), std::mem::take(&mut self.by));
            tokio::spawn(async move { drop(service.delete_range(request, by).await) });
        }
    }
}

impl Service {
    /// Waits until this key, which a call here or at another member has created, holds its lock.
    async fn until_granted(self: &Arc<Self>, key: &[u8]) -> Result<Elected, Status> {
        let watch = Watch {
            target: Target::Key([key, AHEAD].concat()),
            start: 0,
            puts: false,
            deletes: true,
        };
        let get = |key: &[u8]| RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        let ahead = get(&[key, AHEAD].concat());
        loop {
            let mut follower = Follower::new(Arc::clone(self), watch.clone());
            while follower.next().await.is_some() {}
            // While the key waits, one before it is shown.
            if self.range(ahead.clone()).await?.kvs.is_empty() {
                break;
            }
        }
        let response = self.range(get(key)).await?;
        let fencing_token = response.header.unwrap_or_default().revision;
        let kv = response.kvs.into_iter().next();
        let kv = kv.ok_or_else(|| refusal(Outcome::NoSession))?;
        Ok(Elected { kv, fencing_token })
    }

    /// Creates a key that waits for the lock and waits until it holds it, at the member that serves
    /// the lease. Dropping the future gives up.
    pub(crate) async fn acquire_by_key(
        self: &Arc<Self>,
        name: &[u8],
        lease: SessionId,
        value: Option<Vec<u8>>,
        by: By,
    ) -> Result<Elected, Status> {
        let key = key(name, lease);
        let wanted = value.clone().unwrap_or_default();
        let create = change(&key, 0, put(&key, wanted, lease.0));
        let is_new = self.create_by_key(create, &key, by.clone()).await?;
        let mut candidate = Candidate {
            service: Arc::clone(self),
            key: key.clone(),
            by: by.clone(),
            elected: !is_new,
        };
        let elected = self.until_granted(&key).await?;
        candidate.elected = true;
        if let Some(value) = value.filter(|value| *value != elected.kv.value) {
            let proclaim = change(&key, elected.kv.create_revision, put(&key, value, lease.0));
            self.txn(proclaim, by).await?;
        }
        Ok(elected)
    }

    /// Creates a key, and deletes it if the caller has given up meanwhile. Returns whether it is
    /// new.
    async fn create_by_key(
        self: &Arc<Self>,
        create: TxnRequest,
        key: &[u8],
        by: By,
    ) -> Result<bool, Status> {
        let (caller, created) = oneshot::channel();
        let (service, key) = (Arc::clone(self), key.to_vec());
        tokio::spawn(async move {
            let created = service.txn(create, By { restamped: true, ..by.clone() }).await;
            let result = created.map(|response| response.succeeded);
            if let Err(Ok(true)) = caller.send(result) {
                drop(Candidate { service, key, by, elected: false });
            }
        });
        created.await.map_err(|_| Status::unavailable("the node is stopping"))?
    }

    async fn leader(self: &Arc<Self>, name: &[u8]) -> Result<Option<LeaderResponse>, Status> {
        use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
        let first = RangeRequest {
            key: [name, &b"/"[..]].concat(),
            range_end: [name, &b"0"[..]].concat(),
            limit: 1,
            sort_order: SortOrder::Ascend.into(),
            sort_target: SortTarget::Create.into(),
            ..RangeRequest::default()
        };
        let response = self.range(first).await?;
        let kv = response.kvs.into_iter().next();
        Ok(kv.map(|kv| LeaderResponse { header: response.header, kv: Some(kv) }))
    }
}

fn missing() -> Status {
    Status::invalid_argument("\"leader\" field must be provided")
}

#[tonic::async_trait]
impl Election for Etcd {
    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        let caller = Caller::of(&request);
        let CampaignRequest { name, lease, value } = request.into_inner();
        let lease = match lease {
            0 => self.0.private_lease(client(&caller))?,
            lease => SessionId(lease),
        };
        let elected = self.0.acquire_by_key(&name, lease, Some(value), self.0.by(&caller));
        let Elected { kv, fencing_token } = elected.await?;
        let leader = LeaderKey { name, key: kv.key, rev: kv.create_revision, lease: lease.0 };
        let header = self.0.header(fencing_token.cast_unsigned());
        Ok(Response::new(CampaignResponse { header, leader: Some(leader) }))
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        let by = self.0.by(&Caller::of(&request));
        let ProclaimRequest { leader, value } = request.into_inner();
        let LeaderKey { key, rev, lease, .. } = leader.ok_or_else(missing)?;
        let response = self.0.txn(change(&key, rev.max(1), put(&key, value, lease)), by).await?;
        match response.succeeded {
            true => Ok(Response::new(ProclaimResponse { header: response.header })),
            false => Err(Status::unknown("election: not leader")),
        }
    }

    async fn leader(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<LeaderResponse>, Status> {
        let leader = self.0.leader(&request.into_inner().name).await?;
        leader.map(Response::new).ok_or_else(|| Status::unknown("election: no leader"))
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<LeaderResponse, Status>> + Send>>;

    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let LeaderRequest { name } = request.into_inner();
        let service = Arc::clone(&self.0);
        let (replies, stream) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let watch = Watch { target: Target::Lock(name), start: 0, puts: true, deletes: false };
            let mut follower = Follower::new(Arc::clone(&service), watch);
            loop {
                let happened = tokio::select! {
                    happened = follower.next() => happened,
                    () = replies.closed() => return,
                };
                for one in happened.into_iter().flatten() {
                    let header = service.header(one.revision);
                    let is_put = one.event.r#type() == EventType::Put;
                    let leader = LeaderResponse { header, kv: one.event.kv };
                    if is_put && replies.send(Ok(leader)).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(stream))))
    }

    async fn resign(
        &self,
        request: Request<ResignRequest>,
    ) -> Result<Response<ResignResponse>, Status> {
        let by = self.0.by(&Caller::of(&request));
        let LeaderKey { key, rev, .. } = request.into_inner().leader.ok_or_else(missing)?;
        let delete = DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() };
        let delete = request_op::Request::RequestDeleteRange(delete);
        let response = self.0.txn(change(&key, rev.max(1), delete), by).await?;
        Ok(Response::new(ResignResponse { header: response.header }))
    }
}
