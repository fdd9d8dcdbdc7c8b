//! How long `mutua lock` waits when the node is missing or stopped.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::nodes::Cluster;
use crate::scene::{Scene, kill, wait_for};

/// Runs a command until it reports that it waits for the node, starts the node, and returns the
/// exit code.
fn waits_for(cluster: &mut Cluster, command: &mut Command) -> Option<i32> {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("run");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("read");
    assert!(line.contains("waiting for the node"), "{line}");
    cluster.run(0);
    child.wait().expect("ended").code()
}

#[test]
fn the_wait_includes_a_node_that_does_not_run_yet() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene);
    let (file, endpoint) = (cluster.file(0), cluster.endpoint(0));
    cluster.kill(0);
    let mut configured = scene.lock(&["-w", "10m", "x"], &["true"]);
    configured.env_remove("MUTUA_SOCKET").env("MUTUA_CONFIG", &file);
    assert_eq!(waits_for(&mut cluster, &mut configured), Some(0));
    cluster.kill(0);
    let mut named = scene.lock(&["-w", "10m", "--endpoint", &endpoint, "x"], &["true"]);
    assert_eq!(waits_for(&mut cluster, &mut named), Some(0));
    cluster.kill(0);
    for wait in ["0", "0.2"] {
        let mut ends = scene.lock(&["-w", wait, "x"], &["true"]);
        ends.env_remove("MUTUA_SOCKET").env("MUTUA_CONFIG", &file);
        let output = ends.output().expect("run");
        assert_eq!(output.status.code(), Some(69));
        assert!(String::from_utf8_lossy(&output.stderr).contains("does not run"));
    }
}

#[test]
fn the_limit_of_the_wait_holds_although_the_node_is_stopped() {
    let scene = Scene::new();
    assert!(scene.lock(&["x"], &["true"]).status().expect("run").success());
    let node = scene.node_pid();
    kill("-STOP", node);
    for (wait, limit) in [(&["-n"][..], "1s"), (&["-w", "0.1"], "1s"), (&["-w", "2"], "2s")] {
        let output = scene.lock(&[wait, &["x"]].concat(), &["true"]).output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(69), "{text}");
        assert!(text.contains(&format!("no answer within {limit}")), "{text}");
    }
    kill("-CONT", node);
    // The abandoned requests are withdrawn, and block no other.
    wait_for("the node to go on", || {
        scene.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run").success()
    });
}
