//! The calls of the recipes: done here if this node serves the lease or the key, or else by the
//! member that does.

use std::{sync::Arc, time::Duration};

use prost::Message;
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::{
    AHEAD, Entry, State,
    answers::{Ahead, Shown, Watched},
    bare_name, next_revision, queue_of,
    shape::{self, Change, Condition, Read, ShapeError, Transaction},
};
use crate::{
    Core, Moment, Service, Waiter,
    etcd::refusal,
    leases::{Name, Outcome, SessionId, WaitLimit},
    proto::{
        etcdserverpb::{
            DeleteRangeRequest, DeleteRangeResponse, PutResponse, RangeRequest, RangeResponse,
            ResponseOp, TxnRequest, TxnResponse, WatchCreateRequest, response_op::Response,
        },
        mvccpb::KeyValue,
        v1::{self, peer_query::Query, peer_reply::Reply, recipe_call::Kind},
    },
};

/// How long the creation of a key waits for a lock that is not known to be held.
const HINT: Duration = Duration::from_millis(300);

/// How long another member waits for a change of what is watched.
const POLL: Duration = Duration::from_secs(1);

/// The result at this node; `None` if it does not serve the lease or the key.
type Here<T> = Option<Result<T, Status>>;

impl From<ShapeError> for Status {
    fn from(error: ShapeError) -> Self {
        match error {
            ShapeError::Unsupported(_) => Self::unimplemented(error.to_string()),
            ShapeError::NoKey => Self::invalid_argument(error.to_string()),
        }
    }
}

/// The calls, wherever they are done.
impl Service {
    pub(crate) async fn txn(self: &Arc<Self>, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.txn_of(request, false).await
    }

