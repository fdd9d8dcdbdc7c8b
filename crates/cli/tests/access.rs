//! Several users of one host with one node, and what the rules of its configuration allow them.
//!
//! The users are real: commands run with their ids, in namespaces with an `/etc` of their own. Only
//! root can make these, and tests run as root.

#[path = "locks/host.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod host;
#[path = "locks/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scene;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, chown},
    process::{Child, Command, Stdio},
};

use host::{Host, ended};
use scene::wait_for;
use serde_json::Value;

const SYSTEM: &str = "/etc/mutua/mutua.toml";
const SOCKET: &str = "/tmp/run/locks.sock";
const LOG: &str = "/tmp/node.log";

/// The node's user, and users of the host.
const MUTUA: u32 = 900;
const DEPLOY: u32 = 1001;
const ANN: u32 = 1002;
const GUEST: u32 = 1003;

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nmutua:x:900:900::/:/bin/sh\n\
    deploy:x:1001:1001::/:/bin/sh\nann:x:1002:1002::/:/bin/sh\nguest:x:1003:1003::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nmutua:x:900:\nops:x:50:ann\n";

const RULES: &str = r#"
[[access]]
clients = "group:ops"
names = "deploy/*"
allow = ["acquire", "list", "break"]

[[access]]
clients = "user:deploy"
names = "deploy/*"
allow = ["acquire", "list"]

[[access]]
clients = "user:guest"
names = "deploy/*"
allow = "acquire"

[[access]]
clients = "user:guest"
allow = "list"
"#;

/// A host whose node runs as the user `mutua`, with these rules.
fn host_with(rules: &str) -> Host {
    let mut host = Host::new();
    host.write("/etc/passwd", PASSWD);
    host.write("/etc/group", GROUP);
    host.write(
        SYSTEM,
        &format!(
            "cluster = \"shop\"\nnode = \"a\"\ndata = \"/tmp/data\"\nsocket = \"{SOCKET}\"\n\
             [[members]]\nname = \"a\"\naddress = \"127.0.0.1:7001\"\n{rules}"
        ),
    );
    let directory = host.file("/tmp/run");
    fs::create_dir(&directory).expect("made");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("set");
    chown(&directory, Some(MUTUA), Some(MUTUA)).expect("given");
    let log = fs::File::create(host.file(LOG)).expect("a file");
    let mut node = host.command_as(MUTUA, &["node"]);
    node.stdout(Stdio::null()).stderr(log);
    host.run_logged_node(node, SOCKET);
    host
}

fn as_user(host: &Host, user: u32, arguments: &[&str]) -> Command {
    let mut command = host.command_as(user, arguments);
    command.env_remove("LOGNAME").env_remove("USER");
    command
}

fn run(host: &Host, user: u32, arguments: &[&str]) -> (Option<i32>, String, String) {
    ended(&mut as_user(host, user, arguments))
}

/// A client that holds a lock until it is dropped.
struct Holder(Child);

