//! The command of `mutua lock`: process groups, signals, and its exit.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use crate::scene::{Scene, alive, kill, supervisors, wait_for};

/// A process that dies with the test.
struct Ends(u32);

impl Drop for Ends {
    fn drop(&mut self) {
        kill("-KILL", self.0);
    }
}

/// A job that detects by a file whether two jobs overlap, and is slow to exit.
struct Witness {
    job: PathBuf,
    lock: PathBuf,
    overlap: PathBuf,
    up: PathBuf,
}

impl Witness {
    fn new(scene: &Scene, on_term: &str) -> Self {
        let file = |name: &str| scene.path().join(name);
        let witness = Self {
            job: file("job"),
            lock: file("witness"),
            overlap: file("overlap"),
            up: file("up"),
        };
        let text = format!(
            "exec 9>{}\nflock -n 9 || touch {}\ntrap '{on_term}' TERM\necho $$ > {}\n\
             while :; do sleep 0.1; done\n",
            witness.lock.display(),
            witness.overlap.display(),
            witness.up.display(),
        );
        fs::write(&witness.job, text).expect("written");
        witness
    }

    fn wait_until_up(&self) {
        let written = || fs::read_to_string(&self.up).is_ok_and(|text| text.ends_with('\n'));
        wait_for("the job to run", written);
    }

    /// The next waiter, which checks too.
    fn next(&self, scene: &Scene) -> Child {
        let (lock, overlap) = (self.lock.display(), self.overlap.display());
        let look = format!("flock -n {lock} true || touch {overlap}");
        let next = scene.lock(&["x"], &["sh", "-c", &look]).stderr(Stdio::null()).spawn();
        wait_for("the next one to wait", || scene.show("x").contains("\"waiting\":[{"));
        next.expect("run")
    }
}

/// Runs a job under a lock, does something to it, and checks that the next job does not overlap.
fn never_two(script: &str, on_term: &str, end: impl Fn(&Scene, &Child)) {
    let scene = Scene::new();
    let witness = Witness::new(&scene, on_term);
    let script = script
        .replace("JOB", &format!("sh {}", witness.job.display()))
        .replace("PLACE", scene.path().to_str().expect("text"))
        .replace("MUTUA", scene.mutua());
    let first = scene.lock(&["x"], &["bash", "-c", &script]).stderr(Stdio::null()).spawn();
    let mut first = first.expect("run");
    witness.wait_until_up();
    let mut next = witness.next(&scene);
    end(&scene, &first);
    assert_eq!(next.wait().expect("ended").code(), Some(0));
    assert!(!witness.overlap.exists(), "two overlapped: {script}");
    assert_ne!(first.wait().expect("ended").code(), Some(0));
}

#[test]
fn after_a_signal_a_job_in_another_process_group_keeps_the_lock_until_it_has_exited() {
    for script in ["timeout 100 JOB; echo end", "set -m; JOB & wait", "setsid -w JOB; echo end"] {
        never_two(script, "sleep 1; exit", |_, first| kill("-TERM", first.id()));
    }
}

#[test]
fn a_job_whose_own_lock_is_killed_keeps_the_outer_lock_until_it_has_exited() {
    let inner = |scene: &Scene| -> u32 {
        let text = fs::read_to_string(scene.path().join("inner")).expect("written");
        text.trim().parse().expect("a process")
    };
    for script in [
        "echo $$ > PLACE/inner; exec MUTUA lock y -- JOB",
        "MUTUA lock y -- JOB & echo $! > PLACE/inner; wait $!; exit 3",
    ] {
        never_two(script, "", |scene, _| kill("-KILL", inner(scene)));
    }
}

#[test]
fn who_leaves_the_group_of_a_command_that_ends_by_itself_leaves_the_lock() {
    let scene = Scene::new();
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 99' & until test -s {0}; do sleep 0.1; done",
        scene.path().join("daemon").display()
    );
    assert_eq!(scene.lock(&["x"], &["sh", "-c", &script]).status().expect("run").code(), Some(0));
    let daemon = fs::read_to_string(scene.path().join("daemon")).expect("written");
    let daemon = Ends(daemon.trim().parse().expect("a process"));
    assert!(alive(daemon.0));
    assert_eq!(scene.lock(&["-n", "x"], &["true"]).status().expect("run").code(), Some(0));
}

/// A command that holds the lock and has printed a line, and the line.
fn up(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    (child, line.trim().to_owned())
}

#[test]
fn a_stopped_command_receives_signals_that_end_it() {
    for (name, number) in [("-TERM", 15), ("-HUP", 1), ("-INT", 2)] {
        let scene = Scene::new();
        let command = scene.lock(&["x"], &["sh", "-c", "echo $$; exec sleep 99"]);
        let (mut child, line) = up(command);
        let command = Ends(line.parse().expect("a process"));
        kill("-STOP", command.0);
        kill(name, child.id());
        let status = child.wait().expect("ended");
        assert!(status.code() == Some(128 + number) || status.signal() == Some(number));
    }
}

#[test]
fn of_an_interrupt_mutua_dies_as_the_command_does() {
    let scene = Scene::new();
    for (name, number) in [("INT", 2), ("QUIT", 3)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        let status = scene.lock(&["x"], &["sh", "-c", &script]).status().expect("run");
        assert_eq!(status.signal(), Some(number));
        let script = format!("{} lock x -- sh -c '{script}'; echo $?", scene.mutua());
        let output = scene.shell(&script).output().expect("run");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (128 + number).to_string());
    }
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let scene = Scene::new();
    let script = format!(
        "trap '' HUP INT; exec {} lock x -- sh -c 'grep SigIgn /proc/self/status; cat'",
        scene.mutua()
    );
    let mut command = scene.shell(&script);
    command.stdin(Stdio::piped());
    let (mut child, line) = up(command);
    let mask = line.split_ascii_whitespace().nth(1).map(|mask| u64::from_str_radix(mask, 16));
    assert_eq!(mask.expect("a mask").expect("a number") & 0b11, 0b11, "{line}");
    kill("-HUP", child.id());
    kill("-INT", child.id());
    // What is passed on is heard in order, so that the two would be heard before this.
    kill("-USR1", child.id());
    // Waiting would end its input, and with that the command.
    let _open = child.stdin.take();
    assert_eq!(child.wait().expect("ended").code(), Some(128 + 10));
}

