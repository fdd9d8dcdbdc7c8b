//! The scope of a lock: the clients of one user on one host, or those of a cluster; and that no
//! client gets the wrong one.

#[path = "locks/host.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod host;
#[path = "locks/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod scene;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
};

use host::{Host, ended};
use scene::{Scene, wait_for};
use serde_json::Value;

const SYSTEM: &str = "/etc/mutua/mutua.toml";
const NOTICE: &str = "/var/lib/mutua-member";
const NOBODY: u32 = 65534;
const SOCKET: &str = "/tmp/data/locks.sock";
const ENDPOINT: &str = "unix:/tmp/data/locks.sock";

/// The configuration of a node that lists no other member.
fn single(cluster: &str, data: &str) -> String {
    format!(
        "cluster = \"{cluster}\"\nnode = \"a\"\ndata = \"{data}\"\n\
         [[members]]\nname = \"a\"\naddress = \"127.0.0.1:7001\"\n"
    )
}

/// The configuration of a cluster with one member.
fn config(cluster: &str, data: &str) -> String {
    format!("clustered = true\n{}", single(cluster, data))
}

/// A host with a node of the cluster `shop` by the system configuration.
fn host_of_a_cluster() -> Host {
    host_with(&["node", "--quiet", "--config", SYSTEM])
}

/// The same with a node that is started by this command.
fn host_with(node: &[&str]) -> Host {
    let mut host = Host::new();
    host.write(SYSTEM, &config("shop", "/tmp/data"));
    let (code, _, err) = ended(&mut host.command(&["cluster", "init", "--config", SYSTEM]));
    assert_eq!(code, Some(0), "{err}");
    let node = host.command(node);
    host.run_node(node, SOCKET);
    let status = ["status", "--endpoint", ENDPOINT];
    wait_for("locks to be granted", || ended(&mut host.command(&status)).0 == Some(0));
    host
}

/// A client that holds `x` in the cluster until it is dropped.
struct Holder(Child);

