//! The calls of the recipes: done here if this node serves the lease or the key, or else by the
//! member that does.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tonic::{Code, Status};

use super::{
    Wanted,
    answers::{Ahead, Shown, Watched},
    shape::{self, Read, ShapeError, Transaction},
};
use crate::{
    Service,
    etcd::refusal,
    hosting::{Patience, unavailable},
    leases::{Outcome, SessionId},
    proto::{
        etcdserverpb::{
            DeleteRangeRequest, DeleteRangeResponse, RangeRequest, RangeResponse, ResponseOp,
            TxnRequest, TxnResponse, WatchCreateRequest, response_op::Response,
        },
        mvccpb::KeyValue,
        v1::{self, peer_query::Query, peer_reply::Reply, recipe_call::Kind},
    },
};

/// How long another member waits for a change of what is watched.
const POLL: Duration = Duration::from_secs(1);

/// The result at this node; `None` if it does not serve the lease or the key.
pub(super) type Here<T> = Option<Result<T, Status>>;

impl From<ShapeError> for Status {
    fn from(error: ShapeError) -> Self {
        match error {
            ShapeError::Unsupported(_) => Self::unimplemented(error.to_string()),
            ShapeError::NoKey => Self::invalid_argument(error.to_string()),
        }
    }
}

/// How a call is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct By {
    /// The identity that the client of a lease or key must have; `None`: any.
    pub(crate) identity: Option<String>,
    /// Whether the fencing token becomes the revision of a key's creation.
    pub(crate) restamped: bool,
}

/// The calls, wherever they are done.
impl Service {
    pub(crate) async fn txn(
        self: &Arc<Self>,
        request: TxnRequest,
        by: By,
    ) -> Result<TxnResponse, Status> {
        let transaction = shape::transaction(&request)?;
        let wanted = Wanted::of_transaction(&transaction);
        let patience = Patience::new();
        loop {
            let epoch = self.handle.epoch();
            if let Some(done) = self.txn_here(&transaction, &by).await {
                return done;
            }
            let By { identity, restamped } = by.clone();
            let call = v1::RecipeCall { restamped, identity, ..recipe_call(Kind::Txn, &request) };
            match self.done_elsewhere(call, &wanted, epoch).await {
                Ok(Some(done)) => return done,
                Ok(None) => break,
                Err(unknown) => patience.wait(unknown).await?,
            }
        }
        match transaction {
            Transaction::Create { lease, .. } => Err(self.no_lease(SessionId(lease))),
            Transaction::Change { otherwise, .. } => {
                let header = self.header(self.lock().revision);
                let responses = self.read_all(&otherwise, None).await?;
                Ok(TxnResponse { header, succeeded: false, responses })
            }
        }
    }

    pub(crate) async fn range(
        self: &Arc<Self>,
        request: RangeRequest,
    ) -> Result<RangeResponse, Status> {
        self.read(&shape::range(&request)?, None).await
    }

    pub(crate) async fn delete_range(
        self: &Arc<Self>,
        request: DeleteRangeRequest,
        by: By,
    ) -> Result<DeleteRangeResponse, Status> {
        let key = shape::delete(&request)?;
        let patience = Patience::new();
        loop {
            let epoch = self.handle.epoch();
            if let Some(done) = self.delete_here(&key, &by).await {
                return done;
            }
            let identity = by.identity.clone();
            let call = v1::RecipeCall { identity, ..recipe_call(Kind::DeleteRange, &request) };
            match self.done_elsewhere(call, &Wanted::key(&key), epoch).await {
                Ok(Some(done)) => return done,
                Ok(None) => break,
                Err(unknown) => patience.wait(unknown).await?,
            }
        }
        let header = self.header(self.lock().revision);
        Ok(DeleteRangeResponse { header, ..DeleteRangeResponse::default() })
    }

    /// Does a call at the member that serves it; `None` if no member does, and none will. This node
    /// did not serve it in the view with this epoch.
    async fn done_elsewhere<T: Message + Default>(
        &self,
        call: v1::RecipeCall,
        wanted: &Wanted<'_>,
        epoch: Option<u32>,
    ) -> Result<Here<T>, Status> {
        if self.is_alone() {
            return Ok(None);
        }
        let mut kept = self.is_kept(&self.lock(), wanted);
        let mut unanswered = Vec::new();
        for (name, reply) in self.query_all(Query::Recipe(call)).await {
            match reply {
                Some(Reply::Recipe(reply)) if reply.done => return Ok(Some(read_reply(&reply))),
                Some(Reply::Recipe(reply)) => kept |= reply.keeps,
                Some(_) => {}
                None => unanswered.push(name),
            }
        }
        let same_view = epoch.is_some() && self.handle.epoch() == epoch;
        match &*unanswered {
            [] if same_view && !kept && self.handle.is_settled() => Ok(None),
            [] => Err(unavailable()),
            names => Err(Status::unavailable(format!(
                "this node does not serve the key, and {} did not answer",
                names.join(", ")
            ))),
        }
    }

