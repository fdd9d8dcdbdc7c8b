//! Scripts that were written for flock: its options, the form without `--`, and its descriptor
//! form.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use crate::scene::{Scene, alive, kill, wait_for};

/// A process that ends with the test.
struct Ends(u32);

impl Drop for Ends {
    fn drop(&mut self) {
        kill("-KILL", self.0);
    }
}

/// The exit code of a command, and its standard error.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn code(scene: &Scene, arguments: &[&str]) -> Option<i32> {
    let mut command = scene.command(&[&["lock"], arguments].concat());
    command.stderr(Stdio::null()).status().expect("run").code()
}

/// A script; `M` is mutua, `F` a file of this test.
fn script(scene: &Scene, text: &str) -> Command {
    let mut command = scene.shell(text);
    command.env("M", scene.mutua()).env("F", scene.path().join("file"));
    command
}

/// A script that runs until its standard input ends, and the lines that it writes.
fn running(command: &mut Command) -> (Child, impl FnMut() -> String + use<>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
    let stdout: ChildStdout = child.stdout.take().expect("a pipe");
    let mut stdout = BufReader::new(stdout);
    let line = move || {
        let mut line = String::new();
        stdout.read_line(&mut line).expect("read");
        line.trim().to_owned()
    };
    (child, line)
}

#[test]
fn a_lock_without_a_command_is_refused_with_what_to_write() {
    let scene = Scene::new();
    let file = scene.path().join("input");
    fs::write(&file, "text\n").expect("written");
    let cases: [(&[&str], &str); 6] = [
        (&["x"], "--hold"),
        (&["-n", "9"], "mutua lock --fd 9 NAME"),
        (&["--hold", "9"], "mutua lock --fd 9 NAME"),
        (&["--hold", "x"], "standard input"),
        (&["--hold", "x", "true"], "--hold"),
        (&["--fd", "9", "x", "true"], "--fd"),
    ];
    for (arguments, why) in cases {
        let arguments = [&["lock"], arguments].concat();
        for input in [Stdio::null(), Stdio::from(File::open(&file).expect("there"))] {
            let (code, text) = ended(scene.command(&arguments).stdin(input));
            assert_eq!(code, Some(64), "{arguments:?}: {text}");
            assert!(text.contains(why), "{arguments:?}: {text}");
        }
    }
    // What cron ran for years must not seem to have worked.
    let mut cron = script(&scene, "( $M lock -n 9 || exit 1; echo job ) 9>$F");
    let output = cron.output().expect("run");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    assert_eq!(scene.node_pid(), 0, "nothing was done");
}

#[test]
fn a_lock_is_held_without_a_command_until_the_end_of_a_pipe() {
    let scene = Scene::new();
    let (mut holder, mut line) = running(&mut scene.command(&["lock", "--hold", "x"]));
    assert!(line().parse::<u64>().is_ok_and(|token| token > 0));
    assert_eq!(code(&scene, &["-n", "x", "true"]), Some(75));
    drop(holder.stdin.take());
    assert_eq!(holder.wait().expect("ended").code(), Some(0));
    assert_eq!(code(&scene, &["-n", "x", "true"]), Some(0));
}

const FORM: &str = "( $M lock -n --fd 9 x || exit $?; echo in; cat ) 9>$F";

#[test]
fn of_two_scripts_with_the_descriptor_form_one_runs() {
    let scene = Scene::new();
    let (mut first, mut line) = running(&mut script(&scene, FORM));
    let token: u64 = line().parse().expect("a fencing token");
    assert_eq!(line(), "in");
    let verified = scene.command(&["verify", "x", &token.to_string()]).status().expect("run");
    assert!(verified.success());
    for other in [FORM, "$M lock -n x true"] {
        assert_eq!(ended(&mut script(&scene, other)).0, Some(75), "{other}");
    }
    drop(first.stdin.take());
    assert_eq!(first.wait().expect("ended").code(), Some(0));
    let later = "( $M lock -w 20 --fd 9 x >/dev/null || exit $?; echo in ) 9>$F";
    assert_eq!(ended(&mut script(&scene, later)).0, Some(0));
    assert_eq!(code(&scene, &["-w", "20", "x", "true"]), Some(0));
}

