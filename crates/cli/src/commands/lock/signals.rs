//! The signals that `mutua lock` receives.

use std::{
    fs,
    future::poll_fn,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    task::Poll,
};

use anyhow::Result;
use nix::sys::signal::{
    SigSet,
    Signal::{
        self, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
        SIGWINCH,
    },
};
use tokio::{
    io::AsyncReadExt,
    net::UnixStream,
    signal::unix::{SignalKind, signal},
};

/// The first argument of a process that kills itself with a signal.
pub(crate) const ARGUMENT: &str = "__die";

/// The signals that end a wait.
const ENDING: [Signal; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// The signals that are only forwarded. A stopped command still holds the lock, and its lease is
/// renewed. But on a terminal we are stopped with it (Ctrl-Z): then the supervisor kills it in
/// time.
const PASSED: [Signal; 5] = [SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT];

type Listener = (i32, tokio::signal::unix::Signal);

pub(super) struct Signals {
    ignored: u64,
    ending: Vec<Listener>,
    passed: Vec<Listener>,
    /// The process that waits for this one: its exit ends the wait.
    caller: Option<UnixStream>,
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        let ignored = ignored();
        Ok(Self { ignored, ending: listen(&ENDING, ignored)?, passed: Vec::new(), caller: None })
    }

    /// From now on there is a command to forward signals to.
    pub(super) fn pass_on(&mut self) -> Result<()> {
        self.passed = listen(&PASSED, self.ignored)?;
        if is_in(self.ignored, SIGCHLD) {
            // While it is ignored, the exit status of a child is lost. A handler is not inherited,
            // so the supervisor has the default again.
            let _ = signal(SignalKind::child())?;
        }
        Ok(())
    }

    /// From now on the exit of this process ends a wait too.
    pub(super) fn end_with(&mut self, caller: UnixStream) {
        self.caller = Some(caller);
    }

    /// The next signal that ends a wait.
    pub(super) async fn ending(&mut self) -> i32 {
        let Some(caller) = &mut self.caller else { return next(&mut self.ending, &mut []).await };
        tokio::select! {
            biased;
            signal = next(&mut self.ending, &mut []) => signal,
            // It never writes: a read returns when it exits.
            _ = caller.read_u8() => SIGHUP as i32,
        }
    }

    /// The next signal of either kind.
    pub(super) async fn any(&mut self) -> i32 {
        next(&mut self.ending, &mut self.passed).await
    }
}

/// Listens to the signals that were not ignored when we were started. The others stay ignored, here
/// and in the command, as nohup and `command &` in a script require.
fn listen(signals: &[Signal], ignored: u64) -> Result<Vec<Listener>> {
    let listen = |&one: &Signal| Ok((one as i32, signal(SignalKind::from_raw(one as i32))?));
    signals.iter().filter(|&&one| !is_in(ignored, one)).map(listen).collect()
}

/// The signals that this process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn is_in(mask: u64, signal: Signal) -> bool {
    (mask >> (signal as i32 - 1)) & 1 == 1
}

async fn next(some: &mut [Listener], more: &mut [Listener]) -> i32 {
    poll_fn(|context| {
        for (number, listener) in some.iter_mut().chain(more.iter_mut()) {
            if listener.poll_recv(context).is_ready() {
                return Poll::Ready(*number);
            }
        }
        Poll::Pending
    })
    .await
}

/// Ends this process the way a signal ended the command or the wait, when all else is done. After
/// SIGINT and SIGQUIT we kill ourselves with the same signal: a script or loop in a shell then
/// ends, but continues after a mere exit code.
pub(super) fn end(signal: i32) -> ExitCode {
    if [SIGINT as i32, SIGQUIT as i32].contains(&signal) {
        // A new program has the default handlers.
        let mut command = Command::new("/proc/self/exe");
        let _ = command.arg0("mutua").args([ARGUMENT, &signal.to_string()]).exec();
    }
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// Kills this process with a signal.
pub(crate) fn die(arguments: &[std::ffi::OsString]) -> ExitCode {
    use rustix::process::{Resource, Rlimit, getpid, kill_process, setrlimit};
    let number = arguments.get(1).and_then(|number| number.to_str()?.parse().ok()).unwrap_or(0);
    // A core of this process is useless.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = SigSet::all().thread_unblock();
    if let Some(signal) = rustix::process::Signal::from_named_raw(number) {
        let _ = kill_process(getpid(), signal);
    }
    ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
}
