//! The cost of a lock beyond its two calls:
//!
//!     cargo bench -p mutua-server
//!
//! One client acquires and releases a lock through etcd's service, and makes as many calls that do
//! nothing, in turns, so that both run under the same conditions. Prints medians and their ratio.

use std::time::{Duration, Instant};

use mutua_client::{
    connect,
    proto::{
        etcdserverpb::{LeaseGrantRequest, lease_client::LeaseClient},
        v1::{AboutRequest, locks_client::LocksClient},
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};
use mutua_node::Config;
use mutua_server::{Options, serve};
use tonic::transport::Channel;

const ROUNDS: usize = 5000;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("s");
    let node = Config::alone(directory.path().join("data"));
    let options = Options { node, socket: socket.clone(), tcp: None, idle: None };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(serve(options, std::future::pending()))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let endpoint = format!("unix:{}", socket.display());
        let channel = loop {
            if let Ok(channel) = connect(&endpoint).await {
                break channel;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        compare(channel).await;
    });
}

async fn compare(channel: Channel) {
    let mut leases = LeaseClient::new(channel.clone());
    let granted = leases.lease_grant(LeaseGrantRequest { ttl: 600, id: 0 }).await;
    let lease = granted.expect("a lease").into_inner().id;
    let mut own = LocksClient::new(channel.clone());
    let mut locks = LockClient::new(channel);
    let (mut bare, mut locked) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        own.about(AboutRequest {}).await.expect("answered");
        own.about(AboutRequest {}).await.expect("answered");
        bare.push(begun.elapsed());
        let begun = Instant::now();
        let request = LockRequest { name: b"bench".to_vec(), lease };
        let key = locks.lock(request).await.expect("locked").into_inner().key;
        locks.unlock(UnlockRequest { key }).await.expect("unlocked");
        locked.push(begun.elapsed());
    }
    let (bare, locked) = (median(bare), median(locked));
    let ratio = locked.as_secs_f64() / bare.as_secs_f64();
    println!(
        "two bare calls {bare:?}, lock and unlock {locked:?}: {ratio:.2}x (at most 1.5 wanted)"
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