#[test]
fn the_next_script_waits_for_the_descriptor() {
    let scene = Scene::new();
    let (mut first, mut line) = running(&mut script(&scene, FORM));
    assert!(!line().is_empty() && line() == "in");
    let mut waits = script(&scene, "( token=$($M lock --fd 9 x 2>&1) && echo $token in ) 9>$F");
    let (mut waits, mut next) = running(&mut waits);
    wait_for("the next script to wait", || scene.show("x").contains("\"waiting\":[{"));
    drop(first.stdin.take());
    assert!(next().ends_with(" in"));
    assert_eq!(waits.wait().expect("ended").code(), Some(0));
    assert_eq!(first.wait().expect("ended").code(), Some(0));
}

#[test]
fn children_that_inherit_the_descriptor_keep_the_lock() {
    let scene = Scene::new();
    let text = "( $M lock -n --fd 9 x >/dev/null || exit 1; sleep 99 >/dev/null 2>&1 & echo $!
                ) 9>$F";
    let output = script(&scene, text).output().expect("run");
    assert_eq!(output.status.code(), Some(0));
    let child = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a process");
    let child = Ends(child);
    assert_eq!(code(&scene, &["-n", "x", "true"]), Some(75));
    drop(child);
    assert_eq!(code(&scene, &["-w", "20", "x", "true"]), Some(0));
}

#[test]
fn a_killed_script_releases_the_lock_and_a_closed_descriptor_does() {
    let scene = Scene::new();
    let text = "exec 9>$F; $M lock -n --fd 9 x; exec cat";
    let (mut killed, mut line) = running(&mut script(&scene, text));
    assert!(!line().is_empty());
    assert_eq!(code(&scene, &["-n", "x", "true"]), Some(75));
    killed.kill().expect("killed");
    killed.wait().expect("dead");
    let text = "exec 9>$F; $M lock -w 20 --fd 9 x; exec 9>&-; $M lock -w 20 x echo free";
    let output = script(&scene, text).output().expect("run");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("free\n"));
}

#[test]
fn a_script_that_is_killed_while_it_waits_acquires_nothing() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let mut waits = script(&scene, "exec 9>$F; exec $M lock --fd 9 x").spawn().expect("run");
    wait_for("it to wait", || scene.show("x").contains("\"waiting\":[{"));
    waits.kill().expect("killed");
    waits.wait().expect("dead");
    wait_for("the queue to be empty", || scene.show("x").contains("\"waiting\":[]"));
    holder.release();
    assert_eq!(code(&scene, &["-w", "20", "x", "true"]), Some(0));
}

#[test]
fn when_the_lock_is_lost_the_processes_with_the_descriptor_are_ended_and_no_others() {
    let scene = Scene::new();
    let text = "exec 9>$F; $M lock --fd 9 x; sleep 99 & echo $!; trap '' TERM; wait; cat";
    let (job, mut line) = running(script(&scene, text).stderr(Stdio::piped()));
    assert!(!line().is_empty());
    let child = Ends(line().parse().expect("a process"));
    // It has the same file open, by a description of its own.
    let next = "( $M lock --fd 9 x >/dev/null || exit $?; echo in ) 9>$F";
    let (mut next, mut entered) = running(&mut script(&scene, next));
    wait_for("the next script to wait", || scene.show("x").contains("\"waiting\":[{"));
    let broken = scene.command(&["break", "x", "--reason", "test", "--yes"]).output();
    assert!(broken.expect("run").status.success());
    assert_eq!(entered(), "in");
    assert!(!alive(child.0), "killed before the next grant");
    assert_eq!(next.wait().expect("ended").code(), Some(0));
    let output = job.wait_with_output().expect("ended");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("x is lost"), "{text}");
}

