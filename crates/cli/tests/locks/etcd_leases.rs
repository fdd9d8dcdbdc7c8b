//! Leases of etcd's clients outlive the node that granted them.

use std::time::Duration;

use mutua_client::{
    connect,
    proto::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
            LeaseTimeToLiveRequest, lease_client::LeaseClient,
        },
        v3lockpb::{LockRequest, lock_client::LockClient},
    },
};
use tonic::{Code, Status, transport::Channel};

use crate::nodes::Cluster;
use crate::scene::Scene;

pub(crate) async fn channel(cluster: &Cluster, node: usize) -> Channel {
    connect(&cluster.endpoint(node)).await.expect("connected")
}

/// The TTL that a keep-alive returns; 0 if the lease has expired.
async fn keep_alive(channel: &Channel, id: i64) -> Result<i64, Status> {
    let mut client = LeaseClient::new(channel.clone());
    let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
    let mut replies = client.lease_keep_alive(requests).await?.into_inner();
    let reply = replies.message().await?;
    Ok(reply.map_or(0, |reply| reply.ttl))
}

async fn left(channel: &Channel, id: i64) -> Result<i64, Status> {
    let request = LeaseTimeToLiveRequest { id, keys: true };
    let reply = LeaseClient::new(channel.clone()).lease_time_to_live(request).await?.into_inner();
    assert!(reply.keys.is_empty(), "the lease's own lock is not shown: {:?}", reply.keys);
    Ok(reply.ttl)
}

/// Calls until it is known which member serves the lease; that takes until the next view.
pub(crate) async fn settled<T>(call: impl AsyncFn() -> Result<T, Status>) -> T {
    for _ in 0..600 {
        match call().await {
            Ok(reply) => return reply,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no member serves the lease in time");
}

/// Runs a test on three nodes.
pub(crate) fn on_three_nodes(test: impl AsyncFnOnce(&Scene, &mut Cluster)) {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test(&scene, &mut cluster));
}

pub(crate) async fn lease(channel: &Channel, ttl: i64) -> i64 {
    let mut client = LeaseClient::new(channel.clone());
    let granted = client.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await;
    granted.expect("granted").into_inner().id
}

pub(crate) async fn revoke(channel: &Channel, id: i64) -> Result<(), Status> {
    let mut client = LeaseClient::new(channel.clone());
    client.lease_revoke(LeaseRevokeRequest { id }).await.map(drop)
}

#[test]
fn a_revoked_lease_is_known_to_be_gone_at_every_member_at_once() {
    on_three_nodes(async |_, cluster| {
        let (a, b, c) =
            (channel(cluster, 0).await, channel(cluster, 1).await, channel(cluster, 2).await);
        for _ in 0..10 {
            let id = lease(&a, 60).await;
            revoke(&b, id).await.expect("revoked");
            for member in [&a, &b, &c] {
                assert_eq!(left(member, id).await.expect("known"), -1);
            }
        }
    });
}

#[test]
fn the_leases_of_all_members_are_listed_at_each() {
    on_three_nodes(async |_, cluster| {
        let (a, b, c) =
            (channel(cluster, 0).await, channel(cluster, 1).await, channel(cluster, 2).await);
        let mut granted = vec![lease(&b, 60).await, lease(&a, 60).await, lease(&b, 60).await];
        granted.sort_unstable();
        for member in [&a, &b, &c] {
            let mut client = LeaseClient::new(member.clone());
            let listed = client.lease_leases(LeaseLeasesRequest {}).await.expect("listed");
            let listed = listed.into_inner().leases;
            assert_eq!(listed.iter().map(|lease| lease.id).collect::<Vec<_>>(), granted);
        }
    });
}

#[test]
fn the_time_left_of_a_lease_that_was_taken_over_is_at_most_its_ttl() {
    on_three_nodes(async |_, cluster| {
        let id = lease(&channel(cluster, 0).await, 400).await;
        cluster.kill(0);
        let b = channel(cluster, 1).await;
        let left = settled(async || left(&b, id).await).await;
        assert!((300..=400).contains(&left), "{left} s");
    });
}

#[test]
fn a_lease_without_a_lock_is_kept_alive_at_another_member_when_its_node_is_killed() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let a = channel(&cluster, 0).await;
        let granted = LeaseClient::new(a).lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await;
        let id = granted.expect("granted").into_inner().id;
        cluster.kill(0);
        let (b, c) = (channel(&cluster, 1).await, channel(&cluster, 2).await);
        assert_eq!(settled(async || keep_alive(&b, id).await).await, 60, "it has not expired");
        assert_eq!(settled(async || keep_alive(&c, id).await).await, 60);
        assert!(settled(async || left(&b, id).await).await > 50);
        // It can hold a lock, at any member.
        let lock = || LockRequest { name: b"x".to_vec(), lease: id };
        let locked =
            settled(async || LockClient::new(c.clone()).lock(lock()).await.map(drop)).await;
        assert_eq!(locked, ());
        let listed = scene.command(&["ls", "--endpoint", &cluster.endpoint(2)]).output();
        let listed = String::from_utf8(listed.expect("run").stdout).expect("text");
        assert_eq!(listed.lines().count(), 2, "a header and one lock: {listed}");
        revoke(&b, id).await.expect("revoked");
        assert_eq!(settled(async || keep_alive(&c, id).await).await, 0);
    });
    let endpoint = cluster.endpoint(1);
    let free = scene.lock(&["-w", "20", "--endpoint", &endpoint, "x"], &["true"]).output();
    assert_eq!(free.expect("run").status.code(), Some(0));
}
