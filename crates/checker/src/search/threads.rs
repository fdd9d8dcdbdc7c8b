//! Several workers, each in a thread of its own, while the caller's thread watches the limits.

use std::{
    sync::atomic::{
        AtomicUsize,
        Ordering::{AcqRel, Acquire},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use super::{Common, Done, Worker};
use crate::{host::Watch, limits::Stop};

/// How long the caller's thread sleeps between two looks at the limits.
const NAP: Duration = Duration::from_millis(2);

/// Runs the workers; returns the limit that stopped them, if one did.
pub(super) fn run(
    workers: Vec<Worker<'_>>,
    common: &Common<'_>,
    watch: &mut Watch<'_>,
) -> (Vec<Done>, Option<Stop>) {
    let running = AtomicUsize::new(workers.len());
    let watcher = thread::current();
    let mut stopped = None;
    let done = thread::scope(|scope| {
        let (running, watcher) = (&running, &watcher);
        let started = workers.into_iter().map(|worker| {
            scope.spawn(move || {
                let done = worker.run(&mut || ());
                running.fetch_sub(1, AcqRel);
                watcher.unpark();
                done
            })
        });
        let threads: Vec<_> = started.collect();
        while running.load(Acquire) > 0 {
            thread::park_timeout(NAP);
            stopped = stopped.or(common.look(watch));
        }
        let join =
            |thread: ScopedJoinHandle<'_, Done>| thread.join().expect("a worker does not panic");
        threads.into_iter().map(join).collect()
    });
    (done, stopped)
}
