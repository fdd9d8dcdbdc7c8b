//! etcd's services as its clients see them, over a socket.

#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use mutua_client::proto::{
    etcdserverpb::{
        LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
        lease_client::LeaseClient,
    },
    v1::{self, locks_client::LocksClient},
    v3lockpb::{LockRequest, LockResponse, UnlockRequest, lock_client::LockClient},
};
use server::Server;
use tonic::{Code, Status};

impl Server {
    async fn lock(&self, name: &str, lease: i64) -> Result<LockResponse, Status> {
        let mut client = LockClient::new(self.channel.clone());
        let request = LockRequest { name: name.as_bytes().to_vec(), lease };
        client.lock(request).await.map(tonic::Response::into_inner)
    }

    async fn unlock(&self, key: &[u8]) -> Result<(), Status> {
        let mut client = LockClient::new(self.channel.clone());
        client.unlock(UnlockRequest { key: key.to_vec() }).await.map(drop)
    }

    async fn waiting(&self, name: &str) -> usize {
        let mut client = LocksClient::new(self.channel.clone());
        let request = v1::ListRequest { prefix: name.into(), exact: true, after: None };
        let locks = client.list(request).await.expect("listed").into_inner().locks;
        locks.first().map_or(0, |lock| lock.waiting.len())
    }

    async fn until_waiting(&self, name: &str, count: usize) {
        for _ in 0..2000 {
            if self.waiting(name).await == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not {count} waiters in time");
    }
}

fn fencing_token(response: &LockResponse) -> i64 {
    response.header.as_ref().expect("a header").revision
}

#[tokio::test]
async fn keys_have_etcds_form_and_the_revision_is_a_growing_fencing_token() {
    let server = Server::start().await;
    let mut last = 0;
    for _ in 0..3 {
        let lease = server.lease_of(10).await;
        let locked = server.lock("p", lease).await.expect("locked");
        assert_eq!(locked.key, format!("p/{lease:x}").into_bytes());
        assert!(fencing_token(&locked) > last, "fencing tokens grow");
        last = fencing_token(&locked);
        let again = server.lock("p", lease).await.expect("locked already");
        assert_eq!((again.key.clone(), fencing_token(&again)), (locked.key, last));
        server.unlock(&again.key).await.expect("unlocked");
        server.unlock(&again.key).await.expect("unlocked already");
    }
}

#[tokio::test]
async fn waiters_are_granted_in_order_and_names_do_not_interfere() {
    let server = std::sync::Arc::new(Server::start().await);
    let first = server.lock("p", server.lease_of(60).await).await.expect("locked");
    server.lock("p/q", server.lease_of(60).await).await.expect("another name");
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..5 {
        let (own, done) = (std::sync::Arc::clone(&server), done.clone());
        let lease = server.lease_of(60).await;
        tokio::spawn(async move {
            let locked = own.lock("p", lease).await.expect("locked");
            done.send(number).expect("sent");
            own.unlock(&locked.key).await.expect("unlocked");
        });
        server.until_waiting("p", number + 1).await;
    }
    server.unlock(&first.key).await.expect("unlocked");
    for number in 0..5 {
        assert_eq!(order.recv().await, Some(number));
    }
}

#[tokio::test]
async fn a_revoked_or_expired_lease_releases_its_locks_and_fails_its_waits_at_once() {
    let server = std::sync::Arc::new(Server::start().await);
    let (one, two, three) =
        (server.lease_of(60).await, server.lease_of(60).await, server.lease_of(2).await);
    server.lock("p", one).await.expect("locked");
    let own = std::sync::Arc::clone(&server);
    let waits = tokio::spawn(async move { own.lock("p", two).await });
    server.until_waiting("p", 1).await;
    let own = std::sync::Arc::clone(&server);
    let expires = tokio::spawn(async move { own.lock("p", three).await });
    let refused = expires.await.expect("ended").expect_err("its lease has expired");
    assert_eq!((refused.code(), refused.message()), (Code::Unknown, "mutex: session is expired"));
    let mut lease = LeaseClient::new(server.channel.clone());
    lease.lease_revoke(LeaseRevokeRequest { id: one }).await.expect("revoked");
    waits.await.expect("ended").expect("locked after the first lease");
    let missing = lease.lease_revoke(LeaseRevokeRequest { id: one }).await.expect_err("revoked");
    assert_eq!(missing.code(), Code::NotFound);
}

#[tokio::test]
async fn leases_behave_as_etcds() {
    let server = Server::start().await;
    let mut client = LeaseClient::new(server.channel.clone());
    let grant = |ttl, id| LeaseGrantRequest { ttl, id };
    let short = client.lease_grant(grant(-5, 0x1234)).await.expect("granted").into_inner();
    assert_eq!((short.id, short.ttl), (0x1234, 2));
    let twice = client.lease_grant(grant(9, 0x1234)).await.expect_err("it exists");
    assert_eq!(twice.code(), Code::FailedPrecondition);
    assert_eq!(twice.message(), "etcdserver: lease already exists");
    let long = client.lease_grant(grant(9_000_000_001, 0)).await.expect_err("too long");
    assert_eq!(
        (long.code(), long.message()),
        (Code::OutOfRange, "etcdserver: too large lease TTL")
    );
    let request = |id| LeaseTimeToLiveRequest { id, keys: true };
    let missing = client.lease_time_to_live(request(77)).await.expect("answered").into_inner();
    assert_eq!((missing.ttl, missing.granted_ttl), (-1, 0));
    let lease = server.lease_of(60).await;
    server.lock("p", lease).await.expect("locked");
    let known = client.lease_time_to_live(request(lease)).await.expect("answered").into_inner();
    assert_eq!((known.granted_ttl, known.keys), (60, vec![format!("p/{lease:x}").into_bytes()]));
    let requests = [lease, 77, lease].map(|id| LeaseKeepAliveRequest { id });
    let replies = client.lease_keep_alive(tokio_stream::iter(requests)).await.expect("a stream");
    let mut replies = replies.into_inner();
    for ttl in [60, 0, 60] {
        assert_eq!(replies.message().await.expect("read").expect("a reply").ttl, ttl);
    }
}

#[tokio::test]
async fn only_a_key_that_lock_returned_can_be_unlocked() {
    let server = Server::start().await;
    let locked = server.lock("p", server.lease_of(60).await).await.expect("locked");
    let empty = server.unlock(b"").await.expect_err("no key");
    assert_eq!(empty.message(), "etcdserver: key is not provided");
    server.unlock(b"any key").await.expect_err("an invalid key");
    server.unlock(b"p/7").await.expect("another lease's key changes nothing");
    let mut own = LocksClient::new(server.channel.clone());
    let fencing_token = fencing_token(&locked).unsigned_abs();
    let verify = v1::VerifyRequest { name: b"p".to_vec(), fencing_token };
    assert!(own.verify(verify).await.expect("answered").into_inner().current);
}

#[tokio::test]
async fn a_cancelled_call_leaves_the_queue_and_an_unknown_lease_is_refused() {
    let server = Server::start().await;
    let locked = server.lock("p", server.lease_of(60).await).await.expect("locked");
    let lease = server.lease_of(60).await;
    let cancelled = tokio::time::timeout(Duration::from_millis(100), server.lock("p", lease)).await;
    assert!(cancelled.is_err());
    server.until_waiting("p", 0).await;
    server.unlock(&locked.key).await.expect("unlocked");
    let unknown = server.lock("p", 77).await.expect_err("no such lease");
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().starts_with("etcdserver: requested lease not found"));
}