#[test]
fn the_exit_code_of_the_command_is_known_although_sigchld_is_ignored() {
    let scene = Scene::new();
    let script = format!("trap '' CHLD; exec {} lock x -- sh -c 'exit 7'", scene.mutua());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("MUTUA_SOCKET", scene.socket()).env_remove("MUTUA_HELD");
    assert_eq!(command.status().expect("run").code(), Some(7));
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let scene = Scene::new();
    // Written by another process: a file that is open anywhere cannot be run.
    let make = "printf 'echo ran $1\\n' > old-job; chmod 755 old-job";
    assert!(scene.shell(make).current_dir(scene.path()).status().expect("run").success());
    let path = format!("{}:/usr/bin:/bin", scene.path().display());
    for name in ["./old-job", "old-job"] {
        let mut command = scene.lock(&["x"], &[name, "well"]);
        let output = command.current_dir(scene.path()).env("PATH", &path).output().expect("run");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran well\n");
    }
}

#[test]
fn the_status_descriptor_is_not_the_commands_and_must_be_for_writing() {
    let scene = Scene::new();
    let mutua = scene.mutua();
    let look =
        format!("exec {mutua} lock --status-fd 3 x -- test ! -e /proc/self/fd/3 3>/dev/null");
    assert_eq!(scene.shell(&look).status().expect("run").code(), Some(0));
    let wrong = format!("exec {mutua} lock --status-fd 3 x -- true 3</dev/null");
    let output = scene.shell(&wrong).output().expect("run");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("for reading only"));
}

fn break_it(scene: &Scene) {
    let broken = scene.command(&["break", "x", "--reason", "test", "--yes"]).output();
    assert!(broken.expect("run").status.success());
}

#[test]
fn after_a_loss_the_status_tells_what_the_command_died_of() {
    let scene = Scene::new();
    let file = scene.path().join("status");
    let script = format!(
        "exec {} lock --on-lost kill --status-fd 3 x -- sh -c 'echo up; exec sleep 99' 3>{}",
        scene.mutua(),
        file.display()
    );
    let mut command = scene.shell(&script);
    command.stderr(Stdio::null());
    let (mut child, _) = up(command);
    break_it(&scene);
    assert_eq!(child.wait().expect("ended").code(), Some(79));
    let text = fs::read_to_string(file).expect("written");
    let ended = text.lines().find(|line| line.contains("\"ended\"")).expect("it ended");
    assert!(ended.contains("\"signal\":9") && ended.contains("\"code\":137"), "{ended}");
}

#[test]
fn an_ignored_loss_is_reported_by_the_exit_code() {
    let scene = Scene::new();
    let mut command = scene.lock(&["--on-lost", "ignore", "x"], &["sh", "-c", "echo up; cat"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, _) = up(command);
    break_it(&scene);
    let mut printed = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut printed).expect("read");
    assert!(printed.contains("x is lost"), "{printed}");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("ended").code(), Some(79));
}

#[test]
fn a_process_that_cannot_be_killed_is_named_and_costs_no_cpu_time() {
    let scene = Scene::new();
    // Root without CAP_KILL is like a user whose command became root.
    let right = ["--bounding-set=-kill", "--inh-caps=-kill"];
    let other = "setpriv --reuid 23456 --clear-groups";
    let mut command = Command::new("setpriv");
    command.args(right).arg(scene.mutua()).args(["lock", "--ttl", "2", "x", "--", "sh", "-c"]);
    command.arg(format!("exec {other} sh -c 'echo $$; exec sleep 99'"));
    command.env("MUTUA_SOCKET", scene.socket()).env_remove("MUTUA_HELD").stderr(Stdio::piped());
    let (mut child, line) = up(command);
    let Ok(pid) = line.parse() else {
        child.wait().expect("ended");
        return println!("skipped: only root may become another user");
    };
    let command = Ends(pid);
    let supervisor = *supervisors(child.id()).first().expect("the supervisor");
    kill("-KILL", child.id());
    child.wait().expect("dead");
    let mut printed = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut printed).expect("read");
    // The shell has printed its number and may not have become `sleep` yet.
    let named = ["sh", "sleep"].map(|name| format!("process {pid} ({name}) cannot be"));
    assert!(named.iter().any(|named| printed.contains(named)), "{printed}");
    // It looks now and then, however long it has to. A busy one uses all the time that it gets.
    let begun = Instant::now();
    let before = ticks(supervisor);
    let next = scene.lock(&["-w", "20", "x"], &["sleep", "1"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
    let used = u128::from(ticks(supervisor) - before) * 10;
    assert!(alive(supervisor) && used * 3 < begun.elapsed().as_millis(), "{used} ms");
    drop(command);
    wait_for("the supervisor to exit", || !alive(supervisor));
    let mut more = String::new();
    stderr.read_to_string(&mut more).expect("read");
    assert_eq!(more, "", "it is printed once");
}

/// The time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    [11, 12].iter().filter_map(|&field| fields.get(field)?.parse::<u64>().ok()).sum()
}
