//! `mutua lock` when processes are killed or stopped and files removed: never two holders, and no
//! process left.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use crate::link::Link;
use crate::nodes::Cluster;
use crate::scene::{Scene, alive, kill, supervisors, wait_for};

/// A stopped process, which is continued at the end of the test.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Self {
        kill("-STOP", pid);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill("-CONT", self.0);
    }
}

/// A command that holds the lock, and its process id.
fn held(scene: &Scene, options: &[&str]) -> (Child, u32) {
    let mut command = scene.lock(options, &["sh", "-c", "echo $$; exec sleep 99"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    (child, line.trim().parse().expect("a process"))
}

/// A waiter, which creates a file once it holds the lock.
fn waiter(scene: &Scene, options: &[&str]) -> (Child, std::path::PathBuf) {
    let file = scene.path().join("ran");
    let touch = ["touch", file.to_str().expect("text")];
    let child = scene.lock(options, &touch).stderr(Stdio::null()).spawn().expect("run");
    wait_for("the waiter to wait", || scene.show("x").contains("\"waiting\":[{"));
    (child, file)
}

#[test]
fn a_waiter_that_is_granted_the_lock_while_stopped_does_not_run_beside_the_next_holder() {
    let scene = Scene::new();
    let mut first = scene.holder("x");
    let (mut late, file) = waiter(&scene, &["--ttl", "2", "x"]);
    let stopped = Stopped::new(late.id());
    first.release();
    // It is granted the lock, does not know, and its lease expires.
    let mut third = scene.holder("x");
    drop(stopped);
    wait_for("the late one to wait again", || scene.show("x").contains("\"waiting\":[{"));
    assert!(!file.exists(), "its command ran beside another");
    third.release();
    assert_eq!(late.wait().expect("ended").code(), Some(0));
    assert!(file.exists());
}

#[test]
fn a_stopped_node_makes_the_holder_lose_the_lock_and_the_waiter_keep_waiting() {
    let scene = Scene::new();
    let (mut holder, command) = held(&scene, &["--ttl", "2", "x"]);
    let (mut waits, file) = waiter(&scene, &["--ttl", "2", "x"]);
    let stopped = Stopped::new(scene.node_pid());
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
    assert!(!alive(command) && !file.exists());
    drop(stopped);
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_stopped_supervisor_does_not_keep_a_command_running_that_has_lost_its_lock() {
    let scene = Scene::new();
    let (mut holder, command) = held(&scene, &["--ttl", "2", "x"]);
    let supervisor = Stopped::new(*supervisors(holder.id()).first().expect("the supervisor"));
    let node = Stopped::new(scene.node_pid());
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
    assert!(!alive(command));
    drop((supervisor, node));
    let next = scene.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

#[test]
fn a_removed_socket_and_directory_start_no_second_node() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let node = scene.node_pid();
    fs::remove_file(scene.socket()).expect("removed");
    fs::remove_dir_all(scene.socket().with_extension("d")).expect("removed");
    let busy = scene.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75));
    assert_eq!(scene.node_pid(), node);
    holder.release();
    let next = scene.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

#[test]
fn a_service_with_files_and_processes_of_its_own_finds_the_node() {
    let scene = Scene::new();
    let own = |text: &str| {
        let text = format!("exec unshare --mount --pid --fork sh -c '{text}'");
        scene.shell(&text).stderr(Stdio::null()).status().expect("run")
    };
    let hide = format!("mount -t tmpfs none {}", scene.path().display());
    if !own(&hide).success() {
        return println!("skipped: this user may not create namespaces");
    }
    let mut holder = scene.holder("x");
    let text = format!("{hide} && exec {} lock -n x -- true", scene.mutua());
    assert_eq!(own(&text).code(), Some(75));
    holder.release();
    assert_eq!(own(&text).code(), Some(0));
}

#[test]
fn a_node_killed_after_its_directory_was_removed_is_replaced_by_one_that_learns_the_holder() {
    let scene = Scene::new();
    let mut holder = scene.holder_with("x", &["--ttl", "3"]);
    let before = token(&scene.show("x"));
    fs::remove_file(scene.socket()).expect("removed");
    fs::remove_dir_all(scene.socket().with_extension("d")).expect("removed");
    kill("-KILL", scene.node_pid());
    wait_for("a try to find it held", || {
        let tried = scene.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status();
        let code = tried.expect("run").code();
        // Until the holder is known, grants are suspended.
        assert!(code == Some(75) || code == Some(69), "{code:?}");
        code == Some(75)
    });
    wait_for("the next node to know the holder", || token(&scene.show("x")) == before);
    holder.release();
    let number = |token: String| token.trim().parse::<u64>().expect("a token");
    assert!(number(next_token(&scene)) > number(before.expect("it was held")));
}

fn next_token(scene: &Scene) -> String {
    let print = ["sh", "-c", "echo $LOCK_TOKEN"];
    let output = scene.lock(&["--ttl", "1", "-w", "20", "x"], &print).output().expect("run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn fencing_tokens_grow_although_the_node_and_its_directory_are_lost_repeatedly() {
    let scene = Scene::new();
    let mut last = 0;
    for _ in 0..3 {
        // Each loss follows a few restarts with the directory of the previous node.
        for _ in 0..3 {
            let token = next_token(&scene).trim().parse::<u64>().expect("a token");
            assert!(token > last, "{token} after {last}");
            last = token;
            kill("-KILL", scene.node_pid());
            wait_for("the node to be dead", || scene.node_pid() == 0);
        }
        fs::remove_dir_all(scene.socket().with_extension("d")).expect("removed");
    }
}

fn token(state: &str) -> Option<String> {
    state.split("\"fencing_token\":\"").nth(1)?.split('"').next().map(str::to_owned)
}

#[test]
fn a_holder_keeps_the_lock_alone_when_one_of_two_nodes_is_killed() {
    keeps_the_lock_alone();
}

#[test]
fn a_holder_keeps_the_lock_though_its_nodes_directory_is_lost_and_that_node_stays_out() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
    let mut holder = scene.holder_with("x", &["--ttl", "20", "--endpoint", &a]);
    let file = scene.path().join("ran");
    let touch = ["touch", file.to_str().expect("text")];
    let mut waits = scene.lock(&["--endpoint", &b, "x"], &touch);
    let mut waits = waits.stderr(Stdio::null()).spawn().expect("run");
    let token = cluster.token(&scene, 0, "x").expect("it is held");
    cluster.kill(0);
    let directory = cluster.socket(0);
    fs::remove_dir_all(directory.parent().expect("a directory")).expect("removed");
    cluster.run(0);
    wait_for("another node to serve the holder", || cluster.token(&scene, 1, "x") == Some(token));
    wait_for("the node to find that its directory is lost", || {
        let mut status = scene.command(&["status", "--config"]);
        let printed = status.arg(cluster.file(0)).output().expect("run").stdout;
        String::from_utf8_lossy(&printed).contains("the data directory of this member is empty")
    });
    assert!(!file.exists(), "two held the lock");
    holder.release();
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
    assert!(file.exists());
}

fn keeps_the_lock_alone() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene);
    let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
    let mut holder = scene.holder_with("x", &["--ttl", "4", "--endpoint", &a]);
    let file = scene.path().join("ran");
    let touch = ["touch", file.to_str().expect("text")];
    let mut waits = scene.lock(&["--endpoint", &b, "x"], &touch);
    let mut waits = waits.stderr(Stdio::null()).spawn().expect("run");
    let token = cluster.token(&scene, 0, "x").expect("it is held");
    cluster.kill(0);
    cluster.run(0);
    wait_for("the restarted node to know the holder", || {
        cluster.token(&scene, 0, "x") == Some(token)
    });
    wait_for("locks to be granted again", || cluster.is_granting(&scene, 1));
    assert!(!file.exists(), "two held the lock");
    assert_eq!(cluster.token(&scene, 0, "x"), Some(token));
    holder.release();
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
    assert!(file.exists());
}

