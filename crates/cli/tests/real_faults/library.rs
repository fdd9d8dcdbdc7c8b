//! Clients of the Rust library, which are granted a lock before their hold is recorded. A client is
//! this program again, with the test `library::client` alone.
//!
//! A shell that holds a lock is ended before it is lost; a program that uses the library asks
//! `is_good`. So what a client notes is when it knew that it held the lock: the time is read first,
//! then the guard is asked. However late a busy machine runs the client, these times of two clients
//! must not overlap.

use std::{
    env, fs,
    io::Write as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mutua_algorithms::split_mix;
use mutua_client::{Options, blocking::Guard};

use crate::{
    cluster::{self, Cluster},
    history::History,
};

const SOCKET: &str = "MUTUA_TEST_SOCKET";
const HOLDS: &str = "MUTUA_TEST_HOLDS";
const HOST: &str = "MUTUA_TEST_HOST";

/// A client on a host: it acquires the lock some times, then ends.
pub(crate) fn command(cluster: &Cluster, history: &History, index: usize) -> Command {
    let own = env::current_exe().expect("this program");
    let host = cluster.host(index);
    let mut command = host.command(own);
    command.args(["--exact", "library::client", "--quiet"]);
    command.env(SOCKET, cluster::data(host).join("locks.sock"));
    command.env(HOLDS, history.directory()).env(HOST, index.to_string());
    command
}

/// What a client does. Without its variables this test has nothing to do.
#[test]
fn client() {
    let (Ok(socket), Ok(holds), Ok(host)) = (env::var(SOCKET), env::var(HOLDS), env::var(HOST))
    else {
        return;
    };
    let options = Options::new([format!("unix:{socket}")]).lease(Duration::from_secs(6));
    let Ok(client) = options.connect_blocking() else {
        // The node is down: the next client tries again.
        return thread::sleep(Duration::from_millis(100));
    };
    let lock = client.lock("x");
    let mut dice = now() ^ u64::from(std::process::id());
    for _ in 0..20 {
        let Ok(guard) = lock.acquire_within(Duration::from_secs(30)) else { return };
        hold(&guard, &mut dice, Path::new(&holds), &host);
    }
}

/// Holds the lock for up to 3 ms, which is not recorded, or for up to 300, and notes it.
fn hold(guard: &Guard, dice: &mut u64, holds: &Path, host: &str) {
    let most = if split_mix::next(dice).is_multiple_of(4) { 300_000 } else { 3000 };
    let length = Duration::from_micros(split_mix::next(dice) % most);
    let begun = now();
    if !guard.is_good() {
        return;
    }
    let (token, mut last) = (guard.fencing_token(), begun);
    append(&holds.join("entries"), &format!("{host} {token}\n"));
    loop {
        let at = now();
        if !guard.is_good() {
            break;
        }
        last = at;
        if Duration::from_nanos(last - begun) >= length {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    append(&holds.join("holds"), &format!("{host} {token} {begun} {last}\n"));
}

/// The time that all hosts share, in nanoseconds.
fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(time.as_nanos()).expect("before 2500")
}

/// One write, so that lines of several clients do not mix.
fn append(file: &Path, line: &str) {
    let file = fs::OpenOptions::new().create(true).append(true).open(file);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("written");
}

/// Two clients that knew that they held the lock at the same time, or a fencing token that did not
/// grow.
pub(crate) fn violation(holds: &str) -> Option<String> {
    let parse = |line: &str| -> Option<(u64, u64, u64, String)> {
        let [_, token, begun, last] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let number = |text: &str| text.parse().ok();
        Some((number(begun)?, number(last)?, number(token)?, line.to_owned()))
    };
    let mut holds: Vec<_> = holds.lines().map(|line| parse(line).expect("a hold")).collect();
    holds.sort_unstable();
    holds.windows(2).find_map(|pair| {
        let ((_, last, token, one), (begun, _, next, other)) = (&pair[0], &pair[1]);
        let wrong = begun < last || next <= token;
        wrong.then(|| format!("host, fencing token, begin and end: {one}; {other}"))
    })
}

#[test]
fn holds_that_overlap_and_tokens_that_do_not_grow_are_found() {
    assert_eq!(violation("0 5 100 200\n1 6 200 300\n2 7 300 300\n"), None);
    assert!(violation("0 5 100 200\n1 6 199 300\n").is_some());
    assert!(violation("1 6 200 300\n0 6 100 200\n").is_some());
}
