//! `mutua lock` with one local node.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

use crate::scene::{Scene, alive, kill, supervisors, wait_for};

#[test]
fn the_command_runs_with_the_environment_of_the_lock_and_its_exit_code_is_passed_on() {
    let scene = Scene::new();
    let text =
        "echo $LOCK_NAME $LOCK_TTL_MS $LOCK_OWNER $LOCK_SOCKET; test $LOCK_TOKEN -gt 0; exit 7";
    let options = ["-q", "--owner", "ann", "a b"];
    let output = scene.lock(&options, &["sh", "-c", text]).output().expect("run");
    assert_eq!(output.status.code(), Some(7));
    let expected = format!("a b 10000 ann unix:{}\n", scene.socket().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_environment_has_the_lease_that_the_node_allows() {
    let scene = Scene::new();
    let command = scene.lock(&["--ttl", "2h", "x"], &["sh", "-c", "echo $LOCK_TTL_MS"]).output();
    assert_eq!(String::from_utf8_lossy(&command.expect("run").stdout), "600000\n");
}

#[test]
fn a_try_while_grants_are_suspended_does_not_say_that_the_lock_is_held() {
    let scene = Scene::new();
    let mut holder = scene.holder_with("x", &["--ttl", "60s"]);
    // Without it the next node does not know which names were held.
    fs::remove_file(scene.path().join("s.d/holds")).expect("there");
    kill("-KILL", scene.node_pid());
    wait_for("the next node", || scene.node_pid() != 0);
    let code = |name| {
        let tried = scene.lock(&["-n", name], &["true"]).output().expect("run");
        tried.status.code()
    };
    wait_for("the holder to be known", || code("x") == Some(75));
    assert_eq!(code("other"), Some(69));
    holder.release();
}

#[test]
fn standard_input_passes_through() {
    let scene = Scene::new();
    let mut child = scene
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
fn a_command_that_cannot_be_run_has_the_shells_exit_codes_and_releases_the_lock() {
    let scene = Scene::new();
    for (command, code) in [("/nonexistent/command", 127), ("/etc/passwd", 126)] {
        let status = scene.lock(&["x"], &[command]).stderr(Stdio::null()).status().expect("run");
        assert_eq!(status.code(), Some(code));
    }
    assert_eq!(scene.lock(&["-n", "x"], &["true"]).status().expect("run").code(), Some(0));
}

#[test]
fn a_busy_lock_is_not_acquired_by_trying_or_waiting_a_little() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let code = |options: &[&str]| {
        let mut all = options.to_vec();
        all.push("x");
        scene.lock(&all, &["true"]).stderr(Stdio::null()).status().expect("run").code()
    };
    assert_eq!(code(&["-n"]), Some(75));
    assert_eq!(code(&["-w", "0.1"]), Some(75));
    assert_eq!(code(&["-w", "0", "-E", "5"]), Some(5));
    assert_eq!(scene.lock(&["-n", "y"], &["true"]).status().expect("run").code(), Some(0));
    holder.release();
    assert_eq!(code(&["-w", "5"]), Some(0));
}

#[test]
fn a_nested_lock_of_the_same_name_is_refused_at_once() {
    let scene = Scene::new();
    let inner = scene.mutua();
    let output = scene.lock(&["x"], &[inner, "lock", "y", "--", inner, "lock", "x", "--", "true"]);
    let output = { output }.output().expect("run");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("already held"));
}

#[test]
fn a_command_that_dies_of_a_signal_exits_with_its_number() {
    let scene = Scene::new();
    let status = scene.lock(&["x"], &["sh", "-c", "kill -USR1 $$"]).status().expect("run");
    assert_eq!(status.code(), Some(128 + 10));
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let scene = Scene::new();
    let mut command = scene
        .lock(&["x"], &["sh", "-c", "trap 'exit 42' TERM; echo up; while :; do sleep 0.05; done"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("run");
    let mut line = [0; 3];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("up");
    kill("-TERM", child.id());
    assert_eq!(child.wait().expect("ended").code(), Some(42));
}

#[test]
fn a_waiter_that_gets_a_signal_leaves_the_queue() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let mut waiter = scene.lock(&["x"], &["true"]).spawn().expect("run");
    wait_for("the waiter to wait", || scene.show("x").contains("\"waiting\":[{"));
    kill("-INT", waiter.id());
    // Its parent sees a process that the signal killed, so that a loop around it ends.
    assert_eq!(waiter.wait().expect("ended").signal(), Some(2));
    wait_for("the queue to be empty", || scene.show("x").contains("\"waiting\":[]"));
    holder.release();
}

/// Starts a command that starts more processes, and returns their ids, which it has written.
fn tree(
    scene: &Scene,
    options: &[&str],
    script: &str,
    count: usize,
) -> (std::process::Child, Vec<u32>) {
    let file = scene.path().join("pids");
    let script = script.replace("PIDS", file.to_str().expect("text"));
    let child = scene.lock(options, &["sh", "-c", &script]).stderr(Stdio::null()).spawn();
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
fn no_process_is_left_when_mutua_is_killed() {
    for script in [SIMPLE, DOUBLE] {
        let scene = Scene::new();
        let (mut child, pids) = tree(&scene, &["--ttl", "2", "x"], script, 2);
        kill("-KILL", child.id());
        child.wait().expect("dead");
        wait_for("all to be ended", || pids.iter().all(|&pid| !alive(pid)));
        // Its supervisor has ended the session, long before the lease would have expired.
        let next = scene.lock(&["-w", "5", "x"], &["true"]).status().expect("run");
        assert_eq!(next.code(), Some(0));
    }
}

#[test]
fn no_process_is_left_when_the_supervisor_is_killed() {
    for script in [SIMPLE, DOUBLE] {
        let scene = Scene::new();
        let (mut child, pids) = tree(&scene, &["x"], script, 2);
        let supervisor = crate::scene::supervisors(child.id());
        let supervisor = supervisor.first().expect("the supervisor");
        kill("-KILL", *supervisor);
        assert_eq!(child.wait().expect("ended").code(), Some(70));
        assert!(pids.iter().all(|&pid| !alive(pid)), "all are killed before mutua exits");
    }
}

#[test]
fn a_stopped_mutua_loses_the_lock_and_its_command_is_killed_before_the_next_grant() {
    let scene = Scene::new();
    let (mut child, pids) = tree(&scene, &["--ttl", "2", "x"], DOUBLE, 2);
    kill("-STOP", child.id());
    let next = scene.lock(&["-w", "20", "x"], &["cat", "/dev/null"]).status().expect("run");
    assert!(pids.iter().all(|&pid| !alive(pid)), "killed before the next grant");
    assert_eq!(next.code(), Some(0));
    kill("-CONT", child.id());
    assert_eq!(child.wait().expect("ended").code(), Some(79));
}

#[test]
fn a_killed_waiter_is_never_granted_the_lock_and_delays_no_other() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let file = scene.path().join("ran");
    let mut waiter =
        scene.lock(&["x"], &["touch", file.to_str().expect("text")]).spawn().expect("run");
    wait_for("the waiter to wait", || scene.show("x").contains("\"waiting\":[{"));
    kill("-KILL", waiter.id());
    waiter.wait().expect("dead");
    holder.release();
    let next = scene.lock(&["-w", "5", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
    assert!(!file.exists());
}

#[test]
fn a_killed_node_is_replaced_and_the_command_keeps_the_lock() {
    let scene = Scene::new();
    let mut holder = scene.holder_with("x", &["--ttl", "3"]);
    let before = scene.show("x");
    let node = scene.node_pid();
    kill("-KILL", node);
    wait_for("the next node to know the holder", || {
        let now = scene.show("x");
        scene.node_pid() != node && now.contains("\"holder\":{") && token(&now) == token(&before)
    });
    let busy = scene.lock(&["-n", "x"], &["true"]).stderr(Stdio::null()).status().expect("run");
    assert_eq!(busy.code(), Some(75), "it is still held");
    holder.release();
    let next = scene.lock(&["-w", "20", "x"], &["true"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
}

fn token(state: &str) -> Option<&str> {
    state.split("\"fencing_token\":\"").nth(1)?.split('"').next()
}

#[test]
fn a_fencing_token_is_current_until_the_lock_is_broken_and_its_command_is_killed() {
    let scene = Scene::new();
    let (mut child, pids) = tree(&scene, &["x"], SIMPLE, 2);
    let state = scene.show("x");
    let fence = token(&state).expect("a token").to_owned();
    let verify = |token: &str| scene.command(&["verify", "x", token]).status().expect("run").code();
    assert_eq!(verify(&fence), Some(0));
    assert_eq!(verify("1"), Some(1));
    let broken =
        scene.command(&["break", "x", "--reason", "stuck", "--yes"]).output().expect("run");
    assert!(broken.status.success(), "{}", String::from_utf8_lossy(&broken.stderr));
    assert_eq!(child.wait().expect("ended").code(), Some(79));
    assert!(pids.iter().all(|&pid| !alive(pid)));
    assert_eq!(verify(&fence), Some(1));
    let none = scene.command(&["break", "x", "--reason", "again", "--yes"]).output().expect("run");
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn many_clients_at_once_start_one_node_and_hold_the_lock_one_at_a_time() {
    let scene = Scene::new();
    let account = scene.path().join("account");
    fs::write(&account, "0").expect("written");
    let script = format!("n=$(cat {0}); echo $((n + 1)) > {0}", account.display());
    let children: Vec<_> =
        (0..40).map(|_| scene.lock(&["x"], &["sh", "-c", &script]).spawn().expect("run")).collect();
    for mut child in children {
        assert_eq!(child.wait().expect("ended").code(), Some(0));
    }
    assert_eq!(fs::read_to_string(&account).expect("read").trim(), "40");
}

#[test]
fn every_kind_of_login_uses_the_same_node() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let environments: [&[(&str, &str)]; 3] = [
        &[],
        &[("XDG_RUNTIME_DIR", "/run/user/9"), ("HOME", "/nonexistent"), ("TMPDIR", "/nonexistent")],
        &[("INVOCATION_ID", "0"), ("PATH", "/usr/bin:/bin")],
    ];
    for environment in environments {
        let mut command = Command::new(scene.mutua());
        command.args(["lock", "-n", "x", "--", "true"]).env_clear().stderr(Stdio::null());
        // All tests of a user share the default endpoint, so another is named here.
        command.env("MUTUA_SOCKET", scene.socket()).envs(environment.iter().copied());
        assert_eq!(command.status().expect("run").code(), Some(75));
    }
    holder.release();
}

#[test]
fn the_status_descriptor_reports_events() {
    let scene = Scene::new();
    let file = scene.path().join("status");
    let script =
        format!("exec {} lock --status-fd 3 x -- false 3>{}", scene.mutua(), file.display());
    let status = scene.shell(&script).status().expect("run");
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
fn bad_usage_is_refused_with_the_correct_one() {
    let scene = Scene::new();
    let long = "n".repeat(5000);
    let wrong: [(&[&str], &str); 6] = [
        (&["lock", "x"], "COMMAND is missing"),
        (&["lock", "", "--", "true"], "name is empty"),
        (&["lock", &long, "--", "true"], "5000 bytes: at most 4096"),
        (&["lock", "--ttl", "0", "x", "--", "true"], "at least 1s"),
        // Descriptors that are not open, although mutua opens some for itself.
        (&["lock", "--status-fd", "3", "x", "--", "true"], "3>FILE opens 3"),
        (&["lock", "--status-fd", "9", "x", "--", "true"], "3>FILE opens 3"),
    ];
    for (arguments, right) in wrong {
        let output = scene.command(arguments).output().expect("run");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {printed}");
        assert!(printed.contains(right), "{arguments:?}: {printed}");
    }
}

#[test]
fn an_idle_node_exits() {
    let scene = Scene::idle_after(Duration::from_millis(300));
    assert!(scene.lock(&["x"], &["true"]).status().expect("run").success());
    let node = scene.node_pid();
    wait_for("the node to leave", || !alive(node));
    assert!(!scene.socket().exists());
}

#[test]
fn every_process_is_named_mutua() {
    let scene = Scene::new();
    let mut command = scene.lock(&["x"], &["sh", "-c", "echo in; cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    let supervisors = supervisors(child.id());
    assert_eq!(supervisors.len(), 1);
    for pid in [child.id(), scene.node_pid(), supervisors[0]] {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
        assert_eq!(name, "mutua\n");
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

#[test]
fn top_shows_locks_holders_and_queues_once_as_text() {
    let scene = Scene::new();
    let mut holder = scene.holder_with("x", &["--owner", "ann"]);
    let mut waiter = scene.lock(&["--owner", "bob", "x"], &["true"]).spawn().expect("run");
    wait_for("the waiter", || scene.show("x").contains("\"owner\":\"bob\""));
    let top = ["top", "--once", "--interval", "100ms"];
    let output = scene.command(&top).output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["locks are granted", "held 1, waiting 1; here", "ann (pid", "WAITING FOR x", "bob"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    // In a pipe nothing is cut.
    assert!(text.contains("`sh -c echo in; cat`\n"), "{text}");
    let bytes = text.bytes();
    assert!(bytes.clone().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "plain text");
    // Without a terminal a live view is bad usage, as is an interval that is too short.
    for arguments in [&["top"][..], &["top", "--once", "--interval", "1ms"]] {
        let output = scene.command(arguments).output().expect("run");
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    }
    holder.release();
    assert!(waiter.wait().expect("ended").success());
}