#[tokio::test]
async fn a_thousand_waiting_calls_do_not_block_their_connection() {
    let server = std::sync::Arc::new(Server::start().await);
    let first = server.lock("p", server.lease_of(600).await).await.expect("locked");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let own = std::sync::Arc::clone(&server);
        calls.spawn(async move {
            let lease = own.lease_of(600).await;
            let locked = own.lock("p", lease).await.expect("locked");
            own.unlock(&locked.key).await.expect("unlocked");
        });
    }
    server.until_waiting("p", 1000).await;
    server.unlock(&first.key).await.expect("unlocked");
    while let Some(ended) = calls.join_next().await {
        ended.expect("served");
    }
}

#[tokio::test]
async fn acquire_tries_and_waits_with_a_limit() {
    let server = Server::start().await;
    let (one, two) = (server.lease_of(60).await, server.lease_of(60).await);
    let mut own = LocksClient::new(server.channel.clone());
    let request = |lease, wait_ms| v1::AcquireRequest { name: b"p".to_vec(), lease, wait_ms };
    let first = own.acquire(request(one, Some(0))).await.expect("answered").into_inner();
    assert!(first.acquired);
    for wait in [0, 50] {
        let busy = own.acquire(request(two, Some(wait))).await.expect("answered").into_inner();
        assert!(!busy.acquired);
        assert_eq!(busy.holder.map(|holder| holder.fencing_token), Some(first.fencing_token));
    }
    let release = v1::ReleaseRequest { name: b"p".to_vec(), fencing_token: first.fencing_token };
    assert!(own.release(release.clone()).await.expect("answered").into_inner().held);
    assert!(!own.release(release).await.expect("answered").into_inner().held);
    let second = own.acquire(request(two, None)).await.expect("answered").into_inner();
    assert!(second.acquired && second.fencing_token > first.fencing_token);
}
