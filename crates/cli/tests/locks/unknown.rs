//! A node that cannot know what is held says so, and names the reason that `status` gives.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::nodes::Cluster;
use crate::scene::{Scene, wait_for};

/// The output and the exit code of a command at a node.
fn run(scene: &Scene, endpoint: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let (command, rest) = arguments.split_first().expect("a command");
    let all = [&[*command, "--endpoint", endpoint], rest].concat();
    let output = scene.command(&all).output().expect("run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// No command says that `x` is free, and each gives this reason.
pub(crate) fn knows_nothing(scene: &Scene, endpoint: &str, why: &str) {
    let commands: [&[&str]; 5] = [
        &["show", "x"],
        &["ls"],
        &["verify", "x", "1000"],
        &["break", "--yes", "--reason", "test", "x"],
        &["break", "--yes", "--reason", "test", "--fencing-token", "7", "x"],
    ];
    for command in commands {
        let (code, out, err) = run(scene, endpoint, command);
        assert_eq!(code, Some(69), "{command:?}: {out}{err}");
        assert!(err.contains("cannot know now") && err.contains(why), "{command:?}: {err}");
        assert!(!out.contains("not held") && !out.contains("no locks in use in"), "{out}");
    }
    let (code, out, _) = run(scene, endpoint, &["show", "--json", "x"]);
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &shown["holder"]), (Some(69), &Value::Null));
    assert_ne!(shown["unanswered"], Value::Array(Vec::new()), "{shown}");
}

#[test]
fn members_that_were_all_restarted_do_not_say_that_a_lock_is_free() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let endpoints = [0, 1, 2].map(|one| cluster.endpoint(one));
    let mut job = scene.lock(&["--ttl", "20", "--endpoint", &endpoints[0], "x"], &["sleep", "99"]);
    let mut job = job.stderr(Stdio::null()).spawn().expect("run");
    wait_for("the job to hold the lock", || cluster.token(&scene, 1, "x").is_some());
    (0..3).for_each(|one| cluster.kill(one));
    (0..3).for_each(|one| cluster.run(one));
    let status = |endpoint: &str| run(&scene, endpoint, &["status"]);
    let why = "s for leases that clients got before all members restarted";
    for endpoint in &endpoints {
        wait_for("the wait for the job", || status(endpoint).1.contains(why));
        let (code, out, _) = status(endpoint);
        assert_eq!(code, Some(69));
        assert!(out.contains("is waiting up to ") && !out.contains("view leases"), "{out}");
        knows_nothing(&scene, endpoint, why);
        let (code, _, err) = run(&scene, endpoint, &["lock", "-n", "x", "true"]);
        assert!(code == Some(69) && err.contains(why), "{err}");
    }
    assert!(job.try_wait().expect("a child").is_none(), "the job has a valid lease");
    // No lease can be renewed meanwhile, so the job ends before the lock is granted again.
    assert_eq!(job.wait().expect("ended").code(), Some(79));
    let granted = scene.lock(&["-w", "30", "--endpoint", &endpoints[1], "x"], &["true"]).status();
    assert_eq!(granted.expect("run").code(), Some(0));
    assert_eq!(run(&scene, &endpoints[2], &["show", "x"]).0, Some(0));
}

#[test]
fn a_member_that_has_lost_its_directory_does_not_say_that_a_lock_is_free() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let (a, c) = (cluster.endpoint(0), cluster.endpoint(2));
    let _holder = scene.holder_with("x", &["--ttl", "20", "--endpoint", &a]);
    cluster.kill(2);
    let directory = cluster.socket(2);
    fs::remove_dir_all(directory.parent().expect("a directory")).expect("removed");
    cluster.run(2);
    let why = "the data directory of this member is empty";
    wait_for("the member to find it", || run(&scene, &c, &["status"]).1.contains(why));
    knows_nothing(&scene, &c, why);
    let (_, out, _) = run(&scene, &c, &["status"]);
    assert!(!out.contains("not connected for"), "{out}");
    wait_for("a view of the others", || run(&scene, &a, &["ls"]).0 == Some(0));
    let (_, out, _) = run(&scene, &a, &["status"]);
    assert!(out.contains("c refuses this node: c is in no cluster"), "{out}");
}