#[test]
fn a_waiter_is_notified_which_member_grants_wait_for() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene);
    let a = cluster.endpoint(0);
    cluster.kill(1);
    wait_for("the view to end", || !cluster.is_granting(&scene, 0));
    for options in [["-w", "3"], ["-w", "0"]] {
        let all = [&options[..], &["--endpoint", &a, "x"]].concat();
        let output = scene.lock(&all, &["true"]).output().expect("run");
        assert_eq!(output.status.code(), Some(69));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("not connected to b"), "{printed}");
    }
}

#[test]
fn no_local_node_is_started_at_the_endpoint_of_a_configured_one() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene);
    let beside = |variable: &str, value: &std::path::Path| {
        let mut command = scene.lock(&["-n", "x"], &["true"]);
        command.env_remove("MUTUA_SOCKET").env(variable, value);
        command.stderr(Stdio::null()).status().expect("run").code()
    };
    let (file, socket) = (cluster.file(0), cluster.socket(0));
    assert_eq!(beside("MUTUA_CONFIG", &file), Some(0));
    assert_eq!(beside("MUTUA_SOCKET", &socket), Some(0));
    cluster.kill(0);
    assert_eq!(beside("MUTUA_CONFIG", &file), Some(69));
    assert_eq!(beside("MUTUA_SOCKET", &socket), Some(69));
}

#[test]
fn a_node_whose_directory_is_not_private_is_not_started() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    let directory = scene.socket().with_extension("d");
    fs::create_dir(&directory).expect("made");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("set");
    let output = scene.lock(&["x"], &["true"]).output().expect("run");
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains("mode 0700"));
}

#[test]
fn a_holder_without_a_command_has_exited_before_the_next_grant() {
    let scene = Scene::new();
    assert!(scene.lock(&["x"], &["true"]).status().expect("run").success());
    let link = Link::new(&scene.socket());
    let endpoint = link.endpoint();
    let mut first = scene.command(&["lock", "--hold", "--ttl", "8", "--endpoint", &endpoint, "x"]);
    first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = first.spawn().expect("run");
    let mut token = String::new();
    let stdout = first.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut token).expect("read");
    // A process that has exited is a zombie until it is waited for below.
    let look = format!("! grep -q '^[0-9]* (mutua) [^Z]' /proc/{}/stat", first.id());
    let next = scene.lock(&["x"], &["sh", "-c", &look]).stderr(Stdio::null()).spawn();
    wait_for("the next one to wait", || scene.show("x").contains("\"waiting\":[{"));
    link.drop_all();
    assert_eq!(next.expect("run").wait().expect("ended").code(), Some(0), "both held the lock");
    assert_eq!(first.wait().expect("ended").code(), Some(79));
}