    /// A transaction; with `restamped` the fencing token becomes the revision of a key's creation.
    pub(crate) async fn txn_of(
        self: &Arc<Self>,
        request: TxnRequest,
        restamped: bool,
    ) -> Result<TxnResponse, Status> {
        let transaction = shape::transaction(&request)?;
        if let Some(done) = self.txn_here(&transaction, restamped).await {
            return done;
        }
        let call = recipe_call(Kind::Txn, &request);
        if let Some(done) = self.done_elsewhere(v1::RecipeCall { restamped, ..call }).await? {
            return done;
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
    ) -> Result<DeleteRangeResponse, Status> {
        let key = shape::delete(&request)?;
        if let Some(done) = self.delete_here(&key) {
            return done;
        }
        let call = recipe_call(Kind::DeleteRange, &request);
        if let Some(done) = self.done_elsewhere(call).await? {
            return done;
        }
        let header = self.header(self.lock().revision);
        Ok(DeleteRangeResponse { header, ..DeleteRangeResponse::default() })
    }

    /// Does a call at the member that serves it; `None` if no member does.
    async fn done_elsewhere<T: Message + Default>(
        &self,
        call: v1::RecipeCall,
    ) -> Result<Here<T>, Status> {
        if self.is_alone() {
            return Ok(None);
        }
        let mut unanswered = Vec::new();
        for (name, reply) in self.query_all(Query::Recipe(call)).await {
            match reply {
                Some(Reply::Recipe(reply)) if reply.done => return Ok(Some(read_reply(&reply))),
                Some(_) => {}
                None => unanswered.push(name),
            }
        }
        match &*unanswered {
            [] => Ok(None),
            names => Err(Status::unavailable(format!(
                "this node does not serve the key, and {} did not answer",
                names.join(", ")
            ))),
        }
    }

    /// The reply to another member's call.
    pub(crate) async fn answer_recipe(self: &Arc<Self>, call: v1::RecipeCall) -> v1::RecipeReply {
        fn reply<T: Message>(done: Here<T>) -> v1::RecipeReply {
            match done {
                None => v1::RecipeReply::default(),
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
        let (kind, body) = (call.kind(), &*call.request);
        match kind {
            Kind::Txn => {
                let shaped = TxnRequest::decode(body).ok().map(|one| shape::transaction(&one));
                match shaped {
                    Some(Ok(transaction)) => {
                        reply(self.txn_here(&transaction, call.restamped).await)
                    }
                    _ => v1::RecipeReply::default(),
                }
            }
            Kind::Range => {
                let shaped = RangeRequest::decode(body).ok().map(|one| shape::range(&one));
                match shaped {
                    Some(Ok(read)) => reply(self.read_here(&read, None)),
                    _ => v1::RecipeReply::default(),
                }
            }
            Kind::DeleteRange => {
                let shaped = DeleteRangeRequest::decode(body).ok().map(|one| shape::delete(&one));
                match shaped {
                    Some(Ok(key)) => reply(self.delete_here(&key)),
                    _ => v1::RecipeReply::default(),
                }
            }
            Kind::Await => {
                let shaped = WatchCreateRequest::decode(body).ok().map(|one| shape::watch(&one));
                match shaped {
                    Some(Ok(watch)) => reply(self.await_here(&watch.target, &call.known).await),
                    _ => v1::RecipeReply::default(),
                }
            }
            Kind::Unknown => v1::RecipeReply::default(),
        }
    }

    /// The state of what is watched at another member: no key if the watcher has been granted the
    /// lock.
    pub(crate) async fn watched_elsewhere(
        &self,
        target: &shape::Target,
        known: Option<&KeyValue>,
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
        let done: Here<RangeResponse> = self.done_elsewhere(call).await?;
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
        if let Some(done) = self.read_here(read, asker) {
            return done;
        }
        let call = recipe_call(Kind::Range, &request_of(read));
        if let Some(done) = self.done_elsewhere(call).await? {
            return done;
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

    async fn read_all(
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

/// Transactions.
impl Service {
    async fn txn_here(
        self: &Arc<Self>,
        transaction: &Transaction,
        restamped: bool,
    ) -> Here<TxnResponse> {
        match transaction {
            Transaction::Create { key, value, lease, then, otherwise } => {
                let lease = SessionId(*lease);
                if !self.lock().leases.is_lease(lease) {
                    let zero = "a lock needs a lease: put the key with the number of one";
                    return (lease.0 == 0).then(|| Err(Status::invalid_argument(zero)));
                }
                let created = self.create(key, value.clone(), lease, restamped).await;
                Some(match created {
                    Ok(created) => self.created(created, key, then, otherwise).await,
                    Err(error) => Err(error),
                })
            }
            Transaction::Change { key, condition, change, otherwise } => {
                let changed = self.call(|core, now| self.change(core, now, key, condition, change));
                let (succeeded, revision) = changed?;
                let header = self.header(revision);
                if !succeeded {
                    let responses = self.read_all(otherwise, None).await;
                    return Some(responses.map(|responses| TxnResponse {
                        header,
                        succeeded,
                        responses,
                    }));
                }
                let response = match change {
                    Change::Keep => None,
                    Change::Delete => Some(Response::ResponseDeleteRange(DeleteRangeResponse {
                        header: header.clone(),
                        deleted: 1,
                        prev_kvs: Vec::new(),
                    })),
                    Change::Put(_) => Some(Response::ResponsePut(PutResponse {
                        header: header.clone(),
                        prev_kv: None,
                    })),
                };
                let responses = response.map(|response| ResponseOp { response: Some(response) });
                let responses = responses.into_iter().collect();
                Some(Ok(TxnResponse { header, succeeded, responses }))
            }
        }
    }

    async fn created(
        self: &Arc<Self>,
        created: Created,
        key: &[u8],
        then: &[Read],
        otherwise: &[Read],
    ) -> Result<TxnResponse, Status> {
        let revision = match created {
            Created::At(revision) => revision,
            Created::Not => {
                let header = self.header(self.lock().revision);
                let mut responses = self.read_all(otherwise, Some(key)).await?;
                self.show_some_holder(key, &mut responses);
                return Ok(TxnResponse { header, succeeded: false, responses });
            }
        };
        let header = self.header(revision);
        let put = Response::ResponsePut(PutResponse { header: header.clone(), prev_kv: None });
        let mut responses = vec![ResponseOp { response: Some(put) }];
        responses.extend(self.read_all(then, Some(key)).await?);
        Ok(TxnResponse { header, succeeded: true, responses })
    }

    /// A client that was refused a lock expects to see a key, though its holder may have none.
    fn show_some_holder(&self, key: &[u8], responses: &mut [ResponseOp]) {
        for response in responses {
            if let Some(Response::ResponseRange(range)) = &mut response.response
                && range.kvs.is_empty()
            {
                let revision = self.lock().revision.cast_signed();
                range.count = 1;
                range.kvs.push(KeyValue {
                    key: key.to_vec(),
                    create_revision: revision,
                    mod_revision: revision,
                    version: 1,
                    ..KeyValue::default()
                });
            }
        }
    }

    /// Creates a key, unless it exists: it waits for its lock or holds it, or it was refused.
    /// With `restamped` the fencing token becomes the revision of its creation.
    pub(crate) async fn create(
        self: &Arc<Self>,
        key: &[u8],
        value: Vec<u8>,
        lease: SessionId,
        restamped: bool,
    ) -> Result<Created, Status> {
        if key.ends_with(AHEAD) {
            let text = "invalid key: the suffix `:ahead` is reserved for the keys of waiters";
            return Err(Status::invalid_argument(text));
        }
        let queue = queue_of(key, lease);
        let name = queue.unwrap_or_else(|| bare_name(key));
        if name.len() > mutua_node::MAX_NAME {
            return Err(Status::invalid_argument(crate::name_too_long()));
        }
        let limit = if queue.is_some() { WaitLimit::Never } else { WaitLimit::Try };
        let name = Name::from(name);
        let (caller, outcome) = oneshot::channel();
        let created = self.call(|core, now| {
            if core.recipes.get(key).is_some() {
                return None;
            }
            let revision = self.take_revision(core, &name);
            let wait = core.leases.acquire(now, lease, &name, limit);
            let waiter = Waiter::Key { key: key.to_vec(), name: Name::clone(&name), caller };
            core.waiters.insert(wait, waiter);
            let entry = Entry {
                name: Name::clone(&name),
                lease,
                value,
                created: revision,
                changed: revision,
                version: 1,
                state: State::Waiting(wait),
                restamped: restamped || queue.is_none(),
            };
            core.recipes.insert(key.to_vec(), entry);
            Some(revision)
        });
        let Some(revision) = created else { return Ok(Created::Not) };
        if queue.is_some() {
            self.until_granted_or_held(&name, key).await;
            let stamped = self.call(|core, _| (!restamped).then(|| self.stamp(core, key)));
            return Ok(Created::At(stamped.flatten().unwrap_or(revision)));
        }
        let outcome = outcome.await.map_err(|_| Status::unavailable("the node is stopping"))?;
        match outcome {
            Outcome::Granted { fencing_token, .. } => Ok(Created::At(fencing_token)),
            Outcome::Busy | Outcome::TimedOut | Outcome::Already { .. } => Ok(Created::Not),
            outcome => Err(refusal(outcome)),
        }
    }

    /// A new revision. Later fencing tokens of the lock are greater.
    fn take_revision(&self, core: &mut Core, name: &Name) -> u64 {
        let last = core.revision.max(self.floor());
        let revision = next_revision(last, self.member_index(), self.members.len() as u64);
        core.revision = revision;
        self.handle.raise_lock(name, revision);
        revision
    }

    /// A key that was granted its lock before any client has been sent its revision gets a revision
    /// that is a fencing token: not below the grant's, and below that of every later grant.
    fn stamp(&self, core: &mut Core, key: &[u8]) -> Option<u64> {
        let entry = core.recipes.get(key)?;
        let (token, name) = (entry.token()?, Name::clone(&entry.name));
        let next = |last| next_revision(last, self.member_index(), self.members.len() as u64);
        let mut revision = next(token - 1);
        while core.recipes.created_at(&name, revision).is_some_and(|(other, _)| other != key) {
            revision = next(revision);
        }
        core.revision = core.revision.max(revision);
        self.handle.raise_lock(&name, revision);
        let mut entry = core.recipes.remove(key)?;
        (entry.created, entry.changed) = (revision, revision);
        core.recipes.insert(key.to_vec(), entry);
        Some(revision)
    }

    /// Waits until a key holds its lock, or another client is known to hold it or to be before it.
    /// A client that only tries gives up otherwise.
    async fn until_granted_or_held(self: &Arc<Self>, name: &Name, key: &[u8]) {
        let mut changes = self.watch(name);
        let deadline = tokio::time::Instant::now() + HINT;
        let held_elsewhere = self.holder_anywhere(name);
        tokio::pin!(held_elsewhere);
        let mut asked = false;
        loop {
            changes.borrow_and_update();
            let waits = self.call(|core, now| {
                let Some(State::Waiting(wait)) = core.recipes.get(key).map(|entry| entry.state)
                else {
                    return false;
                };
                let first = core.leases.position(wait) == Some(0);
                first && core.leases.holder(now, name).is_none() && !self.is_alone()
            });
            if !waits {
                return;
            }
            tokio::select! {
                _ = changes.changed() => {}
                holder = &mut held_elsewhere, if !asked => match holder {
                    Some(_) => return,
                    None => asked = true,
                },
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// Changes a key of this node. Returns whether the condition holds, and the revision.
    fn change(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        key: &[u8],
        condition: &Condition,
        change: &Change,
    ) -> Option<(bool, u64)> {
        let shown = core.key_here(now, key)?;
        let holds = match condition {
            Condition::Created(revision) => shown.kv.create_revision == *revision,
            Condition::Value(value) => shown.kv.value == *value,
        };
        if !holds {
            return Some((false, core.revision));
        }
        match change {
            Change::Keep => {}
            Change::Delete => self.remove(core, now, key),
            Change::Put(value) => {
                // Only keys of the recipes have values that can change.
                let name = Name::clone(&core.recipes.get(key)?.name);
                let revision = self.take_revision(core, &name);
                core.recipes.put(key, value.clone(), revision);
                core.notify_watchers(&name);
            }
        }
        Some((true, core.revision))
    }

    fn delete_here(self: &Arc<Self>, key: &[u8]) -> Here<DeleteRangeResponse> {
        self.call(|core, now| {
            core.key_here(now, key).filter(|_| !key.ends_with(AHEAD))?;
            self.remove(core, now, key);
            let header = self.header(core.revision);
            Some(Ok(DeleteRangeResponse { header, deleted: 1, prev_kvs: Vec::new() }))
        })
    }

    /// Releases the lock of a key, or cancels its wait.
    fn remove(&self, core: &mut Core, now: Moment, key: &[u8]) {
        let held = match core.recipes.get(key) {
            Some(Entry { state: State::Waiting(wait), .. }) => {
                let wait = *wait;
                core.recipes.remove(key);
                return core.leases.cancel(now, wait);
            }
            Some(Entry { state: State::Held(token), name, .. }) => {
                Some((Name::clone(name), *token))
            }
            // Of a lock that is held by other means, only a lease can be released this way.
            None => crate::etcd::parse_key(key).and_then(|(name, session)| {
                let holder = core.leases.holder(now, name)?;
                let own = holder.session == session && core.leases.is_lease(session);
                own.then(|| (Name::from(name), holder.fencing_token))
            }),
        };
        if let Some((name, token)) = held {
            core.leases.release(now, &name, token);
        }
    }
}

/// The result of creating a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Created {
    /// It was created at this revision.
    At(u64),
    /// It exists, or its lock is held.
    Not,
}
