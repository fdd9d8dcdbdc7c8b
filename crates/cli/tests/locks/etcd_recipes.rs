//! What clients of etcd's recipes have outlives the node that serves them: values and waiters.

use mutua_client::proto::{
    etcdserverpb::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp,
        TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, compare::TargetUnion,
        kv_client::KvClient, request_op::Request, watch_client::WatchClient,
        watch_request::RequestUnion,
    },
    mvccpb::{KeyValue, event::EventType},
    v3electionpb::{
        CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, election_client::ElectionClient,
    },
    v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
};
use tonic::{Code, Status, transport::Channel};

use crate::etcd_leases::{channel, lease, on_three_nodes, revoke, settled};

fn put(key: &[u8], value: &[u8], lease: i64) -> Request {
    let (key, value) = (key.to_vec(), value.to_vec());
    Request::RequestPut(PutRequest { key, value, lease, ..PutRequest::default() })
}

/// Puts a key if it was created at this revision.
async fn put_if(
    channel: &Channel,
    (key, created): (&[u8], i64),
    value: &[u8],
    lease: i64,
) -> Result<TxnResponse, Status> {
    let compare = Compare {
        target: 1,
        key: key.to_vec(),
        target_union: Some(TargetUnion::CreateRevision(created)),
        ..Compare::default()
    };
    let success = vec![RequestOp { request: Some(put(key, value, lease)) }];
    let request = TxnRequest { compare: vec![compare], success, failure: Vec::new() };
    KvClient::new(channel.clone()).txn(request).await.map(tonic::Response::into_inner)
}

/// The revision at which a waiter's key is created.
async fn enqueue(channel: &Channel, key: &[u8], lease: i64) -> i64 {
    let response = put_if(channel, (key, 0), b"", lease).await.expect("done");
    assert!(response.succeeded);
    response.header.expect("a header").revision
}

async fn get(channel: &Channel, key: &[u8]) -> Result<Option<KeyValue>, Status> {
    let request = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
    let response = KvClient::new(channel.clone()).range(request).await?.into_inner();
    Ok(response.kvs.into_iter().next())
}

/// The last key of a lock before that of a waiter, which was created at this revision.
async fn before(channel: &Channel, name: &str, created: i64) -> Result<RangeResponse, Status> {
    let request = RangeRequest {
        key: format!("{name}/").into_bytes(),
        range_end: format!("{name}0").into_bytes(),
        limit: 1,
        sort_order: 2,
        sort_target: 2,
        max_create_revision: created - 1,
        ..RangeRequest::default()
    };
    KvClient::new(channel.clone()).range(request).await.map(tonic::Response::into_inner)
}

async fn delete(channel: &Channel, key: &[u8]) -> Result<i64, Status> {
    let request = DeleteRangeRequest { key: key.to_vec(), ..DeleteRangeRequest::default() };
    Ok(KvClient::new(channel.clone()).delete_range(request).await?.into_inner().deleted)
}

/// Waits until a watched key is deleted.
async fn until_deleted(channel: &Channel, key: &[u8], start: i64) {
    let create = WatchCreateRequest {
        key: key.to_vec(),
        start_revision: start,
        ..WatchCreateRequest::default()
    };
    let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::StreamExt::chain(
        tokio_stream::iter([request]),
        tokio_stream::pending::<WatchRequest>(),
    );
    let stream = WatchClient::new(channel.clone()).watch(requests).await.expect("a stream");
    let mut stream = stream.into_inner();
    loop {
        let response = stream.message().await.expect("read").expect("a response");
        assert!(!response.canceled, "{response:?}");
        if response.events.iter().any(|event| event.r#type() == EventType::Delete) {
            return;
        }
    }
}

/// Waits as Go's clients do until no earlier key is left; the fencing token.
async fn until_granted(channel: &Channel, name: &str, created: i64) -> i64 {
    loop {
        let response = settled(async || before(channel, name, created).await).await;
        let Some(earlier) = response.kvs.into_iter().next() else {
            return response.header.expect("a header").revision;
        };
        until_deleted(channel, &earlier.key, created).await;
    }
}

