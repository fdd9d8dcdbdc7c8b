//! Connections that send nothing, too little or impossible lengths, on the ports of clients and of
//! members: a node's memory stays small, and locks are granted meanwhile. The times of grants are
//! printed (`--nocapture`), not asserted. `MUTUA_CONNECTIONS=10000` makes more of them.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use mutua_client::{
    connect,
    proto::{
        etcdserverpb::{LeaseGrantRequest, lease_client::LeaseClient},
        v1::{self, control_client::ControlClient, locks_client::LocksClient},
    },
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tonic::transport::Channel;

/// The connections of one kind, unless the environment says otherwise: more than a node keeps.
const CONNECTIONS: usize = 2_500;
/// The most memory that a node may have, in MiB.
const MEMORY: u64 = 64;
/// The grants whose times are measured.
const GRANTS: usize = 200;

/// Three members on loopback; clients reach the first by TCP too.
struct Nodes {
    directory: tempfile::TempDir,
    children: Vec<Child>,
    member_port: SocketAddr,
    client_port: SocketAddr,
}

impl Nodes {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = mutua_host::free_addresses(4).expect("free ports");
        let members: String = ["a", "b", "c"]
            .iter()
            .zip(&ports)
            .map(|(name, port)| format!("[[members]]\nname = \"{name}\"\naddress = \"{port}\"\n"))
            .collect();
        let mut children = Vec::new();
        for name in ["a", "b", "c"] {
            let file = directory.path().join(format!("{name}.toml"));
            let text =
                format!("cluster = \"flood\"\nnode = \"{name}\"\ndata = \"{name}\"\n{members}");
            fs::write(&file, text).expect("written");
            let mut node = Command::new(env!("CARGO_BIN_EXE_mutua"));
            node.args(["node", "--quiet", "--config"]).arg(&file);
            if name == "a" {
                node.args(["--listen", &ports[3].to_string()]);
            }
            node.stdout(Stdio::null()).stderr(Stdio::null());
            children.push(node.spawn().expect("run"));
        }
        Self { directory, children, member_port: ports[0], client_port: ports[3] }
    }

    async fn channel(&self) -> Channel {
        let endpoint = format!("unix:{}", self.directory.path().join("a/locks.sock").display());
        let begun = Instant::now();
        loop {
            if let Ok(channel) = connect(&endpoint).await {
                let status =
                    ControlClient::new(channel.clone()).status(v1::StatusRequest::default()).await;
                if status.is_ok_and(|status| status.into_inner().suspended.is_none()) {
                    return channel;
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "the cluster grants no locks");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The memory of the first node, in MiB, without the pages of its program, which in a debug
    /// build are many.
    fn memory(&self) -> u64 {
        let path = Path::new("/proc").join(self.children[0].id().to_string()).join("status");
        let status = fs::read_to_string(path).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a figure");
        let kib = line.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
        kib.expect("a number") / 1024
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The median time to acquire and release a lock.
async fn grants(channel: &Channel, lease: i64) -> Duration {
    let mut client = LocksClient::new(channel.clone());
    let mut times = Vec::new();
    for _ in 0..GRANTS {
        let begun = Instant::now();
        let acquire = v1::AcquireRequest { name: b"x".to_vec(), lease, wait_ms: Some(10_000) };
        let acquired = client.acquire(acquire).await.expect("an answer").into_inner();
        assert!(acquired.acquired, "{acquired:?}");
        let fencing_token = acquired.fencing_token;
        let release = v1::ReleaseRequest { name: b"x".to_vec(), fencing_token };
        assert!(client.release(release).await.expect("an answer").into_inner().held);
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[GRANTS / 2]
}

async fn flood(count: usize, to: SocketAddr, first: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(to).await.expect("connected");
        // It may be closed already, which is what this test is about.
        let _ = stream.write_all(first).await;
        open.push(stream);
    }
    open
}

#[tokio::test]
async fn silent_slow_and_lying_connections_cost_little() {
    let count = std::env::var("MUTUA_CONNECTIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(CONNECTIONS);
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let enough = maximum.is_none_or(|maximum| maximum > count as u64 + 1000);
    if !enough || setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        eprintln!("skipped: this needs {} open files, and may have {maximum:?}", count + 1000);
        return;
    }
    let nodes = Nodes::start();
    let channel = nodes.channel().await;
    let lease = LeaseGrantRequest { ttl: 600, id: 0 };
    let lease = LeaseClient::new(channel.clone()).lease_grant(lease).await.expect("a lease");
    let lease = lease.into_inner().id;
    let before = grants(&channel, lease).await;
    println!("before: {before:?} a grant, {} MiB", nodes.memory());
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // A frame of HTTP/2 of 16 MiB, and a control greeting and a hello of their greatest lengths.
    let frame = [preface, &[0xff; 9]].concat();
    let control = [&b"MTUC\x01\xff\xff"[..], &[0; 100]].concat();
    let kinds: [(&str, SocketAddr, &[u8]); 7] = [
        ("silent clients", nodes.client_port, b""),
        ("slow clients", nodes.client_port, &preface[..10]),
        ("clients that stop after the preface", nodes.client_port, preface),
        ("clients with an impossible frame", nodes.client_port, &frame),
        ("silent members", nodes.member_port, b""),
        ("members with a long greeting", nodes.member_port, &control),
        ("members with a length of 1 GiB", nodes.member_port, b"\x00\x00\x00\x40\x00\x00\x00\x40"),
    ];
    for (what, port, first) in kinds {
        let open = flood(count, port, first).await;
        let during = grants(&channel, lease).await;
        let memory = nodes.memory();
        println!("{what}: {during:?} a grant, {memory} MiB");
        assert!(memory < MEMORY, "{what}: {memory} MiB");
        drop(open);
    }
}
