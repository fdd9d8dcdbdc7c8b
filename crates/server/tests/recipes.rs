//! etcd's recipes as its clients perform them, over a socket.

#[path = "support/server.rs"]
mod server;

use mutua_client::proto::{
    etcdserverpb::{
        Compare, DeleteRangeRequest, LeaseRevokeRequest, PutRequest, RangeRequest, RangeResponse,
        RequestOp, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
        compare::TargetUnion, kv_client::KvClient, lease_client::LeaseClient, request_op::Request,
        response_op::Response, watch_client::WatchClient, watch_request::RequestUnion,
    },
    mvccpb::{KeyValue, event::EventType},
    v3electionpb::{
        CampaignRequest, LeaderRequest, ProclaimRequest, ResignRequest,
        election_client::ElectionClient,
    },
    v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
};
use server::Server;
use tonic::{Code, Status, Streaming, transport::Channel};

impl Server {
    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone())
    }

    async fn lease(&self) -> i64 {
        self.lease_of(60).await
    }

    async fn revoke(&self, id: i64) {
        let mut client = LeaseClient::new(self.channel.clone());
        client.lease_revoke(LeaseRevokeRequest { id }).await.expect("revoked");
    }

    /// The transaction of Go's Mutex, and whether it holds the lock.
    async fn enqueue(&self, name: &str, lease: i64) -> (Waiter, bool) {
        let key = format!("{name}/{lease:x}").into_bytes();
        let success = vec![put(&key, b"", lease), Request::RequestRange(first(name))];
        let failure = vec![range(&key), Request::RequestRange(first(name))];
        let response = self.txn(created(&key, 0), success, failure).await.expect("done");
        let own = match response.succeeded {
            true => response.header.as_ref().expect("a header").revision,
            false => read(&response, 0)[0].create_revision,
        };
        let holds = read(&response, 1).first().is_none_or(|kv| kv.create_revision == own);
        (Waiter { name: name.to_owned(), key, own }, holds)
    }

    async fn txn(
        &self,
        compare: Compare,
        success: Vec<Request>,
        failure: Vec<Request>,
    ) -> Result<TxnResponse, Status> {
        let operations = |requests: Vec<Request>| {
            requests.into_iter().map(|one| RequestOp { request: Some(one) }).collect()
        };
        let (success, failure) = (operations(success), operations(failure));
        let request = TxnRequest { compare: vec![compare], success, failure };
        self.kv().txn(request).await.map(tonic::Response::into_inner)
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.kv().range(request).await.map(tonic::Response::into_inner)
    }

    async fn get(&self, key: &[u8]) -> Option<KeyValue> {
        let request = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        self.range(request).await.expect("answered").kvs.into_iter().next()
    }

    async fn delete(&self, key: &[u8]) -> i64 {
        let request = DeleteRangeRequest { key: key.to_vec(), ..DeleteRangeRequest::default() };
        self.kv().delete_range(request).await.expect("answered").into_inner().deleted
    }

    /// What a waiter asks: the last key before its own.
    async fn before(&self, waiter: &Waiter) -> Result<RangeResponse, Status> {
        let request = RangeRequest {
            sort_order: 2,
            max_create_revision: waiter.own - 1,
            ..first(&waiter.name)
        };
        self.range(request).await
    }

    async fn watch(&self, key: &[u8], range_end: &[u8], start: i64) -> Streaming<WatchResponse> {
        let create = WatchCreateRequest {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
            start_revision: start,
            ..WatchCreateRequest::default()
        };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::StreamExt::chain(
            tokio_stream::iter([request]),
            tokio_stream::pending::<WatchRequest>(),
        );
        let mut client = WatchClient::new(self.channel.clone());
        let mut stream = client.watch(requests).await.expect("a stream").into_inner();
        let created = stream.message().await.expect("read").expect("a response");
        assert!(created.created && !created.canceled, "{created:?}");
        stream
    }

    /// What a waiter does until no earlier key is left; the revision is then its fencing token.
    async fn wait(&self, waiter: &Waiter) -> Result<i64, Status> {
        loop {
            let response = self.before(waiter).await?;
            let revision = response.header.expect("a header").revision;
            let Some(earlier) = response.kvs.first() else { return Ok(revision) };
            assert!(earlier.create_revision < waiter.own);
            let mut stream = self.watch(&earlier.key, b"", revision).await;
            deletion(&mut stream).await;
        }
    }
}

struct Waiter {
    name: String,
    key: Vec<u8>,
    own: i64,
}

