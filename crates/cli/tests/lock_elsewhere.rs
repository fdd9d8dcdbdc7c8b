//! Who is inside at one node and waits at another is known at a third.

#[path = "lock/cluster.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;
#[path = "lock/place.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod place;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
};

use cluster::Cluster;
use place::{Holder, Place, kill, wait_for};
use serde_json::Value;

/// Three nodes; somebody is inside at a, and somebody waits at b.
struct Scene {
    waiter: Child,
    holder: Holder,
    cluster: Cluster,
    place: Place,
}

/// What a command said and how it ended.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let cluster = Cluster::start_many(&place, 3);
        let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
        let inside = ["--owner", "ann", "--ttl", "4", "--endpoint", &a];
        let holder = place.holder_with("x", &inside);
        let waits = ["-v", "--owner", "bob", "--endpoint", &b, "x"];
        let mut waiter = place.lock(&waits, &["true"]);
        let waiter = waiter.stderr(Stdio::piped()).spawn().expect("run");
        let scene = Self { waiter, holder, cluster, place };
        wait_for("the waiter to be known", || {
            scene.show()["waiting"].as_array().is_some_and(|waiting| waiting.len() == 1)
        });
        scene
    }

    /// Asks at c.
    fn ask(&self, arguments: &[&str]) -> Said {
        self.ask_at(2, arguments)
    }

    fn ask_at(&self, node: usize, arguments: &[&str]) -> Said {
        let endpoint = self.cluster.endpoint(node);
        let (command, rest) = arguments.split_first().expect("a command");
        let all = [&[*command, "--endpoint", &*endpoint], rest].concat();
        let output = self.place.command(&all).output().expect("run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn show(&self) -> Value {
        let said = self.ask(&["show", "--json", "x"]);
        serde_json::from_str(&said.out).unwrap_or_default()
    }

    fn token(&self) -> String {
        self.show()["holder"]["token"].as_str().unwrap_or("none").to_owned()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.waiter.kill();
        let _ = self.waiter.wait();
    }
}

#[test]
fn a_third_node_lists_and_shows_who_is_inside_and_who_waits_at_the_others() {
    let scene = Scene::new();
    let list = scene.ask(&["ls"]);
    assert_eq!((list.code, &*list.err), (Some(0), ""));
    assert!(list.out.contains("ann (pid") && list.out.contains("at node a"), "{}", list.out);
    let show = scene.ask(&["show", "x"]);
    let lines: Vec<_> = show.out.lines().collect();
    assert!(lines[0].starts_with("x: inside is ann (pid"), "{}", show.out);
    assert!(lines[0].contains("at node a since"), "{}", show.out);
    assert_eq!(lines[1], "  waiting at node b, in order of arrival:");
    assert!(lines[2].starts_with("  1. bob (pid"), "{}", show.out);
    let json = scene.show();
    assert_eq!(json["holder"]["node"], "a");
    assert_eq!(json["waiting"][0]["node"], "b");
    assert_eq!(json["unanswered"], Value::Array(Vec::new()));
    let nobody = scene.ask(&["show", "y"]);
    assert!(nobody.out.starts_with("y: nobody is inside\n"), "{}", nobody.out);
}

#[test]
fn who_waits_or_is_refused_is_told_who_is_inside_elsewhere() {
    let mut scene = Scene::new();
    let mut lines = BufReader::new(scene.waiter.stderr.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    assert!(line.contains("waiting for x: inside is ann (pid"), "{line}");
    assert!(line.contains("at node a since") && line.contains("next in line"), "{line}");
    for options in [["-n", "-v"], ["-w0.2", "-v"]] {
        let endpoint = scene.cluster.endpoint(2);
        let all = [&options[..], &["--endpoint", &endpoint, "x"]].concat();
        let output = scene.place.lock(&all, &["true"]).output().expect("run");
        assert_eq!(output.status.code(), Some(75));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains("not acquired") && last.contains("inside is ann (pid"), "{said}");
        assert!(last.ends_with("at node a"), "{said}");
    }
}

