//! A single node is killed and started again: what its clients held is waited for, name by name.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::scene::{Scene, kill, wait_for};

/// A configured node without other members; no client starts it.
struct Single {
    scene: Scene,
    child: Child,
}

impl Single {
    fn start() -> Self {
        let scene = Scene::new();
        let child = Self::run(&scene);
        let single = Self { scene, child };
        wait_for("the node to grant", || single.status().0 == Some(0));
        single
    }

    fn run(scene: &Scene) -> Child {
        let config = scene.path().join("node.toml");
        if !config.exists() {
            let text = format!(
                "cluster = \"c\"\nnode = \"a\"\ndata = \"data\"\nsocket = {:?}\n[[members]]\n\
                 name = \"a\"\naddress = \"127.0.0.1:0\"\n",
                scene.socket()
            );
            fs::write(&config, text).expect("written");
        }
        let mut command = Command::new(scene.mutua());
        command.args(["node", "--quiet", "--config"]).arg(config);
        command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("run")
    }

    /// Kills the node; its next process starts after `between`.
    fn crash(&mut self, between: impl FnOnce(PathBuf)) {
        self.child.kill().expect("killed");
        self.child.wait().expect("dead");
        between(self.scene.path().join("data"));
        self.child = Self::run(&self.scene);
        wait_for(
            "the next process",
            || matches!(self.status(), (Some(0 | 69), text) if !text.is_empty()),
        );
    }

    fn status(&self) -> (Option<i32>, String) {
        let output = self.scene.command(&["status"]).output().expect("run");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn tries(&self, name: &str) -> Option<i32> {
        let mut command = self.scene.lock(&["-n", name], &["true"]);
        command.stderr(Stdio::null()).status().expect("run").code()
    }

    /// A client that holds the lock, and is killed with its supervisor as soon as the node is.
    fn holder(&self, name: &str, ttl: &str) -> Child {
        let mut command = self.scene.lock(&["--ttl", ttl, name], &["sleep", "300"]);
        let child = command.stderr(Stdio::null()).spawn().expect("run");
        wait_for("the lock to be held", || self.scene.show(name).contains("\"holder\":{"));
        child
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends a client and everything that it has started, without a word to its node.
fn end(mut client: Child) {
    for supervisor in crate::scene::supervisors(client.id()) {
        kill("-KILL", supervisor);
    }
    kill("-KILL", client.id());
    client.wait().expect("dead");
}

#[test]
fn one_name_is_waited_for_after_a_crash_and_all_others_are_granted_at_once() {
    let mut node = Single::start();
    let client = node.holder("x", "60s");
    let before = node.scene.show("x");
    // The client cannot reclaim its lock: nothing ends the wait for it.
    node.crash(|_| end(client));
    assert_eq!(node.tries("y"), Some(0));
    assert_eq!(node.tries("x"), Some(75), "it is still held");
    let token =
        |shown: &str| shown.split("\"fencing_token\":").nth(1).map(|one| one[..22].to_owned());
    assert_eq!(token(&node.scene.show("x")), token(&before));
    let (code, text) = node.status();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("locks are granted") && text.contains("\nwaiting for x: "), "{text}");
    assert!(text.contains("free in"), "{text}");
    // What is waited for is known after another crash too.
    node.crash(|_| ());
    assert_eq!((node.tries("x"), node.tries("y")), (Some(75), Some(0)));
}

#[test]
fn the_wait_for_a_name_ends_when_its_client_has_reclaimed_it_and_releases() {
    let mut node = Single::start();
    let mut client = node.holder("x", "60s");
    let token = |node: &Single| {
        let shown = node.scene.show("x");
        shown
            .split("\"fencing_token\":\"")
            .nth(1)
            .map(|one| one.split('"').next().map(str::to_owned))
    };
    let before = token(&node);
    node.crash(|_| ());
    wait_for("the client to reclaim its lock", || !node.status().1.contains("waiting for x"));
    assert_eq!((node.tries("x"), node.tries("y")), (Some(75), Some(0)));
    assert_eq!(token(&node), before);
    kill("-TERM", client.id());
    client.wait().expect("ended");
    let next = node.scene.lock(&["-w", "20", "x"], &["sh", "-c", "echo $LOCK_TOKEN"]).output();
    let next = String::from_utf8_lossy(&next.expect("run").stdout).trim().to_owned();
    let before = before.flatten().expect("it was held");
    assert!(
        next.parse::<u64>().expect("a token") > before.parse::<u64>().expect("a token"),
        "{next}"
    );
}

#[test]
fn the_supervisor_of_a_killed_client_ends_the_wait_at_the_next_process() {
    let mut node = Single::start();
    let mut client = node.holder("x", "60s");
    // Stopped, it does not reclaim its lock, and killed, it never does.
    kill("-STOP", client.id());
    node.crash(|_| ());
    assert_eq!(node.tries("x"), Some(75));
    kill("-KILL", client.id());
    client.wait().expect("dead");
    let next = node.scene.lock(&["-w", "30", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

#[test]
fn a_lost_record_of_holds_means_a_wait_for_all_names() {
    let mut node = Single::start();
    let client = node.holder("x", "60s");
    node.crash(|data| {
        end(client);
        fs::remove_file(data.join("holds")).expect("there");
    });
    assert_eq!((node.tries("x"), node.tries("y")), (Some(69), Some(69)));
    let (code, text) = node.status();
    assert_eq!(code, Some(69));
    assert!(text.contains("grants are suspended: the node did not stop cleanly"), "{text}");
    let endpoint = format!("unix:{}", node.scene.socket().display());
    crate::unknown::knows_nothing(&node.scene, &endpoint, "the node did not stop cleanly");
}