fn created(key: &[u8], revision: i64) -> Compare {
    Compare {
        target: 1,
        key: key.to_vec(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Compare::default()
    }
}

fn put(key: &[u8], value: &[u8], lease: i64) -> Request {
    let (key, value) = (key.to_vec(), value.to_vec());
    Request::RequestPut(PutRequest { key, value, lease, ..PutRequest::default() })
}

fn range(key: &[u8]) -> Request {
    Request::RequestRange(RangeRequest { key: key.to_vec(), ..RangeRequest::default() })
}

fn delete_request(key: &[u8]) -> Request {
    let request = DeleteRangeRequest { key: key.to_vec(), ..DeleteRangeRequest::default() };
    Request::RequestDeleteRange(request)
}

fn first(name: &str) -> RangeRequest {
    RangeRequest {
        key: format!("{name}/").into_bytes(),
        range_end: format!("{name}0").into_bytes(),
        limit: 1,
        sort_order: 1,
        sort_target: 2,
        ..RangeRequest::default()
    }
}

fn read(response: &TxnResponse, index: usize) -> &[KeyValue] {
    match &response.responses[index].response {
        Some(Response::ResponseRange(range)) => &range.kvs,
        other => panic!("not a range: {other:?}"),
    }
}

async fn deletion(stream: &mut Streaming<WatchResponse>) {
    loop {
        let response = stream.message().await.expect("read").expect("a response");
        if response.events.iter().any(|event| event.r#type() == EventType::Delete) {
            return;
        }
    }
}

#[tokio::test]
async fn a_mutex_is_granted_in_order_with_growing_fencing_tokens() {
    let server = Server::start().await;
    let (one, two, three) = (server.lease().await, server.lease().await, server.lease().await);
    let (first, holds) = server.enqueue("x", one).await;
    assert!(holds);
    let (again, holds) = server.enqueue("x", one).await;
    assert_eq!((again.own, holds), (first.own, true), "the same lease holds it already");
    let (second, holds) = server.enqueue("x", two).await;
    assert!(!holds);
    let (third, holds) = server.enqueue("x", three).await;
    assert!(!holds);
    assert!(first.own < second.own && second.own < third.own);
    assert_eq!(server.before(&second).await.expect("waits").kvs.len(), 1, "exactly one");
    assert_eq!(server.delete(&first.key).await, 1);
    let token = server.wait(&second).await.expect("granted");
    assert!(token > first.own, "{token}");
    assert_eq!(server.get(&second.key).await.expect("there").create_revision, second.own);
    assert_eq!(server.before(&third).await.expect("waits").kvs.len(), 1);
    server.revoke(two).await;
    assert!(server.wait(&third).await.expect("granted") > token);
    assert_eq!(server.get(&second.key).await, None);
    assert_eq!(server.delete(&second.key).await, 0);
}

#[tokio::test]
async fn a_waiter_whose_lease_has_ended_is_not_granted_the_lock() {
    let server = Server::start().await;
    let (one, two) = (server.lease().await, server.lease().await);
    server.enqueue("x", one).await;
    let (waiter, _) = server.enqueue("x", two).await;
    server.revoke(two).await;
    let error = server.wait(&waiter).await.expect_err("its key is gone");
    assert_eq!(error.message(), "mutex: session is expired");
}

#[tokio::test]
async fn the_recipes_and_the_lock_service_exclude_each_other() {
    let server = Server::start().await;
    let (one, two) = (server.lease().await, server.lease().await);
    let mut locks = LockClient::new(server.channel.clone());
    let locked = locks.lock(LockRequest { name: b"x".to_vec(), lease: one }).await;
    let locked = locked.expect("locked").into_inner();
    let (waiter, holds) = server.enqueue("x", two).await;
    assert!(!holds);
    let refused = server.txn(
        created(b"/locks/x", 0),
        vec![put(b"/locks/x", b"u", two)],
        vec![range(b"/locks/x")],
    );
    let refused = refused.await.expect("answered");
    assert!(!refused.succeeded);
    assert_eq!(read(&refused, 0).len(), 1, "a key is shown though the holder has none");
    assert_eq!(server.get(&locked.key).await.expect("the holder's key").lease, one);
    locks.unlock(UnlockRequest { key: locked.key }).await.expect("unlocked");
    let token = server.wait(&waiter).await.expect("granted");
    assert!(token > locked.header.expect("a header").revision);
}

#[tokio::test]
async fn a_bare_key_is_a_try_lock_whose_watch_ends_when_it_is_free() {
    let server = Server::start().await;
    let (one, two) = (server.lease().await, server.lease().await);
    let create = |lease, value: &'static [u8]| {
        server.txn(
            created(b"/locks/x", 0),
            vec![put(b"/locks/x", value, lease)],
            vec![range(b"/locks/x")],
        )
    };
    assert!(create(one, b"u").await.expect("answered").succeeded);
    let refused = create(two, b"w").await.expect("answered");
    assert!(!refused.succeeded);
    let held = read(&refused, 0)[0].clone();
    assert_eq!((&*held.value, held.lease), (&b"u"[..], one));
    let (waiter, holds) = server.enqueue("x", two).await;
    assert!(!holds, "the same lock");
    assert_eq!(server.delete(&waiter.key).await, 1);
    let mut stream = server.watch(b"/locks/x", b"", held.mod_revision + 1).await;
    let compare = |value: &[u8]| Compare {
        target: 3,
        key: b"/locks/x".to_vec(),
        target_union: Some(TargetUnion::Value(value.to_vec())),
        ..Compare::default()
    };
    let release = |value: &'static [u8]| {
        server.txn(compare(value), vec![delete_request(b"/locks/x")], vec![])
    };
    assert!(!release(b"w").await.expect("answered").succeeded, "another's value");
    assert!(release(b"u").await.expect("answered").succeeded);
    deletion(&mut stream).await;
    assert!(create(two, b"w").await.expect("answered").succeeded);
}