async fn campaign(channel: &Channel, name: &[u8], lease: i64, value: &[u8]) -> LeaderKey {
    let (name, value) = (name.to_vec(), value.to_vec());
    let campaign = CampaignRequest { name, lease, value };
    let elected = ElectionClient::new(channel.clone()).campaign(campaign).await;
    elected.expect("elected").into_inner().leader.expect("a key")
}

async fn proclaim(channel: &Channel, leader: &LeaderKey, value: &[u8]) {
    let proclaim = ProclaimRequest { leader: Some(leader.clone()), value: value.to_vec() };
    ElectionClient::new(channel.clone()).proclaim(proclaim).await.expect("proclaimed");
}

async fn leader(channel: &Channel, name: &[u8]) -> Result<KeyValue, Status> {
    let request = LeaderRequest { name: name.to_vec() };
    let response = ElectionClient::new(channel.clone()).leader(request).await?;
    Ok(response.into_inner().kv.expect("a key"))
}

#[test]
fn the_last_proclaimed_value_is_known_when_the_leaders_node_is_killed() {
    on_three_nodes(async |_, cluster| {
        let a = channel(cluster, 0).await;
        let id = lease(&a, 60).await;
        let elected = campaign(&a, b"e", id, b"one").await;
        proclaim(&a, &elected, b"two").await;
        // As Go's Election proclaims.
        let put = put_if(&a, (&elected.key, elected.rev), b"three", id).await.expect("done");
        assert!(put.succeeded);
        cluster.kill(0);
        let (b, c) = (channel(cluster, 1).await, channel(cluster, 2).await);
        for member in [&b, &c] {
            let known = settled(async || leader(member, b"e").await).await;
            assert_eq!(known.value, b"three");
            assert_eq!((known.key, known.create_revision), (elected.key.clone(), elected.rev));
        }
        let request = LeaderRequest { name: b"e".to_vec() };
        let observed = ElectionClient::new(c.clone()).observe(request).await.expect("a stream");
        let observed = observed.into_inner().message().await.expect("read").expect("a leader");
        assert_eq!(observed.kv.expect("a key").value, b"three");
        // It leads on, and proclaims at another member.
        proclaim(&b, &elected, b"four").await;
        assert_eq!(leader(&c, b"e").await.expect("known").value, b"four");
    });
}

/// The other members may have recorded a value before the leader's node looks whether they have:
/// many leaders at once keep the nodes busy, so that some do.
#[test]
fn leaders_that_proclaim_value_after_value_stay_leaders() {
    on_three_nodes(async |_, cluster| {
        let (a, b) = (channel(cluster, 0).await, channel(cluster, 1).await);
        let mut leaders = tokio::task::JoinSet::new();
        for number in 0..24u8 {
            let (a, b) = (a.clone(), b.clone());
            leaders.spawn(async move {
                let name = [b'e', number];
                let id = lease(&a, 60).await;
                let elected = campaign(&a, &name, id, b"first").await;
                for value in 0..100u8 {
                    proclaim(if value % 2 == 0 { &a } else { &b }, &elected, &[value]).await;
                }
                assert_eq!(leader(&b, &name).await.expect("known").value, [99]);
            });
        }
        leaders.join_all().await;
    });
}