    /// The reply to another member's call.
    pub(crate) async fn answer_recipe(self: &Arc<Self>, call: v1::RecipeCall) -> v1::RecipeReply {
        self.answer_if_known(call).await.unwrap_or_default()
    }

    /// `None` if the call is not known here.
    async fn answer_if_known(self: &Arc<Self>, call: v1::RecipeCall) -> Option<v1::RecipeReply> {
        let (kind, body) = (call.kind(), &*call.request);
        let by = By { identity: call.identity.clone(), restamped: call.restamped };
        Some(match kind {
            Kind::Txn => {
                let transaction = shape::transaction(&TxnRequest::decode(body).ok()?).ok()?;
                let done = self.txn_here(&transaction, &by).await;
                self.recipe_reply(done, &Wanted::of_transaction(&transaction))
            }
            Kind::Range => {
                let read = shape::range(&RangeRequest::decode(body).ok()?).ok()?;
                self.recipe_reply(self.read_here(&read, None), &Wanted::of_read(&read))
            }
            Kind::DeleteRange => {
                let key = shape::delete(&DeleteRangeRequest::decode(body).ok()?).ok()?;
                self.recipe_reply(self.delete_here(&key, &by).await, &Wanted::key(&key))
            }
            Kind::Await => {
                let watch = shape::watch(&WatchCreateRequest::decode(body).ok()?).ok()?;
                let done = self.await_here(&watch.target, &call.known).await;
                self.recipe_reply(done, &Wanted::of_target(&watch.target))
            }
            Kind::Unknown => return None,
        })
    }

    fn recipe_reply<T: Message>(&self, done: Here<T>, wanted: &Wanted<'_>) -> v1::RecipeReply {
        match done {
            None => {
                let keeps = self.is_kept(&self.lock(), wanted);
                v1::RecipeReply { keeps, ..Default::default() }
            }
            Some(Ok(response)) => {
                let response = response.encode_to_vec();
                v1::RecipeReply { done: true, response, ..Default::default() }
            }
            Some(Err(status)) => v1::RecipeReply {
                done: true,
                code: status.code().into(),
                error: status.message().to_owned(),
                ..Default::default()
            },
        }
    }

    /// The state of what is watched at another member: no key if the watcher has been granted the
    /// lock.
    pub(crate) async fn watched_elsewhere(
        &self,
        target: &shape::Target,
        known: Option<&KeyValue>,
        epoch: Option<u32>,
    ) -> Result<Option<Watched>, Status> {
        let request = match target {
            shape::Target::Key(key) => {
                WatchCreateRequest { key: key.clone(), ..Default::default() }
            }
            shape::Target::Lock(name) => WatchCreateRequest {
                key: [name, &b"/"[..]].concat(),
                range_end: [name, &b"0"[..]].concat(),
                ..Default::default()
            },
        };
        let known = known.map(Message::encode_to_vec).unwrap_or_default();
        let call = v1::RecipeCall { known, ..recipe_call(Kind::Await, &request) };
        let wanted = Wanted::of_target(target);
        let done: Here<RangeResponse> = self.done_elsewhere(call, &wanted, epoch).await?;
        let Some(response) = done.transpose()? else { return Ok(None) };
        let revision = response.header.unwrap_or_default().revision.cast_unsigned();
        Ok(Some(match response.kvs.into_iter().next() {
            Some(kv) => Watched::Is(Shown { kv, revision }),
            None => Watched::Granted(revision),
        }))
    }