#[tokio::test]
async fn a_watch_of_an_absent_key_reports_its_deletion_at_once() {
    let server = Server::start().await;
    for key in [&b"nothing"[..], b"x/7b", b"x/7b:ahead"] {
        let mut stream = server.watch(key, b"", 1 << 60).await;
        deletion(&mut stream).await;
        assert_eq!(server.get(key).await, None);
    }
}

#[tokio::test]
async fn an_election_has_one_leader_whose_value_is_observed() {
    let server = Server::start().await;
    let (one, two) = (server.lease().await, server.lease().await);
    let mut election = ElectionClient::new(server.channel.clone());
    let name = || b"e".to_vec();
    let none = election.leader(LeaderRequest { name: name() }).await.expect_err("none yet");
    assert_eq!((none.code(), none.message()), (Code::Unknown, "election: no leader"));
    let observed = election.observe(LeaderRequest { name: name() }).await.expect("a stream");
    let mut observed = observed.into_inner();
    let campaign =
        |lease, value: &[u8]| CampaignRequest { name: name(), lease, value: value.to_vec() };
    let won = election.campaign(campaign(one, b"first")).await.expect("elected").into_inner();
    let leader = won.leader.expect("a key");
    let mut other = election.clone();
    let waits = tokio::spawn(async move {
        let campaign =
            CampaignRequest { name: b"e".to_vec(), lease: two, value: b"second".to_vec() };
        other.campaign(campaign).await.expect("elected").into_inner()
    });
    let value = async |stream: &mut Streaming<_>| {
        let response: mutua_client::proto::v3electionpb::LeaderResponse =
            stream.message().await.expect("read").expect("a response");
        response.kv.expect("a key").value
    };
    assert_eq!(value(&mut observed).await, b"first");
    let proclaim =
        |value: &[u8]| ProclaimRequest { leader: Some(leader.clone()), value: value.to_vec() };
    election.proclaim(proclaim(b"changed")).await.expect("it leads");
    assert_eq!(value(&mut observed).await, b"changed");
    let resign = || ResignRequest { leader: Some(leader.clone()) };
    election.resign(resign()).await.expect("resigned");
    election.resign(resign()).await.expect("resigned already");
    let next = waits.await.expect("ended").leader.expect("a key");
    assert!(next.rev > leader.rev, "the terms' fencing tokens grow");
    assert_eq!(value(&mut observed).await, b"second");
    let late = election.proclaim(proclaim(b"late")).await.expect_err("not the leader");
    assert_eq!(late.message(), "election: not leader");
}

#[tokio::test]
async fn other_calls_are_refused_with_a_sentence() {
    let server = Server::start().await;
    let plain = PutRequest { key: b"a".to_vec(), ..PutRequest::default() };
    let refused = server.kv().put(plain).await.expect_err("not a key-value store");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("etcdctl lock"), "{}", refused.message());
    let no_lease = server.txn(created(b"a", 0), vec![put(b"a", b"", 0)], vec![]).await;
    assert_eq!(no_lease.expect_err("no lease").code(), Code::InvalidArgument);
    let unknown = server.txn(created(b"a", 0), vec![put(b"a", b"", 77)], vec![]).await;
    assert_eq!(unknown.expect_err("no such lease").code(), Code::NotFound);
    let lease = server.lease().await;
    let reserved = server.txn(created(b"a:ahead", 0), vec![put(b"a:ahead", b"", lease)], vec![]);
    assert_eq!(reserved.await.expect_err("reserved").code(), Code::InvalidArgument);
    let long = vec![b'n'; 5000];
    let too_long = server.txn(created(&long, 0), vec![put(&long, b"", lease)], vec![]).await;
    assert_eq!(too_long.expect_err("too long").code(), Code::InvalidArgument);
}
