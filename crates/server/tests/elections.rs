//! Elections of the client library and of etcd's service, with the same names.

#[path = "support/server.rs"]
mod server;

use mutua_client::proto::{
    etcdserverpb::{DeleteRangeRequest, kv_client::KvClient},
    v3electionpb::{
        CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
        election_client::ElectionClient,
    },
};
use mutua_client::{AcquireError, Client, Leader, blocking};
use server::Server;
use tonic::{Code, transport::Channel};

fn etcd(server: &Server) -> ElectionClient<Channel> {
    ElectionClient::new(server.channel.clone())
}

/// The value of the leader of `e`, as etcd's service shows it.
async fn leader_at_etcd(server: &Server) -> String {
    let leader = etcd(server).leader(LeaderRequest { name: b"e".to_vec() }).await;
    let kv = leader.expect("a leader").into_inner().kv.expect("a key");
    String::from_utf8(kv.value).expect("text")
}

async fn campaign(server: &Server, value: &str) -> LeaderKey {
    let (name, lease) = (b"e".to_vec(), server.lease_of(60).await);
    let campaign = CampaignRequest { name, lease, value: value.into() };
    let elected = etcd(server).campaign(campaign).await;
    elected.expect("elected").into_inner().leader.expect("a key")
}

fn value(leader: Option<&Leader>) -> &str {
    leader.map_or("none", |leader| str::from_utf8(&leader.value).expect("text"))
}

#[tokio::test]
async fn candidates_of_both_services_lead_one_after_the_other() {
    let server = Server::start().await;
    let client = Client::connect(&server.endpoint).await.expect("connected");
    let (election, other) = (client.election("e"), client.clone());
    let mut observer = other.election("e").observe();
    assert_eq!(value(observer.next_leader().await.expect("answered").as_ref()), "none");
    let first = election.campaign("rust").await.expect("elected");
    assert_eq!(leader_at_etcd(&server).await, "rust");
    let seen = observer.next_leader().await.expect("answered").expect("a leader");
    assert_eq!((value(Some(&seen)), seen.fencing_token), ("rust", first.fencing_token()));
    first.proclaim("changed").await.expect("it leads");
    assert_eq!(leader_at_etcd(&server).await, "changed");
    assert_eq!(value(observer.next_leader().await.expect("answered").as_ref()), "changed");
    let busy = election.try_campaign("second").await.expect_err("there is a leader");
    assert!(matches!(busy, AcquireError::Busy { .. }), "{busy}");
    let waits = campaign(&server, "etcd");
    let next = async {
        first.resign().await.expect("it led until then");
    };
    let (leader, ()) = tokio::join!(waits, next);
    assert!(leader.rev.unsigned_abs() > seen.fencing_token, "the terms' fencing tokens grow");
    let seen = election.leader().await.expect("answered").expect("a leader");
    assert_eq!((value(Some(&seen)), seen.fencing_token), ("etcd", leader.rev.unsigned_abs()));
    let proclaim = ProclaimRequest { leader: Some(leader.clone()), value: b"again".to_vec() };
    etcd(&server).proclaim(proclaim).await.expect("it leads");
    assert_eq!(value(election.leader().await.expect("answered").as_ref()), "again");
    etcd(&server).resign(ResignRequest { leader: Some(leader.clone()) }).await.expect("resigned");
    let last = election.campaign("last").await.expect("elected");
    assert!(last.fencing_token() > leader.rev.unsigned_abs());
    drop(last);
    drop(client.lock("e").acquire().await.expect("an election is a lock"));
}

#[tokio::test]
async fn the_leadership_of_a_session_ends_by_that_session_only() {
    let server = Server::start().await;
    let client = Client::connect(&server.endpoint).await.expect("connected");
    let leadership = client.election("e").campaign("rust").await.expect("elected");
    let leader = etcd(&server).leader(LeaderRequest { name: b"e".to_vec() }).await;
    let kv = leader.expect("a leader").into_inner().kv.expect("a key");
    assert_eq!(kv.create_revision.unsigned_abs(), leadership.fencing_token());
    let stolen = LeaderKey {
        name: b"e".to_vec(),
        key: kv.key.clone(),
        rev: kv.create_revision,
        lease: kv.lease,
    };
    let resign = ResignRequest { leader: Some(stolen.clone()) };
    let refused = etcd(&server).resign(resign).await.expect_err("another's");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let proclaim = ProclaimRequest { leader: Some(stolen), value: b"stolen".to_vec() };
    let refused = etcd(&server).proclaim(proclaim).await.expect_err("another's");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let delete = DeleteRangeRequest { key: kv.key, ..DeleteRangeRequest::default() };
    let refused = KvClient::new(server.channel.clone()).delete_range(delete).await;
    assert_eq!(refused.expect_err("another's").code(), Code::PermissionDenied);
    assert_eq!(leader_at_etcd(&server).await, "rust");
    leadership.resign().await.expect("it led until then");
}

#[tokio::test]
async fn a_candidate_that_gives_up_leaves_no_value() {
    let server = Server::start().await;
    let client = Client::connect(&server.endpoint).await.expect("connected");
    let other = Client::connect(&server.endpoint).await.expect("connected");
    let held = client.lock("e").acquire().await.expect("acquired");
    let limit = std::time::Duration::from_millis(20);
    let late = other.election("e").campaign_within("late", limit).await;
    assert!(matches!(late, Err(AcquireError::TimedOut { .. })), "{late:?}");
    let leader = client.election("e").leader().await.expect("answered").expect("a holder");
    assert_eq!((value(Some(&leader)), leader.fencing_token), ("", held.fencing_token()));
    drop(held);
    // The same session as before, without a value.
    let guard = other.lock("e").acquire().await.expect("acquired");
    let leader = client.election("e").leader().await.expect("answered").expect("a holder");
    assert_eq!((value(Some(&leader)), leader.fencing_token), ("", guard.fencing_token()));
}

#[test]
fn threads_campaign_and_observe() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(Server::start());
    let client = blocking::Client::connect(&server.endpoint).expect("connected");
    let election = client.election("e");
    let mut observer = election.observe();
    assert_eq!(value(observer.next_leader().expect("answered").as_ref()), "none");
    let leadership = election.campaign("thread").expect("elected");
    assert!(leadership.is_good());
    assert_eq!(value(observer.next_leader().expect("answered").as_ref()), "thread");
    leadership.proclaim("changed").expect("it leads");
    assert_eq!(value(observer.next_leader().expect("answered").as_ref()), "changed");
    leadership.resign().expect("it led until then");
    assert_eq!(value(observer.next_leader().expect("answered").as_ref()), "none");
    assert_eq!(election.leader().expect("answered"), None);
}