impl Holder {
    fn new(host: &Host, user: u32, name: &str) -> Self {
        let mut command = as_user(host, user, &["lock", name, "--", "sh", "-c", "echo in; cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
        assert_eq!(line, "in\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The end of its standard input ends the command.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn all_users_of_a_host_lock_the_same_name_at_one_node() {
    let host = host_with(RULES);
    let mode = fs::metadata(host.file(SOCKET)).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let holder = Holder::new(&host, DEPLOY, "deploy/web");
    for user in [0, MUTUA, DEPLOY, ANN] {
        let (code, out, err) = run(&host, user, &["lock", "-n", "deploy/web", "--", "echo", "in"]);
        assert_eq!((code, &*out), (Some(75), ""), "user {user}: {err}");
        let (code, out, err) = run(&host, user, &["show", "--json", "deploy/web"]);
        assert_eq!(code, Some(0), "{err}");
        let shown: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(shown["holder"]["identity"], "user:deploy", "{out}");
        assert_eq!(shown["holder"]["owner"], "deploy", "by name, without LOGNAME: {out}");
    }
    drop(holder);
    for user in [0, ANN, DEPLOY] {
        let (code, out, err) = run(&host, user, &["lock", "-n", "deploy/web", "--", "echo", "in"]);
        assert_eq!((code, &*out), (Some(0), "in\n"), "user {user}: {err}");
    }
}

#[test]
fn a_client_cannot_pretend_to_be_another() {
    let host = host_with(RULES);
    let mut command = as_user(&host, DEPLOY, &["lock", "deploy/web", "--", "sh", "-c", "cat"]);
    command.env("LOGNAME", "root").stdin(Stdio::piped());
    let mut holder = command.spawn().expect("run");
    let shown = || run(&host, ANN, &["show", "deploy/web"]).1;
    wait_for("the lock to be held", || shown().contains("held by"));
    assert!(shown().contains("held by root (user:deploy) (pid"), "{}", shown());
    drop(holder.stdin.take());
    holder.wait().expect("ended");
}

#[test]
fn a_refusal_names_the_rule_and_exits_with_77() {
    let host = host_with(RULES);
    let _holder = Holder::new(&host, ANN, "deploy/web");
    let (code, out, err) = run(&host, DEPLOY, &["lock", "-n", "other", "--", "echo", "in"]);
    assert_eq!((code, &*out), (Some(77), ""), "{err}");
    let expected = "user:deploy may not acquire `other`: no rule of [[access]] matches";
    assert!(err.contains(expected), "{err}");
    let (code, _, err) = run(&host, GUEST, &["lock", "-n", "other", "--", "echo", "in"]);
    assert_eq!(code, Some(77), "{err}");
    let rule = "rule 4 of [[access]] (clients user:guest, names *) allows only list";
    assert!(err.contains(rule), "{err}");
    // It may acquire the name, and not see who holds it.
    let (code, out, err) = run(&host, GUEST, &["lock", "-v", "-n", "deploy/web", "--", "true"]);
    assert_eq!(code, Some(75), "{out}{err}");
    assert!(!err.contains("ann"), "{err}");
    let (code, _, err) = run(&host, GUEST, &["show", "deploy/web"]);
    assert_eq!(code, Some(77), "{err}");
    assert!(err.contains("rule 3 of [[access]]"), "{err}");
    let (code, _, err) = run(&host, GUEST, &["watch", "deploy/web"]);
    assert_eq!(code, Some(77), "{err}");
    let (code, out, err) = run(&host, GUEST, &["ls"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("deploy/web"), "{out}");
    assert!(run(&host, DEPLOY, &["ls"]).1.contains("deploy/web"));
}

#[test]
fn only_the_owner_and_admins_break_a_lock() {
    let host = host_with(RULES);
    let of = |user, name: &str| run(&host, user, &["break", name, "--reason", "stuck", "--yes"]);
    let mut first = Holder::new(&host, ANN, "deploy/web");
    let (code, _, err) = of(DEPLOY, "deploy/web");
    assert_eq!(code, Some(77), "{err}");
    assert!(err.contains("user:deploy may not break `deploy/web`: rule 2 of [[access]]"), "{err}");
    let (code, out, err) = of(ANN, "deploy/web");
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(first.0.wait().expect("ended").code(), Some(79));
    // Its own, without a rule that allows to break.
    let mut own = Holder::new(&host, DEPLOY, "deploy/web");
    let (code, out, err) = of(DEPLOY, "deploy/web");
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(own.0.wait().expect("ended").code(), Some(79));
    // Of another user, by a rule and as root.
    for admin in [ANN, 0] {
        let mut held = Holder::new(&host, DEPLOY, "deploy/web");
        let (code, out, err) = of(admin, "deploy/web");
        assert_eq!(code, Some(0), "{out}{err}");
        assert_eq!(held.0.wait().expect("ended").code(), Some(79));
    }
    let log = fs::read_to_string(host.file(LOG)).expect("the log");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let broken: Vec<_> = log.lines().filter(|line| line.contains("was broken by")).collect();
    assert_eq!(broken.len(), 4, "{log}");
    assert!(broken[0].contains(&format!("was broken by ann on {name}: stuck")), "{log}");
    assert!(broken[0].contains("lock deploy/web of ann (pid "), "{log}");
    assert!(broken[3].contains(&format!("was broken by root on {name}: stuck")), "{log}");
    for line in broken {
        assert!(line.contains("WARN") && line.starts_with("20"), "time and level: {line}");
    }
}

#[test]
fn without_rules_only_the_nodes_user_and_root_are_served_and_others_learn_why() {
    let host = host_with("");
    let mode = fs::metadata(host.file(SOCKET)).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for user in [0, MUTUA] {
        let (code, out, err) = run(&host, user, &["lock", "-n", "x", "--", "echo", "in"]);
        assert_eq!((code, &*out), (Some(0), "in\n"), "{err}");
    }
    let (code, _, err) = run(&host, DEPLOY, &["lock", "-n", "x", "--", "echo", "in"]);
    assert_eq!(code, Some(77), "{err}");
    assert!(err.contains(SOCKET) && err.contains("[[access]]"), "{err}");
    let (code, _, err) = run(&host, DEPLOY, &["status"]);
    assert_eq!(code, Some(77), "{err}");
    // Elsewhere the user's own node stays the default.
    let (code, out, err) =
        run(&host, DEPLOY, &["lock", "--local", "-n", "x", "--", "printenv", "LOCK_SCOPE"]);
    assert_eq!((code, &*out), (Some(0), "local\n"), "{err}");
}

#[test]
fn every_user_with_a_rule_may_read_the_status() {
    let host = host_with(RULES);
    let (code, out, err) = run(&host, GUEST, &["status"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("node a of cluster shop,"), "{out}");
}