    async fn await_here(
        self: &Arc<Self>,
        target: &shape::Target,
        known: &[u8],
    ) -> Here<RangeResponse> {
        let deadline = tokio::time::Instant::now() + POLL;
        let name = self.lock().name_of(target)?;
        let mut changes = self.watch(&name);
        loop {
            changes.borrow_and_update();
            let state = self.call(|core, now| core.watched_here(now, target))?;
            let same = match &state {
                Watched::Is(shown) => shown.kv.encode_to_vec() == known,
                Watched::Granted(_) => false,
            };
            let waited = tokio::time::timeout_at(deadline, changes.changed());
            if same && waited.await.is_ok() {
                continue;
            }
            let (kv, revision) = match state {
                Watched::Is(shown) => (Some(shown.kv), shown.revision),
                Watched::Granted(token) => (None, token),
            };
            let header = self.header(revision);
            return Some(Ok(RangeResponse {
                header,
                kvs: kv.into_iter().collect(),
                ..RangeResponse::default()
            }));
        }
    }
}

fn recipe_call(kind: Kind, request: &impl Message) -> v1::RecipeCall {
    let request = request.encode_to_vec();
    v1::RecipeCall { kind: kind.into(), request, ..v1::RecipeCall::default() }
}

fn read_reply<T: Message + Default>(reply: &v1::RecipeReply) -> Result<T, Status> {
    match reply.code {
        0 => T::decode(&*reply.response).map_err(|error| Status::internal(error.to_string())),
        code => Err(Status::new(Code::from(code), reply.error.clone())),
    }
}

/// Reads.
impl Service {
    /// Reads for a client; `asker` is the key that its own transaction created.
    async fn read(
        self: &Arc<Self>,
        read: &Read,
        asker: Option<&[u8]>,
    ) -> Result<RangeResponse, Status> {
        let patience = Patience::new();
        loop {
            let epoch = self.handle.epoch();
            if let Some(done) = self.read_here(read, asker) {
                return done;
            }
            let call = recipe_call(Kind::Range, &request_of(read));
            match self.done_elsewhere(call, &Wanted::of_read(read), epoch).await {
                Ok(Some(done)) => return done,
                Ok(None) => break,
                Err(unknown) => patience.wait(unknown).await?,
            }
        }
        match read {
            Read::Key(_) | Read::First(_) => Ok(self.found(None)),
            // Its key is gone: to answer that there is no earlier one would grant the lock.
            Read::Before(..) => Err(refusal(Outcome::NoSession)),
        }
    }

    fn read_here(self: &Arc<Self>, read: &Read, asker: Option<&[u8]>) -> Here<RangeResponse> {
        let shown = self.call(|core, now| match read {
            Read::Key(key) => core.key_here(now, key).map(Ahead::One),
            Read::First(_) if asker.is_some() => {
                let key = asker.expect("just seen");
                let entry = core.recipes.get(key)?;
                Some(match core.ahead_of(key, entry) {
                    Ahead::Granted(token) => {
                        Ahead::One(Shown { kv: entry.shown(key), revision: token })
                    }
                    ahead => ahead,
                })
            }
            Read::First(name) => core.first_here(now, name).map(Ahead::One),
            Read::Before(name, last) => {
                let created = last.cast_unsigned().wrapping_add(1);
                let (key, entry) = core.recipes.created_at(name, created)?;
                Some(core.ahead_of(key, entry))
            }
        });
        Some(Ok(match shown? {
            Ahead::One(shown) => self.found(Some(shown)),
            Ahead::Granted(token) => {
                RangeResponse { header: self.header(token), ..RangeResponse::default() }
            }
        }))
    }

    fn found(&self, shown: Option<Shown>) -> RangeResponse {
        let revision = shown.as_ref().map_or_else(|| self.lock().revision, |one| one.revision);
        let count = i64::from(shown.is_some());
        let kvs = shown.into_iter().map(|shown| shown.kv).collect();
        RangeResponse { header: self.header(revision), kvs, more: false, count }
    }

    pub(super) async fn read_all(
        self: &Arc<Self>,
        reads: &[Read],
        asker: Option<&[u8]>,
    ) -> Result<Vec<ResponseOp>, Status> {
        let mut responses = Vec::new();
        for read in reads {
            let response = Response::ResponseRange(self.read(read, asker).await?);
            responses.push(ResponseOp { response: Some(response) });
        }
        Ok(responses)
    }
}

/// The message of a read.
fn request_of(read: &Read) -> RangeRequest {
    use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
    let (name, order, max_create_revision) = match read {
        Read::Key(key) => return RangeRequest { key: key.clone(), ..Default::default() },
        Read::First(name) => (name, SortOrder::Ascend, 0),
        Read::Before(name, last) => (name, SortOrder::Descend, *last),
    };
    RangeRequest {
        key: [name, &b"/"[..]].concat(),
        range_end: [name, &b"0"[..]].concat(),
        limit: 1,
        sort_order: order.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision,
        ..Default::default()
    }
}
