//! A server of its own for each test; it ends with the test.

use std::time::Duration;

use mutua_client::{
    connect,
    proto::etcdserverpb::{LeaseGrantRequest, lease_client::LeaseClient},
};
use mutua_node::Config;
use mutua_server::{Options, serve};
use tonic::transport::Channel;

/// A server on a socket.
pub(crate) struct Server {
    pub(crate) channel: Channel,
    #[allow(dead_code, reason = "not all tests connect again")]
    pub(crate) endpoint: String,
    _directory: tempfile::TempDir,
}

impl Server {
    #[allow(dead_code, reason = "some tests complete the options")]
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    /// Starts one whose options a function completes.
    pub(crate) async fn start_with(complete: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("s");
        let mut options = Options {
            node: Config::alone(directory.path().join("data")),
            socket: socket.clone(),
            tcp: None,
            idle: None,
        };
        complete(&mut options);
        tokio::spawn(serve(options, std::future::pending()));
        let endpoint = format!("unix:{}", socket.display());
        for _ in 0..1000 {
            if let Ok(channel) = connect(&endpoint).await {
                return Self { channel, endpoint, _directory: directory };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server does not answer");
    }

    /// A lease of so many seconds.
    pub(crate) async fn lease_of(&self, ttl: i64) -> i64 {
        let mut client = LeaseClient::new(self.channel.clone());
        let response = client.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await;
        response.expect("granted").into_inner().id
    }
}
