//! Holders at one node and waiters at another are known at a third.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
};

use crate::nodes::Cluster;
use crate::scene::{Holder, Scene, kill, wait_for};
use serde_json::Value;

/// Three nodes, with a holder at a and a waiter at b.
struct ThreeNodes {
    waiter: Child,
    holder: Holder,
    cluster: Cluster,
    scene: Scene,
}

/// The output and the exit code of a command.
struct Finished {
    code: Option<i32>,
    out: String,
    err: String,
}

impl ThreeNodes {
    fn new() -> Self {
        let scene = Scene::new();
        let cluster = Cluster::start_many(&scene, 3);
        let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
        let options = ["--owner", "ann", "--ttl", "4", "--endpoint", &a];
        let holder = scene.holder_with("x", &options);
        let waits = ["-v", "--owner", "bob", "--endpoint", &b, "x"];
        let mut waiter = scene.lock(&waits, &["true"]);
        let waiter = waiter.stderr(Stdio::piped()).spawn().expect("run");
        let nodes = Self { waiter, holder, cluster, scene };
        wait_for("the waiter to be known", || {
            nodes.show()["waiting"].as_array().is_some_and(|waiting| waiting.len() == 1)
        });
        nodes
    }

    /// Runs a command at c.
    fn run(&self, arguments: &[&str]) -> Finished {
        self.run_at(2, arguments)
    }