impl Holder {
    fn new(host: &Host) -> Self {
        let command = ["lock", "--endpoint", ENDPOINT, "x", "--", "sh", "-c", "echo in; cat"];
        let mut command = host.command(&command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
        assert_eq!(line, "in\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lock_without_configuration_is_refused_beside_a_member_of_a_cluster() {
    let host = host_of_a_cluster();
    let _holder = Holder::new(&host);
    // It has an /etc of its own, and the network of the host.
    let container = host.container();
    let (code, out, err) = ended(&mut container.command(&["lock", "-n", "x", "--", "echo", "in"]));
    assert_eq!((code, &*out), (Some(78), ""), "{err}");
    assert!(err.contains("cluster shop") && err.contains("--local"), "{err}");
}

#[test]
fn what_looks_at_locks_is_refused_beside_a_member_too() {
    let host = host_of_a_cluster();
    let container = host.container();
    let commands: [&[&str]; 4] =
        [&["ls"], &["show", "x"], &["verify", "x", "1"], &["break", "x", "--reason", "r", "--yes"]];
    for command in commands {
        let (code, out, err) = ended(&mut container.command(command));
        assert_eq!((code, &*out), (Some(78), ""), "{command:?}: {err}");
        assert!(err.contains("node a of cluster shop"), "{err}");
    }
    let (code, _, err) = ended(&mut container.command(&["show", "--local", "x"]));
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn a_member_that_does_not_run_still_counts_until_its_notice_is_removed() {
    let mut host = host_of_a_cluster();
    host.kill_nodes();
    fs::remove_file(host.file(SYSTEM)).expect("removed");
    let lock = ["lock", "-n", "x", "--", "printenv", "LOCK_SCOPE"];
    // Root's notice counts for every user.
    for user in [0, NOBODY] {
        let (code, out, err) = ended(&mut host.command_as(user, &lock));
        assert_eq!((code, &*out), (Some(78), ""), "{err}");
        assert!(err.contains(&format!("remove {NOTICE}")), "{err}");
    }
    fs::remove_file(host.file(NOTICE)).expect("removed");
    let (code, out, err) = ended(&mut host.command(&lock));
    assert_eq!((code, &*out), (Some(0), "local\n"), "{err}");
}

#[test]
fn an_option_or_a_variable_that_names_a_node_is_configuration() {
    let host = host_of_a_cluster();
    let other = "/tmp/other.toml";
    host.write(other, &config("shop", "/tmp/data"));
    fs::remove_file(host.file(SYSTEM)).expect("removed");
    let asks = "echo $LOCK_SCOPE $LOCK_CLUSTER";
    let ask = |options: &[&str], variable: (&str, &str)| {
        let all = [&["lock", "-n"], options, &["x", "--", "sh", "-c", asks]].concat();
        ended(host.command(&all).env(variable.0, variable.1))
    };
    let none = ("MUTUA_CONFIG", "");
    let cases: [(&[&str], (&str, &str), &str); 6] = [
        (&["--endpoint", ENDPOINT], none, "cluster shop\n"),
        (&["--config", other], none, "cluster shop\n"),
        (&[], ("MUTUA_CONFIG", other), "cluster shop\n"),
        (&[], ("MUTUA_SOCKET", SOCKET), "cluster shop\n"),
        (&[], ("MUTUA_SOCKET", "/tmp/own.sock"), "local\n"),
        // Also below a lock of a cluster.
        (&["--local"], ("LOCK_CLUSTER", "shop"), "local\n"),
    ];
    for (options, variable, expected) in cases {
        let (code, out, err) = ask(options, variable);
        assert_eq!((code, &*out), (Some(0), expected), "{options:?} {variable:?}: {err}");
    }
    let (code, _, err) = ask(&["--config", SYSTEM], none);
    assert_eq!(code, Some(78), "a file that is named must be there: {err}");
}

#[test]
fn only_a_node_of_the_system_configuration_leaves_a_notice() {
    let mut host = Host::new();
    host.write("/tmp/mutua.toml", &config("shop", "/tmp/data"));
    let node = host.command(&["node", "--quiet", "--config", "/tmp/mutua.toml"]);
    host.run_node(node, SOCKET);
    assert!(!host.file(NOTICE).exists());
    let (code, out, err) =
        ended(&mut host.command(&["lock", "-n", "x", "--", "printenv", "LOCK_SCOPE"]));
    assert_eq!((code, &*out), (Some(0), "local\n"), "{err}");
}

#[test]
fn another_user_cannot_have_locks_refused() {
    let mut host = Host::new();
    // A system configuration of a user other than root: a socket that any user could have.
    host.write(SYSTEM, &config("shop", "/tmp/data"));
    let node = host.command_as(NOBODY, &["node", "--quiet"]);
    host.run_node(node, SOCKET);
    let sockets = fs::read_to_string(host.proc("net/unix")).expect("read");
    assert!(sockets.contains("@mutua:member:"), "{sockets}");
    // And a file of that user, were it possible.
    host.write(NOTICE, "node z of cluster zoo\n");
    std::os::unix::fs::chown(host.file(NOTICE), Some(NOBODY), None).expect("given");
    let container = host.container();
    let lock = ["lock", "-n", "x", "--", "printenv", "LOCK_SCOPE"];
    let (code, out, err) = ended(&mut container.command(&lock));
    assert_eq!((code, &*out), (Some(0), "local\n"), "{err}");
    fs::remove_file(host.file(SYSTEM)).expect("removed");
    let (code, out, err) = ended(&mut host.command(&lock));
    assert_eq!((code, &*out), (Some(0), "local\n"), "{err}");
    // For that user itself it counts.
    let (code, _, err) = ended(&mut container.command_as(NOBODY, &lock));
    assert_eq!(code, Some(78), "{err}");
}

#[test]
fn a_cluster_that_is_required_is_the_only_one_that_is_accepted() {
    let host = host_of_a_cluster();
    host.write("/tmp/wrong.toml", &config("store", "/tmp/data"));
    let run = |options: &[&str], variable: (&str, &str)| {
        let all = [&["lock", "-n"], options, &["x", "--", "echo", "in"]].concat();
        ended(host.command(&all).env(variable.0, variable.1))
    };
    let (unset, shop, store) =
        (("MUTUA_CLUSTER", ""), ("MUTUA_CLUSTER", "shop"), ("MUTUA_CLUSTER", "store"));
    let met: [(&[&str], _); 5] = [
        (&["--cluster", "shop"], unset),
        (&["--cluster", "shop"], shop),
        (&["--cluster", "shop", "--endpoint", ENDPOINT], unset),
        (&["--cluster", "shop", "--config", SYSTEM], unset),
        (&[], shop),
    ];
    for (options, variable) in met {
        let (code, out, err) = run(options, variable);
        assert_eq!((code, &*out), (Some(0), "in\n"), "{options:?} {variable:?}: {err}");
    }
    let unmet: [(&[&str], _, &str); 9] = [
        (&["--cluster", "store"], unset, "--cluster requires a node of cluster store"),
        (&["--cluster", "shop"], store, "MUTUA_CLUSTER requires a node of cluster store"),
        (&["--cluster", "store", "--endpoint", ENDPOINT], unset, "is node a of cluster shop"),
        (&["--cluster", "store", "--config", SYSTEM], unset, "configures node a of cluster shop"),
        (&["--config", "/tmp/wrong.toml"], unset, "is node a of cluster shop"),
        (&["--config", "/tmp/none.toml"], unset, "/tmp/none.toml"),
        (&[], store, "MUTUA_CLUSTER requires a node of cluster store"),
        (&["--endpoint", ENDPOINT], store, "is node a of cluster shop"),
        (&["--local"], shop, "omit --local"),
    ];
    for (options, variable, why) in unmet {
        let (code, out, err) = run(options, variable);
        assert_eq!((code, &*out), (Some(78), ""), "{options:?} {variable:?}: {err}");
        assert!(err.contains(why), "{options:?} {variable:?}: {err}");
    }
    for options in [&["--cluster", ""][..], &["--local", "--cluster", "shop"]] {
        assert_eq!(run(options, unset).0, Some(64), "{options:?}");
    }
}

#[test]
fn a_local_node_does_not_pass_for_one_of_a_cluster_and_is_not_started_for_it() {
    let scene = Scene::new();
    let ends = |options: &[&str], variable: &str| {
        let mut command = scene.lock(&[&["-n"], options, &["x"]].concat(), &["echo", "in"]);
        ended(command.env("MUTUA_CLUSTER", variable))
    };
    let (code, _, err) = ends(&["--cluster", "shop"], "");
    assert_eq!(code, Some(69), "{err}");
    assert!(err.contains("no node of a cluster serves"), "{err}");
    assert_eq!(scene.node_pid(), 0);
    let _holder = scene.holder("y");
    let endpoint = format!("unix:{}", scene.socket().display());
    let cases: [(&[&str], &str); 3] = [
        (&["--cluster", "shop"], ""),
        (&[], "shop"),
        (&["--endpoint", &endpoint, "--cluster", "shop"], ""),
    ];
    for (options, variable) in cases {
        let (code, out, err) = ends(options, variable);
        assert_eq!((code, &*out), (Some(78), ""), "{options:?}: {err}");
        assert!(err.contains("this user's node, whose locks are local"), "{err}");
    }
    let (code, _, err) = ended(scene.command(&["ls"]).env("MUTUA_CLUSTER", "shop"));
    assert_eq!(code, Some(78), "{err}");
    // Where nothing is configured it is refused at once.
    let host = Host::new();
    let lock = ["lock", "--cluster", "shop", "x", "--", "true"];
    let (code, _, err) = ended(&mut host.command(&lock));
    assert_eq!(code, Some(78), "{err}");
    assert!(err.contains("no configuration was found"), "{err}");
}

#[test]
fn the_scope_is_in_all_that_is_reported() {
    let host = host_of_a_cluster();
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    for (option, scope, cluster) in
        [("--config=/etc/mutua/mutua.toml", "cluster", Some("shop")), ("--local", "local", None)]
    {
        let shown = cluster.map_or(scope.to_owned(), |cluster| format!("{scope} {cluster}"));
        let (_, _, err) = ended(&mut host.command(&["lock", "-v", option, "x", "--", "true"]));
        assert!(err.contains(&format!(", scope {shown}\n")), "{err}");
        // The state of the lock, seen from its command.
        let text = "/tmp/mutua show $0 x && /tmp/mutua ls $0 && /tmp/mutua show --json $0 x && \
                    /tmp/mutua ls --json $0";
        let lock = ["lock", "--json", option, "x", "--", "sh", "-c", text, option];
        let (code, out, err) = ended(&mut host.command(&lock));
        assert_eq!(code, Some(0), "{err}");
        let acquired = err.lines().map(json).find(|event| event["event"] == "acquired");
        let lines: Vec<_> = out.lines().collect();
        let [.., show, list] = &lines[..] else { panic!("{out}") };
        for value in [acquired.expect("acquired"), json(show), json(list)] {
            assert_eq!((&value["scope"], &value["cluster"]), (&scope.into(), &cluster.into()));
        }
        assert!(lines.contains(&&*format!("  scope: {shown}")), "{out}");
        assert!(out.contains("SCOPE") && out.contains(&format!(" {shown} \n")), "{out}");
    }
}

#[test]
fn a_lock_is_not_taken_up_again_in_another_cluster() {
    let mut host = host_of_a_cluster();
    let lock = ["lock", "--ttl", "2", "--cluster", "shop", "x", "--", "sh", "-c", "echo in; cat"];
    let mut command = host.command(&lock);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
    assert_eq!(line, "in\n");
    // Waiting would close it, and the command would end by itself.
    let _input = holder.stdin.take();
    host.kill_nodes();
    host.write("/tmp/store.toml", &config("store", "/tmp/data"));
    let node = host.command(&["node", "--quiet", "--config", "/tmp/store.toml"]);
    host.run_node(node, SOCKET);
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
}

#[test]
fn all_commands_read_the_same_configuration() {
    let host = host_with(&["node", "--quiet"]);
    let (code, out, err) = ended(&mut host.command(&["status"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("node a of cluster shop,"), "{out}");
    let (code, out, err) =
        ended(&mut host.command(&["lock", "x", "--", "printenv", "LOCK_CLUSTER"]));
    assert_eq!((code, &*out), (Some(0), "shop\n"), "{err}");
    // A configuration that this user may not read is an error, and no local lock.
    let directory = host.file("/etc/mutua");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("set");
    let (code, _, err) = ended(&mut host.command_as(NOBODY, &["lock", "x", "--", "true"]));
    assert_eq!(code, Some(78), "{err}");
    assert!(err.contains(SYSTEM), "{err}");
}

/// With such a file on each of two hosts, each host would have locks of its own.
#[test]
fn a_node_that_lists_no_other_member_is_in_no_cluster() {
    let mut host = Host::new();
    host.write(SYSTEM, &single("shop", "/tmp/data"));
    let node = host.command(&["node", "--quiet", "--config", SYSTEM]);
    host.run_node(node, SOCKET);
    let lock = |options: &[&str], variable: &str| {
        let ask = ["x", "--", "sh", "-c", "echo $LOCK_SCOPE $LOCK_CLUSTER"];
        let all = [&["lock", "-n"], options, &ask].concat();
        ended(host.command(&all).env("MUTUA_CLUSTER", variable))
    };
    let refused: [(&[&str], &str); 4] = [
        (&["--cluster", "shop"], ""),
        (&["--cluster", "shop", "--config", SYSTEM], ""),
        (&["--cluster", "shop", "--endpoint", ENDPOINT], ""),
        (&[], "shop"),
    ];
    for (options, variable) in refused {
        let (code, out, err) = lock(options, variable);
        assert_eq!((code, &*out), (Some(78), ""), "{options:?}: {err}");
        assert!(err.contains("lists no other member"), "{options:?}: {err}");
    }
    let (code, out, err) = lock(&[], "");
    assert_eq!((code, &*out), (Some(0), "node\n"), "{err}");
    let (code, _, err) = ended(host.command(&["status"]).env("MUTUA_CLUSTER", "shop"));
    assert_eq!(code, Some(78), "{err}");
    assert!(err.contains("a single node, in no cluster"), "{err}");
}
