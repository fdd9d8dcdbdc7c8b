//! Signals that `mutua lock` gets.

use std::{future::poll_fn, process::ExitCode, task::Poll};

use anyhow::Result;
use nix::sys::signal::Signal::{
    self, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use tokio::signal::unix::{SignalKind, signal};

/// Those that end a wait.
const ENDING: [Signal; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Those that are only passed on. SIGTSTP stops us, and the terminal has stopped the command.
const PASSED: [Signal; 4] = [SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT];

type Listener = (i32, tokio::signal::unix::Signal);

pub(super) struct Signals {
    ending: Vec<Listener>,
    passed: Vec<Listener>,
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { ending: listen(&ENDING)?, passed: Vec::new() })
    }

    /// From now on there is a command to pass signals on to.
    pub(super) fn pass_on(&mut self) -> Result<()> {
        self.passed = listen(&PASSED)?;
        Ok(())
    }

    /// The next one that ends a wait.
    pub(super) async fn ending(&mut self) -> i32 {
        next(&mut self.ending, &mut Vec::new()).await
    }

    /// The next one of all.
    pub(super) async fn any(&mut self) -> i32 {
        next(&mut self.ending, &mut self.passed).await
    }
}

fn listen(signals: &[Signal]) -> Result<Vec<Listener>> {
    let listen = |&one: &Signal| Ok((one as i32, signal(SignalKind::from_raw(one as i32))?));
    signals.iter().map(listen).collect()
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

/// How a process exits that a signal ended.
pub(super) fn code(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
