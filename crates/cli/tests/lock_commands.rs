//! What `mutua lock` does with the command: who is inside with it, signals, its ways to end.

#[path = "lock/place.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod place;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use place::{Place, alive, children, kill, wait_for};

/// A process that dies with the test.
struct Ends(u32);

impl Drop for Ends {
    fn drop(&mut self) {
        kill("-KILL", self.0);
    }
}

/// A job that sees by a lock of its own whether two are inside, and is slow to end.
struct Witness {
    job: PathBuf,
    lock: PathBuf,
    overlap: PathBuf,
    up: PathBuf,
}

impl Witness {
    fn new(place: &Place, on_term: &str) -> Self {
        let file = |name: &str| place.path().join(name);
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

    /// The next one in line, who looks too.
    fn next(&self, place: &Place) -> Child {
        let (lock, overlap) = (self.lock.display(), self.overlap.display());
        let look = format!("flock -n {lock} true || touch {overlap}");
        let next = place.lock(&["x"], &["sh", "-c", &look]).stderr(Stdio::null()).spawn();
        wait_for("the next one to wait", || place.show("x").contains("\"waiting\":[{"));
        next.expect("run")
    }
}

/// Runs a job under a lock, does something to it, and looks whether the next one is inside with it.
fn never_two(script: &str, on_term: &str, end: impl Fn(&Place, &Child)) {
    let place = Place::new();
    let witness = Witness::new(&place, on_term);
    let script = script
        .replace("JOB", &format!("sh {}", witness.job.display()))
        .replace("PLACE", place.path().to_str().expect("text"))
        .replace("MUTUA", place.mutua());
    let first = place.lock(&["x"], &["bash", "-c", &script]).stderr(Stdio::null()).spawn();
    let mut first = first.expect("run");
    witness.wait_until_up();
    let mut next = witness.next(&place);
    end(&place, &first);
    assert_eq!(next.wait().expect("ended").code(), Some(0));
    assert!(!witness.overlap.exists(), "two were inside: {script}");
    assert_ne!(first.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_job_in_another_process_group_is_inside_until_it_has_ended_after_a_signal() {
    for script in ["timeout 100 JOB; echo end", "set -m; JOB & wait", "setsid -w JOB; echo end"] {
        never_two(script, "sleep 1; exit", |_, first| kill("-TERM", first.id()));
    }
}

#[test]
fn a_job_whose_own_lock_is_killed_is_inside_the_outer_one_until_it_has_ended() {
    let inner = |place: &Place| -> u32 {
        let text = fs::read_to_string(place.path().join("inner")).expect("written");
        text.trim().parse().expect("a process")
    };
    for script in [
        "echo $$ > PLACE/inner; exec MUTUA lock y -- JOB",
        "MUTUA lock y -- JOB & echo $! > PLACE/inner; wait $!; exit 3",
    ] {
        never_two(script, "", |place, _| kill("-KILL", inner(place)));
    }
}

#[test]
fn who_leaves_the_group_of_a_command_that_ends_by_itself_leaves_the_lock() {
    let place = Place::new();
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 99' & until test -s {0}; do sleep 0.1; done",
        place.path().join("daemon").display()
    );
    assert_eq!(place.lock(&["x"], &["sh", "-c", &script]).status().expect("run").code(), Some(0));
    let daemon = fs::read_to_string(place.path().join("daemon")).expect("written");
    let daemon = Ends(daemon.trim().parse().expect("a process"));
    assert!(alive(daemon.0));
    assert_eq!(place.lock(&["-n", "x"], &["true"]).status().expect("run").code(), Some(0));
}

/// A command inside that has printed a line, and the line.
fn up(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    (child, line.trim().to_owned())
}

#[test]
fn a_stopped_command_hears_signals_that_end_it() {
    for (name, number) in [("-TERM", 15), ("-HUP", 1), ("-INT", 2)] {
        let place = Place::new();
        let command = place.lock(&["x"], &["sh", "-c", "echo $$; exec sleep 99"]);
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
    let place = Place::new();
    for (name, number) in [("INT", 2), ("QUIT", 3)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        let status = place.lock(&["x"], &["sh", "-c", &script]).status().expect("run");
        assert_eq!(status.signal(), Some(number));
        let script = format!("{} lock x -- sh -c '{script}'; echo $?", place.mutua());
        let output = place.shell(&script).output().expect("run");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (128 + number).to_string());
    }
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let place = Place::new();
    let script = format!(
        "trap '' HUP INT; exec {} lock x -- sh -c 'grep SigIgn /proc/self/status; cat'",
        place.mutua()
    );
    let mut command = place.shell(&script);
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
fn how_the_command_ended_is_known_though_dead_children_are_ignored() {
    let place = Place::new();
    let script = format!("trap '' CHLD; exec {} lock x -- sh -c 'exit 7'", place.mutua());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("MUTUA_SOCKET", place.socket()).env_remove("MUTUA_HELD");
    assert_eq!(command.status().expect("run").code(), Some(7));
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let place = Place::new();
    // Written by another process: a file that is open anywhere cannot be run.
    let make = "printf 'echo ran $1\\n' > old-job; chmod 755 old-job";
    assert!(place.shell(make).current_dir(place.path()).status().expect("run").success());
    let path = format!("{}:/usr/bin:/bin", place.path().display());
    for name in ["./old-job", "old-job"] {
        let mut command = place.lock(&["x"], &[name, "well"]);
        let output = command.current_dir(place.path()).env("PATH", &path).output().expect("run");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ran well\n");
    }
}

#[test]
fn the_status_descriptor_is_not_the_commands_and_must_be_for_writing() {
    let place = Place::new();
    let mutua = place.mutua();
    let look =
        format!("exec {mutua} lock --status-fd 3 x -- test ! -e /proc/self/fd/3 3>/dev/null");
    assert_eq!(place.shell(&look).status().expect("run").code(), Some(0));
    let wrong = format!("exec {mutua} lock --status-fd 3 x -- true 3</dev/null");
    let output = place.shell(&wrong).output().expect("run");
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("for reading only"));
}

fn break_it(place: &Place) {
    let broken = place.command(&["break", "x", "--reason", "test", "--yes"]).output();
    assert!(broken.expect("run").status.success());
}

#[test]
fn after_a_loss_the_status_tells_what_the_command_died_of() {
    let place = Place::new();
    let file = place.path().join("status");
    let script = format!(
        "exec {} lock --on-lost kill --status-fd 3 x -- sh -c 'echo up; exec sleep 99' 3>{}",
        place.mutua(),
        file.display()
    );
    let mut command = place.shell(&script);
    command.stderr(Stdio::null());
    let (mut child, _) = up(command);
    break_it(&place);
    assert_eq!(child.wait().expect("ended").code(), Some(79));
    let text = fs::read_to_string(file).expect("written");
    let ended = text.lines().find(|line| line.contains("\"ended\"")).expect("it ended");
    assert!(ended.contains("\"signal\":9") && ended.contains("\"code\":137"), "{ended}");
}

#[test]
fn a_loss_that_is_to_be_ignored_is_told_in_the_end() {
    let place = Place::new();
    let mut command = place.lock(&["--on-lost", "ignore", "x"], &["sh", "-c", "echo up; cat"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, _) = up(command);
    break_it(&place);
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("read");
    assert!(said.contains("x is lost"), "{said}");
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("ended").code(), Some(79));
}

#[test]
fn who_cannot_be_ended_is_named_and_costs_nothing() {
    let place = Place::new();
    // Root without the right to signal others is what anybody is for whom a command became root.
    let right = ["--bounding-set=-kill", "--inh-caps=-kill"];
    let other = "setpriv --reuid 23456 --clear-groups";
    let mut command = Command::new("setpriv");
    command.args(right).arg(place.mutua()).args(["lock", "--ttl", "2", "x", "--", "sh", "-c"]);
    command.arg(format!("exec {other} sh -c 'echo $$; exec sleep 99'"));
    command.env("MUTUA_SOCKET", place.socket()).env_remove("MUTUA_HELD").stderr(Stdio::piped());
    let (mut child, line) = up(command);
    let Ok(pid) = line.parse() else {
        child.wait().expect("ended");
        return println!("not looked at: only root may become another user");
    };
    let command = Ends(pid);
    let guard = *children(child.id()).first().expect("the guard");
    kill("-KILL", child.id());
    child.wait().expect("dead");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("read");
    assert!(said.contains(&format!("process {pid} (sleep) cannot be")), "{said}");
    // It looks now and then, however long it has to. A busy one uses all the time that it gets.
    let begun = Instant::now();
    let before = ticks(guard);
    let next = place.lock(&["-w", "20", "x"], &["sleep", "1"]).status().expect("run");
    assert_eq!(next.code(), Some(0));
    let used = u128::from(ticks(guard) - before) * 10;
    assert!(alive(guard) && used * 3 < begun.elapsed().as_millis(), "{used} ms");
    drop(command);
    wait_for("the guard to end", || !alive(guard));
    let mut more = String::new();
    stderr.read_to_string(&mut more).expect("read");
    assert_eq!(more, "", "it is said once");
}

/// The time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    [11, 12].iter().filter_map(|&field| fields.get(field)?.parse::<u64>().ok()).sum()
}