    fn run_at(&self, node: usize, arguments: &[&str]) -> Finished {
        let endpoint = self.cluster.endpoint(node);
        let (command, rest) = arguments.split_first().expect("a command");
        let all = [&[*command, "--endpoint", &*endpoint], rest].concat();
        let output = self.scene.command(&all).output().expect("run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn show(&self) -> Value {
        let printed = self.run(&["show", "--json", "x"]);
        serde_json::from_str(&printed.out).unwrap_or_default()
    }

    fn token(&self) -> String {
        self.show()["holder"]["fencing_token"].as_str().unwrap_or("none").to_owned()
    }
}

impl Drop for ThreeNodes {
    fn drop(&mut self) {
        let _ = self.waiter.kill();
        let _ = self.waiter.wait();
    }
}

#[test]
fn a_third_node_shows_the_holder_and_the_waiters_of_the_others() {
    let nodes = ThreeNodes::new();
    let list = nodes.run(&["ls"]);
    assert_eq!((list.code, &*list.err), (Some(0), ""));
    assert!(list.out.contains("ann (pid") && list.out.contains("at node a"), "{}", list.out);
    let show = nodes.run(&["show", "x"]);
    let lines: Vec<_> = show.out.lines().collect();
    assert!(lines[0].starts_with("x: held by ann (pid"), "{}", show.out);
    assert!(lines[0].contains("at node a for"), "{}", show.out);
    assert_eq!(lines[1], "  waiting at node b, in order of arrival:");
    assert!(lines[2].starts_with("  1. bob (pid"), "{}", show.out);
    let json = nodes.show();
    assert_eq!(json["holder"]["node"], "a");
    assert_eq!(json["waiting"][0]["node"], "b");
    assert_eq!(json["unanswered"], Value::Array(Vec::new()));
    let free = nodes.run(&["show", "y"]);
    assert!(free.out.starts_with("y: not held\n"), "{}", free.out);
}

/// Kills its processes.
struct Killed(Vec<Child>);

impl Drop for Killed {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn the_status_of_a_node_counts_all_waiters_at_it() {
    let nodes = ThreeNodes::new();
    let waits = |node| {
        let endpoint = nodes.cluster.endpoint(node);
        nodes.scene.lock(&["--endpoint", &endpoint, "x"], &["true"]).spawn().expect("run")
    };
    let _waiters = Killed(vec![waits(0), waits(1), waits(1)]);
    wait_for("all waiters to be known", || {
        nodes.show()["waiting"].as_array().is_some_and(|waiting| waiting.len() == 4)
    });
    for (node, waiting) in [(0, 1), (1, 3), (2, 0)] {
        let status = nodes.run_at(node, &["status"]);
        assert!(status.out.contains(&format!("waiting {waiting};")), "{}", status.out);
        let json: Value =
            serde_json::from_str(&nodes.run_at(node, &["status", "--json"]).out).expect("JSON");
        assert_eq!(json["waiting"], waiting, "{json}");
    }
}

#[test]
fn a_waiter_sees_the_holder_at_another_node() {
    let mut nodes = ThreeNodes::new();
    let mut lines = BufReader::new(nodes.waiter.stderr.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    assert!(line.contains("waiting for x: held by ann (pid"), "{line}");
    assert!(line.contains("at node a for") && line.contains("you are next"), "{line}");
    for options in [["-n", "-v"], ["-w0.2", "-v"]] {
        let endpoint = nodes.cluster.endpoint(2);
        let all = [&options[..], &["--endpoint", &endpoint, "x"]].concat();
        let output = nodes.scene.lock(&all, &["true"]).output().expect("run");
        assert_eq!(output.status.code(), Some(75));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = printed.lines().last().unwrap_or_default();
        assert!(last.contains("not acquired") && last.contains("held by ann (pid"), "{printed}");
        assert!(last.ends_with("at node a"), "{printed}");
    }
}

#[test]
fn a_third_node_watches_the_holders_of_the_others() {
    let mut nodes = ThreeNodes::new();
    let endpoint = nodes.cluster.endpoint(2);
    let mut watch = nodes.scene.command(&["watch", "--json", "--endpoint", &endpoint, "x"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("run");
    let mut states = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = states.next().expect("a state").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["holder"]["owner"], "ann");
    nodes.holder.release();
    // A state between the two may have been seen.
    let after = std::iter::repeat_with(&mut next).find(|state| state["holder"]["owner"] != "ann");
    assert!(after.is_some());
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
    watch.kill().expect("killed");
    watch.wait().expect("dead");
}

#[test]
fn a_fencing_token_of_one_node_is_verified_and_broken_at_another() {
    let mut nodes = ThreeNodes::new();
    let token = nodes.token();
    assert_eq!(nodes.run(&["verify", "x", &token]).code, Some(0));
    assert_eq!(nodes.run(&["verify", "x", "1"]).code, Some(1));
    let other = nodes.run(&["break", "x", "--reason", "no", "--yes", "--fencing-token", "1"]);
    assert_eq!(other.code, Some(1), "{}", other.err);
    assert_eq!(nodes.token(), token);
    let broken = nodes.run(&["break", "x", "--reason", "stuck", "--yes", "--json"]);
    assert_eq!(broken.code, Some(0), "{}", broken.err);
    let printed: Value = serde_json::from_str(&broken.out).expect("JSON");
    assert_eq!(
        (&printed["broken"]["owner"], &printed["broken"]["node"]),
        (&"ann".into(), &"a".into())
    );
    assert_eq!(nodes.run(&["verify", "x", &token]).code, Some(1));
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
    let none = nodes.run(&["break", "x", "--reason", "again", "--yes"]);
    assert_eq!((none.code, &*none.err), (Some(1), "mutua: x: not held\n"));
}

#[test]
fn a_stopped_member_delays_an_answer_by_a_bounded_time() {
    let nodes = ThreeNodes::new();
    let (node, token) = (nodes.cluster.pid(1), nodes.token());
    kill("-STOP", node);
    // The time is not measured: without a bound the test would not end.
    let list = nodes.run(&["ls", "--json"]);
    // Answers that do not depend on the stopped member are known.
    let verified = [&*token, "1"].map(|token| nodes.run(&["verify", "x", token]).code);
    kill("-CONT", node);
    assert_eq!(verified, [Some(0), Some(1)]);
    let lock: Value = serde_json::from_str(&list.out).expect("JSON");
    assert_eq!(lock["holder"]["owner"], "ann");
    // The view may have ended meanwhile: then the member that was asked cannot know either.
    let unanswered = &lock["unanswered"];
    let known = [serde_json::json!(["b"]), serde_json::json!(["c", "b"])];
    assert!(known.contains(unanswered), "{unanswered}");
    wait_for("it to answer again", || nodes.show()["waiting"][0]["owner"] == "bob");
}

#[test]
fn a_command_goes_on_and_its_waiters_wait_though_its_node_is_killed() {
    let mut nodes = ThreeNodes::new();
    let token = nodes.token();
    nodes.cluster.kill(0);
    wait_for("another node to serve the holder", || {
        let shown = nodes.show();
        shown["holder"]["fencing_token"] == *token && shown["holder"]["node"] != "a"
    });
    assert_eq!(nodes.run(&["verify", "x", &token]).code, Some(0));
    assert!(nodes.waiter.try_wait().expect("known").is_none(), "the lock was granted twice");
    // Other locks are granted meanwhile.
    let endpoint = nodes.cluster.endpoint(2);
    let other = nodes.scene.lock(&["-w", "20", "--endpoint", &endpoint, "y"], &["true"]).status();
    assert_eq!(other.expect("run").code(), Some(0));
    nodes.cluster.run(0);
    nodes.holder.release();
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_wait_that_ends_while_grants_are_suspended_reports_that_though_it_is_quiet() {
    let mut nodes = ThreeNodes::new();
    nodes.cluster.kill(0);
    nodes.cluster.kill(1);
    let endpoint = nodes.cluster.endpoint(2);
    let arguments = ["-q", "-w", "1", "--endpoint", &*endpoint, "y"];
    wait_for("grants to be suspended", || {
        let done = nodes.scene.lock(&arguments, &["true"]).output().expect("run");
        let printed = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(69), "{printed}");
        assert!(!printed.is_empty(), "no reason");
        printed.contains("mutua: y not acquired: grants are suspended: ")
    });
}

#[test]
fn a_node_that_is_stopped_in_order_hands_its_clients_over() {
    let mut nodes = ThreeNodes::new();
    let token = nodes.token();
    kill("-TERM", nodes.cluster.pid(0));
    wait_for("another node to serve the holder", || {
        let shown = nodes.show();
        shown["holder"]["fencing_token"] == *token && shown["holder"]["node"] != "a"
    });
    nodes.cluster.kill(0);
    nodes.holder.release();
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
}

/// The lease of the client is longer than anything waits in this test.
#[test]
fn sigterm_with_a_lock_held_hands_over_and_its_lease_is_not_waited_for() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
    let mut holder = scene.holder_with("x", &["--ttl", "60s", "--endpoint", &a]);
    let shown = || -> Value {
        let shown = scene.command(&["show", "--json", "--endpoint", &b, "x"]).output();
        serde_json::from_slice(&shown.expect("run").stdout).unwrap_or_default()
    };
    let token = shown()["holder"]["fencing_token"].clone();
    kill("-TERM", cluster.pid(0));
    assert_eq!(cluster.wait(0), Some(0));
    let other = scene.lock(&["-w", "30", "--endpoint", &b, "y"], &["true"]).status();
    assert_eq!(other.expect("run").code(), Some(0), "grants go on");
    wait_for("another node to serve the holder", || {
        let shown = shown();
        shown["holder"]["fencing_token"] == token && shown["holder"]["node"] != "a"
    });
    holder.release();
    let next = scene.lock(&["-w", "30", "--endpoint", &b, "x"], &["true"]).status();
    assert_eq!(next.expect("run").code(), Some(0));
}

#[test]
fn a_watch_goes_on_at_another_member_when_its_node_is_killed() {
    let mut nodes = ThreeNodes::new();
    let endpoint = nodes.cluster.endpoint(2);
    let mut watch = nodes.scene.command(&["watch", "--json", "--endpoint", &endpoint, "x"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("run");
    let mut states = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = states.next().expect("a state").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["holder"]["owner"], "ann");
    nodes.cluster.kill(2);
    nodes.holder.release();
    let after = std::iter::repeat_with(&mut next).find(|state| state["holder"]["owner"] != "ann");
    assert!(after.is_some());
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
    watch.kill().expect("killed");
    watch.wait().expect("dead");
}

#[test]
fn a_cluster_without_a_majority_grants_nothing_and_names_the_missing_members() {
    let mut nodes = ThreeNodes::new();
    nodes.cluster.kill(2);
    nodes.cluster.kill(0);
    let mut lines = BufReader::new(nodes.waiter.stderr.take().expect("a pipe"));
    let mut printed = String::new();
    while !printed.contains("not connected to a, c") {
        assert!(lines.read_line(&mut printed).expect("text") > 0, "{printed}");
    }
    let status = nodes.run_at(1, &["status"]);
    assert_eq!(status.code, Some(69));
    assert!(status.out.contains("the view lease has lapsed"), "{}", status.out);
    nodes.cluster.run(0);
    nodes.cluster.run(2);
    nodes.holder.release();
    lines.read_to_string(&mut printed).expect("text");
    assert!(printed.contains("x acquired"), "{printed}");
    assert_eq!(nodes.waiter.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_node_that_starts_again_does_not_warn_of_what_was_lost_long_ago() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let grants_before = |cluster: &Cluster| {
        let shown = scene.command(&["status", "--json", "--endpoint", &cluster.endpoint(0)]);
        let shown: Value =
            serde_json::from_slice(&{ shown }.output().expect("run").stdout).expect("JSON");
        (shown["view"].as_u64(), shown["grants"].as_u64())
    };
    let endpoint = cluster.endpoint(0);
    let locked = scene.lock(&["--endpoint", &endpoint, "x"], &["true"]).status();
    assert!(locked.expect("run").success());
    let (view, _) = grants_before(&cluster);
    cluster.kill(2);
    wait_for("the next view", || grants_before(&cluster).0 > view);
    let (_, grants) = grants_before(&cluster);
    assert!(grants >= Some(1), "a counter does not fall with the names that are dropped");
    cluster.run(2);
    wait_for("the node to be back", || cluster.is_granting(&scene, 2));
    let logged = |index: usize| {
        let log = cluster.file(index).with_extension("log");
        std::fs::read_to_string(log).expect("a log").matches("is decided without c").count()
    };
    assert_eq!((logged(0), logged(2)), (1, 0), "the others warn, and it was not there");
}
