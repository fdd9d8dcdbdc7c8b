//! One server process, ended when it is dropped.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    name: String,
    log: PathBuf,
    stop: Signal,
}

/// The user that a server runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum User {
    /// The user of this process.
    Same,
    /// `postgres`, if this is root, whom PostgreSQL refuses.
    Postgres,
}

/// A command that gets a signal when this process dies, however that happens.
pub(super) fn command(program: &str, user: User) -> Command {
    let mut command = Command::new("setpriv");
    if user == User::Postgres && rustix::process::getuid().is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.args(["--pdeathsig", "TERM", "--", program]);
    command.stdin(Stdio::null());
    command
}

impl Server {
    /// Starts it; its output goes to a file.
    pub(super) fn start(mut command: Command, name: &str, home: &Path) -> Result<Self> {
        let log = home.join(format!("{name}.log"));
        let file = File::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("{name} does not start"))?;
        Ok(Self { child, name: name.to_owned(), log, stop: Signal::TERM })
    }

    /// Ends it by another signal than TERM.
    pub(super) fn stopped_by(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What is wrong, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(3).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        Some(format!("{} ended ({status}): {}", self.name, last.join(" / ")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // It may have ended already.
        let _ = kill_process(pid, self.stop);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