#[test]
fn a_third_node_watches_who_gets_in_elsewhere() {
    let mut scene = Scene::new();
    let endpoint = scene.cluster.endpoint(2);
    let mut watch = scene.place.command(&["watch", "--json", "--endpoint", &endpoint, "x"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("run");
    let mut states = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = states.next().expect("a state").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["holder"]["owner"], "ann");
    scene.holder.let_go();
    // It may have been seen between the two.
    let after = std::iter::repeat_with(&mut next).find(|state| state["holder"]["owner"] != "ann");
    assert!(after.is_some());
    assert_eq!(scene.waiter.wait().expect("ended").code(), Some(0));
    watch.kill().expect("killed");
    watch.wait().expect("dead");
}

#[test]
fn a_token_of_one_node_is_verified_and_broken_at_another() {
    let mut scene = Scene::new();
    let token = scene.token();
    assert_eq!(scene.ask(&["verify", "x", &token]).code, Some(0));
    assert_eq!(scene.ask(&["verify", "x", "1"]).code, Some(1));
    let other = scene.ask(&["break", "x", "--reason", "no", "--yes", "--token", "1"]);
    assert_eq!(other.code, Some(1), "{}", other.err);
    assert_eq!(scene.token(), token);
    let broken = scene.ask(&["break", "x", "--reason", "stuck", "--yes", "--json"]);
    assert_eq!(broken.code, Some(0), "{}", broken.err);
    let told: Value = serde_json::from_str(&broken.out).expect("JSON");
    assert_eq!((&told["broken"]["owner"], &told["broken"]["node"]), (&"ann".into(), &"a".into()));
    assert_eq!(scene.ask(&["verify", "x", &token]).code, Some(1));
    assert_eq!(scene.waiter.wait().expect("ended").code(), Some(0));
    let none = scene.ask(&["break", "x", "--reason", "again", "--yes"]);
    assert_eq!((none.code, &*none.err), (Some(1), "mutua: nobody is inside x\n"));
}

#[test]
fn a_member_that_is_down_is_named_and_nothing_is_said_for_sure_without_it() {
    let mut scene = Scene::new();
    let token = scene.token();
    scene.cluster.kill(0);
    wait_for("the others to know", || scene.show()["unanswered"] == serde_json::json!(["a"]));
    let list = scene.ask(&["ls"]);
    assert_eq!(list.code, Some(0));
    assert!(list.err.contains("a did not answer, so its clients are missing"), "{}", list.err);
    assert!(list.out.contains("nobody known"), "{}", list.out);
    let show = scene.ask(&["show", "x"]);
    assert!(show.out.starts_with("x: nobody known is inside\n"), "{}", show.out);
    assert!(show.out.contains("  a did not answer"), "{}", show.out);
    for arguments in [&["verify", "x", &*token][..], &["break", "x", "--reason", "r", "--yes"]] {
        let said = scene.ask(arguments);
        assert_eq!(said.code, Some(69), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("a did not answer"), "{}", said.err);
    }
    scene.cluster.run(0);
    wait_for("the holder to be known again", || scene.token() == token);
    assert_eq!(scene.ask(&["verify", "x", &token]).code, Some(0));
}

#[test]
fn a_member_that_is_stopped_does_not_hold_up_an_answer_for_long() {
    let scene = Scene::new();
    let (node, token) = (scene.cluster.pid(1), scene.token());
    kill("-STOP", node);
    // No watch on the time: were the wait without a bound, the test would not end.
    let list = scene.ask(&["ls", "--json"]);
    // What needs no word of the stopped one is known.
    let verified = [&*token, "1"].map(|token| scene.ask(&["verify", "x", token]).code);
    kill("-CONT", node);
    assert_eq!(verified, [Some(0), Some(1)]);
    let lock: Value = serde_json::from_str(&list.out).expect("JSON");
    assert_eq!(lock["holder"]["owner"], "ann");
    assert_eq!(lock["unanswered"], serde_json::json!(["b"]));
    wait_for("it to answer again", || scene.show()["waiting"][0]["owner"] == "bob");
}

#[test]
fn who_waits_while_a_member_is_down_is_told_which() {
    let mut scene = Scene::new();
    scene.cluster.kill(2);
    let mut lines = BufReader::new(scene.waiter.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("not connected to c") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "{said}");
    }
    let file = scene.cluster.file(0);
    let status = scene.place.command(&["status", "--config"]).arg(file).output().expect("run");
    assert_eq!(status.status.code(), Some(69));
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("whoever is inside stays inside; it goes on when c is back"), "{text}");
    scene.cluster.run(2);
    scene.holder.let_go();
    lines.read_to_string(&mut said).expect("text");
    assert!(said.contains("x acquired"), "{said}");
    assert_eq!(scene.waiter.wait().expect("ended").code(), Some(0));
}
