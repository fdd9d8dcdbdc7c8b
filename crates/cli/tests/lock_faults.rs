//! `mutua lock` when things are killed, stopped or taken away: never two inside, nothing left.

#[path = "lock/cluster.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;
#[path = "lock/link.rs"]
mod link;
#[path = "lock/place.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod place;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use cluster::Cluster;
use link::Link;
use place::{Place, alive, children, kill, wait_for};

/// A process that was stopped goes on or dies with the test.
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

/// A command inside, and its own process.
fn inside(place: &Place, options: &[&str]) -> (Child, u32) {
    let mut command = place.lock(options, &["sh", "-c", "echo $$; exec sleep 99"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    (child, line.trim().parse().expect("a process"))
}

/// Somebody who waits, and leaves a file once it is inside.
fn waiter(place: &Place, options: &[&str]) -> (Child, std::path::PathBuf) {
    let file = place.path().join("ran");
    let touch = ["touch", file.to_str().expect("text")];
    let child = place.lock(options, &touch).stderr(Stdio::null()).spawn().expect("run");
    wait_for("the waiter to wait", || place.show("x").contains("\"waiting\":[{"));
    (child, file)
}

#[test]
fn a_stopped_waiter_that_was_let_in_meanwhile_does_not_run_beside_the_next() {
    let place = Place::new();
    let mut first = place.holder("x");
    let (mut late, file) = waiter(&place, &["--ttl", "2", "x"]);
    let stopped = Stopped::new(late.id());
    first.let_go();
    // It is let in, does not know, and its lease runs out.
    let mut third = place.holder("x");
    drop(stopped);
    wait_for("the late one to wait again", || place.show("x").contains("\"waiting\":[{"));
    assert!(!file.exists(), "its command ran beside another");
    third.let_go();
    assert_eq!(late.wait().expect("ended").code(), Some(0));
    assert!(file.exists());
}

#[test]
fn a_stopped_node_costs_the_holder_its_lock_and_the_waiter_nothing() {
    let place = Place::new();
    let (mut holder, command) = inside(&place, &["--ttl", "2", "x"]);
    let (mut waits, file) = waiter(&place, &["--ttl", "2", "x"]);
    let stopped = Stopped::new(place.node_pid());
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
    assert!(!alive(command) && !file.exists());
    drop(stopped);
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_stopped_guard_does_not_keep_a_command_inside_that_has_lost_its_lock() {
    let place = Place::new();
    let (mut holder, command) = inside(&place, &["--ttl", "2", "x"]);
    let guard = Stopped::new(*children(holder.id()).first().expect("the guard"));
    let node = Stopped::new(place.node_pid());
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
    assert!(!alive(command));
    drop((guard, node));
    let next = place.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

#[test]
fn a_place_that_was_removed_starts_no_second_node() {
    let place = Place::new();
    let mut holder = place.holder("x");
    let node = place.node_pid();
    fs::remove_file(place.socket()).expect("removed");
    fs::remove_dir_all(place.socket().with_extension("d")).expect("removed");
    let busy = place.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75));
    assert_eq!(place.node_pid(), node);
    holder.let_go();
    let next = place.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

#[test]
fn a_service_with_files_and_processes_of_its_own_finds_the_node() {
    let place = Place::new();
    let own = |text: &str| {
        let text = format!("exec unshare --mount --pid --fork sh -c '{text}'");
        place.shell(&text).stderr(Stdio::null()).status().expect("run")
    };
    let hide = format!("mount -t tmpfs none {}", place.path().display());
    if !own(&hide).success() {
        return println!("not looked at: this user may not make namespaces");
    }
    let mut holder = place.holder("x");
    let text = format!("{hide} && exec {} lock -n x -- true", place.mutua());
    assert_eq!(own(&text).code(), Some(75));
    holder.let_go();
    assert_eq!(own(&text).code(), Some(0));
}

#[test]
fn a_node_that_dies_after_its_directory_is_followed_by_one_that_knows_of_who_is_inside() {
    let place = Place::new();
    let mut holder = place.holder_with("x", &["--ttl", "3"]);
    let before = token(&place.show("x"));
    fs::remove_file(place.socket()).expect("removed");
    fs::remove_dir_all(place.socket().with_extension("d")).expect("removed");
    kill("-KILL", place.node_pid());
    let busy = place.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75));
    wait_for("the next node to know the holder", || token(&place.show("x")) == before);
    holder.let_go();
    let number = |token: String| token.trim().parse::<u64>().expect("a token");
    assert!(number(next_token(&place)) > number(before.expect("somebody was inside")));
}

fn next_token(place: &Place) -> String {
    let print = ["sh", "-c", "echo $LOCK_TOKEN"];
    let output = place.lock(&["--ttl", "1", "-w", "20", "x"], &print).output().expect("run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tokens_grow_though_the_node_and_its_directory_are_lost_again_and_again() {
    let place = Place::new();
    let mut last = 0;
    for _ in 0..3 {
        // Each loss is after a few lives that found the directory of the one before.
        for _ in 0..3 {
            let token = next_token(&place).trim().parse::<u64>().expect("a token");
            assert!(token > last, "{token} after {last}");
            last = token;
            kill("-KILL", place.node_pid());
            wait_for("the node to be dead", || place.node_pid() == 0);
        }
        fs::remove_dir_all(place.socket().with_extension("d")).expect("removed");
    }
}

fn token(state: &str) -> Option<String> {
    state.split("\"token\":\"").nth(1)?.split('"').next().map(str::to_owned)
}

#[test]
fn somebody_inside_stays_inside_alone_when_one_of_two_nodes_is_killed() {
    stays_inside_alone(false);
}

#[test]
fn somebody_inside_stays_inside_alone_though_the_nodes_directory_is_lost_with_it() {
    stays_inside_alone(true);
}

fn stays_inside_alone(directory_is_lost: bool) {
    let place = Place::new();
    let mut cluster = Cluster::start(&place);
    let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
    let mut holder = place.holder_with("x", &["--ttl", "4", "--endpoint", &a]);
    let file = place.path().join("ran");
    let touch = ["touch", file.to_str().expect("text")];
    let mut waits = place.lock(&["--endpoint", &b, "x"], &touch);
    let mut waits = waits.stderr(Stdio::null()).spawn().expect("run");
    let token = cluster.token(&place, 0, "x").expect("somebody is inside");
    cluster.kill(0);
    if directory_is_lost {
        let directory = cluster.socket(0);
        fs::remove_dir_all(directory.parent().expect("a directory")).expect("removed");
    }
    cluster.run(0);
    wait_for("the next life of the node to know the holder", || {
        cluster.token(&place, 0, "x") == Some(token)
    });
    wait_for("locks to be granted again", || cluster.is_granting(&place, 1));
    assert!(!file.exists(), "two were inside");
    assert_eq!(cluster.token(&place, 0, "x"), Some(token));
    holder.let_go();
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
    assert!(file.exists());
}

#[test]
fn who_waits_for_a_member_that_is_gone_is_told_which() {
    let place = Place::new();
    let mut cluster = Cluster::start(&place);
    let a = cluster.endpoint(0);
    cluster.kill(1);
    wait_for("the view to end", || !cluster.is_granting(&place, 0));
    for options in [["-w", "3"], ["-w", "0"]] {
        let all = [&options[..], &["--endpoint", &a, "x"]].concat();
        let output = place.lock(&all, &["true"]).output().expect("run");
        assert_eq!(output.status.code(), Some(69));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("not connected to b"), "{said}");
    }
}

#[test]
fn no_lone_node_is_started_in_the_place_of_a_configured_one() {
    let place = Place::new();
    let mut cluster = Cluster::start(&place);
    let beside = |variable: &str, value: &std::path::Path| {
        let mut command = place.lock(&["-n", "x"], &["true"]);
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
fn a_node_whose_place_is_not_private_is_not_started() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let directory = place.socket().with_extension("d");
    fs::create_dir(&directory).expect("made");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("set");
    let output = place.lock(&["x"], &["true"]).output().expect("run");
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains("mode 0700"));
}

#[test]
fn who_holds_without_a_command_is_gone_before_the_next_is_in() {
    let place = Place::new();
    assert!(place.lock(&["x"], &["true"]).status().expect("run").success());
    let link = Link::new(&place.socket());
    let mut first = place.command(&["lock", "--ttl", "8", "--endpoint", &link.endpoint(), "x"]);
    first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = first.spawn().expect("run");
    let mut token = String::new();
    let stdout = first.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut token).expect("read");
    // One that has ended is a zombie until it is waited for below.
    let look = format!("! grep -q '^[0-9]* (mutua) [^Z]' /proc/{}/stat", first.id());
    let next = place.lock(&["x"], &["sh", "-c", &look]).stderr(Stdio::null()).spawn();
    wait_for("the next one to wait", || place.show("x").contains("\"waiting\":[{"));
    link.fall_silent();
    assert_eq!(next.expect("run").wait().expect("ended").code(), Some(0), "both were inside");
    assert_eq!(first.wait().expect("ended").code(), Some(79));
}
