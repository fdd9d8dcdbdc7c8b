//! Certificates and mutual TLS with real processes, as an operator would use them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

fn mutua(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["MUTUA_CA", "MUTUA_CERT", "MUTUA_KEY", "MUTUA_SOCKET", "MUTUA_CONFIG"] {
        command.env_remove(variable);
    }
    command
}

fn finish(command: &mut Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().expect("run");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap_or(-1), text)
}

/// Certificates in a directory.
struct Certificates(PathBuf);

impl Certificates {
    fn new(directory: &Path) -> Self {
        let made = Self(directory.to_owned());
        assert_eq!(made.cert(&["init"]).0, 0);
        made
    }

    fn cert(&self, arguments: &[&str]) -> (i32, String) {
        let directory = self.0.to_str().expect("text");
        finish(&mut mutua(&[&["cert", "--directory", directory], arguments].concat()))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (code, text) = self.cert(arguments);
        assert_eq!(code, 0, "{text}");
        text
    }

    fn mode(&self, file: &str) -> u32 {
        fs::metadata(self.0.join(file)).expect("a file").mode() & 0o777
    }

    /// A command of the client of this name.
    fn client(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = mutua(arguments);
        command
            .env("MUTUA_CA", self.0.join("ca.crt"))
            .env("MUTUA_CERT", self.0.join(format!("{name}.crt")))
            .env("MUTUA_KEY", self.0.join(format!("{name}.key")));
        command
    }
}

#[test]
fn certificates_are_made_shown_renewed_and_revoked() {
    let directory = tempfile::tempdir().expect("a directory");
    let tls = Certificates::new(&directory.path().join("tls"));
    tls.done(&["node", "a", "--host", "10.0.0.1", "--host", "a.example.org"]);
    tls.done(&["client", "backup", "--days", "10"]);
    assert_eq!([tls.mode("ca.key"), tls.mode("a.key"), tls.mode("a.crt")], [0o600, 0o600, 0o644]);
    let shown = tls.done(&["show", "a"]);
    assert!(shown.starts_with("node a: ") && shown.contains("364 days left"), "{shown}");
    assert!(shown.contains("hosts 10.0.0.1, a.example.org, a, localhost"), "{shown}");
    let json = tls.done(&["show", "--json"]);
    let roles = ["\"role\":\"ca\"", "\"role\":\"node\"", "\"role\":\"client\""];
    for (line, role) in json.lines().zip(roles) {
        assert!(line.contains(role), "{line}");
    }
    assert_eq!(json.lines().count(), 3, "{json}");
    assert_eq!(tls.cert(&["show", "--within", "11"]).0, 1, "the client's expires in 10 days");
    assert_eq!(tls.cert(&["show", "--within", "9"]).0, 0);
    // Only what expires soon is renewed, with the same name, hosts and use.
    let renewed = tls.done(&["renew"]);
    assert!(renewed.contains("client backup") && !renewed.contains("node a"), "{renewed}");
    assert!(tls.done(&["renew"]).contains("no certificate expires"));
    let before = tls.done(&["show", "a"]);
    tls.done(&["renew", "a", "--days", "30"]);
    let after = tls.done(&["show", "a"]);
    assert!(after.contains("29 days left") && after.contains("a.example.org"), "{after}");
    let serial = |text: &str| text.split("serial ").nth(1).map(str::to_owned);
    assert_ne!(serial(&before), serial(&after));
    tls.done(&["revoke", "backup"]);
    assert!(tls.done(&["revoke", "a"]).contains("revoked in all: 2"));
    assert!(tls.done(&["show", "backup"]).contains("REVOKED"));
}

#[test]
fn what_cannot_be_done_with_certificates_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let tls = Certificates(directory.path().join("tls"));
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let (found, text) = tls.cert(arguments);
        assert!(found == code && text.contains(why), "{arguments:?}: {found} {text}");
    };
    refused(&["node", "a"], 78, "make one with `mutua cert init`");
    tls.done(&["init"]);
    refused(&["init"], 64, "exists");
    tls.done(&["node", "a"]);
    refused(&["node", "a"], 64, "mutua cert renew a");
    refused(&["node", "../a"], 64, "invalid name");
    refused(&["client", "ca"], 64, "invalid name");
    refused(&["node", "b", "--host", "a:1"], 64, "without a port");
    refused(&["node", "b", "--days", "0"], 64, "--days");
    refused(&["renew", "aa"], 64, "aa");
    refused(&["show", "/dev/null"], 78, "no valid PEM section");
    refused(&["init", "--directory", "/proc/none"], 73, "cannot create");
}