#[test]
fn a_waiter_keeps_its_key_and_is_granted_the_lock_when_its_node_is_killed() {
    on_three_nodes(async |scene, cluster| {
        let (a, b) = (channel(cluster, 0).await, channel(cluster, 1).await);
        let (waits, holds) = (lease(&a, 60).await, lease(&b, 60).await);
        let lock = LockRequest { name: b"x".to_vec(), lease: holds };
        let held = LockClient::new(b.clone()).lock(lock).await.expect("locked").into_inner();
        let key = format!("x/{waits:x}").into_bytes();
        let created = enqueue(&a, &key, waits).await;
        cluster.kill(0);
        let c = channel(cluster, 2).await;
        let mine = settled(async || get(&c, &key).await).await.expect("its key is there");
        assert_eq!((mine.create_revision, mine.lease), (created, waits));
        let earlier = settled(async || before(&c, "x", created).await).await;
        assert_eq!(earlier.kvs.len(), 1, "it waits still");
        let unlock = UnlockRequest { key: held.key };
        LockClient::new(b.clone()).unlock(unlock).await.expect("unlocked");
        let token = until_granted(&c, "x", created).await;
        assert!(token > held.header.expect("a header").revision, "fencing tokens grow");
        let first = cluster.token(scene, 1, "x").expect("it is held");
        assert!(token.cast_unsigned() >= first);
        assert_eq!(delete(&b, &key).await.expect("known"), 1);
        assert_eq!(settled(async || get(&c, &key).await).await, None);
    });
}

#[test]
fn calls_that_change_something_wait_until_another_member_serves_the_lease_of_a_killed_node() {
    on_three_nodes(async |_, cluster| {
        let (a, b) = (channel(cluster, 0).await, channel(cluster, 1).await);
        let (holds, revoked, locks) =
            (lease(&a, 60).await, lease(&a, 60).await, lease(&a, 60).await);
        let key = format!("held/{holds:x}").into_bytes();
        enqueue(&a, &key, holds).await;
        let lock = LockRequest { name: b"locked".to_vec(), lease: locks };
        let locked = LockClient::new(a.clone()).lock(lock).await.expect("locked").into_inner();
        cluster.kill(0);
        // Go's client repeats none of these.
        let other = format!("new/{holds:x}").into_bytes();
        enqueue(&b, &other, holds).await;
        assert_eq!(delete(&b, &key).await.expect("known"), 1);
        revoke(&b, revoked).await.expect("revoked");
        let unlock = UnlockRequest { key: locked.key.clone() };
        LockClient::new(b.clone()).unlock(unlock).await.expect("unlocked");
        assert_eq!(get(&b, &locked.key).await.expect("known"), None);
    });
}

#[test]
fn neither_a_waiter_that_gave_up_nor_a_former_holder_waits_again_when_its_node_is_killed() {
    on_three_nodes(async |scene, cluster| {
        let (a, b) = (channel(cluster, 0).await, channel(cluster, 1).await);
        let (waits, holds) = (lease(&a, 60).await, lease(&b, 60).await);
        for name in ["gave-up", "released"] {
            let lock = LockRequest { name: name.into(), lease: holds };
            let held = LockClient::new(b.clone()).lock(lock).await.expect("locked").into_inner();
            let key = format!("{name}/{waits:x}").into_bytes();
            let created = enqueue(&a, &key, waits).await;
            if name == "gave-up" {
                assert_eq!(delete(&a, &key).await.expect("known"), 1);
            }
            LockClient::new(b.clone()).unlock(UnlockRequest { key: held.key }).await.expect("done");
            if name == "released" {
                until_granted(&a, name, created).await;
                assert_eq!(delete(&a, &key).await.expect("known"), 1);
            }
        }
        cluster.kill(0);
        for name in ["gave-up", "released"] {
            let key = format!("{name}/{waits:x}").into_bytes();
            assert_eq!(settled(async || get(&b, &key).await).await, None, "{name}");
            let endpoint = cluster.endpoint(1);
            let free = scene.lock(&["-n", "--endpoint", &endpoint, name], &["true"]).status();
            assert_eq!(free.expect("run").code(), Some(0), "{name} is free");
        }
    });
}

#[test]
fn a_node_in_no_view_does_not_say_that_a_key_is_absent() {
    on_three_nodes(async |_, cluster| {
        let a = channel(cluster, 0).await;
        assert_eq!(get(&a, b"health").await.expect("known"), None);
        cluster.kill(1);
        cluster.kill(2);
        for _ in 0..600 {
            match get(&a, b"health").await {
                Ok(found) => assert_eq!(found, None),
                Err(status) => return assert_eq!(status.code(), Code::Unavailable, "{status}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("a node without a majority answers for all members");
    });
}
