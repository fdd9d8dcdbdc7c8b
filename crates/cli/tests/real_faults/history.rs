//! What the jobs did: who held the lock when, with which fencing token.

use std::{fmt::Debug, fs, path::Path, process::Command};

use crate::library;

/// A job under the lock, in a shell. The kernel's lock on a file shows whether another job runs at
/// the same time; it ends with the process, however that ends. The file `last` refuses no write
/// here: a token that is not above the last one is noted as a violation. `MUTUA_HOLD` is how long
/// the lock is held, in seconds: longer where several campaigns share the machine.
const JOB: &str = r#"
    cd "$0" && exec 9>>section
    flock -n 9 || echo "two holders: $1 with token $LOCK_TOKEN" >>violations
    last=$(cat last 2>/dev/null || echo 0)
    [ "$LOCK_TOKEN" -gt "$last" ] || echo "token $LOCK_TOKEN of $1 after $last" >>violations
    echo "$LOCK_TOKEN" >last.new && mv last.new last
    echo "$1 $LOCK_TOKEN" >>entries
    sleep "${MUTUA_HOLD:-0.02}" 9>&-
"#;

/// Files that all jobs share, whatever host they run on.
pub(crate) struct History {
    directory: tempfile::TempDir,
}

impl History {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    /// A command that ends with the job of a host.
    pub(crate) fn run_job(&self, mut command: Command, host: usize) -> Command {
        command.args(["sh", "-c", JOB]).arg(self.directory()).arg(host.to_string());
        command
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// How often the lock was held.
    pub(crate) fn entries(&self) -> usize {
        self.read("entries").lines().count()
    }

    /// The same for each host.
    pub(crate) fn entries_by_host(&self, hosts: usize) -> Vec<usize> {
        let text = self.read("entries");
        let of = |host: usize| {
            let begin = format!("{host} ");
            text.lines().filter(|line| line.starts_with(&begin)).count()
        };
        (0..hosts).map(of).collect()
    }

    /// The host that held the lock last.
    pub(crate) fn last_host(&self) -> Option<usize> {
        self.read("entries").lines().next_back()?.split(' ').next()?.parse().ok()
    }

    pub(crate) fn violation(&self) -> Option<String> {
        let of_jobs = Some(self.read("violations")).filter(|text| !text.is_empty());
        of_jobs.or_else(|| library::violation(&self.read("holds")))
    }

    /// Panics if two jobs held the lock at the same time, or a token did not grow.
    pub(crate) fn check(&self, after: &impl Debug) {
        if let Some(violation) = self.violation() {
            panic!("after {after:?}: {violation}");
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }
}
