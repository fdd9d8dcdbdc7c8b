//! Clients: on each host a loop that runs a short job under the lock, again and again.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{cluster::Cluster, history::History, library};

/// The lease of a client. A lock whose client was killed is free at most this much later.
pub(crate) const TTL: &str = "6s";

/// A host, and an exit code that was not 0; none if a signal ended the command.
pub(crate) type Failure = (usize, Option<i32>);

/// What holds a lock, and what waits for it.
pub(crate) struct Workers {
    stopped: Arc<AtomicBool>,
    /// The process of `mutua lock` on each host, while there is one.
    running: Vec<Arc<Mutex<Option<u32>>>>,
    failures: Arc<Mutex<Vec<Failure>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(cluster: &Cluster, history: &History) -> Self {
        let lock = ["lock", "--config", "mutua.toml", "--ttl", TTL, "-w", "30", "x", "--"];
        let command = |index: usize| history.run_job(cluster.command(index, &lock), index);
        Self::with(cluster, command)
    }

    /// The jobs alone: what they would do if there were no lock.
    pub(crate) fn start_without_lock(cluster: &Cluster, history: &History) -> Self {
        let command = |index: usize| {
            let mut command = cluster.host(index).command("env");
            command.arg("LOCK_TOKEN=1");
            history.run_job(command, index)
        };
        Self::with(cluster, command)
    }

    /// Programs that use the client library.
    pub(crate) fn start_library(cluster: &Cluster, history: &History) -> Self {
        Self::with(cluster, |index| library::command(cluster, history, index))
    }

    fn with(cluster: &Cluster, command: impl Fn(usize) -> Command) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let running: Vec<Arc<Mutex<Option<u32>>>> =
            (0..cluster.hosts()).map(|_| Arc::default()).collect();
        let failures = Arc::new(Mutex::new(Vec::new()));
        let start = |index: usize| {
            let mut command = command(index);
            let log = PathBuf::from(cluster.host(index).directory()).join("lock.log");
            let (stopped, running) = (Arc::clone(&stopped), Arc::clone(&running[index]));
            let failures = Arc::clone(&failures);
            thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let log = std::fs::OpenOptions::new().create(true).append(true).open(&log);
                    command.stderr(log.expect("a log")).stdin(Stdio::null()).stdout(Stdio::null());
                    let child: Child = command.spawn().expect("a client");
                    let code = wait(child, &running);
                    if code != Some(0) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push((index, code));
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let threads = (0..cluster.hosts()).map(start).collect();
        Self { stopped, running, failures, threads }
    }

    /// The process of `mutua lock` on a host, holding or waiting.
    pub(crate) fn pid(&self, host: usize) -> Option<u32> {
        *self.running[host].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the last jobs have ended. Returns the exit codes that were not 0.
    pub(crate) fn stop(mut self) -> Vec<Failure> {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a client's loop does not panic");
        }
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn wait(mut child: Child, running: &Mutex<Option<u32>>) -> Option<i32> {
    let set = |pid| *running.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    set(Some(child.id()));
    let ended = child.wait();
    set(None);
    ended.ok()?.code()
}