/// Nodes that are ended with the test.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// Two nodes with certificates, and the ports at which the first one serves clients and accepts the
/// other.
fn start(directory: &Path, tls: &Certificates) -> (Nodes, u16, u16) {
    let free = mutua_host::free_addresses(3).expect("free ports");
    let [one, other, clients] = [0, 1, 2].map(|index: usize| free[index].port());
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        tls.done(&["node", name]);
        let file = directory.join(format!("{name}.toml"));
        let text = format!(
            "cluster = \"test\"\nnode = \"{name}\"\ndata = \"{name}\"\n[tls]\nca = \"tls/ca.crt\"\n\
             cert = \"tls/{name}.crt\"\nkey = \"tls/{name}.key\"\n[[members]]\nname = \"a\"\n\
             address = \"127.0.0.1:{one}\"\n[[members]]\nname = \"b\"\naddress = \
             \"127.0.0.1:{other}\"\n"
        );
        fs::write(&file, text).expect("written");
        let mut node = mutua(&["node", "--config"]);
        node.arg(&file);
        if name == "a" {
            node.args(["--listen", &format!("127.0.0.1:{clients}")]);
        }
        let log = fs::File::create(file.with_extension("log")).expect("a log");
        nodes.push(node.stderr(log).spawn().expect("run"));
    }
    (Nodes(nodes), clients, one)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_client_with_a_certificate_locks_over_tls_and_others_get_nowhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let tls = Certificates::new(&directory.path().join("tls"));
    let (_nodes, port, peers) = start(directory.path(), &tls);
    tls.done(&["client", "backup"]);
    let at = format!("https://localhost:{port}");
    wait_for("the nodes to grant", || {
        finish(&mut tls.client("backup", &["status", "--endpoint", &at])).0 == 0
    });
    let lock = ["lock", "--endpoint", &at, "x", "--", "sh", "-c", "echo token $LOCK_TOKEN"];
    let (code, text) = finish(&mut tls.client("backup", &lock));
    assert!(code == 0 && text.starts_with("token "), "{code} {text}");

    let (code, text) = finish(&mut mutua(&lock));
    assert!(code == 64 && text.contains("MUTUA_CA is not set"), "{code} {text}");
    let other = Certificates::new(&directory.path().join("other"));
    other.done(&["client", "backup"]);
    let (code, text) = finish(&mut other.client("backup", &lock));
    assert!(code == 69 && text.contains("not signed by this cluster's CA"), "{code} {text}");
    // A client that does not check the server's certificate is refused by the server.
    let mut stranger = other.client("backup", &lock);
    let (code, text) = finish(stranger.env("MUTUA_CA", tls.0.join("ca.crt")));
    assert_eq!(code, 69, "{text}");
    let plain = format!("http://localhost:{port}");
    let (code, text) = finish(&mut mutua(&["status", "--endpoint", &plain]));
    assert_eq!(code, 69, "{text}");
    let nodes_own = format!("https://localhost:{peers}");
    let mut status = tls.client("backup", &["status", "--endpoint", &nodes_own]);
    let (code, text) = finish(&mut status);
    // What the client has sent by then may reset the connection before it reads the alert.
    assert!(code == 69 && text.contains("the nodes' own port"), "{code} {text}");
    let log = fs::read_to_string(directory.path().join("a.log")).expect("a log");
    assert!(log.contains("not signed by this cluster's CA"), "{log}");
    assert!(log.contains("it does not speak TLS"), "{log}");
}

#[test]
fn a_node_with_a_certificate_that_cannot_be_used_does_not_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let tls = Certificates::new(&directory.path().join("tls"));
    tls.done(&["node", "b"]);
    let file = directory.path().join("a.toml");
    let text = "cluster = \"test\"\nnode = \"a\"\n[tls]\nca = \"tls/ca.crt\"\ncert = \
                \"tls/b.crt\"\nkey = \"tls/b.key\"\n[[members]]\nname = \"a\"\naddress = \
                \"127.0.0.1:1\"\n";
    fs::write(&file, text).expect("written");
    let (code, text) = finish(mutua(&["node", "--config"]).arg(&file));
    assert!(code == 78 && text.contains("is for `b`, but this node is `a`"), "{code} {text}");
    assert!(text.contains("a.toml:5: `cert` in [tls]: "), "{text}");
    // An error names the file, its key, and where that stands.
    let files = [("ca", "ca.crt", 4), ("cert", "b.crt", 5), ("key", "b.key", 6)];
    for (key, name, line) in files {
        let path = tls.0.join(name);
        let away = path.with_extension("away");
        fs::rename(&path, &away).expect("renamed");
        for command in [&["node", "--config"][..], &["config", "check"]] {
            let (code, text) = finish(mutua(command).arg(&file));
            assert_eq!(code, 78, "{text}");
            let right = format!("{}:{line}: `{key}` in [tls]: cannot read ", file.display());
            assert!(text.contains(&right) && text.contains(path.to_str().expect("text")), "{text}");
        }
        fs::rename(away, path).expect("renamed");
    }
    let mut node = mutua(&["node", "--config"]);
    let (code, text) = finish(node.arg(&file).env("MUTUA_NODE_KEY", "nowhere.key"));
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("a.toml with MUTUA_NODE_KEY: `key` in [tls]: cannot read"), "{text}");
}
