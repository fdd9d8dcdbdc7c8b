//! Nodes that speak mutual TLS: members connect, and nobody else does.

mod cluster;

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use cluster::{config, members};
use mutua_node::{Certificate, Config, ConfigProblem, Node, StartError, TlsFiles};
use mutua_tls::issue::{Authority, Holder, new_authority};
use tokio::time::{sleep, timeout};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Long enough for a connection, short enough to wait for one that must not come.
const MOMENT: Duration = Duration::from_millis(700);

/// A CA that writes certificates into a directory.
struct Ca {
    directory: PathBuf,
    authority: Authority,
}

impl Ca {
    fn new(directory: &Path) -> Self {
        let made = new_authority("test CA", YEAR).expect("a CA");
        fs::create_dir_all(directory).expect("a directory");
        let path = directory.join("ca.crt");
        fs::write(&path, &made.certificate).expect("written");
        let about = Certificate::read(&path).expect("a certificate");
        let authority = Authority::open(&made.certificate, &made.key, about).expect("the CA");
        Self { directory: directory.to_owned(), authority }
    }

    /// A certificate for this node, in these files.
    fn files(&self, name: &str) -> TlsFiles {
        let path = |file: String| self.directory.join(file);
        let node = Holder::Node { hosts: &[] };
        let made = self.authority.issue(name, node, YEAR).expect("a certificate");
        let (certificate, key) = (path(format!("{name}.crt")), path(format!("{name}.key")));
        fs::write(&certificate, made.certificate).expect("written");
        fs::write(&key, made.key).expect("written");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("private");
        TlsFiles { ca: path("ca.crt".to_owned()), certificate, key, revoked: None }
    }
}

fn with(mut config: Config, files: TlsFiles) -> Config {
    config.tls = Some(files);
    config
}

#[tokio::test]
async fn members_with_certificates_hand_a_lock_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let ca = Ca::new(&directory.path().join("tls"));
    let members = members(3);
    let mut nodes = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let config = with(config(&directory, &members, index, &[]), ca.files(&member.name));
        nodes.push(Node::start(config).await.expect("a node"));
    }
    let mut last = None;
    for node in nodes.iter().cycle().take(9) {
        node.ready().await;
        let guard = node.lock("held in turn").acquire().await.expect("a guard");
        let token = Some(guard.fencing_token().0);
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
}

#[tokio::test]
async fn a_member_with_the_certificate_of_another_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let ca = Ca::new(&directory.path().join("tls"));
    let members = members(3);
    let start = |config: Config, name: &str| Node::start(with(config, ca.files(name)));
    let wrong = start(config(&directory, &members, 1, &[]), "n2").await.err();
    let Some(StartError::Config(error)) = wrong else { panic!("{wrong:?}") };
    assert!(matches!(error.problem, ConfigProblem::Certificates { key: "cert", .. }), "{error}");
    // The lists differ in their order, so that n2 says that it is the second member.
    let first = start(config(&directory, &members, 0, &[]), "n0").await.expect("a node");
    let mut reordered = members.clone();
    reordered.swap(1, 2);
    let second = start(config(&directory, &reordered, 1, &[]), "n2").await.expect("a node");
    sleep(MOMENT).await;
    assert!(first.status().members.iter().all(|member| member.name == "n0" || !member.up));
    second.stop().await;
    let second = start(config(&directory, &members, 1, &[]), "n1").await.expect("a node");
    let third = start(config(&directory, &members, 2, &[]), "n2").await.expect("a node");
    for node in [&first, &second, &third] {
        node.ready().await;
    }
}

#[tokio::test]
async fn strangers_and_plain_tcp_get_nowhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Ca::new(&directory.path().join("tls"));
    let theirs = Ca::new(&directory.path().join("other"));
    let members = members(2);
    let first = with(config(&directory, &members, 0, &[]), ours.files("n0"));
    let first = Node::start(first).await.expect("a node");
    // Bytes that are not TLS, and a connection that sends nothing.
    let mut noise = std::net::TcpStream::connect(&members[0].address).expect("connected");
    noise.write_all(&[0xff; 4096]).expect("sent");
    let _silent = std::net::TcpStream::connect(&members[0].address).expect("connected");
    for tls in [Some(theirs.files("n1")), None] {
        let mut config = config(&directory, &members, 1, &[]);
        config.tls = tls;
        let stranger = Node::start(config).await.expect("a node");
        assert!(timeout(MOMENT, stranger.ready()).await.is_err());
        assert!(!first.status().members[1].up && !stranger.status().members[0].up);
        stranger.stop().await;
    }
    let second = with(config(&directory, &members, 1, &[]), ours.files("n1"));
    let second = Node::start(second).await.expect("a node");
    second.ready().await;
    first.ready().await;
}

#[tokio::test]
async fn new_certificates_are_taken_up_without_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tls");
    let old = Ca::new(&path);
    let members = members(2);
    let first = with(config(&directory, &members, 0, &[]), old.files("n0"));
    let first = Node::start(first).await.expect("a node");
    // Another CA in the same files: a member of it is a stranger until the files are read again.
    let new = Ca::new(&path);
    new.files("n0");
    let second = with(config(&directory, &members, 1, &[]), new.files("n1"));
    let second = Node::start(second).await.expect("a node");
    timeout(Duration::from_secs(20), async { tokio::join!(first.ready(), second.ready()) })
        .await
        .expect("they meet once the new certificates are in use");
}

#[tokio::test]
async fn with_certificates_a_node_may_listen_off_loopback() {
    let directory = tempfile::tempdir().expect("a directory");
    let ca = Ca::new(&directory.path().join("tls"));
    let mut members = members(2);
    members[0].address = "0.0.0.0:0".to_owned();
    let config = with(config(&directory, &members, 0, &[]), ca.files("n0"));
    Node::start(config).await.expect("a node");
}