#[test]
fn a_descriptor_that_cannot_hold_a_lock_is_refused() {
    let scene = Scene::new();
    for (text, why) in [
        ("$M lock --fd 9 x", "not open"),
        ("$M lock --fd 1 x", "3 or more"),
        ("$M lock --fd 9 x 9>/dev/null", "regular file or directory"),
        ("true | $M lock --fd 9 x 9<&0", "regular file or directory"),
    ] {
        let (code, text) = ended(&mut script(&scene, text));
        assert_eq!(code, Some(64), "{text}");
        assert!(text.contains(why), "{text}");
    }
    // The same file is locked by flock: the lock is not granted beside that.
    let text = "flock $F sh -c '( $M lock --fd 9 x ) 9>$F'";
    let (code, text) = ended(&mut script(&scene, text));
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains("flock"), "{text}");
    assert_eq!(ended(&mut script(&scene, "$M lock -w 20 --fd 9 x 9<$F 9</")).0, Some(0));
}

#[test]
fn the_options_of_flock_are_accepted() {
    let scene = Scene::new();
    let (mut holder, mut busy) = (scene.holder("busy"), Vec::new());
    for options in [&["-n"][..], &["--nb"], &["--nonblock"], &["--nonblocking"], &["-w", "0.1"]] {
        busy.push(options);
    }
    busy.extend([&["--timeout", "0.1"][..], &["--wait", "0.1"], &["-xn"], &["-n", "-e", "-o"]]);
    for options in busy {
        assert_eq!(code(&scene, &[options, &["busy", "true"]].concat()), Some(75), "{options:?}");
        let other = [options, &["-E", "9", "busy", "-c", "true"]].concat();
        assert_eq!(code(&scene, &other), Some(9), "{other:?}");
    }
    for options in [&["--exclusive"][..], &["-F"], &["--no-fork"], &["--close"], &["--verbose"]] {
        assert_eq!(code(&scene, &[options, &["x", "sh", "-c", "exit 4"]].concat()), Some(4));
    }
    assert_eq!(code(&scene, &["--conflict-exit-code", "7", "-n", "busy", "true"]), Some(7));
    holder.release();
    for (arguments, why) in [
        (&["-s", "x", "true"][..], "every lock is exclusive"),
        (&["--shared", "-n", "x", "true"], "every lock is exclusive"),
        (&["-u", "9"], "exec 9>&-"),
        (&["--unlock", "x", "true"], "exec 9>&-"),
    ] {
        let (code, text) = ended(&mut scene.command(&[&["lock"], arguments].concat()));
        assert_eq!(code, Some(64), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
}

#[test]
fn what_follows_the_name_is_the_command_with_its_own_options() {
    let scene = Scene::new();
    let written = |arguments: &[&str]| {
        let output = scene.command(&[&["lock"], arguments].concat()).output().expect("run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(written(&["x", "printf", "%s ", "-n", "--", "-w"]), "-n -- -w ");
    assert_eq!(written(&["-n", "x", "--", "printf", "%s ", "-n", "--"]), "-n -- ");
    assert_eq!(written(&["x", "-c", "echo $LOCK_NAME"]), "x\n");
    assert_eq!(written(&["--name=-x", "--", "printf", "%s", "-y"]), "-y");
    for (arguments, why) in [
        // A variable with the name that is not set: its command must not become the name.
        (&["--", "cp", "a", "b"][..], "NAME"),
        (&["-n", "--", "cp"], "NAME"),
        (&["--name=-x", "echo", "--", "a"], "after `--`"),
        (&["x", "-c", "true", "true"], "cannot be used with"),
    ] {
        let (code, text) = ended(&mut scene.command(&[&["lock"], arguments].concat()));
        assert_eq!(code, Some(64), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
}

#[test]
fn a_lock_is_released_where_its_fencing_token_cannot_be_written() {
    let scene = Scene::new();
    let form = "( $M lock -n --ttl 60s --fd 9 x >/dev/full ) 9>$F";
    let (code, error) = ended(&mut script(&scene, form));
    assert!(code == Some(73) && error.contains("standard output"), "{code:?}: {error}");
    assert_eq!(self::code(&scene, &["-n", "x", "true"]), Some(0));
    let hold = "sleep 2 | $M lock --hold --ttl 60s x >/dev/full";
    assert_eq!(ended(&mut script(&scene, hold)).0, Some(73));
    assert_eq!(self::code(&scene, &["-n", "x", "true"]), Some(0));
}
