//! A directory, an endpoint and a local node for one test, removed at its end.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The directory of a test; its local node serves there.
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    idle: Duration,
}

impl Scene {
    pub(crate) fn new() -> Self {
        // If a test fails to stop its node, the node exits by itself.
        Self::idle_after(Duration::from_secs(5))
    }

    pub(crate) fn idle_after(idle: Duration) -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), idle }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("s")
    }

    pub(crate) fn mutua(&self) -> &'static str {
        env!("CARGO_BIN_EXE_mutua")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.mutua());
        command.args(arguments);
        self.at(command)
    }

    pub(crate) fn shell(&self, text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        self.at(command)
    }

    fn at(&self, mut command: Command) -> Command {
        command
            .stdin(Stdio::null())
            .env("MUTUA_SOCKET", self.socket())
            .env("MUTUA_IDLE_MS", self.idle.as_millis().to_string())
            .env_remove("MUTUA_HELD");
        command
    }

    pub(crate) fn lock(&self, options: &[&str], command: &[&str]) -> Command {
        let all = [&["lock"], options, &["--"], command].concat();
        self.command(&all)
    }

    /// A process that holds the lock.
    pub(crate) fn holder(&self, name: &str) -> Holder {
        self.holder_with(name, &[])
    }

    pub(crate) fn holder_with(&self, name: &str, options: &[&str]) -> Holder {
        let options = [options, &[name]].concat();
        let mut command = self.lock(&options, &["sh", "-c", "echo in; cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("read");
        assert_eq!(line, "in\n");
        Holder { child, _stdout: stdout }
    }

    /// A lock as JSON.
    pub(crate) fn show(&self, name: &str) -> String {
        let output = self.command(&["show", "--json", name]).output().expect("run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The process of the local node; 0 if there is none.
    pub(crate) fn node_pid(&self) -> u32 {
        let socket = self.socket();
        let socket = socket.to_str().expect("text");
        for entry in fs::read_dir("/proc").expect("read").flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|&byte| byte == 0).collect();
            let ours = words.get(1) == Some(&b"__node".as_slice())
                && words.get(3) == Some(&socket.as_bytes());
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
                && ours
                && alive(pid)
            {
                return pid;
            }
        }
        0
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let node = self.node_pid();
        if node > 0 {
            kill("-KILL", node);
        }
    }
}

/// A process that holds a lock until it is released.
pub(crate) struct Holder {
    child: Child,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Holder {
    pub(crate) fn release(&mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.child.wait().expect("ended").code(), Some(0));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn kill(signal: &str, pid: u32) {
    let status =
        Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
    status.expect("kill is there");
}

/// Whether a process exists and is not a zombie.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

/// The supervisors among the children of a process.
pub(crate) fn supervisors(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let pids = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    let is_supervisor = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).nth(1) == Some(b"__supervisor")
    };
    pids.filter(is_supervisor).collect()
}

/// Waits until a condition holds, for half a minute at most.
pub(crate) fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
