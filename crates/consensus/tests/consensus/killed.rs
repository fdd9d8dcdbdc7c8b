//! SIGKILL at each write of the log store, in a process of its own on a real directory.

use std::{
    collections::BTreeSet, env, io, os::unix::process::ExitStatusExt as _, path::Path,
    process::Command, thread, time::Duration,
};

use mutua_consensus::{Directory, Disk, EngineConfig, Origin, StateMachine};
use tokio::time::sleep;

use crate::{
    cluster::ids,
    judge::{List, command},
    storage::{LONE, alone_on},
};

/// Where the process that is to be killed finds its directory, and the write that kills it.
const DIRECTORY: &str = "MUTUA_KILLED_DIRECTORY";
const AT: &str = "MUTUA_KILLED_AT";

/// The commands that the process decides: enough for a snapshot and what follows it.
const COMMANDS: u64 = 9;

/// A directory whose process is killed in the middle of a write.
struct Mortal {
    directory: Directory,
    /// The writes until then.
    left: u64,
}

impl Mortal {
    fn write_or_die(
        &mut self,
        write: impl FnOnce(&mut Directory) -> io::Result<()>,
        part: impl FnOnce(&mut Directory) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.left > 0 {
            self.left -= 1;
            return write(&mut self.directory);
        }
        part(&mut self.directory)?;
        let pid = std::process::id().to_string();
        Command::new("kill").args(["-KILL", &pid]).status()?;
        loop {
            thread::park();
        }
    }
}

impl Disk for Mortal {
    fn read(&mut self, file: &str) -> io::Result<Option<Vec<u8>>> {
        self.directory.read(file)
    }

    fn write(&mut self, file: &str, contents: &[u8]) -> io::Result<()> {
        let half = &contents[..contents.len() / 2];
        self.write_or_die(|disk| disk.write(file, contents), |disk| disk.write(file, half))
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let half = &bytes[..bytes.len() / 2];
        self.write_or_die(|disk| disk.append(file, bytes), |disk| disk.append(file, half))
    }

    fn sync(&mut self, file: &str) -> io::Result<()> {
        self.write_or_die(|disk| disk.sync(file), |_| Ok(()))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.write_or_die(|disk| disk.rename(from, to), |_| Ok(()))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.write_or_die(Directory::sync_directory, |_| Ok(()))
    }
}

/// Prints each command that is decided: a reader of that takes it for acknowledged.
struct Printed(List);

impl StateMachine for Printed {
    fn apply(&mut self, command: &[u8]) {
        self.0.apply(command);
        println!("decided {}", self.0.0.lock().unwrap().last().expect("just applied"));
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.snapshot()
    }

    fn restore(&mut self, snapshot: &[u8]) {
        self.0.restore(snapshot);
    }
}

fn settings(path: &Path) -> EngineConfig {
    // Before the identity is there, the voter has never run.
    let existed = path.join("identity").exists();
    let origin = if existed { Origin::Existing } else { Origin::Founding };
    let mut settings = EngineConfig::new(LONE, origin);
    settings.snapshot_every = 5;
    settings
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn decide_until_killed() {
    let (Some(path), Ok(at)) = (env::var_os(DIRECTORY), env::var(AT)) else { return };
    let path = Path::new(&path);
    let directory = Directory::open(path).expect("a directory");
    let disk = Mortal { directory, left: at.parse().expect("a number") };
    let list = List::default();
    let machine = Printed(list.clone());
    let engine = alone_on(settings(path), Box::new(disk), Box::new(machine)).await;
    engine.initialize(&ids([1])).await.expect("it is new");
    for number in 0..COMMANDS {
        while engine.propose(command(number)).is_err() {
            sleep(Duration::from_millis(2)).await;
        }
        while list.0.lock().unwrap().len() <= number as usize {
            sleep(Duration::from_millis(1)).await;
        }
    }
    engine.stop().await;
}

/// Runs that process; returns what it acknowledged, and whether it was killed.
fn run_until_killed(path: &Path, at: u64) -> (BTreeSet<u64>, bool) {
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.args(["--exact", "killed::decide_until_killed", "--nocapture"]);
    let output = child.env(DIRECTORY, path).env(AT, at.to_string()).output().expect("run");
    let killed = output.status.signal() == Some(9);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(killed || output.status.success(), "{at}: {text}{output:?}");
    let decided = text.lines().filter_map(|line| line.strip_prefix("decided "));
    (decided.map(|number| number.parse().expect("a number")).collect(), killed)
}

#[tokio::test]
async fn trap_25_a_process_killed_at_any_write_loses_nothing_that_was_acknowledged() {
    for at in 0.. {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let (acknowledged, killed) = run_until_killed(path, at);
        let disk = Box::new(Directory::open(path).expect("a directory"));
        let list = List::default();
        let engine = alone_on(settings(path), disk, Box::new(list.clone())).await;
        // It may have been killed before it was initialized.
        let _ = engine.initialize(&ids([1])).await;
        // A new command is decided behind all others.
        while engine.propose(command(1000)).is_err() {
            sleep(Duration::from_millis(2)).await;
        }
        while list.0.lock().unwrap().last() != Some(&1000) {
            sleep(Duration::from_millis(1)).await;
        }
        let decided: BTreeSet<_> = list.0.lock().unwrap().iter().copied().collect();
        assert!(decided.is_superset(&acknowledged), "{at}: {acknowledged:?}, {decided:?}");
        engine.stop().await;
        if !killed {
            assert_eq!(acknowledged.len(), COMMANDS as usize);
            assert!(at > 30, "only {at} writes");
            break;
        }
    }
}
