//! `mutua lock` with real processes, each test at a place and a node of its own.

#[path = "lock/place.rs"]
mod place;

use std::{
    fs,
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

use place::{Place, alive, kill, wait_for};

#[test]
fn the_command_runs_inside_with_its_environment_and_its_exit_code() {
    let place = Place::new();
    let text =
        "echo $LOCK_NAME $LOCK_TTL_MS $LOCK_OWNER $LOCK_SOCKET; test $LOCK_TOKEN -gt 0; exit 7";
    let options = ["-q", "--owner", "ann", "a b"];
    let output = place.lock(&options, &["sh", "-c", text]).output().expect("run");
    assert_eq!(output.status.code(), Some(7));
    let expected = format!("a b 10000 ann unix:{}\n", place.socket().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn standard_input_passes_through() {
    let place = Place::new();
    let mut child = place
        .lock(&["x"], &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run");
    child.stdin.take().expect("a pipe").write_all(b"through\n").expect("written");
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.stdout, b"through\n");
}

#[test]
fn what_cannot_be_run_has_the_shells_exit_codes_and_frees_the_lock() {
    let place = Place::new();
    for (command, code) in [("/nonexistent/command", 127), ("/etc/passwd", 126)] {
        let status = place.lock(&["x"], &[command]).stderr(Stdio::null()).status().expect("run");
        assert_eq!(status.code(), Some(code));
    }
    assert_eq!(place.lock(&["-n", "x"], &["true"]).status().expect("run").code(), Some(0));
}

#[test]
fn a_busy_lock_is_not_acquired_by_trying_or_waiting_a_little() {
    let place = Place::new();
    let mut holder = place.holder("x");
    let code = |options: &[&str]| {
        let mut all = options.to_vec();
        all.push("x");
        place.lock(&all, &["true"]).stderr(Stdio::null()).status().expect("run").code()
    };
    assert_eq!(code(&["-n"]), Some(75));
    assert_eq!(code(&["-w", "0.1"]), Some(75));
    assert_eq!(code(&["-w", "0", "-E", "5"]), Some(5));
    assert_eq!(place.lock(&["-n", "y"], &["true"]).status().expect("run").code(), Some(0));
    holder.let_go();
    assert_eq!(code(&["-w", "5"]), Some(0));
}

#[test]
fn a_lock_within_itself_is_refused_at_once() {
    let place = Place::new();
    let inner = place.mutua();
    let output = place.lock(&["x"], &[inner, "lock", "y", "--", inner, "lock", "x", "--", "true"]);
    let output = { output }.output().expect("run");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("held already"));
}

#[test]
fn a_command_that_dies_of_a_signal_exits_with_its_number() {
    let place = Place::new();
    let status = place.lock(&["x"], &["sh", "-c", "kill -USR1 $$"]).status().expect("run");
    assert_eq!(status.code(), Some(128 + 10));
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let place = Place::new();
    let mut command = place
        .lock(&["x"], &["sh", "-c", "trap 'exit 42' TERM; echo up; while :; do sleep 0.05; done"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("run");
    let mut line = [0; 3];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("up");
    kill("-TERM", child.id());
    assert_eq!(child.wait().expect("ended").code(), Some(42));
}

#[test]
fn a_waiter_that_gets_a_signal_leaves_the_line() {
    let place = Place::new();
    let mut holder = place.holder("x");
    let mut waiter = place.lock(&["x"], &["true"]).spawn().expect("run");
    wait_for("the waiter to wait", || place.show("x").contains("\"waiting\":[{"));
    kill("-INT", waiter.id());
    // It dies of it, as far as its parent can see, so that a loop around it ends.
    assert_eq!(waiter.wait().expect("ended").signal(), Some(2));
    wait_for("the line to be empty", || place.show("x").contains("\"waiting\":[]"));
    holder.let_go();
}

/// Starts a command that starts more, and gives the processes that it wrote down.
fn tree(
    place: &Place,
    options: &[&str],
    script: &str,
    count: usize,
) -> (std::process::Child, Vec<u32>) {
    let file = place.path().join("pids");
    let script = script.replace("PIDS", file.to_str().expect("text"));
    let child = place.lock(options, &["sh", "-c", &script]).stderr(Stdio::null()).spawn();
    let child = child.expect("run");
    let pids = || -> Vec<u32> {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    wait_for("the processes to start", || pids().len() == count);
    (child, pids())
}

const SIMPLE: &str = "sleep 99 & echo $! >> PIDS; echo $$ >> PIDS; sleep 99";
const DOUBLE: &str = "(setsid sh -c 'echo $$ >> PIDS; exec sleep 99' &) ; echo $$ >> PIDS; \
                      trap '' TERM HUP; sleep 99";

#[test]
fn nothing_is_left_when_mutua_is_killed() {
    for script in [SIMPLE, DOUBLE] {
        let place = Place::new();
        let (mut child, pids) = tree(&place, &["--ttl", "2", "x"], script, 2);
        kill("-KILL", child.id());
        child.wait().expect("dead");
        wait_for("all to be ended", || pids.iter().all(|&pid| !alive(pid)));
        // Its guard has said goodbye, long before the lease would have run out.
        let next = place.lock(&["-w", "5", "x"], &["true"]).status().expect("run");
        assert_eq!(next.code(), Some(0));
    }
}

#[test]
fn nothing_is_left_when_the_guard_is_killed() {
    for script in [SIMPLE, DOUBLE] {
        let place = Place::new();
        let (mut child, pids) = tree(&place, &["x"], script, 2);
        let guard = place::children(child.id());
        let guard = guard.first().expect("the guard");
        kill("-KILL", *guard);
        assert_eq!(child.wait().expect("ended").code(), Some(70));
        assert!(pids.iter().all(|&pid| !alive(pid)), "all is ended before mutua is");
    }
}

#[test]
fn a_stopped_mutua_loses_the_lock_and_its_command_is_ended_before_the_next_gets_in() {
    let place = Place::new();
    let (mut child, pids) = tree(&place, &["--ttl", "2", "x"], DOUBLE, 2);
    kill("-STOP", child.id());
    let next = place.lock(&["-w", "20", "x"], &["cat", "/dev/null"]).status().expect("run");
    assert!(pids.iter().all(|&pid| !alive(pid)), "ended before the next one got in");
    assert_eq!(next.code(), Some(0));
    kill("-CONT", child.id());
    assert_eq!(child.wait().expect("ended").code(), Some(79));
}

#[test]
fn a_killed_waiter_is_never_let_in_and_holds_nobody_up() {
    let place = Place::new();
    let mut holder = place.holder("x");
    let file = place.path().join("ran");
    let mut waiter =
        place.lock(&["x"], &["touch", file.to_str().expect("text")]).spawn().expect("run");
    wait_for("the waiter to wait", || place.show("x").contains("\"waiting\":[{"));
    kill("-KILL", waiter.id());
    waiter.wait().expect("dead");
    holder.let_go();
    let next = place.lock(&["-w", "5", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
    assert!(!file.exists());
}

#[test]
fn a_killed_node_is_followed_by_the_next_and_the_command_goes_on() {
    let place = Place::new();
    let mut holder = place.holder_with("x", &["--ttl", "3"]);
    let before = place.show("x");
    let node = place.node_pid();
    kill("-KILL", node);
    wait_for("the next node to know the holder", || {
        let now = place.show("x");
        place.node_pid() != node && now.contains("\"holder\":{") && token(&now) == token(&before)
    });
    let busy = place.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75), "it is still inside");
    holder.let_go();
    let next = place.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

fn token(state: &str) -> Option<&str> {
    state.split("\"token\":\"").nth(1)?.split('"').next()
}

#[test]
fn a_token_is_verified_until_it_is_broken_and_the_broken_command_is_stopped() {
    let place = Place::new();
    let (mut child, pids) = tree(&place, &["x"], SIMPLE, 2);
    let state = place.show("x");
    let fence = token(&state).expect("a token").to_owned();
    let verify = |token: &str| place.command(&["verify", "x", token]).status().expect("run").code();
    assert_eq!(verify(&fence), Some(0));
    assert_eq!(verify("1"), Some(1));
    let broken =
        place.command(&["break", "x", "--reason", "stuck", "--yes"]).output().expect("run");
    assert!(broken.status.success(), "{}", String::from_utf8_lossy(&broken.stderr));
    assert_eq!(child.wait().expect("ended").code(), Some(79));
    assert!(pids.iter().all(|&pid| !alive(pid)));
    assert_eq!(verify(&fence), Some(1));
    let none = place.command(&["break", "x", "--reason", "again", "--yes"]).output().expect("run");
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn many_at_once_start_one_node_and_get_in_one_at_a_time() {
    let place = Place::new();
    let account = place.path().join("account");
    fs::write(&account, "0").expect("written");
    let script = format!("n=$(cat {0}); echo $((n + 1)) > {0}", account.display());
    let children: Vec<_> =
        (0..40).map(|_| place.lock(&["x"], &["sh", "-c", &script]).spawn().expect("run")).collect();
    for mut child in children {
        assert_eq!(child.wait().expect("ended").code(), Some(0));
    }
    assert_eq!(fs::read_to_string(&account).expect("read").trim(), "40");
}

#[test]
fn every_kind_of_login_meets_at_the_same_place() {
    let place = Place::new();
    let mut holder = place.holder("x");
    let environments: [&[(&str, &str)]; 3] = [
        &[],
        &[("XDG_RUNTIME_DIR", "/run/user/9"), ("HOME", "/nonexistent"), ("TMPDIR", "/nonexistent")],
        &[("INVOCATION_ID", "0"), ("PATH", "/usr/bin:/bin")],
    ];
    for environment in environments {
        let mut command = Command::new(place.mutua());
        command.args(["lock", "-n", "x", "--", "true"]).env_clear().stderr(Stdio::null());
        // The default place is one for all tests of a user, so its name is given here.
        command.env("MUTUA_SOCKET", place.socket()).envs(environment.iter().copied());
        assert_eq!(command.status().expect("run").code(), Some(75));
    }
    holder.let_go();
}

#[test]
fn the_status_descriptor_tells_what_happened() {
    let place = Place::new();
    let file = place.path().join("status");
    let script =
        format!("exec {} lock --status-fd 3 x -- false 3>{}", place.mutua(), file.display());
    let status = place.shell(&script).status().expect("run");
    assert_eq!(status.code(), Some(1));
    let text = fs::read_to_string(file).expect("written");
    let events: Vec<_> = text.lines().filter_map(|line| line.split('"').nth(3)).collect();
    let words: Vec<_> = ["acquired", "ended", "released"]
        .into_iter()
        .filter(|word| text.contains(&format!("\"event\":\"{word}\"")))
        .collect();
    assert_eq!(words, ["acquired", "ended", "released"], "{events:?}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_would_be_right() {
    let place = Place::new();
    let long = "n".repeat(5000);
    let wrong: [(&[&str], &str); 6] = [
        (&["lock", "x", "true"], "The command goes after `--`"),
        (&["lock", "", "--", "true"], "name is empty"),
        (&["lock", &long, "--", "true"], "5000 bytes; it may have 4096"),
        (&["lock", "--ttl", "0", "x", "--", "true"], "at least 1s"),
        // Descriptors that nobody opened, whatever mutua opens for itself.
        (&["lock", "--status-fd", "3", "x", "--", "true"], "3>FILE opens 3"),
        (&["lock", "--status-fd", "9", "x", "--", "true"], "3>FILE opens 3"),
    ];
    for (arguments, right) in wrong {
        let output = place.command(arguments).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        assert!(said.contains(right), "{arguments:?}: {said}");
    }
}

#[test]
fn an_idle_node_leaves() {
    let place = Place::idle_after(Duration::from_millis(300));
    assert!(place.lock(&["x"], &["true"]).status().expect("run").success());
    let node = place.node_pid();
    wait_for("the node to leave", || !alive(node));
    assert!(!place.socket().exists());
}
