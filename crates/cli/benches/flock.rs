//! What `mutua lock` costs beside flock(1):
//!
//!     cargo bench -p mutua --bench flock
//!
//! Both run `true`, in turns, so that both see the same machine; the node runs already. Printed are
//! medians of wall time and their ratio.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const ROUNDS: usize = 300;

fn main() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("s");
    // Leaves by itself when the benchmark is over.
    let mutua = || lock(&socket);
    run(mutua());
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut flock = Command::new("flock");
        flock.arg(place.path().join("file")).arg("true");
        theirs.push(run(flock));
        ours.push(run(mutua()));
    }
    let (theirs, ours) = (median(theirs), median(ours));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("flock {theirs:?}, mutua lock {ours:?}: {ratio:.2}x (at most 5 wanted)");
}

fn lock(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(["lock", "x", "--", "true"]);
    command.env("MUTUA_SOCKET", socket).env("MUTUA_IDLE_MS", "2000");
    command
}

fn run(mut command: Command) -> Duration {
    let begun = Instant::now();
    let status = command.stdin(Stdio::null()).status().expect("run");
    assert!(status.success(), "{status}");
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
